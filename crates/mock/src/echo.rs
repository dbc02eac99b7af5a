//! Replies that repeat the prompt: what reached the provider, or quotations of its numbered sources.

use serde_json::Value;

use crate::request::each_text;

/// Reply of [`Echo::Cite`] to a prompt without sources.
const NO_SOURCES: &str = "The prompt has no sources.";

/// The part of the prompt that a reply repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Echo {
    /// Nothing; the reply has numbered tokens.
    Off,
    /// The text of the last user message.
    Last,
    /// The texts of all messages, separated by line feeds.
    All,
    /// The first sentence of each `<source n="1">…</source>`, as `"…" [1]` on a line of its own.
    Cite,
}

/// The text of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    is_user: bool,
    text: String,
}

/// The messages of a prompt: those of the system first, then `turns`, which is one text or a list of messages.
pub(crate) fn messages(system: &[&Value], turns: &Value) -> Vec<Message> {
    let system = system.iter().filter(|text| !text.is_null()).map(|value| message(value, false));
    let turns = turns.as_array().map_or(std::slice::from_ref(turns), Vec::as_slice);
    system.chain(turns.iter().map(|turn| message(turn, turn.is_string() || turn["role"] == "user"))).collect()
}

fn message(value: &Value, is_user: bool) -> Message {
    let mut texts = Vec::new();
    each_text(value, &mut |text| texts.push(text.to_owned()));
    Message { is_user, text: texts.join("\n") }
}

impl Echo {
    /// The text of a reply to these messages; `None` without echo.
    pub(crate) fn text(self, messages: impl FnOnce() -> Vec<Message>) -> Option<String> {
        match self {
            Echo::Off => None,
            Echo::Last => {
                let last = messages().into_iter().rfind(|message| message.is_user);
                Some(last.map(|message| message.text).unwrap_or_default())
            }
            Echo::All => {
                let texts: Vec<String> = messages().into_iter().map(|message| message.text).collect();
                Some(texts.join("\n"))
            }
            Echo::Cite => {
                let messages = messages();
                let sources = messages.iter().flat_map(|message| sources(&message.text));
                let quotations: Vec<String> = sources
                    .map(|(number, text)| format!("\"{}\" [{number}]", first_sentence(&unescape(text))))
                    .collect();
                Some(if quotations.is_empty() { NO_SOURCES.to_owned() } else { quotations.join("\n") })
            }
        }
    }
}

/// The numbers and the escaped texts of the sources in `text`.
fn sources(text: &str) -> Vec<(u32, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("<source ") {
        let Some((attributes, body)) = after.split_once('>') else { break };
        let Some((source, after)) = body.split_once("</source>") else { break };
        found.extend(number(attributes).map(|number| (number, source)));
        rest = after;
    }
    found
}

/// The value of the attribute `n`.
fn number(attributes: &str) -> Option<u32> {
    attributes.split_whitespace().find_map(|attribute| {
        let value = attribute.strip_prefix("n=\"")?.split('"').next()?;
        value.parse().ok()
    })
}

fn unescape(text: &str) -> String {
    // `&amp;` last, so that `&amp;lt;` becomes `&lt;`
    let names =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#39;", "'"), ("&amp;", "&")];
    names.iter().fold(text.to_owned(), |text, (name, character)| text.replace(name, character))
}

/// The text up to the first `.`, `!` or `?` that white space or the end follows, an empty line, or a quotation mark, which would
/// end the quotation. Headings of Markdown, white space and quotation marks before it are left out.
fn first_sentence(text: &str) -> &str {
    let is_mark = |char: char| char.is_whitespace() || char == '"';
    let mut text = text.trim_start_matches(is_mark);
    while let Some((_, rest)) = text.strip_prefix('#').and_then(|heading| heading.split_once('\n'))
        && !rest.trim_start_matches(is_mark).is_empty()
    {
        text = rest.trim_start_matches(is_mark);
    }
    let end = text.char_indices().find_map(|(at, char)| {
        let after = at + char.len_utf8();
        let rest = &text[after..];
        match char {
            '.' | '!' | '?' if rest.chars().next().is_none_or(char::is_whitespace) => Some(after),
            '\n' if rest.trim_start_matches([' ', '\t', '\r']).starts_with('\n') => Some(at),
            '"' => Some(at),
            _ => None,
        }
    });
    text[..end.unwrap_or(text.len())].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(echo: Echo, turns: &Value, expected: &str) {
        let found = echo.text(|| messages(&[&json!("be brief"), &Value::Null], turns));
        assert_eq!(found.as_deref(), Some(expected), "{echo:?}");
    }

    #[test]
    fn the_last_text_is_that_of_the_last_user_message() {
        let turns = json!([
            {"role": "user", "content": "one"},
            {"role": "user", "content": [{"type": "text", "text": "two  "}, {"type": "image_url"}, {"type": "text", "text": "three"}]},
            {"role": "assistant", "content": "four"},
        ]);
        check(Echo::Last, &turns, "two  \nthree");
        check(Echo::All, &turns, "be brief\none\ntwo  \nthree\nfour");
        check(Echo::Last, &json!("plain"), "plain");
        check(Echo::Last, &json!([{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}]), "a\nb");
        check(Echo::Last, &json!([{"role": "assistant", "content": "four"}]), "");
        assert_eq!(Echo::Off.text(|| panic!("the messages are not read")), None);
    }

    #[track_caller]
    fn check_citations(content: &str, expected: &str) {
        check(Echo::Cite, &json!([{"role": "user", "content": content}]), expected);
    }

    #[test]
    fn the_first_sentence_of_each_source_is_quoted() {
        check_citations(
            "Answer.\n<source n=\"1\" title=\"a. b\">\nSteam 2.5 bar &lt;hot&gt; &amp;amp; dry. More.</source> and <source n=\"12\">What? No</source>",
            "\"Steam 2.5 bar <hot> &amp; dry.\" [1]\n\"What?\" [12]",
        );
        check_citations("<source title=\"n\" n=\"3\">no end</source>", "\"no end\" [3]");
        check_citations("<source n=\"4\">Title\r\n \r\nText.</source>", "\"Title\" [4]");
        check_citations("<source n=\"7\"># A\n\n## B\nText.</source>", "\"Text.\" [7]");
        check_citations("<source n=\"8\"># A</source>", "\"# A\" [8]");
        check_citations("<source n=\"5\">&quot;Look&quot; he said.</source>", "\"Look\" [5]");
        check_citations("<source n=\"6\">Wraps\nlines.</source>", "\"Wraps\nlines.\" [6]");
    }

    #[test]
    fn what_is_no_source_is_not_quoted() {
        let none = "The prompt has no sources.";
        check_citations("what is steam?", none);
        check_citations(
            "<source n=\"x\">A.</source> <source>B.</source> &lt;source n=\"1\">C.&lt;/source>",
            none,
        );
        check_citations("<source n=\"1\">open", none);
    }
}
