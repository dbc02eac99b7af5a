//! OpenAI's request as Anthropic's.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::chat::{ChatRequest, Content, Effort, Format, Message, Part, Role, Tool, ToolChoice};
use crate::{TranslateError, refuse, write_json};

/// `max_tokens`, which Anthropic requires, of requests without a limit.
pub const TOKENS_MAX: u64 = 4096;
/// The least budget that Anthropic accepts for thinking.
const THINKING_TOKENS_MIN: u64 = 1024;
/// The instruction that stands for `json_object`, which Anthropic's API doesn't have.
const JSON_INSTRUCTION: &str =
    "Answer with one JSON object and nothing else: no text before or after it, no code fence.";
/// Anthropic's own fields, which are sent as they are.
const OWN_FIELDS: [&str; 5] = ["thinking", "top_k", "cache_control", "output_config", "container"];

/// Translates the body of a chat completion request to the body of `POST /v1/messages` for `model`.
///
/// # Errors
/// [`TranslateError::Request`] for what Anthropic can't be asked for.
pub fn request(body: &[u8], model: &str) -> Result<Vec<u8>, TranslateError> {
    let mut chat = ChatRequest::parse(body)?;
    if chat.choices > 1 {
        return Err(refuse(
            "n",
            "is more than Anthropic gives, one reply per request; send n = 1, or several requests",
        ));
    }
    let mut out = Map::new();
    out.insert("model".to_owned(), model.into());
    for name in OWN_FIELDS {
        if let Some(value) = chat.fields.remove(name).filter(|value| !value.is_null()) {
            out.insert(name.to_owned(), value);
        }
    }
    // The limit includes the budget of thinking, and must be above it.
    let budget = out.get("thinking").and_then(|thinking| thinking["budget_tokens"].as_u64()).unwrap_or(0);
    let tokens_max = chat.tokens_max.unwrap_or_else(|| budget.saturating_add(TOKENS_MAX));
    out.insert("max_tokens".to_owned(), tokens_max.into());
    add_thinking(&chat, model, &mut out);
    add_sampling(&mut chat, &mut out)?;
    if let Some(user) = chat.user.take() {
        out.insert("metadata".to_owned(), json!({"user_id": user}));
    }
    if chat.stream {
        out.insert("stream".to_owned(), true.into());
    }
    add_tools(&mut chat, &mut out)?;
    let mut system = Vec::new();
    let messages = turns(std::mem::take(&mut chat.messages), &mut system)?;
    add_format(chat.format, &mut system, &mut out)?;
    if !system.is_empty() {
        out.insert("system".to_owned(), system.into());
    }
    out.insert("messages".to_owned(), messages.into());
    Ok(write_json(&out))
}

/// Asks for thinking as `reasoning_effort` says, where Anthropic accepts it.
///
/// It is a hint, and left out when a tool is forced or when earlier calls of tools came without the thinking blocks that have to
/// be sent back with them: Anthropic refuses both together with thinking.
fn add_thinking(chat: &ChatRequest, model: &str, out: &mut Map<String, Value>) {
    let Some(effort) = chat.effort.filter(|&effort| effort != Effort::None) else { return };
    let is_forced = matches!(chat.tool_choice, Some(ToolChoice::Required | ToolChoice::Function(_)));
    let is_bare = |message: &Message| !message.calls.is_empty() && message.thinking_blocks.is_empty();
    if out.contains_key("thinking") || is_forced || chat.messages.iter().any(is_bare) {
        return;
    }
    if !thinks_by_budget(model) {
        out.insert("thinking".to_owned(), json!({"type": "adaptive"}));
        let name = match effort {
            Effort::None | Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
        };
        if let Some(config) = output_config(out) {
            config.entry("effort").or_insert_with(|| name.into());
        }
        return;
    }
    // OpenAI's limit includes the reasoning, as Anthropic's does: half of it is left for the text.
    let budget = chat.tokens_max.map_or(effort.tokens(), |tokens_max| effort.tokens().min(tokens_max / 2));
    if budget >= THINKING_TOKENS_MIN {
        out.insert("thinking".to_owned(), json!({"type": "enabled", "budget_tokens": budget}));
        if chat.tokens_max.is_none() {
            out.insert("max_tokens".to_owned(), (budget + TOKENS_MAX).into());
        }
    }
}

