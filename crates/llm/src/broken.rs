//! Why a stream broke.

use weir_api::ErrorCode;
use weir_upstream::{DecodeError, UpstreamError};

/// Why a stream broke.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The connection or a time limit.
    #[error(transparent)]
    Upstream(UpstreamError),
    /// The provider ended its stream by an error event, which the caller has got.
    #[error("the provider sent an error event")]
    Told,
    /// The events are no stream of the provider's API, or ended early.
    #[error("{0}")]
    Events(String),
}

impl Broken {
    /// The code that the caller and the request log get.
    pub(crate) fn code(&self) -> &'static str {
        let code = if self.is_timeout() { ErrorCode::UpstreamTimeout } else { ErrorCode::UpstreamError };
        code.as_str()
    }

    /// Whether a time limit passed.
    pub(crate) fn is_timeout(&self) -> bool {
        matches!(self, Broken::Upstream(UpstreamError::Timeout { .. }))
    }

    /// The remedy.
    pub(crate) fn remedy(&self) -> &'static str {
        match self.is_timeout() {
            true => "retry, or raise `idle_timeout_ms` or `total_timeout_ms` of the upstream",
            false => "retry",
        }
    }

    /// The reason for the log, where no text of a provider may stand: it can repeat the prompt.
    pub(crate) fn without_text(&self) -> String {
        match self {
            Broken::Upstream(error) => error.without_text(),
            Broken::Told => self.to_string(),
            Broken::Events(_) => "its events can't be read, or ended early".to_owned(),
        }
    }
}

impl From<DecodeError> for Broken {
    fn from(error: DecodeError) -> Broken {
        match error {
            DecodeError::Upstream(error) => Broken::Upstream(error),
            DecodeError::Encoding(reason) => Broken::Events(reason),
        }
    }
}
