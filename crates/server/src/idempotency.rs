//! `Idempotency-Key`: a request to store documents that is sent again is carried out once.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use sha2::{Digest as _, Sha256};
use weir_api::{ErrorCode, Invalid};
use weir_retrieval::{IdempotencyKey, IngestOutcome, KeyedRequest};

use super::body::CallContext;
use crate::Result;

/// The header of requests.
pub(super) const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
/// The header of replies to requests that were carried out before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Most bytes of a key.
const KEY_BYTES_MAX: usize = 255;

/// The decision on a request.
pub(super) enum Begun {
    /// It is carried out, and its result kept under the key, if it has one.
    New(Option<IdempotencyKey>),
    /// An earlier request with its key stored the documents.
    Repeated(Box<IngestOutcome>),
}

/// A request whose body is being received, with its key if it has one.
pub(super) struct Keyed(Option<KeyedRequest>);

impl Keyed {
    /// Reads the header of a request.
    ///
    /// # Errors
    /// `invalid_parameter` for a key that is none; `idempotency_in_flight`.
    pub(super) fn begin(call: &CallContext, request: &Request) -> Result<Keyed> {
        let Some(key) = key_of(request.headers())? else { return Ok(Keyed(None)) };
        let route = format!("{} {}", request.method(), request.uri().path());
        Ok(Keyed(Some(call.retrieval.begin_keyed(&call.caller, &key, &route)?)))
    }

    /// Whether the request was carried out before. `content` is what it asks for.
    ///
    /// # Errors
    /// `idempotency_mismatch`; store errors.
    pub(super) async fn check(&self, call: &CallContext, content: &[&[u8]]) -> Result<Begun> {
        let Some(request) = &self.0 else { return Ok(Begun::New(None)) };
        let key = call.retrieval.idempotency_key(request, fingerprint(content));
        Ok(match call.retrieval.earlier(&call.caller, &key).await? {
            Some(outcome) => Begun::Repeated(Box::new(outcome)),
            None => Begun::New(Some(key)),
        })
    }
}

/// Refuses a key where the result of a request is more than one job.
///
/// # Errors
/// `invalid_parameter`.
pub(super) fn refuse(headers: &HeaderMap) -> Result<()> {
    if !headers.contains_key(HEADER) {
        return Ok(());
    }
    let message = "a stream of lines is stored in steps and has no single result; leave the header out, and give the documents ids, so that \
                   lines that are sent again change nothing";
    Err(Invalid::at(ErrorCode::InvalidParameter, &["Idempotency-Key"], message).into())
}

/// Marks the reply to a request that was carried out before.
pub(super) fn mark(mut response: Response, is_repeated: bool) -> Response {
    if is_repeated {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// The key of a request: a string in quotes (draft-ietf-httpapi-idempotency-key-header-07), or bare, as most clients send it.
fn key_of(headers: &HeaderMap) -> Result<Option<String>> {
    let mut values = headers.get_all(HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let key = text.map(str::trim).and_then(|text| match text.strip_prefix('"') {
        Some(rest) => unquoted(rest.strip_suffix('"')?),
        None => Some(text.to_owned()),
    });
    let is_valid = |key: &String| (1..=KEY_BYTES_MAX).contains(&key.len());
    match key.filter(is_valid) {
        Some(key) => Ok(Some(key)),
        None => {
            let message = format!(
                "the key is not one text of 1 to {KEY_BYTES_MAX} ASCII characters; a random UUID is a good one"
            );
            Err(Invalid::at(ErrorCode::InvalidParameter, &["Idempotency-Key"], message).into())
        }
    }
}

/// The text between quotes, in which `\"` and `\\` are escaped.
fn unquoted(text: &str) -> Option<String> {
    let (mut found, mut characters) = (String::new(), text.chars());
    while let Some(character) = characters.next() {
        found.push(match character {
            '"' => return None,
            '\\' => characters.next().filter(|next| matches!(next, '"' | '\\'))?,
            other => other,
        });
    }
    Some(found)
}

/// Identifies what a request asks for.
fn fingerprint(content: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in content {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[&str], expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        assert_eq!(key_of(&headers).ok().flatten().as_deref(), expected, "{values:?}");
    }

    #[test]
    fn a_key_is_quoted_or_bare() {
        check(&["8e03978e"], Some("8e03978e"));
        check(&["\"8e03978e\""], Some("8e03978e"));
        check(&[r#""a \"b\" \\""#], Some(r#"a "b" \"#));
        check(&[&"k".repeat(255)], Some(&"k".repeat(255)));
        for refused in [&["a", "b"][..], &[""], &["\"\""], &["\"a"], &[r#""a\b""#], &["\"a\"b\""], &["ключ"]]
        {
            check(refused, None);
        }
        check(&[&"k".repeat(256)], None);
        assert!(key_of(&HeaderMap::new()).unwrap().is_none());
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(fingerprint(&[b"ab", b"c"]), fingerprint(&[b"a", b"bc"]));
        assert_ne!(fingerprint(&[b"a"]), fingerprint(&[b"a", b""]));
    }
}
