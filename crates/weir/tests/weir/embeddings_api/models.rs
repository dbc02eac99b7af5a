//! `GET /v1/models`, and the names that a model is called by.

use serde_json::{Value, json};

use super::{Gateway, bits, configured, embed, in_repository, post, with_the_model};

const CONFIG: &str = r#"
[[models]]
id = "first"
kind = "pseudo"
dimension = 8
alias = ["text-embedding-3-small"]

[[models]]
id = "owner/second"
kind = "pseudo"
dimension = 16
"#;

fn get(gateway: &Gateway, path: &str) -> Value {
    let reply = gateway.send("GET", path, None);
    assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    assert_eq!(reply.header("content-type"), "application/json", "{path}");
    reply.json()
}

#[test]
fn models_are_listed_and_shown_in_the_shape_of_openai() {
    let (gateway, _file) = configured(CONFIG);
    let list = get(&gateway, "/v1/models");
    let created = list["data"][0]["created"].as_u64().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((now - 60..=now).contains(&created), "{created} is not now in unix seconds");
    let first = json!({
        "id": "first", "object": "model", "created": created, "owned_by": "weir", "alias": ["text-embedding-3-small"],
        "capabilities": ["embeddings"], "dimensions": 8, "max_input_tokens": null, "fingerprint": "pseudo-2-8",
    });
    let second = json!({
        "id": "owner/second", "object": "model", "created": list["data"][1]["created"], "owned_by": "weir", "alias": [],
        "capabilities": ["embeddings"], "dimensions": 16, "max_input_tokens": null, "fingerprint": "pseudo-2-16",
    });
    assert_eq!(list, json!({"object": "list", "data": [first, second]}));
    assert_eq!(get(&gateway, "/models"), list);
    for path in ["/v1/models/first", "/models/first", "/v1/models/text-embedding-3-small"] {
        assert_eq!(get(&gateway, path), first, "{path}");
    }
    for path in ["/v1/models/owner/second", "/v1/models/owner%2Fsecond", "/models/owner/second"] {
        assert_eq!(get(&gateway, path), second, "{path}");
    }
}

#[test]
fn a_model_that_is_not_there_is_answered_in_the_shape_of_openai() {
    let (gateway, _file) = configured(CONFIG);
    for path in ["/v1/models/owner/third", "/v1/models/owner%2Fthird", "/models/owner/third"] {
        let reply = gateway.send("GET", path, None);
        assert_eq!((reply.status, reply.header("content-type")), (404, "application/json"), "{path}");
        let message = "there is no model `owner/third`. `GET /v1/models` lists the names. In the configuration, `[[models]]` adds \
                       models that embed and rerank, `[[upstreams]]` and `[[routes]]` those for chat; `UPSTREAM/NAME` is any \
                       model of an upstream.";
        let error = json!({"error": {
            "message": message, "type": "invalid_request_error", "param": "model", "code": "model_not_found",
        }});
        assert_eq!(reply.json(), error, "{path}");
    }
}

#[test]
fn an_alias_is_as_good_as_the_id_and_is_echoed() {
    let (gateway, _file) = configured(CONFIG);
    let reply = |model: &str| embed(&gateway, "/v1/embeddings", &json!({"model": model, "input": "a weir"}));
    let (by_id, by_alias, other) = (reply("first"), reply("text-embedding-3-small"), reply("owner/second"));
    assert_eq!(by_alias["model"], "text-embedding-3-small");
    assert_eq!(by_alias["data"], by_id["data"]);
    assert_eq!(bits(&other["data"][0]["embedding"]).len(), 16);
}

#[test]
fn the_default_model_tells_its_limits() {
    let gateway = with_the_model(&[]);
    let model = get(&gateway, "/v1/models/all-MiniLM-L6-v2");
    assert_eq!((&model["dimensions"], &model["max_input_tokens"]), (&json!(384), &json!(256)));
    assert_eq!(model["fingerprint"].as_str().unwrap().len(), 32);
}

#[test]
fn embeddings_are_cut_to_lengths_that_the_model_was_trained_for() {
    let folder = in_repository("models/all-MiniLM-L6-v2");
    let toml = format!("[[models]]\nid = \"m\"\nfolder = {folder:?}\ndimensions = [64, 128]\n");
    let (gateway, _file) = configured(&toml);
    let floats = |reply: &Value| -> Vec<f64> {
        let numbers = reply["data"][0]["embedding"].as_array().unwrap();
        numbers.iter().map(|number| number.as_f64().unwrap()).collect()
    };
    let whole = floats(&embed(&gateway, "/v1/embeddings", &json!({"model": "m", "input": "a weir"})));
    assert_eq!(whole.len(), 384);
    let cut = floats(&embed(
        &gateway,
        "/v1/embeddings",
        &json!({"model": "m", "input": "a weir", "dimensions": 64}),
    ));
    let length = whole[..64].iter().map(|x| x * x).sum::<f64>().sqrt();
    let expected: Vec<f64> = whole[..64].iter().map(|x| x / length).collect();
    assert!(cut.len() == 64 && cut.iter().zip(&expected).all(|(x, y)| (x - y).abs() < 1e-6), "{cut:?}");
    let tei = embed(&gateway, "/embed", &json!({"inputs": "a weir", "dimensions": 128}));
    assert_eq!(tei[0].as_array().unwrap().len(), 128);
    let refused =
        post(&gateway, "/v1/embeddings", "", &json!({"model": "m", "input": "a weir", "dimensions": 65}));
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("dimensions")));
    let remedy = "leave it out, or send 64 or 128 or 384, the model's own";
    assert!(refused.text.contains(remedy), "{}", refused.text);
}