/// Whether a model is of the generations up to Claude 4.5, which take a budget for thinking. Later ones decide it themselves and
/// take an effort.
fn thinks_by_budget(model: &str) -> bool {
    ["claude-3", "-4-0", "-4-1", "-4-5", "-4-20"].iter().any(|part| model.contains(part))
}

/// The object `output_config`, made when it is missing.
fn output_config(out: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    out.entry("output_config").or_insert_with(|| json!({})).as_object_mut()
}

fn add_sampling(chat: &mut ChatRequest, out: &mut Map<String, Value>) -> Result<(), TranslateError> {
    let (temperature, top_p) = (chat.number("temperature")?, chat.number("top_p")?);
    // Anthropic refuses both together with thinking.
    let thinks = out.get("thinking").is_some_and(|thinking| thinking["type"] != "disabled");
    if !thinks {
        if let Some(temperature) = temperature {
            // OpenAI's range ends at 2, Anthropic's at 1.
            let is_above = temperature.as_f64().is_some_and(|degrees| degrees > 1.0);
            out.insert("temperature".to_owned(), if is_above { 1.into() } else { temperature });
        }
        if let Some(top_p) = top_p {
            out.insert("top_p".to_owned(), top_p);
        }
    }
    // Anthropic refuses stop sequences of white space.
    chat.stop.retain(|text| !text.trim().is_empty());
    if !chat.stop.is_empty() {
        out.insert("stop_sequences".to_owned(), std::mem::take(&mut chat.stop).into());
    }
    Ok(())
}

fn add_format(
    format: Format,
    system: &mut Vec<Value>,
    out: &mut Map<String, Value>,
) -> Result<(), TranslateError> {
    match format {
        Format::Text => {}
        Format::Json => system.push(json!({"type": "text", "text": JSON_INSTRUCTION})),
        Format::Schema(mut schema) => {
            close_objects(&mut schema);
            let Some(config) = output_config(out) else {
                return Err(refuse("output_config", "must be an object"));
            };
            config.insert("format".to_owned(), json!({"type": "json_schema", "schema": schema}));
        }
    }
    Ok(())
}

/// Adds `additionalProperties: false`, which Anthropic requires of every object of a schema.
fn close_objects(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            map.values_mut().for_each(close_objects);
            if map.get("type").is_some_and(|kind| kind == "object") && map.contains_key("properties") {
                map.entry("additionalProperties").or_insert(Value::Bool(false));
            }
        }
        Value::Array(list) => list.iter_mut().for_each(close_objects),
        _ => {}
    }
}

fn add_tools(chat: &mut ChatRequest, out: &mut Map<String, Value>) -> Result<(), TranslateError> {
    if chat.tools.is_empty() {
        return Ok(());
    }
    let tools: Result<Vec<Value>, TranslateError> = chat.tools.drain(..).map(tool).collect();
    out.insert("tools".to_owned(), tools?.into());
    let mut choice = match chat.tool_choice.take() {
        None if chat.parallel_tool_calls => return Ok(()),
        None | Some(ToolChoice::Auto) => json!({"type": "auto"}),
        Some(ToolChoice::Required) => json!({"type": "any"}),
        Some(ToolChoice::Function(name)) => json!({"type": "tool", "name": name}),
        Some(ToolChoice::None) => json!({"type": "none"}),
    };
    if !chat.parallel_tool_calls && choice["type"] != "none" {
        choice["disable_parallel_tool_use"] = true.into();
    }
    out.insert("tool_choice".to_owned(), choice);
    Ok(())
}

fn tool(tool: Tool) -> Result<Value, TranslateError> {
    let (name, description, parameters, cache_control) = match tool {
        Tool::Function { name, description, parameters, cache_control } => {
            (name, description, parameters, cache_control)
        }
        Tool::Other { field, value } if value["type"] == "custom" => {
            return Err(refuse(field, "tools with free text as input are not translated; use a function"));
        }
        // one of Anthropic's own, such as web_search_20250305
        Tool::Other { value, .. } => return Ok(value),
    };
    let mut schema = parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    if let Some(map) = schema.as_object_mut() {
        map.entry("type").or_insert_with(|| "object".into());
    }
    let mut out = json!({"name": name, "input_schema": schema});
    if let Some(description) = description {
        out["description"] = description.into();
    }
    Ok(with_cache_control(out, cache_control))
}

