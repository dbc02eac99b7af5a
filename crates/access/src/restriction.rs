//! Whether a key allows no more than the key of the administrator who lists, creates or changes it.

use serde_json::Value;
use weir_api::{KeyLimitsRequest, KeyRequest};
use weir_filter::Filter;

use crate::grants::allowlist;
use crate::{AccessError, Result};

/// Checks that `key` is at least as restricted as `own`, the key of an administrator. `defaults` are the limits of keys that have none of
/// their own; an administrator without any restriction may go beyond them.
///
/// Every field is named, so that a new one does not compile until it is decided. Scopes are no restriction: who has `admin` may give any.
/// Counts are those of each key: limits of several keys are not added up.
///
/// # Errors
/// `Exceeds`, with what to send instead.
pub(crate) fn check_within(own: &KeyRequest, key: &KeyRequest, defaults: &KeyLimitsRequest) -> Result<()> {
    let KeyRequest { name: _, scopes: _, collections, models, filter, expires_at, limits, model_limits } =
        key;
    for (field, own, names) in
        [("collections", &own.collections, collections), ("models", &own.models, models)]
    {
        let is_within = allowlist(own.as_deref()).covers(&allowlist(names.as_deref()));
        require(is_within, || format!("send `{field}` with names of your own key"))?;
    }
    require(
        own.filter.as_ref().is_none_or(|own| filter.as_ref().is_some_and(|key| implies(key, own))),
        || "its filter must include yours".to_owned(),
    )?;
    let latest = own.expires_at.unwrap_or(f64::INFINITY);
    require(expires_at.unwrap_or(f64::INFINITY) <= latest, || {
        format!("send `expires_at` of at most {latest}, the end of your own key")
    })?;
    let defaults = if is_unrestricted(own) { KeyLimitsRequest::default() } else { *defaults };
    let limits = limits.unwrap_or_default();
    check_limits("limits", &own.limits.unwrap_or_default(), &limits, &defaults)?;
    let model_limits = model_limits.as_ref();
    for (model, own) in own.model_limits.iter().flatten() {
        let limits = model_limits.and_then(|limits| limits.get(model));
        let limits = limits.copied().unwrap_or_default();
        check_limits(&format!("model_limits.{model}"), own, &limits, &KeyLimitsRequest::default())?;
    }
    // the longest name that fits counts: a longer one than the administrator's would take models out of its limits
    for model in model_limits.into_iter().flat_map(|limits| limits.keys()) {
        let mut all = own.model_limits.iter().flat_map(|limits| limits.keys());
        let is_taken_out =
            |own: &String| own != model && allowlist(Some(std::slice::from_ref(own))).contains(model);
        let is_own = own.model_limits.as_ref().is_some_and(|limits| limits.contains_key(model));
        require(is_own || !all.any(is_taken_out), || {
            format!("leave `model_limits.{model}` out: a name in `model_limits` of your own key covers it")
        })?;
    }
    Ok(())
}

/// Whether a key has no restriction at all.
fn is_unrestricted(key: &KeyRequest) -> bool {
    let KeyRequest { name: _, scopes: _, collections, models, filter, expires_at, limits, model_limits } =
        key;
    collections.is_none()
        && models.is_none()
        && filter.is_none()
        && expires_at.is_none()
        && limits.unwrap_or_default() == KeyLimitsRequest::default()
        && model_limits.as_ref().is_none_or(|limits| limits.is_empty())
}

/// Checks limits field by field. A limit of `own` must be in `key` itself: a default can change.
fn check_limits(
    place: &str,
    own: &KeyLimitsRequest,
    key: &KeyLimitsRequest,
    defaults: &KeyLimitsRequest,
) -> Result<()> {
    let fields = |limits: &KeyLimitsRequest| {
        let KeyLimitsRequest {
            requests_per_minute,
            tokens_per_minute,
            concurrent_requests,
            budget_per_day,
            budget_per_month,
        } = *limits;
        // exact: limits end far below 2^53
        let count = |limit: Option<u64>| limit.map(|limit| limit as f64);
        [
            ("requests_per_minute", count(requests_per_minute)),
            ("tokens_per_minute", count(tokens_per_minute)),
            ("concurrent_requests", count(concurrent_requests)),
            ("budget_per_day", budget_per_day),
            ("budget_per_month", budget_per_month),
        ]
    };
    let own = fields(own).into_iter().zip(fields(defaults));
    for ((field, limit), ((_, own), (_, default))) in fields(key).into_iter().zip(own) {
        match (own, default) {
            (Some(most), _) => {
                require(limit.is_some_and(|limit| limit <= most), || {
                    format!("send `{place}.{field}` of at most {most}, the limit of your own key")
                })?;
            }
            (None, Some(most)) => {
                require(limit.is_none_or(|limit| limit <= most), || {
                    format!(
                        "leave `{place}.{field}` out, or send at most {most}, the default, which limits your own key"
                    )
                })?;
            }
            (None, None) => {}
        }
    }
    Ok(())
}

