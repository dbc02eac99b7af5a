//! OpenAI's `POST /v1/embeddings`: a short vector that depends on the text alone.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::random::{RequestRng, mix};
use crate::request::{self, Refusal};

const DIMENSIONS: u64 = 8;
const DIMENSIONS_MAX: u64 = 4096;
/// OpenAI's limit.
const INPUTS_MAX: usize = 2048;

/// The reply to a request with this body.
pub(crate) fn reply(body: &Value) -> Result<String, Refusal> {
    let model = request::string(body, "model")?;
    let dimensions = match request::tokens_max(body, "dimensions")? {
        None => DIMENSIONS,
        Some(dimensions) if dimensions <= DIMENSIONS_MAX => dimensions,
        Some(_) => return Err(Refusal::invalid("dimensions", "must be at most 4096")),
    };
    let as_base64 = body["encoding_format"] == "base64";
    let inputs = inputs(body)?;
    let tokens: u64 = inputs.iter().map(|input| tokens(input)).sum();
    let data: Vec<Value> = inputs
        .iter()
        .enumerate()
        .map(|(index, input)| {
            let vector = embed(input, dimensions);
            let embedding = if as_base64 { encode(&vector) } else { json!(vector) };
            json!({"object": "embedding", "index": index, "embedding": embedding})
        })
        .collect();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    Ok(json!({"object": "list", "data": data, "model": model, "usage": usage}).to_string())
}

/// The inputs: a string, strings, or one or several lists of token ids.
fn inputs(body: &Value) -> Result<Vec<&Value>, Refusal> {
    let input = request::required(body, "input")?;
    let inputs = match input.as_array() {
        Some(items) if !items[0].is_number() => items.iter().collect(),
        Some(_) | None => vec![input],
    };
    if inputs.len() > INPUTS_MAX {
        return Err(Refusal::invalid("input", "must have at most 2048 items"));
    }
    Ok(inputs)
}

/// Words of a text, or number of token ids.
fn tokens(input: &Value) -> u64 {
    input.as_array().map_or_else(|| request::words(input), |ids| ids.len() as u64)
}

/// A vector of length one.
fn embed(input: &Value, dimensions: u64) -> Vec<f32> {
    let text = input.as_str().map_or_else(|| input.to_string(), str::to_owned);
    let seed = text.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
    let raw: Vec<f64> =
        (0..dimensions).map(|draw| RequestRng { seed, request: 0 }.unit(draw) * 2.0 - 1.0).collect();
    let norm = raw.iter().map(|value| value * value).sum::<f64>().sqrt();
    raw.iter().map(|value| (value / norm) as f32).collect()
}

/// Base64 of little-endian floats.
fn encode(vector: &[f32]) -> Value {
    let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
    STANDARD.encode(bytes).into()
}
