//! The lists of models that providers give.

use serde_json::Value;

/// Most names that are kept of an upstream.
const NAMES_MAX: usize = 2_000;
/// Most bytes of the names that are kept of an upstream.
const NAMES_BYTES_MAX: usize = 128 << 10;

/// Parts of the names of models that do not chat; the lists of OpenAI, vLLM and Ollama do not say what a model does.
const NOT_FOR_CHAT: [&str; 11] = [
    "embed",
    "rerank",
    "whisper",
    "transcribe",
    "tts",
    "dall-e",
    "gpt-image",
    "sora",
    "moderation",
    "babbage",
    "davinci",
];

/// The names of models for chat in a list of any provider; `None` for what is no list. OpenAI and Anthropic have `data`, Gemini has `models`, some servers a list alone.
pub fn listed_models(body: &[u8]) -> Option<Vec<String>> {
    let reply: Value = serde_json::from_slice(body).ok()?;
    let list = reply.as_array().or(reply["data"].as_array()).or(reply["models"].as_array())?;
    let mut names = Vec::new();
    let mut bytes = 0;
    for model in list {
        let name = model["id"].as_str().or(model["name"].as_str()).unwrap_or_default();
        let name = name.strip_prefix("models/").unwrap_or(name);
        let does = model["supportedGenerationMethods"].as_array();
        let is_for_chat = does.is_none_or(|all| all.iter().any(|method| method == "generateContent"))
            && !NOT_FOR_CHAT.iter().any(|part| name.to_ascii_lowercase().contains(part));
        if name.is_empty() || name.contains(char::is_control) || !is_for_chat {
            continue;
        }
        bytes += name.len();
        if names.len() == NAMES_MAX || bytes > NAMES_BYTES_MAX {
            break;
        }
        names.push(name.to_owned());
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_all_providers_are_read_without_what_does_not_chat() {
        let check = |body: &str, expected: Option<&[&str]>| {
            let names = listed_models(body.as_bytes());
            let expected: Option<Vec<String>> =
                expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(names, expected, "{body}");
        };
        check(
            r#"{"object":"list","data":[{"id":"gpt-5"},{"id":"text-embedding-3-small"},{"id":"org/Qwen3-Reranker"},{"id":""},{"id":"a\u0007"}]}"#,
            Some(&["gpt-5"]),
        );
        check(r#"{"data":[{"type":"model","id":"claude-x"}],"has_more":false}"#, Some(&["claude-x"]));
        check(
            r#"{"models":[{"name":"models/gemini-x","supportedGenerationMethods":["generateContent"]},{"name":"models/aqa","supportedGenerationMethods":["generateAnswer"]}]}"#,
            Some(&["gemini-x"]),
        );
        check(r#"[{"id":"together/one"}]"#, Some(&["together/one"]));
        check(r#"{"error":"no"}"#, None);
        check("<html>", None);
    }

    #[test]
    fn a_list_is_cut_at_its_bounds() {
        let list = |count: usize, name: &str| {
            let models: Vec<Value> =
                (0..count).map(|number| serde_json::json!({"id": format!("{name}{number}")})).collect();
            listed_models(serde_json::json!({"data": models}).to_string().as_bytes()).unwrap()
        };
        assert_eq!(list(NAMES_MAX + 1, "m").len(), NAMES_MAX);
        let long = list(400, &"x".repeat(1_000));
        assert!(long.iter().map(String::len).sum::<usize>() <= NAMES_BYTES_MAX && long.len() > 100);
    }
}
