//! One `check` per direction: a value of one API and the exact value of the other.

mod anthropic;
mod cases;
mod crossing;
mod gemini;
mod messages;
mod ollama;
mod properties;
mod rules;

use serde_json::Value;

use super::{ReplyContext, StreamTranslator, TranslateError};
use crate::TokenUsage;

fn context(include_usage: bool) -> ReplyContext {
    ReplyContext { id: "chatcmpl-7".to_owned(), created: 5, model: "alias".to_owned(), include_usage }
}

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error} in {json}"))
}

/// `field: reason` of a refused request must begin with this.
fn check_refusal(result: Result<Vec<u8>, TranslateError>, expected: &str) {
    let message = result.expect_err(expected).to_string();
    assert!(message.starts_with(expected), "{message} does not begin with {expected}");
}

/// Pushes events. Each chunk is written as `index delta finish_reason`, and the usage as `usage`.
fn run(mut stream: StreamTranslator, events: &[&str]) -> Result<(Vec<String>, TokenUsage), TranslateError> {
    let mut out = Vec::new();
    for data in events {
        stream.push(data, &mut out)?;
    }
    stream.finish(&mut out)?;
    let text = String::from_utf8(out).unwrap();
    let text = text.strip_suffix("data: [DONE]\n\n").expect("the stream's end");
    Ok((text.split_terminator("\n\n").map(chunk).collect(), stream.usage()))
}

fn chunk(event: &str) -> String {
    let chunk = parse(event.strip_prefix("data: ").expect("an event of data"));
    assert_eq!(
        (&chunk["id"], &chunk["object"], &chunk["created"], &chunk["model"]),
        (&"chatcmpl-7".into(), &"chat.completion.chunk".into(), &5.into(), &"alias".into())
    );
    match chunk["choices"].as_array().map(Vec::as_slice) {
        Some([]) => format!("usage {}", chunk["usage"]),
        Some([choice]) => {
            let reason = choice["finish_reason"].as_str().unwrap_or("-");
            format!("{} {} {reason}", choice["index"], choice["delta"])
        }
        choices => panic!("{choices:?}"),
    }
}

/// The chunks of a stream must be these.
fn check_stream(stream: StreamTranslator, events: &[&str], expected: &[&str]) {
    let (chunks, _) = run(stream, events).unwrap();
    assert_eq!(chunks, expected);
}
