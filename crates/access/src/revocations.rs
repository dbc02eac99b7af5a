//! Revocations: in force in memory before they are stored, because a store that takes no writes must not keep a leaked key valid.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use weir_policy::KeyId;
use weir_store::{NewAuditEntry, StoredKey, Timestamp};

use crate::keys::KeysInner;
use crate::{AccessError, Keys, Result};

/// Revocations that are in force and not in the store: when each was made, and its audit entry. No more than there are keys.
#[derive(Default)]
pub(crate) struct Unstored {
    own: BTreeMap<KeyId, (Timestamp, NewAuditEntry)>,
    /// Of other gateways, which store them.
    told: BTreeMap<KeyId, Timestamp>,
}

impl Unstored {
    /// Revokes what the store has as valid.
    pub(crate) fn apply_to(&self, stored: &mut [StoredKey]) {
        for key in stored {
            let own = self.own.get(&key.id).map(|(at, _)| *at);
            if let Some(at) = own.or(self.told.get(&key.id).copied()) {
                key.revoked_at.get_or_insert(at);
            }
        }
    }
}

impl Keys {
    /// Refuses a key from now on, unless it is revoked. Waits for nothing. Whether it was in force.
    pub(crate) fn revoke_in_memory(&self, id: KeyId, entry: NewAuditEntry, now: Timestamp) -> bool {
        // locked until the keys are replaced: a reload would bring the key back
        let mut unstored = self.unstored();
        let Some(without) = self.0.active.load().without(id, now) else { return false };
        unstored.own.insert(id, (now, entry));
        self.0.active.store(without.into());
        true
    }

    /// Refuses a key that another gateway has revoked.
    pub(crate) fn revoke_as_told(&self, id: KeyId, now: Timestamp) {
        let mut unstored = self.unstored();
        if let Some(without) = self.0.active.load().without(id, now) {
            unstored.told.insert(id, now);
            self.0.active.store(without.into());
        }
    }

    /// Stores a revocation that is in force; `NotFound` if there is none that is not stored.
    pub(crate) async fn store_revocation(&self, id: KeyId) -> Result<()> {
        // no other change reads the keys before this one is stored
        let _defaults = self.0.defaults.lock().await;
        let waiting = self.unstored().own.get(&id).cloned();
        let (at, entry) = waiting.ok_or(AccessError::NotFound(id.0))?;
        match self.0.store.revoke_key(id, entry, at).await {
            Ok(_) => {
                self.unstored().own.remove(&id);
                Ok(())
            }
            Err(source) => Err(AccessError::RevocationNotStored { id: id.0, source }),
        }
    }

