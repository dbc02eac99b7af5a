//! One check: what is sent, what the API promises, and how a reply is compared with it.

use crate::expect::Finding;
use crate::probe::{Answer, Probe, Sent};
use crate::target::CheckedServer;

/// A model without which a check is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Embedder,
    Reranker,
}

impl Needs {
    /// Why a check is skipped, if the server has no such model.
    fn missing(self, target: &CheckedServer) -> Option<&'static str> {
        match self {
            Needs::Embedder if target.model.is_none() => {
                Some("the server lists no model that embeds; name one with --model")
            }
            Needs::Reranker if target.reranker.is_none() => {
                Some("the server lists no model that reranks; name one with --rerank-model")
            }
            Needs::Embedder | Needs::Reranker => None,
        }
    }
}

/// A check that was not made yet.
pub(crate) struct Case<'a> {
    name: &'static str,
    expected: &'static str,
    sent: Sent,
    needs: Option<Needs>,
    /// Why the check does not apply to this server.
    skipped: Option<String>,
    verify: Box<dyn Fn(&Answer) -> Finding + 'a>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(
        name: &'static str,
        sent: Sent,
        expected: &'static str,
        verify: impl Fn(&Answer) -> Finding + 'a,
    ) -> Case<'a> {
        Case { name, expected, sent, needs: None, skipped: None, verify: Box::new(verify) }
    }

    pub(crate) fn needs(self, needs: Needs) -> Case<'a> {
        Case { needs: Some(needs), ..self }
    }

    pub(crate) fn skipped_if(self, is_skipped: bool, reason: impl Into<String>) -> Case<'a> {
        let skipped = is_skipped.then(|| reason.into()).or(self.skipped);
        Case { skipped, ..self }
    }

    /// Makes the check. A server that does not answer deviates.
    pub(crate) async fn run(self, probe: &Probe, target: &CheckedServer, dialect: &'static str) -> Check {
        let missing = self.needs.and_then(|needs| needs.missing(target)).map(str::to_owned);
        let check = |result, got| Check {
            dialect,
            name: self.name,
            sent: self.sent.to_string(),
            expected: self.expected,
            got,
            result,
        };
        if let Some(reason) = missing.or(self.skipped) {
            return check(CheckResult::Skipped, reason);
        }
        match probe.send(&self.sent).await {
            Err(error) => check(CheckResult::Deviates, format!("no reply: {error}")),
            Ok(answer) => match (self.verify)(&answer) {
                Ok(found) => check(CheckResult::Passed, found),
                Err(deviation) => {
                    check(CheckResult::Deviates, format!("{deviation}; the reply: {}", answer.summary()))
                }
            },
        }
    }
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckResult {
    /// The reply is as promised.
    Passed,
    /// It is not.
    Deviates,
    /// Nothing was sent.
    Skipped,
}

/// A check that was made, or skipped.
#[derive(Debug, serde::Serialize)]
pub struct Check {
    /// The name of the API.
    pub dialect: &'static str,
    /// Its name.
    pub name: &'static str,
    /// How it ended.
    pub result: CheckResult,
    /// The request, shortened.
    pub sent: String,
    /// The promise of the API.
    pub expected: &'static str,
    /// The reply, its deviation, or the reason why the check was skipped.
    pub got: String,
}
