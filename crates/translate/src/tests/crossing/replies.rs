//! The translation of replies. Streams are translated alike, as their tests check.

use super::{Direction, Row, Table, carried, ignored, rewritten};

pub(super) const TABLES: &[Table] = &[
    Table {
        title: "Replies of Anthropic",
        directions: &[("to callers of chat completions", Direction::AnthropicToChat)],
        rows: ANTHROPIC,
    },
    Table {
        title: "Replies of Gemini",
        directions: &[("to callers of chat completions", Direction::GeminiToChat)],
        rows: GEMINI,
    },
    Table {
        title: "Replies of providers with OpenAI's API",
        directions: &[("to callers of Anthropic's messages", Direction::ChatToMessages)],
        rows: CHAT,
    },
];

const ANTHROPIC: &[Row] = &[
    Row {
        what: "text",
        example: r#"{"type":"text","text":"MARKER"}"#,
        cells: &[carried(r#""content":"MARKER""#)],
    },
    Row {
        what: "citations with an address",
        example: r#"{"type":"text","text":"ab","citations":[{"type":"web_search_result_location","url":"https://MARKER","title":"n","cited_text":"c"}]}"#,
        cells: &[rewritten(
            r#""annotations":[{"type":"url_citation","url_citation":{"start_index":0,"end_index":2,"url":"https://MARKER","title":"n"}}]"#,
            "as `annotations`, without the cited text",
        )],
    },
    Row {
        what: "citations of documents",
        example: r#"{"type":"text","text":"a","citations":[{"type":"page_location","document_index":0,"document_title":"MARKER","cited_text":"MARKER"}]}"#,
        cells: &[ignored("no counterpart")],
    },
    Row {
        what: "thinking",
        example: r#"{"type":"thinking","thinking":"MARKER","signature":"s"}"#,
        cells: &[rewritten(
            r#""reasoning_content":"MARKER","thinking_blocks":[{"type":"thinking","thinking":"MARKER","signature":"s"}]"#,
            "as `reasoning_content`, and with its signature as `thinking_blocks`, to be sent back with calls",
        )],
    },
    Row {
        what: "redacted thinking",
        example: r#"{"type":"redacted_thinking","data":"MARKER"}"#,
        cells: &[rewritten(
            r#""thinking_blocks":[{"type":"redacted_thinking","data":"MARKER"}]"#,
            "as `thinking_blocks`",
        )],
    },
    Row {
        what: "calls of tools",
        example: r#"{"type":"tool_use","id":"t","name":"f","input":{"z":1.50,"a":"MARKER"}}"#,
        cells: &[carried(r#"{"name":"f","arguments":"{\"z\":1.50,\"a\":\"MARKER\"}"}"#)],
    },
    Row {
        what: "calls of tools that Anthropic has run, and their results",
        example: r#"{"type":"server_tool_use","id":"t","name":"web_search","input":{"query":"MARKER"}},{"type":"web_search_tool_result","tool_use_id":"t","content":[{"url":"MARKER"}]}"#,
        cells: &[ignored("no counterpart; the text has what was found")],
    },
];

const GEMINI: &[Row] = &[
    Row { what: "text", example: r#"{"text":"MARKER"}"#, cells: &[carried(r#""content":"MARKER""#)] },
    Row {
        what: "thoughts",
        example: r#"{"text":"MARKER","thought":true}"#,
        cells: &[rewritten(r#""reasoning_content":"MARKER""#, "as `reasoning_content`")],
    },
    Row {
        what: "calls of functions",
        example: r#"{"functionCall":{"name":"f","args":{"a":"MARKER"}},"thoughtSignature":"s"}"#,
        cells: &[rewritten(
            r#"{"id":"call_7_0","type":"function","function":{"name":"f","arguments":"{\"a\":\"MARKER\"}"},"extra_content":{"google":{"thought_signature":"s"}}}"#,
            "with an id, and the signature in `extra_content`, to be sent back",
        )],
    },
    Row {
        what: "signatures of texts",
        example: r#"{"text":"a","thoughtSignature":"MARKER"}"#,
        cells: &[rewritten(
            r#""extra_content":{"google":{"thought_signature":"MARKER"}}"#,
            "in `extra_content` of the message, to be sent back",
        )],
    },
    Row {
        what: "code and its results, files",
        example: r#"{"executableCode":{"code":"MARKER"}},{"codeExecutionResult":{"output":"MARKER"}},{"inlineData":{"mimeType":"image/png","data":"MARKER"}}"#,
        cells: &[ignored("not asked for")],
    },
];

const CHAT: &[Row] = &[
    Row {
        what: "`content`",
        example: r#""content":"MARKER""#,
        cells: &[carried(r#"{"text":"MARKER","type":"text"}"#)],
    },
    Row {
        what: "`content` that is a list (Mistral)",
        example: r#""content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"MARKER"},{"type":"reference","reference_ids":[1]}]"#,
        cells: &[rewritten(
            r#"[{"signature":"content","thinking":"hm","type":"thinking"},{"text":"MARKER","type":"text"}]"#,
            "as blocks, without references",
        )],
    },
    Row {
        what: "`refusal`",
        example: r#""refusal":"MARKER""#,
        cells: &[rewritten(
            r#""text":"MARKER","type":"text"}],"stop_reason":"refusal""#,
            "as text, with the stop reason `refusal`",
        )],
    },
    Row {
        what: "`reasoning_content`, `reasoning`",
        example: r#""content":"a","reasoning":"MARKER""#,
        cells: &[rewritten(
            r#"{"signature":"reasoning","thinking":"MARKER","type":"thinking"}"#,
            "as a thinking block, whose signature names the field",
        )],
    },
    Row {
        what: "`reasoning_details` (OpenRouter)",
        example: r#""content":"a","reasoning":"MARKER","reasoning_details":[{"type":"reasoning.text","text":"MARKER"}]"#,
        cells: &[rewritten(
            r#""signature":"reasoning_details {\"type\":\"reasoning.text\"}","thinking":"MARKER""#,
            "as thinking blocks, or redacted ones, whose signatures have the rest of the entry",
        )],
    },
    Row {
        what: "`tool_calls`, `function_call`",
        example: r#""tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"z\":1.50,\"a\":\"MARKER\"}"}}]"#,
        cells: &[rewritten(
            r#"{"type":"tool_use","id":"call_7_0","name":"f","input":{"z":1.50,"a":"MARKER"}}"#,
            "with an id where there is none; arguments that the limit of tokens cuts off become `{}`",
        )],
    },
    Row {
        what: "signatures of calls (`extra_content`)",
        example: r#""tool_calls":[{"id":"t","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"MARKER"}}}]"#,
        cells: &[rewritten(
            r#"{"data":"thought_signature t MARKER","type":"redacted_thinking"}"#,
            "as a redacted thinking block before the call, to be sent back",
        )],
    },
    Row {
        what: "`annotations`, `audio`, `images`, `logprobs`",
        example: r#""content":"a","annotations":[{"type":"url_citation","url_citation":{"url":"MARKER"}}],"audio":{"data":"MARKER"},"images":[{"image_url":{"url":"MARKER"}}]"#,
        cells: &[ignored("no counterpart")],
    },
];
