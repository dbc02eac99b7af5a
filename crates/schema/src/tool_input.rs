//! The schema of a tool's input as Anthropic takes it.

use crate::references::{ALTERNATIVES, inlined};
use crate::{Map, SchemaError, Value, object};

/// The schema of a tool's input for Anthropic, which wants an object and no alternatives of whole inputs: properties of all alternatives
/// are given, and those that all require are required. A schema with a reference in the place of a whole input has all its references replaced.
///
/// # Errors
/// [`SchemaError`] when the schema is too large, or a reference leads nowhere.
pub fn tool_input(parameters: Option<Value>, field: &str) -> Result<Value, SchemaError> {
    let parameters = match parameters {
        Some(parameters) if is_reference(&parameters) => Some(inlined(&parameters, field)?),
        parameters => parameters,
    };
    let Some(Value::Object(schema)) = parameters else {
        return Ok(object! {"type": "object", "properties": Map::new()});
    };
    let mut schema = joined(schema, &ALTERNATIVES);
    if schema.get("required").and_then(Value::as_array).is_some_and(<[Value]>::is_empty) {
        schema.remove("required");
    }
    // Anthropic takes no other type of a whole input
    schema.insert("type", "object");
    Ok(schema.into())
}

/// Whether a schema or one of its alternatives is a reference.
fn is_reference(schema: &Value) -> bool {
    let mut members = ALTERNATIVES.iter().filter_map(|key| schema[*key].as_array()).flatten();
    !schema["$ref"].is_null() || members.any(is_reference)
}

/// A schema with what its members of `keys` say of an object, without these.
pub(crate) fn joined(mut schema: Map, keys: &[&str]) -> Map {
    for key in keys {
        let Some(Value::Array(members)) = schema.remove(key) else { continue };
        let member = |member: Value| match member {
            Value::Object(map) => joined(map, keys),
            _ => Map::new(),
        };
        let members: Vec<Map> = members.into_iter().map(member).collect();
        add_properties(&members, key, &mut schema);
        add_required(&members, key, &mut schema);
    }
    schema
}

/// Adds the properties of the members of `key`. One that they describe in several ways may be each of these, or with `allOf` has to be all. One
/// that the schema has itself stays as it is.
fn add_properties(members: &[Map], key: &str, schema: &mut Map) {
    let mut found: Vec<(&str, Vec<&Value>)> = Vec::new();
    for member in members {
        let Some(Value::Object(properties)) = member.get("properties") else { continue };
        for (name, property) in properties.iter() {
            match found.iter_mut().find(|(known, _)| *known == name) {
                None => found.push((name, vec![property])),
                Some((_, ways)) if ways.contains(&property) => {}
                Some((_, ways)) => ways.push(property),
            }
        }
    }
    if members.iter().all(|member| !member.contains_key("properties")) {
        return;
    }
    let Some(into) = schema.or_insert("properties", Map::new()).as_object_mut() else { return };
    for (name, ways) in found {
        let mut ways: Vec<Value> = ways.into_iter().cloned().collect();
        let property = match (ways.len(), key) {
            (1, _) => ways.remove(0),
            (_, "allOf") => object! {"allOf": ways},
            _ => object! {"anyOf": ways},
        };
        into.or_insert(name, property);
    }
}

