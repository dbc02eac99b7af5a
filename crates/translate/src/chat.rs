//! Reads an OpenAI chat completion request: what the requests to every other provider are built from.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{TranslateError, refuse};

/// A chat completion request. Values that mean the same for every provider are checked here.
pub(super) struct ChatRequest {
    /// The model that the caller asked for.
    pub(super) model: String,
    pub(super) messages: Vec<Message>,
    pub(super) tools: Vec<Tool>,
    pub(super) tool_choice: Option<ToolChoice>,
    pub(super) parallel_tool_calls: bool,
    pub(super) tokens_max: Option<u64>,
    pub(super) stop: Vec<String>,
    pub(super) format: Format,
    pub(super) effort: Option<Effort>,
    pub(super) choices: u64,
    pub(super) user: Option<String>,
    pub(super) stream: bool,
    /// The fields that are left: those that a provider takes as they are.
    pub(super) fields: Map<String, Value>,
}

/// One message and where it stands, such as `messages[2]`.
pub(super) struct Message {
    pub(super) field: String,
    pub(super) role: Role,
    pub(super) parts: Vec<Part>,
    pub(super) calls: Vec<Call>,
    /// The call that a tool's message answers.
    pub(super) call_id: String,
    /// Anthropic's `cache_control` of the whole message.
    pub(super) cache_control: Option<Value>,
    /// Anthropic's thinking blocks of an earlier reply, with their signatures.
    pub(super) thinking_blocks: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
    Tool,
}

/// One part of a message's content.
pub(super) struct Part {
    pub(super) field: String,
    pub(super) content: Content,
    pub(super) cache_control: Option<Value>,
}

pub(super) enum Content {
    Text(String),
    /// An image at a URL, or any file in the request itself.
    Url(String),
    Data {
        media_type: String,
        base64: String,
    },
}

/// A call of a function in an assistant's message.
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Map<String, Value>,
    /// Gemini's `thought_signature` of the call.
    pub(super) signature: Option<String>,
}

pub(super) enum Tool {
    Function {
        name: String,
        description: Option<String>,
        parameters: Option<Value>,
        cache_control: Option<Value>,
    },
    /// A tool of a provider's own kind.
    Other { field: String, value: Value },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ToolChoice {
    Auto,
    None,
    Required,
    Function(String),
}

/// What the reply's text must be.
pub(super) enum Format {
    Text,
    Json,
    Schema(Value),
}

/// `reasoning_effort`, in the steps that providers know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    None,
    Low,
    Medium,
    High,
}

impl Effort {
    /// Tokens of reasoning, by the table of Gemini's API for OpenAI's clients.
    pub(super) fn tokens(self) -> u64 {
        match self {
            Effort::None => 0,
            Effort::Low => 1024,
            Effort::Medium => 8192,
            Effort::High => 24_576,
        }
    }
}

/// Fields whose absence from the provider's reply the caller would notice, and the remedy.
const REFUSED: [(&str, &str); 6] = [
    ("functions", "is not translated; use `tools`"),
    ("function_call", "is not translated; use `tool_choice`"),
    (
        "logprobs",
        "is not possible: this model's provider does not return log probabilities in this API; remove it",
    ),
    ("logit_bias", "is not possible: this model's provider has no bias of tokens; remove it"),
    ("audio", "is not possible: this model's provider is only asked for text; remove it"),
    ("web_search_options", "is not possible: this model's provider has no such search; remove it"),
];

impl ChatRequest {
    /// Reads the body of a request.
    pub(super) fn parse(body: &[u8]) -> Result<ChatRequest, TranslateError> {
        let mut fields: Map<String, Value> = serde_json::from_slice(body)
            .map_err(|error| refuse("body", format!("is not a JSON object ({error}); send one")))?;
        for (name, reason) in REFUSED {
            // an empty object turns the search on
            let is_used = |value: &Value| is_set(value) || name == "web_search_options" && value.is_object();
            if fields.remove(name).is_some_and(|value| is_used(&value)) {
                return Err(refuse(name, reason));
            }
        }
        check_modalities(fields.remove("modalities"))?;
        let (tools, tool_choice) = read_tools(&mut fields)?;
        let tokens_max = match take_number(&mut fields, "max_completion_tokens")? {
            Some(tokens) => Some(tokens),
            None => take_number(&mut fields, "max_tokens")?,
        };
        Ok(ChatRequest {
            model: take_string(&mut fields, "model")?.unwrap_or_default(),
            messages: read_messages(fields.remove("messages"))?,
            tools,
            tool_choice,
            parallel_tool_calls: take_bool(&mut fields, "parallel_tool_calls")?.unwrap_or(true),
            tokens_max,
            stop: read_stop(fields.remove("stop"))?,
            format: read_format(fields.remove("response_format"))?,
            effort: read_effort(&mut fields)?,
            choices: take_number(&mut fields, "n")?.unwrap_or(1),
            user: match take_string(&mut fields, "safety_identifier")? {
                Some(user) => Some(user),
                None => take_string(&mut fields, "user")?,
            },
            stream: take_bool(&mut fields, "stream")?.unwrap_or(false),
            fields,
        })
    }

