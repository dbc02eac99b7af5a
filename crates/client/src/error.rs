//! Why a call failed, and what the user can do about it.

use weir_api::ErrorCode;

use crate::{TransportError, TrustError};

/// The result of a call.
pub type Result<T, E = ClientError> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No reply from the gateway.
    #[error("the gateway at {url} can't be reached: {source}")]
    Unreachable {
        /// The gateway's address.
        url: String,
        /// The cause.
        source: TransportError,
    },
    /// The gateway answered with an error.
    #[error("{message}")]
    Refused {
        /// The row of the error table.
        code: ErrorCode,
        /// The reason, without the remedy.
        message: String,
    },
    /// The reply is not one of Weir's API.
    #[error("{url} answered with status {status}, and not like a gateway")]
    NotAGateway {
        /// The address that was called.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// The reply of a success has another form than the API says.
    #[error("the reply of {url} {reason}")]
    Malformed {
        /// The address that was called.
        url: String,
        /// The problem, as the rest of the sentence.
        reason: String,
    },
    /// The provider of a language model refused a request that the gateway passed on, or its answer failed.
    #[error("the provider of the model answered with an error: {message}")]
    Provider {
        /// The message of the provider.
        message: String,
    },
    /// The API key can't be sent.
    #[error("the API key is empty, or has white space or characters beyond ASCII")]
    ApiKey,
    /// The idempotency key can't be sent.
    #[error("an idempotency key is a text of 1 to 255 printable ASCII characters")]
    IdempotencyKey,
    /// The trusted certificates can't be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// No model embeds texts.
    #[error("the gateway has no embedding model")]
    NoModel,
}

impl ClientError {
    /// The refusal with this code. `detail` is the gateway's message, of which the remedy is left out.
    pub(crate) fn refused(code: ErrorCode, detail: &str) -> ClientError {
        let message = detail.trim_end_matches(code.row().remedy).trim_end_matches(['.', ' ']).to_owned();
        ClientError::Refused { code, message }
    }

    /// How to solve the problem, where the message does not say it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ClientError::Unreachable { source, .. } if source.is_refused_by_tls() => Some(
                "name the authority of the gateway's certificate (a PEM file) by WEIR_CA_FILE or `client.ca_file`, and use a host name of the \
                 certificate; a gateway without TLS has an http:// address"
                    .to_owned(),
            ),
            ClientError::Trust(_) => {
                Some("name a PEM file with certificates in WEIR_CA_FILE or `client.ca_file`".to_owned())
            }
            ClientError::Unreachable { .. } => Some(
                "start the gateway with `weir serve`, or say where it is with --url, WEIR_URL or --config".to_owned(),
            ),
            // the messages of these codes contain the remedy
            ClientError::Refused { code: ErrorCode::InvalidParameter | ErrorCode::UnknownField, .. } => None,
            ClientError::Refused { code, .. } => Some(remedy(*code).to_owned()),
            ClientError::NotAGateway { .. } => {
                Some("check the address: --url, WEIR_URL or client.url".to_owned())
            }
            ClientError::Malformed { .. } => Some(
                "check any proxy before the gateway, and use a client of the gateway's version".to_owned(),
            ),
            ClientError::Provider { .. } => Some(
                "check the name of the model, and its `[[upstreams]]` entry in the gateway's configuration"
                    .to_owned(),
            ),
            ClientError::ApiKey => {
                Some("copy the key again, without the spaces and line ends around it".to_owned())
            }
            ClientError::IdempotencyKey => Some("use a random UUID".to_owned()),
            ClientError::NoModel => {
                Some("add a `[[models]]` entry to the gateway's configuration".to_owned())
            }
        }
    }
}

/// The remedy of a code for somebody at the command line: that of the table names calls of the API.
fn remedy(code: ErrorCode) -> &'static str {
    #[allow(clippy::wildcard_enum_match_arm, reason = "the remedies of most codes name no call")]
    match code {
        ErrorCode::CollectionNotFound => {
            "`weir collections` lists the collections; `weir collections create NAME` creates one"
        }
        ErrorCode::JobFinished => "`weir jobs ID --retry-failed` stores its failed documents again",
        ErrorCode::JobNotFound => "`weir jobs` lists the jobs",
        ErrorCode::KeyNotFound => "`weir keys list` lists the keys; a revoked key stays revoked",
        ErrorCode::InvalidApiKey => {
            "set WEIR_API_KEY to a key; without one for it, stop the gateway and run `weir keys create` over its data directory"
        }
        ErrorCode::DocumentNotFound => "check the id and --collection",
        ErrorCode::ModelNotFound => {
            "use the id or an alias of a `[[models]]` entry of the gateway's configuration; `weir config show` prints it"
        }
        ErrorCode::CollectionNotReady => {
            "try again in a moment; `weir collections show NAME` shows the status"
        }
        code => code.row().remedy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hint_names_a_call_of_the_api() {
        for row in weir_api::ERROR_TABLE {
            let hint =
                ClientError::Refused { code: row.code, message: String::new() }.hint().unwrap_or_default();
            for call in ["GET ", "PUT ", "PATCH ", "POST ", "DELETE "] {
                assert!(!hint.contains(call), "{}: {hint}", row.name);
            }
        }
    }
}
