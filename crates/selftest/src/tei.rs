//! The routes of Hugging Face's text-embeddings-inference.

use serde_json::{Value, json};

use crate::TEXT;
use crate::case::{Case, Needs};
use crate::expect::{self, Finding};
use crate::probe::{Answer, Sent};
use crate::target::CheckedServer;

/// Longest text that is sent to exceed the model's input limit.
const TOKENS_SENT_MAX: u64 = 65_536;
/// Most texts that are sent to exceed the limit of a request.
const TEXTS_SENT_MAX: u64 = 65_536;

pub(crate) fn cases(target: &CheckedServer) -> Vec<Case<'_>> {
    let mut cases = server_cases();
    cases.extend(embed_cases(target).into_iter().map(|case| case.needs(Needs::Embedder)));
    cases.extend(rerank_cases().into_iter().map(|case| case.needs(Needs::Reranker)));
    cases
}

fn server_cases<'a>() -> Vec<Case<'a>> {
    vec![
        Case::new("health", Sent::get("/health"), "200 without a body", |answer| {
            expect::status(answer, 200)?;
            if answer.body.is_empty() { Ok("200".to_owned()) } else { Err("the reply has a body".to_owned()) }
        }),
        Case::new(
            "info",
            Sent::get("/info"),
            "200: `model_id`, `model_type`, the limits and `version`",
            |answer| {
                let reply = expect::success(answer)?;
                let kinds = ["embedding", "reranker", "classifier"];
                let model_type = expect::at(&reply, "/model_type")?;
                if !kinds.iter().any(|kind| model_type[kind].is_object()) {
                    return Err(format!("`/model_type` has none of the keys {}", kinds.join(", ")));
                }
                for limit in [
                    "max_concurrent_requests",
                    "max_input_length",
                    "max_batch_tokens",
                    "max_client_batch_size",
                ] {
                    expect::count(&reply, &format!("/{limit}"))?;
                }
                let version = expect::text(&reply, "/version")?;
                Ok(format!("{} by version {version}", expect::text(&reply, "/model_id")?))
            },
        ),
    ]
}

fn embed_cases(target: &CheckedServer) -> Vec<Case<'_>> {
    let post = |body: &Value| Sent::post("/embed", body);
    let tokens = target.input_tokens_max.unwrap_or(u64::MAX);
    let texts = target.batch_texts_max.unwrap_or(u64::MAX);
    let has_token_limit = tokens <= TOKENS_SENT_MAX;
    let has_text_limit = texts <= TEXTS_SENT_MAX;
    let exceeding = |limit: u64, is_sent: bool| if is_sent { limit as usize + 1 } else { 1 };
    vec![
        Case::new(
            "embed one text",
            post(&json!({"inputs": TEXT})),
            "200: a list with one embedding of length 1",
            |answer| {
                let first = expect::rows(&expect::success(answer)?, "", 1)?;
                expect::normalised(&first)?;
                Ok(format!("{} dimensions", first.len()))
            },
        ),
        Case::new(
            "embed a list",
            post(
                &json!({"inputs": [TEXT, "bread"], "truncate": true, "normalize": true, "truncation_direction": "Right"}),
            ),
            "200: a list of embeddings",
            |answer| {
                expect::rows(&expect::success(answer)?, "", 2)?;
                Ok("2 embeddings".to_owned())
            },
        ),
        Case::new(
            "tokenize",
            Sent::post("/tokenize", &json!({"inputs": TEXT})),
            "200: for each text a list of tokens with `id`, `text`, `special`, `start` and `stop`",
            |answer| {
                let reply = expect::success(answer)?;
                expect::list(&reply, "", Some(1))?;
                let tokens = expect::list(&reply, "/0", None)?;
                for place in 0..tokens.len() {
                    token(&reply, &format!("/0/{place}"))?;
                }
                Ok(format!("{} tokens", tokens.len()))
            },
        ),
        Case::new(
            "empty list",
            post(&json!({"inputs": []})),
            "400 with `error` and the `error_type` Empty",
            |answer| error(answer, &[400], "Empty"),
        ),
        Case::new(
            "text too long",
            post(&json!({"inputs": "a ".repeat(exceeding(tokens, has_token_limit)), "truncate": false})),
            "422 (413 by earlier versions) with `error` and the `error_type` Validation",
            |answer| error(answer, &[422, 413], "Validation"),
        )
        .skipped_if(
            !has_token_limit,
            format!("/info names no input limit of up to {TOKENS_SENT_MAX} tokens"),
        ),
        Case::new(
            "too many texts",
            post(&json!({"inputs": vec!["a"; exceeding(texts, has_text_limit)]})),
            "422 (413 by earlier versions) with `error` and the `error_type` Validation",
            |answer| error(answer, &[422, 413], "Validation"),
        )
        .skipped_if(!has_text_limit, format!("/info names no limit of up to {TEXTS_SENT_MAX} texts")),
    ]
}

fn rerank_cases<'a>() -> Vec<Case<'a>> {
    let texts = json!(["bread", TEXT]);
    vec![
        Case::new(
            "rerank",
            Sent::post("/rerank", &json!({"query": TEXT, "texts": texts, "return_text": true})),
            "200: a list of `index`, `score` from 0 to 1 and `text`, best first",
            move |answer| {
                let reply = expect::success(answer)?;
                expect::ranking(&reply, "", "score", 2)?;
                let index = expect::count(&reply, "/0/index")?;
                expect::equal(&reply, "/0/text", &texts[index as usize])?;
                Ok("2 results".to_owned())
            },
        ),
        Case::new(
            "rerank nothing",
            Sent::post("/rerank", &json!({"query": TEXT, "texts": []})),
            "400 with `error` and the `error_type` Empty",
            |answer| error(answer, &[400], "Empty"),
        ),
    ]
}

fn token(reply: &Value, pointer: &str) -> Finding<()> {
    expect::count(reply, &format!("{pointer}/id"))?;
    let special = expect::at(reply, &format!("{pointer}/special"))?;
    if !special.is_boolean() {
        return Err(format!("`{pointer}/special` is not a boolean"));
    }
    let text = expect::at(reply, &format!("{pointer}/text"))?;
    if !text.is_string() {
        return Err(format!("`{pointer}/text` is not a text"));
    }
    for place in ["start", "stop"] {
        let place = expect::at(reply, &format!("{pointer}/{place}"))?;
        // special tokens are nowhere in the text
        if !(place.is_u64() || place.is_null() && *special == json!(true)) {
            return Err(format!("`{pointer}` has no place in the text"));
        }
    }
    Ok(())
}

/// An error in TEI's form: `error` is a text.
fn error(answer: &Answer, statuses: &[u16], kind: &str) -> Finding {
    expect::one_of(answer, statuses)?;
    let reply = answer.json()?;
    let message = expect::text(&reply, "/error")?;
    expect::equal(&reply, "/error_type", &json!(kind))?;
    Ok(format!("{} {message}", answer.status))
}
