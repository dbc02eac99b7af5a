//! OpenAI's request as Anthropic's.

use std::borrow::Cow;

use super::model::Model;
use crate::chat::{ChatRequest, Content, Effort, Format, Message, Part, Role, Tool, ToolChoice};
use crate::{TranslateError, refuse};
use weir_schema::{Map, Value, object};

/// `max_tokens`, which Anthropic requires, of requests without a limit.
pub const TOKENS_MAX: u64 = 4096;
/// Tokens of reasoning that the limit of such a request allows beside, for the highest effort.
const THINKING_TOKENS_MAX: u64 = 24_576;
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
    let version = Model::named(model);
    let mut out = Map::new();
    out.insert("model", model);
    for name in OWN_FIELDS {
        if let Some(value) = chat.fields.remove(name).filter(|value| !value.is_null()) {
            out.insert(name, value);
        }
    }
    add_thinking(&chat, version, &mut out);
    add_sampling(&mut chat, version, &mut out)?;
    if let Some(user) = chat.user.take() {
        out.insert("metadata", object! {"user_id": user});
    }
    if chat.stream {
        out.insert("stream", true);
    }
    add_tools(&mut chat, &mut out)?;
    let mut system = Vec::new();
    let messages = turns(std::mem::take(&mut chat.messages), &mut system)?;
    add_format(chat.format, &mut system, &mut out)?;
    if !system.is_empty() {
        out.insert("system", system);
    }
    out.insert("messages", messages);
    Ok(Value::from(out).to_json())
}

/// The most tokens that a request without a limit may cost in its reply.
pub fn limit_max(model: &str, sets_thinking: bool) -> u64 {
    match sets_thinking || Model::named(model).thinks_by_default() {
        true => TOKENS_MAX + THINKING_TOKENS_MAX,
        false => TOKENS_MAX,
    }
}

/// Sets the limit of tokens, and asks for thinking as `thinking` or `reasoning_effort` say, in the way that the model takes.
///
/// Thinking is left out when a tool is forced, when earlier calls of tools came without the thinking blocks that have to be sent back with
/// them, and when the last message begins the answer without one: Anthropic refuses these together with thinking.
fn add_thinking(chat: &ChatRequest, model: Model, out: &mut Map) {
    out.insert("max_tokens", chat.tokens_max.unwrap_or(TOKENS_MAX));
    let asked = out.remove("thinking").unwrap_or_default();
    let is_forced = matches!(chat.tool_choice, Some(ToolChoice::Required | ToolChoice::Function(_)));
    let is_off = chat.effort == Some(Effort::None) && asked.is_null();
    if asked["type"] == "disabled" || model.thinks_by_default() && (is_off || is_forced) {
        leave_out_thinking(asked, is_off, model, out);
        return;
    }
    let effort = chat.effort.filter(|&effort| effort != Effort::None);
    let budget = match asked["type"].as_str() {
        Some("enabled") => asked["budget_tokens"].as_u64().or(Some(Effort::Medium.tokens())),
        Some(_) => Some(effort.unwrap_or(Effort::Medium).tokens()),
        None => effort.map(Effort::tokens),
    };
    let is_bare = |message: &Message| !message.calls.is_empty() && message.thinking_blocks.is_empty();
    // an answer that was begun here has none either
    let is_begun = |message: &Message| message.role == Role::Assistant && message.thinking_blocks.is_empty();
    let can_think = model.thinks()
        && !is_forced
        && !chat.messages.iter().any(is_bare)
        && !chat.messages.last().is_some_and(is_begun);
    // The limit includes the thoughts, of which there may be some in any case.
    if model.thinks_by_default() {
        let thoughts = effort.unwrap_or(Effort::High).tokens();
        out.insert("max_tokens", chat.tokens_max.unwrap_or(TOKENS_MAX + thoughts));
    }
    let Some(budget) = budget.filter(|_| can_think) else { return };
    let is_budget = asked["type"] == "enabled";
    if !(is_budget && !model.refuses_budgets() || model.thinks_by_budget()) {
        out.insert("max_tokens", chat.tokens_max.unwrap_or(budget.saturating_add(TOKENS_MAX)));
        let mut thinking = match asked {
            Value::Object(fields) if !is_budget => fields,
            _ => Map::new(),
        };
        thinking.or_insert("type", "adaptive");
        if model.hides_thoughts() {
            thinking.or_insert("display", "summarized");
        }
        out.insert("thinking", thinking);
        if let Some(effort) = effort.or_else(|| is_budget.then(|| Effort::of_tokens(budget))) {
            set_effort(model.effort(effort), out);
        }
        return;
    }
    // The limit includes the reasoning, as OpenAI's does: half of it is left for the text.
    let budget = match chat.tokens_max {
        Some(tokens_max) if is_budget && budget < tokens_max => budget,
        Some(tokens_max) => budget.min(tokens_max / 2),
        None => budget,
    };
    if budget < THINKING_TOKENS_MIN {
        return;
    }
    out.insert("max_tokens", chat.tokens_max.unwrap_or(budget.saturating_add(TOKENS_MAX)));
    let mut thinking = match asked {
        Value::Object(fields) if is_budget => fields,
        _ => Map::new(),
    };
    thinking.insert("type", "enabled");
    thinking.insert("budget_tokens", budget);
    out.insert("thinking", thinking);
}

