//! Queries that are pasted: what of a command, an error message or a sentence is an operator, and whether its answer is found.

use serde_json::{Value, json};
use weir_query::{AUTO_EXAMPLE_TEXT, AUTO_RULES};

use super::{Gateway, ask, ids, in_repository, library};

/// Of the queries of fixtures/eval/pasted, those whose answer must be among the first three results.
const ANSWERED_MIN: usize = 45;

fn reading(excluded: &[&str], as_text: &[&str]) -> Value {
    json!({"excluded": excluded, "as_text": as_text})
}

#[test]
fn the_rules_of_the_documentation_hold_for_their_examples() {
    let gateway = Gateway::start();
    gateway.ingest(&[json!({"id": "find", "text": AUTO_EXAMPLE_TEXT, "metadata": {"type": "manual"}})]);
    for example in AUTO_RULES.iter().flat_map(|rule| rule.examples) {
        let found = ask(&gateway, &json!({"query": example.query, "top_k": 1}));
        let is_nothing = found["query"]["as_text"] == json!([example.query]);
        let expected = reading(example.excluded, example.as_text);
        assert!(is_nothing || found["query"] == expected, "{}: {}", example.query, found["query"]);
    }
}

#[test]
fn a_pasted_query_does_not_exclude_its_answer() {
    let check = |id: &str, text: &str, query: &str| {
        let gateway = Gateway::start();
        gateway.ingest(&[
            json!({"id": id, "text": text}),
            json!({"id": "other", "text": "A weir is a low dam."}),
        ]);
        for syntax in ["auto", "text"] {
            let found = ask(&gateway, &json!({"query": query, "syntax": syntax}));
            assert_eq!(found["results"][0]["id"], id, "{query}: {found}");
            assert_eq!(found["query"]["excluded"], json!([]), "{query}");
        }
    };
    check(
        "null",
        "The error NOT NULL constraint failed means that a column that must have a value got none.",
        "NOT NULL constraint failed: users.email",
    );
    check("lsl", "ls -l prints a long listing with permissions, owner and size.", "what does ls -l do");
    check("v", "grep -v prints the lines that do not match.", "grep -v");
    check("and", "Use AND to combine two conditions in SQL.", "difference between AND and OR");
    check("name", "find -name compares the base of a file's name.", "find -name");
}

#[test]
fn operators_that_are_meant_keep_their_meaning() {
    let gateway = Gateway::start();
    let document =
        |id: &str, text: &str, kind: &str| json!({"id": id, "text": text, "metadata": {"type": kind}});
    gateway.ingest(&[
        document("lava", "Los volcanes expulsan lava, ciencias de la tierra.", "educational"),
        document("plates", "Los volcanes y la tectonica de placas, ciencias.", "educational"),
        document("table", "La tabla periodica ordena los elementos, quimica.", "educational"),
        document("sun", "El sistema solar tiene ocho planetas.", "educational"),
        document("pluto", "El sistema solar y pluton, un planeta enano.", "educational"),
        document("poem", "El sistema solar es un poema.", "literary"),
    ]);
    let check = |query: &str, found: &str, excluded: &[&str]| {
        let reply = ask(&gateway, &json!({"query": query, "mode": "lexical"}));
        assert_eq!((ids(&reply).as_str(), &reply["query"]), (found, &reading(excluded, &[])), "{query}");
    };
    check("volcanes -tectonica ciencias", "lava", &["tectonica"]);
    check("\"tabla periodica\" quimica", "table", &[]);
    // the field is a condition, the phrase ranks
    check("\"sistema solar\" -pluton type:educational", "sun lava plates table", &["pluton"]);
}

