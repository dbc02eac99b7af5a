//! The keys of the store, in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicI32;

use arc_swap::ArcSwap;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use weir_api::{
    AuditReply, KeyLimitsRequest, KeyReply, KeyRequest, KeyUpdate, NewKeyReply, check_grace_seconds,
};
use weir_policy::budget::Spending;
use weir_policy::key::{KeyText, RANDOM_BYTES};
use weir_policy::{Caller, KeyId};
use weir_store::{AuditEntry, NewAuditEntry, NewKey, Store, Timestamp};

use crate::active::{Active, KEYS_BYTES_MAX, bytes_of};
use crate::budgets::SharedLedger;
use crate::follow::History;
use crate::grants::{self, Grants};
use crate::ledger::{self, Account, Ledger};
use crate::limits::Limits;
use crate::revocations::Unstored;
use crate::shared::LimitsStatus;
use crate::usage::Counted;
use crate::{AccessError, KeyUsage, Result};

/// The keys of a gateway. Clones share them. Finding a key reads memory only; a change is in force when its call returns.
#[derive(Clone)]
pub struct Keys(pub(crate) Arc<KeysInner>);

pub(crate) struct KeysInner {
    pub(crate) store: Store,
    pub(crate) active: ArcSwap<Active>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) limits: Limits,
    /// The month whose spending was read.
    pub(crate) month: AtomicI32,
    /// Locked while the keys in memory are replaced.
    pub(crate) unstored: std::sync::Mutex<Unstored>,
    /// The limits of keys without their own. One change at a time, so that the keys in memory are those of the last one.
    pub(crate) defaults: Mutex<KeyLimitsRequest>,
    /// Most bytes of keys in memory.
    bytes_max: usize,
    /// Which changes of keys were seen.
    pub(crate) history: History,
}

impl Keys {
    /// Reads the keys of the store.
    ///
    /// # Errors
    /// Those of the store; [`AccessError::Unreadable`]: a key that can't be read is never taken for one that allows less or more.
    pub async fn load(store: Store, now: Timestamp) -> Result<Keys> {
        Keys::load_with(store, Limits::Local, now).await
    }

    /// [`Keys::load`] with limits that may be shared.
    ///
    /// # Errors
    /// As of [`Keys::load`].
    pub async fn load_with(store: Store, limits: Limits, now: Timestamp) -> Result<Keys> {
        Keys::load_within(store, limits, now, KEYS_BYTES_MAX).await
    }

    async fn load_within(store: Store, limits: Limits, now: Timestamp, bytes_max: usize) -> Result<Keys> {
        let ledger = Arc::new(Ledger::of(&store));
        let counted = Counted { limits: limits.clone(), ledger: ledger.clone() };
        let spent = ledger::read(&store, now).await?;
        let defaults = KeyLimitsRequest::default();
        let active = Active::of(&store.keys().await?, &defaults, &HashMap::new(), &spent, &counted)?;
        let active = ArcSwap::from_pointee(active.within(bytes_max));
        let month = ledger::period_of(now).month.into();
        let (unstored, defaults) = (std::sync::Mutex::default(), Mutex::default());
        let history = History::default();
        let inner =
            KeysInner { store, active, ledger, limits, month, unstored, defaults, bytes_max, history };
        Ok(Keys(Arc::new(inner)))
    }

    /// Sets the limits that hold for keys where they have none of their own, from now on.
    ///
    /// # Errors
    /// Those of the store; the limits are unchanged then.
    pub async fn set_default_limits(&self, limits: KeyLimitsRequest, now: Timestamp) -> Result<()> {
        let mut defaults = self.0.defaults.lock().await;
        self.reload(&limits, &self.spent(now).await?).await?;
        *defaults = limits;
        Ok(())
    }

    /// How limits are counted with other gateways, if they are.
    pub fn limits_status(&self) -> Option<LimitsStatus> {
        self.0.limits.shared().map(|shared| shared.status())
    }

    /// Questions to the store for leases of budgets, if other gateways use it as well.
    pub fn budget_leases_asked(&self) -> Option<u64> {
        self.0.ledger.shared().map(SharedLedger::asked)
    }

    /// Whether callers must show a key: as soon as one was created, and also when all are revoked.
    pub fn are_required(&self) -> bool {
        self.0.active.load().are_required
    }

