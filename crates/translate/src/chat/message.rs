//! Reads the messages of a chat completion request.

use super::{Call, Content, Message, Part, Role, take_bool, take_string};
use crate::{TranslateError, refuse};
use weir_schema::{Map, Value, object};

pub(super) fn read_messages(value: Option<Value>) -> Result<Vec<Message>, TranslateError> {
    let Some(Value::Array(list)) = value else {
        return Err(refuse("messages", "must be a list of messages"));
    };
    let read = |(number, value)| read_message(value, format!("messages[{number}]"));
    list.into_iter().enumerate().map(read).collect()
}

fn read_message(value: Value, field: String) -> Result<Message, TranslateError> {
    let Value::Object(mut map) = value else { return Err(refuse(field, "must be an object")) };
    let role = match map.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => Role::System,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool") => Role::Tool,
        Some("function") => {
            return Err(refuse(format!("{field}.role"), "`function` is not translated; use `tool`"));
        }
        _ => {
            let reason = "must be `system`, `developer`, `user`, `assistant` or `tool`";
            return Err(refuse(format!("{field}.role"), reason));
        }
    };
    if map.get("function_call").is_some_and(|call| !call.is_null()) {
        return Err(refuse(format!("{field}.function_call"), "is not translated; use `tool_calls`"));
    }
    let call_id = match take_string(&mut map, "tool_call_id") {
        Ok(Some(id)) => id,
        Ok(None) if role != Role::Tool => String::new(),
        _ => {
            return Err(refuse(
                format!("{field}.tool_call_id"),
                "must be the id of the call that it answers",
            ));
        }
    };
    if map.get("audio").is_some_and(|audio| !audio.is_null()) {
        return Err(refuse(
            format!("{field}.audio"),
            "is an answer that only its provider has; send its transcript as text",
        ));
    }
    let mut content = map.remove("content");
    if content.as_ref().is_none_or(Value::is_null) {
        content = map.remove("refusal");
    }
    let is_error = take_bool(&mut map, "is_error").unwrap_or_default().unwrap_or(false);
    let extra = map.remove("extra_content").unwrap_or_default();
    let signature = extra["google"]["thought_signature"].as_str().map(str::to_owned);
    let thinking_blocks = read_thinking(&mut map, content.as_mut());
    let parts = read_content(content, &field)?;
    let file = parts.iter().find(|part| !matches!(part.content, Content::Text(_)));
    if let Some(file) = file.filter(|_| role == Role::System) {
        return Err(refuse(
            file.field.as_str(),
            "is in a system message, which has text alone; send it as the user's",
        ));
    }
    Ok(Message {
        signature,
        thinking_blocks,
        parts,
        calls: read_calls(map.remove("tool_calls"), &field)?,
        cache_control: map.remove("cache_control"),
        field,
        role,
        call_id,
        is_error,
    })
}

/// The reasoning of an earlier reply that Anthropic has signed: blocks of its own kind, in a field or among the parts of the content, or
/// OpenRouter's `reasoning_details`. Reasoning without a signature is of no use to it. Blocks in the content are taken out of it.
fn read_thinking(map: &mut Map, content: Option<&mut Value>) -> Vec<Value> {
    let mut blocks = match map.remove("thinking_blocks") {
        Some(Value::Array(blocks)) => blocks,
        _ => Vec::new(),
    };
    if let Some(Value::Array(parts)) = content {
        let is_thinking = |part: &mut Value| {
            let kind = part["type"].as_str();
            // and Mistral's references, which point to results of tools
            matches!(kind, Some("thinking" | "redacted_thinking" | "reasoning" | "reference"))
        };
        let inner: Vec<Value> = parts.extract_if(.., is_thinking).collect();
        if blocks.is_empty() {
            blocks = inner;
        }
    }
    if blocks.is_empty()
        && let Some(Value::Array(details)) = map.remove("reasoning_details")
    {
        blocks = details.iter().filter_map(signed_detail).collect();
    }
    blocks.iter().filter_map(signed_block).collect()
}

/// A thinking block as Anthropic takes it, which refuses any other key.
fn signed_block(block: &Value) -> Option<Value> {
    match block["type"].as_str()? {
        "thinking" => {
            let signature = block["signature"].as_str().filter(|signature| !signature.is_empty())?;
            let thinking = block["thinking"].as_str()?;
            Some(object! {"type": "thinking", "thinking": thinking, "signature": signature})
        }
        "redacted_thinking" => Some(object! {"type": "redacted_thinking", "data": block["data"].as_str()?}),
        _ => None,
    }
}

