//! The translation of requests of chat completions.

use super::{Direction, Row, Table, carried, ignored, refused, rewritten, without};

pub(super) const TABLES: &[Table] = &[
    Table {
        title: "Requests of chat completions",
        directions: &[("to Anthropic", Direction::ChatToAnthropic), ("to Gemini", Direction::ChatToGemini)],
        rows: CHAT,
    },
    Table {
        title: "Requests of Anthropic's messages",
        directions: &[
            ("to OpenAI's models that reason", Direction::MessagesToOpenai),
            ("to other models", Direction::MessagesToChat),
        ],
        rows: super::messages_requests::ROWS,
    },
];

const CALL: &str = r#"{"role":"assistant","content":"","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{\"a\":\"MARKER\"}"},"extra_content":{"google":{"thought_signature":"SIGN"}}}]}"#;

const CHAT: &[Row] = &[
    Row {
        what: "text",
        example: r#"{"type":"text","text":"MARKER"}"#,
        cells: &[carried(r#"{"type":"text","text":"MARKER"}"#), carried(r#"{"text":"MARKER"}"#)],
    },
    Row {
        what: "text of white space alone",
        example: r#"{"role":"assistant","content":[{"type":"text","text":" MARKER"},{"type":"text","text":"\n "}]}"#,
        cells: &[
            rewritten(
                r#"[{"type":"text","text":" MARKER"}]"#,
                "left out, as Anthropic refuses it; white space at the end of a last answer is cut off; a last message of a user with nothing else is refused",
            ),
            carried(r#"{"text":"\n "}"#),
        ],
    },
    Row {
        what: "image by address",
        example: r#"{"type":"image_url","image_url":{"url":"https://a/MARKER.png"}}"#,
        cells: &[
            carried(r#""source":{"type":"url","url":"https://a/MARKER.png"}"#),
            carried(r#"{"mimeType":"image/png","fileUri":"https://a/MARKER.png"}"#),
        ],
    },
    Row {
        what: "image in base64",
        example: r#"{"type":"image_url","image_url":{"url":"data:image/jpg;base64,MARKER","detail":"low"}}"#,
        cells: &[
            rewritten(
                r#"{"type":"base64","media_type":"image/jpeg","data":"MARKER"}"#,
                "media types by their registered names; without `detail`; other types than JPEG, PNG, GIF and WebP are refused",
            ),
            rewritten(
                r#"{"mimeType":"image/jpeg","data":"MARKER"}"#,
                "media types by their registered names; without `detail`",
            ),
        ],
    },
    Row {
        what: "image of a type that Anthropic does not read",
        example: r#"{"type":"image_url","image_url":{"url":"data:image/svg+xml;base64,MARKER"}}"#,
        cells: &[
            refused("messages[0].content[1]", "send JPEG, PNG, GIF or WebP"),
            carried(r#"{"mimeType":"image/svg+xml","data":"MARKER"}"#),
        ],
    },
    Row {
        what: "PDF in base64",
        example: r#"{"type":"file","file":{"filename":"n.pdf","file_data":"data:application/pdf;base64,MARKER"}}"#,
        cells: &[
            rewritten(
                r#"{"type":"base64","media_type":"application/pdf","data":"MARKER"},"title":"n.pdf"}"#,
                "as a document, the name as its title",
            ),
            rewritten(r#"{"mimeType":"application/pdf","data":"MARKER"}"#, "without its name"),
        ],
    },
    Row {
        what: "file by address",
        example: r#"{"type":"file","file":{"file_data":"https://a/MARKER.pdf"}}"#,
        cells: &[
            rewritten(
                r#"{"type":"document","source":{"type":"url","url":"https://a/MARKER.pdf"}}"#,
                "as a document",
            ),
            carried(r#"{"mimeType":"application/pdf","fileUri":"https://a/MARKER.pdf"}"#),
        ],
    },
    Row {
        what: "file by id",
        example: r#"{"type":"file","file":{"file_id":"MARKER"}}"#,
        cells: &[
            refused(
                "messages[0].content[1].file",
                "send its data: files of one provider are unknown to another",
            ),
            refused("messages[0].content[1].file", "send its data"),
        ],
    },
    Row {
        what: "audio",
        example: r#"{"type":"input_audio","input_audio":{"data":"MARKER","format":"wav"}}"#,
        cells: &[
            refused("messages[0].content[1]", "Anthropic reads no audio; send its transcript"),
            carried(r#"{"mimeType":"audio/wav","data":"MARKER"}"#),
        ],
    },
    Row {
        what: "parts of other kinds (`video_url`)",
        example: r#"{"type":"video_url","video_url":{"url":"https://a/MARKER"}}"#,
        cells: &[
            refused("messages[0].content[1].type", "send text, images, audio or files"),
            refused("messages[0].content[1].type", "send text, images, audio or files"),
        ],
    },
    Row {
        what: "`system` and `developer`, wherever they stand",
        example: r#"{"role":"developer","content":"MARKER"}"#,
        cells: &[
            rewritten(r#""system":[{"type":"text","text":"MARKER"}]"#, "in their order, as `system`"),
            rewritten(
                r#""systemInstruction":{"parts":[{"text":"MARKER"}]}"#,
                "in their order, as `systemInstruction`",
            ),
        ],
    },
    Row {
        what: "files in system messages",
        example: r#"{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://a/MARKER"}}]}"#,
        cells: &[refused("messages[1].content[0]", "send them as the user's")],
    },
    Row {
        what: "files in answers",
        example: r#"{"role":"assistant","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,MARKER"}}]}"#,
        cells: &[
            refused("messages[1].content[0]", "send them as the user's"),
            carried(r#"{"role":"model","parts":[{"inlineData":{"mimeType":"image/png","data":"MARKER"}}]}"#),
        ],
    },
    Row {
        what: "references of Mistral's answers",
        example: r#"{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"reference","reference_ids":["MARKER"]}]}"#,
        cells: &[ignored("of use to Mistral alone")],
    },
    Row {
        what: "`name` of a message",
        example: r#"{"role":"user","name":"MARKER","content":"a"}"#,
        cells: &[ignored("no counterpart"), ignored("no counterpart")],
    },
    Row {
        what: "`refusal` of an answer",
        example: r#"{"role":"assistant","content":null,"refusal":"MARKER"}"#,
        cells: &[
            rewritten(r#"{"type":"text","text":"MARKER"}"#, "as text"),
            rewritten(r#"{"text":"MARKER"}"#, "as text"),
        ],
    },
    Row {
        what: "`audio` of an answer",
        example: r#"{"role":"assistant","audio":{"id":"MARKER"}}"#,
        cells: &[
            refused("messages[1].audio", "send its transcript as text"),
            refused("messages[1].audio", "send its transcript as text"),
        ],
    },
    Row {
        what: "`annotations` of an answer",
        example: r#"{"role":"assistant","content":"a","annotations":[{"type":"url_citation","url_citation":{"url":"MARKER"}}]}"#,
        cells: &[ignored("no counterpart"), ignored("no counterpart")],
    },
    Row {
        what: "reasoning that Anthropic has signed (`thinking_blocks`, `thinking` parts)",
        example: r#"{"role":"assistant","content":"a","thinking_blocks":[{"index":0,"type":"thinking","thinking":"MARKER","signature":"s"}]}"#,
        cells: &[
            carried(r#"{"type":"thinking","thinking":"MARKER","signature":"s"}"#),
            ignored("of use to Anthropic alone"),
        ],
    },
    Row {
        what: "`reasoning_details` of Anthropic's models",
        example: r#"{"role":"assistant","content":"a","reasoning_details":[{"type":"reasoning.text","text":"MARKER","signature":"s","format":"anthropic-claude-v1"}]}"#,
        cells: &[
            rewritten(r#"{"type":"thinking","thinking":"MARKER","signature":"s"}"#, "as thinking blocks"),
            ignored("of use to Anthropic alone"),
        ],
    },
    Row {
        what: "other reasoning (`reasoning_content`, `reasoning`)",
        example: r#"{"role":"assistant","content":"a","reasoning_content":"MARKER","reasoning":"MARKER"}"#,
        cells: &[
            ignored("Anthropic takes none without its signature"),
            ignored("Gemini takes signatures alone"),
        ],
    },
    Row {
        what: "calls of functions",
        example: CALL,
        cells: &[
            carried(r#"{"type":"tool_use","id":"t","name":"f","input":{"a":"MARKER"}}"#),
            carried(
                r#"{"functionCall":{"id":"t","name":"f","args":{"a":"MARKER"}},"thoughtSignature":"SIGN"}"#,
            ),
        ],
    },
    Row {
        what: "calls with free text as input",
        example: r#"{"role":"assistant","tool_calls":[{"id":"t","type":"custom","custom":{"name":"f","input":"MARKER"}}]}"#,
        cells: &[
            refused("messages[1].tool_calls[0]", "use a function"),
            refused("messages[1].tool_calls[0]", "use a function"),
        ],
    },
    Row {
        what: "results of calls",
        example: r#"{"role":"assistant","tool_calls":[{"id":"t.1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"t.1","content":"MARKER"}"#,
        cells: &[
            rewritten(
                r#"{"type":"tool_result","tool_use_id":"t_1","content":[{"type":"text","text":"MARKER"}]}"#,
                "ids in the characters that Anthropic takes",
            ),
            rewritten(
                r#"{"functionResponse":{"id":"t.1","name":"f","response":{"output":"MARKER"}}}"#,
                "as `output`, unless it is the JSON of an object, several texts as lines; the call must be in an earlier message",
            ),
        ],
    },
    Row {
        what: "`is_error` of a result",
        example: r#"{"role":"assistant","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"t","is_error":true,"content":"MARKER"}"#,
        cells: &[carried(r#""is_error":true"#), rewritten(r#""response":{"error":"MARKER"}"#, "as `error`")],
    },
    Row {
        what: "images of a result",
        example: r#"{"role":"assistant","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"t","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,MARKER"}}]}"#,
        cells: &[
            carried(
                r#""content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"MARKER"}}]"#,
            ),
            rewritten(
                r#"},{"inlineData":{"mimeType":"image/png","data":"MARKER"}}"#,
                "beside the result; within it since Gemini 3",
            ),
        ],
    },
    Row {
        what: "`cache_control`",
        example: r#"{"type":"text","text":"a","cache_control":{"type":"MARKER"}}"#,
        cells: &[carried(r#""cache_control":{"type":"MARKER"}"#), ignored("Gemini caches by itself")],
    },
    Row {
        what: "`tools` that are functions",
        example: r#""tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"MARKER":{"type":"string"},"a":{"type":"string"}}}}}]"#,
        cells: &[
            rewritten(
                r#""input_schema":{"type":"object","properties":{"MARKER":{"type":"string"},"a":{"type":"string"}}}"#,
                "without `strict`; alternatives of whole inputs (`anyOf`, `oneOf`, `allOf` at the top) become one object, references among them are replaced",
            ),
            rewritten(
                r#""properties":{"MARKER":{"type":"STRING"},"a":{"type":"STRING"}},"propertyOrdering":["MARKER","a"]"#,
                "as its own kind of schema: references are replaced, recursion is cut at its first repetition, unknown keys are left out",
            ),
        ],
    },
    Row {
        what: "`tools` with free text as input",
        example: r#""tools":[{"type":"custom","custom":{"name":"MARKER"}}]"#,
        cells: &[refused("tools[0]", "use a function"), refused("tools[0]", "use a function")],
    },
    Row {
        what: "`tools` of the provider's own",
        example: r#""tools":[{"type":"web_search_20250305","name":"MARKER"}]"#,
        cells: &[
            carried(r#"{"type":"web_search_20250305","name":"MARKER"}"#),
            refused("tools[0]", "use a function"),
        ],
    },
    Row {
        what: "`functions`, `function_call`",
        example: r#""functions":[{"name":"MARKER"}]"#,
        cells: &[refused("functions", "use `tools`"), refused("functions", "use `tools`")],
    },
    Row {
        what: "`tool_choice`",
        example: r#""tools":[{"type":"function","function":{"name":"MARKER"}}],"tool_choice":{"type":"function","function":{"name":"MARKER"}}"#,
        cells: &[
            carried(r#""tool_choice":{"type":"tool","name":"MARKER"}"#),
            carried(r#"{"mode":"ANY","allowedFunctionNames":["MARKER"]}"#),
        ],
    },
    Row {
        what: "`parallel_tool_calls`",
        example: r#""tools":[{"type":"function","function":{"name":"f"}}],"parallel_tool_calls":false"#,
        cells: &[
            rewritten(r#""disable_parallel_tool_use":true"#, "within `tool_choice`"),
            ignored("no counterpart"),
        ],
    },
    Row {
        what: "`response_format` of `json_object`",
        example: r#""response_format":{"type":"json_object"}"#,
        cells: &[
            rewritten("Answer with one JSON object", "as an instruction in `system`"),
            carried(r#""responseMimeType":"application/json""#),
        ],
    },
    Row {
        what: "`response_format` of `json_schema`",
        example: r##""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"$defs":{"D":{"type":"string","minLength":2}},"type":"object","properties":{"MARKER":{"$ref":"#/$defs/D"},"a":{"type":"integer"}}}}}"##,
        cells: &[
            rewritten(
                r#"{"MARKER":{"type":"string","description":"{minLength: 2}"},"a":{"type":"integer"}},"additionalProperties":false"#,
                "references are replaced, recursion is cut at its first repetition, objects are closed, and keys that Anthropic refuses become a part of the description",
            ),
            rewritten(
                r#"{"MARKER":{"type":"STRING","minLength":2},"a":{"type":"INTEGER"}},"propertyOrdering":["MARKER","a"]"#,
                "as its own kind of schema, with `propertyOrdering`; unknown keys are left out",
            ),
        ],
    },
    Row {
        what: "`response_format` beside `tools`",
        example: r#""tools":[{"type":"function","function":{"name":"f"}}],"response_format":{"type":"json_object"}"#,
        cells: &[
            rewritten("Answer with one JSON object", "as without `tools`"),
            refused(
                "response_format",
                "send one of both, or `tool_choice` = \"none\"; carried since Gemini 3, which takes both",
            ),
        ],
    },
    Row {
        what: "`max_completion_tokens`, `max_tokens`",
        example: r#""max_tokens":77"#,
        cells: &[carried(r#""max_tokens":77"#), carried(r#""maxOutputTokens":77"#)],
    },
    Row {
        what: "`temperature`",
        example: r#""temperature":1.5"#,
        cells: &[
            rewritten(
                r#""temperature":1"#,
                "at most 1; ignored with thinking and for models since Claude 4.7, which refuse it",
            ),
            carried(r#""temperature":1.5"#),
        ],
    },
    Row {
        what: "`top_p` beside `temperature`",
        example: r#""temperature":0.5,"top_p":0.25"#,
        cells: &[
            without("top_p", "models since Claude 4.1 take one of both; carried to earlier ones"),
            carried(r#""topP":0.25"#),
        ],
    },
    Row {
        what: "`top_k`",
        example: r#""top_k":7"#,
        cells: &[
            rewritten(
                r#""top_k":7"#,
                "left out with thinking and for models since Claude 4.7, which refuse it",
            ),
            carried(r#""topK":7"#),
        ],
    },
    Row {
        what: "`stop`",
        example: r#""stop":["MARKER",""]"#,
        cells: &[
            rewritten(
                r#""stop_sequences":["MARKER"]"#,
                "without sequences of white space, which Anthropic refuses",
            ),
            rewritten(r#""stopSequences":["MARKER"]"#, "without empty sequences; more than 5 are refused"),
        ],
    },
    Row {
        what: "`n` above 1",
        example: r#""n":2"#,
        cells: &[refused("n", "send several requests"), rewritten(r#""candidateCount":2"#, "up to 8")],
    },
    Row {
        what: "`seed`",
        example: r#""seed":77"#,
        cells: &[without("77", "no counterpart"), rewritten(r#""seed":77"#, "left out above 32 bits")],
    },
    Row {
        what: "`presence_penalty`, `frequency_penalty`",
        example: r#""presence_penalty":0.77"#,
        cells: &[
            without("77", "no counterpart"),
            without("77", "later models than Gemini 2.0 refuse them; carried to others"),
        ],
    },
    Row {
        what: "`reasoning_effort`, OpenRouter's `reasoning`",
        example: r#""reasoning_effort":"medium""#,
        cells: &[
            rewritten(
                r#""thinking":{"type":"enabled","budget_tokens":8192}"#,
                "as a budget; since Claude 4.6 as `adaptive` with an effort; left out before Claude 3.7, beside a forced tool or earlier calls without their thinking blocks; `none` as `disabled` since Claude 5, and as the least effort for models that always think",
            ),
            rewritten(
                r#""thinkingConfig":{"thinkingBudget":8192,"includeThoughts":true}"#,
                "as a budget within the bounds of the model, since Gemini 3 as a level; `none` is the least that it takes",
            ),
        ],
    },
    Row {
        what: "`thinking`",
        example: r#""thinking":{"type":"enabled","budget_tokens":2000}"#,
        cells: &[
            rewritten(
                r#""thinking":{"type":"enabled","budget_tokens":2000}"#,
                "`adaptive` and budgets as the model takes them; left out as `reasoning_effort` is",
            ),
            rewritten(r#""thinkingBudget":2000"#, "as a budget"),
        ],
    },
    Row {
        what: "`user`, `safety_identifier`",
        example: r#""user":"MARKER""#,
        cells: &[
            rewritten(r#""metadata":{"user_id":"MARKER"}"#, "as `metadata.user_id`"),
            ignored("no counterpart"),
        ],
    },
    Row {
        what: "`logprobs`",
        example: r#""logprobs":true"#,
        cells: &[refused("logprobs", "remove it"), refused("logprobs", "remove it")],
    },
    Row {
        what: "`logit_bias`",
        example: r#""logit_bias":{"1":5}"#,
        cells: &[refused("logit_bias", "remove it"), refused("logit_bias", "remove it")],
    },
    Row {
        what: "`modalities`, `audio`",
        example: r#""modalities":["text","audio"]"#,
        cells: &[refused("modalities", "ask for text"), refused("modalities", "ask for text")],
    },
    Row {
        what: "`web_search_options`",
        example: r#""web_search_options":{}"#,
        cells: &[refused("web_search_options", "remove it"), refused("web_search_options", "remove it")],
    },
    Row {
        what: "`metadata`, `store`, `service_tier`, `prediction`, `verbosity`, `prompt_cache_key`",
        example: r#""metadata":{"a":"MARKER"},"store":true,"service_tier":"MARKER","prediction":{"content":"MARKER"},"verbosity":"MARKER","prompt_cache_key":"MARKER""#,
        cells: &[
            ignored("the meaning of the reply stays the same"),
            ignored("the meaning of the reply stays the same"),
        ],
    },
];
