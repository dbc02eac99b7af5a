//! `POST /rerank`, `/v1/rerank`, `/v2/rerank` and `/predict`. The first three answer in the dialects of Cohere and Jina, or in TEI's if
//! the request has `texts`.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::response::{IntoResponse, Response};
use weir_api::{
    CohereTokens, CohereVersion, ErrorCode, Invalid, Label, Labels, ListObject, PredictInputs, PredictReply,
    PredictRequest, RerankMeta, RerankReply, RerankRequest, RerankResult, RerankUnits, RerankedDocument,
    TeiRank, Usage,
};
use weir_inference::Reranker;
use weir_retrieval::models;

use super::body::{self, Call, Json, Reply};
use super::dialect::Dialect;
use super::embeddings::read_body;
use crate::Result;

/// Sorts documents by their relevance to a query.
pub(super) async fn rerank(call: Call, path: MatchedPath, request: Request) -> Result<Response> {
    let until = body::until(&request);
    let (bytes, _place) = read_body(&call, request).await?;
    let request: RerankRequest = weir_api::parse(&bytes)?;
    drop(bytes);
    let is_tei = request.texts.is_some();
    let version = if path.as_str().starts_with("/v2/") { Version::Two } else { Version::One };
    let answered = answer(&call, request, version, until).await;
    answered.map_err(|error| if is_tei { error.in_dialect(Dialect::Tei) } else { error })
}

/// The version of Cohere's API that a path names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

async fn answer(
    call: &Call,
    mut request: RerankRequest,
    version: Version,
    until: Option<Instant>,
) -> Result<Response> {
    request.check(&call.config.request_limits())?;
    let model = match &request.model {
        Some(name) => models::reranker(&call.models, &call.caller, name, "model")?,
        None => models::default_reranker(&call.models, &call.caller)?,
    };
    let (name, is_raw) = (request.model.clone().unwrap_or_else(|| model.id.clone()), request.raw_scores);
    let is_tei = request.texts.is_some();
    let texts = request.take_texts();
    let is_shown = match (is_tei, version) {
        (true, _) => request.return_text == Some(true),
        (false, Version::One) => request.return_documents != Some(false),
        (false, Version::Two) => request.return_documents == Some(true),
    };
    let mut shown = if is_shown { texts.clone() } else { Vec::new() };
    let (scores, tokens) = scores(call, model, request.query, texts, is_raw == Some(true), until).await?;
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    let count = request.top_n.map_or(usize::MAX, |top_n| usize::try_from(top_n.get()).unwrap_or(usize::MAX));
    order.truncate(count);
    let mut text = |index: usize| is_shown.then(|| std::mem::take(&mut shown[index]));
    if is_tei {
        let rank = |index: usize| TeiRank { index, score: scores[index], text: text(index) };
        return Ok(Json(order.into_iter().map(rank).collect::<Vec<_>>()).into_response());
    }
    let result = |index: usize| RerankResult {
        index,
        relevance_score: scores[index],
        document: text(index).map(|text| RerankedDocument { text }),
    };
    let version = match version {
        Version::One => "1",
        Version::Two => "2",
    };
    Ok(Json(RerankReply {
        id: format!("rerank-{}", super::layers::new_uuid()),
        model: name,
        object: ListObject::List,
        results: order.into_iter().map(result).collect(),
        usage: Usage { prompt_tokens: tokens, total_tokens: tokens, truncated: 0 },
        meta: RerankMeta {
            api_version: CohereVersion { version: version.to_owned() },
            billed_units: RerankUnits { search_units: 1.0 },
            tokens: CohereTokens { input_tokens: tokens },
        },
    })
    .into_response())
}

/// The score of each text for the query, and the tokens of all pairs.
async fn scores(
    call: &Call,
    model: &Arc<Reranker>,
    query: String,
    texts: Vec<String>,
    is_raw: bool,
    until: Option<Instant>,
) -> Result<(Vec<f32>, usize)> {
    let tokenizing = model.clone();
    let input = tokio::task::spawn_blocking(move || tokenizing.input(&query, &texts));
    let input = input.await.map_err(|error| super::error::ApiError::internal(&error))?;
    let (tokens, most) = (input.tokens, call.config.limits.embedding_tokens_max);
    if tokens > most {
        let message = format!(
            "the pairs of the query and each document have {tokens} tokens; the limit `limits.embedding_tokens_max` is {most}"
        );
        return Err(Invalid::at(ErrorCode::BatchTooLarge, &["documents"], message).into());
    }
    let scores = match is_raw {
        true => call.scheduler.rerank_logits(model, input, until).await?,
        false => call.scheduler.rerank(model, input, until).await?,
    };
    Ok((scores, tokens))
}

/// Classifies texts, or pairs of texts, by the model that reranks.
pub(super) async fn predict(call: Call, request: Request) -> Reply<PredictReply> {
    let until = body::until(&request);
    let (bytes, _place) = read_body(&call, request).await?;
    let request: PredictRequest = weir_api::parse(&bytes)?;
    let is_raw = request.raw_scores == Some(true);
    let model = models::default_reranker(&call.models, &call.caller)?;
    let (inputs, is_one) = match request.inputs {
        PredictInputs::Text(text) => (vec![vec![text]], true),
        PredictInputs::Pair(texts) => (vec![texts], true),
        PredictInputs::Many(inputs) => (inputs, false),
    };
    let most = call.config.limits.embedding_inputs_max;
    if inputs.is_empty() || inputs.len() > most {
        let message =
            format!("`inputs` has {} texts; send 1 to {most} (`limits.embedding_inputs_max`)", inputs.len());
        return Err(Invalid::at(ErrorCode::BatchTooLarge, &["inputs"], message).into());
    }
    let mut all: Vec<Labels> = Vec::with_capacity(inputs.len());
    for (index, input) in inputs.into_iter().enumerate() {
        let Ok([first, second]) = <[String; 2]>::try_from(input) else {
            let message = format!("the model `{}` classifies pairs of texts; send two", model.id);
            return Err(Invalid::at_item(ErrorCode::InvalidParameter, "inputs", index, message).into());
        };
        let (scores, _) = scores(&call, model, first, vec![second], is_raw, until).await?;
        let score = scores.first().copied().unwrap_or_default();
        all.push(vec![Label { label: RELEVANT.to_owned(), score }]);
    }
    Ok(Json(match is_one {
        true => PredictReply::One(all.pop().unwrap_or_default()),
        false => PredictReply::Many(all),
    }))
}

/// The label of a model with a single one.
const RELEVANT: &str = "LABEL_0";
