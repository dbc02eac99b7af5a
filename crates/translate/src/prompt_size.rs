//! How large a prompt is before a provider has counted it: text, images, audio, files, and context that the provider has stored.
//!
//! Only data in the place where an API has data of an image, of audio or of a file is taken out of the text. The same characters anywhere else
//! are text, which providers read as such.

use std::ops::Range;

use crate::json::{self, Kind, Value};

/// Bytes of text per token, for a rough estimate: common for English in JSON.
const BYTES_PER_TOKEN: u64 = 4;
/// Tokens of an image, for estimates: those of an image of 2048 by 4096 pixels in high detail, by OpenAI's page on vision.
const IMAGE_TOKENS: u64 = 1_105;
/// Characters of base64 per token of audio, for estimates: MP3 at 64 kbit/s, of which a second is 32 tokens (Gemini's page on audio).
const AUDIO_CHARACTERS_PER_TOKEN: u64 = 300;
/// The same for the bound: speech at 6 kbit/s.
const AUDIO_CHARACTERS_PER_TOKEN_MIN: u64 = 30;
/// Tokens of a file, for estimates, and characters of base64 for each further one: 50 kB and 2,000 tokens for a page of a PDF.
const FILE_TOKENS: u64 = 2_000;
const FILE_CHARACTERS_PER_TOKEN: u64 = 30;
/// Tokens that providers add to a prompt at most: instructions of their own (xAI: 700), the description of how tools are called (Anthropic: 735),
/// and each tool of their own (Anthropic: up to 735 for one).
const ADDED_TOKENS: u64 = 1_000;
/// Parts may be within results of tools and within documents.
const DEPTH_MAX: u32 = 4;
/// Types of parts, items and blocks that are text.
const TEXT_KINDS: [&str; 21] = [
    "text",
    "input_text",
    "output_text",
    "refusal",
    "summary_text",
    "reasoning_text",
    "reasoning",
    "thinking",
    "redacted_thinking",
    "message",
    "function",
    "search_result",
    "tool_reference",
    "reference",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "compaction",
    "compaction_trigger",
    "document",
    "json",
];
/// The ends of types of calls and of their results.
const TEXT_KIND_ENDS: [&str; 5] = ["_call", "_output", "_use", "_result", "_response"];
/// Keys of parts without a type, as inputs of embeddings have them, that are text.
const TEXT_KEYS: [&str; 4] = ["text", "title", "name", "content"];
/// The start of a text that is looked at for the estimate. Longer ones are estimated by it.
const ESTIMATED_BYTES_MAX: usize = 1 << 20;

/// The size of a prompt by its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PromptSize {
    bytes: usize,
    /// The ranges of data in the body that is no text.
    data: Vec<Range<usize>>,
    images: u64,
    audio_characters: u64,
    files: u64,
    file_characters: u64,
    /// Whether the provider adds context that it has stored.
    has_stored: bool,
    /// Parts to which the provider adds a text of its own: the prompt, the way to call tools, each tool of the provider.
    added_texts: u64,
    may_cache_1h: bool,
}

impl PromptSize {
    /// The size of the prompt of a request, by the fields of chat completions, completions, responses, messages and embeddings.
    pub fn of(fields: Value<'_>) -> PromptSize {
        let body = fields.document();
        let is_set = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
        let mut size = PromptSize {
            bytes: body.len(),
            has_stored: is_set("previous_response_id")
                || is_set("conversation")
                || fields.get("prompt").is_some_and(|prompt| prompt.kind() == Kind::Object),
            added_texts: 1
                + u64::from(is_set("tools") || is_set("functions"))
                + fields.get("tools").into_iter().flat_map(Value::items).filter(is_of_provider).count()
                    as u64,
            may_cache_1h: fields.tape().has_string(body, "ttl"),
            ..PromptSize::default()
        };
        for name in ["messages", "input"] {
            for message in fields.get(name).into_iter().flat_map(Value::items) {
                size.add(message, DEPTH_MAX);
            }
        }
        for part in fields.get("system").into_iter().flat_map(Value::items) {
            size.add(part, DEPTH_MAX);
        }
        size
    }