/// Lets a model that thinks by default think as little as it can.
fn leave_out_thinking(asked: Value, is_off: bool, model: Model, out: &mut Map) {
    if asked["type"] == "disabled" {
        out.insert("thinking", asked);
    } else if !model.always_thinks() {
        out.insert("thinking", object! {"type": "disabled"});
    } else if is_off {
        set_effort(model.effort(Effort::Low), out);
    }
}

fn set_effort(name: &str, out: &mut Map) {
    if let Some(config) = output_config(out) {
        config.or_insert("effort", name);
    }
}

/// The object `output_config`, made when it is missing.
fn output_config(out: &mut Map) -> Option<&mut Map> {
    out.or_insert("output_config", Map::new()).as_object_mut()
}

fn add_sampling(chat: &mut ChatRequest, model: Model, out: &mut Map) -> Result<(), TranslateError> {
    let (temperature, top_p) = (chat.number("temperature")?, chat.number("top_p")?);
    // Anthropic refuses them together with thinking.
    let thinks = out.get("thinking").is_some_and(|thinking| thinking["type"] != "disabled");
    if thinks || model.refuses_sampling() {
        out.remove("top_k");
    } else {
        let has_temperature = temperature.is_some();
        if let Some(temperature) = temperature {
            // OpenAI's range ends at 2, Anthropic's at 1.
            let is_above = temperature.as_f64().is_some_and(|degrees| degrees > 1.0);
            out.insert("temperature", if is_above { Value::from(1) } else { temperature });
        }
        if let Some(top_p) = top_p.filter(|_| !has_temperature || model.takes_both()) {
            out.insert("top_p", top_p);
        }
    }
    // Anthropic refuses stop sequences of white space.
    let stop = chat.stop.drain(..).filter(|text| !text.trim().is_empty()).map(Value::from);
    let stop: Vec<Value> = stop.collect();
    if !stop.is_empty() {
        out.insert("stop_sequences", stop);
    }
    Ok(())
}

fn add_format(format: Format, system: &mut Vec<Value>, out: &mut Map) -> Result<(), TranslateError> {
    match format {
        Format::Text => {}
        Format::Json => system.push(object! {"type": "text", "text": JSON_INSTRUCTION}),
        Format::Schema(schema) if weir_schema::has_open_objects(&schema) => {
            let text = format!("{JSON_INSTRUCTION} It is valid by this JSON schema: {schema}");
            system.push(object! {"type": "text", "text": text});
        }
        Format::Schema(schema) => {
            let schema = weir_schema::for_anthropic(&schema, "response_format.json_schema.schema")?;
            let Some(config) = output_config(out) else {
                return Err(refuse("output_config", "must be an object"));
            };
            config.insert("format", object! {"type": "json_schema", "schema": schema});
        }
    }
    Ok(())
}

fn add_tools(chat: &mut ChatRequest, out: &mut Map) -> Result<(), TranslateError> {
    if chat.tools.is_empty() {
        return Ok(());
    }
    let mut tools = Vec::with_capacity(chat.tools.len());
    for (number, given) in chat.tools.drain(..).enumerate() {
        tools.push(tool(given, number)?);
    }
    out.insert("tools", tools);
    let mut choice = match chat.tool_choice.take() {
        None if chat.parallel_tool_calls => return Ok(()),
        None | Some(ToolChoice::Auto) => object! {"type": "auto"},
        Some(ToolChoice::Required) => object! {"type": "any"},
        Some(ToolChoice::Function(name)) => object! {"type": "tool", "name": name},
        Some(ToolChoice::None) => object! {"type": "none"},
    };
    if !chat.parallel_tool_calls && choice["type"] != "none" {
        choice = with(choice, "disable_parallel_tool_use", Some(true.into()));
    }
    out.insert("tool_choice", choice);
    Ok(())
}

/// The tool of this number.
fn tool(tool: Tool, number: usize) -> Result<Value, TranslateError> {
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
    let input = weir_schema::tool_input(parameters, &format!("tools[{number}].function.parameters"))?;
    let out = object! {"name": name, "input_schema": input};
    let out = with(out, "description", description.map(Value::from));
    Ok(with(out, "cache_control", cache_control))
}

/// A block with a key more, if there is a value for it.
fn with(mut block: Value, key: &str, value: Option<Value>) -> Value {
    if let (Some(map), Some(value)) = (block.as_object_mut(), value.filter(|value| !value.is_null())) {
        map.insert(key, value);
    }
    block
}

