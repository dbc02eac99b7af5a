//! An unexpected answer as a person reads it.

use serde_json::Value;

/// Most of an unexpected body that is kept: errors in JSON are seldom longer, and what is cut can't be read as one.
pub(crate) const KEPT_BYTES_MAX: usize = 8 * 1024;
/// How much of a body without a message is shown.
const SHOWN_CHARS_MAX: usize = 200;

/// The message of an error in JSON, or else the beginning of the text; on one line.
pub(crate) fn excerpt(body: &str) -> String {
    let json = serde_json::from_str(body).unwrap_or(Value::Null);
    match message_of(&json) {
        Some(message) => one_line(message),
        None => match body.char_indices().nth(SHOWN_CHARS_MAX) {
            Some((end, _)) => one_line(&body[..end]) + "…",
            None => one_line(body),
        },
    }
}

/// Where OpenAI's API, RFC 9457, Cohere's API and TEI have it.
fn message_of(body: &Value) -> Option<&str> {
    let error = &body["error"];
    [&error["message"], &body["detail"], &body["message"], error].into_iter().find_map(Value::as_str)
}

/// The text without characters that would move a terminal's cursor.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_an_error_is_found_in_every_dialect() {
        for body in [
            r#"{"error":{"message":"a \"b\"","type":"t"},"detail":"c"}"#,
            r#"{"status":400,"detail":"a \"b\""}"#,
            r#"{"id":"i","message":"a \"b\""}"#,
            r#"{"error":"a \"b\"","error_type":"Validation"}"#,
        ] {
            assert_eq!(excerpt(body), r#"a "b""#, "{body}");
        }
    }

    #[test]
    fn what_has_no_message_is_shown_from_its_beginning_on_one_line() {
        for (body, expected) in [
            (r#"{"code":"overloaded"}"#, r#"{"code":"overloaded"}"#),
            ("\u{1b}[31mno\r\nway", " [31mno  way"),
            ("7", "7"),
            ("", ""),
        ] {
            assert_eq!(excerpt(body), expected);
        }
        assert_eq!(excerpt(&"é".repeat(201)), "é".repeat(200) + "…");
        assert_eq!(excerpt(&"é".repeat(200)), "é".repeat(200));
    }
}
