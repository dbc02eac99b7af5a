//! JSON schemas as Gemini's `Schema`, a subset of OpenAPI 3.0's.

use crate::references::{by_kind, inlined, is_null};
use crate::{Map, SchemaError, Value, object};

/// Keys with the same meaning in both.
const SAME_KEYS: [&str; 13] = [
    "title",
    "description",
    "default",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minProperties",
    "maxProperties",
    "pattern",
    "minimum",
    "maximum",
    "nullable",
];
/// Keys that are said once of all types of a list.
const COMMON_KEYS: [&str; 4] = ["title", "description", "default", "nullable"];
/// The formats that Gemini accepts. It refuses a request with another one.
const FORMATS: [&str; 7] = ["date-time", "enum", "float", "double", "int32", "int64", "time"];

/// Translates a schema. Keys that Gemini doesn't know are dropped; references are replaced by what they mean, and recursion is cut.
///
/// # Errors
/// [`SchemaError`] when the schema is too large, or a reference leads nowhere.
pub fn for_gemini(schema: &Value, field: &str) -> Result<Value, SchemaError> {
    Ok(translated(&inlined(schema, field)?, false).into())
}

/// A schema, or a member of `allOf`, which may be a part of one.
fn translated(schema: &Value, is_part: bool) -> Map {
    let mut out = Map::new();
    // `true` and `{}` allow everything
    let Value::Object(schema) = schema else { return out };
    let of_list = match schema.get("type") {
        Some(Value::Array(kinds)) => Some(with_one_type(schema, kinds)),
        _ => None,
    };
    let schema = of_list.as_ref().unwrap_or(schema);
    if let Some(Value::Array(members)) = schema.get("allOf") {
        for member in members {
            merge(translated(member, true), &mut out);
        }
    }
    if let Some(kind) = schema.get("type").and_then(Value::as_str) {
        out.insert("type", kind.to_uppercase());
    }
    if schema.get("items").is_some_and(Value::is_object) {
        out.or_insert("type", "ARRAY");
    }
    for key in SAME_KEYS {
        if let Some(value) = schema.get(key) {
            out.insert(key, value.clone());
        }
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(Value::Array(members)) = schema.get(key) {
            any_of(members, &mut out);
        }
    }
    set_values(schema, &mut out);
    set_children(schema, is_part, &mut out);
    set_missing_type(&mut out, is_part);
    out
}

/// A schema whose `type` is a list, as JSON schema has it: with a single type, or with an alternative for each. Null makes it nullable.
fn with_one_type(schema: &Map, kinds: &[Value]) -> Map {
    let mut members = by_kind(schema, kinds);
    if members.len() > 1 {
        members.retain(|member| !is_null(member));
    }
    let mut out = match members.len() {
        1 => members.remove(0),
        _ => {
            let mut out = Map::new();
            for key in COMMON_KEYS {
                members.iter_mut().for_each(|member| drop(member.remove(key)));
                if let Some(value) = schema.get(key) {
                    out.insert(key, value.clone());
                }
            }
            out.insert("anyOf", members.into_iter().map(Value::Object).collect::<Vec<_>>());
            out
        }
    };
    if kinds.iter().any(|kind| *kind == "null") {
        out.insert("nullable", true);
    }
    out
}

/// Alternatives. One of null makes the others nullable; a single one is not an alternative.
fn any_of(members: &[Value], out: &mut Map) {
    let mut alternatives = Vec::with_capacity(members.len());
    for member in members {
        match member["type"] == "null" {
            true => out.insert("nullable", true),
            false => alternatives.push(translated(member, false)),
        }
    }
    // An alternative that allows everything says nothing, such as a rule on what is required.
    if alternatives.iter().any(Map::is_empty) {
        return;
    }
    match alternatives.len() {
        0 => {}
        // The schema's own keys count more.
        1 => {
            let own = std::mem::replace(out, alternatives.remove(0));
            merge(own, out);
        }
        _ => out.insert("anyOf", alternatives.into_iter().map(Value::Object).collect::<Vec<_>>()),
    }
}