    /// The caller with this key, if it is in force at `now`. The time does not depend on how much of a wrong key is right: keys are compared
    /// by their hashes.
    pub fn caller(&self, text: &str, now: Timestamp) -> Option<Arc<Caller>> {
        let hash = KeyText::hash_of(text)?;
        let active = self.0.active.load();
        let entry = active.by_hash.get(&hash)?;
        entry.until.is_none_or(|until| now < until).then(|| entry.caller.clone())
    }

    /// The usage of a key, if it has limits.
    pub fn usage(&self, key: KeyId) -> Option<Arc<KeyUsage>> {
        self.0.active.load().usage.get(&key).cloned()
    }

    /// Estimated bytes of all keys in memory.
    pub fn bytes(&self) -> usize {
        self.0.active.load().bytes
    }

    /// When each key was created, by its number; revoked ones included.
    pub fn created_at(&self) -> BTreeMap<i64, Timestamp> {
        self.0.active.load().all.iter().map(|listed| (listed.id, listed.created_at)).collect()
    }

    /// The name of a key.
    pub fn name(&self, key: KeyId) -> Option<String> {
        self.0.active.load().listed(key).map(|listed| listed.name.clone())
    }

    /// Every key that allows no more than the caller's own, revoked and expired ones included, in the order of their creation.
    pub fn list(&self, by: &Caller, now: Timestamp) -> Vec<KeyReply> {
        let active = self.0.active.load();
        let Ok(own) = active.own(by) else { return Vec::new() };
        let seen = active.all.iter().filter(|listed| active.check_within(&own, &listed.to_request()).is_ok());
        seen.map(|listed| active.reply(listed, now)).collect()
    }

    /// Creates a key.
    ///
    /// # Errors
    /// `Invalid`; `Exceeds` for more than the caller's own rights; those of the store.
    pub async fn create(&self, by: &Caller, request: &KeyRequest, now: Timestamp) -> Result<NewKeyReply> {
        request.check(now)?;
        let text = new_text();
        let complete = self.complete(by, request.clone(), true)?;
        self.check_bytes(None, &complete)?;
        let new = NewKey {
            name: request.name.clone(),
            prefix: text.prefix().to_owned(),
            hash: text.hash(),
            grants: Grants::of_request(&complete).to_json(),
            expires_at: request.expires_at,
        };
        let defaults = self.0.defaults.lock().await;
        let entry =
            NewAuditEntry { changes: Some(given(json!(request)).to_string()), ..entry(by, "key.create", "") };
        let stored = self.0.store.add_key(new, entry, now).await?;
        self.reload(&defaults, &HashMap::new()).await?;
        self.tell_change().await;
        Ok(NewKeyReply { key: text.reveal().to_owned(), reply: self.reply(stored.id, now)? })
    }

    /// Revokes a key: it is refused from now on, before anything is stored.
    ///
    /// # Errors
    /// `NotFound`; `RevocationNotStored`, after which the key is refused all the same.
    pub async fn revoke(&self, by: &Caller, id: i64, now: Timestamp) -> Result<KeyReply> {
        self.find(by, id)?;
        let was_in_force = self.revoke_in_memory(KeyId(id), entry(by, "key.revoke", &id.to_string()), now);
        self.tell_revocation(KeyId(id)).await;
        let stored = match self.store_revocation(KeyId(id)).await {
            // the task that stores what could not be stored before was first
            Err(AccessError::NotFound(_)) if was_in_force => Ok(()),
            stored => stored,
        };
        if let Err(error @ AccessError::RevocationNotStored { .. }) = &stored {
            tracing::error!(%error, "a revocation is not stored; it is tried again");
        }
        stored?;
        self.reply(KeyId(id), now)
    }

