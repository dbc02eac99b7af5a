//! `POST /rerank`, `/v1/rerank`, `/v2/rerank` and `/predict`. The first three answer in the dialects of Cohere and Jina, or in TEI's if
//! the request has `texts`.

use std::time::Instant;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use weir_api::{
    CohereTokens, CohereVersion, ErrorCode, Invalid, ListObject, PredictInputs, PredictReply, PredictRequest,
    RerankMeta, RerankReply, RerankRequest, RerankResult, RerankUnits, RerankedDocument, TeiRank,
    TruncationDirection, Usage,
};
use weir_retrieval::models;

use super::body::{CallContext, Json, Reply};
use super::context;
use super::dialect::Dialect;
use super::embeddings::read_body;
use super::vectors;
use crate::Result;

/// Sorts documents by their relevance to a query.
pub(super) async fn rerank(call: CallContext, request: Request) -> Result<Response> {
    let version = if context::path(&request).starts_with("/v2/") { Version::Two } else { Version::One };
    let until = context::deadline(&request);
    let (bytes, _place) = read_body(&call, request).await?;
    let request: RerankRequest = weir_api::parse(&bytes)?;
    drop(bytes);
    let is_tei = request.texts.is_some();
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
    call: &CallContext,
    mut request: RerankRequest,
    version: Version,
    until: Option<Instant>,
) -> Result<Response> {
    request.check(&call.config.request_limits())?;
    let model = match &request.model {
        Some(name) => models::reranker(&call.models, &call.caller, name, "model")?,
        None => models::default_reranker(&call.models, &call.caller)?,
    };
    let name = request.model.clone().unwrap_or_else(|| model.id.clone());
    let is_tei = request.texts.is_some();
    let is_shown = match (is_tei, version) {
        (true, _) => request.return_text == Some(true),
        (false, Version::One) => request.return_documents != Some(false),
        (false, Version::Two) => request.return_documents == Some(true),
    };
    let field = if is_tei { "texts" } else { "documents" };
    let texts = request.take_texts();
    let mut shown = if is_shown { texts.clone() } else { Vec::new() };
    let input = call.retrieval.tokenize_pairs(model, &request, texts, field).await?;
    let due = call.take_tokens(&model.id, input.tokens).await?;
    let (tokens, truncated) = (input.tokens, input.truncated.clone());
    let ranked = due.of(call.retrieval.rerank(model, &request, input, until).await)?;
    let mut text = |index: usize| is_shown.then(|| std::mem::take(&mut shown[index]));
    if is_tei {
        let rank = |(index, score)| TeiRank { index, score, text: text(index) };
        let ranks: Vec<TeiRank> = ranked.into_iter().map(rank).collect();
        return Ok(with_truncated(Json(ranks).into_response(), &truncated));
    }
    let result = |(index, relevance_score)| RerankResult {
        index,
        relevance_score,
        document: text(index).map(|text| RerankedDocument { text }),
    };
    let version = match version {
        Version::One => "1",
        Version::Two => "2",
    };
    let reply = Json(RerankReply {
        id: format!("rerank-{}", super::request_id::new_uuid()),
        model: name,
        object: ListObject::List,
        results: ranked.into_iter().map(result).collect(),
        usage: Usage { prompt_tokens: tokens, total_tokens: tokens, truncated: truncated.len() },
        meta: RerankMeta {
            api_version: CohereVersion { version: version.to_owned() },
            billed_units: RerankUnits { search_units: 1.0 },
            tokens: CohereTokens { input_tokens: tokens },
        },
    });
    Ok(with_truncated(reply.into_response(), &truncated))
}

fn with_truncated(mut response: Response, truncated: &[usize]) -> Response {
    vectors::set_truncated(response.headers_mut(), truncated);
    response
}

/// Classifies texts and pairs of texts by the first classifier of this process.
pub(super) async fn predict(call: CallContext, request: Request) -> Reply<PredictReply> {
    let (bytes, _place) = read_body(&call, request).await?;
    let request: PredictRequest = weir_api::parse(&bytes)?;
    let is_raw = request.raw_scores == Some(true);
    if request.truncation_direction == Some(TruncationDirection::Left) {
        let message =
            "`truncation_direction` is `Left`, and inputs lose their end; leave it out, or send `Right`";
        return Err(
            Invalid::at(ErrorCode::InvalidParameter, &["truncation_direction"], message.to_owned()).into()
        );
    }
    let model = models::default_classifier(&call.models, &call.caller)?;
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
    let input = |(index, input): (usize, Vec<String>)| {
        let mut texts = input.into_iter();
        match (texts.next(), texts.next(), texts.next()) {
            (Some(first), second, None) => Ok((first, second)),
            _ => {
                let message = "an input is a text or a pair of texts";
                Err(Invalid::at_item(ErrorCode::InvalidParameter, "inputs", index, message.to_owned()))
            }
        }
    };
    let inputs = inputs.into_iter().enumerate().map(input).collect::<Result<Vec<_>, Invalid>>()?;
    let input = call.retrieval.tokenize_to_classify(model, inputs, request.truncate != Some(false)).await?;
    let due = call.take_tokens(&model.id, input.tokens).await?;
    let mut all = due.of(call.retrieval.classify(model, input, is_raw).await)?;
    Ok(Json(match is_one {
        true => PredictReply::One(all.pop().unwrap_or_default()),
        false => PredictReply::Many(all),
    }))
}
