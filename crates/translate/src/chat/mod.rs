//! Reads an OpenAI chat completion request: what the requests to every other provider are built from.

mod message;

use std::collections::HashSet;

use self::message::read_messages;
use super::{TranslateError, refuse};
use weir_schema::{Map, Value, object};

/// A chat completion request. Values that mean the same for every provider are checked here.
pub(crate) struct ChatRequest {
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) tool_choice: Option<ToolChoice>,
    pub(crate) parallel_tool_calls: bool,
    pub(crate) tokens_max: Option<u64>,
    pub(crate) stop: Vec<String>,
    pub(crate) format: Format,
    pub(crate) effort: Option<Effort>,
    pub(crate) choices: u64,
    pub(crate) user: Option<String>,
    pub(crate) stream: bool,
    /// The fields that are left: those that a provider takes as they are.
    pub(crate) fields: Map,
}

/// One message and where it stands, such as `messages[2]`.
pub(crate) struct Message {
    pub(crate) field: String,
    pub(crate) role: Role,
    pub(crate) parts: Vec<Part>,
    pub(crate) calls: Vec<Call>,
    /// The call that a tool's message answers.
    pub(crate) call_id: String,
    /// Whether the call failed. A field of Anthropic's that is taken from callers who send it.
    pub(crate) is_error: bool,
    /// Anthropic's `cache_control` of the whole message.
    pub(crate) cache_control: Option<Value>,
    /// Anthropic's thinking blocks of an earlier reply, with their signatures.
    pub(crate) thinking_blocks: Vec<Value>,
    /// Gemini's `thought_signature` of the text.
    pub(crate) signature: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    System,
    User,
    Assistant,
    Tool,
}

/// One part of a message's content.
pub(crate) struct Part {
    pub(crate) field: String,
    pub(crate) content: Content,
    pub(crate) cache_control: Option<Value>,
}

pub(crate) enum Content {
    Text(String),
    /// An image or another file at a URL.
    Url {
        url: String,
        is_image: bool,
    },
    /// Any file in the request itself.
    Data {
        media_type: String,
        base64: String,
        name: Option<String>,
    },
}

/// A call of a function in an assistant's message.
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Map,
    /// Gemini's `thought_signature` of the call.
    pub(crate) signature: Option<String>,
}

pub(crate) enum Tool {
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
pub(crate) enum ToolChoice {
    Auto,
    None,
    Required,
    Function(String),
}

/// The required format of the reply's text.
pub(crate) enum Format {
    Text,
    Json,
    Schema(Value),
}

/// `reasoning_effort`, in the steps that providers know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    ExtraHigh,
    Max,
}

/// The words for efforts.
const EFFORTS: [(&str, Effort); 7] = [
    ("none", Effort::None),
    ("minimal", Effort::Minimal),
    ("low", Effort::Low),
    ("medium", Effort::Medium),
    ("high", Effort::High),
    ("xhigh", Effort::ExtraHigh),
    ("max", Effort::Max),
];

impl Effort {
    pub(crate) fn named(name: &str) -> Option<Effort> {
        EFFORTS.iter().find(|(known, _)| *known == name).map(|(_, effort)| *effort)
    }

    /// The effort that a budget of thinking stands for.
    pub(crate) fn of_tokens(budget: u64) -> Effort {
        match budget {
            ..=4096 => Effort::Low,
            4097..=16_384 => Effort::Medium,
            _ => Effort::High,
        }
    }

