//! Anthropic's request as OpenAI's.

use serde_json::{Map, Value, json};

use crate::chat::{take_bool, take_number};
use crate::{TranslateError, refuse, write_json};

/// The longest `user` that OpenAI accepts.
const USER_CHARS_MAX: usize = 64;
/// Up to these budgets of thinking the effort is low, or medium.
const EFFORT_TOKENS: (u64, u64) = (4096, 16_384);

/// Translates the body of `POST /v1/messages` to a chat completion request to `model`.
///
/// # Errors
/// [`TranslateError::Request`] for what a provider with OpenAI's API can't be asked for.
pub fn request(body: &[u8], model: &str) -> Result<Vec<u8>, TranslateError> {
    let mut fields: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| refuse("body", format!("is not a JSON object ({error}); send one")))?;
    let mut out = Map::new();
    out.insert("model".to_owned(), model.into());
    let mut messages = Vec::new();
    if let Some(system) = fields.remove("system") {
        push_text("system", &text(&system, "system")?, &mut messages);
    }
    read_messages(fields.remove("messages"), &mut messages)?;
    out.insert("messages".to_owned(), messages.into());
    if let Some(tokens_max) = take_number(&mut fields, "max_tokens")? {
        let name = if reasons(model) { "max_completion_tokens" } else { "max_tokens" };
        out.insert(name.to_owned(), tokens_max.into());
    }
    for (name, openai_name) in
        [("temperature", "temperature"), ("top_p", "top_p"), ("stop_sequences", "stop")]
    {
        if let Some(value) = fields.remove(name).filter(|value| !value.is_null()) {
            out.insert(openai_name.to_owned(), value);
        }
    }
    if take_bool(&mut fields, "stream")?.unwrap_or(false) {
        out.insert("stream".to_owned(), true.into());
        out.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    let user = fields.get("metadata").and_then(|metadata| metadata["user_id"].as_str());
    if let Some(user) = user.filter(|user| user.chars().count() <= USER_CHARS_MAX) {
        out.insert("user".to_owned(), user.into());
    }
    add_tools(&mut fields, &mut out)?;
    add_output(&fields, model, &mut out);
    Ok(write_json(&out))
}

/// Whether a model of OpenAI's reasons: it has its own name for the limit, and takes an effort, which others refuse.
fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    ["gpt-5", "gpt-6", "o1", "o3", "o4"].iter().any(|start| name.starts_with(start))
}

/// The format and the effort of the reply.
fn add_output(fields: &Map<String, Value>, model: &str, out: &mut Map<String, Value>) {
    let config = fields.get("output_config").unwrap_or(&Value::Null);
    if config["format"]["type"] == "json_schema" {
        let schema = json!({"name": "reply", "schema": config["format"]["schema"], "strict": true});
        out.insert("response_format".to_owned(), json!({"type": "json_schema", "json_schema": schema}));
    }
    let budget = fields.get("thinking").and_then(|thinking| thinking["budget_tokens"].as_u64());
    let effort = match (config["effort"].as_str(), budget) {
        (Some(effort @ ("low" | "medium")), _) => effort,
        (Some(_), _) => "high",
        (None, Some(budget)) if budget <= EFFORT_TOKENS.0 => "low",
        (None, Some(budget)) if budget <= EFFORT_TOKENS.1 => "medium",
        (None, Some(_)) => "high",
        (None, None) => return,
    };
    if reasons(model) {
        out.insert("reasoning_effort".to_owned(), effort.into());
    }
}

fn add_tools(fields: &mut Map<String, Value>, out: &mut Map<String, Value>) -> Result<(), TranslateError> {
    let list = match fields.remove("tools") {
        Some(Value::Array(list)) if !list.is_empty() => list,
        None | Some(Value::Null | Value::Array(_)) => return Ok(()),
        Some(_) => return Err(refuse("tools", "must be a list")),
    };
    let mut tools = Vec::with_capacity(list.len());
    for (number, tool) in list.into_iter().enumerate() {
        tools.push(read_tool(tool, &format!("tools[{number}]"))?);
    }
    out.insert("tools".to_owned(), tools.into());
    let Some(choice) = fields.remove("tool_choice").filter(|choice| !choice.is_null()) else { return Ok(()) };
    let value = match (choice["type"].as_str(), choice["name"].as_str()) {
        (Some("auto"), _) => "auto".into(),
        (Some("any"), _) => "required".into(),
        (Some("none"), _) => "none".into(),
        (Some("tool"), Some(name)) => json!({"type": "function", "function": {"name": name}}),
        _ => {
            return Err(refuse(
                "tool_choice",
                "must have the type `auto`, `any`, `none` or `tool` with a name",
            ));
        }
    };
    out.insert("tool_choice".to_owned(), value);
    if choice["disable_parallel_tool_use"] == true {
        out.insert("parallel_tool_calls".to_owned(), false.into());
    }
    Ok(())
}

