//! Facts of the server before it is checked: its models, its limits, and the embedding of one text.

use serde_json::{Value, json};
use weir_client::{ClientError, TransportError};

use crate::TEXT;
use crate::expect::floats;
use crate::probe::{Probe, Sent};

/// The server that is tested.
#[derive(Debug, Default)]
pub(crate) struct CheckedServer {
    /// The model that embeds.
    pub(crate) model: Option<String>,
    /// The model that reranks.
    pub(crate) reranker: Option<String>,
    /// The embedding of [`TEXT`] in OpenAI's API.
    pub(crate) reference: Option<Vec<f64>>,
    /// TEI's limits: tokens of a text, texts of a request.
    pub(crate) input_tokens_max: Option<u64>,
    pub(crate) batch_texts_max: Option<u64>,
}

impl CheckedServer {
    /// Asks the server for its models. Those that are named are not asked for.
    ///
    /// # Errors
    /// When the server does not answer at all.
    pub(crate) async fn discover(
        probe: &Probe,
        model: Option<String>,
        reranker: Option<String>,
    ) -> Result<CheckedServer, ClientError> {
        let listed = ask(probe, "/v1/models").await.map_err(|source| {
            let url = probe.url().to_owned();
            ClientError::Unreachable { url, source }
        })?;
        let info = ask(probe, "/info").await.unwrap_or_default();
        let tags = ask(probe, "/api/tags").await.unwrap_or_default();
        let model = model.or_else(|| embedder(&listed, &info, &tags));
        let mut target = CheckedServer {
            reranker: reranker.or_else(|| model_that(&listed, "rerank")),
            input_tokens_max: info["max_input_length"].as_u64(),
            batch_texts_max: info["max_client_batch_size"].as_u64(),
            reference: None,
            model,
        };
        if let Some(model) = &target.model {
            let sent = Sent::post("/v1/embeddings", &json!({"model": model, "input": TEXT}));
            let reply = probe.send(&sent).await.ok().and_then(|answer| answer.json().ok());
            target.reference = reply.and_then(|reply| floats(&reply, "/data/0/embedding").ok());
        }
        Ok(target)
    }

    /// The name of the model that embeds, for requests that are sent only if there is one.
    pub(crate) fn model(&self) -> &str {
        self.model.as_deref().unwrap_or_default()
    }

    /// The same of the model that reranks.
    pub(crate) fn reranker(&self) -> &str {
        self.reranker.as_deref().unwrap_or_default()
    }
}

/// The JSON of a reply; null when it is an error.
async fn ask(probe: &Probe, path: &str) -> Result<Value, TransportError> {
    let answer = probe.send(&Sent::get(path)).await?;
    Ok(answer.json().ok().filter(|_| answer.status == 200).unwrap_or_default())
}

/// The first model of the list that says it can do this.
fn model_that(listed: &Value, capability: &str) -> Option<String> {
    let can = |model: &&Value| {
        model["capabilities"].as_array().is_some_and(|all| all.iter().any(|one| one == capability))
    };
    listed["data"].as_array()?.iter().find(can)?["id"].as_str().map(str::to_owned)
}

/// The first model that embeds; on servers that do not say what their models do, the first of any.
fn embedder(listed: &Value, info: &Value, tags: &Value) -> Option<String> {
    let says = |model: &Value| model["capabilities"].is_array();
    let first = || {
        let models = listed["data"].as_array()?;
        models.iter().find(|model| !says(model))?["id"].as_str().map(str::to_owned)
    };
    let of_info = || info["model_type"]["embedding"].is_object().then(|| info["model_id"].as_str()).flatten();
    model_that(listed, "embeddings")
        .or_else(first)
        .or_else(|| of_info().map(str::to_owned))
        .or_else(|| tags["models"][0]["name"].as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_the_first_that_embeds() {
        let model = |id: &str, capability: &str| json!({"id": id, "capabilities": [capability]});
        let listed =
            json!({"data": [model("ce", "rerank"), model("m", "embeddings"), model("n", "embeddings")]});
        assert_eq!(embedder(&listed, &Value::Null, &Value::Null).as_deref(), Some("m"));
        assert_eq!(model_that(&listed, "rerank").as_deref(), Some("ce"));
        let of_openai = json!({"data": [{"id": "text-embedding-3-small"}]});
        assert_eq!(
            embedder(&of_openai, &Value::Null, &Value::Null).as_deref(),
            Some("text-embedding-3-small")
        );
        assert_eq!(model_that(&of_openai, "rerank"), None);
        let info = json!({"model_id": "a/b", "model_type": {"embedding": {"pooling": "cls"}}});
        assert_eq!(embedder(&Value::Null, &info, &Value::Null).as_deref(), Some("a/b"));
        let of_a_reranker = json!({"model_id": "a/b", "model_type": {"reranker": {}}});
        assert_eq!(embedder(&Value::Null, &of_a_reranker, &Value::Null), None);
        let tags = json!({"models": [{"name": "nomic:latest"}]});
        assert_eq!(embedder(&Value::Null, &Value::Null, &tags).as_deref(), Some("nomic:latest"));
    }
}
