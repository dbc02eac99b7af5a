//! Schemas as OpenAI takes them with `strict`.

use crate::Value;
use crate::references::SCHEMAS;

/// Keys that OpenAI takes with `strict`, besides `format`.
const STRICT_KEYS: [&str; 22] = [
    "type",
    "title",
    "description",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "$defs",
    "definitions",
    "$schema",
    "pattern",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
];
/// Formats that it takes so.
const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Adds `additionalProperties: false` to every schema with properties: Anthropic requires it of the format of a reply, OpenAI with `strict`.
pub fn close_objects(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    if map.get("properties").is_some_and(Value::is_object) && !map.contains_key("additionalProperties") {
        map.insert("additionalProperties", false);
    }
    for key in ["properties", "$defs", "definitions"] {
        if let Some(Value::Object(children)) = map.get_mut(key) {
            children.values_mut().for_each(close_objects);
        }
    }
    for key in SCHEMAS {
        match map.get_mut(key) {
            Some(Value::Array(list)) => list.iter_mut().for_each(close_objects),
            Some(child) => close_objects(child),
            None => {}
        }
    }
}

/// Whether OpenAI takes a schema with `strict`: it is an object, objects are closed, all their properties are required, every value has a type, and
/// nothing is said in other keys and formats than it knows, or beside a reference, by its page on structured outputs.
pub fn is_strict(schema: &Value) -> bool {
    schema["type"] == "object" && schema["anyOf"].is_null() && is_strict_part(schema)
}

fn is_strict_part(schema: &Value) -> bool {
    let Some(map) = schema.as_object() else { return false };
    if map.contains_key("$ref") {
        return map.iter().all(|(key, _)| key == "$ref" || matches!(key, "$defs" | "definitions"));
    }
    let has_type = map.contains_key("type") || map.contains_key("anyOf");
    let has_items = map.get("type").is_none_or(|kind| *kind != "array") || map.contains_key("items");
    if !has_type || !has_items {
        return false;
    }
    let is_known = |(key, value): (&str, &Value)| match key {
        "format" => FORMATS.iter().any(|format| *value == *format),
        _ => STRICT_KEYS.contains(&key),
    };
    if !map.iter().all(is_known) {
        return false;
    }
    let is_complete = match (map.get("type").is_some_and(|kind| *kind == "object"), map.get("properties")) {
        (false, _) => true,
        (true, Some(Value::Object(properties))) => {
            let required = schema["required"].as_array().unwrap_or_default();
            let is_required = |name: &str| required.iter().any(|other| *other == *name);
            schema["additionalProperties"] == false
                && required.len() == properties.len()
                && properties.keys().all(is_required)
        }
        (true, _) => false,
    };
    let are_strict = |child: &Value| match child {
        Value::Object(children) => children.iter().all(|(_, child)| is_strict_part(child)),
        _ => true,
    };
    is_complete
        && ["properties", "$defs", "definitions"].iter().all(|key| are_strict(&schema[*key]))
        && SCHEMAS.iter().all(|key| match &schema[*key] {
            Value::Array(list) => list.iter().all(is_strict_part),
            Value::Object(_) => is_strict_part(&schema[*key]),
            _ => true,
        })
}