    /// Takes a number that is sent on as it is.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<Value>, TranslateError> {
        match self.fields.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value @ Value::Number(_)) => Ok(Some(value)),
            Some(_) => Err(refuse(name, "must be a number")),
        }
    }
}

/// Whether a value asks for something.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_set) => *is_set,
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::String(text) => text != "none",
        Value::Number(_) => true,
    }
}

fn check_modalities(value: Option<Value>) -> Result<(), TranslateError> {
    match value {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(list)) if list.iter().all(|item| item == "text") => Ok(()),
        Some(_) => Err(refuse("modalities", "this model's provider is only asked for text; send [\"text\"]")),
    }
}

pub(super) fn take_string(
    fields: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<String>, TranslateError> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(refuse(name, "must be a string")),
    }
}

pub(super) fn take_bool(fields: &mut Map<String, Value>, name: &str) -> Result<Option<bool>, TranslateError> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(is_set)) => Ok(Some(is_set)),
        Some(_) => Err(refuse(name, "must be true or false")),
    }
}

pub(super) fn take_number(
    fields: &mut Map<String, Value>,
    name: &str,
) -> Result<Option<u64>, TranslateError> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().filter(|&number| number > 0) {
            Some(number) => Ok(Some(number)),
            None => Err(refuse(name, "must be a whole number above 0")),
        },
    }
}

fn read_stop(value: Option<Value>) -> Result<Vec<String>, TranslateError> {
    let list = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) => return Ok(vec![text]),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(refuse("stop", "must be a string or a list of strings")),
    };
    let strings = list.into_iter().map(|item| match item {
        Value::String(text) => Ok(text),
        _ => Err(refuse("stop", "must be a string or a list of strings")),
    });
    strings.collect()
}

fn read_format(value: Option<Value>) -> Result<Format, TranslateError> {
    let Some(mut value) = value.filter(|value| !value.is_null()) else { return Ok(Format::Text) };
    match value["type"].as_str() {
        Some("text") => Ok(Format::Text),
        Some("json_object") => Ok(Format::Json),
        Some("json_schema") => match value.pointer_mut("/json_schema/schema").map(Value::take) {
            Some(schema @ Value::Object(_)) => Ok(Format::Schema(schema)),
            _ => Err(refuse("response_format.json_schema.schema", "must be a JSON schema object")),
        },
        _ => Err(refuse("response_format.type", "must be `text`, `json_object` or `json_schema`")),
    }
}

fn read_effort(fields: &mut Map<String, Value>) -> Result<Option<Effort>, TranslateError> {
    match take_string(fields, "reasoning_effort")?.as_deref() {
        None => Ok(None),
        Some("none") => Ok(Some(Effort::None)),
        Some("minimal" | "low") => Ok(Some(Effort::Low)),
        Some("medium") => Ok(Some(Effort::Medium)),
        Some("high" | "xhigh" | "max") => Ok(Some(Effort::High)),
        Some(_) => Err(refuse("reasoning_effort", "must be `none`, `minimal`, `low`, `medium` or `high`")),
    }
}

fn read_tools(fields: &mut Map<String, Value>) -> Result<(Vec<Tool>, Option<ToolChoice>), TranslateError> {
    let list = match fields.remove("tools") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(refuse("tools", "must be a list")),
    };
    let mut tools = Vec::with_capacity(list.len());
    for (number, value) in list.into_iter().enumerate() {
        tools.push(read_tool(value, format!("tools[{number}]"))?);
    }
    let mut choice = fields.remove("tool_choice").unwrap_or(Value::Null);
    if choice["type"] == "allowed_tools" {
        let allowed = choice["allowed_tools"].take();
        let names: HashSet<&str> = match allowed["tools"].as_array() {
            Some(list) => list.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect(),
            None => return Err(refuse("tool_choice.allowed_tools.tools", "must be a list of functions")),
        };
        tools.retain(|tool| match tool {
            Tool::Function { name, .. } => names.contains(name.as_str()),
            Tool::Other { .. } => false,
        });
        choice = allowed["mode"].clone();
    }
    Ok((tools, read_tool_choice(&choice)?))
}

