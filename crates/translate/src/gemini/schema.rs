//! JSON schemas as Gemini's `Schema`, a subset of OpenAPI 3.0's.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::{TranslateError, refuse};

/// Schemas inside of one schema after its references are replaced.
const NODES_MAX: usize = 10_000;
/// How deep schemas are nested. A recursive schema is cut here: Gemini has no recursion.
const DEPTH_MAX: usize = 16;
/// Keys with the same meaning in both.
const SAME_KEYS: [&str; 12] = [
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
];
/// The formats that Gemini accepts. It refuses a request with another one.
const FORMATS: [&str; 7] = ["date-time", "enum", "float", "double", "int32", "int64", "time"];

/// Translates a schema. Keys that Gemini doesn't know are dropped; references are replaced by what they mean.
///
/// # Errors
/// [`TranslateError::Request`] when the schema is too large, or a reference leads nowhere.
pub(super) fn translate(schema: &Value, field: &str) -> Result<Value, TranslateError> {
    let mut translation = Translation { root: schema, field, nodes: 0 };
    Ok(translation.schema(schema, 0)?.into())
}

struct Translation<'a> {
    root: &'a Value,
    field: &'a str,
    nodes: usize,
}

impl<'a> Translation<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<Map<String, Value>, TranslateError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let reason = format!("has more than {NODES_MAX} schemas after `$ref`s are replaced; simplify it");
            return Err(refuse(self.field, reason));
        }
        let mut out = Map::new();
        // `true` and `{}` allow everything
        let Value::Object(schema) = schema else { return Ok(out) };
        if depth > DEPTH_MAX {
            out.insert("type".to_owned(), "OBJECT".into());
            return Ok(out);
        }
        if let Some(reference) = schema.get("$ref") {
            out = self.reference(reference, depth)?;
        }
        if let Some(Value::Array(members)) = schema.get("allOf") {
            for member in members {
                merge(self.schema(member, depth + 1)?, &mut out);
            }
        }
        for key in SAME_KEYS {
            if let Some(value) = schema.get(key) {
                out.insert(key.to_owned(), value.clone());
            }
        }
        self.set_type(schema, &mut out);
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(members)) = schema.get(key) {
                self.any_of(members, depth, &mut out)?;
            }
        }
        self.set_values(schema, &mut out);
        self.set_children(schema, depth, &mut out)?;
        Ok(out)
    }

    fn reference(&mut self, reference: &Value, depth: usize) -> Result<Map<String, Value>, TranslateError> {
        let root = self.root;
        let target =
            reference.as_str().and_then(|text| text.strip_prefix('#')).and_then(|at| root.pointer(at));
        match target {
            Some(target) => self.schema(target, depth + 1),
            None => Err(refuse(
                self.field,
                format!("has the reference {reference}, which leads nowhere; define it"),
            )),
        }
    }

    /// `type`, which may be a list in JSON schema.
    fn set_type(&self, schema: &Map<String, Value>, out: &mut Map<String, Value>) {
        match schema.get("type") {
            Some(Value::String(kind)) => {
                out.insert("type".to_owned(), kind.to_uppercase().into());
            }
            Some(Value::Array(kinds)) => {
                let names: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
                if names.contains(&"null") {
                    out.insert("nullable".to_owned(), true.into());
                }
                let names: Vec<&str> = names.into_iter().filter(|&name| name != "null").collect();
                match names.as_slice() {
                    [] => {}
                    [name] => {
                        out.insert("type".to_owned(), name.to_uppercase().into());
                    }
                    names => {
                        let members = names.iter().map(|name| json!({"type": name.to_uppercase()}));
                        out.insert("anyOf".to_owned(), members.collect());
                    }
                }
            }
            _ => {}
        }
    }

    /// Alternatives. One of null makes the others nullable; a single one is not an alternative.
    fn any_of(
        &mut self,
        members: &'a [Value],
        depth: usize,
        out: &mut Map<String, Value>,
    ) -> Result<(), TranslateError> {
        let mut translated = Vec::with_capacity(members.len());
        for member in members {
            match member["type"] == "null" {
                true => {
                    out.insert("nullable".to_owned(), true.into());
                }
                false => translated.push(self.schema(member, depth + 1)?),
            }
        }
        match translated.len() {
            0 => {}
            1 => translated.into_iter().for_each(|only| merge(only, out)),
            _ => {
                out.insert("anyOf".to_owned(), translated.into_iter().map(Value::Object).collect());
            }
        }
        Ok(())
    }

    /// `enum` and `const`, which Gemini has for strings alone, and `format`.
    fn set_values(&self, schema: &Map<String, Value>, out: &mut Map<String, Value>) {
        let single = schema.get("const").map(std::slice::from_ref);
        let values = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice).or(single);
        if let Some(values) = values {
            let texts: Vec<Value> = values.iter().filter(|value| value.is_string()).cloned().collect();
            if texts.len() == values.iter().filter(|value| !value.is_null()).count() && !texts.is_empty() {
                out.insert("enum".to_owned(), texts.into());
                out.entry("type").or_insert_with(|| "STRING".into());
            }
        }
        if let Some(format) = schema.get("format").filter(|format| FORMATS.iter().any(|name| *format == name))
        {
            out.insert("format".to_owned(), format.clone());
        }
    }

    fn set_children(
        &mut self,
        schema: &'a Map<String, Value>,
        depth: usize,
        out: &mut Map<String, Value>,
    ) -> Result<(), TranslateError> {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            let mut translated = Map::new();
            for (name, property) in properties {
                translated.insert(name.clone(), self.schema(property, depth + 1)?.into());
            }
            merge(Map::from_iter([("properties".to_owned(), Value::Object(translated))]), out);
        }
        if let Some(Value::Array(names)) = schema.get("required") {
            merge(Map::from_iter([("required".to_owned(), Value::Array(names.clone()))]), out);
        }
        self.keep_known_required(out, depth);
        if out.get("type").is_some_and(|kind| kind == "ARRAY") {
            // Gemini requires the schema of a list's items.
            let items = match schema.get("items") {
                Some(items @ Value::Object(_)) => self.schema(items, depth + 1)?,
                _ => Map::new(),
            };
            let default = || Map::from_iter([("type".to_owned(), "STRING".into())]);
            let items = if items.is_empty() { default() } else { items };
            out.insert("items".to_owned(), items.into());
        }
        Ok(())
    }

    /// Gemini refuses required properties that are not described. A member of `allOf` may describe them elsewhere.
    fn keep_known_required(&self, out: &mut Map<String, Value>, depth: usize) {
        let known = match out.get("properties") {
            Some(Value::Object(properties)) => properties,
            _ if depth > 0 => return,
            _ => &Map::new(),
        };
        let Some(Value::Array(required)) = out.get("required") else { return };
        let is_known = |name: &&Value| name.as_str().is_some_and(|name| known.contains_key(name));
        let required: Vec<Value> = required.iter().filter(is_known).cloned().collect();
        match required.is_empty() {
            true => out.remove("required"),
            false => out.insert("required".to_owned(), required.into()),
        };
    }
}

/// Adds the keys of `from`: properties and required names to those of `into`, others in their place.
fn merge(from: Map<String, Value>, into: &mut Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(new)) if key == "properties" => known.extend(new),
            (Some(Value::Array(known)), Value::Array(new)) if key == "required" => {
                let names: HashSet<String> =
                    known.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
                let is_new = |name: &Value| name.as_str().is_some_and(|name| !names.contains(name));
                let new: Vec<Value> = new.into_iter().filter(is_new).collect();
                known.extend(new);
            }
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}
