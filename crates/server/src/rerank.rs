//! `POST /rerank`, `/v1/rerank`, `/v2/rerank` and `/predict`. The first three answer in the dialects of Cohere and Jina, or in TEI's if
//! the request has `texts`.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use weir_access::Running;
use weir_api::{
    CohereTokens, CohereVersion, ErrorCode, Invalid, Label, Labels, ListObject, PredictInputs, PredictReply,
    PredictRequest, RerankMeta, RerankReply, RerankRequest, RerankResult, RerankUnits, RerankedDocument,
    TeiRank, TruncationDirection, Usage,
};
use weir_inference::{RerankInput, Reranker};
use weir_retrieval::models;

use super::body::{Call, Json, Reply};
use super::context;
use super::dialect::Dialect;
use super::embeddings::read_body;
use super::error::ApiError;
use super::vectors;
use crate::Result;

/// Sorts documents by their relevance to a query.
pub(super) async fn rerank(call: Call, request: Request) -> Result<Response> {
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
    check_upstream(model, &request)?;
    let name = request.model.clone().unwrap_or_else(|| model.id.clone());
    let is_tei = request.texts.is_some();
    let field = if is_tei { "texts" } else { "documents" };
    let texts = request.take_texts();
    let is_shown = match (is_tei, version) {
        (true, _) => request.return_text == Some(true),
        (false, Version::One) => request.return_documents != Some(false),
        (false, Version::Two) => request.return_documents == Some(true),
    };
    let mut shown = if is_shown { texts.clone() } else { Vec::new() };
    let Scored { scores, tokens, truncated } = score(call, model, &request, texts, field, until).await?;
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    let count = request.top_n.map_or(usize::MAX, |top_n| usize::try_from(top_n.get()).unwrap_or(usize::MAX));
    order.truncate(count);
    let mut text = |index: usize| is_shown.then(|| std::mem::take(&mut shown[index]));
    if is_tei {
        let rank = |index: usize| TeiRank { index, score: scores[index], text: text(index) };
        let ranks: Vec<TeiRank> = order.into_iter().map(rank).collect();
        return Ok(with_truncated(Json(ranks).into_response(), &truncated));
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
    let reply = Json(RerankReply {
        id: format!("rerank-{}", super::layers::new_uuid()),
        model: name,
        object: ListObject::List,
        results: order.into_iter().map(result).collect(),
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

/// Refuses what depends on the truncation of documents, for a model on another server: it is not known here.
fn check_upstream(model: &Reranker, request: &RerankRequest) -> Result<(), Invalid> {
    let is_upstream = model.labels().is_none();
    let has_chunks = request.max_chunks_per_doc.is_some_and(|chunks| chunks.get() > 1);
    let field = match (request.truncate == Some(false), has_chunks) {
        (true, _) if is_upstream => "truncate",
        (false, true) if is_upstream => "max_chunks_per_doc",
        _ => return Ok(()),
    };
    let message = format!(
        "the model `{}` runs on another server, to which `{field}` is not passed on; leave it out",
        model.id
    );
    Err(Invalid::at(ErrorCode::InvalidParameter, &[field], message))
}

/// Scores of texts.
struct Scored {
    scores: Vec<f32>,
    /// Tokens of all pairs.
    tokens: usize,
    /// Indices of truncated texts.
    truncated: Vec<usize>,
}

/// The score of each text for the query of the request.
async fn score(
    call: &Call,
    model: &Arc<Reranker>,
    request: &RerankRequest,
    texts: Vec<String>,
    field: &str,
    until: Option<Instant>,
) -> Result<Scored> {
    let (tokenizing, query) = (model.clone(), request.query.clone());
    let text_tokens_max =
        request.max_tokens_per_doc.map(|tokens| usize::try_from(tokens.get()).unwrap_or(usize::MAX));
    let input = tokio::task::spawn_blocking(move || tokenizing.input(&query, &texts, text_tokens_max)).await;
    let mut input = input.map_err(|error| ApiError::internal(&error))?;
    request.check_truncated(field, &input.truncated)?;
    let _running = check_tokens(call, &model.id, &input, field)?;
    let (tokens, truncated) = (input.tokens, std::mem::take(&mut input.truncated));
    let scores = match request.raw_scores == Some(true) {
        true => call.scheduler.rerank_logits(model, input, until).await?,
        false => call.scheduler.rerank(model, input, until).await?,
    };
    Ok(Scored { scores, tokens, truncated })
}

/// Classifies texts and pairs of texts by the first classifier of this process.
pub(super) async fn predict(call: Call, request: Request) -> Reply<PredictReply> {
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
    let tokenizing = model.clone();
    let input = tokio::task::spawn_blocking(move || tokenizing.texts_and_pairs(&inputs)).await;
    let input = input.map_err(|error| ApiError::internal(&error))?;
    let (labels, input) = model.labels().zip(input).ok_or_else(ApiError::internal_error)?;
    if let Some(&index) = input.truncated.first()
        && request.truncate == Some(false)
    {
        let message = "the input is longer than the model's input limit; shorten it, or leave `truncate` out";
        let code = ErrorCode::ContextLengthExceeded;
        return Err(Invalid::at_item(code, "inputs", index, message.to_owned()).into());
    }
    let _running = check_tokens(&call, &model.id, &input, "inputs")?;
    let rows = call.scheduler.classify(model, input).await?;
    let mut all: Vec<Labels> = rows.iter().map(|logits| labelled(labels, logits, is_raw)).collect();
    Ok(Json(match is_one {
        true => PredictReply::One(all.pop().unwrap_or_default()),
        false => PredictReply::Many(all),
    }))
}

/// The labels with their scores, the best first: logits, or probabilities, by the sigmoid of a single logit and the softmax of several.
fn labelled(labels: &[String], logits: &[f32], is_raw: bool) -> Labels {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|logit| (logit - largest).exp()).sum();
    let score = |logit: f32| match logits.len() {
        _ if is_raw => logit,
        1 => 1.0 / (1.0 + (-logit).exp()),
        _ => (logit - largest).exp() / sum,
    };
    let mut labelled: Labels = labels
        .iter()
        .zip(logits)
        .map(|(label, logit)| Label { label: label.clone(), score: score(*logit) })
        .collect();
    labelled.sort_by(|a, b| b.score.total_cmp(&a.score));
    labelled
}

/// Refuses pairs with more tokens than a request may have, or than the caller's key has left; `field` is where the request has the texts.
fn check_tokens(call: &Call, model: &str, input: &RerankInput, field: &str) -> Result<Option<Running>> {
    let (tokens, most) = (input.tokens, call.config.limits.embedding_tokens_max);
    if tokens <= most {
        return call.take_tokens(model, tokens);
    }
    let message = format!(
        "the pairs have {tokens} tokens; the limit `limits.embedding_tokens_max` is {most}, so send fewer or shorter texts"
    );
    Err(Invalid::at(ErrorCode::BatchTooLarge, &[field], message).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_label_has_the_sigmoid_and_several_have_the_softmax() {
        let labels = ["no".to_owned(), "yes".to_owned()];
        let shown = |logits: &[f32], is_raw| -> Vec<(String, f32)> {
            labelled(&labels, logits, is_raw).into_iter().map(|one| (one.label, one.score)).collect()
        };
        assert_eq!(shown(&[0.0], false), [("no".to_owned(), 0.5)]);
        assert_eq!(shown(&[1.0, 1.0], false), [("no".to_owned(), 0.5), ("yes".to_owned(), 0.5)]);
        let best = shown(&[-200.0, 200.0], false);
        assert_eq!(best, [("yes".to_owned(), 1.0), ("no".to_owned(), 0.0)]);
        assert_eq!(shown(&[-1.5, 2.5], true), [("yes".to_owned(), 2.5), ("no".to_owned(), -1.5)]);
    }
}
