//! Jina's rerank route.

use serde_json::{Value, json};

use crate::case::{Case, Needs};
use crate::expect;
use crate::probe::Sent;
use crate::target::CheckedServer;
use crate::{MODEL_THAT_IS_NOT, TEXT};

const RERANK: &str = "/v1/rerank";

pub(crate) fn cases(target: &CheckedServer) -> Vec<Case<'_>> {
    let documents = json!(["bread", {"text": TEXT}]);
    let body = |model: &str| json!({"model": model, "query": TEXT, "documents": documents});
    let without_documents = {
        let mut body = body(target.reranker());
        body["return_documents"] = json!(false);
        body["top_n"] = json!(1);
        body
    };
    let rerank = [
        Case::new(
            "rerank",
            Sent::post(RERANK, &body(target.reranker())),
            "200: `results` with `index`, `relevance_score` and `document.text`, best first; `usage`",
            |answer| {
                let reply = expect::success(answer)?;
                expect::text(&reply, "/model")?;
                expect::count(&reply, "/usage/total_tokens")?;
                expect::ranking(&reply, "/results", "relevance_score", 2)?;
                let texts = ["bread", TEXT];
                for place in 0..2 {
                    let index = expect::count(&reply, &format!("/results/{place}/index"))?;
                    let text = texts.get(index as usize).copied().unwrap_or_default();
                    expect::equal(&reply, &format!("/results/{place}/document/text"), &json!(text))?;
                }
                Ok("2 results".to_owned())
            },
        ),
        Case::new(
            "rerank without documents",
            Sent::post(RERANK, &without_documents),
            "200: one of `results`, without its document",
            |answer| {
                let reply = expect::success(answer)?;
                expect::ranking(&reply, "/results", "relevance_score", 1)?;
                match reply.pointer("/results/0/document") {
                    None | Some(Value::Null) => Ok("1 result".to_owned()),
                    Some(_) => Err("`/results/0/document` was declined".to_owned()),
                }
            },
        ),
    ];
    let unknown = Case::new(
        "unknown model",
        Sent::post(RERANK, &body(MODEL_THAT_IS_NOT)),
        "an error of the caller with a `detail`",
        |answer| {
            if !(400..500).contains(&answer.status) {
                return Err(format!("the status is {} instead of 400 to 499", answer.status));
            }
            Ok(format!("{} {}", answer.status, expect::text(&answer.json()?, "/detail")?))
        },
    );
    rerank.into_iter().chain([unknown]).map(|case| case.needs(Needs::Reranker)).collect()
}
