//! Version 2 of Cohere's API.

use serde_json::{Value, json};

use crate::case::{Case, Needs};
use crate::expect::{self, Finding};
use crate::probe::{Answer, Sent};
use crate::target::CheckedServer;
use crate::{MODEL_THAT_IS_NOT, TEXT};

pub(crate) fn cases(target: &CheckedServer) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> =
        embed_cases(target).into_iter().map(|case| case.needs(Needs::Embedder)).collect();
    cases.push(Case::new(
        "unknown model",
        Sent::post("/v2/embed", &embed_body(MODEL_THAT_IS_NOT, &["float"])),
        "404 with a `message`",
        |answer| error(answer, &[404]),
    ));
    cases.extend(rerank_cases(target).into_iter().map(|case| case.needs(Needs::Reranker)));
    cases
}

/// Without a role that would put a prompt before the text.
fn embed_body(model: &str, types: &[&str]) -> Value {
    json!({"model": model, "texts": [TEXT], "input_type": "classification", "embedding_types": types})
}

fn embed_cases(target: &CheckedServer) -> Vec<Case<'_>> {
    let model = target.model();
    let reference = target.reference.as_deref();
    vec![
        Case::new(
            "embed",
            Sent::post("/v2/embed", &embed_body(model, &["float"])),
            "200: `id`, `embeddings.float` and `meta`",
            move |answer| {
                let reply = expect::success(answer)?;
                expect::text(&reply, "/id")?;
                let first = expect::rows(&reply, "/embeddings/float", 1)?;
                expect::same_embedding(&first, reference)?;
                expect::equal(&reply, "/meta/api_version/version", &json!("2"))?;
                expect::number(&reply, "/meta/billed_units/input_tokens")?;
                Ok(format!("{} dimensions", first.len()))
            },
        ),
        Case::new(
            "embed in several types",
            Sent::post("/v2/embed", &embed_body(model, &["float", "int8", "ubinary"])),
            "200: each type; `int8` has a byte per dimension, `ubinary` a bit",
            |answer| {
                let reply = expect::success(answer)?;
                let dimensions = expect::rows(&reply, "/embeddings/float", 1)?.len();
                for (kind, length, range) in
                    [("int8", dimensions, -128.0..=127.0), ("ubinary", dimensions.div_ceil(8), 0.0..=255.0)]
                {
                    let values = expect::rows(&reply, &format!("/embeddings/{kind}"), 1)?;
                    if values.len() != length || !values.iter().all(|value| range.contains(value)) {
                        return Err(format!("`/embeddings/{kind}/0` is not {length} bytes"));
                    }
                }
                Ok("3 types".to_owned())
            },
        ),
        Case::new(
            "embed nothing",
            Sent::post("/v2/embed", &json!({"model": model, "texts": [], "input_type": "classification"})),
            "400 (or 422) with a `message`",
            |answer| error(answer, &[400, 422]),
        ),
    ]
}

fn rerank_cases(target: &CheckedServer) -> Vec<Case<'_>> {
    let body = |documents: Value, top_n: usize| json!({"model": target.reranker(), "query": TEXT, "documents": documents, "top_n": top_n});
    vec![
        Case::new(
            "rerank",
            Sent::post("/v2/rerank", &body(json!(["bread", TEXT, "a low dam"]), 5)),
            "200: `results` with `index` and `relevance_score` from 0 to 1, best first, without documents",
            |answer| {
                let reply = expect::success(answer)?;
                expect::text(&reply, "/id")?;
                expect::ranking(&reply, "/results", "relevance_score", 3)?;
                if reply.pointer("/results/0/document").is_some_and(|document| !document.is_null()) {
                    return Err("`/results/0/document` was not asked for".to_owned());
                }
                expect::number(&reply, "/meta/billed_units/search_units")?;
                Ok("3 results".to_owned())
            },
        ),
        Case::new(
            "rerank to the best",
            Sent::post("/v2/rerank", &body(json!(["bread", TEXT]), 1)),
            "200: one of `results`",
            |answer| {
                expect::ranking(&expect::success(answer)?, "/results", "relevance_score", 1)?;
                Ok("1 result".to_owned())
            },
        ),
        Case::new(
            "rerank nothing",
            Sent::post("/v2/rerank", &body(json!([]), 1)),
            "400 (or 422) with a `message`",
            |answer| error(answer, &[400, 422]),
        ),
    ]
}

fn error(answer: &Answer, statuses: &[u16]) -> Finding {
    expect::one_of(answer, statuses)?;
    let reply = answer.json()?;
    Ok(format!("{} {}", answer.status, expect::text(&reply, "/message")?))
}
