//! Grants of a key: as stored, and as the [`Caller`] that it makes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_api::{ErrorCode, Invalid, KeyLimitsRequest, KeyReply, KeyRequest, KeyScope};
use weir_filter::Filter;
use weir_policy::budget::Budgets;
use weir_policy::limits::KeyLimits;
use weir_policy::{Allowlist, Caller, KeyId, Scope};
use weir_store::StoredKey;

use crate::{AccessError, Result};

/// The stored grants of a key beside its columns. Every field is required: one that is missing must not read as "everything".
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Grants {
    scopes: Vec<KeyScope>,
    #[serde(deserialize_with = "Option::deserialize")]
    collections: Option<Vec<String>>,
    #[serde(deserialize_with = "Option::deserialize")]
    models: Option<Vec<String>>,
    #[serde(deserialize_with = "Option::deserialize")]
    filter: Option<Value>,
    limits: KeyLimitsRequest,
    /// Keys of before this field have none.
    #[serde(default)]
    model_limits: BTreeMap<String, KeyLimitsRequest>,
}

impl Grants {
    /// The grants of a request.
    pub(crate) fn of_request(request: &KeyRequest) -> Grants {
        let KeyRequest {
            name: _,
            scopes: _,
            collections,
            models,
            filter,
            expires_at: _,
            limits,
            model_limits,
        } = request;
        Grants {
            scopes: request.scopes(),
            collections: collections.clone(),
            models: models.clone(),
            filter: filter.clone(),
            limits: limits.unwrap_or_default(),
            model_limits: model_limits.clone().unwrap_or_default(),
        }
    }

    /// As they are stored.
    pub(crate) fn to_json(&self) -> String {
        json!(self).to_string()
    }

    /// The caller that the key with this number and name makes.
    ///
    /// # Errors
    /// [`AccessError::Unreadable`].
    fn caller(&self, key: KeyId, name: &str) -> Result<Caller> {
        let filter = self.filter.as_ref().map(Filter::from_value).transpose();
        let unreadable = |error: weir_filter::FilterError| AccessError::Unreadable {
            id: key.0,
            reason: error.to_string(),
        };
        Ok(Caller {
            key: Some(key),
            name: Some(name.into()),
            scopes: self.scopes.iter().copied().map(scope_of).collect(),
            collections: allowlist(self.collections.as_deref()),
            models: allowlist(self.models.as_deref()),
            filter: filter.map_err(unreadable)?.map(Arc::new),
        })
    }
}

/// The request with `inherited`, the mandatory filter of the administrator, as a part of its own.
///
/// # Errors
/// `invalid_filter`.
pub(crate) fn with_inherited_filter(mut request: KeyRequest, inherited: Option<Value>) -> Result<KeyRequest> {
    if let Some(filter) = &request.filter {
        Filter::from_value(filter).map_err(|error| {
            Invalid::at(ErrorCode::InvalidFilter, &["filter"], format!("`filter`: {error}"))
        })?;
    }
    request.filter = match (request.filter, inherited) {
        (Some(own), Some(inherited)) => Some(json!({"and": [inherited, own]})),
        (own, inherited) => own.or(inherited),
    };
    Ok(request)
}

/// The caller that a stored key makes, and the key as it is listed.
///
/// # Errors
/// [`AccessError::Unreadable`].
pub(crate) fn read(stored: &StoredKey) -> Result<(Caller, KeyReply)> {
    let KeyId(id) = stored.id;
    let unreadable = |error: serde_json::Error| AccessError::Unreadable { id, reason: error.to_string() };
    let grants: Grants = serde_json::from_str(&stored.key.grants).map_err(unreadable)?;
    let caller = grants.caller(stored.id, &stored.key.name)?;
    let reply = KeyReply {
        id,
        name: stored.key.name.clone(),
        prefix: stored.key.prefix.clone(),
        scopes: grants.scopes,
        collections: grants.collections,
        models: grants.models,
        filter: grants.filter,
        limits: grants.limits,
        model_limits: grants.model_limits,
        spent: None,
        model_spent: BTreeMap::new(),
        created_at: stored.created_at,
        expires_at: stored.key.expires_at,
        revoked_at: stored.revoked_at,
        previous_until: stored.previous.map(|(_, until)| until),
    };
    Ok((caller, reply))
}

/// Limits as they are listed. What they leave open is that of `defaults`.
pub(crate) fn limits_of(limits: &KeyLimitsRequest, defaults: &KeyLimitsRequest) -> KeyLimits {
    KeyLimits {
        requests_per_minute: limits.requests_per_minute.or(defaults.requests_per_minute),
        tokens_per_minute: limits.tokens_per_minute.or(defaults.tokens_per_minute),
        concurrent_requests: limits.concurrent_requests.or(defaults.concurrent_requests),
        budgets: Budgets {
            per_day: limits.budget_per_day.or(defaults.budget_per_day).map(nanos),
            per_month: limits.budget_per_month.or(defaults.budget_per_month).map(nanos),
        },
    }
}

/// An amount of money in billionths.
fn nanos(units: f64) -> u64 {
    (units * 1e9).round() as u64
}

fn scope_of(scope: KeyScope) -> Scope {
    match scope {
        KeyScope::Search => Scope::Search,
        KeyScope::Ingest => Scope::Ingest,
        KeyScope::Embed => Scope::Embed,
        KeyScope::Rerank => Scope::Rerank,
        KeyScope::Chat => Scope::Chat,
        KeyScope::Admin => Scope::Admin,
        KeyScope::Metrics => Scope::Metrics,
    }
}

/// The names of a key's list.
pub(crate) fn allowlist(names: Option<&[String]>) -> Allowlist {
    match names {
        None => Allowlist::All,
        Some(names) => Allowlist::Only(names.iter().cloned().collect::<BTreeSet<String>>()),
    }
}

#[cfg(test)]
mod tests {
    use weir_policy::key::KeyHash;
    use weir_store::NewKey;

    use super::*;

    #[test]
    fn a_key_without_one_of_its_restrictions_is_unreadable_and_not_unrestricted() {
        let whole = r#"{"scopes":["search"],"collections":null,"models":null,"filter":null,"limits":{}}"#;
        let readable = |grants: &str| {
            let key = NewKey {
                name: "app".to_owned(),
                prefix: "weir_12345678".to_owned(),
                hash: KeyHash([0; 32]),
                grants: grants.to_owned(),
                expires_at: None,
            };
            read(&StoredKey { id: KeyId(1), key, created_at: 0.0, revoked_at: None, previous: None }).is_ok()
        };
        assert!(readable(whole));
        for field in ["scopes", "collections", "models", "filter", "limits"] {
            let mut grants: Value = serde_json::from_str(whole).unwrap();
            grants.as_object_mut().unwrap().remove(field);
            assert!(!readable(&grants.to_string()), "{field}");
        }
        assert!(!readable(&whole.replace("\"filter\":null", "\"filter\":{\"a\":{\"near\":1}}")));
    }
}
