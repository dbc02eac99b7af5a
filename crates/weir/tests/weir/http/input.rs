//! What is accepted comes back byte for byte.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::{Value, json};

use super::{Gateway, in_repository};
use crate::support::client::document_path;

/// Strings that have broken programs before: `fixtures/unicode`, each of its three files in its own format.
fn naughty_strings() -> Vec<String> {
    let folder = in_repository("fixtures/unicode");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let mut all: Vec<String> = serde_json::from_str(&read("blns.json")).unwrap();
    let graphemes = read("GraphemeBreakTest.txt");
    all.extend(rows_of_code_points(&graphemes).into_iter().flatten());
    for line in read("wordpiece/wordpiece_expected.jsonl").lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        all.push(row["text"].as_str().unwrap().to_owned());
    }
    let packed = folder.join("NormalizationTest.txt.gz");
    let unpacked = Command::new("gzip").arg("-dc").arg(packed).env_clear().output().unwrap();
    assert!(unpacked.status.success());
    let normal_forms = rows_of_code_points(std::str::from_utf8(&unpacked.stdout).unwrap());
    // the five forms of each of 19,000 strings: a hundred rows in a text, or reading them back would take minutes
    all.extend(normal_forms.chunks(100).map(|rows| rows.concat().join("\n")));
    all
}

/// The strings of each line: columns divided by `;`, each of hexadecimal code points between any other signs.
fn rows_of_code_points(text: &str) -> Vec<Vec<String>> {
    let code_point = |word: &str| u32::from_str_radix(word, 16).ok().and_then(char::from_u32);
    let column = |column: &str| column.split_whitespace().filter_map(code_point).collect::<String>();
    text.lines()
        .filter_map(|line| line.split('#').next())
        .map(|data| data.split(';').map(column).filter(|string| !string.is_empty()).collect::<Vec<_>>())
        .filter(|row| !row.is_empty())
        .collect()
}

