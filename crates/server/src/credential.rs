//! Where a request shows its API key.

use axum::http::{HeaderMap, header};

/// The API key that a request shows: of `Authorization: Bearer`, `x-api-key` or `api-key`, the first that is there.
pub(super) fn api_key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    let named = |name| headers.get(name).and_then(|value| value.to_str().ok());
    bearer.or_else(|| named("x-api-key")).or_else(|| named("api-key"))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn a_key_is_read_from_the_headers_of_every_client() {
        let check = |headers: &[(&'static str, &'static str)], expected| {
            let headers = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            assert_eq!(api_key(&HeaderMap::from_iter(headers)), expected);
        };
        check(&[("authorization", "Bearer weir_a")], Some("weir_a"));
        check(&[("authorization", "bearer  weir_a ")], Some("weir_a"));
        check(&[("x-api-key", "weir_a")], Some("weir_a"));
        check(&[("api-key", "weir_a")], Some("weir_a"));
        check(&[("authorization", "Basic d2VpcjphCg=="), ("x-api-key", "weir_a")], Some("weir_a"));
        check(&[("authorization", "Bearer weir_a"), ("x-api-key", "weir_b")], Some("weir_a"));
        check(&[("authorization", "weir_a")], None);
        check(&[], None);
    }
}
