//! Errors of keys.

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
    Exceeds(String),
    /// There is no memory for more keys.
    #[error("the API keys take {bytes} bytes of memory, and may take {bytes_max}")]
    TooMany {
        /// With the new or changed key.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
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
    /// A key is refused from now on, and its revocation is not in the store.
    #[error(
        "the key {id} is refused from now on, but its revocation is not stored ({source}); it is stored as soon as the store can be written: \
         until then keep the gateway running, because a start would accept the key again"
    )]
    RevocationNotStored {
        /// The key.
        id: i64,
        /// The cause.
        source: weir_store::Error,
    },
    /// The store has lost changes of keys.
    #[error(
        "the database has lost changes of API keys, as in a failover to a standby that did not have its last commits: the keys that were known before \
         hold until the gateway stops; revoke again what was revoked lately, then start all gateways again"
    )]
    LostChanges,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] weir_store::Error),
}
