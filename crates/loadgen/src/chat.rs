//! Generated chat requests of a given size.

use anyhow::ensure;
use serde_json::json;

/// The words of the message.
const WORDS: &[u8] = b"water over the weir ";

/// A chat completion request of exactly `bytes` bytes, with one message of plain words.
pub(crate) fn request(model: &str, bytes: usize, is_stream: bool) -> anyhow::Result<Vec<u8>> {
    let message = |content: &str| json!([{ "role": "user", "content": content }]);
    let mut body = json!({ "model": model, "messages": message("") });
    if is_stream {
        body["stream"] = json!(true);
    }
    let empty = body.to_string().len();
    ensure!(bytes > empty, "--chat-bytes is {bytes}, but must be more than {empty}, the size without a text");
    let content: Vec<u8> = WORDS.iter().copied().cycle().take(bytes - empty).collect();
    body["messages"] = message(&String::from_utf8_lossy(&content));
    Ok(body.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_request_has_the_given_size_and_is_json() {
        for (bytes, is_stream) in [(100, true), (1024, false), (100_000, true)] {
            let request = request("m", bytes, is_stream).unwrap();
            assert_eq!(request.len(), bytes);
            let parsed: Value = serde_json::from_slice(&request).unwrap();
            assert_eq!((&parsed["model"], parsed["stream"] == true), (&json!("m"), is_stream));
            assert!(parsed["messages"][0]["content"].as_str().unwrap().starts_with("water over"));
        }
    }

    #[test]
    fn a_size_without_room_for_a_text_is_an_error() {
        let error = request("m", 20, true).unwrap_err().to_string();
        assert!(error.starts_with("--chat-bytes is 20, but must be more than "), "{error}");
    }
}