    /// Tokens of reasoning, by the table of Gemini's API for OpenAI's clients.
    pub(crate) fn tokens(self) -> u64 {
        match self {
            Effort::None => 0,
            Effort::Minimal | Effort::Low => 1024,
            Effort::Medium => 8192,
            Effort::High | Effort::ExtraHigh | Effort::Max => 24_576,
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

/// Reads the body of a request, which is an object.
pub(crate) fn read_body(body: &[u8]) -> Result<Map, TranslateError> {
    match Value::parse(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(refuse("body", "is not a JSON object; send one")),
        Err(error) => Err(refuse("body", format!("is not a JSON object ({error}); send one"))),
    }
}

impl ChatRequest {
    /// Reads the body of a request.
    pub(crate) fn parse(body: &[u8]) -> Result<ChatRequest, TranslateError> {
        let mut fields = read_body(body)?;
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
        let request = ChatRequest {
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
        };
        refuse_others(&request.fields, &[&IGNORED[..], &ANTHROPIC[..]].concat())?;
        Ok(request)
    }

    /// Takes a number that is sent on as it is.
    pub(crate) fn number(&mut self, name: &str) -> Result<Option<Value>, TranslateError> {
        match self.fields.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value @ Value::Number(_)) => Ok(Some(value)),
            Some(_) => Err(refuse(name, "must be a number")),
        }
    }
}

/// Fields of chat completions, and of servers with this API, without which a reply is still what was asked for.
const IGNORED: [&str; 29] = [
    "model",
    "input",
    "prompt",
    "max_tokens",
    "stream_options",
    "store",
    "metadata",
    "service_tier",
    "prediction",
    "verbosity",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "top_logprobs",
    "seed",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "top_a",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "thinking",
    "cache_control",
    "include_reasoning",
    "user",
    "parallel_tool_calls",
    "tool_choice",
];

/// Fields of Anthropic's that callers of chat completions send beside.
const ANTHROPIC: [&str; 2] = ["output_config", "container"];

/// Refuses what is left of a request's fields and may be of weight: a field that is not known here may change what the reply is.
pub(crate) fn refuse_others(fields: &Map, ignored: &[&str]) -> Result<(), TranslateError> {
    let mut others = fields.iter().filter(|(name, value)| !value.is_null() && !ignored.contains(name));
    match others.next() {
        Some((name, _)) => Err(refuse(
            name,
            "is not known, and is not sent to this model's provider, which has another API; remove it",
        )),
        None => Ok(()),
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

pub(crate) fn take_string(fields: &mut Map, name: &str) -> Result<Option<String>, TranslateError> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(refuse(name, "must be a string")),
    }
}

pub(crate) fn take_bool(fields: &mut Map, name: &str) -> Result<Option<bool>, TranslateError> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(is_set)) => Ok(Some(is_set)),
        Some(_) => Err(refuse(name, "must be true or false")),
    }
}

pub(crate) fn take_number(fields: &mut Map, name: &str) -> Result<Option<u64>, TranslateError> {
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
        Some("json_schema") => match value.at_mut("json_schema/schema").map(Value::take) {
            Some(schema @ Value::Object(_)) => Ok(Format::Schema(schema)),
            _ => Err(refuse("response_format.json_schema.schema", "must be a JSON schema object")),
        },
        _ => Err(refuse("response_format.type", "must be `text`, `json_object` or `json_schema`")),
    }
}

/// OpenRouter's `reasoning`: an effort, or a limit of tokens, which is a budget of thinking.
fn read_reasoning(fields: &mut Map) -> Result<Option<String>, TranslateError> {
    let mut reasoning = match fields.remove("reasoning") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Object(reasoning)) => reasoning,
        Some(_) => return Err(refuse("reasoning", "must be an object")),
    };
    let is_off = take_bool(&mut reasoning, "enabled")? == Some(false);
    if let Some(tokens) = take_number(&mut reasoning, "max_tokens")? {
        fields.or_insert("thinking", object! {"type": "enabled", "budget_tokens": tokens});
    }
    let effort = take_string(&mut reasoning, "effort")?;
    Ok(if is_off { Some("none".to_owned()) } else { effort })
}

fn read_effort(fields: &mut Map) -> Result<Option<Effort>, TranslateError> {
    let name = match take_string(fields, "reasoning_effort")? {
        None => read_reasoning(fields)?,
        name => name,
    };
    let Some(name) = name else { return Ok(None) };
    Effort::named(&name).map(Some).ok_or_else(|| {
        let names = EFFORTS.map(|(name, _)| format!("`{name}`")).join(", ");
        refuse("reasoning_effort", format!("must be one of {names}"))
    })
}

fn read_tools(fields: &mut Map) -> Result<(Vec<Tool>, Option<ToolChoice>), TranslateError> {
    let list = match fields.remove("tools") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(refuse("tools", "must be a list")),
    };
    let mut tools = Vec::with_capacity(list.len());
    for (number, value) in list.into_iter().enumerate() {
        tools.push(read_tool(value, format!("tools[{number}]"))?);
    }
    let choice = fields.remove("tool_choice").unwrap_or(Value::Null);
    if choice["type"] == "allowed_tools" {
        let allowed = &choice["allowed_tools"];
        let names: HashSet<&str> = match allowed["tools"].as_array() {
            Some(list) => list.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect(),
            None => return Err(refuse("tool_choice.allowed_tools.tools", "must be a list of functions")),
        };
        tools.retain(|tool| match tool {
            Tool::Function { name, .. } => names.contains(name.as_str()),
            Tool::Other { .. } => false,
        });
        return Ok((tools, read_tool_choice(&allowed["mode"])?));
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
    let Some(Value::Object(function)) = value.at_mut("function") else {
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
    let cache_control = value.at_mut("cache_control").map(Value::take).or(inner);
    Ok(Tool::Function { name, description, parameters, cache_control })
}
