//! Guardrails that judge a text as a whole: by topics, with the gateway's own embeddings, and by a moderation server.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::sync::OnceCell;
use weir_config::{Guardrail, GuardrailAction, OnFailure};
use weir_guardrails::conversation::{Direction, Report};
use weir_telemetry::Metrics;
use weir_upstream::{
    DecodedBody, TimeLimits, UpstreamClient, UpstreamError, UpstreamRequest, UpstreamSettings,
};

use crate::LlmError;
use crate::guard::{blocked, configured};
use crate::similarity::{Embedding, cosine};

/// Largest reply of a moderation server.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Requests to one moderation server at a time.
const CONCURRENT_REQUESTS_MAX: usize = 1_000;

/// A guardrail with topics or a moderation server.
pub(crate) struct Judge {
    guardrail: Guardrail,
    /// Embeddings of its topics, made for the first request.
    topics: OnceCell<Vec<Vec<f32>>>,
    moderation: Option<UpstreamClient>,
}

#[derive(Deserialize)]
struct Moderation {
    results: Vec<ModerationResult>,
}

#[derive(Deserialize)]
struct ModerationResult {
    flagged: bool,
}

impl Judge {
    /// `None` for a guardrail without topics and moderation server.
    ///
    /// # Errors
    /// The address of the server can't be called.
    pub(crate) fn new(guardrail: &Guardrail, metrics: &Metrics) -> Result<Option<Judge>, String> {
        if guardrail.topics.is_empty() && guardrail.moderation_url.is_empty() {
            return Ok(None);
        }
        let key = guardrail.moderation_key.as_ref().map(|key| key.secret()).transpose();
        let key = key.map_err(|reason| format!("`moderation_key`: {reason}"))?;
        let settings = || UpstreamSettings {
            ca_file: None,
            id: format!("guardrail {}", guardrail.id),
            name: format!("of the guardrail `{}`", guardrail.id),
            url: guardrail.moderation_url.trim_end_matches('/').to_owned(),
            api_key: key.map(|key| key.reveal().to_owned()),
            api_key_header: None,
            connect_timeout: Duration::from_millis(guardrail.moderation_timeout_ms),
            concurrent_requests_max: CONCURRENT_REQUESTS_MAX,
            retries_max: 0,
        };
        let client =
            (!guardrail.moderation_url.is_empty()).then(|| UpstreamClient::new(settings(), metrics.clone()));
        let moderation = client.transpose().map_err(|error| error.to_string())?;
        Ok(Some(Judge { guardrail: guardrail.clone(), topics: OnceCell::new(), moderation }))
    }

    pub(crate) fn guardrail(&self) -> &Guardrail {
        &self.guardrail
    }

    /// Compares a question with the topics.
    ///
    /// # Errors
    /// `Blocked`.
    pub(crate) async fn judge_topic(
        &self,
        embedding: Option<&Embedding>,
        question: &str,
        report: &mut Report,
    ) -> Result<(), LlmError> {
        let Some(embedding) =
            embedding.filter(|_| self.has(Direction::Input) && !self.guardrail.topics.is_empty())
        else {
            return Ok(());
        };
        let topics = self.topics.get_or_try_init(|| async {
            let texts: Vec<&str> = self.guardrail.topics.iter().map(String::as_str).collect();
            embedding.embed(&texts).await.ok_or(())
        });
        let (Ok(topics), Some(rows)) = (topics.await, embedding.embed(&[question]).await) else {
            return Ok(());
        };
        let is_near = |topic: &Vec<f32>| {
            rows.first().is_some_and(|row| cosine(row, topic) >= self.guardrail.topic_similarity)
        };
        if topics.iter().any(is_near) { self.found("topic", Direction::Input, report) } else { Ok(()) }
    }

    /// Asks the moderation server about texts.
    ///
    /// # Errors
    /// `Blocked`; `Unchecked` when the server fails and the guardrail says so.
    pub(crate) async fn moderate(
        &self,
        direction: Direction,
        texts: &[String],
        report: &mut Report,
    ) -> Result<(), LlmError> {
        let Some(client) = self.moderation.as_ref().filter(|_| self.has(direction) && !texts.is_empty())
        else {
            return Ok(());
        };
        match ask(client, texts, Duration::from_millis(self.guardrail.moderation_timeout_ms)).await {
            Ok(false) => Ok(()),
            Ok(true) => self.found("moderation", direction, report),
            Err(error) => {
                tracing::warn!(
                    guardrail = self.guardrail.id,
                    error = error.without_text(),
                    "the moderation server failed"
                );
                match self.guardrail.moderation_on_failure {
                    OnFailure::Allow => Ok(()),
                    OnFailure::Block => {
                        let rule = self.rule("moderation_failed");
                        report.add_named(direction, &rule, "block", 1);
                        let is_output = direction == Direction::Output;
                        Err(LlmError::Unchecked { guardrail: self.guardrail.id.clone(), is_output })
                    }
                }
            }
        }
    }

    fn has(&self, direction: Direction) -> bool {
        self.guardrail.on.contains(&configured(direction))
    }

    fn rule(&self, kind: &str) -> String {
        format!("{}-{kind}", self.guardrail.id)
    }

    fn found(&self, kind: &str, direction: Direction, report: &mut Report) -> Result<(), LlmError> {
        let rule = self.rule(kind);
        let is_block = self.guardrail.action == GuardrailAction::Block;
        report.add_named(direction, &rule, if is_block { "block" } else { "flag" }, 1);
        if is_block { Err(blocked(direction, &rule)) } else { Ok(()) }
    }
}

/// Whether the server flags any of the texts.
async fn ask(client: &UpstreamClient, texts: &[String], timeout: Duration) -> Result<bool, UpstreamError> {
    let body = json!({"input": texts}).to_string();
    let limits = TimeLimits::whole_reply(timeout, None);
    let request = UpstreamRequest::post_json("/moderations", body, limits);
    let reply = client.send(request, client.try_permit()?).await?;
    let (head, body) = reply.into_parts();
    let body = DecodedBody::new(&head.headers, body).read(REPLY_BYTES_MAX).await?;
    let body = body.map_err(|reason| client.invalid_reply(&reason))?;
    let moderation: Moderation =
        serde_json::from_slice(&body).map_err(|error| client.invalid_reply(&error.to_string()))?;
    Ok(moderation.results.iter().any(|result| result.flagged))
}
