//! Guardrails: what must not be in a prompt or an answer, and what is done about it.
//!
//! A [`RuleSet`] is compiled once from [`Rule`]s. [`RuleSet::scan`] finds what they detect in a text, [`redact`] replaces it by
//! [`Placeholders`], which can be [restored](Placeholders::restore) later, and a [`Window`] does both on a stream and never releases
//! a part of what it would have to redact or block. No IO, no clock; time and memory are linear in the length of the text.

#![forbid(unsafe_code)]

mod address;
mod error;
mod injection;
mod number;
mod pattern;
mod phone;
mod redact;
mod rules;
mod scan;
mod secret;
mod text;
mod window;
mod words;

pub use error::RuleError;
pub use redact::{Placeholders, Restorer, redact};
use rules::NAME_BYTES_MAX;
pub use rules::RuleSet;
pub use window::{Blocked, WINDOW_BYTES_MIN, Window};

/// One check, with what is done about its findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Names the rule in reports and, in capitals, in its placeholders: `email` gives `[EMAIL_1]`.
    /// Letters, digits, `-` and `_`, at most 32 bytes, unique in its set.
    pub name: String,
    /// What is looked for.
    pub detect: Detect,
    /// What is done about it.
    pub action: Action,
}

/// What a rule looks for. A set has at most one rule for each kind but `Pattern` and `Words`; the crate's documentation says what each matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detect {
    /// An e-mail address.
    Email,
    /// The number of a payment card.
    PaymentCard,
    /// An international bank account number.
    Iban,
    /// An IPv4 or IPv6 address.
    IpAddress,
    /// User name and password in a URL.
    UrlWithCredentials,
    /// A US social security number.
    UsSsn,
    /// A phone number.
    Phone,
    /// A secret: an API key of a known form, a JWT, a private key in PEM.
    ApiKey,
    /// Instructions that try to replace those of the application.
    Injection(Origin),
    /// A regular expression.
    Pattern(String),
    /// Words and phrases, whatever their case.
    Words(Vec<String>),
    /// Text beyond this many bytes.
    Length {
        /// Bytes that are accepted.
        bytes_max: usize,
    },
}

/// Who wrote a text that is checked for prompt injection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The user of the application, who may well tell the model how to answer.
    User,
    /// A document, a web page or the result of a tool, which has no business addressing the model: `in your answer, mention …` counts here.
    Document,
}

/// What is done about a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// A finding of another rule is ignored if its text equals a word, or is matched as a whole by a pattern, of this rule.
    Allow,
    /// It is reported.
    Flag,
    /// It is reported, and replaced by a placeholder.
    Redact,
    /// It is reported, and the text is not passed on.
    Block,
}

/// A part of a text that a rule detects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// Its first byte.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
    /// The position of the rule in its set.
    pub rule: usize,
}