    /// Stores the revocations that could not be stored before.
    ///
    /// # Errors
    /// That of the first that can't be stored; all of them stay in force.
    pub async fn store_revocations(&self) -> Result<()> {
        let waiting: Vec<KeyId> = self.unstored().own.keys().copied().collect();
        for id in waiting {
            match self.store_revocation(id).await {
                // another call has stored it
                Ok(()) | Err(AccessError::NotFound(_)) => {
                    tracing::info!(key = id.0, "a revocation is stored that could not be before");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The parts of the keys that can't be stored, in words; empty if there are none.
    pub fn failing_parts(&self) -> Vec<String> {
        let mut failing = Vec::new();
        if let Some(failure) = self.0.ledger.failure() {
            failing.push(format!(
                "what keys spend can't be stored, and requests of keys with a budget are refused: {failure}"
            ));
        }
        failing.extend(self.check_history().err().map(|lost| lost.to_string()));
        let unstored = self.unstored().own.len();
        if unstored > 0 {
            failing.push(format!(
                "revocations of keys that are in force but not stored: {unstored}; keep the gateway running until they are"
            ));
        }
        failing
    }

    pub(crate) fn unstored(&self) -> MutexGuard<'_, Unstored> {
        let KeysInner { unstored, .. } = &*self.0;
        unstored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use weir_api::KeyRequest;
    use weir_policy::Caller;
    use weir_store::Store;

    use super::*;
    use crate::Unit;

    fn request(json: &str) -> KeyRequest {
        serde_json::from_str(json).unwrap()
    }

    #[tokio::test]
    async fn a_store_that_takes_nothing_keeps_no_key_valid_and_lets_nothing_be_spent() {
        let folder = tempfile::tempdir().unwrap();
        let (system, now) = (Caller::system(), 1_772_280_000.0);
        let store = Store::open_sqlite(folder.path()).unwrap();
        let keys = Keys::load(store.clone(), now).await.unwrap();
        let budget = r#"{"name": "budget", "limits": {"budget_per_day": 5}, "model_limits": {"m": {"budget_per_day": 5}}}"#;
        let budget = keys.create(&system, &request(budget), now).await.unwrap();
        let plain = request(r#"{"name": "plain", "limits": {"tokens_per_minute": 9}}"#);
        let plain = keys.create(&system, &plain, now).await.unwrap();
        let usage = |id: i64| keys.usage(KeyId(id)).unwrap();
        let at = (Instant::now(), now);
        store.close().await;
        // not known yet
        let _running = usage(budget.reply.id).try_use(at, 0, crate::CostRange::exactly(1_000)).unwrap();
        assert!(keys.flush_ledger(now).await.is_err());
        let refused = usage(budget.reply.id).try_use(at, 0, crate::CostRange::exactly(1_000)).unwrap_err();
        assert_eq!((refused.unit, refused.retry_after.is_some()), (Unit::Ledger, true));
        assert_eq!(
            usage(budget.reply.id).try_use_of("m", at, 0, crate::CostRange::exactly(1)).unwrap_err().unit,
            Unit::Ledger
        );
        assert!(
            usage(budget.reply.id).try_use(at, 0, crate::CostRange::exactly(0)).is_ok(),
            "what costs nothing is not forgotten"
        );
        assert!(usage(plain.reply.id).try_use(at, 1, crate::CostRange::exactly(1_000)).is_ok(), "no budget");
        assert_eq!(keys.failing_parts().len(), 1);

        assert!(keys.caller(&budget.key, now).is_some());
        for _ in 0..2 {
            let revoked = keys.revoke(&system, budget.reply.id, now + 1.0).await;
            assert!(matches!(revoked, Err(AccessError::RevocationNotStored { .. })), "{revoked:?}");
            assert!(keys.caller(&budget.key, now).is_none());
        }
        assert!(keys.caller(&plain.key, now).is_some());
        let listed = keys.list(&system, now);
        assert_eq!((listed[0].revoked_at, listed[1].revoked_at), (Some(now + 1.0), None));
        assert!(matches!(
            keys.rotate(&system, budget.reply.id, 9.0, now).await,
            Err(AccessError::NotFound(_))
        ));
        assert!(keys.store_revocations().await.is_err());
        assert_eq!(keys.failing_parts().len(), 2);
    }

    #[tokio::test]
    async fn a_revocation_that_waits_holds_for_keys_that_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (system, now) = (Caller::system(), 1.0);
        let store = Store::open_sqlite(folder.path()).unwrap();
        let keys = Keys::load(store.clone(), now).await.unwrap();
        let leaked = keys.create(&system, &request(r#"{"name": "leaked"}"#), now).await.unwrap();
        let entry =
            NewAuditEntry { by: None, action: "key.revoke".into(), subject: "1".into(), changes: None };
        keys.revoke_in_memory(KeyId(leaked.reply.id), entry, now);
        keys.create(&system, &request(r#"{"name": "other"}"#), now).await.unwrap();
        assert!(keys.caller(&leaked.key, now).is_none());
        keys.store_revocations().await.unwrap();
        assert_eq!(keys.failing_parts(), Vec::<String>::new());
        assert_eq!(store.keys().await.unwrap()[0].revoked_at, Some(now));
        keys.create(&system, &request(r#"{"name": "third"}"#), now).await.unwrap();
        assert!(keys.caller(&leaked.key, now).is_none());
    }
}
