//! `/v1/keys` and `GET /v1/audit`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{ErrorCode, Invalid, Result, check_collection_name};

/// Most characters of a key's name.
const NAME_CHARS_MAX: usize = 256;
/// Most collections, or models, that one key names.
const NAMES_MAX: usize = 1_000;
/// Highest limit per minute.
const LIMIT_MAX: u64 = 1_000_000_000_000;
/// Highest budget, in units of the currency.
const BUDGET_MAX: f64 = 1e9;
/// Longest time for which the text before a rotation stays valid: thirty days.
const GRACE_SECONDS_MAX: f64 = 30.0 * 86_400.0;

/// A permission of a key. No scope includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    /// Search; read collections, documents, jobs and feedback; give feedback.
    Search,
    /// Store and delete documents.
    Ingest,
    /// Compute embeddings.
    Embed,
    /// Rerank and classify texts.
    Rerank,
    /// Chat.
    Chat,
    /// Create and delete collections; manage keys; read the metrics.
    Admin,
    /// Read the metrics, and nothing else.
    Metrics,
}

/// A key to create.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// A name for people, such as the application that uses the key.
    pub name: String,
    /// The scopes of the key; default: all but `admin` and `metrics`.
    pub scopes: Option<Vec<KeyScope>>,
    /// The collections that exist for the key, `*` at the end of a name for anything; default: all.
    pub collections: Option<Vec<String>>,
    /// The models that exist for the key, by id, `*` at the end of a name for anything; default: all.
    pub models: Option<Vec<String>>,
    /// The mandatory filter: documents that do not pass it do not exist for the key, and it cannot store such.
    pub filter: Option<Value>,
    /// Time in unix seconds at which the key expires; default: never.
    pub expires_at: Option<f64>,
    /// How much the key may use; default: without limit.
    pub limits: Option<KeyLimitsRequest>,
    /// How much of it may go to one model, by the name that callers send; `*` at the end of a name stands for anything. The longest name that fits counts.
    pub model_limits: Option<BTreeMap<String, KeyLimitsRequest>>,
}

/// How much a key may use; null: without limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "KeyLimits")]
#[serde(deny_unknown_fields)]
pub struct KeyLimitsRequest {
    /// Requests per minute, evenly and up to a minute's number at once.
    pub requests_per_minute: Option<u64>,
    /// Tokens per minute: of texts to embed and to rerank, of prompts and completions.
    pub tokens_per_minute: Option<u64>,
    /// Requests at one time.
    pub concurrent_requests: Option<u64>,
    /// Maximum cost of requests per day (UTC), in the currency of the price table.
    pub budget_per_day: Option<f64>,
    /// Maximum cost of requests per month (UTC).
    pub budget_per_month: Option<f64>,
}

/// Changes of a key: fields of [`KeyRequest`]. What is left out stays; null takes a restriction away. `limits` and `model_limits` are merged by
/// the same rule, each other value is replaced (a JSON merge patch, RFC 7396, but for the filter).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyUpdate(pub Map<String, Value>);

/// A key, without its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ApiKey")]
pub struct KeyReply {
    /// The number of the key.
    pub id: i64,
    /// The name for people.
    pub name: String,
    /// The first characters of the key.
    pub prefix: String,
    /// The scopes of the key.
    pub scopes: Vec<KeyScope>,
    /// The collections that exist for the key; null for all.
    pub collections: Option<Vec<String>>,
    /// The models that exist for the key; null for all.
    pub models: Option<Vec<String>>,
    /// The mandatory filter.
    pub filter: Option<Value>,
    /// How much the key may use.
    pub limits: KeyLimitsRequest,
    /// How much of it may go to one model, by name.
    pub model_limits: BTreeMap<String, KeyLimitsRequest>,
    /// Spending within the budgets in `limits`, or in the configuration's defaults; null without a budget.
    pub spent: Option<KeySpending>,
    /// Spending within the budgets in `model_limits`, by name.
    #[serde(default)]
    pub model_spent: BTreeMap<String, KeySpending>,
    /// Time of creation, in unix seconds.
    pub created_at: f64,
    /// When the key expires, in unix seconds; null: never.
    pub expires_at: Option<f64>,
    /// When the key was revoked, in unix seconds.
    pub revoked_at: Option<f64>,
    /// Until when the text before the last rotation is valid, in unix seconds.
    pub previous_until: Option<f64>,
}

/// Cost of requests with a key since the key has a budget, in the currency of the price table.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KeySpending {
    /// On this day (UTC).
    pub day: f64,
    /// In this month (UTC).
    pub month: f64,
}

