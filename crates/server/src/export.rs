//! `GET /v1/collections/{name}/export`.

use axum::body::Body;
use axum::extract::RawQuery;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::TryStreamExt as _;
use weir_api::LINES_MEDIA_TYPE;

use super::body::{CallContext, query_pairs, unknown_parameter};
use super::context::Segments;
use crate::Result;

/// The documents of a collection, one JSON object in a line. The connection breaks when the export fails after it began, so that what
/// arrived is not taken for the whole.
pub(super) async fn export(
    call: CallContext,
    Segments([name]): Segments<1>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let mut after = String::new();
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "after" => after = value,
            _ => return Err(unknown_parameter(&key, "`after`")),
        }
    }
    let documents = call.retrieval.export(&call.caller, &name, after)?;
    let lines = documents.map_err(move |error| {
        tracing::error!(collection = name, code = error.code().as_str(), "an export was broken off");
        std::io::Error::other(error.code().as_str())
    });
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(LINES_MEDIA_TYPE));
    Ok(response)
}
