//! Schemas without references, and by the types of their values.

use crate::{Map, SchemaError, Value};

/// Schemas inside of one schema after its references are replaced.
const NODES_MAX: usize = 10_000;
/// The same for a schema that is recursive, as long as it can be made smaller.
const RECURSIVE_NODES_MAX: usize = 2_000;
/// References within each other that a recursive schema is tried with when it is too large with all of them.
const REFERENCES_MAX: usize = 8;
/// How deep schemas are nested after their references are replaced.
const DEPTH_MAX: usize = 48;
/// Keys whose values are objects of schemas.
const OBJECTS_OF_SCHEMAS: [&str; 3] = ["properties", "patternProperties", "dependentSchemas"];
/// Keys whose values are schemas or lists of them.
pub(crate) const SCHEMAS: [&str; 11] = [
    "items",
    "prefixItems",
    "additionalProperties",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "anyOf",
    "oneOf",
    "allOf",
];
/// Keys whose values are lists of schemas for the same value.
pub(crate) const ALTERNATIVES: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Types of values.
const KINDS: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
/// Formats of numbers, by OpenAPI. All others are of strings.
const NUMBER_FORMATS: [&str; 4] = ["int32", "int64", "float", "double"];

/// The schema with what its references mean in their places. A reference back to a schema that it is part of, of which there would be no end, is
/// replaced by the type of that schema. Of schemas that refer to each other in many ways, references deep inside are replaced so too.
///
/// # Errors
/// [`SchemaError`] when the schema is too large, or a reference leads nowhere.
pub(crate) fn inlined(schema: &Value, field: &str) -> Result<Value, SchemaError> {
    let mut references_max = usize::MAX;
    loop {
        let mut inliner = Inliner {
            root: schema,
            field,
            nodes: 0,
            open: vec!["#"],
            references_max,
            is_recursive: false,
            is_too_large: false,
        };
        let inlined = inliner.schema(schema, 0);
        if !inliner.is_too_large || !inliner.can_be_smaller() {
            return inlined;
        }
        references_max = references_max.min(REFERENCES_MAX) - 1;
    }
}

struct Inliner<'a> {
    root: &'a Value,
    field: &'a str,
    nodes: usize,
    /// The references whose targets are being read.
    open: Vec<&'a str>,
    references_max: usize,
    is_recursive: bool,
    is_too_large: bool,
}

impl<'a> Inliner<'a> {
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<Value, SchemaError> {
        self.nodes += 1;
        let nodes_max = if self.can_be_smaller() { RECURSIVE_NODES_MAX } else { NODES_MAX };
        if self.nodes > nodes_max || depth > DEPTH_MAX {
            self.is_too_large = true;
            let reason = format!(
                "has more than {NODES_MAX} schemas, or more than {DEPTH_MAX} within each other, after `$ref`s are replaced; simplify it"
            );
            return Err(SchemaError::new(self.field, reason));
        }
        let Value::Object(map) = schema else { return Ok(schema.clone()) };
        let mut out = match map.get("$ref") {
            Some(reference) => self.reference(reference, depth)?,
            None => Map::new(),
        };
        for (key, value) in map.iter() {
            let value = match value {
                _ if ["$ref", "$defs", "definitions"].contains(&key) => continue,
                Value::Object(children) if OBJECTS_OF_SCHEMAS.contains(&key) => {
                    let mut inlined = Map::new();
                    for (name, child) in children.iter() {
                        inlined.insert(name, self.schema(child, depth + 1)?);
                    }
                    inlined.into()
                }
                Value::Object(_) if SCHEMAS.contains(&key) => self.schema(value, depth + 1)?,
                Value::Array(list) if SCHEMAS.contains(&key) => {
                    let list: Result<Vec<Value>, SchemaError> =
                        list.iter().map(|child| self.schema(child, depth + 1)).collect();
                    list?.into()
                }
                value => value.clone(),
            };
            out.insert(key, value);
        }
        Ok(out.into())
    }

    /// Whether fewer references within each other may do.
    fn can_be_smaller(&self) -> bool {
        self.is_recursive && self.references_max > 1
    }

    fn reference(&mut self, reference: &'a Value, depth: usize) -> Result<Map, SchemaError> {
        let name = reference.as_str().unwrap_or_default();
        let root = self.root;
        let pointer = name.strip_prefix('#');
        let target =
            pointer.and_then(|pointer| root.pointer(pointer).or_else(|| root.pointer(&unquoted(pointer))));
        let Some(target) = target else {
            let reason = format!("has the reference {reference}, which leads nowhere; define it");
            return Err(SchemaError::new(self.field, reason));
        };
        self.is_recursive |= self.open.contains(&name);
        if self.open.contains(&name) || self.open.len() > self.references_max {
            return Ok(stub(target));
        }
        self.open.push(name);
        let schema = self.schema(target, depth + 1);
        self.open.pop();
        Ok(schema?.as_object().cloned().unwrap_or_default())
    }
}