#[test]
fn every_naughty_string_comes_back_as_text_title_id_and_metadata() {
    let gateway = Gateway::start_with(&[
        ("WEIR_CHUNKING_MAX_TOKENS", "200"),
        ("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "256"),
        // the longest strings are titles too
        ("WEIR_LIMITS_TITLE_BYTES_MAX", "16777216"),
    ]);
    let strings: BTreeSet<String> = naughty_strings().into_iter().collect();
    assert!(strings.len() > 2_900, "only {} strings: the fixtures were not read", strings.len());
    let (mut documents, mut ids) = (Vec::new(), Vec::new());
    for (number, string) in strings.iter().enumerate() {
        let id = if (1..=512).contains(&string.len()) { string.clone() } else { format!("id {number}") };
        // a document must have something to find it by
        let title = if string.trim().is_empty() { format!("title {number}") } else { string.clone() };
        documents.push(json!({"id": id, "title": title, "text": string, "metadata": {"string": string}}));
        ids.push(id);
    }
    let job = gateway.ingest(&documents);
    assert_eq!(job["processed_documents"], documents.len(), "{}", job["errors"]);
    for (id, sent) in ids.iter().zip(&documents) {
        let found = gateway.document(id).unwrap_or_else(|| panic!("{id:?} is not there"));
        for key in ["id", "title", "text", "metadata"] {
            assert_eq!(found[key], sent[key], "{key} of {id:?}");
        }
    }
    // each is a query as well; a search that finds nothing is an answer
    for string in
        strings.iter().filter(|string| !string.trim().is_empty() && string.len() < 16_384).step_by(7)
    {
        gateway.search(string, "hybrid");
    }
    println!("{} strings came back", strings.len());
}

#[test]
fn an_id_may_hold_anything() {
    let gateway = Gateway::start();
    let longest = "é".repeat(256);
    let ids = [
        "a/b/c",
        "a/b/c/",
        "/",
        "//",
        ".",
        "..",
        "../../etc/passwd",
        "with space",
        " ",
        "🦀 crab",
        "é",
        "e\u{301}",
        "%2F",
        "a%2Fb",
        "a?b=c#d",
        "a+b",
        "\\",
        "\"",
        "\n",
        "\0",
        "\u{202e}abc",
        "null",
        "0",
        &longest,
    ];
    let documents: Vec<Value> = ids.iter().map(|id| json!({"id": id, "text": format!("of {id}")})).collect();
    gateway.ingest(&documents);
    assert_eq!(gateway.document_count(), ids.len() as u64);
    for (deleted, id) in ids.iter().enumerate() {
        let found = gateway.document(id).unwrap_or_else(|| panic!("{id:?} is not there"));
        assert_eq!((&found["id"], &found["text"]), (&json!(id), &json!(format!("of {id}"))));
        assert_eq!(
            gateway.try_delete(id).unwrap(),
            (200, json!({"deleted": true, "chunks": found["chunks"]}))
        );
        assert_eq!(gateway.document(id), None, "{id:?}");
        assert_eq!(
            gateway.document_count(),
            (ids.len() - deleted - 1) as u64,
            "after the deletion of {id:?}"
        );
    }
}

/// Ingests one text and reads it back; its last word is found.
fn check_long_text(text: &str) {
    let gateway = Gateway::start_with(&[("WEIR_CHUNKING_MAX_TOKENS", "200")]);
    gateway.ingest(&[json!({"id": "long", "text": text})]);
    let found = gateway.document("long").unwrap();
    assert!(found["text"] == text, "the text came back changed");
    let results = gateway.search("weir", "lexical");
    assert_eq!(results.len(), 1);
    assert!(results[0]["citation"]["quote"].as_str().unwrap().ends_with("weir"));
    assert_eq!(results[0]["citation"]["end"], text.len());
}

#[test]
fn five_megabytes_of_text_come_back() {
    let mut text = String::new();
    for number in 0.. {
        if text.len() > 5 << 20 {
            break;
        }
        text.push_str(&format!("Line {number} of a text that is long, größer than any chunk.\r\n"));
    }
    check_long_text(&(text + "weir"));
}

#[test]
fn a_hundred_thousand_characters_without_a_space_come_back() {
    check_long_text(&("x".repeat(100_000) + " weir"));
    check_long_text(&("é\u{301}".repeat(50_000) + " weir"));
    check_long_text(&("語".repeat(100_000) + " weir"));
}

#[test]
fn nul_characters_come_back() {
    let gateway = Gateway::start();
    let (text, title, metadata) = ("before\0after \0\0 end\0", "a\0title", json!({"k\0ey": "v\0alue"}));
    gateway.ingest(&[json!({"id": "n\0ul", "title": title, "text": text, "metadata": metadata})]);
    let found = gateway.document("n\0ul").unwrap();
    assert_eq!(
        (&found["text"], &found["title"], &found["metadata"]),
        (&json!(text), &json!(title), &metadata)
    );
    let hit = &gateway.search("after", "lexical")[0];
    assert_eq!((&hit["title"], &hit["metadata"]), (&json!(title), &metadata));
}

#[test]
fn metadata_comes_back_as_it_was_written() {
    let gateway = Gateway::start();
    let written = r#"{"b":1.10, "a":123456789012345678901234567890,"a":"\u00e9","n":{"x":[null,1e400]}}"#;
    let body =
        r#"{"documents":[{"id":"m","text":"a weir","metadata":METADATA}]}"#.replace("METADATA", written);
    let number_too_large = gateway.send("POST", "/v1/ingest", Some(body.as_bytes()));
    assert_eq!(number_too_large.status, 400, "{}", number_too_large.text);
    let (body, written) = (body.replace("1e400", "1e40"), written.replace("1e400", "1e40"));
    let accepted = gateway.send("POST", "/v1/ingest?wait=true", Some(body.as_bytes()));
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    let stored = gateway.send("GET", &document_path("m"), None);
    assert!(stored.text.contains(&written), "{}", stored.text);
    let found = gateway.send("POST", "/v1/search", Some(br#"{"query":"weir"}"#));
    assert!(found.text.contains(&written), "{}", found.text);
}

#[test]
fn empty_and_absent_metadata_are_an_empty_object() {
    let gateway = Gateway::start();
    gateway.ingest(&[
        json!({"id": "empty", "text": "a weir", "metadata": {}}),
        json!({"id": "absent", "text": "a weir"}),
        json!({"id": "null", "text": "a weir", "metadata": null, "title": null}),
    ]);
    for id in ["empty", "absent", "null"] {
        let found = gateway.document(id).unwrap();
        assert_eq!((&found["metadata"], &found["title"]), (&json!({}), &Value::Null), "{id}");
    }
}

#[test]
fn a_document_of_a_title_alone_is_found_by_it() {
    let gateway = Gateway::start();
    gateway.ingest(&[json!({"id": "title", "title": "On weirs", "text": ""})]);
    for mode in ["lexical", "dense", "hybrid"] {
        let results = gateway.search("weirs", mode);
        assert_eq!(results.len(), 1, "{mode}");
        let (title, text) = (&results[0]["title"], &results[0]["text"]);
        assert_eq!((title, text), (&json!("On weirs"), &json!("")), "{mode}");
    }
}

#[test]
fn a_document_without_an_id_gets_one_made_of_its_content() {
    let gateway = Gateway::start();
    let documents = [json!({"text": "a weir"}), json!({"text": "a weir", "title": "other"})];
    gateway.ingest(&documents);
    gateway.ingest(&documents); // as after a lost reply
    assert_eq!(gateway.document_count(), 2);
    let results = gateway.search("weir", "lexical");
    let ids: BTreeSet<&str> = results.iter().map(|hit| hit["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.iter().all(|id| gateway.document(id).unwrap()["text"] == "a weir"));
}

#[test]
fn the_same_id_again_replaces_the_document() {
    let gateway = Gateway::start();
    gateway.ingest(&[json!({"id": "a", "title": "old", "text": "a weir", "metadata": {"old": true}})]);
    let before = gateway.document("a").unwrap()["version"].as_u64().unwrap();
    gateway.ingest(&[json!({"id": "a", "text": "a sluice"})]);
    let after = gateway.document("a").unwrap();
    assert!(after["version"].as_u64().unwrap() > before);
    assert_eq!(
        (&after["text"], &after["title"], &after["metadata"]),
        (&json!("a sluice"), &Value::Null, &json!({}))
    );
    assert_eq!(gateway.search("weir", "lexical"), Vec::<Value>::new());
    assert_eq!(gateway.search("sluice", "lexical").len(), 1);
    assert_eq!(gateway.document_count(), 1);
    gateway.ingest(&[json!({"id": "a", "text": "a sluice"})]);
    assert_eq!(gateway.document("a").unwrap(), after, "the same content again is a no-op");
}
