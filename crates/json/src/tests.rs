use proptest::prelude::*;

use super::parser::controls;
use super::*;

/// The text is taken as serde_json takes it, and says the same.
fn check(text: &str) {
    let expected = serde_json::from_str::<serde_json::Value>(text);
    match Tape::parse(text.as_bytes()) {
        Ok(tape) => {
            let root = tape.root(text.as_bytes());
            assert_eq!(root.raw(), text.trim_matches([' ', '\t', '\n', '\r']).as_bytes(), "{text}");
            if let Ok(expected) = expected {
                assert_eq!(as_value(root), expected, "{text}");
            } else {
                // halves of surrogate pairs, and numbers too large for a double, are JSON; serde_json has no place for them
                let reason = expected.unwrap_err().to_string();
                assert!(
                    reason.contains("surrogate")
                        || reason.contains("hex escape")
                        || reason.contains("out of range"),
                    "{text}: {reason}"
                );
            }
        }
        Err(error) => assert!(expected.is_err(), "{text}: {error}"),
    }
}

fn as_value(value: Value<'_>) -> serde_json::Value {
    match value.kind() {
        Kind::Array => value.items().map(as_value).collect(),
        Kind::Object => {
            value.entries().map(|(key, value)| (key.string().into_owned(), as_value(value))).collect()
        }
        Kind::Plain | Kind::Escaped => value.string().into(),
        Kind::Null | Kind::True | Kind::False | Kind::Number => serde_json::from_slice(value.raw()).unwrap(),
    }
}

#[test]
fn values_are_read_as_serde_json_reads_them() {
    for text in [
        "{}",
        "[]",
        " [ ] ",
        "null",
        "true",
        "false",
        "0",
        "-0.5e+3",
        r#""a""#,
        r#"{"a":[1,{"b":null}],"c":"\u00e9\n"}"#,
        "[1,]",
        "[,1]",
        "{,}",
        r#"{"a":1,}"#,
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{a:1}"#,
        "[1 2]",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "tru",
        "nulll",
        "[}",
        "{]",
        "[",
        "{",
        r#"{"a":[}"#,
        "\"a",
        r#""\x""#,
        r#""\u12g4""#,
        r#""\ud83d""#,
        r#""\ud83d\ude00""#,
        "\"\n\"",
        "\"\u{1}\"",
        "",
        " ",
        "1 2",
        "[] []",
        "\u{feff}1",
        "\u{a0}1",
        "1e400",
    ] {
        check(text);
    }
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(Tape::parse(deep(DEPTH_MAX).as_bytes()).is_ok());
    assert_eq!(Tape::parse(deep(DEPTH_MAX + 1).as_bytes()), Err(JsonError::TooDeep));
    let many = format!("[{}1]", "1,".repeat(VALUES_MAX));
    assert_eq!(Tape::parse(many.as_bytes()), Err(JsonError::TooManyValues));
    assert_eq!(Tape::parse(b"{\"a\":\"\xff\"}"), Err(JsonError::Utf8(6)));
    // a byte that is not UTF-8 is named before an error of syntax; it is found at each place of a long text
    assert_eq!(Tape::parse(b"{\"a\":1 \"\xff\"}"), Err(JsonError::Utf8(8)));
    for at in 1..70 {
        let mut text = format!("\"{}\"", "a".repeat(70)).into_bytes();
        text[at] = 0xFF;
        assert_eq!(Tape::parse(&text), Err(JsonError::Utf8(at)));
        text[at] = 0x1F;
        assert!(matches!(Tape::parse(&text), Err(JsonError::Syntax { offset, .. }) if offset == at));
    }
}

