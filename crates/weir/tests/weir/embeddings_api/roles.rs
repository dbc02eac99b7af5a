//! What a text is for decides the prompt before it, and no prompt is put before a text of which nothing is said.

use serde_json::{Value, json};

use super::{bits, configured, embed};

const CONFIG: &str = r#"
[[models]]
id = "prompted"
kind = "pseudo"
dimension = 32
prompts.query = "query prompt: "
prompts.document = "document prompt: "
"#;

#[test]
fn each_role_has_its_prompt() {
    let (gateway, _file) = configured(CONFIG);
    let openai = |body: Value| bits(&embed(&gateway, "/v1/embeddings", &body)["data"][0]["embedding"]);
    let tei = |body: Value| bits(&embed(&gateway, "/embed", &body)[0]);
    let plain = |text: &str| openai(json!({"model": "prompted", "input": text}));
    let query = plain("query prompt: river");
    let document = plain("document prompt: river");
    let none = plain("river");
    assert!(query != document && query != none && document != none);

    let spellings = [
        ("query", &query),
        ("search_query", &query),
        ("retrieval.query", &query),
        ("document", &document),
        ("passage", &document),
        ("search_document", &document),
        ("retrieval.passage", &document),
    ];
    for (spelling, expected) in spellings {
        for field in ["input_type", "task", "prompt_name"] {
            let mut body = json!({"model": "prompted", "input": "river"});
            body[field] = json!(spelling);
            assert_eq!(&openai(body), expected, "{field} {spelling}");
        }
        assert_eq!(&tei(json!({"inputs": "river", "prompt_name": spelling})), expected, "TEI {spelling}");
    }
    assert_eq!(tei(json!({"inputs": "river"})), none);
    assert_eq!(tei(json!({"inputs": "river", "prompt_name": null})), none);
}

#[test]
fn the_tokens_of_a_prompt_are_counted() {
    let (gateway, _file) = configured(CONFIG);
    let body = json!({"model": "prompted", "input": ["river", "dam"], "input_type": "query"});
    let usage = &embed(&gateway, "/v1/embeddings", &body)["usage"];
    assert_eq!(usage, &json!({"prompt_tokens": 6, "total_tokens": 6}));
}
