//! Token ids in place of texts, as LangChain sends them.

use serde_json::{Value, json};

use super::{configured, embed, post};

/// A vocabulary of a few tokens in the form of tiktoken.
const VOCABULARY: &str = "YQ== 0\nIGxvdw== 1\nIGRhbQ== 2\nw7w= 3\n";

#[test]
fn token_ids_are_embedded_as_the_texts_that_they_stand_for() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), VOCABULARY).unwrap();
    let toml = format!(
        "[[models]]\nid = \"with\"\nkind = \"pseudo\"\ndecode_token_ids = {:?}\n[[models]]\nid = \"without\"\nkind = \"pseudo\"\n",
        file.path()
    );
    let (gateway, _file) = configured(&toml);
    let embeddings = |model: &str, input: Value| -> Value {
        let reply = embed(&gateway, "/v1/embeddings", &json!({"model": model, "input": input}));
        json!([reply["data"], reply["usage"]])
    };
    assert_eq!(embeddings("with", json!([0, 1, 2])), embeddings("without", json!("a low dam")));
    assert_eq!(embeddings("with", json!([[0, 1, 2], [3]])), embeddings("without", json!(["a low dam", "ü"])));
    let refused = |model: &str, input: Value| -> (u16, Value) {
        let reply = post(&gateway, "/v1/embeddings", "", &json!({"model": model, "input": input}));
        (reply.status, reply.json()["error"].clone())
    };
    let (status, error) = refused("with", json!([[0], [0, 4]]));
    assert_eq!((status, &error["param"]), (400, &json!("input[1]")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("no token 4"), "{error}");
    assert_eq!(refused("with", json!([[0], []])).1["code"], "empty_input");
    assert_eq!(refused("without", json!([[0]])).1["code"], "token_input_unsupported");
}