#[test]
fn a_name_is_found_at_every_depth_and_with_escapes() {
    for (text, expected) in [
        (r#"{"a":[{"ttl":"1h"}]}"#, true),
        (r#"{"a":[{"\u0074tl":"1h"}]}"#, true),
        (r#"{"a":[{"\u0074\u0074\u006c":"1h"}]}"#, true),
        (r#"{"a":"the ttl of it","ttls":1,"tt":2,"\u0074\u0074\u006cs":3}"#, false),
    ] {
        let tape = Tape::parse(text.as_bytes()).unwrap();
        assert_eq!(tape.has_string(text.as_bytes(), "ttl"), expected, "{text}");
    }
}

#[test]
fn a_value_is_found_by_its_path_and_edited_in_its_place() {
    let text = br#"{ "a" : [1, {"b":"x"}], "\u0063" : {"d":18446744073709551615, "e":1.50} }"#;
    let tape = Tape::parse(text).unwrap();
    let root = tape.root(text);
    assert_eq!(root.at(&["c", "d"]).and_then(Value::as_u64), Some(u64::MAX));
    assert_eq!(root.at(&["c", "e"]).map(Value::raw), Some(&b"1.50"[..]));
    assert!(root.at(&["a", "b"]).is_none() && root.get("d").is_none());
    let inner = root.get("a").and_then(|list| list.items().nth(1)).and_then(|item| item.get("b")).unwrap();
    let mut edits = Edits::default();
    edits.replace_by_string(root.at(&["c", "e"]).unwrap().range(), "\"y");
    edits.replace_by_string(inner.range(), "z");
    let expected = r#"{ "a" : [1, {"b":"z"}], "\u0063" : {"d":18446744073709551615, "e":"\"y"} }"#;
    assert_eq!(String::from_utf8(edits.apply(text)).unwrap(), expected);
}

#[test]
fn an_object_stays_json_without_one_of_its_entries() {
    let check = |text: &str, name: &str, expected: &str| {
        let tape = Tape::parse(text.as_bytes()).unwrap();
        let mut edits = Edits::default();
        edits.replace(tape.root(text.as_bytes()).entry_range(name).unwrap(), Vec::new());
        assert_eq!(String::from_utf8(edits.apply(text.as_bytes())).unwrap(), expected);
    };
    let text = r#"{ "a" : 1 , "b":[2] ,"c":3 }"#;
    check(text, "a", r#"{ "b":[2] ,"c":3 }"#);
    check(text, "b", r#"{ "a" : 1 ,"c":3 }"#);
    check(text, "c", r#"{ "a" : 1 , "b":[2] }"#);
    check(r#"{"a":1}"#, "a", "{}");
}

#[test]
fn a_repeated_key_is_found_in_any_object() {
    let check = |text: &str, expected: Option<&str>| {
        let tape = Tape::parse(text.as_bytes()).unwrap();
        assert_eq!(
            tape.repeated_key(text.as_bytes(), |name| ["model", "messages"].contains(&name)).as_deref(),
            expected,
            "{text}"
        );
    };
    check(r#"{"a":1,"b":{"a":1,"A":2}}"#, None);
    check(r#"{"a":1,"a":2}"#, Some("a"));
    check(r#"[{"x":{"a":1,"\u0061":2}}]"#, Some("a"));
    check(r#"{"model":1,"Model":2}"#, Some("Model"));
    check(r#"{"MODEL":1,"Model":2}"#, Some("Model"));
    check(r#"{"messages":1,"me\u017f\u017fages":2}"#, Some("meſſages"));
    let many: String = (0..40).map(|number| format!("\"k{number}\":1,")).collect();
    check(&format!("{{{many}\"K3\":1}}"), None);
    check(&format!("{{{many}\"k3\":1}}"), Some("k3"));
    check(&format!("{{{many}\"model\":1,\"moDel\":1}}"), Some("moDel"));
}

#[test]
fn a_control_character_is_found_at_any_place() {
    for byte in 0..=u8::MAX {
        for others in [b' ', 0x7f, 0x80, 0xff] {
            for at in 0..70 {
                let mut bytes = [others; 70];
                bytes[at] = byte;
                assert_eq!(controls(&bytes).0, byte < b' ', "{byte} at {at}, others {others}");
            }
        }
    }
    assert_eq!(controls(&[]), (false, true));
}

proptest! {
    #[test]
    fn pieces_of_json_in_any_order_are_read_as_serde_json_reads_them(parts in prop::collection::vec(0..20_usize, 0..14)) {
        let words = ["{", "}", "[", "]", ",", ":", "\"a\"", "\"b\\\"\"", "1", "-2.5e1", "null", "true", " ", "\n", "\"\\u0041\"", "\"\"", "0", "{\"c\":", "]}", "\\"];
        let text: String = parts.iter().map(|&part| words[part]).collect();
        // the last of two equal keys is all that serde_json keeps
        if Tape::parse(text.as_bytes()).is_ok_and(|tape| tape.repeated_key(text.as_bytes(), |_| false).is_some()) {
            return Ok(());
        }
        check(&text);
    }
}
