//! Keys that other gateways change.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;
use weir_store::{Change, Timestamp};

use crate::{AccessError, Keys, Result, unix_now};

/// Which changes of keys were seen.
#[derive(Default)]
pub(crate) struct History {
    /// The store's number of the keys in memory.
    version: Mutex<Option<u64>>,
    /// Whether the store has lost changes.
    is_lost: AtomicBool,
}

/// How often a gateway asks whether another one has changed a key, beside notifications.
const CHECK_INTERVAL: Duration = Duration::from_millis(400);

impl Keys {
    /// Reads the keys again after another gateway has changed one, until the store is closed. While the store can't be asked, those that are known hold.
    pub async fn keep_up(&self) {
        let mut changes = self.0.store.changes();
        let mut check = tokio::time::interval(CHECK_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(Change::Keys | Change::Unknown) => {}
                    Some(Change::Collections | Change::Operations(_)) => continue,
                    None => return,
                },
                _ = check.tick() => {}
            }
            match self.follow(unix_now()).await {
                Ok(()) => {}
                Err(AccessError::Store(error)) if error.retry_after().is_some() => {}
                Err(error) => {
                    tracing::warn!(%error, "API keys that changed can't be read; it is tried again")
                }
            }
        }
    }

    /// Reads the keys again if another gateway has changed one. Where the store has lost changes, the keys in memory stay: those that were lost can be
    /// revocations.
    ///
    /// # Errors
    /// Those of the store; the keys are unchanged then.
    pub async fn follow(&self, now: Timestamp) -> Result<()> {
        let mut known = self.0.history.version.lock().await;
        let version = self.0.store.keys_version().await?;
        if *known == Some(version) || self.check_history().is_err() {
            return Ok(());
        }
        if known.is_some_and(|known| version < known) {
            self.0.history.is_lost.store(true, Ordering::Relaxed);
            tracing::error!("{}", AccessError::LostChanges);
            return Ok(());
        }
        self.refresh(now).await?;
        *known = Some(version);
        Ok(())
    }

    /// Reads the keys again, which another gateway may have changed.
    ///
    /// # Errors
    /// Those of the store; the keys are unchanged then.
    pub async fn refresh(&self, now: Timestamp) -> Result<()> {
        let defaults = self.0.defaults.lock().await;
        // also of keys that have their first budget now
        let spent = self.spent(now).await?;
        self.reload(&defaults, &spent).await
    }

    /// Refuses a store that has lost changes of keys.
    ///
    /// # Errors
    /// `LostChanges`.
    pub(crate) fn check_history(&self) -> Result<()> {
        match self.0.history.is_lost.load(Ordering::Relaxed) {
            true => Err(AccessError::LostChanges),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_policy::Caller;
    use weir_store::Store;

    use super::*;

    #[tokio::test]
    async fn a_store_that_has_lost_a_revocation_does_not_bring_the_key_back() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [store, older] = folders.each_ref().map(|folder| Store::open_sqlite(folder.path()).unwrap());
        let (system, request) = (Caller::system(), serde_json::from_str(r#"{"name": "leaked"}"#).unwrap());
        let keys = Keys::load(store.clone(), 1.0).await.unwrap();
        let leaked = keys.create(&system, &request, 1.0).await.unwrap();
        store.copy_to(&older).await.unwrap();
        keys.follow(1.0).await.unwrap();
        keys.revoke(&system, leaked.reply.id, 2.0).await.unwrap();
        keys.follow(2.0).await.unwrap();
        let reverted = Keys::load(older, 2.0).await.unwrap();
        assert!(reverted.caller(&leaked.key, 2.0).is_some(), "the store itself does not know better");
        *reverted.0.history.version.lock().await = *keys.0.history.version.lock().await;
        reverted.0.active.store(keys.0.active.load_full());
        for _ in 0..2 {
            reverted.follow(2.0).await.unwrap();
            assert!(reverted.caller(&leaked.key, 2.0).is_none());
            let refused = reverted.create(&system, &request, 2.0).await;
            assert!(matches!(refused, Err(AccessError::LostChanges)), "{refused:?}");
            assert!(reverted.refresh(2.0).await.is_err());
            assert!(reverted.caller(&leaked.key, 2.0).is_none());
        }
        assert_eq!(reverted.failing_parts(), [AccessError::LostChanges.to_string()]);
        assert_eq!(keys.failing_parts(), Vec::<String>::new());
    }
}