fn require(is_within: bool, remedy: impl FnOnce() -> String) -> Result<()> {
    if is_within { Ok(()) } else { Err(AccessError::Exceeds(remedy())) }
}

/// Whether every document that passes `filter` passes `wanted`, as far as that can be seen: `filter` is `wanted`, or a conjunction with it.
/// A filter that can't be read implies nothing.
fn implies(filter: &Value, wanted: &Value) -> bool {
    fn has(filter: &Filter, wanted: &Filter) -> bool {
        filter == wanted || matches!(filter, Filter::And(parts) if parts.iter().any(|part| has(part, wanted)))
    }
    match (Filter::from_value(filter), Filter::from_value(wanted)) {
        (Ok(filter), Ok(wanted)) => has(&filter, &wanted),
        (Err(_), _) | (_, Err(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(fields: &Value) -> KeyRequest {
        let mut request = json!({"name": "app"});
        request.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(request).unwrap()
    }

    /// `expected` is in the remedy; empty where `key` is within `own`.
    fn check(own: &Value, key: &Value, expected: &str) {
        let defaults = KeyLimitsRequest { tokens_per_minute: Some(50), ..KeyLimitsRequest::default() };
        let checked = check_within(&request(own), &request(key), &defaults);
        let seen = checked.map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(seen.is_empty(), expected.is_empty(), "{own} {key}: {seen}");
        assert!(seen.contains(expected), "{own} {key}: {seen}");
    }

    #[test]
    fn a_key_is_at_least_as_restricted_in_every_field() {
        let own = json!({
            "scopes": ["admin"], "collections": ["a", "b*"], "models": ["m"], "filter": {"tenant": 7}, "expires_at": 100,
            "limits": {"requests_per_minute": 10, "concurrent_requests": 2, "budget_per_day": 0, "budget_per_month": 1.5},
            "model_limits": {"gpt-*": {"budget_per_day": 1}, "m": {"tokens_per_minute": 5}},
        });
        let with = |changes: Value| {
            let mut key = own.clone();
            key.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            key
        };
        check(&own, &own, "");
        check(&json!({}), &json!({"limits": {"tokens_per_minute": 1000}}), "");
        for (changes, expected) in [
            (json!({"scopes": ["chat"], "name": "b"}), ""),
            (json!({"collections": ["b1"]}), ""),
            (json!({"collections": ["c"]}), "`collections`"),
            (json!({"collections": null}), "`collections`"),
            (json!({"models": null}), "`models`"),
            (json!({"filter": null}), "filter must include yours"),
            (json!({"filter": {"tenant": 8}}), "filter must include yours"),
            (json!({"filter": {"or": [{"tenant": 7}, {"a": 1}]}}), "filter must include yours"),
            (json!({"filter": {"and": [{"year": 1}, {"tenant": 7}]}}), ""),
            (json!({"expires_at": 99}), ""),
            (json!({"expires_at": 100.5}), "`expires_at` of at most 100,"),
            (json!({"expires_at": null}), "`expires_at` of at most 100,"),
            (json!({"limits": null}), "`limits.requests_per_minute` of at most 10,"),
            (json!({"model_limits": null}), "`model_limits.gpt-*.budget_per_day` of at most 1,"),
        ] {
            check(&own, &with(changes), expected);
        }
        for (field, above, within) in [
            ("requests_per_minute", json!(11), json!(9)),
            ("tokens_per_minute", json!(51), json!(50)),
            ("concurrent_requests", json!(3), json!(1)),
            ("budget_per_day", json!(0.01), json!(0)),
            ("budget_per_month", json!(2), json!(0)),
        ] {
            let limited = |limit: Value| {
                let mut limits = own["limits"].clone();
                limits[field] = limit;
                with(json!({"limits": limits}))
            };
            check(&own, &limited(above), &format!("`limits.{field}`"));
            check(&own, &limited(within), "");
            let is_default = field == "tokens_per_minute";
            check(&own, &limited(Value::Null), if is_default { "" } else { field });
        }
    }

    #[test]
    fn limits_of_models_do_not_leave_those_of_the_administrator() {
        let own = json!({"model_limits": {"gpt-*": {"budget_per_day": 1}}});
        let check = |limits: Value, expected: &str| check(&own, &json!({"model_limits": limits}), expected);
        check(json!({"gpt-*": {"budget_per_day": 1, "requests_per_minute": 1}, "claude": {}}), "");
        check(json!({"gpt-*": {"budget_per_day": 0.5}, "*": {}}), "");
        check(json!({"gpt-*": {"budget_per_day": 2}}), "at most 1");
        check(json!({"gpt-*": {}}), "at most 1");
        check(json!({"*": {"budget_per_day": 1}}), "`model_limits.gpt-*.budget_per_day`");
        for taken_out in ["gpt-4o", "gpt-4*"] {
            let limits = json!({"gpt-*": {"budget_per_day": 1}, taken_out: {"budget_per_day": 1}});
            check(limits, &format!("leave `model_limits.{taken_out}` out"));
        }
    }
}
