//! The keys of the store, in memory.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI32;
use std::time::Instant;

use arc_swap::ArcSwap;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use weir_api::{
    AuditReply, KeyLimitsRequest, KeyReply, KeyRequest, KeySpending, KeyUpdate, NewKeyReply,
    check_grace_seconds,
};
use weir_policy::budget::Spending;
use weir_policy::key::{KeyHash, KeyText, RANDOM_BYTES};
use weir_policy::limits::KeyLimits;
use weir_policy::{Caller, KeyId};
use weir_store::{AuditEntry, NewAuditEntry, NewKey, Store, StoredKey, Timestamp};

use crate::grants::{self, Grants};
use crate::ledger::{self, Account, Ledger};
use crate::revocations::Unstored;
use crate::{AccessError, Result, Usage};

/// The keys of a gateway. Clones share them. Finding a key reads memory only; a change is in force when its call returns.
#[derive(Clone)]
pub struct Keys(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) active: ArcSwap<Active>,
    pub(crate) ledger: Arc<Ledger>,
    /// The month whose spending was read.
    pub(crate) month: AtomicI32,
    /// Locked while the keys in memory are replaced.
    pub(crate) unstored: std::sync::Mutex<Unstored>,
    /// The limits of keys without their own. One change at a time, so that the keys in memory are those of the last one.
    pub(crate) defaults: Mutex<KeyLimitsRequest>,
}

/// The keys that were not revoked when they were read, by hash.
pub(crate) struct Active {
    by_hash: HashMap<KeyHash, Entry>,
    /// Whether there is or was any key, revoked ones included.
    are_required: bool,
    all: Vec<Listed>,
    pub(crate) usage: HashMap<KeyId, Arc<Usage>>,
}

#[derive(Clone)]
struct Entry {
    caller: Arc<Caller>,
    /// When this text of the key stops to be valid.
    until: Option<Timestamp>,
}

#[derive(Clone)]
struct Listed {
    caller: Arc<Caller>,
    reply: KeyReply,
}

