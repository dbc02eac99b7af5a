//! Ollama's embeddings and list of models.

use serde_json::json;

use crate::case::{Case, Needs};
use crate::expect::{self, Finding};
use crate::probe::{Answer, Sent};
use crate::target::CheckedServer;
use crate::{MODEL_THAT_IS_NOT, TEXT};

const EMBED: &str = "/api/embed";

pub(crate) fn cases(target: &CheckedServer) -> Vec<Case<'_>> {
    let model = target.model();
    let reference = target.reference.as_deref();
    let embeds = [
        Case::new(
            "embed one text",
            Sent::post(EMBED, &json!({"model": model, "input": TEXT})),
            "200: `model`, a list with one embedding, durations and `prompt_eval_count`",
            move |answer| {
                let first = embeddings(answer, 1)?;
                expect::same_embedding(&first, reference)?;
                Ok(format!("{} dimensions", first.len()))
            },
        ),
        Case::new(
            "embed a list",
            Sent::post(
                EMBED,
                &json!({"model": model, "input": [TEXT, "bread"], "truncate": true, "keep_alive": "5m"}),
            ),
            "200: an embedding of each text",
            |answer| embeddings(answer, 2).map(|_| "2 embeddings".to_owned()),
        ),
    ];
    let others = [
        Case::new(
            "list of models",
            Sent::get("/api/tags"),
            "200: `models` with `name`, `model`, `modified_at`, `size`, `digest` and `details`",
            |answer| {
                let reply = expect::success(answer)?;
                let models = expect::list(&reply, "/models", None)?;
                for number in 0..models.len() {
                    for field in ["name", "model", "modified_at", "digest"] {
                        expect::text(&reply, &format!("/models/{number}/{field}"))?;
                    }
                    expect::count(&reply, &format!("/models/{number}/size"))?;
                    expect::at(&reply, &format!("/models/{number}/details/family"))?;
                }
                Ok(format!("{} models", models.len()))
            },
        ),
        Case::new(
            "unknown model",
            Sent::post(EMBED, &json!({"model": MODEL_THAT_IS_NOT, "input": TEXT})),
            "404 with the text `error`",
            |answer| {
                expect::status(answer, 404)?;
                Ok(format!("404 {}", expect::text(&answer.json()?, "/error")?))
            },
        ),
    ];
    embeds.into_iter().map(|case| case.needs(Needs::Embedder)).chain(others).collect()
}

/// The first of this number of embeddings.
fn embeddings(answer: &Answer, length: usize) -> Finding<Vec<f64>> {
    let reply = expect::success(answer)?;
    expect::text(&reply, "/model")?;
    let first = expect::rows(&reply, "/embeddings", length)?;
    for field in ["total_duration", "load_duration", "prompt_eval_count"] {
        expect::count(&reply, &format!("/{field}"))?;
    }
    Ok(first)
}