/// The turns of the conversation; what the system says goes to `system`.
fn turns(messages: Vec<Message>, system: &mut Vec<Value>) -> Result<Vec<Value>, TranslateError> {
    let mut turns = Turns::default();
    let last = messages.len().saturating_sub(1);
    for (number, message) in messages.into_iter().enumerate() {
        if message.role == Role::Tool {
            let result = tool_result(message)?;
            turns.results.push(result);
            continue;
        }
        let results = std::mem::take(&mut turns.results);
        turns.push("user", results);
        match message.role {
            Role::System => system.extend(blocks(message.parts, message.cache_control)?),
            Role::User => {
                let content = blocks(message.parts, message.cache_control)?;
                // Left out at the end, it would make the model go on with its own answer.
                let follows_user = turns.turns.last().is_some_and(|turn| turn["role"] == "user");
                if content.is_empty() && number == last && !follows_user {
                    return Err(refuse(format!("{}.content", message.field), "is empty; send a text"));
                }
                turns.push("user", content);
            }
            _ => {
                let mut content = assistant(message)?;
                if number == last {
                    trim_end(&mut content);
                }
                turns.push("assistant", content);
            }
        }
    }
    let results = std::mem::take(&mut turns.results);
    turns.push("user", results);
    match turns.turns.is_empty() {
        true => Err(refuse("messages", "has no message of a user with a text; send at least one")),
        false => Ok(turns.turns),
    }
}

#[derive(Default)]
struct Turns {
    turns: Vec<Value>,
    /// The results of tools since the last other message.
    results: Vec<Value>,
}

impl Turns {
    fn push(&mut self, role: &str, content: Vec<Value>) {
        if !content.is_empty() {
            self.turns.push(object! {"role": role, "content": content});
        }
    }
}

/// Anthropic refuses white space at the end of an answer that the model is to go on with.
fn trim_end(content: &mut [Value]) {
    if let Some(Value::String(text)) = content.last_mut().and_then(|block| block.at_mut("text")) {
        text.truncate(text.trim_end().len());
    }
}

fn assistant(message: Message) -> Result<Vec<Value>, TranslateError> {
    if let Some(file) = message.parts.iter().find(|part| !matches!(part.content, Content::Text(_))) {
        return Err(refuse(
            file.field.as_str(),
            "is in an answer, which has text alone; send it as the user's",
        ));
    }
    let mut content = message.thinking_blocks;
    content.extend(blocks(message.parts, None)?);
    for call in message.calls {
        let id = tool_id(&call.id);
        content.push(
            object! {"type": "tool_use", "id": id.into_owned(), "name": call.name, "input": call.arguments},
        );
    }
    // Thinking takes none.
    let is_markable = |block: &&mut Value| matches!(block["type"].as_str(), Some("text" | "tool_use"));
    if let Some(last) = content.last_mut().filter(is_markable) {
        *last = with(last.take(), "cache_control", message.cache_control);
    }
    Ok(content)
}

fn tool_result(message: Message) -> Result<Value, TranslateError> {
    let mut block = object! {"type": "tool_result", "tool_use_id": tool_id(&message.call_id).into_owned()};
    let content = blocks(message.parts, None)?;
    if !content.is_empty() {
        block = with(block, "content", Some(content.into()));
    }
    block = with(block, "is_error", message.is_error.then(|| true.into()));
    Ok(with(block, "cache_control", message.cache_control))
}

/// An id in the characters that Anthropic allows.
pub(crate) fn tool_id(id: &str) -> Cow<'_, str> {
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
    match id.chars().all(is_allowed) {
        true => Cow::Borrowed(id),
        false => id.chars().map(|char| if is_allowed(char) { char } else { '_' }).collect(),
    }
}

/// The blocks of a message. `cache_control` belongs to the last one. Anthropic refuses texts that are empty or white space: they are left out, and
/// what they mark ends with the block before them.
fn blocks(parts: Vec<Part>, cache_control: Option<Value>) -> Result<Vec<Value>, TranslateError> {
    let mut blocks: Vec<Value> = Vec::with_capacity(parts.len());
    for part in parts {
        if matches!(&part.content, Content::Text(text) if text.trim().is_empty()) {
            if let Some(last) = blocks.last_mut() {
                *last = with(last.take(), "cache_control", part.cache_control);
            }
            continue;
        }
        blocks.push(with(block(part.content, &part.field)?, "cache_control", part.cache_control));
    }
    if let Some(last) = blocks.last_mut() {
        *last = with(last.take(), "cache_control", cache_control);
    }
    Ok(blocks)
}

fn block(content: Content, field: &str) -> Result<Value, TranslateError> {
    let url = |kind: &str, url: String| object! {"type": kind, "source": object! {"type": "url", "url": url}};
    Ok(match content {
        Content::Text(text) => object! {"type": "text", "text": text},
        Content::Url { url: address, is_image: true } => url("image", address),
        Content::Url { url: address, is_image: false } => url("document", address),
        Content::Data { media_type, base64, name } => {
            let kind = match media_type.as_str() {
                "application/pdf" => "document",
                "image/jpeg" | "image/png" | "image/gif" | "image/webp" => "image",
                kind => {
                    let reason = format!(
                        "Anthropic reads images (JPEG, PNG, GIF, WebP) and PDFs, not {kind}; send one of these"
                    );
                    return Err(refuse(field, reason));
                }
            };
            let title = name.filter(|_| kind == "document").map(Value::from);
            let source = object! {"type": "base64", "media_type": media_type, "data": base64};
            with(object! {"type": kind, "source": source}, "title", title)
        }
    })
}
