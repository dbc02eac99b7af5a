//! Messages between gateways by Redis: revocations, changes of keys, and requests for slots.

use std::time::Duration;

use weir_policy::KeyId;
use weir_redis::Redis;
use weir_store::Timestamp;

use crate::Keys;
use crate::limits::Limits;
use crate::shared::SharedLimits;
use crate::unix_now;

/// Pause before another attempt to listen.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The keys have changed; they are read again.
const KEYS_CHANGED: &str = "keys";

impl Keys {
    /// Works with other gateways until the process ends; returns at once where limits are counted in this process alone.
    pub async fn work_with_others(&self) {
        if let Limits::Redis(shared) = &self.0.limits {
            tokio::join!(shared.work(), self.listen(shared));
        }
    }

    /// Gives back what this gateway holds of limits that it shares; of budgets with the next call of [`Keys::flush_ledger`].
    pub async fn leave_others(&self) {
        if let Some(ledger) = self.0.ledger.shared() {
            ledger.close_leases();
        }
        if let Limits::Redis(shared) = &self.0.limits {
            shared.settle(true).await;
        }
    }

    async fn listen(&self, shared: &SharedLimits) {
        loop {
            if let Ok(mut messages) = shared.subscribe().await {
                // earlier messages are not received
                self.read_again().await;
                while let Some(message) = messages.next().await {
                    if let Some(event) = shared.event(&message) {
                        self.handle(event).await;
                    }
                }
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    async fn handle(&self, event: &str) {
        match event.split_once(' ') {
            None if event == KEYS_CHANGED => self.read_again().await,
            Some(("revoked", name)) => {
                if let Some(key) = self.key_named(name) {
                    tracing::info!(key = key.0, "another gateway has revoked a key");
                    self.revoke_as_told(key, unix_now());
                }
            }
            Some(("slots", name)) => {
                let (key, model) = name.split_once(':').unwrap_or((name, ""));
                let usage = self.key_named(key).and_then(|key| self.usage(key));
                let usage =
                    if model.is_empty() { usage } else { usage.and_then(|usage| usage.of_pattern(model)) };
                if let Some(usage) = usage {
                    usage.give_back_slots();
                }
            }
            _ => tracing::debug!(event, "another gateway tells what this one does not know"),
        }
    }

    async fn read_again(&self) {
        if let Err(error) = self.refresh(unix_now()).await {
            tracing::error!(%error, "the keys could not be read after another gateway has changed them");
        }
    }

    /// Tells other gateways that keys have changed.
    pub(crate) async fn tell_change(&self) {
        if let Limits::Redis(shared) = &self.0.limits {
            shared.publish(KEYS_CHANGED).await;
        }
    }

    /// Tells other gateways to refuse a key.
    pub(crate) async fn tell_revocation(&self, key: KeyId) {
        if let (Limits::Redis(shared), Some(name)) = (&self.0.limits, self.name_for_all(key)) {
            shared.publish(&format!("revoked {name}")).await;
        }
    }

    /// The server by which limits are counted with other gateways, if they are.
    pub fn redis(&self) -> Option<Redis> {
        self.0.limits.shared().map(|shared| shared.redis())
    }

    /// The name of a key that is the same on all gateways over one store, and of no other key that had or gets its number.
    pub fn name_for_all(&self, key: KeyId) -> Option<String> {
        Some(name_of(key, self.0.active.load().listed(key)?.created_at))
    }

    /// The key of a name, if it is this one's: gateways with other keys may use the same server by mistake.
    fn key_named(&self, name: &str) -> Option<KeyId> {
        let key = KeyId(name.split_once('.')?.0.parse().ok()?);
        (self.name_for_all(key)? == name).then_some(key)
    }
}

/// The name of a key for all gateways.
pub(crate) fn name_of(key: KeyId, created_at: Timestamp) -> String {
    format!("{}.{:.0}", key.0, created_at * 1e3)
}