    /// Changes what `update` names: from now on, and with the same text.
    ///
    /// # Errors
    /// `Invalid`; `Exceeds` for more than the caller's own rights; `NotFound`; those of the store.
    pub async fn update(&self, by: &Caller, id: i64, update: &KeyUpdate, now: Timestamp) -> Result<KeyReply> {
        let defaults = self.0.defaults.lock().await;
        let before = self.find_in_force(by, id)?;
        let request = update.apply(&before)?;
        request.check(now)?;
        let has_new_filter = request.filter != before.filter;
        let request = self.complete(by, request, has_new_filter)?;
        self.check_bytes(Some(&before), &request)?;
        let changed = (request.name.clone(), Grants::of_request(&request).to_json(), request.expires_at);
        let changes = Some(json!(update).to_string());
        let entry = NewAuditEntry { changes, ..entry(by, "key.update", &id.to_string()) };
        // for a budget that the key has not had until now
        let spent = self.spent(now).await?;
        let stored = self.0.store.update_key(KeyId(id), changed, entry, now).await?;
        self.reload(&defaults, &spent).await?;
        self.tell_change().await;
        self.reply(stored.ok_or(AccessError::NotFound(id))?.id, now)
    }

    /// Gives a key another text. The one before is valid for `grace` seconds.
    ///
    /// # Errors
    /// `Invalid`; `NotFound`; those of the store.
    pub async fn rotate(&self, by: &Caller, id: i64, grace: f64, now: Timestamp) -> Result<NewKeyReply> {
        check_grace_seconds(grace)?;
        let text = new_text();
        let shown = (text.prefix().to_owned(), text.hash());
        let defaults = self.0.defaults.lock().await;
        self.find_in_force(by, id)?;
        let entry = entry(by, "key.rotate", &id.to_string());
        let stored = self.0.store.rotate_key(KeyId(id), shown, now + grace, entry, now).await?;
        let stored = stored.ok_or(AccessError::NotFound(id))?;
        self.reload(&defaults, &HashMap::new()).await?;
        self.tell_change().await;
        Ok(NewKeyReply { key: text.reveal().to_owned(), reply: self.reply(stored.id, now)? })
    }

    /// Adds an entry to the audit log.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn record(&self, by: &Caller, action: &str, subject: &str, now: Timestamp) -> Result<()> {
        Ok(self.0.store.add_audit_entry(entry(by, action, subject), now).await?)
    }

    /// The newest entries of the audit log with numbers below `before`, newest first.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn audit(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditReply>> {
        let entries = self.0.store.audit_entries(before, limit).await?;
        let reply = |AuditEntry { number, at, entry }: AuditEntry| AuditReply {
            number,
            at,
            key: entry.by.map(|key| key.0),
            action: entry.action,
            subject: entry.subject,
            changes: entry.changes.and_then(|changes| serde_json::from_str(&changes).ok()),
        };
        Ok(entries.into_iter().map(reply).collect())
    }

    /// A request for a key, with the mandatory filter of the administrator beside a new one of its own.
    ///
    /// # Errors
    /// `Invalid`; `Exceeds` for a key that would allow more than the administrator's own.
    fn complete(&self, by: &Caller, request: KeyRequest, has_new_filter: bool) -> Result<KeyRequest> {
        self.check_history()?;
        let active = self.0.active.load();
        let own = active.own(by)?;
        let inherited = own.filter.clone().filter(|_| has_new_filter);
        let request = grants::with_inherited_filter(request, inherited)?;
        active.check_within(&own, &request)?;
        Ok(request)
    }

    /// Whether there is memory for a key, in place of what it was before.
    ///
    /// # Errors
    /// `TooMany`.
    fn check_bytes(&self, before: Option<&KeyReply>, key: &KeyRequest) -> Result<()> {
        let (active, bytes_max) = (self.0.active.load(), self.0.bytes_max);
        let freed = before.map_or(0, |before| bytes_of(&before.to_request()));
        let bytes = (active.bytes_in_force() + bytes_of(key)).saturating_sub(freed);
        if bytes <= bytes_max { Ok(()) } else { Err(AccessError::TooMany { bytes, bytes_max }) }
    }

    /// Keys that allow more than the caller's own do not exist for it.
    fn find(&self, by: &Caller, id: i64) -> Result<KeyReply> {
        let active = self.0.active.load();
        let own = active.own(by)?;
        let found = active.listed(KeyId(id));
        let found = found.filter(|listed| active.check_within(&own, &listed.to_request()).is_ok());
        Ok(found.ok_or(AccessError::NotFound(id))?.clone())
    }

    fn find_in_force(&self, by: &Caller, id: i64) -> Result<KeyReply> {
        self.check_history()?;
        let found = self.find(by, id)?;
        if found.revoked_at.is_some() {
            return Err(AccessError::NotFound(id));
        }
        Ok(found)
    }

    /// A key as it is listed.
    fn reply(&self, id: KeyId, now: Timestamp) -> Result<KeyReply> {
        let active = self.0.active.load();
        let found = active.listed(id);
        Ok(active.reply(found.ok_or(AccessError::NotFound(id.0))?, now))
    }

    /// The ledger, with all spending until now.
    pub(crate) async fn spent(&self, now: Timestamp) -> Result<HashMap<Account, Spending>> {
        self.flush_ledger(now).await?;
        ledger::read(&self.0.store, now).await
    }

    pub(crate) async fn reload(
        &self,
        defaults: &KeyLimitsRequest,
        spent: &HashMap<Account, Spending>,
    ) -> Result<()> {
        self.check_history()?;
        let KeysInner { store, active, ledger, limits, bytes_max, .. } = &*self.0;
        let counted = Counted { limits: limits.clone(), ledger: ledger.clone() };
        let mut stored = store.keys().await?;
        let unstored = self.unstored();
        unstored.apply_to(&mut stored);
        let before = active.load().usage.clone();
        let read = Active::of(&stored, defaults, &before, spent, &counted)?;
        active.store(Arc::new(read.within(*bytes_max)));
        Ok(())
    }
}

