//! `[[guardrails]]`: what prompts and answers must not contain, and what is done about it.

use serde::{Deserialize, Serialize};

use crate::secret::ApiKey;
use crate::upstream::check_url;

/// Checks of prompts and answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guardrail {
    /// Its name in replies, placeholders and metrics.
    pub id: String,
    /// The models that it is for, by the names that callers send; `*` at the end stands for anything.
    #[serde(default = "all_models")]
    pub models: Vec<String>,
    /// The numbers of the API keys that it is for; empty: all requests.
    #[serde(default)]
    pub keys: Vec<i64>,
    /// The direction of the checked text.
    #[serde(default = "both")]
    pub on: Vec<Direction>,
    /// The action on findings.
    #[serde(default)]
    pub action: GuardrailAction,
    /// Kinds of data to detect.
    #[serde(default)]
    pub detect: Vec<Detector>,
    /// Regular expressions to detect.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// Words and phrases to detect, whatever their case.
    #[serde(default)]
    pub words: Vec<String>,
    /// Words that are never found.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Patterns; what one of them matches as a whole is never found.
    #[serde(default)]
    pub allow_patterns: Vec<String>,
    /// Longest text of a message, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<usize>,
    /// Sentences about topics to detect, by the similarity of embeddings.
    #[serde(default)]
    pub topics: Vec<String>,
    /// Lowest cosine of a prompt with a sentence of `topics`.
    #[serde(default = "topic_similarity")]
    pub topic_similarity: f32,
    /// Whether placeholders in answers are replaced by what they stand for.
    #[serde(default)]
    pub restore: bool,
    /// How streams are checked.
    #[serde(default)]
    pub stream: StreamMode,
    /// Most bytes of an answer that are held back while more text may complete what is detected.
    #[serde(default = "window")]
    pub window_bytes: usize,
    /// A server with OpenAI's API of moderations that judges prompts and whole answers.
    #[serde(default)]
    pub moderation_url: String,
    /// Where to read its API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moderation_key: Option<ApiKey>,
    /// Its time limit.
    #[serde(default = "moderation_timeout")]
    pub moderation_timeout_ms: u64,
    /// The action when it fails.
    #[serde(default)]
    pub moderation_on_failure: OnFailure,
}

/// The direction of the checked text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Text of callers.
    Input,
    /// Text of models.
    Output,
}

/// The action on a finding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuardrailAction {
    /// It is reported.
    Flag,
    /// It is replaced by a placeholder.
    #[default]
    Redact,
    /// The request is refused; the answer ends.
    Block,
}

/// How a streamed answer is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamMode {
    /// It is passed on as it comes, and checked at its end: findings are reported, not removed.
    Audit,
    /// Text is held back as long as it may be the beginning of a finding.
    #[default]
    Window,
    /// It is held back until its end.
    Buffer,
}

/// The action when a check can't be made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The request is refused.
    #[default]
    Block,
    /// The request goes on.
    Allow,
}

/// A kind of data, or a group of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Detector {
    /// All kinds of personal data.
    Pii,
    /// E-mail addresses.
    Email,
    /// Numbers of payment cards.
    PaymentCard,
    /// International bank account numbers.
    Iban,
    /// IPv4 and IPv6 addresses.
    IpAddress,
    /// US social security numbers.
    UsSsn,
    /// Phone numbers.
    Phone,
    /// All kinds of secrets.
    Secrets,
    /// API keys, tokens and private keys.
    ApiKey,
    /// Passwords in URLs.
    UrlWithCredentials,
    /// Prompt injection.
    Injection,
}