impl Keys {
    /// Reads the keys of the store.
    ///
    /// # Errors
    /// Those of the store; [`AccessError::Unreadable`]: a key that can't be read is never taken for one that allows less or more.
    pub async fn load(store: Store, now: Timestamp) -> Result<Keys> {
        let ledger = Arc::<Ledger>::default();
        let spent = ledger::read(&store, now).await?;
        let defaults = KeyLimitsRequest::default();
        let active = Active::of(&store.keys().await?, &defaults, &HashMap::new(), &spent, &ledger)?;
        let active = ArcSwap::from_pointee(active);
        let month = ledger::period_of(now).month.into();
        let (unstored, defaults) = (std::sync::Mutex::default(), Mutex::default());
        Ok(Keys(Arc::new(Inner { store, active, ledger, month, unstored, defaults })))
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

    /// What a key uses, if it has limits.
    pub fn usage(&self, key: KeyId) -> Option<Arc<Usage>> {
        self.0.active.load().usage.get(&key).cloned()
    }

    /// The name of a key.
    pub fn name(&self, key: KeyId) -> Option<String> {
        self.0.active.load().listed(key).map(|listed| listed.reply.name.clone())
    }

    /// Every key that allows no more than the caller's own, revoked and expired ones included, in the order of their creation.
    pub fn list(&self, by: &Caller, now: Timestamp) -> Vec<KeyReply> {
        let active = self.0.active.load();
        active
            .all
            .iter()
            .filter(|listed| by.covers(&listed.caller))
            .map(|listed| active.reply(listed, now))
            .collect()
    }

    /// Creates a key.
    ///
    /// # Errors
    /// `Invalid`; `Exceeds` for more than the caller's own rights; those of the store.
    pub async fn create(&self, by: &Caller, request: &KeyRequest, now: Timestamp) -> Result<NewKeyReply> {
        request.check(now)?;
        let text = new_text();
        let grants = Grants::of_request(request, self.filter_of(by))?;
        check_covers(by, &grants.caller(KeyId(0))?)?;
        let new = NewKey {
            name: request.name.clone(),
            prefix: text.prefix().to_owned(),
            hash: text.hash(),
            grants: grants.to_json(),
            expires_at: request.expires_at,
        };
        let defaults = self.0.defaults.lock().await;
        let entry =
            NewAuditEntry { changes: Some(given(json!(request)).to_string()), ..entry(by, "key.create", "") };
        let stored = self.0.store.add_key(new, entry, now).await?;
        self.reload(&defaults, &HashMap::new()).await?;
        Ok(NewKeyReply { key: text.reveal().to_owned(), reply: self.reply(stored.id, now)? })
    }

    /// Revokes a key: it is refused from now on, before anything is stored.
    ///
    /// # Errors
    /// `NotFound`; `RevocationNotStored`, after which the key is refused all the same.
    pub async fn revoke(&self, by: &Caller, id: i64, now: Timestamp) -> Result<KeyReply> {
        self.find(by, id)?;
        self.revoke_in_memory(KeyId(id), entry(by, "key.revoke", &id.to_string()), now);
        let stored = self.store_revocation(KeyId(id)).await;
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
        let inherited = self.filter_of(by).filter(|_| request.filter != before.filter);
        let grants = Grants::of_request(&request, inherited)?;
        check_covers(by, &grants.caller(KeyId(id))?)?;
        let changed = (request.name, grants.to_json(), request.expires_at);
        let changes = Some(json!(update).to_string());
        let entry = NewAuditEntry { changes, ..entry(by, "key.update", &id.to_string()) };
        // for a budget that the key has not had until now
        let spent = self.spent(now).await?;
        let stored = self.0.store.update_key(KeyId(id), changed, entry, now).await?;
        self.reload(&defaults, &spent).await?;
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

    /// The mandatory filter of a caller with a key, as it was given.
    fn filter_of(&self, by: &Caller) -> Option<Value> {
        self.0.active.load().listed(by.key?)?.reply.filter.clone()
    }

    /// Keys that allow more than the caller's own do not exist for it.
    fn find(&self, by: &Caller, id: i64) -> Result<KeyReply> {
        let active = self.0.active.load();
        let found = active.listed(KeyId(id)).filter(|listed| by.covers(&listed.caller));
        Ok(found.ok_or(AccessError::NotFound(id))?.reply.clone())
    }

    fn find_in_force(&self, by: &Caller, id: i64) -> Result<KeyReply> {
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

    /// What the ledger has, with all that was spent until now.
    async fn spent(&self, now: Timestamp) -> Result<HashMap<Account, Spending>> {
        self.flush_ledger(now).await?;
        ledger::read(&self.0.store, now).await
    }

    async fn reload(&self, defaults: &KeyLimitsRequest, spent: &HashMap<Account, Spending>) -> Result<()> {
        let Inner { store, active, ledger, .. } = &*self.0;
        let mut stored = store.keys().await?;
        let unstored = self.unstored();
        unstored.apply_to(&mut stored);
        let before = active.load().usage.clone();
        active.store(Arc::new(Active::of(&stored, defaults, &before, spent, ledger)?));
        Ok(())
    }
}

impl Active {
    /// The counts of `before` go on. `spent` is what the ledger has of keys that are not counted, or may get their first budget.
    fn of(
        stored: &[StoredKey],
        defaults: &KeyLimitsRequest,
        before: &HashMap<KeyId, Arc<Usage>>,
        spent: &HashMap<Account, Spending>,
        ledger: &Arc<Ledger>,
    ) -> Result<Active> {
        let mut active = Active {
            by_hash: HashMap::new(),
            are_required: !stored.is_empty(),
            all: Vec::new(),
            usage: HashMap::new(),
        };
        for one in stored {
            let (caller, reply) = grants::read(one)?;
            let (caller, limits) = (Arc::new(caller), grants::limits_of(&reply.limits, defaults));
            let now = Instant::now();
            if one.revoked_at.is_some() {
                active.all.push(Listed { caller, reply });
                continue;
            }
            // the counts of before go on
            let usage = |before: Option<Arc<Usage>>, model: &str, limits: KeyLimits| {
                let account: Account = (one.id, model.into());
                let spending = spent.get(&account).cloned().unwrap_or_default();
                match before {
                    Some(before) => {
                        before.set_limits(limits, spending, now);
                        before
                    }
                    None => Arc::new(Usage::new(account, limits, spending, ledger.clone(), now)),
                }
            };
            let before = before.get(&one.id).cloned();
            if before.is_some() || limits != KeyLimits::default() || !reply.model_limits.is_empty() {
                let usage_of_key = usage(before, "", limits);
                let of_models = reply.model_limits.iter().map(|(model, limits)| {
                    let limits = grants::limits_of(limits, &KeyLimitsRequest::default());
                    usage(usage_of_key.of_pattern(model), model, limits)
                });
                usage_of_key.set_models(of_models.collect());
                active.usage.insert(one.id, usage_of_key);
            }
            active.all.push(Listed { caller: caller.clone(), reply });
            let until = one.key.expires_at;
            if let Some((hash, end)) = one.previous {
                let until = Some(until.map_or(end, |until| until.min(end)));
                active.by_hash.insert(hash, Entry { caller: caller.clone(), until });
            }
            active.by_hash.insert(one.key.hash, Entry { caller, until });
        }
        Ok(active)
    }

    /// The same without a key, which stays listed as revoked; `None` if it is revoked or unknown.
    pub(crate) fn without(&self, key: KeyId, revoked_at: Timestamp) -> Option<Active> {
        self.listed(key).filter(|listed| listed.reply.revoked_at.is_none())?;
        let is_other = |entry: &Entry| entry.caller.key != Some(key);
        let by_hash = self.by_hash.iter().filter(|(_, entry)| is_other(entry));
        let mut all = self.all.clone();
        for listed in all.iter_mut().filter(|listed| listed.reply.id == key.0) {
            listed.reply.revoked_at = Some(revoked_at);
        }
        let mut usage = self.usage.clone();
        usage.remove(&key);
        let by_hash = by_hash.map(|(hash, entry)| (*hash, entry.clone())).collect();
        Some(Active { by_hash, are_required: self.are_required, all, usage })
    }

    fn listed(&self, key: KeyId) -> Option<&Listed> {
        self.all.iter().find(|listed| listed.reply.id == key.0)
    }

    /// A key with what it has spent.
    fn reply(&self, listed: &Listed, now: Timestamp) -> KeyReply {
        let amount = |nanos: u64| nanos as f64 / 1e9;
        let spending = |(day, month)| KeySpending { day: amount(day), month: amount(month) };
        let usage = self.usage.get(&KeyId(listed.reply.id));
        let of_models = usage.into_iter().flat_map(|usage| usage.spent_by_model(now));
        KeyReply {
            spent: usage.and_then(|usage| usage.spent(now)).map(spending),
            model_spent: of_models.map(|(model, spent)| (model.to_string(), spending(spent))).collect(),
            ..listed.reply.clone()
        }
    }
}

fn check_covers(by: &Caller, caller: &Caller) -> Result<()> {
    if by.covers(caller) {
        return Ok(());
    }
    let what = if !by.collections.covers(&caller.collections) {
        "send `collections` with names of your own key"
    } else if !by.models.covers(&caller.models) {
        "send `models` with names of your own key"
    } else {
        "its filter must include yours"
    };
    Err(AccessError::Exceeds(what))
}

fn new_text() -> KeyText {
    let mut random = [0; RANDOM_BYTES];
    rand::Rng::fill(&mut rand::rng(), &mut random[..]);
    KeyText::new(&random)
}

/// What a request gives: without fields that are null, but for those of a filter.
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
    use super::*;

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
        keys.usage(id).unwrap().charge_for("a", (now, 100.0), 40, 0).unwrap();
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
        let spend =
            |nanos| usage.reserve((now, 2.0), 0, nanos).map(|taken| taken.settle((now, 2.0), 0, nanos));
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
        keys.usage(id).unwrap().charge_for("d", (now, 2.0), 1, 1_000_000_000).unwrap();
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