fn new_text() -> KeyText {
    let mut random = [0; RANDOM_BYTES];
    rand::Rng::fill(&mut rand::rng(), &mut random[..]);
    KeyText::new(&random)
}

/// The fields of a request: without those that are null, except within a filter.
fn given(request: Value) -> Value {
    let Value::Object(fields) = request else { return request };
    let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
    fields.map(|(name, value)| if name == "filter" { (name, value) } else { (name, given(value)) }).collect()
}

fn entry(by: &Caller, action: &str, subject: &str) -> NewAuditEntry {
    NewAuditEntry { by: by.key, action: action.to_owned(), subject: subject.to_owned(), changes: None }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use weir_api::KeySpending;

    use super::*;
    use crate::active::KEY_BYTES;

    async fn keys(folder: &std::path::Path) -> Keys {
        Keys::load(Store::open_sqlite(folder).unwrap(), 0.0).await.unwrap()
    }

    fn request(json: &str) -> KeyRequest {
        serde_json::from_str(json).unwrap()
    }

    #[tokio::test]
    async fn a_key_is_found_until_it_expires_is_rotated_or_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let system = Caller::system();
        let keys = keys(folder.path()).await;
        assert!(!keys.are_required());
        let limited = r#"{"name": "app", "scopes": ["search"], "collections": ["a"], "filter": {"tenant": 7}, "expires_at": 200,
            "limits": {"requests_per_minute": 9}}"#;
        let made = keys.create(&system, &request(limited), 100.0).await.unwrap();
        assert!(keys.are_required());
        let caller = keys.caller(&made.key, 150.0).unwrap();
        assert_eq!(caller.key, Some(KeyId(made.reply.id)));
        assert!(caller.sees("a") && !caller.sees("b") && caller.filter().is_some());
        assert!(caller.may(weir_policy::Scope::Search) && !caller.may(weir_policy::Scope::Admin));
        assert!(keys.caller(&made.key, 200.0).is_none(), "expired");
        assert!(keys.caller(&made.key.replace("weir_", "wier_"), 150.0).is_none());

        for grace in [-1.0, f64::NAN, 1e9] {
            let refused = keys.rotate(&system, made.reply.id, grace, 150.0).await;
            assert!(matches!(refused, Err(AccessError::Invalid(_))), "{grace}");
        }
        let rotated = keys.rotate(&system, made.reply.id, 10.0, 150.0).await.unwrap();
        assert_eq!(rotated.reply.id, made.reply.id);
        assert!(keys.caller(&made.key, 159.0).is_some() && keys.caller(&made.key, 160.0).is_none());
        assert!(keys.caller(&rotated.key, 170.0).is_some());
        keys.revoke(&system, made.reply.id, 171.0).await.unwrap();
        assert!(keys.caller(&rotated.key, 171.0).is_none());
        assert!(matches!(keys.revoke(&system, made.reply.id, 172.0).await, Err(AccessError::NotFound(_))));
        assert!(keys.are_required(), "also without any that is in force");
        let audit = keys.audit(None, 9).await.unwrap();
        let actions: Vec<&str> = audit.iter().map(|one| one.action.as_str()).collect();
        assert_eq!(actions, ["key.revoke", "key.rotate", "key.create"]);
        let created = json!({"name": "app", "scopes": ["search"], "collections": ["a"], "filter": {"tenant": 7}, "expires_at": 200.0,
            "limits": {"requests_per_minute": 9}});
        assert_eq!(audit[2].changes, Some(created));
        assert_eq!(keys.list(&system, 172.0).len(), 1);
        let shown = serde_json::to_string(&keys.list(&system, 172.0)).unwrap();
        assert!(!shown.contains(&made.key[14..20]), "{shown}");
    }

    #[tokio::test]
    async fn keys_beyond_the_limit_of_memory_are_refused_and_revoked_ones_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(folder.path()).unwrap();
        let (system, keys) = (
            Caller::system(),
            Keys::load_within(store, Limits::Local, 0.0, 3 * KEY_BYTES * 2).await.unwrap(),
        );
        assert_eq!(keys.bytes(), 0);
        let create = async |name: &str| {
            let made = keys.create(&system, &request(&format!(r#"{{"name": "{name}"}}"#)), 1.0).await;
            made.map(|made| made.reply.id)
        };
        let first = create("a").await.unwrap();
        let one = keys.bytes();
        assert!((KEY_BYTES..3 * KEY_BYTES).contains(&one), "{one}");
        while create("more").await.is_ok() {}
        assert!(matches!(create("more").await, Err(AccessError::TooMany { .. })));
        let all = keys.list(&system, 2.0).len();
        let longer = json!({"filter": {"a": "x".repeat(3 * KEY_BYTES)}});
        let longer = serde_json::from_value(longer).unwrap();
        let refused = keys.update(&system, first, &longer, 2.0).await;
        assert!(matches!(refused, Err(AccessError::TooMany { .. })));
        keys.revoke(&system, first, 3.0).await.unwrap();
        create("in its place").await.unwrap();
        let listed: Vec<i64> = keys.list(&system, 4.0).into_iter().map(|key| key.id).collect();
        assert!(!listed.contains(&first) && listed.len() == all, "{listed:?}");
        assert!(keys.bytes() <= 3 * KEY_BYTES * 2);
    }

    #[tokio::test]
    async fn a_restricted_administrator_makes_and_sees_restricted_keys_only() {
        let folder = tempfile::tempdir().unwrap();
        let system = Caller::system();
        let keys = keys(folder.path()).await;
        let wide = keys.create(&system, &request(r#"{"name": "wide"}"#), 1.0).await.unwrap();
        let admin = r#"{"name": "tenant 7", "scopes": ["admin", "search"], "collections": ["a"], "filter": {"tenant": 7}}"#;
        let admin = keys.create(&system, &request(admin), 1.0).await.unwrap();
        let admin = keys.caller(&admin.key, 2.0).unwrap();
        let refused = |json: &'static str| {
            let (keys, admin) = (keys.clone(), admin.clone());
            async move { keys.create(&admin, &request(json), 2.0).await.unwrap_err().to_string() }
        };
        assert!(refused(r#"{"name": "x", "scopes": ["search"]}"#).await.contains("collections"));
        let own = r#"{"name": "x", "scopes": ["search"], "collections": ["a"], "filter": {"year": 1}}"#;
        let own = keys.create(&admin, &request(own), 2.0).await.unwrap();
        assert_eq!(own.reply.filter, Some(serde_json::json!({"and": [{"tenant": 7}, {"year": 1}]})));
        let seen: Vec<String> = keys.list(&admin, 2.0).into_iter().map(|key| key.name).collect();
        assert_eq!(seen, ["tenant 7", "x"]);
        assert!(matches!(keys.revoke(&admin, wide.reply.id, 3.0).await, Err(AccessError::NotFound(_))));
        assert!(keys.revoke(&admin, own.reply.id, 3.0).await.is_ok());
    }

    #[tokio::test]
    async fn an_administrator_with_an_end_and_limits_gives_neither_more_nor_takes_its_own_away() {
        let folder = tempfile::tempdir().unwrap();
        let (system, keys) = (Caller::system(), keys(folder.path()).await);
        let admin =
            r#"{"name": "admin", "scopes": ["admin"], "expires_at": 100, "limits": {"budget_per_day": 0}}"#;
        let made = keys.create(&system, &request(admin), 1.0).await.unwrap();
        let endless = request(r#"{"name": "app", "limits": {"budget_per_day": 0}}"#);
        let endless = keys.create(&system, &endless, 1.0).await.unwrap().reply.id;
        let admin = keys.caller(&made.key, 2.0).unwrap();
        for (json, remedy) in [
            (r#"{"name": "x", "limits": {"budget_per_day": 0}}"#, "`expires_at` of at most 100,"),
            (r#"{"name": "x", "expires_at": 100}"#, "`limits.budget_per_day` of at most 0,"),
        ] {
            let refused = keys.create(&admin, &request(json), 2.0).await.unwrap_err();
            assert!(refused.to_string().contains(remedy), "{refused}");
        }
        let within = request(r#"{"name": "x", "expires_at": 100, "limits": {"budget_per_day": 0}}"#);
        let within = keys.create(&admin, &within, 2.0).await.unwrap().reply.id;
        for json in [r#"{"expires_at": null}"#, r#"{"limits": null}"#, r#"{"limits": {"budget_per_day": 1}}"#]
        {
            for id in [made.reply.id, within] {
                let update = serde_json::from_str(json).unwrap();
                let refused = keys.update(&admin, id, &update, 2.0).await;
                assert!(matches!(refused, Err(AccessError::Exceeds(_))), "{json}");
            }
        }
        // a new text of a key that may more would be a key that may more
        assert!(matches!(keys.rotate(&admin, endless, 0.0, 2.0).await, Err(AccessError::NotFound(_))));
        assert!(keys.rotate(&admin, within, 0.0, 2.0).await.is_ok());
        let defaults = KeyLimitsRequest { requests_per_minute: Some(60), ..KeyLimitsRequest::default() };
        keys.set_default_limits(defaults, 2.0).await.unwrap();
        let update = serde_json::from_str(r#"{"limits": {"requests_per_minute": 61}}"#).unwrap();
        assert!(matches!(keys.update(&admin, within, &update, 2.0).await, Err(AccessError::Exceeds(_))));
        assert!(keys.update(&system, within, &update, 2.0).await.is_ok());
    }

    #[tokio::test]
    async fn an_update_is_in_force_at_once_and_goes_on_counting() {
        let folder = tempfile::tempdir().unwrap();
        let (system, keys) = (Caller::system(), keys(folder.path()).await);
        let made = r#"{"name": "app", "filter": {"tenant": 7}, "limits": {"tokens_per_minute": 100, "requests_per_minute": 5},
            "model_limits": {"a": {"tokens_per_minute": 50}, "b": {"tokens_per_minute": 50}}}"#;
        let made = keys.create(&system, &request(made), 1.0).await.unwrap();
        let (id, now) = (KeyId(made.reply.id), Instant::now());
        let update = |json: &'static str| {
            let keys = keys.clone();
            async move { keys.update(&Caller::system(), id.0, &serde_json::from_str(json).unwrap(), 2.0).await }
        };
        keys.usage(id).unwrap().try_exact("a", (now, 100.0), 40, 0).unwrap().settle((now, 100.0), 40, 0);
        let changed = r#"{"name": "site", "scopes": ["search"], "limits": {"requests_per_minute": null}, "model_limits": {"b": null, "c": {"tokens_per_minute": 7}}}"#;
        let changed = update(changed).await.unwrap();
        assert_eq!((changed.name.as_str(), changed.filter), ("site", Some(serde_json::json!({"tenant": 7}))));
        let caller = keys.caller(&made.key, 3.0).unwrap();
        assert!(caller.may(weir_policy::Scope::Search) && !caller.may(weir_policy::Scope::Chat));
        let usage = keys.usage(id).unwrap();
        let left = |model: &str| usage.of_model(model).map(|usage| usage.left(now)[0].remaining);
        assert_eq!((left("a"), left("b"), left("c")), (Some(10), None, Some(7)));
        assert_eq!(usage.left(now).iter().map(|left| left.remaining).collect::<Vec<_>>(), [60]);

        // a budget counts what was spent since there is one, also when it was taken away between
        let spend = |nanos| {
            usage
                .try_use((now, 2.0), 0, crate::CostRange::exactly(nanos))
                .map(|taken| taken.settle((now, 2.0), 0, nanos))
        };
        spend(4_000_000_000).unwrap();
        update(r#"{"limits": {"budget_per_day": 5}}"#).await.unwrap();
        spend(3_000_000_000).unwrap();
        assert!(spend(3_000_000_000).is_err());
        let listed = |now| keys.list(&system, now)[0].spent;
        assert_eq!(listed(2.0), Some(KeySpending { day: 3.0, month: 3.0 }));
        assert_eq!(listed(86_402.0), Some(KeySpending { day: 0.0, month: 3.0 }));
        update(r#"{"limits": {"budget_per_day": null}}"#).await.unwrap();
        spend(9_000_000_000).unwrap();
        update(r#"{"limits": {"budget_per_day": 5}}"#).await.unwrap();
        assert!(spend(3_000_000_000).is_err());
        spend(2_000_000_000).unwrap();

        assert!(matches!(
            update(r#"{"limits": {"budget_per_day": -1}}"#).await,
            Err(AccessError::Invalid(_))
        ));
        assert!(matches!(
            keys.update(&system, 99, &KeyUpdate::default(), 2.0).await,
            Err(AccessError::NotFound(99))
        ));
        let newest = &keys.audit(None, 1).await.unwrap()[0];
        let changes = json!({"limits": {"budget_per_day": 5}});
        assert_eq!((newest.action.as_str(), &newest.changes), ("key.update", &Some(changes)));
        update(r#"{"limits": {"budget_per_day": null}, "model_limits": {"d": {"budget_per_month": 5}}}"#)
            .await
            .unwrap();
        keys.usage(id).unwrap().try_exact("d", (now, 2.0), 1, 1_000_000_000).unwrap().settle(
            (now, 2.0),
            1,
            1_000_000_000,
        );
        let of_models = keys.list(&system, 2.0)[0].model_spent.clone();
        assert_eq!(of_models, [("d".to_owned(), KeySpending { day: 1.0, month: 1.0 })].into());
        keys.revoke(&system, id.0, 3.0).await.unwrap();
        assert!(matches!(update("{}").await, Err(AccessError::NotFound(_))), "it stays revoked");
    }

    #[tokio::test]
    async fn an_update_by_a_restricted_administrator_stays_within_its_rights() {
        let folder = tempfile::tempdir().unwrap();
        let (system, keys) = (Caller::system(), keys(folder.path()).await);
        let admin =
            r#"{"name": "tenant 7", "scopes": ["admin"], "collections": ["a"], "filter": {"tenant": 7}}"#;
        let admin = keys.create(&system, &request(admin), 1.0).await.unwrap();
        let admin = keys.caller(&admin.key, 2.0).unwrap();
        let wide = keys.create(&system, &request(r#"{"name": "wide"}"#), 1.0).await.unwrap().reply.id;
        let own =
            keys.create(&admin, &request(r#"{"name": "own", "collections": ["a"]}"#), 2.0).await.unwrap();
        let update = |id: i64, json: &'static str| {
            let (keys, admin) = (keys.clone(), admin.clone());
            async move { keys.update(&admin, id, &serde_json::from_str(json).unwrap(), 2.0).await }
        };
        assert!(matches!(update(wide, "{}").await, Err(AccessError::NotFound(_))));
        assert!(matches!(
            update(own.reply.id, r#"{"collections": null}"#).await,
            Err(AccessError::Exceeds(_))
        ));
        let tenant = serde_json::json!({"tenant": 7});
        assert_eq!(update(own.reply.id, r#"{"name": "b"}"#).await.unwrap().filter, Some(tenant.clone()));
        assert_eq!(update(own.reply.id, r#"{"filter": null}"#).await.unwrap().filter, Some(tenant.clone()));
        let narrowed = update(own.reply.id, r#"{"filter": {"year": 1}}"#).await.unwrap().filter;
        assert_eq!(narrowed, Some(serde_json::json!({"and": [tenant, {"year": 1}]})));
    }

    #[tokio::test]
    async fn keys_are_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let made = {
            let keys = keys(folder.path()).await;
            let made = keys.create(&Caller::system(), &request(r#"{"name": "app"}"#), 1.0).await.unwrap();
            keys.0.store.clone().close().await;
            made
        };
        assert!(keys(folder.path()).await.caller(&made.key, 2.0).is_some());
    }
}
