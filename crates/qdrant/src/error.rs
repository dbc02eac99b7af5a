//! Errors of calls, and of the set-up.

use std::time::Duration;

use tonic::{Code, Status};

/// The result of a call.
pub type Result<T, E = QdrantError> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum QdrantError {
    /// No node carried the call out within the attempts that it has.
    #[error("{call}: no node of Qdrant carried it out ({reason})")]
    Unavailable {
        /// The call.
        call: &'static str,
        /// Of each attempt.
        reason: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// The call can't succeed, however often it is made.
    #[error("{call}: Qdrant refuses it ({code:?}): {message}")]
    Refused {
        /// The call.
        call: &'static str,
        /// The kind of refusal.
        code: Code,
        /// The words of the server.
        message: String,
    },
    /// An answer lacks a part that the call requires.
    #[error("{call}: the answer of Qdrant has no {what}; check that its version is supported")]
    Malformed {
        /// The call.
        call: &'static str,
        /// The missing part.
        what: &'static str,
    },
}

impl QdrantError {
    pub(crate) fn refused(call: &'static str, status: &Status) -> QdrantError {
        QdrantError::Refused { call, code: status.code(), message: status.message().to_owned() }
    }

    /// Whether the answer has more bytes than are read.
    pub fn is_too_large(&self) -> bool {
        matches!(self, QdrantError::Refused { code: Code::OutOfRange, .. })
    }

    /// Whether what was named does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, QdrantError::Refused { code: Code::NotFound, .. })
    }
}

/// Why a cluster can't be used as it is.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// There is no address.
    #[error("no node is named; write the address of each into `qdrant.urls`, as http://HOST:6334")]
    NoNodes,
    /// It is no address of a node.
    #[error("`{url}` is not the address of a node ({reason}); write http://HOST:6334, or https:// for TLS")]
    Address {
        /// As it was given.
        url: String,
        /// The problem.
        reason: String,
    },
    /// The file of certificates can't be used.
    #[error("`qdrant.ca_file` can't be used: {0}")]
    Authorities(String),
    /// The API key can't be sent.
    #[error(
        "the API key of Qdrant has characters that a header can't have; correct what `qdrant.api_key` names"
    )]
    KeyForm,
    /// No node answers.
    #[error("none of the nodes of `qdrant.urls` answers ({reason}); start them, or correct the addresses")]
    Unreachable {
        /// The message of each of them.
        reason: String,
    },
    /// A node refuses the API key.
    #[error("the node `{url}` refuses the API key; correct what `qdrant.api_key` names")]
    KeyRefused {
        /// The node.
        url: String,
    },
    /// A node has a version that the client does not support.
    #[error("the node `{url}` has version {version} of Qdrant; use one of {}", crate::VERSIONS.join(", "))]
    Version {
        /// The node.
        url: String,
        /// Its version.
        version: String,
    },
    /// The alias is one of something else.
    #[error(
        "the alias `{alias}` points to the Qdrant collection `{collection}`, which is not one of weir; remove the alias, or use another \
         `qdrant.prefix`"
    )]
    AliasElsewhere {
        /// The alias.
        alias: String,
        /// Where it points.
        collection: String,
    },
    /// A Qdrant collection is not as it has to be.
    #[error(
        "the Qdrant collection `{collection}` has {actual} where weir needs {expected}; remove it, or use another `qdrant.prefix`"
    )]
    Different {
        /// The Qdrant collection.
        collection: String,
        /// The actual value.
        actual: String,
        /// The required value.
        expected: String,
    },
    /// A call failed.
    #[error(transparent)]
    Call(#[from] QdrantError),
}
