//! `GET /v1/formats`: handler.

use weir_api::FormatsReply;

use super::body::{CallContext, Json, Reply};

/// The kinds of files that are read.
pub(super) async fn formats(call: CallContext) -> Reply<FormatsReply> {
    Ok(Json(call.retrieval.formats()))
}
