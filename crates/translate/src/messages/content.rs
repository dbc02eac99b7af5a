//! Messages of Anthropic's API as OpenAI's.

use super::model::ReasoningFields;
use super::reasoning::Reasoning;
use crate::{TranslateError, refuse};
use weir_schema::{Map, Value, object};

/// Before the result of a call that failed: a tool's message has no field for it.
const ERROR_PREFIX: &str = "Error: ";

pub(super) fn push_text(role: &str, text: &str, out: &mut Vec<Value>) {
    if !text.is_empty() {
        out.push(object! {"role": role, "content": text});
    }
}

/// A string, or the texts of blocks, a line each.
///
/// # Errors
/// For blocks without a text.
pub(super) fn text(content: &Value, field: &str) -> Result<String, TranslateError> {
    match content {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.clone()),
        Value::Array(blocks) => {
            let mut texts = Vec::with_capacity(blocks.len());
            for (number, block) in blocks.iter().enumerate() {
                texts.push(block_text(block, &format!("{field}[{number}]"))?);
            }
            Ok(texts.join("\n"))
        }
        _ => Err(refuse(field, "must be a string or a list of blocks")),
    }
}

/// The text of a block that is text: a `text`, `search_result` or a document of text.
fn block_text(block: &Value, field: &str) -> Result<String, TranslateError> {
    match as_text(block, field)? {
        Some(text) => Ok(text),
        None => Err(unknown(block, field)),
    }
}

fn unknown(block: &Value, field: &str) -> TranslateError {
    let kind = &block["type"];
    refuse(field, format!("{kind} is not translated; use text, or an image or document with its data"))
}