/// A pointer in a URL without its percent signs.
fn unquoted(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits =
            after.get(..2).filter(|_| first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The substitute for a schema within itself.
fn stub(target: &Value) -> Map {
    let is_plain = |member: &&Value| {
        ["string", "number", "integer", "boolean", "null"].iter().any(|kind| member["type"] == *kind)
    };
    let plain = |key: &str| -> Option<Vec<Value>> {
        let members: Vec<Value> = target[key].as_array()?.iter().filter(is_plain).cloned().collect();
        (!members.is_empty()).then_some(members)
    };
    let mut out = Map::new();
    match plain("anyOf").or_else(|| plain("oneOf")) {
        Some(members) => out.insert("anyOf", members),
        None => out.insert("type", target["type"].as_str().unwrap_or("object")),
    }
    for key in ["title", "description"] {
        if let Some(text) = target[key].as_str() {
            out.insert(key, text);
        }
    }
    out
}

/// A schema with a list of types as one schema for each, with the values of that type and the keys that are about it. A type without values is
/// left out.
///
/// It is one schema without a type when no type has values, or when the schema has alternatives beside its types, which say more: repeated for
/// each type they would double at every level of schemas within each other.
pub(crate) fn by_kind(schema: &Map, kinds: &[Value]) -> Vec<Map> {
    let mut known: Vec<&Value> = Vec::with_capacity(KINDS.len());
    for kind in kinds {
        if KINDS.iter().any(|name| *kind == *name) && !known.contains(&kind) {
            known.push(kind);
        }
    }
    let members: Vec<Map> = known.into_iter().filter_map(|kind| of_kind(schema, kind)).collect();
    let are_repeated = members.iter().filter(|member| !is_null(member)).count() > 1
        && ALTERNATIVES.iter().any(|key| schema.contains_key(key));
    if members.is_empty() || are_repeated {
        let mut rest = schema.clone();
        rest.remove("type");
        return vec![rest];
    }
    members
}

/// Whether a schema is that of null.
pub(crate) fn is_null(schema: &Map) -> bool {
    schema.get("type").is_some_and(|kind| *kind == "null")
}

/// The part of a schema about values of one type. `None` when its values are of other types.
fn of_kind(schema: &Map, kind: &Value) -> Option<Map> {
    let mut out = Map::new();
    for (key, value) in schema.iter() {
        match (key, value) {
            ("type", _) => out.insert(key, kind.clone()),
            ("enum", Value::Array(values)) => {
                let own = values.iter().filter(|value| is_of_kind(value, kind));
                let own: Vec<Value> = own.cloned().collect();
                if own.is_empty() {
                    return None;
                }
                out.insert(key, own);
            }
            ("const", value) if !is_of_kind(value, kind) => return None,
            (key, value) if is_about(key, value, kind) => out.insert(key, value.clone()),
            _ => {}
        }
    }
    Some(out)
}

/// Whether a value is of a type. Whole numbers are of two.
fn is_of_kind(value: &Value, kind: &Value) -> bool {
    let is_whole = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    match value {
        Value::Null => *kind == "null",
        Value::Bool(_) => *kind == "boolean",
        Value::Number(_) => *kind == "number" || *kind == "integer" && is_whole(),
        Value::String(_) => *kind == "string",
        Value::Array(_) => *kind == "array",
        Value::Object(_) => *kind == "object",
    }
}

/// Whether a key with this value is about values of a type.
fn is_about(key: &str, value: &Value, kind: &Value) -> bool {
    let kinds: &[&str] = match key {
        "format" if NUMBER_FORMATS.iter().any(|format| *value == *format) => &["number", "integer"],
        "format" | "pattern" | "minLength" | "maxLength" | "contentEncoding" | "contentMediaType" => {
            &["string"]
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
            &["number", "integer"]
        }
        "items" | "prefixItems" | "contains" | "minItems" | "maxItems" | "uniqueItems" => &["array"],
        "properties"
        | "required"
        | "additionalProperties"
        | "patternProperties"
        | "propertyNames"
        | "minProperties"
        | "maxProperties"
        | "dependentSchemas"
        | "dependentRequired" => &["object"],
        _ => return true,
    };
    kinds.iter().any(|name| *kind == *name)
}
