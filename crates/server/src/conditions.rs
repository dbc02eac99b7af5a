//! Conditional requests (RFC 9110, section 13): `If-Match` and `If-None-Match` with the version of a document as its entity tag.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use weir_api::{ErrorCode, Invalid};
use weir_retrieval::VersionTest;

use super::error::ApiError;
use crate::Result;

/// Most entity tags of one header.
const TAGS_MAX: usize = 100;

/// The entity tag of a version.
pub(super) fn tag(version: u64) -> HeaderValue {
    HeaderValue::try_from(format!("\"{version}\"")).unwrap_or_else(|_| HeaderValue::from(version))
}

/// The condition of a request on the document that it changes.
///
/// # Errors
/// `invalid_parameter` for a header that is not a list of entity tags, and for both headers together.
pub(super) fn test(headers: &HeaderMap) -> Result<Option<VersionTest>> {
    let (matching, other) =
        (versions(headers, &header::IF_MATCH)?, versions(headers, &header::IF_NONE_MATCH)?);
    Ok(match (matching, other) {
        (None, None) => None,
        (Some(Versions::Any), None) => Some(VersionTest::Exists),
        (Some(Versions::Listed(versions)), None) => Some(VersionTest::OneOf(versions)),
        (None, Some(Versions::Any)) => Some(VersionTest::Absent),
        (None, Some(Versions::Listed(versions))) => Some(VersionTest::NoneOf(versions)),
        (Some(_), Some(_)) => {
            let message = "`If-Match` and `If-None-Match` are both sent; send one of them";
            return Err(Invalid::at(ErrorCode::InvalidParameter, &["If-None-Match"], message).into());
        }
    })
}

/// Whether a reader has this version already: its `If-None-Match` names it.
///
/// # Errors
/// `invalid_parameter` for a header that is not a list of entity tags.
pub(super) fn is_known(headers: &HeaderMap, version: u64) -> Result<bool> {
    Ok(match versions(headers, &header::IF_NONE_MATCH)? {
        None => false,
        Some(Versions::Any) => true,
        Some(Versions::Listed(versions)) => versions.contains(&version),
    })
}

/// The versions of a header.
enum Versions {
    /// `*`
    Any,
    Listed(Vec<u64>),
}

fn versions(headers: &HeaderMap, name: &HeaderName) -> Result<Option<Versions>> {
    let (mut tags, mut is_sent) = (Vec::new(), false);
    for value in headers.get_all(name) {
        is_sent = true;
        let value = value.to_str().map_err(|_| malformed(name))?;
        tags.extend(value.split(',').map(str::trim).filter(|tag| !tag.is_empty()));
    }
    if !is_sent {
        return Ok(None);
    }
    if tags == ["*"] {
        return Ok(Some(Versions::Any));
    }
    if tags.is_empty() || tags.len() > TAGS_MAX {
        return Err(malformed(name));
    }
    let versions: Result<Vec<Option<u64>>> =
        tags.into_iter().map(|tag| version_of(tag).ok_or_else(|| malformed(name))).collect();
    Ok(Some(Versions::Listed(versions?.into_iter().flatten().collect())))
}

/// The version that an entity tag names: `Some(None)` for one that no document has, such as a weak one; `None` if it is malformed.
fn version_of(tag: &str) -> Option<Option<u64>> {
    let (tag, is_strong) = tag.strip_prefix("W/").map_or((tag, true), |weak| (weak, false));
    let quoted = tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let text = match quoted {
        Some(text) if !text.contains('"') => text,
        // a version as replies have it in JSON
        None if tag.bytes().all(|byte| byte.is_ascii_digit()) && !tag.is_empty() => tag,
        Some(_) | None => return None,
    };
    Some(text.parse().ok().filter(|_| is_strong))
}

fn malformed(name: &HeaderName) -> ApiError {
    let title = if name == header::IF_MATCH { "If-Match" } else { "If-None-Match" };
    let message = format!(
        "`{title}` is not valid; send `*`, or up to {TAGS_MAX} versions as they are in `ETag`, such as `{title}: \"17\"`"
    );
    Invalid::at(ErrorCode::InvalidParameter, &[title], message).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `name: value` for each header; the test that they stand for.
    #[track_caller]
    fn check(headers: &[(HeaderName, &'static str)], expected: Result<Option<VersionTest>, &str>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, HeaderValue::from_static(value));
        }
        let found = test(&map).map_err(|error| error.code().as_str());
        assert_eq!(found, expected, "{headers:?}");
    }

    #[test]
    fn conditions_are_read_as_the_rfc_has_them() {
        use VersionTest::{Absent, Exists, NoneOf, OneOf};
        let (matches, none) = (header::IF_MATCH, header::IF_NONE_MATCH);
        let invalid = || Err("invalid_parameter");
        check(&[], Ok(None));
        check(&[(matches.clone(), "*")], Ok(Some(Exists)));
        check(&[(none.clone(), "*")], Ok(Some(Absent)));
        check(&[(matches.clone(), "\"17\"")], Ok(Some(OneOf(vec![17]))));
        check(&[(matches.clone(), "17")], Ok(Some(OneOf(vec![17]))));
        check(
            &[(matches.clone(), "\"1\" , \"2\""), (matches.clone(), "\"3\"")],
            Ok(Some(OneOf(vec![1, 2, 3]))),
        );
        check(&[(none.clone(), "\"17\"")], Ok(Some(NoneOf(vec![17]))));
        // tags that no document has, and weak ones, match nothing
        check(&[(matches.clone(), "\"other\", W/\"17\"")], Ok(Some(OneOf(vec![]))));
        for malformed in ["", ",", "\"17", "17\"", "*, \"17\"", "seventeen", "-1", "\"1\"2\""] {
            check(&[(matches.clone(), malformed)], invalid());
        }
        check(&[(matches, "*"), (none, "*")], invalid());
    }
}
