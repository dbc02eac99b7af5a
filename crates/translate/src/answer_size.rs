//! The length of an answer by its text, for providers that have not counted its tokens.
//!
//! Only the model's own text counts: events of `/v1/responses` repeat the request and earlier text, and replies contain images, audio, signatures
//! and results of the provider's tools.

use crate::json::{Kind, Tape, Value};

/// Bytes of text per token.
const BYTES_PER_TOKEN: usize = 4;
/// Bytes of an event of an unknown shape with one token, give or take the names of its fields.
const EVENT_BYTES: usize = 512;
/// Fields within an answer without text of the model. Encoded reasoning and media are among them.
const NO_TEXT: [&str; 22] = [
    "role",
    "type",
    "id",
    "item_id",
    "call_id",
    "object",
    "status",
    "finish_reason",
    "finishReason",
    "logprobs",
    "logprobsResult",
    "signature",
    "thoughtSignature",
    "encrypted_content",
    "data",
    "inlineData",
    "image_url",
    "citation",
    "citations",
    "annotations",
    "result",
    "safetyRatings",
];

/// The part of an answer in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerPart {
    /// Tokens that continue the answer.
    Piece(u64),
    /// Tokens of the whole answer, of which earlier events may have had pieces.
    Whole(u64),
}

impl AnswerPart {
    /// The part in an event, or in a whole reply, of any API. A value of an unknown shape counts by its bytes.
    pub(crate) fn of(event: Value<'_>) -> AnswerPart {
        if let Some(choices) = event.get("choices") {
            return AnswerPart::of_choices(choices);
        }
        if let Some(candidates) = event.get("candidates") {
            let contents = candidates.items().filter_map(|candidate| candidate.get("content"));
            return AnswerPart::Piece(tokens(contents.map(text_bytes).sum()));
        }
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        let of = |name: &str| event.get(name).map_or(0, text_bytes);
        match &*kind {
            kind if kind.ends_with("audio.delta") => AnswerPart::Piece(0),
            kind if kind.starts_with("response.") && kind.ends_with(".delta") => {
                AnswerPart::Piece(tokens(of("delta")))
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                AnswerPart::Whole(tokens(event.at(&["response", "output"]).map_or(0, text_bytes)))
            }
            kind if kind.starts_with("response.") => AnswerPart::Piece(0),
            "content_block_start" => {
                let block = event.get("content_block").filter(|block| !is_result(*block));
                AnswerPart::Piece(tokens(block.map_or(0, text_bytes)))
            }
            "content_block_delta" => AnswerPart::Piece(tokens(of("delta"))),
            "message_start" | "message_delta" | "message_stop" | "content_block_stop" | "ping" => {
                AnswerPart::Piece(0)
            }
            _ => {
                match event.get("content").or_else(|| event.get("output")).filter(|value| value.is_array()) {
                    Some(blocks) => {
                        let own = blocks.items().filter(|block| !is_result(*block));
                        AnswerPart::Whole(tokens(own.map(text_bytes).sum()))
                    }
                    None => AnswerPart::Piece(tokens(event.raw().len().saturating_sub(EVENT_BYTES))),
                }
            }
        }
    }

    fn of_choices(choices: Value<'_>) -> AnswerPart {
        let of = |name: &str| -> usize {
            choices.items().filter_map(|choice| choice.get(name)).map(text_bytes).sum()
        };
        match of("delta") + of("text") {
            0 => AnswerPart::Whole(tokens(of("message"))),
            bytes => AnswerPart::Piece(tokens(bytes)),
        }
    }
}

/// The estimated tokens of the answer in a whole reply.
pub fn answer_tokens(reply: &[u8]) -> u64 {
    let Ok(tape) = Tape::parse(reply) else { return tokens(reply.len()) };
    match AnswerPart::of(tape.root(reply)) {
        AnswerPart::Piece(count) | AnswerPart::Whole(count) => count,
    }
}

fn tokens(bytes: usize) -> u64 {
    (bytes / BYTES_PER_TOKEN) as u64
}