/// The block of Anthropic's that OpenRouter has made a detail of.
fn signed_detail(detail: &Value) -> Option<Value> {
    if detail["format"].as_str().is_some_and(|format| !format.starts_with("anthropic")) {
        return None;
    }
    match detail["type"].as_str()? {
        "reasoning.text" => Some(object! {
            "type": "thinking",
            "thinking": detail["text"].clone(),
            "signature": detail["signature"].clone(),
        }),
        "reasoning.encrypted" => Some(object! {"type": "redacted_thinking", "data": detail["data"].clone()}),
        _ => None,
    }
}

fn read_content(value: Option<Value>, message: &str) -> Result<Vec<Part>, TranslateError> {
    let field = format!("{message}.content");
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => {
            Ok(vec![Part { field, content: Content::Text(text), cache_control: None }])
        }
        Some(Value::Array(list)) => {
            let read = |(number, value)| read_part(value, format!("{field}[{number}]"));
            list.into_iter().enumerate().map(read).collect()
        }
        Some(_) => Err(refuse(field, "must be a string or a list of parts")),
    }
}

/// Takes the string at the end of a path of keys.
fn take_at(value: &mut Value, path: &str, field: &str) -> Result<String, TranslateError> {
    match value.at_mut(path).map(Value::take) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(refuse(format!("{field}.{}", path.replace('/', ".")), "must be a string")),
    }
}

fn read_part(mut value: Value, field: String) -> Result<Part, TranslateError> {
    if !value.is_object() {
        return Err(refuse(field, "must be an object"));
    }
    let is_bare_url = value["image_url"].as_str().is_some();
    let mut string = |path: &str| take_at(&mut value, path, &field);
    let content = match string("type")?.as_str() {
        "text" => Content::Text(string("text")?),
        "refusal" => Content::Text(string("refusal")?),
        // providers differ in whether the URL is in an object
        "image_url" => {
            let path = if is_bare_url { "image_url" } else { "image_url/url" };
            read_url(string(path)?, true, None, &field)?
        }
        "input_audio" => Content::Data {
            media_type: format!("audio/{}", string("input_audio/format")?),
            base64: string("input_audio/data")?,
            name: None,
        },
        "file" => match string("file/file_data") {
            Ok(data) => read_url(data, false, string("file/filename").ok(), &field)?,
            Err(_) => {
                return Err(refuse(
                    format!("{field}.file"),
                    "needs `file_data`: another provider can't read file ids",
                ));
            }
        },
        kind => {
            let reason = format!("`{kind}` is not translated; use text, image_url, input_audio or file");
            return Err(refuse(format!("{field}.type"), reason));
        }
    };
    Ok(Part { cache_control: value.at_mut("cache_control").map(Value::take), field, content })
}

/// Reads a URL, or what a data URL contains.
fn read_url(
    url: String,
    is_image: bool,
    name: Option<String>,
    field: &str,
) -> Result<Content, TranslateError> {
    let Some(data) = url.strip_prefix("data:") else {
        return match url.contains("://") {
            true => Ok(Content::Url { url, is_image }),
            false => Err(refuse(field, "has no URL; send one, or `data:<type>;base64,<data>`")),
        };
    };
    match data.split_once(";base64,") {
        Some((kind, base64)) if !kind.is_empty() && !base64.is_empty() => {
            let media_type = media_type(kind.split(';').next().unwrap_or(kind));
            Ok(Content::Data { media_type, base64: base64.to_owned(), name })
        }
        _ => Err(refuse(field, "has a data URL without type or base64; send `data:<type>;base64,<data>`")),
    }
}

/// A media type by its registered name.
fn media_type(name: &str) -> String {
    match name.trim().to_ascii_lowercase().as_str() {
        "image/jpg" | "image/pjpeg" => "image/jpeg".to_owned(),
        "application/x-pdf" => "application/pdf".to_owned(),
        name => name.to_owned(),
    }
}

fn read_calls(value: Option<Value>, message: &str) -> Result<Vec<Call>, TranslateError> {
    match value {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(list)) => {
            let read = |(number, value)| read_call(value, &format!("{message}.tool_calls[{number}]"));
            list.into_iter().enumerate().map(read).collect()
        }
        Some(_) => Err(refuse(format!("{message}.tool_calls"), "must be a list")),
    }
}

fn read_call(mut value: Value, field: &str) -> Result<Call, TranslateError> {
    if value["type"] == "custom" {
        return Err(refuse(
            field,
            "calls a tool with free text as input, which is not translated; use a function",
        ));
    }
    let mut string = |path: &str| take_at(&mut value, path, field);
    let (id, name) = (string("id")?, string("function/name")?);
    let arguments = string("function/arguments")?;
    let arguments = match Value::parse(arguments.as_bytes()) {
        Ok(Value::Object(arguments)) => arguments,
        _ if arguments.trim().is_empty() => Map::new(),
        _ => return Err(refuse(format!("{field}.function.arguments"), "must be the JSON of an object")),
    };
    Ok(Call { id, name, arguments, signature: string("extra_content/google/thought_signature").ok() })
}