/// A new key, or a rotated one, with its text, which is shown only here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NewApiKey")]
pub struct NewKeyReply {
    /// The text of the key.
    pub key: String,
    /// The rest.
    #[serde(flatten)]
    pub reply: KeyReply,
}

/// An entry of the audit log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AuditEntry")]
pub struct AuditReply {
    /// Its number, increasing in time.
    pub number: u64,
    /// When it was done, in unix seconds.
    pub at: f64,
    /// The id of the key by which it was done; null without keys and on the command line.
    pub key: Option<i64>,
    /// The action, such as `key.create` or `collection.delete`.
    pub action: String,
    /// To what: the id of a key, the name of a collection.
    pub subject: String,
    /// The fields of the request of `key.create` and `key.update`.
    pub changes: Option<Value>,
}

impl KeyRequest {
    /// A key without a name that restricts nothing.
    pub fn unrestricted() -> KeyRequest {
        KeyRequest {
            name: String::new(),
            scopes: None,
            collections: None,
            models: None,
            filter: None,
            expires_at: None,
            limits: None,
            model_limits: None,
        }
    }

    /// The scopes, in order and each once.
    pub fn scopes(&self) -> Vec<KeyScope> {
        use KeyScope::{Chat, Embed, Ingest, Rerank, Search};
        let mut scopes = self.scopes.clone().unwrap_or_else(|| vec![Search, Ingest, Embed, Rerank, Chat]);
        scopes.sort_unstable();
        scopes.dedup();
        scopes
    }

    /// Validates the request by itself, except for the filter.
    ///
    /// # Errors
    /// `invalid_parameter` with the field.
    pub fn check(&self, now: f64) -> Result<()> {
        let wrong =
            |field: &str, message: String| Invalid::at(ErrorCode::InvalidParameter, &[field], message);
        let length = self.name.chars().count();
        if self.name.trim().is_empty() || length > NAME_CHARS_MAX {
            let message = format!("`name` has {length} characters; name the key in 1 to {NAME_CHARS_MAX}");
            return Err(wrong("name", message));
        }
        if self.name.chars().any(char::is_control) {
            return Err(wrong(
                "name",
                "`name` has control characters, such as the end of a line; leave them out".to_owned(),
            ));
        }
        if self.scopes().is_empty() {
            return Err(wrong("scopes", "`scopes` is empty; a key needs at least one".to_owned()));
        }
        for (field, names) in [("collections", &self.collections), ("models", &self.models)] {
            let count = names.as_ref().map_or(0, Vec::len);
            if count > NAMES_MAX {
                return Err(wrong(
                    field,
                    format!("`{field}` has {count} names; at most {NAMES_MAX} are taken"),
                ));
            }
            if let Some(name) = names.iter().flatten().find(|name| !is_pattern(name)) {
                return Err(wrong(field, format!("`{name}` is no name; `*` may stand at the end only")));
            }
        }
        for name in self.collections.iter().flatten().map(|name| name.trim_end_matches('*')) {
            if let Some(invalid) = check_collection_name(name).err().filter(|_| !name.is_empty()) {
                return Err(wrong("collections", invalid.message));
            }
        }
        if let Some(at) = self.expires_at.filter(|at| !at.is_finite() || *at <= now) {
            let message = format!("`expires_at` is {at}, which is over; send a later time in unix seconds");
            return Err(wrong("expires_at", message));
        }
        self.limits.unwrap_or_default().check(&["limits"])?;
        let models = self.model_limits.iter().flatten();
        if models.clone().count() > NAMES_MAX {
            return Err(wrong("model_limits", format!("`model_limits` has more than {NAMES_MAX} names")));
        }
        for (model, limits) in models {
            if !is_pattern(model) {
                let message = format!("`{model}` is no name of a model; `*` may stand at the end only");
                return Err(Invalid::at(ErrorCode::InvalidParameter, &["model_limits", model], message));
            }
            limits.check(&["model_limits", model])?;
        }
        Ok(())
    }
}

/// Checks for how many seconds the text before a rotation is to stay valid.
///
/// # Errors
/// `invalid_parameter` at `grace_seconds`.
pub fn check_grace_seconds(seconds: f64) -> Result<()> {
    if (0.0..=GRACE_SECONDS_MAX).contains(&seconds) {
        return Ok(());
    }
    let message = format!("`grace_seconds` is {seconds}; send 0 to {GRACE_SECONDS_MAX}");
    Err(Invalid::at(ErrorCode::InvalidParameter, &["grace_seconds"], message))
}

