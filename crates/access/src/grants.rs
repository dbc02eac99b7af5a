//! What a key allows: as it is stored, and as the [`Caller`] that it makes.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use weir_api::{ErrorCode, Invalid, KeyLimitsRequest, KeyReply, KeyRequest, KeyScope};
use weir_filter::Filter;
use weir_policy::limits::KeyLimits;
use weir_policy::{Allowlist, Caller, KeyId, Scope};
use weir_store::StoredKey;

use crate::{AccessError, Result};

/// The grants of a request, as they are stored. The filter of the caller who makes the key is part of them.
///
/// # Errors
/// `invalid_filter`.
pub(crate) fn of_request(request: &KeyRequest, by: &Caller, by_filter: Option<&Value>) -> Result<Value> {
    if let Some(filter) = &request.filter {
        Filter::from_value(filter).map_err(|error| {
            Invalid::at(ErrorCode::InvalidFilter, &["filter"], format!("`filter`: {error}"))
        })?;
    }
    let filter = match (request.filter.clone(), by_filter.filter(|_| by.filter.is_some())) {
        (own, None) => own,
        (None, Some(inherited)) => Some(inherited.clone()),
        (Some(own), Some(inherited)) => Some(json!({"and": [inherited, own]})),
    };
    Ok(json!({
        "scopes": request.scopes(),
        "collections": request.collections,
        "models": request.models,
        "filter": filter,
        "limits": request.limits,
    }))
}

/// The caller that a stored key makes, and the key as it is listed.
///
/// # Errors
/// [`AccessError::Unreadable`].
pub(crate) fn read(stored: &StoredKey) -> Result<(Caller, KeyReply)> {
    let unreadable = |reason: String| AccessError::Unreadable { id: stored.id.0, reason };
    let grants: Value =
        serde_json::from_str(&stored.key.grants).map_err(|error| unreadable(error.to_string()))?;
    let part = |name: &str| grants.get(name).cloned().unwrap_or_default();
    let names = |name: &str| serde_json::from_value::<Option<Vec<String>>>(part(name));
    let read = || -> serde_json::Result<_> {
        Ok((
            serde_json::from_value::<Vec<KeyScope>>(part("scopes"))?,
            names("collections")?,
            names("models")?,
            serde_json::from_value::<Option<KeyLimitsRequest>>(part("limits"))?,
        ))
    };
    let (scopes, collections, models, limits) = read().map_err(|error| unreadable(error.to_string()))?;
    let filter = Some(part("filter")).filter(|filter| !filter.is_null());
    let parsed = filter.as_ref().map(Filter::from_value).transpose();
    let parsed = parsed.map_err(|error| unreadable(error.to_string()))?;
    let caller = Caller {
        key: Some(stored.id),
        scopes: scopes.iter().copied().map(scope_of).collect(),
        collections: allowlist(collections.as_deref()),
        models: allowlist(models.as_deref()),
        filter: parsed.map(Arc::new),
    };
    let KeyId(id) = stored.id;
    let reply = KeyReply {
        id,
        name: stored.key.name.clone(),
        prefix: stored.key.prefix.clone(),
        scopes,
        collections,
        models,
        filter,
        limits: limits.unwrap_or_default(),
        created_at: stored.created_at,
        expires_at: stored.key.expires_at,
        revoked_at: stored.revoked_at,
        previous_until: stored.previous.map(|(_, until)| until),
    };
    Ok((caller, reply))
}

/// The limits of a key as it is listed.
pub(crate) fn limits_of(key: &KeyReply) -> KeyLimits {
    KeyLimits {
        requests_per_minute: key.limits.requests_per_minute,
        tokens_per_minute: key.limits.tokens_per_minute,
        concurrent_requests: key.limits.concurrent_requests,
    }
}

fn scope_of(scope: KeyScope) -> Scope {
    match scope {
        KeyScope::Search => Scope::Search,
        KeyScope::Ingest => Scope::Ingest,
        KeyScope::Embed => Scope::Embed,
        KeyScope::Rerank => Scope::Rerank,
        KeyScope::Chat => Scope::Chat,
        KeyScope::Admin => Scope::Admin,
    }
}

fn allowlist(names: Option<&[String]>) -> Allowlist {
    match names {
        None => Allowlist::All,
        Some(names) => Allowlist::Only(names.iter().cloned().collect::<BTreeSet<String>>()),
    }
}
