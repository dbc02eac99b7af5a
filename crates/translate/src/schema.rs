//! JSON schemas without references, by type, and as Anthropic takes them for the format of a reply.

use crate::value::{Map, Value, object};
use crate::{TranslateError, refuse};

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
const SCHEMAS: [&str; 11] = [
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
pub(super) const ALTERNATIVES: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Types of values.
const KINDS: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];
/// Formats of numbers, by OpenAPI. All others are of strings.
const NUMBER_FORMATS: [&str; 4] = ["int32", "int64", "float", "double"];
/// Formats of strings that Anthropic takes.
const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];
/// Keys that Anthropic takes in the schema of a reply, besides those that need a look.
const SAME_KEYS: [&str; 6] = ["title", "description", "enum", "const", "default", "required"];
/// Keys that say nothing about values.
const META_KEYS: [&str; 6] = ["$schema", "$id", "$comment", "$defs", "definitions", "examples"];

/// The schema with what its references mean in their places. A reference back to a schema that it is part of, of which there would be no end, is
/// replaced by the type of that schema. Of schemas that refer to each other in many ways, references deep inside are replaced so too.
///
/// # Errors
/// [`TranslateError::Request`] when the schema is too large, or a reference leads nowhere.
pub(super) fn inlined(schema: &Value, field: &str) -> Result<Value, TranslateError> {
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
    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<Value, TranslateError> {
        self.nodes += 1;
        let nodes_max = if self.can_be_smaller() { RECURSIVE_NODES_MAX } else { NODES_MAX };
        if self.nodes > nodes_max || depth > DEPTH_MAX {
            self.is_too_large = true;
            let reason = format!(
                "has more than {NODES_MAX} schemas, or more than {DEPTH_MAX} within each other, after `$ref`s are replaced; simplify it"
            );
            return Err(refuse(self.field, reason));
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
                    let list: Result<Vec<Value>, TranslateError> =
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

    fn reference(&mut self, reference: &'a Value, depth: usize) -> Result<Map, TranslateError> {
        let name = reference.as_str().unwrap_or_default();
        let root = self.root;
        let pointer = name.strip_prefix('#');
        let target =
            pointer.and_then(|pointer| root.pointer(pointer).or_else(|| root.pointer(&unquoted(pointer))));
        let Some(target) = target else {
            let reason = format!("has the reference {reference}, which leads nowhere; define it");
            return Err(refuse(self.field, reason));
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

/// What stands for a schema within itself.
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
pub(super) fn by_kind(schema: &Map, kinds: &[Value]) -> Vec<Map> {
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
pub(super) fn is_null(schema: &Map) -> bool {
    schema.get("type").is_some_and(|kind| *kind == "null")
}

/// What a schema says of values of one type. `None` when its values are of other types.
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

/// Adds `additionalProperties: false` to every schema with properties: Anthropic requires it of the format of a reply, OpenAI with `strict`.
pub(super) fn close_objects(schema: &mut Value) {
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

/// Whether OpenAI takes a schema with `strict`: objects are closed, and all their properties are required.
pub(super) fn is_strict(schema: &Value) -> bool {
    let Some(map) = schema.as_object() else { return true };
    let is_complete = match (map.get("type").is_some_and(|kind| *kind == "object"), map.get("properties")) {
        (false, _) => true,
        (true, Some(Value::Object(properties))) => {
            let required = schema["required"].as_array().unwrap_or_default();
            schema["additionalProperties"] == false
                && properties.keys().all(|name| required.iter().any(|other| *other == *name))
        }
        (true, _) => false,
    };
    let are_strict = |child: &Value| match child {
        Value::Object(children) => children.iter().all(|(_, child)| is_strict(child)),
        _ => true,
    };
    is_complete
        && ["properties", "$defs", "definitions"].iter().all(|key| are_strict(&schema[*key]))
        && SCHEMAS.iter().all(|key| match &schema[*key] {
            Value::Array(list) => list.iter().all(is_strict),
            child => is_strict(child),
        })
}

/// A schema for the format of a reply of Anthropic's. Keys that its API refuses become a part of the description, which the model reads.
///
/// # Errors
/// As [`inlined`].
pub(super) fn for_anthropic(schema: &Value, field: &str) -> Result<Value, TranslateError> {
    Ok(constrained(&inlined(schema, field)?))
}

fn constrained(schema: &Value) -> Value {
    let Value::Object(map) = schema else { return Value::Object(Map::new()) };
    if let Some(Value::Array(kinds)) = map.get("type") {
        return alternatives(map, kinds);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Value {
        Value::parse(json.as_bytes()).unwrap()
    }

    fn check(schema: &str, expected: &str) {
        assert_eq!(inlined(&parse(schema), "f").unwrap().to_string(), expected);
    }

    #[test]
    fn references_are_replaced_and_recursion_is_cut() {
        check(
            r##"{"$defs":{"P":{"type":"object","description":"p","properties":{"x":{"type":"number"}}}},"type":"object","properties":{"p":{"$ref":"#/$defs/P","description":"d"},"l":{"type":"array","items":{"$ref":"#/$defs/P"}}}}"##,
            r#"{"type":"object","properties":{"p":{"type":"object","description":"d","properties":{"x":{"type":"number"}}},"l":{"type":"array","items":{"type":"object","description":"p","properties":{"x":{"type":"number"}}}}}}"#,
        );
        check(
            r##"{"type":"object","properties":{"n":{"$ref":"#/$defs/N"}},"$defs":{"N":{"type":"object","title":"N","properties":{"and":{"$ref":"#/$defs/N"},"list":{"type":"array","items":{"$ref":"#/$defs/N"}},"root":{"$ref":"#"}}}}}"##,
            r#"{"type":"object","properties":{"n":{"type":"object","title":"N","properties":{"and":{"type":"object","title":"N"},"list":{"type":"array","items":{"type":"object","title":"N"}},"root":{"type":"object"}}}}}"#,
        );
        check(
            r##"{"$ref":"#/$defs/J","$defs":{"J":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/J"}}]}}}"##,
            r#"{"anyOf":[{"type":"string"},{"type":"array","items":{"anyOf":[{"type":"string"}]}}]}"#,
        );
        // eight schemas that each have all eight
        let properties = {
            let all = (0..8).map(|n| format!(r##""p{n}":{{"$ref":"#/$defs/N{n}"}}"##));
            all.collect::<Vec<_>>().join(",")
        };
        let schemas = (0..8).map(|n| format!(r#""N{n}":{{"type":"object","properties":{{{properties}}}}}"#));
        let schemas = schemas.collect::<Vec<_>>().join(",");
        let wide = format!(r##"{{"$ref":"#/$defs/N0","$defs":{{{schemas}}}}}"##);
        let size = inlined(&parse(&wide), "f").unwrap().to_string().len();
        assert!((1_000..100_000).contains(&size), "{size}");
        let nowhere = wide.replace("#/$defs/N7", "#/$defs/N8");
        assert!(inlined(&parse(&nowhere), "f").unwrap_err().to_string().contains("leads nowhere"));
        check(r##"{"$ref":"#/$defs/a%20b~1c%","$defs":{"a b/c%":{"type":"null"}}}"##, r#"{"type":"null"}"#);
        // values are no schemas
        check(
            r##"{"default":{"$ref":"#/x"},"enum":[{"$ref":"y"}]}"##,
            r##"{"default":{"$ref":"#/x"},"enum":[{"$ref":"y"}]}"##,
        );
    }

    #[test]
    fn schemas_have_limits() {
        let refuses = |schema: &str| inlined(&parse(schema), "f").unwrap_err().to_string();
        assert!(refuses(r##"{"$ref":"#/a"}"##).starts_with("`f`: has the reference \"#/a\""));
        let pair = |number: usize| {
            let next = number + 1;
            format!(
                r##""D{number}":{{"anyOf":[{{"$ref":"#/$defs/D{next}"}},{{"$ref":"#/$defs/D{next}"}}]}}"##
            )
        };
        let doubling: Vec<String> = (0..30).map(pair).collect();
        let schema = format!(r##"{{"$ref":"#/$defs/D0","$defs":{{{},"D30":{{}}}}}}"##, doubling.join(","));
        assert!(refuses(&schema).starts_with("`f`: has more than 10000 schemas"));
    }

    #[test]
    fn keys_that_anthropic_refuses_are_described() {
        let check = |schema: &str, expected: &str| {
            assert_eq!(for_anthropic(&parse(schema), "f").unwrap().to_string(), expected);
        };
        check(
            r#"{"$schema":"s","type":"object","properties":{"b":{"type":"integer","minimum":1,"description":"d"},"a":{"type":["string","null"],"minLength":2,"format":"uri"},"l":{"type":"array","items":{"oneOf":[{"const":1},{"type":"object"}]},"minItems":2}},"required":["b"],"additionalProperties":true}"#,
            r#"{"type":"object","properties":{"b":{"type":"integer","description":"d\n\n{minimum: 1}"},"a":{"anyOf":[{"type":"string","format":"uri","description":"{minLength: 2}"},{"type":"null"}]},"l":{"type":"array","items":{"anyOf":[{"const":1},{"type":"object","properties":{},"additionalProperties":false}]},"description":"{minItems: 2}"}},"required":["b"],"additionalProperties":false}"#,
        );
    }

    #[test]
    fn rules_that_are_no_kinds_are_described() {
        let schema = r#"{"properties":{"a":{},"b":{"oneOf":[{"type":"null"},{"const":1}]}},"anyOf":[{"required":["a"]},{"required":["b"]}]}"#;
        assert_eq!(
            for_anthropic(&parse(schema), "f").unwrap().to_string(),
            r#"{"properties":{"a":{},"b":{"anyOf":[{"type":"null"},{"const":1}]}},"type":"object","additionalProperties":false,"description":"{anyOf: [{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}"}"#
        );
    }

    #[test]
    fn types_of_a_list_have_their_own_values_and_keys() {
        let check = |schema: &str, expected: &str| {
            assert_eq!(for_anthropic(&parse(schema), "f").unwrap().to_string(), expected);
        };
        check(
            r#"{"type":["string","null"],"enum":["low","high",null]}"#,
            r#"{"anyOf":[{"type":"string","enum":["low","high"]},{"type":"null"}]}"#,
        );
        check(
            r#"{"type":["integer","number","boolean"],"enum":[1,1.5]}"#,
            r#"{"anyOf":[{"type":"integer","enum":[1]},{"type":"number","enum":[1,1.5]}]}"#,
        );
        check(r#"{"type":["string","integer"],"const":"a"}"#, r#"{"type":"string","const":"a"}"#);
        // no type has a value
        check(r#"{"type":["string","null"],"enum":[1]}"#, r#"{"enum":[1]}"#);
        check(
            r#"{"type":["object","string","string"],"properties":{"a":{}},"minLength":1}"#,
            r#"{"anyOf":[{"type":"object","properties":{"a":{}},"additionalProperties":false},{"type":"string","description":"{minLength: 1}"}]}"#,
        );
        check(
            r#"{"type":["integer","string"],"format":"date"}"#,
            r#"{"anyOf":[{"type":"integer"},{"type":"string","format":"date"}]}"#,
        );
        check(
            r#"{"type":["string","integer"],"anyOf":[{"const":"a"},{"const":1}]}"#,
            r#"{"anyOf":[{"const":"a"},{"const":1}]}"#,
        );
    }

    #[test]
    fn lists_of_types_do_not_multiply_the_schemas_inside() {
        for template in [
            r#"{"type":["object","string"],"properties":{"a":INNER}}"#,
            r#"{"type":["object","string"],"anyOf":[INNER,{"type":"null"}]}"#,
        ] {
            let deep = (0..16).fold("{}".to_owned(), |inner, _| template.replace("INNER", &inner));
            let size = for_anthropic(&parse(&deep), "f").unwrap().to_string().len();
            assert!(size < 4_000, "{size} bytes of {template}");
        }
    }

    #[test]
    fn strict_schemas_are_complete() {
        for (schema, expected) in [
            ("{}", true),
            (
                r#"{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}"#,
                true,
            ),
            (r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#, false),
            (r#"{"type":"array","items":{"type":"object","properties":{},"required":[]}}"#, false),
        ] {
            assert_eq!(is_strict(&parse(schema)), expected, "{schema}");
        }
    }
}