fn read_tool(tool: Value, field: &str) -> Result<Value, TranslateError> {
    if !matches!(tool["type"].as_str(), None | Some("custom")) {
        let kind = &tool["type"];
        return Err(refuse(
            field,
            format!("{kind} is a tool of Anthropic's own; use one with an `input_schema`"),
        ));
    }
    let Some(name) = tool["name"].as_str() else {
        return Err(refuse(format!("{field}.name"), "must be a string"));
    };
    let mut function = json!({"name": name});
    if tool["input_schema"].is_object() {
        function["parameters"] = tool["input_schema"].clone();
    }
    if let Some(description) = tool["description"].as_str() {
        function["description"] = description.into();
    }
    Ok(json!({"type": "function", "function": function}))
}

fn push_text(role: &str, text: &str, out: &mut Vec<Value>) {
    if !text.is_empty() {
        out.push(json!({"role": role, "content": text}));
    }
}

/// A string, or the texts of blocks, a line each.
fn text(content: &Value, field: &str) -> Result<String, TranslateError> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            Ok(texts.join("\n"))
        }
        _ => Err(refuse(field, "must be a string or a list of blocks")),
    }
}

fn read_messages(value: Option<Value>, out: &mut Vec<Value>) -> Result<(), TranslateError> {
    let Some(Value::Array(list)) = value else {
        return Err(refuse("messages", "must be a list of messages"));
    };
    for (number, message) in list.into_iter().enumerate() {
        let field = format!("messages[{number}].content");
        let blocks = match &message["content"] {
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            Value::Array(blocks) => blocks.clone(),
            _ => return Err(refuse(field, "must be a string or a list of blocks")),
        };
        match message["role"].as_str() {
            Some("user") => user(&blocks, &field, out)?,
            Some("assistant") => assistant(&blocks, out),
            Some("system") => push_text("system", &text(&message["content"], &field)?, out),
            _ => {
                return Err(refuse(
                    format!("messages[{number}].role"),
                    "must be `user`, `assistant` or `system`",
                ));
            }
        }
    }
    Ok(())
}

/// A user's turn: results of tools are messages of their own, and come first. Their images follow as the user's, because a tool's
/// message is text alone.
fn user(blocks: &[Value], field: &str, out: &mut Vec<Value>) -> Result<(), TranslateError> {
    let mut parts = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        let field = format!("{field}[{number}]");
        if block["type"] != "tool_result" {
            parts.push(part(block, &field)?);
            continue;
        }
        let content = &block["content"];
        let result = text(content, &format!("{field}.content"))?;
        out.push(json!({"role": "tool", "tool_call_id": block["tool_use_id"], "content": result}));
        let inner = content.as_array().map(Vec::as_slice).unwrap_or_default();
        for other in inner.iter().filter(|inner| matches!(inner["type"].as_str(), Some("image" | "document")))
        {
            parts.push(part(other, &format!("{field}.content"))?);
        }
    }
    match parts.as_slice() {
        [] => {}
        [only] if only["type"] == "text" => out.push(json!({"role": "user", "content": only["text"]})),
        _ => out.push(json!({"role": "user", "content": parts})),
    }
    Ok(())
}

fn part(block: &Value, field: &str) -> Result<Value, TranslateError> {
    let source = &block["source"];
    let data = |source: &Value| match (source["media_type"].as_str(), source["data"].as_str()) {
        (Some(media_type), Some(data)) => Some(format!("data:{media_type};base64,{data}")),
        _ => None,
    };
    let part = match (block["type"].as_str(), source["type"].as_str()) {
        (Some("text"), _) => block["text"].as_str().map(|text| json!({"type": "text", "text": text})),
        (Some("image"), Some("base64")) => {
            data(source).map(|url| json!({"type": "image_url", "image_url": {"url": url}}))
        }
        (Some("image"), Some("url")) => {
            source["url"].as_str().map(|url| json!({"type": "image_url", "image_url": {"url": url}}))
        }
        (Some("document"), Some("text")) => {
            source["data"].as_str().map(|text| json!({"type": "text", "text": text}))
        }
        (Some("document"), Some("base64")) => {
            let name = block["title"].as_str().unwrap_or("document.pdf");
            data(source).map(|data| json!({"type": "file", "file": {"filename": name, "file_data": data}}))
        }
        _ => None,
    };
    part.ok_or_else(|| refuse(field, "is not translated; use text, or an image or document with its data"))
}

/// An assistant's turn. Its thinking is left out: other models have no use for Anthropic's.
fn assistant(blocks: &[Value], out: &mut Vec<Value>) {
    let mut text = String::new();
    let mut calls = Vec::new();
    for block in blocks {
        match block["type"].as_str() {
            Some("text") => text.push_str(block["text"].as_str().unwrap_or_default()),
            Some("tool_use") => {
                let arguments = match &block["input"] {
                    Value::Null => "{}".to_owned(),
                    input => input.to_string(),
                };
                let function = json!({"name": block["name"], "arguments": arguments});
                calls.push(json!({"id": block["id"], "type": "function", "function": function}));
            }
            _ => {}
        }
    }
    if calls.is_empty() {
        return push_text("assistant", &text, out);
    }
    let content = if text.is_empty() { Value::Null } else { text.into() };
    out.push(json!({"role": "assistant", "content": content, "tool_calls": calls}));
}