/// `enum` and `const`, which Gemini has for strings alone, and `format`.
fn set_values(schema: &Map, out: &mut Map) {
    let single = schema.get("const").map(std::slice::from_ref);
    if let Some(values) = schema.get("enum").and_then(Value::as_array).or(single) {
        let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
        if texts.len() == values.iter().filter(|value| !value.is_null()).count() && !texts.is_empty() {
            // Gemini refuses empty ones.
            let texts = texts.into_iter().filter(|text| !text.is_empty()).map(Value::from);
            let texts: Vec<Value> = texts.collect();
            if !texts.is_empty() {
                out.insert("enum", texts);
            }
            out.or_insert("type", "STRING");
        } else {
            describe_values(values, out);
        }
    }
    if let Some(format) = schema.get("format").filter(|format| FORMATS.iter().any(|name| **format == *name)) {
        out.insert("format", format.clone());
    }
}

/// Values that are no texts become a part of the description, and give the type.
fn describe_values(values: &[Value], out: &mut Map) {
    let is_whole = |value: &Value| value.as_f64().is_some_and(|number| number.fract() == 0.0);
    let kind = match values.iter().find(|value| !value.is_null()) {
        Some(Value::Number(_)) if values.iter().all(is_whole) => "INTEGER",
        Some(Value::Number(_)) => "NUMBER",
        Some(Value::Bool(_)) => "BOOLEAN",
        _ => return,
    };
    out.or_insert("type", kind);
    let rule = format!("One of {}", Value::from(values.to_vec()));
    let description = match out.get("description").and_then(Value::as_str) {
        Some(text) => format!("{text}\n\n{rule}"),
        None => rule,
    };
    out.insert("description", description);
}

fn set_children(schema: &Map, is_part: bool, out: &mut Map) {
    let properties = schema.get("properties").and_then(Value::as_object);
    // Gemini refuses an empty object of them.
    if let Some(properties) = properties.filter(|properties| !properties.is_empty()) {
        let properties =
            properties.iter().map(|(name, property)| (name.to_owned(), translated(property, false).into()));
        let properties: Map = properties.collect();
        merge([("properties".to_owned(), properties.into())].into_iter().collect(), out);
    }
    if let Some(Value::Array(names)) = schema.get("required") {
        merge([("required".to_owned(), names.clone().into())].into_iter().collect(), out);
    }
    keep_known_required(out, is_part);
    set_order(out);
    if out.get("type").is_some_and(|kind| *kind == "ARRAY") {
        // Gemini requires the schema of a list's items.
        let items = match (schema.get("items"), schema.get("prefixItems")) {
            (Some(items @ Value::Object(_)), _) => translated(items, false),
            // a tuple
            (Some(Value::Array(members)), _) | (_, Some(Value::Array(members))) => {
                let mut items = Map::new();
                any_of(members, &mut items);
                items
            }
            _ => Map::new(),
        };
        // A part or the only alternative of the schema may have them.
        match items.is_empty() {
            false => out.insert("items", items),
            true if is_part => {}
            true => {
                out.or_insert("items", object! {"type": "STRING"});
            }
        }
    }
}

/// Gemini refuses schemas of properties or items without a type.
fn set_missing_type(out: &mut Map, is_part: bool) {
    if !is_part && out.contains_key("properties") {
        out.or_insert("type", "OBJECT");
    }
}

/// Gemini writes properties in an order of its own unless it is given one.
fn set_order(out: &mut Map) {
    let Some(Value::Object(properties)) = out.get("properties") else { return };
    if properties.len() > 1 {
        let names: Vec<Value> = properties.keys().map(Value::from).collect();
        out.insert("propertyOrdering", names);
    }
}

/// Gemini refuses required properties that are not described. A member of `allOf` may describe them elsewhere.
fn keep_known_required(out: &mut Map, is_part: bool) {
    let none = Map::new();
    let known = match out.get("properties") {
        Some(Value::Object(properties)) => properties,
        _ if is_part => return,
        _ => &none,
    };
    let Some(Value::Array(required)) = out.get("required") else { return };
    let is_known = |name: &&Value| name.as_str().is_some_and(|name| known.contains_key(name));
    let required: Vec<Value> = required.iter().filter(is_known).cloned().collect();
    match required.is_empty() {
        true => drop(out.remove("required")),
        false => out.insert("required", required),
    }
}

/// Adds the keys of `from`: properties and required names to those of `into`, others in their place.
fn merge(from: Map, into: &mut Map) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(new)) if key == "properties" => {
                new.into_iter().for_each(|(name, property)| known.insert(&name, property));
            }
            (Some(Value::Array(known)), Value::Array(new)) if key == "required" => {
                let new: Vec<Value> = new.into_iter().filter(|name| !known.contains(name)).collect();
                known.extend(new);
            }
            (_, value) => into.insert(&key, value),
        }
    }
}
