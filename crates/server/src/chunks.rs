//! `POST /v1/collections/{name}/chunks/preview`: the chunks of a text or a file, without storing it.

use axum::extract::{RawQuery, Request};
use weir_api::{ChunksPreviewReply, ChunksPreviewRequest, Count, ErrorCode, FileOptions, Invalid};

use super::body::{self, CallContext, Json, Reply, query_pairs, unknown_parameter};
use super::context::{self, Segments};
use super::upload;
use crate::Result;

/// The name of a file that has none.
const UNNAMED: &str = "upload";

/// Shows how a text would be split: JSON with the text, or a file whose text is extracted.
pub(super) async fn preview(
    call: CallContext,
    Segments([name]): Segments<1>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Reply<ChunksPreviewReply> {
    let _admitted = context::take_admitted(request.extensions());
    let (file_name, options) = of_query(query.as_deref())?;
    if upload::is_json(request.headers()) {
        if file_name.is_some() || options != ChunksPreviewRequest::default() {
            let message = "parameters are for files; send `chunking`, `title` and `limit` as fields of the JSON, or the file with its media type, such as `application/pdf`";
            return Err(Invalid::whole(ErrorCode::InvalidParameter, message).into());
        }
        let bytes = body::read(&call, request).await?;
        let sent: ChunksPreviewRequest = weir_api::parse(&bytes)?;
        return Ok(Json(call.retrieval.preview_chunks(&call.caller, &name, sent).await?));
    }
    let file_name = file_name.unwrap_or_else(|| UNNAMED.to_owned());
    let file = upload::receive_file(&call, request, file_name, FileOptions::default()).await?;
    Ok(Json(call.retrieval.preview_file(&call.caller, &name, file, options).await?))
}

/// The name of a file, and the other parameters as the fields that they are in JSON.
fn of_query(query: Option<&str>) -> Result<(Option<String>, ChunksPreviewRequest)> {
    let (mut name, mut options) = (None, ChunksPreviewRequest::default());
    for (key, value) in query_pairs(query) {
        match key.as_str() {
            "filename" => name = Some(value),
            "title" => options.title = Some(value),
            "chunking" => options.chunking = Some(ChunksPreviewRequest::parse_chunking(&value)?),
            "limit" => {
                let limit = value.parse::<u64>().map_err(|_| {
                    let message = format!(
                        "limit is `{}`; it must be a whole number from 1 to 1000",
                        value.escape_debug()
                    );
                    Invalid::at(ErrorCode::InvalidParameter, &["limit"], message)
                })?;
                options.limit = Some(Count::from(limit));
            }
            _ => return Err(unknown_parameter(&key, "`filename`, `title`, `chunking` or `limit`")),
        }
    }
    Ok((name, options))
}
