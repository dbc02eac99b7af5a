//! Why a request was not answered.

use weir_access::Limited;
use weir_guardrails::conversation::{Direction, Refused};
use weir_retrieval::RequestError;
use weir_translate::conversation::InvalidRequest;
use weir_translate::{Account, TranslateError};
use weir_upstream::UpstreamError;

/// A request that was refused or failed before its reply began.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LlmError {
    /// The body is no JSON object, or a field that decides something has a wrong type.
    #[error("{0}")]
    Json(String),
    /// The body is no UTF-8 from this byte on.
    #[error("the body is not valid UTF-8: byte {0} is the first invalid byte")]
    Utf8(usize),
    /// A field has a wrong value, or one that the provider has no counterpart for.
    #[error("`{field}` {reason}")]
    Invalid {
        /// The field.
        field: String,
        /// The problem and its remedy.
        reason: String,
    },
    /// No route, or none that the caller may use.
    #[error("there is no model `{0}` for chat")]
    NoModel(String),
    /// A limit of the caller's key is reached.
    #[error("a limit of the key is reached")]
    Limited(Limited),
    /// A guardrail blocks the request or its answer.
    #[error("{} was blocked by the guardrail rule `{rule}`", if *.is_output { "the answer" } else { "the request" })]
    Blocked {
        /// The rule.
        rule: String,
        /// Whether the answer was blocked.
        is_output: bool,
    },
    /// A guardrail's moderation server failed.
    #[error("the guardrail `{guardrail}` could not check the {}: its moderation server failed or was late (`moderation_url`, `moderation_timeout_ms`); try again", if *.is_output { "answer" } else { "request" })]
    Unchecked {
        /// The guardrail.
        guardrail: String,
        /// Whether the answer was to be checked.
        is_output: bool,
    },
    /// Sources could not be searched.
    #[error("the sources of the answer could not be searched")]
    Retrieval(Box<RequestError>),
    /// A part of the gateway failed; the details are in the log.
    #[error("internal error")]
    Internal,
    /// No upstream could answer; the error of the last one that was tried.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// The provider lays its error to the request, in a reply of success.
    #[error("the upstream `{upstream}` refused the request: {message}")]
    Refused {
        /// The upstream.
        upstream: String,
        /// The provider's message.
        message: String,
    },
    /// The upstream refused the account that the key of the configuration belongs to.
    #[error("the upstream `{upstream}` refused {} with {status}", refused(*account))]
    Credentials {
        /// The upstream.
        upstream: String,
        /// The status.
        status: u16,
        /// The problem of the account.
        account: Account,
    },
}

impl LlmError {
    /// The error with what `change` makes of a provider's text.
    pub(crate) fn with_text(mut self, change: impl FnOnce(&str) -> String) -> LlmError {
        if let LlmError::Upstream(error) = self {
            return LlmError::Upstream(error.with_text(change));
        }
        if let LlmError::Refused { message, .. } = &mut self {
            *message = change(message);
        }
        self
    }
}

/// The part of an account that is refused.
fn refused(account: Account) -> &'static str {
    match account {
        Account::Key => "its `api_key`",
        Account::Credit => "the account of its `api_key`, which has no credit left,",
        Account::Region => "the region of this gateway",
    }
}

impl From<RequestError> for LlmError {
    fn from(error: RequestError) -> LlmError {
        LlmError::Retrieval(Box::new(error))
    }
}

impl From<TranslateError> for LlmError {
    fn from(error: TranslateError) -> LlmError {
        match error {
            TranslateError::Request { field, reason } => LlmError::Invalid { field, reason },
            TranslateError::Reply(reason) | TranslateError::Provider { message: reason, .. } => {
                LlmError::Upstream(UpstreamError::Reply { upstream: String::new(), reason })
            }
        }
    }
}

impl From<InvalidRequest> for LlmError {
    fn from(error: InvalidRequest) -> LlmError {
        match error {
            InvalidRequest::Json(reason) => LlmError::Json(reason),
            InvalidRequest::Utf8(at) => LlmError::Utf8(at),
            InvalidRequest::Field { field, reason } => LlmError::Invalid { field, reason },
        }
    }
}

impl From<Refused> for LlmError {
    fn from(refused: Refused) -> LlmError {
        match refused {
            Refused::Blocked { direction, rule } => {
                LlmError::Blocked { rule, is_output: direction == Direction::Output }
            }
            Refused::Tokens { field } => {
                let reason = "is given as tokens, which the guardrails of this model can't read: send text";
                LlmError::Invalid { field: field.to_owned(), reason: reason.to_owned() }
            }
        }
    }
}
