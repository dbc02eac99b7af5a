//! The Redis of a configuration.

use std::time::Duration;

use weir_access::{RedisAddress, RedisAddressError, RedisError, SharedLimits};
use weir_config::table::Redis;

/// The limits counted together with other gateways, not connected yet; `None` without Redis.
///
/// # Errors
/// When the address can't be used.
pub(crate) fn shared_limits(settings: &Redis) -> Result<Option<SharedLimits>, RedisAddressError> {
    let Some(url) = settings.url.as_ref().and_then(|url| url.secret().ok()) else { return Ok(None) };
    let timeout = Duration::from_millis(settings.timeout_ms);
    let address = RedisAddress::parse(url.reveal())?;
    let shared = SharedLimits::new(address, timeout, &settings.prefix, settings.gateways_min);
    Ok(Some(if settings.replies { shared.with_values() } else { shared }))
}

/// A Redis that this gateway can't use as it is.
#[derive(Debug, thiserror::Error)]
pub enum RedisUnusable {
    /// The address can't be used.
    #[error("`redis.url` can't be used")]
    Address(#[from] RedisAddressError),
    /// It refuses the password, or what limits need.
    #[error(
        "Redis refuses this gateway: {0}; check user and password of `redis.url` and the number of its database, and that the server is Redis 5 or newer and no replica"
    )]
    Refused(String),
    /// Its certificate is not trusted.
    #[error(transparent)]
    Untrusted(RedisError),
}

impl RedisUnusable {
    /// Why a server that did not let a gateway connect can't be used; the error again if it may be usable later.
    pub(crate) fn of(error: RedisError) -> Result<RedisUnusable, RedisError> {
        match error {
            RedisError::Refused(reason) => Ok(RedisUnusable::Refused(reason)),
            error @ RedisError::Untrusted(_) => Ok(RedisUnusable::Untrusted(error)),
            other @ (RedisError::Disconnected | RedisError::Timeout(_) | RedisError::Connection(_)) => {
                Err(other)
            }
        }
    }
}
