//! The translation of requests of Anthropic's messages.

use super::{Row, carried, ignored, refused, rewritten, without};

pub(super) const ROWS: &[Row] = &[
    Row {
        what: "`system`, and messages with that role",
        example: r#""system":[{"type":"text","text":"a"},{"type":"text","text":"MARKER","cache_control":{"type":"ephemeral"}}]"#,
        cells: &[rewritten(
            r#"{"role":"system","content":"a\nMARKER"}"#,
            "as a message, several texts as lines; messages stay in their place",
        )],
    },
    Row {
        what: "text",
        example: r#"{"type":"text","text":"MARKER","cache_control":{"type":"ephemeral"}}"#,
        cells: &[rewritten(r#"{"type":"text","text":"MARKER"}"#, "without `cache_control` and `citations`")],
    },
    Row {
        what: "image by address or in base64",
        example: r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"MARKER"}}"#,
        cells: &[carried(r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,MARKER"}}"#)],
    },
    Row {
        what: "document in base64",
        example: r#"{"type":"document","title":"n","source":{"type":"base64","media_type":"application/pdf","data":"MARKER"}}"#,
        cells: &[rewritten(
            r#"{"type":"file","file":{"filename":"n","file_data":"data:application/pdf;base64,MARKER"}}"#,
            "as a file, the title as its name",
        )],
    },
    Row {
        what: "document of text or of blocks",
        example: r#"{"type":"document","title":"n","context":"c","source":{"type":"text","media_type":"text/plain","data":"MARKER"}}"#,
        cells: &[rewritten(
            r#"{"type":"text","text":"n\nc\nMARKER"}"#,
            "as text after its title and context; images of blocks as images",
        )],
    },
    Row {
        what: "document by address; images and documents by id",
        example: r#"{"type":"document","source":{"type":"url","url":"https://a/MARKER.pdf"}}"#,
        cells: &[refused("messages[0].content[1]", "send its data")],
    },
    Row {
        what: "search result",
        example: r#"{"type":"search_result","source":"s","title":"n","content":[{"type":"text","text":"MARKER"}]}"#,
        cells: &[rewritten(r#"{"type":"text","text":"n\ns\nMARKER"}"#, "as text after its title and source")],
    },
    Row {
        what: "blocks of other kinds",
        example: r#"{"type":"video","source":{"type":"url","url":"MARKER"}}"#,
        cells: &[refused("messages[0].content[1]", "send text, images or documents")],
    },
    Row {
        what: "results of calls",
        example: r#"{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a"},{"type":"search_result","source":"s","title":"n","content":[{"type":"text","text":"MARKER"}]}]}"#,
        cells: &[rewritten(
            r#"{"role":"tool","tool_call_id":"t","content":"a\nn\ns\nMARKER"}"#,
            "as messages of the role `tool`, several texts as lines",
        )],
    },
    Row {
        what: "`is_error` of a result",
        example: r#"{"type":"tool_result","tool_use_id":"t","is_error":true,"content":"MARKER"}"#,
        cells: &[rewritten(r#""content":"Error: MARKER""#, "as `Error: ` before the text")],
    },
    Row {
        what: "images and documents of a result",
        example: r#"{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"MARKER"}}]}"#,
        cells: &[rewritten(
            r#"{"role":"user","content":[{"type":"text","text":"u"},{"type":"image_url","image_url":{"url":"data:image/png;base64,MARKER"}}]}"#,
            "as the user's, after the results",
        )],
    },
    Row {
        what: "calls of tools",
        example: r#"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"z":1.50,"a":"MARKER"}}]}"#,
        cells: &[carried(
            r#"{"id":"t","type":"function","function":{"name":"f","arguments":"{\"z\":1.50,\"a\":\"MARKER\"}"}}"#,
        )],
    },
    Row {
        what: "thinking that came from a provider with OpenAI's API",
        example: r#"{"role":"assistant","content":[{"type":"thinking","thinking":"MARKER","signature":"reasoning"},{"type":"text","text":"a"}]}"#,
        cells: &[
            ignored("OpenAI's API has none; `reasoning_details` are kept for OpenRouter"),
            rewritten(
                r#""reasoning":"MARKER""#,
                "in the field that it came in, which its signature names: `reasoning_content`, `reasoning`, `reasoning_details`, parts of the content, signatures of calls",
            ),
        ],
    },
    Row {
        what: "thinking that Anthropic has signed or redacted",
        example: r#"{"role":"assistant","content":[{"type":"thinking","thinking":"MARKER","signature":"EqQB"},{"type":"redacted_thinking","data":"MARKER"},{"type":"text","text":"a"}]}"#,
        cells: &[ignored("of use to Anthropic alone")],
    },
    Row {
        what: "calls of tools that Anthropic has run, and their results",
        example: r#"{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"MARKER"}},{"type":"web_search_tool_result","tool_use_id":"s","content":[{"type":"web_search_result","url":"MARKER"}]},{"type":"text","text":"a"}]}"#,
        cells: &[ignored("encrypted for Anthropic; the answer's text has what was found")],
    },
    Row {
        what: "`tools` with an `input_schema`",
        example: r#""tools":[{"name":"f","description":"d","strict":true,"input_schema":{"type":"object","properties":{"z":{},"MARKER":{}}}}]"#,
        cells: &[rewritten(
            r#"{"name":"f","description":"d","parameters":{"type":"object","properties":{"z":{},"MARKER":{}}}}"#,
            "as functions, without `strict`, `cache_control` and other keys; objects without `properties` get empty ones",
        )],
    },
    Row {
        what: "`tools` of Anthropic's own",
        example: r#""tools":[{"type":"bash_20250124","name":"MARKER"}]"#,
        cells: &[refused("tools[0]", "use one with an `input_schema`")],
    },
    Row {
        what: "`mcp_servers`",
        example: r#""mcp_servers":[{"type":"url","url":"MARKER"}]"#,
        cells: &[refused("mcp_servers", "call them and send `tools`")],
    },
    Row {
        what: "`tool_choice`",
        example: r#""tools":[{"name":"MARKER"}],"tool_choice":{"type":"tool","name":"MARKER","disable_parallel_tool_use":true}"#,
        cells: &[rewritten(
            r#""tool_choice":{"type":"function","function":{"name":"MARKER"}},"parallel_tool_calls":false"#,
            "`disable_parallel_tool_use` as `parallel_tool_calls`, but for o1 to o4, which refuse it",
        )],
    },
    Row {
        what: "`max_tokens`",
        example: r#""max_tokens":77"#,
        cells: &[
            rewritten(r#""max_completion_tokens":77"#, "as `max_completion_tokens`"),
            carried(r#""max_tokens":77"#),
        ],
    },
    Row {
        what: "`temperature`, `top_p`",
        example: r#""temperature":0.77,"top_p":0.77"#,
        cells: &[without("77", "they refuse them"), carried(r#""temperature":0.77,"top_p":0.77"#)],
    },
    Row { what: "`top_k`", example: r#""top_k":77"#, cells: &[without("77", "no counterpart")] },
    Row {
        what: "`stop_sequences`",
        example: r#""stop_sequences":["MARKER"]"#,
        cells: &[refused("stop_sequences", "leave them out"), carried(r#""stop":["MARKER"]"#)],
    },
    Row {
        what: "`thinking`, `output_config.effort`",
        example: r#""thinking":{"type":"enabled","budget_tokens":5000}"#,
        cells: &[
            rewritten(
                r#""reasoning_effort":"medium""#,
                "as an effort (`xhigh` since GPT-5.2, `max` since 5.6); beside tools none for GPT-5.4 and 5.5, and `none` for later ones, which take no other there",
            ),
            without("effort", "models of other providers differ in it"),
        ],
    },
    Row {
        what: "`output_config.format`, `output_format`",
        example: r#""output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"MARKER":{}}}}}"#,
        cells: &[rewritten(
            r#""schema":{"type":"object","properties":{"MARKER":{}},"additionalProperties":false},"strict":false"#,
            "as `response_format`; `strict` where all properties are required and nothing else is said than OpenAI takes with it",
        )],
    },
    Row {
        what: "`metadata.user_id`",
        example: r#""metadata":{"user_id":"MARKER"}"#,
        cells: &[rewritten(r#""user":"MARKER""#, "as `user`; left out above 64 characters")],
    },
    Row {
        what: "turns of one role that follow each other",
        example: r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"MARKER","input":{}}]},{"role":"assistant","content":[{"type":"tool_use","id":"b","name":"g","input":{}}]}"#,
        cells: &[rewritten(
            r#""tool_calls":[{"id":"a","type":"function","function":{"name":"MARKER","arguments":"{}"}},{"id":"b""#,
            "as one, so that all results of its calls stand together; for Mistral's models ids of calls of nine characters, an answer `Done.` between results and a user's message, and `prefix` in a last answer",
        )],
    },
    Row {
        what: "`thread`, `compaction`, and every field that no row names",
        example: r#""thread":{"type":"continue","previous_message_id":"MARKER"}"#,
        cells: &[refused("thread", "remove it")],
    },
    Row {
        what: "`service_tier`, `container`, `context_management`, `inference_geo`",
        example: r#""service_tier":"MARKER","container":"MARKER","context_management":{"edits":["MARKER"]},"inference_geo":"MARKER""#,
        cells: &[ignored("no counterpart")],
    },
];