    /// A message, an item or a part, and the parts within it.
    fn add(&mut self, part: Value<'_>, depth: u32) {
        let (mut kind, mut result, mut has_content, mut has_id) = (None, None, false, false);
        let before = (self.images, self.files, self.audio_characters, self.has_stored);
        let mut has_other = false;
        for (key, value) in part.entries() {
            if key.is("type") {
                kind = Some(value);
            } else if key.is("content") || key.is("output") || key.is("role") {
                has_content = true;
                if depth > 0 {
                    value.items().for_each(|part| self.add(part, depth - 1));
                    if value.kind() == Kind::Object {
                        self.add(value, depth - 1);
                    }
                }
            } else if key.is("images") && depth > 0 {
                value.items().for_each(|part| self.add(part, depth - 1));
            } else if key.is("result") {
                result = Some(value);
            } else if key.is("image_url") || key.is("video_url") || key.is("audio_url") {
                self.add_url(key, value);
            } else if key.is("input_audio") {
                self.add_audio(value.get("data").unwrap_or(value));
            } else if key.is("file") || key.is("file_data") || key.is("file_url") {
                self.add_file(value.get("file_data").unwrap_or(value));
            } else if key.is("file_id") {
                self.files += 1;
            } else if key.is("audio") && value.get("id").is_some() {
                // of an answer before
                self.has_stored = true;
            } else if key.is("source") {
                self.add_source(part, value, depth);
            } else if key.is("id") {
                has_id = true;
            } else {
                has_other |= !value.is_null() && !TEXT_KEYS.iter().any(|name| key.is(name));
            }
        }
        let is = |name: &str| kind.is_some_and(|kind| kind.is(name));
        if is("item_reference") || kind.is_none() && has_id && !has_content {
            self.has_stored = true;
        }
        if let Some(image) = result.filter(|_| is("image_generation_call")) {
            self.images += 1;
            self.take_data(image, "");
        }
        if is("input_image") && part.get("image_url").is_none_or(Value::is_null) {
            self.images += 1;
        }
        // what is not understood may be an image or a file
        let is_counted = before != (self.images, self.files, self.audio_characters, self.has_stored);
        let is_text = match kind {
            Some(kind) => is_text_kind(kind),
            None => has_content || !has_other,
        };
        if is_counted || is_text {
        } else if is("image") || is("image_url") {
            self.images += 1;
        } else {
            self.files += 1;
        }
    }

    fn add_url(&mut self, key: Value<'_>, value: Value<'_>) {
        if value.is_null() {
            return;
        }
        let url = value.get("url").unwrap_or(value);
        if key.is("image_url") {
            self.images += 1;
            let is_untyped = starts_with(url, "data:application/octet-stream");
            self.take_data(url, if is_untyped { "" } else { "data:image/" });
        } else if key.is("audio_url") && starts_with(url, "data:") {
            self.add_audio(url);
        } else {
            self.add_file(url);
        }
    }

    /// Anthropic's `source` of an image or of a document.
    fn add_source(&mut self, part: Value<'_>, source: Value<'_>, depth: u32) {
        let is_image = part.get("type").is_some_and(|kind| kind.is("image"));
        match source.get("type") {
            Some(kind) if kind.is("text") => {}
            Some(kind) if kind.is("content") => {
                let content = source.get("content").filter(|_| depth > 0);
                content.into_iter().flat_map(Value::items).for_each(|part| self.add(part, depth - 1));
            }
            _ if is_image => {
                self.images += 1;
                if let Some(data) = source.get("data") {
                    self.take_data(data, "");
                }
            }
            _ => self.add_file(source.get("data").unwrap_or(source)),
        }
    }

    fn add_audio(&mut self, data: Value<'_>) {
        if starts_with(data, "http") {
            self.files += 1;
        } else {
            self.audio_characters += self.take_data(data, "");
        }
    }

    fn add_file(&mut self, data: Value<'_>) {
        if data.is_null() {
            return;
        }
        self.files += 1;
        self.file_characters += self.take_data(data, "");
    }

