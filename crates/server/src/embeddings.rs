//! `POST /v1/embeddings`, and the embedding of texts that it shares with TEI's `POST /embed`.

mod forwarded;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::Request;
use axum::response::Response;
use weir_api::{Count, EmbeddingsRequest, ErrorCode, Invalid};

use super::body::{self, CallContext};
use super::context;
use super::context::Admitted;
use super::encoding::{Encoding, Wanted};
use super::gateway::Gateway;
use super::vectors::{self, Described};
use crate::Result;
use weir_inference::{LoadedModel, Reservation, Rows, l2_normalise};
use weir_retrieval::{EmbedJob, EmbedOutput, check_dimensions, models};

/// Render replies with more floats than this in the background.
const RENDERED_INLINE_FLOATS_MAX: usize = 8 << 10;

/// Embeds texts in the shape of OpenAI's API: by a model of this gateway, or by the upstream that the model's name leads to.
pub(super) async fn openai(call: CallContext, request: Request) -> Result<Response> {
    let (caching, until) = (body::caching(request.headers()), context::deadline(&request));
    let headers = request.headers().clone();
    let (bytes, place) = read_body(&call, request).await?;
    let (mut request, model) = match of_this_gateway(&call, &bytes) {
        Ok(found) => found,
        Err(error) => match forwarded::of_upstream(&call, &headers, &bytes)? {
            true => return Box::pin(forwarded::send(&call, headers, bytes, place)).await,
            false => return Err(error),
        },
    };
    drop(bytes);
    let (format, dtype) = request.output()?;
    let encoding = Encoding::of(&headers, &Wanted { format: Some(format), dtype })?;
    if let Some(decoder) = model.token_decoder() {
        request.input.decode("input", |ids| decoder.decode(ids))?;
    }
    request.check(&call.config.request_limits())?;
    check_dimensions(&model, request.dimensions).await?;
    check_normalize(&model, request.normalize)?;
    let is_scaled = request.normalize == Some(true) && !model.is_normalised();
    let job = EmbedJob {
        role: request.role()?,
        truncate: request.truncate(),
        texts: request.input,
        field: "input",
        model: model.clone(),
        caching,
        until,
        dimensions: request.dimensions.map(Count::get),
        place,
    };
    let EmbedOutput { mut embeddings, usage, truncated, split, place, .. } = embed(&call, job).await?;
    let is_long = (is_scaled || encoding.is_rendered()) && is_long_reply(&embeddings);
    let response = call.retrieval.maybe_in_background(is_long, move || {
        if is_scaled {
            embeddings.iter_mut().for_each(l2_normalise);
        }
        let described = Described { name: &request.model, model: &model, usage };
        vectors::reply(encoding, embeddings, &described, place, |embeddings, encoding, place| {
            vectors::list(&embeddings, encoding, &request.model, usage, place)
        })
    });
    let mut response = response.await??;
    vectors::set_truncated(response.headers_mut(), &truncated);
    vectors::set_split(response.headers_mut(), &split);
    Ok(response)
}

/// The request and its model, if it is one of this gateway.
fn of_this_gateway(call: &CallContext, bytes: &[u8]) -> Result<(EmbeddingsRequest, Arc<LoadedModel>)> {
    let request: EmbeddingsRequest = weir_api::parse(bytes)?;
    let model = models::embedder(&call.models, &call.caller, &request.model)?.clone();
    Ok((request, model))
}

/// Reads the body of a request for embeddings; the memory that was reserved for it when it was admitted.
pub(super) async fn read_body(gateway: &Gateway, request: Request) -> Result<(Bytes, Reservation)> {
    let place = match context::take_admitted(request.extensions()) {
        Admitted::Embedding(place) => place,
        Admitted::Light | Admitted::Search(_) | Admitted::Ingest(_) | Admitted::Chat(_) => {
            Reservation::default()
        }
    };
    Ok((body::read(gateway, request).await?, place))
}

/// Embeds texts, whose tokens are charged to the caller's key.
pub(super) async fn embed(call: &CallContext, job: EmbedJob) -> Result<EmbedOutput> {
    let model = job.model.clone();
    let texts = call.retrieval.tokenize(job).await?;
    let due = call.take_tokens(&model.id, texts.tokens()).await?;
    due.of(call.retrieval.embed(texts).await)
}

/// Whether rendering these embeddings would delay other requests on this thread.
pub(super) fn is_long_reply(embeddings: &Rows) -> bool {
    embeddings.floats().len() > RENDERED_INLINE_FLOATS_MAX
}

/// Refuses embeddings that are not normalised from a model that normalises.
pub(super) fn check_normalize(model: &LoadedModel, normalize: Option<bool>) -> Result<(), Invalid> {
    if normalize == Some(false) && model.is_normalised() {
        let message = format!(
            "`normalize` is false, and model `{}` makes embeddings of length one only; leave it out",
            model.id
        );
        return Err(Invalid::at(ErrorCode::InvalidParameter, &["normalize"], message));
    }
    Ok(())
}
