//! The ids of requests.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};

/// The header with it.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longer ids of callers are replaced.
const REQUEST_ID_BYTES_MAX: usize = 512;

/// The id that the client sent, or a new one.
pub(super) fn id_of(headers: &HeaderMap) -> Arc<str> {
    let sent = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let usable = |id: &&str| {
        !id.is_empty() && id.len() <= REQUEST_ID_BYTES_MAX && id.bytes().all(|b| (b' '..=b'~').contains(&b))
    };
    match sent.filter(usable) {
        Some(id) => id.into(),
        // a version 4 UUID of the thread's random generator, without a system call for each
        None => {
            let mut id = *b"req_00000000000000000000000000000000";
            random_uuid().simple().encode_lower(&mut id[4..]);
            String::from_utf8_lossy(&id).into()
        }
    }
}

fn random_uuid() -> uuid::Uuid {
    uuid::Builder::from_random_bytes(rand::random()).into_uuid()
}

/// A random id.
pub(super) fn new_uuid() -> String {
    random_uuid().simple().to_string()
}
