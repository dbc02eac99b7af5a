//! `GET /v1/formats`: handler.

use weir_api::FormatsReply;

use super::body::{Call, Json, Reply};

/// The kinds of files that are read.
pub(super) async fn formats(call: Call) -> Reply<FormatsReply> {
    Ok(Json(call.retrieval.formats()))
}