fn read_tool_choice(value: &Value) -> Result<Option<ToolChoice>, TranslateError> {
    match (value, value["function"]["name"].as_str()) {
        (Value::Null, _) => Ok(None),
        (Value::String(mode), _) if mode == "auto" => Ok(Some(ToolChoice::Auto)),
        (Value::String(mode), _) if mode == "none" => Ok(Some(ToolChoice::None)),
        (Value::String(mode), _) if mode == "required" => Ok(Some(ToolChoice::Required)),
        (Value::Object(_), Some(name)) => Ok(Some(ToolChoice::Function(name.to_owned()))),
        _ => Err(refuse("tool_choice", "must be `auto`, `none`, `required`, a function or `allowed_tools`")),
    }
}

fn read_tool(mut value: Value, field: String) -> Result<Tool, TranslateError> {
    if value["type"] != "function" {
        return match value {
            Value::Object(_) => Ok(Tool::Other { field, value }),
            _ => Err(refuse(field, "must be an object")),
        };
    }
    let Some(Value::Object(function)) = value.get_mut("function") else {
        return Err(refuse(format!("{field}.function"), "must be an object"));
    };
    let name = match take_string(function, "name") {
        Ok(Some(name)) if !name.is_empty() => name,
        _ => return Err(refuse(format!("{field}.function.name"), "must be a string that is not empty")),
    };
    let description = take_string(function, "description")
        .map_err(|_| refuse(format!("{field}.function.description"), "must be a string"))?;
    let parameters = match function.remove("parameters") {
        None | Some(Value::Null) => None,
        Some(schema @ Value::Object(_)) => Some(schema),
        Some(_) => {
            return Err(refuse(format!("{field}.function.parameters"), "must be a JSON schema object"));
        }
    };
    let inner = function.remove("cache_control");
    let cache_control = value.get_mut("cache_control").map(Value::take).or(inner);
    Ok(Tool::Function { name, description, parameters, cache_control })
}

fn read_messages(value: Option<Value>) -> Result<Vec<Message>, TranslateError> {
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
    let thinking_blocks = match map.remove("thinking_blocks") {
        Some(Value::Array(blocks)) => blocks,
        _ => Vec::new(),
    };
    Ok(Message {
        parts: read_content(map.remove("content"), &field)?,
        calls: read_calls(map.remove("tool_calls"), &field)?,
        cache_control: map.remove("cache_control"),
        field,
        role,
        call_id,
        thinking_blocks,
    })
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

fn read_part(mut value: Value, field: String) -> Result<Part, TranslateError> {
    if !value.is_object() {
        return Err(refuse(field, "must be an object"));
    }
    let mut string = |pointer: &str| match value.pointer_mut(pointer).map(Value::take) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(refuse(format!("{field}{}", pointer.replace('/', ".")), "must be a string")),
    };
    let content = match string("/type")?.as_str() {
        "text" => Content::Text(string("/text")?),
        "refusal" => Content::Text(string("/refusal")?),
        "image_url" => read_url(string("/image_url/url")?, &field)?,
        "input_audio" => Content::Data {
            media_type: format!("audio/{}", string("/input_audio/format")?),
            base64: string("/input_audio/data")?,
        },
        "file" => match string("/file/file_data") {
            Ok(data) => read_url(data, &field)?,
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
    Ok(Part { cache_control: value.get_mut("cache_control").map(Value::take), field, content })
}

/// Reads a URL, or what a data URL contains.
fn read_url(url: String, field: &str) -> Result<Content, TranslateError> {
    let Some(data) = url.strip_prefix("data:") else {
        return Ok(Content::Url(url));
    };
    match data.split_once(";base64,") {
        Some((kind, base64)) if !kind.is_empty() && !base64.is_empty() => {
            let media_type = kind.split(';').next().unwrap_or(kind).to_owned();
            Ok(Content::Data { media_type, base64: base64.to_owned() })
        }
        _ => Err(refuse(field, "has a data URL without type or base64; send `data:<type>;base64,<data>`")),
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
    let mut string = |pointer: &str| match value.pointer_mut(pointer).map(Value::take) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(refuse(format!("{field}{}", pointer.replace('/', ".")), "must be a string")),
    };
    let (id, name) = (string("/id")?, string("/function/name")?);
    let arguments = string("/function/arguments")?;
    let arguments = match arguments.trim() {
        "" => Map::new(),
        json => serde_json::from_str(json)
            .map_err(|_| refuse(format!("{field}.function.arguments"), "must be the JSON of an object"))?,
    };
    Ok(Call { id, name, arguments, signature: string("/extra_content/google/thought_signature").ok() })
}