fn with_cache_control(mut block: Value, cache_control: Option<Value>) -> Value {
    if let Some(cache_control) = cache_control.filter(|value| !value.is_null()) {
        block["cache_control"] = cache_control;
    }
    block
}

/// The turns of the conversation; what the system says goes to `system`.
fn turns(messages: Vec<Message>, system: &mut Vec<Value>) -> Result<Vec<Value>, TranslateError> {
    let mut turns: Vec<Value> = Vec::with_capacity(messages.len());
    let mut results: Vec<Value> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            results.push(tool_result(message)?);
            continue;
        }
        if message.role == Role::System {
            system.extend(blocks(message.parts, message.cache_control)?);
            continue;
        }
        push_turn("user", std::mem::take(&mut results), &mut turns);
        match message.role {
            Role::User => {
                let content = blocks(message.parts, message.cache_control)?;
                if content.is_empty() {
                    return Err(refuse(format!("{}.content", message.field), "is empty; send a text"));
                }
                push_turn("user", content, &mut turns);
            }
            _ => push_turn("assistant", assistant(message)?, &mut turns),
        }
    }
    push_turn("user", results, &mut turns);
    match turns.is_empty() {
        true => Err(refuse("messages", "has no message of a user; send at least one")),
        false => Ok(turns),
    }
}

fn push_turn(role: &str, content: Vec<Value>, turns: &mut Vec<Value>) {
    if !content.is_empty() {
        turns.push(json!({"role": role, "content": content}));
    }
}

fn assistant(message: Message) -> Result<Vec<Value>, TranslateError> {
    let mut content = message.thinking_blocks;
    content.extend(blocks(message.parts, None)?);
    for call in message.calls {
        let id = tool_id(&call.id);
        content.push(json!({"type": "tool_use", "id": id, "name": call.name, "input": call.arguments}));
    }
    if let (Some(last), Some(cache_control)) = (content.last_mut(), message.cache_control) {
        *last = with_cache_control(last.take(), Some(cache_control));
    }
    Ok(content)
}

fn tool_result(message: Message) -> Result<Value, TranslateError> {
    let mut block = json!({"type": "tool_result", "tool_use_id": tool_id(&message.call_id)});
    let content = blocks(message.parts, None)?;
    if !content.is_empty() {
        block["content"] = content.into();
    }
    Ok(with_cache_control(block, message.cache_control))
}

/// An id in the characters that Anthropic allows.
fn tool_id(id: &str) -> Cow<'_, str> {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    match id.chars().all(is_allowed) {
        true => Cow::Borrowed(id),
        false => id.chars().map(|char| if is_allowed(char) { char } else { '_' }).collect(),
    }
}

/// The blocks of a message. `cache_control` belongs to the last one. Anthropic refuses empty texts: they are left out.
fn blocks(parts: Vec<Part>, cache_control: Option<Value>) -> Result<Vec<Value>, TranslateError> {
    let mut blocks = Vec::with_capacity(parts.len());
    for part in parts {
        if matches!(&part.content, Content::Text(text) if text.is_empty()) {
            continue;
        }
        blocks.push(with_cache_control(block(part.content, &part.field)?, part.cache_control));
    }
    if let Some(last) = blocks.last_mut() {
        *last = with_cache_control(last.take(), cache_control);
    }
    Ok(blocks)
}

fn block(content: Content, field: &str) -> Result<Value, TranslateError> {
    Ok(match content {
        Content::Text(text) => json!({"type": "text", "text": text}),
        Content::Url(url) => json!({"type": "image", "source": {"type": "url", "url": url}}),
        Content::Data { media_type, base64 } => {
            let kind = match media_type.as_str() {
                "application/pdf" => "document",
                kind if kind.starts_with("image/") => "image",
                kind => {
                    let reason = format!("Anthropic reads images and PDFs, not {kind}; send one of these");
                    return Err(refuse(field, reason));
                }
            };
            json!({"type": kind, "source": {"type": "base64", "media_type": media_type, "data": base64}})
        }
    })
}
