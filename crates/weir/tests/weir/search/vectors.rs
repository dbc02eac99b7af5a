//! A ready vector in place of text, or beside it.

use serde_json::{Value, json};

use super::{Gateway, ask, ids, library, refused};

fn embedding(gateway: &Gateway, text: &str) -> Vec<f64> {
    let body = json!({"model": "pseudo", "input": text}).to_string();
    let reply = gateway.send("POST", "/v1/embeddings", Some(body.as_bytes())).json();
    reply["data"][0]["embedding"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

#[test]
fn a_vector_finds_what_its_text_finds() {
    let gateway = library();
    let vector = embedding(&gateway, "a sluice is a gate");
    let by_vector = ask(&gateway, &json!({"vector": vector, "explain": true}));
    let by_text = ask(&gateway, &json!({"query": "a sluice is a gate", "mode": "dense"}));
    assert_eq!(ids(&by_vector), ids(&by_text));
    assert_eq!(by_vector["results"][0]["scores"], by_text["results"][0]["scores"]);
    assert_eq!(
        (&by_vector["explain"]["embedding"], &by_vector["explain"]["mode"]),
        (&json!("given"), &json!("dense"))
    );
    let longer: Vec<f64> = vector.iter().map(|value| value * 7.0).collect();
    let scaled = ask(&gateway, &json!({"vector": longer}));
    assert_eq!(ids(&scaled), ids(&by_text), "its length makes no difference");
}

#[test]
fn beside_text_the_vector_ranks_by_meaning_and_the_text_by_words() {
    let gateway = library();
    let vector = embedding(&gateway, "a sluice is a gate");
    let both = ask(&gateway, &json!({"vector": vector, "query": "river", "top_k": 6}));
    let ranks = |id: &str| {
        let results = both["results"].as_array().unwrap();
        results.iter().find(|result| result["id"] == id).unwrap()["ranks"].clone()
    };
    assert_eq!(ranks("b")["lexical"], 1);
    assert_eq!(ranks("d")["dense"], 1);
    assert_eq!(ranks("d")["lexical"], Value::Null);
}

#[test]
fn a_vector_that_does_not_fit_is_refused() {
    let gateway = library();
    let length = embedding(&gateway, "a").len();
    let check = |vector: Value, more: Value, words: &str| {
        let mut body = json!({"vector": vector});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refused(&gateway, &body, "invalid_parameter", "vector", words);
    };
    let ones = vec![1.0; length];
    check(
        json!([1.0, 2.0]),
        json!({}),
        &format!("`vector` has 2 values; embeddings of the collection's model `pseudo` have {length}"),
    );
    check(json!([]), json!({}), "`vector` has 0 values");
    check(json!(vec![0.0; length]), json!({}), "points nowhere");
    check(json!([1e39]), json!({}), "too large for a 32-bit float");
    check(json!(ones), json!({"mode": "lexical", "query": "a"}), "does not use `vector`");
    check(json!("abc"), json!({}), "expected a list");
    refused(&gateway, &json!({"vector": [[1.0]]}), "invalid_parameter", "vector[0]", "expected a number");
    refused(
        &gateway,
        &json!({"vector": vec![0; 65_537]}),
        "invalid_parameter",
        "vector",
        "more than 65536 items",
    );
    gateway.send("PUT", "/v1/collections/words", Some(br#"{"embedding":"none"}"#));
    check(json!(ones), json!({"collection": "words"}), "has no embeddings");
}
