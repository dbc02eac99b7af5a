//! OpenAI's embeddings and models.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::case::{Case, Needs};
use crate::expect::{self, Finding};
use crate::probe::{Answer, Sent};
use crate::target::CheckedServer;
use crate::{MODEL_THAT_IS_NOT, TEXT};

const EMBEDDINGS: &str = "/v1/embeddings";
/// One more than OpenAI takes in a request.
const TOO_MANY_TEXTS: usize = 2_049;

pub(crate) fn cases(target: &CheckedServer) -> Vec<Case<'_>> {
    let model = target.model();
    let reference = target.reference.as_deref();
    let post = |body: &Value| Sent::post(EMBEDDINGS, body);
    let embeds = [
        Case::new(
            "one text",
            post(&json!({"model": model, "input": TEXT, "user": "selftest"})),
            "200: a list with one embedding as numbers, `model`, `usage`",
            move |answer| {
                let floats = expect::floats(&embeddings(answer, 1)?, "/data/0/embedding")?;
                expect::same_embedding(&floats, reference)?;
                Ok(format!("{} dimensions", floats.len()))
            },
        ),
        Case::new(
            "list of texts",
            post(&json!({"model": model, "input": ["bread", TEXT]})),
            "200: an embedding of each text, in order",
            move |answer| {
                let reply = embeddings(answer, 2)?;
                let first = expect::floats(&reply, "/data/0/embedding")?;
                let second = expect::floats(&reply, "/data/1/embedding")?;
                expect::same_embedding(&second, reference)?;
                expect::same_embedding(&first, Some(&second))
                    .err()
                    .ok_or("both texts have the same embedding")?;
                Ok("2 embeddings".to_owned())
            },
        ),
        Case::new(
            "base64",
            post(&json!({"model": model, "input": TEXT, "encoding_format": "base64"})),
            "200: the same embedding as little-endian floats in base64",
            move |answer| {
                let reply = embeddings(answer, 1)?;
                let text = expect::text(&reply, "/data/0/embedding")?;
                let bytes = STANDARD
                    .decode(text)
                    .map_err(|error| format!("`/data/0/embedding` is not base64: {error}"))?;
                let floats = expect::floats_of_bytes(&bytes)?;
                expect::same_embedding(&floats, reference)?;
                Ok(format!("{} bytes", bytes.len()))
            },
        ),
        Case::new(
            "empty text",
            post(&json!({"model": model, "input": ""})),
            "400 with OpenAI's error",
            |answer| error(answer, 400),
        ),
        Case::new(
            "empty list",
            post(&json!({"model": model, "input": []})),
            "400 with OpenAI's error",
            |answer| error(answer, 400),
        ),
        Case::new(
            "2,049 texts",
            post(&json!({"model": model, "input": vec!["a"; TOO_MANY_TEXTS]})),
            "400 with OpenAI's error: a request has up to 2,048 texts",
            |answer| error(answer, 400),
        ),
        Case::new(
            "bad dimensions",
            post(&json!({"model": model, "input": TEXT, "dimensions": 0})),
            "400 with OpenAI's error, `param` is `dimensions`",
            |answer| {
                let found = error(answer, 400)?;
                expect::equal(&answer.json()?, "/error/param", &json!("dimensions"))?;
                Ok(found)
            },
        ),
        Case::new(
            "one model",
            Sent::get(&format!("/v1/models/{model}")),
            "200: the model with `id`, `object`, `created` and `owned_by`",
            |answer| model_object(&expect::success(answer)?, ""),
        ),
    ];
    let others = [
        Case::new(
            "unknown model",
            post(&json!({"model": MODEL_THAT_IS_NOT, "input": TEXT})),
            "404 with OpenAI's error, `code` is `model_not_found`",
            |answer| {
                let found = error(answer, 404)?;
                expect::equal(&answer.json()?, "/error/code", &json!("model_not_found"))?;
                Ok(found)
            },
        ),
        Case::new(
            "invalid JSON",
            Sent::post_text(EMBEDDINGS, "{\"model\":".to_owned()),
            "400 with OpenAI's error",
            |answer| error(answer, 400),
        ),
        Case::new("list of models", Sent::get("/v1/models"), "200: a list of models", |answer| {
            let reply = expect::success(answer)?;
            expect::equal(&reply, "/object", &json!("list"))?;
            let models = expect::list(&reply, "/data", None)?;
            for number in 0..models.len() {
                model_object(&reply, &format!("/data/{number}"))?;
            }
            Ok(format!("{} models", models.len()))
        }),
    ];
    embeds.into_iter().map(|case| case.needs(Needs::Embedder)).chain(others).collect()
}

/// A reply with embeddings of this number of texts.
fn embeddings(answer: &Answer, length: usize) -> Finding<Value> {
    let reply = expect::success(answer)?;
    expect::equal(&reply, "/object", &json!("list"))?;
    expect::list(&reply, "/data", Some(length))?;
    for number in 0..length {
        expect::equal(&reply, &format!("/data/{number}/object"), &json!("embedding"))?;
        expect::equal(&reply, &format!("/data/{number}/index"), &json!(number))?;
    }
    expect::text(&reply, "/model")?;
    expect::count(&reply, "/usage/prompt_tokens")?;
    expect::count(&reply, "/usage/total_tokens")?;
    Ok(reply)
}

/// An error with the four fields that clients read.
fn error(answer: &Answer, status: u16) -> Finding {
    expect::status(answer, status)?;
    let reply = answer.json()?;
    let message = expect::text(&reply, "/error/message")?;
    expect::text(&reply, "/error/type")?;
    expect::at(&reply, "/error/param")?;
    expect::at(&reply, "/error/code")?;
    Ok(format!("{status} {message}"))
}

fn model_object(reply: &Value, pointer: &str) -> Finding {
    let id = expect::text(reply, &format!("{pointer}/id"))?;
    expect::equal(reply, &format!("{pointer}/object"), &json!("model"))?;
    expect::count(reply, &format!("{pointer}/created"))?;
    expect::text(reply, &format!("{pointer}/owned_by"))?;
    Ok(id.to_owned())
}
