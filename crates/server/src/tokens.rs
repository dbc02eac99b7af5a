//! `POST /tokenize`, `/decode`, `/embed_all`, `/embed_sparse` and `/similarity`, as clients of text-embeddings-inference (TEI) know them.

use axum::extract::Request;
use axum::response::Response;
use weir_api::{
    DecodeRequest, EmbedAllRequest, ErrorCode, Invalid, SimilarityRequest, TeiToken, Texts, TokenIds,
    TokenizeRequest,
};
use weir_inference::{LoadedModel, Token};
use weir_retrieval::{EmbedJob, INTERACTIVE_TOKENS_MAX, is_long_input, prompt_of};

use super::body::{self, CallContext, Json, Reply};
use super::context;
use super::embeddings::{embed as embed_texts, is_long_reply, read_body};
use super::error::ApiError;
use super::tei::default_model;
use super::vectors;
use crate::Result;

/// Splits texts into tokens of the default model.
pub(super) async fn tokenize(call: CallContext, request: Request) -> Reply<Vec<Vec<TeiToken>>> {
    let (bytes, _place) = read_body(&call, request).await?;
    let request: TokenizeRequest = weir_api::parse(&bytes)?;
    request.inputs.check("inputs", &call.config.request_limits())?;
    let model = default_model(&call)?;
    let with_special = request.add_special_tokens.unwrap_or(true);
    let is_long = is_long_input(&request.inputs);
    let all = call.retrieval.maybe_in_background(is_long, move || {
        let tokens = |text: &String| {
            let text = format!("{}{text}", prompt_of(&model, request.prompt_name));
            let tokens = model.tokens_of(&text, with_special).ok_or_else(|| no_tokenizer(&model))?;
            Ok(tokens.into_iter().map(|token| shown(token, &text)).collect())
        };
        request.inputs.as_slice().iter().map(tokens).collect::<Result<Vec<Vec<TeiToken>>>>()
    });
    all.await?.map(Json)
}

fn shown(Token { id, name, span }: Token, text: &str) -> TeiToken {
    match span {
        Some(span) => TeiToken {
            id,
            text: text[span.clone()].to_owned(),
            special: false,
            start: Some(span.start),
            stop: Some(span.end),
        },
        None => TeiToken { id, text: name, special: true, start: None, stop: None },
    }
}

/// Joins token ids of the default model to texts.
pub(super) async fn decode(call: CallContext, request: Request) -> Reply<Vec<String>> {
    let (bytes, _place) = read_body(&call, request).await?;
    let request: DecodeRequest = weir_api::parse(&bytes)?;
    let model = default_model(&call)?;
    let without_special = request.skip_special_tokens.unwrap_or(true);
    let ids = match request.ids {
        TokenIds::One(ids) => vec![ids],
        TokenIds::Many(many) => many,
    };
    let is_long = ids.iter().map(Vec::len).sum::<usize>() > INTERACTIVE_TOKENS_MAX;
    let all = call.retrieval.maybe_in_background(is_long, move || {
        let decode = |ids: &Vec<u32>| model.decode(ids, without_special).ok_or_else(|| no_tokenizer(&model));
        ids.iter().map(decode).collect::<Result<Vec<String>>>()
    });
    all.await?.map(Json)
}

fn no_tokenizer(model: &LoadedModel) -> ApiError {
    let message = format!(
        "the model `{}` has no tokenizer in this process; send the request to the server that runs the model",
        model.id
    );
    ApiError::new(ErrorCode::InvalidParameter, message)
}

/// Embeds each token of the texts by the default model.
pub(super) async fn embed_all(call: CallContext, request: Request) -> Result<Response> {
    let (bytes, place) = read_body(&call, request).await?;
    let request: EmbedAllRequest = weir_api::parse(&bytes)?;
    request.inputs.check("inputs", &call.config.request_limits())?;
    let model = default_model(&call)?;
    let dimension = model.dimension().filter(|_| model.has_token_embeddings()).ok_or_else(|| {
        let message = format!(
            "the model `{}` does not embed single tokens; a model folder with weights does",
            model.id
        );
        Invalid::at(ErrorCode::InvalidParameter, &["inputs"], message)
    })?;
    let counting = model.clone();
    let counted = call.retrieval.maybe_in_background(is_long_input(&request.inputs), move || {
        let prompt = prompt_of(&counting, request.prompt_name);
        let texts: Vec<String> =
            request.inputs.as_slice().iter().map(|text| format!("{prompt}{text}")).collect();
        let counts = texts.iter().map(|text| counting.count_tokens(text).min(counting.max_tokens()));
        let tokens: usize = counts.sum();
        (texts, tokens)
    });
    let (texts, tokens) = counted.await?;
    let most = call.config.limits.embedding_tokens_max / TOKEN_EMBEDDINGS_SHARE;
    if tokens > most {
        let message = format!(
            "`inputs` has {tokens} tokens; at most {most} are embedded one by one in a request \
             (`limits.embedding_tokens_max` divided by {TOKEN_EMBEDDINGS_SHARE})"
        );
        return Err(Invalid::at(ErrorCode::BatchTooLarge, &["inputs"], message).into());
    }
    let due = call.take_tokens(&model.id, tokens).await?;
    let rows = due.of(call.scheduler.embed_tokens(&model, texts).await)?;
    let reply = call.retrieval.maybe_in_background(is_long_reply(&rows), move || {
        let floats = rows.floats().len();
        let by_token: Vec<Vec<&[f32]>> = rows.iter().map(|row| row.chunks(dimension).collect()).collect();
        vectors::json(&by_token, floats, place)
    });
    reply.await?
}

/// A reply has one embedding per token, so that the limit of tokens is divided by this.
const TOKEN_EMBEDDINGS_SHARE: usize = 64;

/// No model of sparse embeddings is served.
pub(super) async fn embed_sparse(call: CallContext) -> Result<Response> {
    let model = default_model(&call)?;
    let message = format!(
        "the model `{}` makes dense embeddings; `POST /v1/search` with `\"mode\": \"lexical\"` ranks by BM25, and \
         text-embeddings-inference with `--pooling splade` serves models of sparse embeddings",
        model.id
    );
    Err(ApiError::new(ErrorCode::InvalidParameter, message))
}

/// The cosine of a sentence with each of the others.
pub(super) async fn similarity(call: CallContext, request: Request) -> Reply<Vec<f32>> {
    let (caching, until) = (body::caching(request.headers()), context::deadline(&request));
    let (bytes, place) = read_body(&call, request).await?;
    let request: SimilarityRequest = weir_api::parse(&bytes)?;
    let parameters = request.parameters.unwrap_or_default();
    let mut texts = vec![request.inputs.source_sentence];
    texts.extend(request.inputs.sentences.into_vec());
    let texts = Texts::list(texts);
    texts.check("inputs", &call.config.request_limits())?;
    let model = default_model(&call)?;
    let job = EmbedJob {
        role: parameters.prompt_name,
        truncate: parameters.truncate(),
        texts,
        field: "inputs",
        model,
        caching,
        until,
        dimensions: None,
        place,
    };
    let made = embed_texts(&call, job).await?;
    let mut embeddings = made.embeddings.iter();
    let source = embeddings.next().ok_or_else(ApiError::internal_error)?;
    Ok(Json(embeddings.map(|other| cosine(source, other)).collect()))
}

/// 0 for an embedding without direction.
fn cosine(one: &[f32], other: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let lengths = (dot(one, one) * dot(other, other)).sqrt();
    if lengths > 0.0 { (dot(one, other) / lengths) as f32 } else { 0.0 }
}