#[test]
fn operators_that_leave_nothing_are_words() {
    let gateway = library();
    let check = |query: &str, found: &str, as_text: &[&str]| {
        let reply = ask(&gateway, &json!({"query": query, "mode": "lexical"}));
        assert_eq!((ids(&reply).as_str(), &reply["query"]["as_text"]), (found, &json!(as_text)), "{query}");
    };
    check("\"sluice a gate is\"", "d e", &["\"sluice a gate is\""]);
    check("river lang:fr", "b", &["river lang:fr"]);
    check("river -weir", "b f e a c", &["river -weir"]);
    check("\"sluice is a gate\"", "d", &[]);
    // what the filter leaves out stays out
    let filtered = json!({"query": "river -weir", "mode": "lexical", "filter": {"lang": "fr"}});
    let reply = ask(&gateway, &filtered);
    assert_eq!((ids(&reply).as_str(), &reply["query"]), ("", &reading(&["weir"], &[])));
    let strict = ask(&gateway, &json!({"query": "river -weir", "mode": "lexical", "syntax": "strict"}));
    assert_eq!((ids(&strict).as_str(), &strict["query"]), ("", &reading(&["weir"], &[])));
    // the pages of one search are read alike
    let mut body = json!({"query": "weir lang:fr", "mode": "lexical", "top_k": 2});
    let mut seen = Vec::new();
    loop {
        let page = ask(&gateway, &body);
        seen.push(ids(&page));
        if page["next_cursor"].is_null() {
            break;
        }
        body["cursor"] = page["next_cursor"].clone();
    }
    assert_eq!(seen.join(" ").split(' ').count(), 5, "{seen:?}");
}

#[test]
fn documents_of_others_do_not_decide_what_is_an_operator() {
    let gateway = Gateway::start();
    let document =
        |id: &str, text: &str, metadata: Value| json!({"id": id, "text": text, "metadata": metadata});
    gateway.ingest(&[
        document("own", "the name of a river that you find", json!({"tenant": 1})),
        document("mine", "a river", json!({"tenant": 1})),
    ]);
    let key = |by: &str, request: &Value| {
        let bearer = format!("Bearer {by}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let reply =
            gateway.try_send("POST", "/v1/keys", &headers, Some(request.to_string().as_bytes())).unwrap();
        reply.json()["key"].as_str().unwrap().to_owned()
    };
    let admin = key("", &json!({"name": "admin", "scopes": ["admin", "search", "ingest"]}));
    let tenant = key(&admin, &json!({"name": "one", "scopes": ["search"], "filter": {"tenant": 1}}));
    let send = |key: &str, path: &str, body: &Value| {
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        gateway.try_send("POST", path, &headers, Some(body.to_string().as_bytes())).unwrap().json()
    };
    let read = |key: &str, query: &str| {
        let reply = send(key, "/v1/search", &json!({"query": query, "mode": "lexical"}));
        (ids(&reply), reply["query"].clone())
    };
    let queries = ["find river -name", "river salary:5"];
    let before = queries.map(|query| read(&tenant, query));
    assert_eq!(before[0], ("mine".to_owned(), reading(&["name"], &[])));
    assert_eq!(before[1].1, reading(&[], &["salary:5"]));
    let hidden = document("hidden", "find . -name river", json!({"tenant": 2, "salary": 5}));
    send(&admin, "/v1/ingest?wait=true", &json!({"documents": [hidden]}));
    assert_eq!(queries.map(|query| read(&tenant, query)), before);
    assert_eq!(read(&admin, queries[0]).1, reading(&[], &["-name"]));
    assert_eq!(read(&admin, queries[1]), ("hidden".to_owned(), reading(&[], &[])));
}

/// The real model, hybrid search with default settings.
#[test]
fn pasted_messages_commands_and_sentences_find_their_answers() {
    let lines = |name: &str| {
        let text = std::fs::read_to_string(in_repository("fixtures/eval/pasted").join(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let model = in_repository("models/all-MiniLM-L6-v2").display().to_string();
    let gateway = Gateway::start_with(&[("WEIR_MODEL", model.as_str())]);
    let documents: Vec<Value> = lines("corpus.jsonl")
        .into_iter()
        .map(|line| json!({"id": line["_id"], "title": line["title"], "text": line["text"], "metadata": line["metadata"]}))
        .collect();
    documents.chunks(200).for_each(|batch| drop(gateway.ingest(batch)));
    let queries = lines("queries.jsonl");
    assert_eq!(queries.len(), 50);
    for syntax in ["auto", "text"] {
        let is_answered = |query: &&Value| {
            let body = json!({"query": query["text"], "syntax": syntax, "top_k": 3});
            let found = ask(&gateway, &body);
            let answer = query["_id"].as_str().unwrap();
            let is_found = ids(&found).split(' ').any(|id| id == answer);
            if !is_found {
                println!("{syntax}: {} finds {} ({})", query["text"], ids(&found), found["query"]);
            }
            is_found
        };
        let answered = queries.iter().filter(is_answered).count();
        println!("{syntax}: {answered} of {}", queries.len());
        assert!(answered >= ANSWERED_MIN, "{syntax}: {answered} of {}", queries.len());
    }
}
