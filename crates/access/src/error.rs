//! What can go wrong with keys.

use weir_api::Invalid;

/// The result of a call about keys.
pub type Result<T> = std::result::Result<T, AccessError>;

/// A key was not created, found or changed.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The request is wrong.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The key would allow more than the caller may.
    #[error("the key would allow more than the caller's own: {0}")]
    Exceeds(&'static str),
    /// There is no such key for the caller, or it is revoked.
    #[error("there is no key {0} that is in force")]
    NotFound(i64),
    /// The grants of a stored key can't be read.
    #[error("the grants of key {id} can't be read: {reason}")]
    Unreadable {
        /// The key.
        id: i64,
        /// The cause.
        reason: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] weir_store::Error),
}