impl Detector {
    /// The kinds: of a group all of its own.
    pub fn kinds(self) -> &'static [Detector] {
        use Detector::{
            ApiKey, Email, Iban, Injection, IpAddress, PaymentCard, Phone, UrlWithCredentials, UsSsn,
        };
        match self {
            Detector::Pii => &[Email, PaymentCard, Iban, IpAddress, UsSsn, Phone],
            Detector::Secrets => &[ApiKey, UrlWithCredentials],
            Email => &[Email],
            PaymentCard => &[PaymentCard],
            Iban => &[Iban],
            IpAddress => &[IpAddress],
            UsSsn => &[UsSsn],
            Phone => &[Phone],
            ApiKey => &[ApiKey],
            UrlWithCredentials => &[UrlWithCredentials],
            Injection => &[Injection],
        }
    }
}

fn all_models() -> Vec<String> {
    vec!["*".to_owned()]
}
fn both() -> Vec<Direction> {
    vec![Direction::Input, Direction::Output]
}
fn topic_similarity() -> f32 {
    0.5
}
fn window() -> usize {
    4_096
}
fn moderation_timeout() -> u64 {
    2_000
}

/// Longest id: rules are named after it.
const ID_BYTES_MAX: usize = 20;
/// Bounds of `window_bytes`.
const WINDOW_BYTES: std::ops::RangeInclusive<usize> = 512..=1 << 20;
/// Bounds of `moderation_timeout_ms`.
const MODERATION_TIMEOUT_MS: std::ops::RangeInclusive<u64> = 1..=60_000;
/// Most entries of a list.
const ENTRIES_MAX: usize = 10_000;

impl Guardrail {
    /// Whether it is for requests of this model and key.
    pub fn is_for(&self, model: &str, key: Option<i64>) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => model.starts_with(prefix),
            None => model == pattern,
        };
        self.models.iter().any(fits)
            && (self.keys.is_empty() || key.is_some_and(|key| self.keys.contains(&key)))
    }

    /// Problems of this table alone.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let is_name = self.id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
        if self.id.is_empty() || self.id.len() > ID_BYTES_MAX || !is_name {
            problems
                .push(format!("has no usable `id`: use at most {ID_BYTES_MAX} letters, digits, `-` and `_`"));
        }
        if self.on.is_empty() {
            problems.push("checks nothing: `on` is empty".to_owned());
        }
        let lists = [&self.patterns, &self.words, &self.allow, &self.allow_patterns, &self.topics];
        if lists.iter().any(|list| list.len() > ENTRIES_MAX) {
            problems.push(format!("has a list of more than {ENTRIES_MAX} entries"));
        }
        let detects = !self.detect.is_empty() || lists[..2].iter().any(|list| !list.is_empty());
        if !detects && self.topics.is_empty() && self.bytes_max.is_none() && self.moderation_url.is_empty() {
            problems.push(
                "detects nothing: give it `detect`, `patterns`, `words`, `bytes_max`, `topics` or `moderation_url`".to_owned(),
            );
        }
        let is_redaction = self.action == GuardrailAction::Redact;
        if is_redaction
            && !(self.topics.is_empty() && self.moderation_url.is_empty() && self.bytes_max.is_none())
        {
            problems.push(
                "can't redact by `topics`, `bytes_max` or `moderation_url`: use `flag` or `block`".to_owned(),
            );
        }
        if self.restore && !is_redaction {
            problems.push("has `restore`, which is for the action `redact`".to_owned());
        }
        if !(0.0..=1.0).contains(&self.topic_similarity) {
            problems.push("has a `topic_similarity` that is not from 0 to 1".to_owned());
        }
        if !WINDOW_BYTES.contains(&self.window_bytes) {
            problems.push(format!(
                "has `window_bytes` out of range: {} to {}",
                WINDOW_BYTES.start(),
                WINDOW_BYTES.end()
            ));
        }
        if !MODERATION_TIMEOUT_MS.contains(&self.moderation_timeout_ms) {
            problems.push("has a `moderation_timeout_ms` out of range: 1 to 60000".to_owned());
        }
        if !self.moderation_url.is_empty()
            && let Err(message) = check_url(&self.moderation_url)
        {
            problems.push(format!("has a `moderation_url` that {message}"));
        }
        problems
    }
}