/// Whether a block is the result of a tool that the provider ran: a part of the prompt.
fn is_result(block: Value<'_>) -> bool {
    block.get("type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("_result"))
}

/// Bytes of the strings of a part of an answer.
fn text_bytes(part: Value<'_>) -> usize {
    const QUOTES: usize = 2;
    match part.kind() {
        Kind::Plain | Kind::Escaped => part.raw().len() - QUOTES,
        Kind::Array => part.items().map(text_bytes).sum(),
        Kind::Object => {
            let texts = part.entries().filter(|(name, _)| !NO_TEXT.iter().any(|none| name.is(none)));
            texts.map(|(_, value)| text_bytes(value)).sum()
        }
        Kind::Null | Kind::True | Kind::False | Kind::Number => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_own_text_counts_and_nothing_else() {
        let text = "a".repeat(40);
        let check = |event: &str, expected: AnswerPart| {
            let event = event.replace("TEXT", &text);
            let tape = Tape::parse(event.as_bytes()).unwrap();
            assert_eq!(AnswerPart::of(tape.root(event.as_bytes())), expected, "{event}");
        };
        let piece = |event: &str, tokens: u64| check(event, AnswerPart::Piece(tokens));
        let whole = |event: &str, tokens: u64| check(event, AnswerPart::Whole(tokens));
        piece(r#"{"id":"TEXT","choices":[{"delta":{"role":"assistant","content":"TEXT","x":"TEXT"}}]}"#, 20);
        piece(r#"{"choices":[{"text":"TEXT","logprobs":{"tokens":["TEXT"]}},{"text":"TEXT"}]}"#, 20);
        piece(r#"{"choices":[{"delta":{"audio":{"id":"TEXT","data":"TEXT","transcript":"TEXT"}}}]}"#, 10);
        piece(
            r#"{"choices":[{"delta":{"content":"TEXT","images":[{"image_url":{"url":"data:TEXT"}}]}}]}"#,
            10,
        );
        whole(r#"{"choices":[{"message":{"role":"assistant","content":"TEXT"}}],"x":"TEXT"}"#, 10);
        piece(
            r#"{"candidates":[{"content":{"parts":[{"text":"TEXT"},{"inlineData":{"data":"TEXT"}}]},"groundingMetadata":{"x":"TEXT"}}]}"#,
            10,
        );
        piece(
            r#"{"type":"response.created","response":{"instructions":"TEXT","tools":[{"description":"TEXT"}]}}"#,
            0,
        );
        piece(r#"{"type":"response.output_text.delta","delta":"TEXT","item_id":"TEXT"}"#, 10);
        piece(r#"{"type":"response.output_audio.delta","delta":"TEXT"}"#, 0);
        piece(r#"{"type":"response.output_text.done","text":"TEXT"}"#, 0);
        piece(r#"{"type":"response.image_generation_call.partial_image","partial_image_b64":"TEXT"}"#, 0);
        whole(
            r#"{"type":"response.completed","response":{"instructions":"TEXT","output":[{"type":"message","content":[{"text":"TEXT","annotations":[{"url":"TEXT"}]}]},{"type":"image_generation_call","result":"TEXT"}]}}"#,
            10,
        );
        whole(r#"{"object":"response","instructions":"TEXT","output":[{"content":[{"text":"TEXT"}]}]}"#, 10);
        piece(r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"TEXT"}}"#, 10);
        piece(r#"{"type":"content_block_delta","delta":{"type":"signature_delta","signature":"TEXT"}}"#, 0);
        piece(
            r#"{"type":"content_block_start","content_block":{"type":"web_search_tool_result","content":[{"title":"TEXT"}]}}"#,
            0,
        );
        whole(
            r#"{"type":"message","content":[{"type":"text","text":"TEXT"},{"type":"web_search_tool_result","content":[{"title":"TEXT"}]}]}"#,
            10,
        );
        piece(&format!(r#"{{"x":"{}"}}"#, "a".repeat(1_000)), 124);
        assert_eq!(answer_tokens(b"<html>"), 1);
    }
}
