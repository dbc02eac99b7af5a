//! A request on its way through the stages of [`crate::forward`], and its reply.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use weir_access::KeyUsage;
use weir_api::ChatRetrieval;
use weir_config::RouteCache;
use weir_policy::Caller;
use weir_telemetry::requests::RequestEntry;
use weir_translate::conversation::{Api, Request};

use crate::ollama::LineStream;
use crate::output::Output;
use crate::stream::ReplyStream;
use crate::table::PricedTarget;

/// A request of a caller.
pub struct LlmCall {
    /// Its API.
    pub api: Api,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// Who calls.
    pub caller: Arc<Caller>,
    /// The limits of the caller's key, if it has any.
    pub usage: Option<Arc<KeyUsage>>,
    /// The record of the request.
    pub entry: RequestEntry,
}

/// A reply, or an error of the provider that concerns the caller.
pub struct LlmReply {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: LlmBody,
}

/// The body of a reply.
pub enum LlmBody {
    /// All of it.
    Whole(Bytes),
    /// Server-sent events.
    Stream(Box<ReplyStream>),
    /// Lines of JSON.
    Lines(Box<LineStream>),
}

/// A request on its way through the stages.
pub(crate) struct Exchange<'a> {
    /// As the caller sent it.
    pub(crate) call: &'a LlmCall,
    /// As it is sent on: each stage may change it.
    pub(crate) request: Request,
    /// Where it can be sent, best first; never empty.
    pub(crate) targets: Vec<PricedTarget>,
    /// Where its sources are searched.
    pub(crate) retrieval: Option<ChatRetrieval>,
    /// How its reply is kept.
    pub(crate) cache: Option<RouteCache>,
    /// The processing of its reply.
    pub(crate) output: Output,
}
