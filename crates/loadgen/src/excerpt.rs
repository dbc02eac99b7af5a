//! Shortens the body of an unexpected response to one readable line.

use serde_json::Value;

/// Longest beginning of an unexpected body that is kept. JSON errors are rarely longer; a cut one cannot be parsed.
pub(crate) const KEPT_BYTES_MAX: usize = 8 * 1024;
/// Characters shown of a body without an error message.
const SHOWN_CHARS_MAX: usize = 200;

/// The error message of a JSON body, or the beginning of any other body, on one line.
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

/// Finds the message where OpenAI's API, RFC 9457, Cohere's API or TEI put it.
fn message_of(body: &Value) -> Option<&str> {
    let error = &body["error"];
    [&error["message"], &body["detail"], &body["message"], error].into_iter().find_map(Value::as_str)
}

/// Replaces control characters, which would move a terminal's cursor.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_message_of_every_dialect_is_found() {
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
    fn a_body_without_an_error_message_is_cut_and_put_on_one_line() {
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
