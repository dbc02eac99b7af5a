//! Schemas as Anthropic takes them for the format of a reply.

use crate::references::{SCHEMAS, by_kind, inlined, is_null};
use crate::tool_input::joined;
use crate::{Map, SchemaError, Value, object};

/// Formats of strings that Anthropic takes.
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];
/// Keys that Anthropic takes in the schema of a reply, besides those that need a look.
const SAME_KEYS: [&str; 6] = ["title", "description", "enum", "const", "default", "required"];
/// Keys that say nothing about values.
const META_KEYS: [&str; 6] = ["$schema", "$id", "$comment", "$defs", "definitions", "examples"];

/// A schema for the format of a reply of Anthropic's. Keys that its API refuses become a part of the description, which the model reads.
///
/// # Errors
/// [`SchemaError`] when the schema is too large, or a reference leads nowhere.
pub fn for_anthropic(schema: &Value, field: &str) -> Result<Value, SchemaError> {
    Ok(constrained(&inlined(schema, field)?))
}

fn constrained(schema: &Value) -> Value {
    let Value::Object(map) = schema else { return Value::Object(Map::new()) };
    if let Some(Value::Array(kinds)) = map.get("type") {
        return alternatives(map, kinds);
    }
    // objects are closed: several for one value would exclude each other
    let of_all = map.get("allOf").and_then(Value::as_array);
    let joined =
        of_all.filter(|members| members.iter().any(is_object)).map(|_| joined(map.clone(), &["allOf"]));
    let map = joined.as_ref().unwrap_or(map);
    let is_object = map.get("type").is_some_and(|kind| *kind == "object") || map.contains_key("properties");
    let mut out = Map::new();
    let mut others = Vec::new();
    for (key, value) in map.iter() {
        match (key, value) {
            ("type", _) => out.insert(key, value.clone()),
            ("properties", Value::Object(children)) => {
                let children = children.iter().map(|(name, child)| (name.to_owned(), constrained(child)));
                out.insert(key, children.collect::<Map>());
            }
            ("items", Value::Object(_)) => out.insert(key, constrained(value)),
            ("anyOf" | "oneOf" | "allOf", Value::Array(list)) if list.iter().all(has_kind) => {
                let key = if key == "allOf" { key } else { "anyOf" };
                out.insert(key, list.iter().map(constrained).collect::<Vec<_>>());
            }
            ("format", value) if FORMATS.iter().any(|format| *value == *format) => {
                out.insert(key, value.clone())
            }
            ("minItems", value) if value.as_u64().is_some_and(|items| items < 2) => {
                out.insert(key, value.clone())
            }
            ("additionalProperties", Value::Bool(_)) => {}
            _ if SAME_KEYS.contains(&key) => out.insert(key, value.clone()),
            _ if META_KEYS.contains(&key) => {}
            _ => others.push(format!("{key}: {value}")),
        }
    }
    if is_object {
        out.or_insert("type", "object");
        out.or_insert("properties", Map::new());
        out.insert("additionalProperties", false);
    }
    if !others.is_empty() {
        let rules = format!("{{{}}}", others.join(", "));
        let description = match out.get("description").and_then(Value::as_str) {
            Some(text) => format!("{text}\n\n{rules}"),
            None => rules,
        };
        out.insert("description", description);
    }
    out.into()
}

fn is_object(schema: &Value) -> bool {
    schema["type"] == "object" || schema["properties"].is_object()
}

/// Whether a schema has objects of any keys, which the format of a reply of Anthropic's can't have. References are to be replaced before.
pub fn has_open_objects(schema: &Value) -> bool {
    let Value::Object(map) = schema else { return false };
    let has_properties = map.get("properties").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    let takes_others = match map.get("additionalProperties") {
        Some(Value::Bool(takes)) => *takes && !has_properties,
        Some(Value::Object(_)) => true,
        _ => false,
    };
    takes_others
        || map.contains_key("patternProperties")
        || map.iter().any(|(key, value)| match (key, value) {
            ("properties", Value::Object(children)) => {
                children.iter().any(|(_, child)| has_open_objects(child))
            }
            (key, Value::Array(list)) if SCHEMAS.contains(&key) => list.iter().any(has_open_objects),
            (key, child) => SCHEMAS.contains(&key) && has_open_objects(child),
        })
}

/// Whether a schema says which kind of values it has, as Anthropic wants of each alternative.
fn has_kind(schema: &Value) -> bool {
    let keys = ["type", "properties", "enum", "const", "anyOf", "oneOf", "allOf"];
    keys.iter().any(|key| !schema[*key].is_null())
}

/// One schema for each of several types.
fn alternatives(map: &Map, kinds: &[Value]) -> Value {
    let member = |member: Map| match is_null(&member) {
        true => object! {"type": "null"},
        false => constrained(&member.into()),
    };
    let mut members: Vec<Value> = by_kind(map, kinds).into_iter().map(member).collect();
    match members.len() {
        1 => members.remove(0),
        _ => object! {"anyOf": members},
    }
}