/// Adds the names that one member of `allOf` requires, or all of other alternatives do.
fn add_required(members: &[Map], key: &str, schema: &mut Map) {
    let mut required: Option<Vec<Value>> = None;
    for member in members {
        let names = member.get("required").and_then(Value::as_array).unwrap_or_default();
        required = Some(match required {
            None => names.to_vec(),
            Some(known) if key == "allOf" => {
                let new = names.iter().filter(|name| !known.contains(name)).cloned();
                known.iter().cloned().chain(new).collect()
            }
            Some(known) => known.into_iter().filter(|name| names.contains(name)).collect(),
        });
    }
    if let Value::Array(list) = schema.or_insert("required", Vec::new()) {
        for name in required.unwrap_or_default() {
            if !list.contains(&name) {
                list.push(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(schema: &str) -> Result<Value, SchemaError> {
        tool_input(Some(Value::parse(schema.as_bytes()).unwrap()), "f")
    }

    fn check(schema: &str, expected: &str) {
        assert_eq!(input(schema).unwrap().to_string(), expected);
    }

    #[test]
    fn inputs_of_tools_have_no_alternatives() {
        check(r#"{"properties":{"a":{}}}"#, r#"{"properties":{"a":{}},"type":"object"}"#);
        check(
            r#"{"type":"object","anyOf":[{"properties":{"b":{},"a":{}},"required":["b","a"]},{"properties":{"a":{}},"required":["a"]}]}"#,
            r#"{"type":"object","properties":{"b":{},"a":{}},"required":["a"]}"#,
        );
        check(
            r#"{"type":"object","allOf":[{"required":["b"]},{"properties":{"a":{}},"required":["a"]}]}"#,
            r#"{"type":"object","properties":{"a":{}},"required":["b","a"]}"#,
        );
    }

    #[test]
    fn references_to_whole_inputs_are_replaced() {
        check(
            r##"{"oneOf":[{"$ref":"#/$defs/A"},{"$ref":"#/$defs/B"}],"$defs":{"A":{"type":"object","properties":{"a":{"type":"string"},"c":{}},"required":["a","c"]},"B":{"type":"object","properties":{"b":{"$ref":"#/$defs/N"},"c":{}},"required":["c"]},"N":{"type":"number"}}}"##,
            r#"{"properties":{"a":{"type":"string"},"c":{},"b":{"type":"number"}},"required":["c"],"type":"object"}"#,
        );
        check(
            r##"{"$ref":"#/$defs/A","$defs":{"A":{"type":"object","properties":{"a":{}}}}}"##,
            r#"{"type":"object","properties":{"a":{}}}"#,
        );
        // alternatives of alternatives
        check(
            r##"{"anyOf":[{"$ref":"#/$defs/Cat"},{"$ref":"#/$defs/Dog"}],"$defs":{"Pet":{"properties":{"name":{}},"required":["name"]},"Cat":{"allOf":[{"$ref":"#/$defs/Pet"},{"properties":{"lives":{}}}]},"Dog":{"allOf":[{"$ref":"#/$defs/Pet"}]}}}"##,
            r#"{"properties":{"name":{},"lives":{}},"required":["name"],"type":"object"}"#,
        );
        // Anthropic reads those of properties
        check(
            r##"{"$defs":{"A":{}},"anyOf":[{"properties":{"a":{"$ref":"#/$defs/A"}}}]}"##,
            r##"{"$defs":{"A":{}},"properties":{"a":{"$ref":"#/$defs/A"}},"type":"object"}"##,
        );
        let refusal = input(r##"{"anyOf":[{"$ref":"#/a"}]}"##).unwrap_err().to_string();
        assert!(refusal.starts_with("`f`: has the reference \"#/a\""), "{refusal}");
    }

    #[test]
    fn properties_that_differ_are_kept_as_alternatives() {
        check(
            r#"{"oneOf":[{"properties":{"kind":{"const":"circle"},"r":{}}},{"properties":{"kind":{"const":"square"},"r":{}}},{"properties":{"kind":{"const":"circle"}}}]}"#,
            r#"{"properties":{"kind":{"anyOf":[{"const":"circle"},{"const":"square"}]},"r":{}},"type":"object"}"#,
        );
        check(
            r#"{"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"a":{"minLength":2}}}]}"#,
            r#"{"properties":{"a":{"allOf":[{"type":"string"},{"minLength":2}]}},"type":"object"}"#,
        );
        check(
            r#"{"properties":{"kind":{"enum":["circle","square"]}},"oneOf":[{"properties":{"kind":{"const":"circle"}}},{"properties":{"kind":{"const":"square"}}}]}"#,
            r#"{"properties":{"kind":{"enum":["circle","square"]}},"type":"object"}"#,
        );
    }
}
