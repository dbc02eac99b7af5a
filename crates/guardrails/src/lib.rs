//! Guardrails: what must not be in a prompt or an answer, and what is done about it.
//!
//! A [`RuleSet`] is compiled once from [`Rule`]s. [`RuleSet::scan`] finds what they detect in a text, [`redact`] replaces it by
//! [`Placeholders`], which can be [restored](Placeholders::restore) later, and a [`Window`] does both on a stream and never releases
//! a part of what it would have to redact or block. [`conversation`] applies them to requests and replies. [`RuleSet::scan_parts`] also finds what crosses the parts of a message, and
//! [`RuleSet::scan_number`] what a number of JSON stands for. No IO, no clock; time and memory are linear in the length of the text, except that
//! a [`Detect::Pattern`] whose matches are long and fail late may read a text several times.
//!
//! A table has for every byte whether a finding can begin there; a detector then verifies the candidate and reads a bounded number of
//! bytes.
//!
//! The kinds of the table below are searched in the text as it is written and, if that differs, as it is shown: digits and letters of other
//! widths and styles and decimal digits of other scripts are those of ASCII, blanks are spaces, dashes are hyphens, and characters that are
//! not shown are left out. Tag characters are read as the ASCII that they encode as well. A finding covers all bytes of the original from
//! its first to its last character. A line break may be in a number (up to four in one), but not in a column of numbers; a phone number
//! whose first line is one by itself ends there. A number or address may follow a Chinese or Japanese character directly, but no letter or digit of
//! Latin, Greek or Cyrillic.
//!
//! | kind | is found | is not |
//! |---|---|---|
//! | [`Email`](Detect::Email) | up to 64 of letters, digits and `._%+-'` before the `@`, a domain of two labels or more that ends in letters or `xn--…`; accented, Greek and Cyrillic letters | `user@localhost`, addresses with quotes or of IP numbers |
//! | [`PaymentCard`](Detect::PaymentCard) | 12 to 19 digits with the prefix and a length of an issuer (Visa, Mastercard, American Express, Discover, Diners Club, JCB, Maestro, UnionPay, RuPay, Mir, Troy, Elo) and Luhn's digit, in one piece, or in groups of which the first has four digits | groups with different signs between them, digits that continue a number or word |
//! | [`Iban`](Detect::Iban) | a country of the registry, its length, check digits by mod 97, in either case, in one piece or in groups of four | account numbers without IBAN |
//! | [`IpAddress`](Detect::IpAddress) | IPv4 with four numbers up to 255 without leading zeros; IPv6 in every notation, zones excluded | versions with three numbers; `a::b` without a digit; five numbers with dots |
//! | [`UrlWithCredentials`](Detect::UrlWithCredentials) | user name and password between `://` and `@`, up to 256 bytes; the finding is just these | a user name alone, secrets in paths and queries |
//! | [`UsSsn`](Detect::UsSsn) | `123-45-6789` with hyphens, spaces or dots | nine digits in a row; areas 000, 666 and from 900, group 00, serial 0000 |
//! | [`Phone`](Detect::Phone) | `+` and 8 to 15 digits in groups; North America's 3-3-4 with or without `1`; groups that begin with `00` or `0`; 7 to 12 other digits within 40 bytes after, or directly before, a word such as `phone` in English, German, French, Spanish, Italian, Portuguese; an extension `x12` | other digits without such a word, dates |
//! | [`ApiKey`](Detect::ApiKey) | keys of OpenAI, Anthropic, OpenRouter, AWS (access keys), GitHub, GitLab, Google, Slack, Stripe, Hugging Face, Groq, xAI, Perplexity, Replicate, npm, PyPI, DigitalOcean, SendGrid, and of this gateway; JSON Web Tokens; private keys in PEM from the first to the last line | secrets without a prefix, such as AWS secret keys; certificates and public keys |
//! | [`Injection`](Detect::Injection) | phrases that replace the application's instructions, ask for its prompt or for another role, in English, German, French, Spanish, Italian, Portuguese, Dutch, Russian, Polish, Turkish, Chinese, Japanese, Korean, Arabic and Hindi; special tokens of chat templates; images whose address carries data. Case, accents, compatibility forms, invisible characters, look-alike letters and digits for letters make no difference. Weights of weaker phrases within 512 bytes are added | requests that are ordinary but unwanted, paraphrases without any of these words, encoded text |
//! | [`Pattern`](Detect::Pattern) | leftmost matches of a regular expression, in the text as it is written and as it is shown; `\b` is the boundary of ASCII words | back-references, look-around, and automata above 4 MiB are refused |
//! | [`Words`](Detect::Words) | whole words and phrases in any case, by Unicode; between words up to three bytes of spaces and signs; a character of a script without spaces is a word | parts of words, other forms of a word |
//! | [`Length`](Detect::Length) | the first character beyond the limit | |

#![forbid(unsafe_code)]

mod address;
pub mod conversation;
mod error;
mod injection;
mod json;
mod link;
mod normalise;
mod number;
mod parts;
mod pattern;
mod phone;
mod place;
mod redact;
mod rules;
mod scan;
mod secret;
mod text;
mod views;
mod window;
mod words;

pub use error::RuleError;
pub use normalise::is_shown;
pub use parts::{CrossingFinding, PartFindings, PartSpan, redact_parts};
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
    /// The kind of finding.
    pub detect: Detect,
    /// The action.
    pub action: Action,
}

/// The kind of finding of a rule. A set has at most one rule for each kind but `Pattern` and `Words`; the crate's documentation says what each matches.
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

/// The action on a finding.
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