    /// Takes a string out of the text if it starts so. Returns its length.
    fn take_data(&mut self, data: Value<'_>, start: &str) -> u64 {
        if !data.is_string() || !starts_with(data, start) {
            return 0;
        }
        let range = data.range();
        let length = range.len() as u64;
        self.data.push(range);
        length
    }

    fn text_bytes(&self) -> u64 {
        let data: usize = self.data.iter().map(Range::len).sum();
        self.bytes.saturating_sub(data) as u64
    }

    /// Tokens of what is no text, estimated.
    fn media_tokens(&self) -> u64 {
        self.images * IMAGE_TOKENS
            + self.audio_characters / AUDIO_CHARACTERS_PER_TOKEN
            + self.files * FILE_TOKENS
            + self.file_characters / FILE_CHARACTERS_PER_TOKEN
    }

    /// Estimated tokens, without context that the provider has stored.
    pub fn tokens(&self) -> u64 {
        self.text_bytes() / BYTES_PER_TOKEN + 1 + self.media_tokens()
    }

    /// Estimated tokens, with a look at the text, rather too many than too few. Stored context counts as `context_max`.
    pub fn careful_tokens(&self, body: &[u8], context_max: u64) -> u64 {
        if self.has_stored {
            return context_max;
        }
        let mut ranges = self.data.clone();
        ranges.sort_by_key(|range| range.start);
        let (mut at, mut looked_at, mut tokens) = (0, 0, 0);
        for range in ranges.into_iter().chain(std::iter::once(body.len()..body.len())) {
            let left = ESTIMATED_BYTES_MAX.saturating_sub(looked_at);
            let text = body.get(at..range.start).unwrap_or_default();
            let text = &text[..text.len().min(left)];
            looked_at += text.len();
            tokens += pieces(text);
            at = range.end;
        }
        let tokens = u128::from(tokens) * u128::from(self.text_bytes()) / (looked_at.max(1) as u128);
        u64::try_from(tokens).unwrap_or(u64::MAX).saturating_add(self.media_tokens())
    }

    /// Tokens that no prompt of this size exceeds, where an image has at most `image_max` tokens and the model's context `context_max`:
    /// a token of text has a byte at least.
    pub fn tokens_max(&self, image_max: u64, context_max: u64) -> u64 {
        if self.has_stored || self.files > 0 {
            return context_max.max(self.tokens());
        }
        self.text_bytes()
            .saturating_add(self.images.saturating_mul(image_max))
            .saturating_add(self.audio_characters / AUDIO_CHARACTERS_PER_TOKEN_MIN)
            .saturating_add(self.added_texts.saturating_mul(ADDED_TOKENS))
    }

    /// Whether the request may ask the provider to keep its prompt for an hour, which costs more.
    pub fn may_cache_1h(&self) -> bool {
        self.may_cache_1h
    }
}

/// Whether a part, an item or a block of this type has no image and no file but in fields that are looked at.
fn is_text_kind(kind: Value<'_>) -> bool {
    let Some(kind) = kind.as_str() else { return false };
    TEXT_KINDS.contains(&&*kind) || TEXT_KIND_ENDS.iter().any(|end| kind.ends_with(end))
}

/// Whether a tool is one of the provider: neither a function nor another one that the caller describes.
fn is_of_provider(tool: &Value<'_>) -> bool {
    tool.get("type").is_some_and(|kind| !kind.is("function") && !kind.is("custom"))
}

/// Whether a string starts so, in any case and however it is escaped.
fn starts_with(value: Value<'_>, start: &str) -> bool {
    /// Bytes of an escape.
    const ESCAPE_BYTES: usize = 6;
    let Some(text) = value.raw().get(1..).filter(|_| value.is_string()) else { return false };
    let is_start =
        |text: &[u8]| text.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start.as_bytes()));
    if value.kind() == Kind::Plain {
        return is_start(text);
    }
    // an escape that is cut off here is behind the start
    let head = text.get(..start.len() * ESCAPE_BYTES).unwrap_or(&text[..text.len() - 1]);
    let quoted = |end: usize| [b"\"", &head[..end], b"\""].concat();
    let ends = (0..ESCAPE_BYTES).filter_map(|cut| head.len().checked_sub(cut));
    let head = ends.into_iter().find_map(|end| json::unescaped(&quoted(end)));
    head.is_some_and(|head| is_start(head.as_bytes()))
}

