use super::*;
use crate::references::inlined;

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
        format!(r##""D{number}":{{"anyOf":[{{"$ref":"#/$defs/D{next}"}},{{"$ref":"#/$defs/D{next}"}}]}}"##)
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
        ("{}", false),
        (r#"{"type":"string"}"#, false),
        (r##"{"$ref":"#/$defs/D","$defs":{"D":{"type":"object"}}}"##, false),
        (r#"{"type":"object","properties":{"a":{}},"additionalProperties":false}"#, false),
        (r#"{"type":"array","items":{"type":"object","properties":{},"required":[]}}"#, false),
    ] {
        assert_eq!(is_strict(&parse(schema)), expected, "{schema}");
    }
    for (property, expected) in [
        (r#"{"type":"string","description":"x"}"#, true),
        (r##"{"$ref":"#/$defs/D"}"##, true),
        (r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, true),
        (r#"{"type":"array","items":{"type":"string"}}"#, true),
        (r##"{"$ref":"#/$defs/D","description":"x"}"##, false),
        ("{}", false),
        ("true", false),
        (r#"{"description":"x"}"#, false),
        (r#"{"const":"x"}"#, false),
        (r#"{"type":"array"}"#, false),
        (r#"{"type":"array","items":{}}"#, false),
    ] {
        let schema = |required: &str| {
            format!(
                r#"{{"type":"object","properties":{{"a":{property}}},"required":{required},"additionalProperties":false,"$defs":{{"D":{{"type":"string"}}}}}}"#
            )
        };
        assert_eq!(is_strict(&parse(&schema(r#"["a"]"#))), expected, "{property}");
        assert!(!is_strict(&parse(&schema(r#"["a","b"]"#))), "{property}");
    }
}
