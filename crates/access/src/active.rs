//! The keys of the store as they are looked up.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use weir_api::{KeyLimitsRequest, KeyReply, KeyRequest, KeySpending};
use weir_policy::budget::Spending;
use weir_policy::key::KeyHash;
use weir_policy::limits::KeyLimits;
use weir_policy::{Caller, KeyId};
use weir_store::{StoredKey, Timestamp};

use crate::grants;
use crate::ledger::Account;
use crate::restriction::check_within;
use crate::usage::Counted;
use crate::{AccessError, KeyUsage, Result};

/// The keys that were not revoked when they were read, by hash.
pub(crate) struct Active {
    pub(crate) by_hash: HashMap<KeyHash, Entry>,
    /// Whether there is or was any key, revoked ones included.
    pub(crate) are_required: bool,
    pub(crate) all: Vec<KeyReply>,
    pub(crate) usage: HashMap<KeyId, Arc<KeyUsage>>,
    /// The limits of keys without their own.
    defaults: KeyLimitsRequest,
    /// Of everything here, estimated.
    pub(crate) bytes: usize,
}

/// Most bytes of keys in memory. What is beyond is refused; revoked keys are left out of memory then, the oldest first.
pub const KEYS_BYTES_MAX: usize = 256 << 20;
/// Estimated bytes of a key beside its texts, and of the counts of a key or of one of its models.
pub(crate) const KEY_BYTES: usize = 1_024;
const USAGE_BYTES: usize = 512;

/// Estimated bytes of a key in memory: its texts are there as they are listed and as they are compared. Fields of bounded size are part of
/// [`KEY_BYTES`], so that a request takes what the key takes that it creates, in which they are complete.
pub(crate) fn bytes_of(key: &KeyRequest) -> usize {
    let models = key.model_limits.as_ref().map_or(0, BTreeMap::len);
    let model_limits = key.model_limits.clone().filter(|limits| !limits.is_empty());
    let texts = KeyRequest { scopes: None, limits: None, expires_at: None, model_limits, ..key.clone() };
    KEY_BYTES + 3 * json!(texts).to_string().len() + USAGE_BYTES * (1 + models)
}

#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) caller: Arc<Caller>,
    /// When this text of the key stops to be valid.
    pub(crate) until: Option<Timestamp>,
}

impl Active {
    /// The counts of `before` go on. `spent` is what the ledger has of keys that are not counted, or may get their first budget.
    pub(crate) fn of(
        stored: &[StoredKey],
        defaults: &KeyLimitsRequest,
        before: &HashMap<KeyId, Arc<KeyUsage>>,
        spent: &HashMap<Account, Spending>,
        counted: &Counted,
    ) -> Result<Active> {
        let mut active = Active {
            by_hash: HashMap::new(),
            are_required: !stored.is_empty(),
            all: Vec::new(),
            usage: HashMap::new(),
            defaults: *defaults,
            bytes: 0,
        };
        for one in stored {
            let (caller, reply) = grants::read(one)?;
            let (caller, limits) = (Arc::new(caller), grants::limits_of(&reply.limits, defaults));
            let now = Instant::now();
            if one.revoked_at.is_some() {
                active.all.push(reply);
                continue;
            }
            // the counts of before go on
            let usage = |before: Option<Arc<KeyUsage>>, model: &str, limits: KeyLimits| {
                let account: Account = (one.id, model.into());
                let spending = spent.get(&account).cloned().unwrap_or_default();
                match before {
                    Some(before) => {
                        before.set_limits(limits, spending, now);
                        before
                    }
                    None => Arc::new(KeyUsage::new(
                        account,
                        one.created_at,
                        limits,
                        spending,
                        counted.clone(),
                        now,
                    )),
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
            active.all.push(reply);
            let until = one.key.expires_at;
            if let Some((hash, end)) = one.previous {
                let until = Some(until.map_or(end, |until| until.min(end)));
                active.by_hash.insert(hash, Entry { caller: caller.clone(), until });
            }
            active.by_hash.insert(one.key.hash, Entry { caller, until });
        }
        Ok(active)
    }

    /// Leaves out the oldest revoked keys beyond the limit, and counts the rest.
    pub(crate) fn within(mut self, bytes_max: usize) -> Active {
        let sizes: Vec<usize> = self.all.iter().map(|key| bytes_of(&key.to_request())).collect();
        self.bytes = sizes.iter().sum();
        let mut sizes = sizes.into_iter();
        let Active { all, bytes, .. } = &mut self;
        all.retain(|key| {
            let size = sizes.next().unwrap_or(0);
            let is_kept = key.revoked_at.is_none() || *bytes <= bytes_max;
            *bytes -= if is_kept { 0 } else { size };
            is_kept
        });
        self
    }

    /// Estimated bytes of the keys that are not revoked.
    pub(crate) fn bytes_in_force(&self) -> usize {
        let in_force = self.all.iter().filter(|key| key.revoked_at.is_none());
        in_force.map(|key| bytes_of(&key.to_request())).sum()
    }

    /// The same without a key, which stays listed as revoked; `None` if it is revoked or unknown.
    pub(crate) fn without(&self, key: KeyId, revoked_at: Timestamp) -> Option<Active> {
        self.listed(key).filter(|listed| listed.revoked_at.is_none())?;
        let is_other = |entry: &Entry| entry.caller.key != Some(key);
        let by_hash = self.by_hash.iter().filter(|(_, entry)| is_other(entry));
        let mut all = self.all.clone();
        for listed in all.iter_mut().filter(|listed| listed.id == key.0) {
            listed.revoked_at = Some(revoked_at);
        }
        let mut usage = self.usage.clone();
        usage.remove(&key);
        let by_hash = by_hash.map(|(hash, entry)| (*hash, entry.clone())).collect();
        let Active { are_required, defaults, bytes, .. } = *self;
        Some(Active { by_hash, are_required, all, usage, defaults, bytes })
    }

    pub(crate) fn listed(&self, key: KeyId) -> Option<&KeyReply> {
        // in the order of their numbers, as the store lists them
        self.all.get(self.all.binary_search_by_key(&key.0, |listed| listed.id).ok()?)
    }

    /// The key of the caller, as the request that would create it. A caller without a key has no restrictions.
    pub(crate) fn own(&self, by: &Caller) -> Result<KeyRequest> {
        match by.key {
            Some(key) => Ok(self.listed(key).ok_or(AccessError::NotFound(key.0))?.to_request()),
            None => Ok(KeyRequest::unrestricted()),
        }
    }

    /// Whether `key` allows no more than `own`.
    pub(crate) fn check_within(&self, own: &KeyRequest, key: &KeyRequest) -> Result<()> {
        check_within(own, key, &self.defaults)
    }

    /// A key with what it has spent.
    pub(crate) fn reply(&self, listed: &KeyReply, now: Timestamp) -> KeyReply {
        let amount = |nanos: u64| nanos as f64 / 1e9;
        let spending = |(day, month)| KeySpending { day: amount(day), month: amount(month) };
        let usage = self.usage.get(&KeyId(listed.id));
        let of_models = usage.into_iter().flat_map(|usage| usage.spent_by_model(now));
        KeyReply {
            spent: usage.and_then(|usage| usage.spent(now)).map(spending),
            model_spent: of_models.map(|(model, spent)| (model.to_string(), spending(spent))).collect(),
            ..listed.clone()
        }
    }
}