/// The tokens of a text as tokenizers split it at most: each word of up to six letters, each run of three digits, and each other sign.
fn pieces(text: &[u8]) -> u64 {
    const LETTERS: u64 = 6;
    const DIGITS: u64 = 3;
    let (mut count, mut letters, mut digits, mut others) = (0, 0, 0, 0);
    for &byte in text {
        if byte.is_ascii_alphabetic() {
            letters += 1;
            digits = 0;
            count += u64::from(letters % LETTERS == 1);
        } else if byte.is_ascii_digit() {
            digits += 1;
            letters = 0;
            count += u64::from(digits % DIGITS == 1);
        } else {
            (letters, digits) = (0, 0);
            if byte >= 0x80 {
                // two bytes or three are a letter of other scripts
                others += 1;
            } else if byte != b' ' {
                count += 1;
            }
        }
    }
    count + others / 2 + others % 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Tape;

    fn size(body: &str) -> PromptSize {
        PromptSize::of(Tape::parse(body.as_bytes()).unwrap().root(body.as_bytes()))
    }

    const CONTEXT: u64 = 400_000;

    /// The estimate and the bound of a prompt beside its text.
    fn check(body: &str, media: u64, bound: u64) {
        let size = size(body);
        let text = size.text_bytes();
        assert_eq!(size.tokens(), text / 4 + 1 + media, "{body}");
        assert_eq!(size.tokens_max(5_000, CONTEXT), text + ADDED_TOKENS + bound, "{body}");
    }

    #[test]
    fn data_is_counted_by_its_kind_and_text_by_its_bytes() {
        let data = "A".repeat(30_000);
        let body = |content: &str| format!(r#"{{"messages":[{{"role":"user","content":[{content}]}}]}}"#);
        check(&body(r#"{"type":"text","text":"hi"}"#), 0, 0);
        let image = format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#);
        check(&body(&image), 1_105, 5_000);
        check(&body(&format!("{image},{image}")), 2_210, 10_000);
        check(&body(r#"{"type":"image_url","image_url":{"url":"http://x/a.png"}}"#), 1_105, 5_000);
        let block = format!(
            r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#
        );
        check(&body(&block), 1_105, 5_000);
        check(&body(&format!(r#"{{"type":"tool_result","content":[{block}]}}"#)), 1_105, 5_000);
        let audio = format!(r#"{{"type":"input_audio","input_audio":{{"data":"{data}","format":"mp3"}}}}"#);
        check(&body(&audio), 100, 1_000);
        let input = format!(
            r#"{{"input":[{{"role":"user","content":[{{"type":"input_image","image_url":"data:image/png;base64,{data}"}},{{"type":"input_image","file_id":"f"}}]}}]}}"#
        );
        assert_eq!(size(&input).images, 2);
        // images that a model made
        let made = format!(
            r#"{{"messages":[{{"role":"assistant","content":"a","images":[{image}]}}],"input":[{{"type":"image_generation_call","result":"{data}"}}]}}"#
        );
        assert_eq!((size(&made).images, size(&made).tokens_max(5_000, CONTEXT) < 12_000), (2, true));
        let text = format!(r#"{{"input":[{{"type":"message","result":"{data}","images":["{data}"]}}]}}"#);
        assert!(size(&text).tokens_max(5_000, CONTEXT) > 60_000);
        // data in the place of text is text
        let text = format!("data:image/png;base64,{data}");
        for part in [
            format!(r#"{{"type":"text","text":"{text}"}}"#),
            format!(r#"{{"type":"image_url","text":"{text}"}}"#),
            format!(r#"{{"type":"document","source":{{"type":"text","data":"{data}"}}}}"#),
        ] {
            let size = size(&body(&part));
            assert!(size.tokens_max(5_000, CONTEXT) > 30_000, "{size:?}");
        }
        for url in [
            "data:image\\/png;base64,",
            "DATA:image/png;base64,",
            "\\u0064ata:image/png;base64,",
            "data:application/octet-stream;base64,",
        ] {
            let part = format!(r#"{{"type":"image_url","image_url":{{"url":"{url}{data}\\/"}}}}"#);
            assert!(size(&body(&part)).tokens() < 1_200, "{url}");
        }
        let image_of_text = format!(r#"{{"type":"image_url","image_url":{{"url":"a {data}"}}}}"#);
        assert!(size(&body(&image_of_text)).tokens_max(5_000, CONTEXT) > 35_000);
    }

    #[test]
    fn what_the_request_does_not_show_is_the_length_of_the_context() {
        for body in [
            r#"{"input":"a","previous_response_id":"resp_1"}"#,
            r#"{"input":"a","conversation":{"id":"c"}}"#,
            r#"{"prompt":{"id":"p"}}"#,
            r#"{"input":[{"type":"item_reference","id":"i"}]}"#,
            r#"{"input":[{"id":"i"}]}"#,
        ] {
            assert_eq!(size(body).tokens_max(1, CONTEXT), CONTEXT, "{body}");
            assert_eq!(size(body).careful_tokens(body.as_bytes(), CONTEXT), CONTEXT, "{body}");
        }
        for part in [
            r#"{"type":"file","file":{"file_id":"f"}}"#,
            r#"{"type":"input_file","file_url":"http://x/a.pdf"}"#,
            r#"{"type":"document","source":{"type":"url","url":"http://x/a.pdf"}}"#,
            r#"{"type":"document","source":{"type":"base64","data":"AAAA"}}"#,
            r#"{"type":"video_url","video_url":{"url":"http://x/a.mp4"}}"#,
            r#"{"type":"document_url","document_url":"https://x/a.pdf"}"#,
            r#"{"type":"video","video":["https://x/1.jpg"]}"#,
            r#"{"type":"image_embeds","image_embeds":"AAAA"}"#,
            r#"{"image":"https://x/1.jpg"}"#,
        ] {
            let body = format!(r#"{{"messages":[{{"role":"user","content":[{part}]}}]}}"#);
            assert_eq!(size(&body).tokens_max(1, CONTEXT), CONTEXT, "{part}");
            assert!(size(&body).careful_tokens(body.as_bytes(), CONTEXT) < 3_000, "{part}");
        }
        let image =
            r#"{"messages":[{"role":"user","content":[{"type":"image","image":"https://x/1.jpg"}]}]}"#;
        assert_eq!((size(image).images, size(image).files), (1, 0));
        let embedded = r#"{"input":[{"image":"https://x/1.jpg"},{"content":[{"image":"x"}]},{"text":"a"}]}"#;
        assert_eq!(size(embedded).files, 2);
        let plain =
            r#"{"input":[{"role":"user","content":"a","id":"m"}],"previous_response_id":null,"prompt":"a"}"#;
        assert!(size(plain).tokens_max(1, CONTEXT) < ADDED_TOKENS + 200);
    }

    #[test]
    fn each_tool_of_the_provider_adds_to_the_bound() {
        let added = |fields: &str| {
            let body = format!(r#"{{"x":[]{fields}}}"#);
            (size(&body).tokens_max(1, CONTEXT) - body.len() as u64) / ADDED_TOKENS
        };
        assert_eq!(added(""), 1);
        assert_eq!(added(r#","tools":[{"type":"function"},{"type":"custom"},{"name":"f"}]"#), 2);
        assert_eq!(added(r#","tools":[{"type":"computer_20250124"},{"type":"bash_20250124"}]"#), 4);
    }

    #[test]
    fn the_careful_estimate_counts_words() {
        let body = |text: &str| format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#);
        let count = |text: &str| {
            let body = body(text);
            size(&body).careful_tokens(body.as_bytes(), CONTEXT)
        };
        let empty = count("");
        for (text, expected) in [
            ("a b c", 3),
            ("word, other", 3),
            ("understanding", 3),
            ("12345", 2),
            ("é", 1),
            ("\u{4e2d}\u{6587}", 3),
        ] {
            assert_eq!(count(text) - empty, expected, "{text}");
        }
        let long = count(&"a ".repeat(2_000_000));
        assert!((1_990_000..2_010_000).contains(&long), "{long}");
    }
}