impl KeyReply {
    /// The request that would create the key. Every field is named: a new one is part of the request or decided to be none.
    pub fn to_request(&self) -> KeyRequest {
        let KeyReply {
            id: _,
            name,
            prefix: _,
            scopes,
            collections,
            models,
            filter,
            limits,
            model_limits,
            spent: _,
            model_spent: _,
            created_at: _,
            expires_at,
            revoked_at: _,
            previous_until: _,
        } = self.clone();
        KeyRequest {
            name,
            scopes: Some(scopes),
            collections,
            models,
            filter,
            expires_at,
            limits: Some(limits),
            model_limits: Some(model_limits),
        }
    }
}

impl KeyUpdate {
    /// The request that would make `key` as it is with these changes.
    ///
    /// # Errors
    /// `unknown_field` and `invalid_parameter` with the field.
    pub fn apply(&self, key: &KeyReply) -> Result<KeyRequest> {
        let mut request = json!(key.to_request());
        for (field, value) in &self.0 {
            let is_merged = matches!(field.as_str(), "limits" | "model_limits");
            if is_merged { merge(&mut request[field], value) } else { request[field] = value.clone() }
        }
        crate::parse_item(&request.to_string(), "body")
    }
}

/// A JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        match target.as_object_mut() {
            Some(target) if value.is_null() => drop(target.remove(name)),
            _ => merge(&mut target[name], value),
        }
    }
}

impl JsonSchema for KeyUpdate {
    fn schema_name() -> Cow<'static, str> {
        "KeyUpdate".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = KeyRequest::json_schema(generator);
        schema.remove("required");
        let about = "Changes of a key. What is left out stays; null takes a restriction away. `limits` and `model_limits` are merged by the same rule.";
        schema.insert("description".to_owned(), about.into());
        schema
    }
}

/// Whether it is a name, or the beginning of names with `*` behind it.
fn is_pattern(name: &str) -> bool {
    let start = name.strip_suffix('*').unwrap_or(name);
    !name.is_empty() && !start.contains('*')
}