/// The text of a block that is text.
fn as_text(block: &Value, field: &str) -> Result<Option<String>, TranslateError> {
    let source = &block["source"];
    let text_of = |content: &Value| text(content, &format!("{field}.content"));
    let content = match (block["type"].as_str(), source["type"].as_str()) {
        (Some("text"), _) => match block["text"].as_str() {
            Some(text) => return Ok(Some(text.to_owned())),
            None => return Err(refuse(format!("{field}.text"), "must be a string")),
        },
        (Some("search_result"), _) => text_of(&block["content"])?,
        (Some("document"), Some("text")) => source["data"].as_str().unwrap_or_default().to_owned(),
        (Some("document"), Some("content")) if !has_files(&source["content"]) => text_of(&source["content"])?,
        (Some("tool_reference"), _) => block["tool_name"].as_str().unwrap_or_default().to_owned(),
        _ => return Ok(None),
    };
    let address = source.as_str();
    let heads = [block["title"].as_str(), address, block["context"].as_str()];
    let lines = heads.into_iter().flatten().chain([content.as_str()]);
    Ok(Some(lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")))
}

fn is_file(block: &Value) -> bool {
    let is_text = matches!(block["source"]["type"].as_str(), Some("text"))
        || block["source"]["type"] == "content" && !has_files(&block["source"]["content"]);
    matches!(block["type"].as_str(), Some("image" | "document")) && !is_text
}

fn has_files(content: &Value) -> bool {
    content.as_array().is_some_and(|blocks| blocks.iter().any(is_file))
}

/// Joins turns of one role that follow each other, as Anthropic reads them: all results of a turn's calls stand together then.
fn joined(list: Vec<Value>) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::with_capacity(list.len());
    for mut message in list {
        let is_same = joined.last().is_some_and(|last| {
            matches!(message["role"].as_str(), Some("user" | "assistant")) && last["role"] == message["role"]
        });
        let (true, Some(last)) = (is_same, joined.last_mut()) else {
            joined.push(message);
            continue;
        };
        let (Some(first), Some(next)) = (last.at_mut("content"), message.at_mut("content")) else {
            joined.push(message);
            continue;
        };
        let blocks = |content: &mut Value| match content.take() {
            Value::String(text) => vec![object! {"type": "text", "text": text}],
            Value::Array(list) => list,
            other => vec![other],
        };
        let both = [blocks(first), blocks(next)].concat();
        *first = both.into();
    }
    joined
}

/// Reads the messages. Reasoning goes back in `fields` alone.
pub(super) fn read_messages(
    value: Option<Value>,
    fields: ReasoningFields,
    out: &mut Vec<Value>,
) -> Result<(), TranslateError> {
    let Some(Value::Array(list)) = value else {
        return Err(refuse("messages", "must be a list of messages"));
    };
    for (number, message) in joined(list).into_iter().enumerate() {
        let field = format!("messages[{number}].content");
        let text_block;
        let blocks = match &message["content"] {
            Value::String(text) => {
                text_block = [object! {"type": "text", "text": text.as_str()}];
                &text_block[..]
            }
            Value::Array(blocks) => blocks,
            _ => return Err(refuse(field, "must be a string or a list of blocks")),
        };
        match message["role"].as_str() {
            Some("user") => user(blocks, &field, out)?,
            Some("assistant") => assistant(blocks, &field, fields, out)?,
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
        match block["type"] == "tool_result" {
            true => out.push(result(block, &format!("{field}.content"), &mut parts)?),
            false => push_part(block, &field, &mut parts)?,
        }
    }
    match parts.as_slice() {
        [] => {}
        [only] if only["type"] == "text" => {
            out.push(object! {"role": "user", "content": only["text"].clone()});
        }
        _ => out.push(object! {"role": "user", "content": parts}),
    }
    Ok(())
}

/// The message of a tool's result. Its files are added to the user's parts.
fn result(block: &Value, field: &str, parts: &mut Vec<Value>) -> Result<Value, TranslateError> {
    let mut texts = Vec::new();
    match &block["content"] {
        Value::Array(inner) => {
            for (number, inner) in inner.iter().enumerate() {
                let field = format!("{field}[{number}]");
                match is_file(inner) {
                    true => push_part(inner, &field, parts)?,
                    false => texts.push(block_text(inner, &field)?),
                }
            }
        }
        content => texts.push(text(content, field)?),
    }
    let prefix = if block["is_error"] == true { ERROR_PREFIX } else { "" };
    let content = format!("{prefix}{}", texts.join("\n"));
    Ok(object! {"role": "tool", "tool_call_id": block["tool_use_id"].clone(), "content": content})
}

/// Adds the parts of a block: one, or those of a document of blocks.
fn push_part(block: &Value, field: &str, parts: &mut Vec<Value>) -> Result<(), TranslateError> {
    if let Some(text) = as_text(block, field)? {
        parts.push(object! {"type": "text", "text": text});
        return Ok(());
    }
    let source = &block["source"];
    let data = || match (source["media_type"].as_str(), source["data"].as_str()) {
        (Some(media_type), Some(data)) => Ok(format!("data:{media_type};base64,{data}")),
        _ => Err(refuse(format!("{field}.source"), "must have `media_type` and `data`")),
    };
    let image = |url: String| object! {"type": "image_url", "image_url": object! {"url": url}};
    match (block["type"].as_str(), source["type"].as_str(), source["url"].as_str()) {
        (Some("image"), Some("base64"), _) => parts.push(image(data()?)),
        (Some("image"), Some("url"), Some(url)) => parts.push(image(url.to_owned())),
        (Some("document"), Some("base64"), _) => {
            let name = block["title"].as_str().unwrap_or("document.pdf");
            let file = object! {"filename": name, "file_data": data()?};
            parts.push(object! {"type": "file", "file": file});
        }
        (Some("document"), Some("content"), _) => {
            for (number, inner) in source["content"].as_array().unwrap_or_default().iter().enumerate() {
                push_part(inner, &format!("{field}.source.content[{number}]"), parts)?;
            }
        }
        _ => return Err(unknown(block, field)),
    }
    Ok(())
}

/// An assistant's turn. Calls of tools that Anthropic has run itself and their results are left out.
fn assistant(
    blocks: &[Value],
    field: &str,
    fields: ReasoningFields,
    out: &mut Vec<Value>,
) -> Result<(), TranslateError> {
    let mut text = String::new();
    let mut calls = Vec::new();
    let mut reasoning = Reasoning::default();
    for (number, block) in blocks.iter().enumerate() {
        match block["type"].as_str() {
            Some("text") => text.push_str(block["text"].as_str().unwrap_or_default()),
            Some("thinking" | "redacted_thinking") => reasoning.push(block),
            Some("tool_use") => {
                let arguments = match &block["input"] {
                    Value::Null => "{}".to_owned(),
                    input => input.to_string(),
                };
                let function = object! {"name": block["name"].clone(), "arguments": arguments};
                let mut call = Map::new();
                call.insert("id", block["id"].clone());
                call.insert("type", "function");
                call.insert("function", function);
                if let Some(extra) = reasoning.of_call(block["id"].as_str().unwrap_or_default()) {
                    call.insert("extra_content", extra);
                }
                calls.push(Value::from(call));
            }
            Some("server_tool_use" | "mcp_tool_use" | "container_upload") => {}
            Some(kind) if kind.ends_with("_tool_result") => {}
            _ => return Err(unknown(block, &format!("{field}[{number}]"))),
        }
    }
    let mut message = Map::new();
    message.insert("role", "assistant");
    message.insert(
        "content",
        if text.is_empty() && !calls.is_empty() { Value::Null } else { text.as_str().into() },
    );
    reasoning.write(&text, fields, &mut message);
    if !calls.is_empty() {
        message.insert("tool_calls", calls);
    }
    // a turn of nothing but Anthropic's own
    let is_set = message.len() > 2 || !text.is_empty();
    if is_set {
        out.push(message.into());
    }
    Ok(())
}
