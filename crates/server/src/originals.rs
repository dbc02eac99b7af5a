//! `GET /v1/collections/{name}/documents/{id}/original`: the file from which a document was made.

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio_util::io::ReaderStream;

use super::body::CallContext;
use super::context::Segments;
use crate::Result;

/// A browser that opens the file runs nothing of it, and nothing in it acts for this origin.
const SANDBOX: &str = "sandbox; default-src 'none'";

/// Bytes of a name that need no escape in a header: `attr-char` of RFC 5987 without the rarer ones.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'-').remove(b'_');

/// The file as a download: it may be from any user of the gateway.
pub(super) async fn get(call: CallContext, Segments([name, id]): Segments<2>) -> Result<Response> {
    let (original, file) = call.retrieval.original(&call.caller, &name, &id).await?;
    let file_name = utf8_percent_encode(&original.name, ESCAPED);
    let headers = [
        (header::CONTENT_TYPE, original.media_type),
        (header::CONTENT_LENGTH, original.bytes.to_string()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename*=UTF-8''{file_name}")),
        (header::CONTENT_SECURITY_POLICY, SANDBOX.to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::ETAG, format!("\"{}\"", original.sha256)),
    ];
    let body = Body::from_stream(ReaderStream::new(tokio::fs::File::from_std(file)));
    Ok((headers, body).into_response())
}