impl KeyLimitsRequest {
    /// Validates the limits of the field at `place`.
    ///
    /// # Errors
    /// `invalid_parameter` with the field.
    pub fn check(&self, place: &[&str]) -> Result<()> {
        let wrong = |field: &str, message: String| {
            let place: Vec<&str> = place.iter().copied().chain([field]).collect();
            Err(Invalid::at(ErrorCode::InvalidParameter, &place, message))
        };
        let budgets = [("budget_per_day", self.budget_per_day), ("budget_per_month", self.budget_per_month)];
        for (field, budget) in budgets {
            if let Some(budget) = budget.filter(|budget| !(0.0..=BUDGET_MAX).contains(budget)) {
                let message = format!(
                    "`{field}` is {budget}; send 0 to {BUDGET_MAX}, or leave it out for the default of `[keys]`, which is no limit unless it is set"
                );
                return wrong(field, message);
            }
        }
        let named = [
            ("requests_per_minute", self.requests_per_minute),
            ("tokens_per_minute", self.tokens_per_minute),
            ("concurrent_requests", self.concurrent_requests),
        ];
        for (field, limit) in named {
            if let Some(limit) = limit.filter(|limit| !(1..=LIMIT_MAX).contains(limit)) {
                let message = format!(
                    "`{field}` is {limit}; send 1 to {LIMIT_MAX}, or leave it out for the default of `[keys]`, which is no limit unless it is set"
                );
                return wrong(field, message);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_checked_field_by_field() {
        let check = |more: &str, expected: &str| {
            let body = format!("{{\"name\": \"app\"{more}}}");
            let read = crate::parse::<KeyRequest>(body.as_bytes()).and_then(|request| request.check(100.0));
            let seen = read.map_or_else(|invalid| invalid.param.unwrap_or_default(), |()| "fine".to_owned());
            assert_eq!(seen, expected, "{body}");
        };
        check("", "fine");
        check(r#", "scopes": ["search", "admin"], "collections": ["a"], "expires_at": 101.5"#, "fine");
        check(r#", "limits": {"requests_per_minute": 60, "tokens_per_minute": null}"#, "fine");
        check(r#", "limits": {"concurrent_requests": 0}"#, "limits.concurrent_requests");
        check(r#", "limits": {"budget_per_day": 0.5, "budget_per_month": 0}"#, "fine");
        check(r#", "limits": {"budget_per_day": -1}"#, "limits.budget_per_day");
        check(r#", "model_limits": {"gpt-*": {"requests_per_minute": 1}}"#, "fine");
        check(r#", "model_limits": {"g*t": {}}"#, "model_limits.g*t");
        check(r#", "model_limits": {"m": {"budget_per_day": -1}}"#, "model_limits.m.budget_per_day");
        check(r#", "limits": {"rpm": 1}"#, "limits.rpm");
        check(r#", "scopes": []"#, "scopes");
        check(r#", "scopes": ["everything"]"#, "scopes[0]");
        check(r#", "expires_at": 100"#, "expires_at");
        check(r#", "collection": "a""#, "collection");
        check(&format!(", \"models\": [{}\"m\"]", "\"m\",".repeat(NAMES_MAX)), "models");
        for name in ["", "*a", "a*b", "a**"] {
            check(&format!(", \"models\": [\"m*\", \"{name}\"]"), "models");
            check(&format!(", \"collections\": [\"{name}\"]"), "collections");
        }
        for (name, expected) in
            [("*", "fine"), ("a-1*", "fine"), ("a b", "collections"), ("ä*", "collections")]
        {
            check(&format!(", \"collections\": [\"{name}\"]"), expected);
        }
        for name in [" ", "a\\nb", "\\u001b[31m"] {
            let named = crate::parse::<KeyRequest>(format!("{{\"name\": \"{name}\"}}").as_bytes()).unwrap();
            assert_eq!(named.check(0.0).unwrap_err().param.as_deref(), Some("name"), "{name}");
        }
    }

    #[test]
    fn an_update_changes_what_it_names_and_takes_away_what_is_null() {
        let key: KeyReply = serde_json::from_value(json!({
            "id": 7, "name": "app", "prefix": "weir_12345678", "scopes": ["chat"], "collections": null, "models": ["a", "b"],
            "filter": {"tenant": 7}, "limits": {"requests_per_minute": 60, "budget_per_day": 5.0},
            "model_limits": {"a": {"requests_per_minute": 1, "tokens_per_minute": 2}, "b": {}},
            "created_at": 1.0, "expires_at": 100.0, "revoked_at": null, "previous_until": null
        }))
        .unwrap();
        let update = |update: Value| KeyUpdate(update.as_object().unwrap().clone()).apply(&key);
        let same = update(json!({})).unwrap();
        assert_eq!(
            (same.name.as_str(), same.scopes(), same.expires_at),
            ("app", vec![KeyScope::Chat], Some(100.0))
        );
        assert_eq!((same.limits, same.model_limits), (Some(key.limits), Some(key.model_limits.clone())));
        let changed = update(json!({
            "filter": {"year": 1}, "expires_at": null, "models": ["c"],
            "limits": {"requests_per_minute": null, "tokens_per_minute": 9},
            "model_limits": {"a": {"requests_per_minute": 3}, "b": null, "c": {"budget_per_day": 1.0}}
        }))
        .unwrap();
        assert_eq!((changed.filter, changed.expires_at), (Some(json!({"year": 1})), None));
        assert_eq!(changed.models, Some(vec!["c".to_owned()]));
        let limits =
            KeyLimitsRequest { tokens_per_minute: Some(9), budget_per_day: Some(5.0), ..Default::default() };
        assert_eq!(changed.limits, Some(limits));
        let models = changed.model_limits.unwrap();
        assert_eq!(models.keys().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!((models["a"].requests_per_minute, models["a"].tokens_per_minute), (Some(3), Some(2)));
        assert_eq!(update(json!({"limits": null})).unwrap().limits, None);
        for (wrong, place) in [
            (json!({"limit": {}}), "limit"),
            (json!({"limits": {"rpm": 1}}), "limits.rpm"),
            (json!({"name": 7}), "name"),
            (
                json!({"model_limits": {"a": {"requests_per_minute": "many"}}}),
                "model_limits.a.requests_per_minute",
            ),
        ] {
            assert_eq!(update(wrong).unwrap_err().param.as_deref(), Some(place));
        }
    }

    #[test]
    fn a_key_is_no_administrator_unless_that_is_said() {
        let request = crate::parse::<KeyRequest>(br#"{"name": "app"}"#).unwrap();
        assert_eq!(request.scopes().len(), 5);
        assert!(!request.scopes().contains(&KeyScope::Admin));
        let twice = crate::parse::<KeyRequest>(br#"{"name": "app", "scopes": ["embed", "search", "embed"]}"#);
        assert_eq!(twice.unwrap().scopes(), [KeyScope::Search, KeyScope::Embed]);
    }
}
