//! Ollama's request as OpenAI's.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::Endpoint;
use crate::messages::Model;
use crate::{TranslateError, refuse, write_json};
use weir_schema::whole_characters;

/// A translated request.
#[derive(Debug)]
pub struct Request {
    /// The name of the model, as the caller sent it.
    pub model: String,
    /// Whether the reply is a stream.
    pub is_stream: bool,
    /// Whether [`Request::body`] is one of completions, not of chat completions.
    pub is_completion: bool,
    /// Whether the reply shows what the model thought.
    pub shows_thinking: bool,
    /// The request only loads or unloads the model: the `done_reason` of its reply.
    pub load: Option<&'static str>,
    body: Body,
}

type Body = BTreeMap<&'static str, Box<RawValue>>;

impl Request {
    /// The body of OpenAI's request, for a model of this name.
    pub fn body(&self, model: &str) -> Vec<u8> {
        let mut body = self.body.clone();
        let kind = Model::named(model);
        if kind.reasons()
            && let Some(limit) = body.remove("max_tokens")
        {
            body.insert("max_completion_tokens", limit);
        }
        if let Some(effort) = body.remove("reasoning_effort") {
            let effort = kind.effort_of_ollama(effort.get().trim_matches('"'));
            let effort = if body.contains_key("tools") { kind.effort_with_tools(effort) } else { effort };
            effort.into_iter().for_each(|effort| put(&mut body, "reasoning_effort", &effort));
        }
        put(&mut body, "model", &model);
        write_json(&body)
    }
}

/// Options that are sent on, and their names in OpenAI's API or, where it has none, in vLLM's.
const OPTIONS: [(&str, &str); 8] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("min_p", "min_p"),
    ("seed", "seed"),
    ("presence_penalty", "presence_penalty"),
    ("frequency_penalty", "frequency_penalty"),
    ("repeat_penalty", "repetition_penalty"),
];

/// Options that say how a local model is loaded, or refine one that is not sent: they are ignored.
const IGNORED_OPTIONS: [&str; 18] = [
    "num_ctx",
    "num_batch",
    "num_gpu",
    "main_gpu",
    "num_thread",
    "num_keep",
    "numa",
    "low_vram",
    "use_mmap",
    "use_mlock",
    "f16_kv",
    "vocab_only",
    "logits_all",
    "draft_num_predict",
    "repeat_last_n",
    "penalize_newline",
    "mirostat_eta",
    "mirostat_tau",
];

/// Options without a counterpart, and the value that turns each off.
const REFUSED_OPTIONS: [(&str, f64); 3] = [("mirostat", 0.0), ("tfs_z", 1.0), ("typical_p", 1.0)];

/// Fields that change nothing about the reply of an upstream.
const IGNORED: [&str; 3] = ["keep_alive", "truncate", "shift"];

/// Fields of the gateway itself, which a chat completion has too.
const OWN: [&str; 2] = ["weir", "metadata"];

/// Most characters of an unknown field's name that are repeated.
const NAME_CHARS_MAX: usize = 60;

/// Translates the body of a request.
///
/// # Errors
/// [`TranslateError::Request`].
pub fn request(endpoint: Endpoint, body: &[u8]) -> Result<Request, TranslateError> {
    let body = whole_characters(body);
    let mut fields = Fields::read(&body)?;
    let Some(model) = fields.get::<String>("model", "must be a text: the name of a model")? else {
        return Err(refuse("model", "is missing: name the model"));
    };
    let mut out = Body::new();
    let is_unloaded = fields.0.get("keep_alive").is_some_and(|value| is_zero(value.get()));
    let is_stream = fields.get("stream", "must be true or false")?.unwrap_or(true);
    put(&mut out, "stream", &is_stream);
    if is_stream {
        put(&mut out, "stream_options", &json!({"include_usage": true}));
    }
    for name in IGNORED {
        fields.take(name);
    }
    for name in OWN {
        if let Some(value) = fields.take(name) {
            out.insert(name, value.to_owned());
        }
    }
    if fields.get("_debug_render_only", "must be true or false")? == Some(true) {
        return Err(refuse(
            "_debug_render_only",
            "is not possible: upstreams do not show prompts; remove it",
        ));
    }
    options(&mut fields, &mut out)?;
    format(&mut fields, &mut out)?;
    let shows_thinking = think(&mut fields, &mut out)?;
    let logprobs: bool = fields.get("logprobs", "must be true or false")?.unwrap_or_default();
    let top_logprobs: u64 =
        fields.get("top_logprobs", "must be a whole number, 0 to 20")?.unwrap_or_default();
    if logprobs {
        put(&mut out, "logprobs", &true);
        if top_logprobs > 0 {
            put(&mut out, "top_logprobs", &top_logprobs);
        }
    }
    let (is_completion, is_empty) = match endpoint {
        Endpoint::Chat => (false, chat(&mut fields, &model, &mut out)?),
        Endpoint::Generate => generate(&mut fields, &mut out)?,
    };
    if let Some(name) = fields.0.keys().next() {
        return Err(unknown(endpoint, name));
    }
    let load = is_empty.then_some(if is_unloaded { "unload" } else { "load" });
    Ok(Request { model, is_stream, is_completion, shows_thinking, load, body: out })
}

fn unknown(endpoint: Endpoint, name: &str) -> TranslateError {
    let name: String = name.chars().take(NAME_CHARS_MAX).collect();
    let reason = match (endpoint, name.as_str()) {
        (Endpoint::Chat, "system") => "is a field of /api/generate; send a message with the role `system`",
        (Endpoint::Chat, "prompt") => "is a field of /api/generate; send `messages`",
        (Endpoint::Chat, "template") => TEMPLATE,
        (Endpoint::Generate, "messages" | "tools") => "is a field of /api/chat; call that",
        _ => "is not known; remove it",
    };
    refuse(name, reason)
}

/// The fields of a request that are not read yet.
struct Fields<'a>(BTreeMap<String, &'a RawValue>);

impl<'a> Fields<'a> {
    fn read(body: &'a [u8]) -> Result<Fields<'a>, TranslateError> {
        serde_json::from_slice(body)
            .map(Fields)
            .map_err(|error| refuse("body", format!("is not a JSON object ({error}); send one")))
    }

    /// Takes a field; null is none.
    fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        self.0.remove(name).filter(|value| value.get() != "null")
    }

    fn get<T: DeserializeOwned>(&mut self, name: &str, expected: &str) -> Result<Option<T>, TranslateError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        serde_json::from_str(value.get()).map(Some).map_err(|_| refuse(name, expected))
    }

    fn text(&mut self, name: &str) -> Result<String, TranslateError> {
        Ok(self.get(name, "must be a text")?.unwrap_or_default())
    }
}

/// Adds a value, which was built in memory: it can always be written.
fn put(out: &mut Body, name: &'static str, value: &impl Serialize) {
    if let Ok(value) = to_raw_value(value) {
        out.insert(name, value);
    }
}

/// Whether a `keep_alive` is no time at all: a number of seconds, or a text such as `5m`.
fn is_zero(json: &str) -> bool {
    let text = json.trim_matches('"').trim_end_matches(['n', 'u', 'm', 's', 'h']);
    text.parse::<f64>().is_ok_and(|number| number == 0.0)
}

fn options(fields: &mut Fields<'_>, out: &mut Body) -> Result<(), TranslateError> {
    let Some(options) = fields.take("options") else { return Ok(()) };
    let options: BTreeMap<String, Value> =
        serde_json::from_str(options.get()).map_err(|_| refuse("options", "must be an object"))?;
    for (name, value) in options.into_iter().filter(|(_, value)| !value.is_null()) {
        let field = || {
            let name: String = name.chars().take(NAME_CHARS_MAX).collect();
            format!("options.{name}")
        };
        if let Some((_, sent)) = OPTIONS.iter().find(|(known, _)| *known == name) {
            if !value.is_number() {
                return Err(refuse(field(), "must be a number"));
            }
            put(out, sent, &value);
        } else if name == "stop" {
            let is_text = |value: &Value| value.is_string();
            if !is_text(&value) && !value.as_array().is_some_and(|list| list.iter().all(is_text)) {
                return Err(refuse(field(), "must be a list of texts"));
            }
            if value.as_array().is_none_or(|list| !list.is_empty()) {
                put(out, "stop", &value);
            }
        } else if name == "num_predict" {
            let Some(tokens) = value.as_i64() else {
                return Err(refuse(field(), "must be a whole number; -1 for no limit"));
            };
            if tokens > 0 {
                put(out, "max_tokens", &tokens);
            }
        } else if let Some((_, off)) = REFUSED_OPTIONS.iter().find(|(known, _)| *known == name) {
            if value.as_f64() != Some(*off) {
                return Err(refuse(field(), "is not possible: upstreams do not have it; remove it"));
            }
        } else if !IGNORED_OPTIONS.contains(&name.as_str()) {
            return Err(refuse(field(), "is not known; remove it"));
        }
    }
    Ok(())
}

/// The format of a reply, with the order of a schema's properties.
#[derive(Serialize)]
struct Schema<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    json_schema: NamedSchema<'a>,
}

#[derive(Serialize)]
struct NamedSchema<'a> {
    name: &'static str,
    schema: &'a RawValue,
}

fn format(fields: &mut Fields<'_>, out: &mut Body) -> Result<(), TranslateError> {
    let Some(format) = fields.take("format") else { return Ok(()) };
    match format.get() {
        "\"\"" => {}
        "\"json\"" => put(out, "response_format", &json!({"type": "json_object"})),
        schema if schema.starts_with('{') => {
            let json_schema = NamedSchema { name: "reply", schema: format };
            put(out, "response_format", &Schema { kind: "json_schema", json_schema });
        }
        _ => return Err(refuse("format", "must be `json` or a JSON schema")),
    }
    Ok(())
}

/// Whether thoughts are shown.
fn think(fields: &mut Fields<'_>, out: &mut Body) -> Result<bool, TranslateError> {
    let Some(think) = fields.take("think") else { return Ok(true) };
    let effort = match think.get() {
        "false" => "none",
        "true" | "\"medium\"" => "medium",
        "\"low\"" => "low",
        "\"high\"" | "\"max\"" => "high",
        "\"\"" => return Ok(true),
        _ => return Err(refuse("think", "must be true, false, `low`, `medium`, `high` or `max`")),
    };
    put(out, "reasoning_effort", &effort);
    Ok(effort != "none")
}

/// A message of Ollama's API.
#[derive(Deserialize)]
struct Message<'a> {
    role: String,
    content: Option<String>,
    thinking: Option<String>,
    images: Option<Vec<String>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<OllamaCall<'a>>>,
    tool_name: Option<String>,
    tool_call_id: Option<String>,
}

#[derive(Deserialize)]
struct OllamaCall<'a> {
    id: Option<String>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Deserialize)]
struct Function<'a> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// Parts of the names of models that want what they thought back, as `reasoning_content`. Others refuse the field or have no use for it.
const TAKE_THINKING: [&str; 2] = ["deepseek", "kimi"];

/// The messages and tools; whether there is nothing to answer.
fn chat(fields: &mut Fields<'_>, model: &str, out: &mut Body) -> Result<bool, TranslateError> {
    if let Some(tools) = fields.take("tools") {
        if !tools.get().starts_with('[') {
            return Err(refuse("tools", "must be a list"));
        }
        if tools.get()[1..].trim_start() != "]" {
            out.insert("tools", tools.to_owned());
        }
    }
    let messages = fields.take("messages").map_or("[]", RawValue::get);
    let messages: Vec<&RawValue> =
        serde_json::from_str(messages).map_err(|_| refuse("messages", "must be a list of messages"))?;
    let takes_thinking = TAKE_THINKING.iter().any(|part| model.to_ascii_lowercase().contains(part));
    let mut conversation = Conversation { takes_thinking, ..Conversation::default() };
    for (number, message) in messages.into_iter().enumerate() {
        let field = format!("messages[{number}]");
        let message: Message<'_> = serde_json::from_str(message.get()).map_err(|error| {
            let text = error.to_string();
            // the place is counted within the message
            let reason = text.split(" at line ").next().unwrap_or_default();
            refuse(
                &field,
                format!("can't be read: {reason}; `content` is a text, `images` a list of base64, `arguments` of a call an object"),
            )
        })?;
        conversation.add(message, &field)?;
    }
    put(out, "messages", &conversation.messages);
    Ok(conversation.messages.is_empty())
}

/// OpenAI's messages.
#[derive(Default)]
struct Conversation {
    messages: Vec<Value>,
    takes_thinking: bool,
    /// Calls without a result: id and function.
    open: Vec<(String, String)>,
    calls: usize,
}

impl Conversation {
    fn add(&mut self, message: Message<'_>, field: &str) -> Result<(), TranslateError> {
        let Message { role, content, thinking, images, tool_calls, tool_name, tool_call_id } = message;
        let (role, content) = (role.to_ascii_lowercase(), content.unwrap_or_default());
        let images = images.unwrap_or_default();
        if role != "user" && !images.is_empty() {
            let reason = "is only possible in a message with the role `user`; move it there";
            return Err(refuse(format!("{field}.images"), reason));
        }
        match role.as_str() {
            "system" => self.messages.push(json!({"role": "system", "content": content})),
            "user" => self.messages.push(user(content, &images, field)?),
            "assistant" => {
                let calls = self.calls(tool_calls.unwrap_or_default(), field)?;
                let mut message = json!({"role": "assistant", "content": content});
                if let Some(thinking) = thinking.filter(|text| self.takes_thinking && !text.is_empty()) {
                    message["reasoning_content"] = thinking.into();
                }
                if !calls.is_empty() {
                    message["tool_calls"] = calls.into();
                }
                self.messages.push(message);
            }
            "tool" => {
                let id = self.answered(tool_call_id, tool_name, field)?;
                self.messages.push(json!({"role": "tool", "tool_call_id": id, "content": content}));
            }
            _ => {
                let reason = "must be `system`, `user`, `assistant` or `tool`";
                return Err(refuse(format!("{field}.role"), reason));
            }
        }
        Ok(())
    }

    /// The calls of an assistant's message. Most have no id: their place is one.
    fn calls(&mut self, calls: Vec<OllamaCall<'_>>, field: &str) -> Result<Vec<Value>, TranslateError> {
        let mut translated = Vec::with_capacity(calls.len());
        for (number, call) in calls.into_iter().enumerate() {
            let Function { name, arguments } = call.function;
            let arguments = arguments.map_or("{}", RawValue::get);
            if !arguments.starts_with('{') {
                let field = format!("{field}.tool_calls[{number}].function.arguments");
                return Err(refuse(field, "must be an object"));
            }
            self.calls += 1;
            let id = call.id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("call_{}", self.calls));
            let function = json!({"name": name, "arguments": arguments});
            translated.push(json!({"id": id, "type": "function", "function": function}));
            self.open.push((id, name));
        }
        Ok(translated)
    }

    /// The call that a result answers: that of the id, or the first open one, of the function if it is named.
    fn answered(
        &mut self,
        id: Option<String>,
        name: Option<String>,
        field: &str,
    ) -> Result<String, TranslateError> {
        let id = id.filter(|id| !id.is_empty());
        let name = name.filter(|name| !name.is_empty());
        let found = self.open.iter().position(|(open, function)| match (&id, &name) {
            (Some(id), _) => open == id,
            (None, Some(name)) => function == name,
            (None, None) => true,
        });
        match (found, id) {
            (Some(found), _) => Ok(self.open.remove(found).0),
            (None, Some(id)) => Ok(id),
            (None, None) => Err(refuse(
                field,
                "answers no call; send the assistant's message with its `tool_calls` before it, and the function as `tool_name`",
            )),
        }
    }
}

fn user(content: String, images: &[String], field: &str) -> Result<Value, TranslateError> {
    if images.is_empty() {
        return Ok(json!({"role": "user", "content": content}));
    }
    let mut parts = Vec::with_capacity(images.len() + 1);
    if !content.is_empty() {
        parts.push(json!({"type": "text", "text": content}));
    }
    for (number, image) in images.iter().enumerate() {
        let Some(media) = media_type(image) else {
            let prefix = if field.is_empty() { String::new() } else { format!("{field}.") };
            return Err(refuse(
                format!("{prefix}images[{number}]"),
                "is not PNG, JPEG, GIF or WebP in base64; send the base64 text alone",
            ));
        };
        let url = format!("data:{media};base64,{image}");
        parts.push(json!({"type": "image_url", "image_url": {"url": url}}));
    }
    Ok(json!({"role": "user", "content": parts}))
}

/// The type of an image, by how its file begins, in base64.
fn media_type(base64: &str) -> Option<&'static str> {
    let starts = [
        ("iVBORw0KGgo", "image/png"),
        ("/9j/", "image/jpeg"),
        ("R0lGOD", "image/gif"),
        ("UklGR", "image/webp"),
    ];
    starts.into_iter().find(|(start, _)| base64.starts_with(start)).map(|(_, media)| media)
}

const TEMPLATE: &str = "is not possible: upstreams have the templates of their models; remove it, or send `raw` with the whole prompt";

/// The prompt; whether the request is one of completions, and whether there is nothing to answer.
fn generate(fields: &mut Fields<'_>, out: &mut Body) -> Result<(bool, bool), TranslateError> {
    let (prompt, suffix) = (fields.text("prompt")?, fields.text("suffix")?);
    let (system, template) = (fields.text("system")?, fields.text("template")?);
    let images: Vec<String> = fields.get("images", "must be a list of images in base64")?.unwrap_or_default();
    let is_raw = fields.get("raw", "must be true or false")?.unwrap_or(false);
    let context = fields.take("context").map_or("[]", RawValue::get);
    if context.chars().any(|char| !matches!(char, '[' | ']') && !char.is_whitespace()) {
        let reason = "is not possible: upstreams keep no conversations; send the turns before as `messages` to /api/chat";
        return Err(refuse("context", reason));
    }
    if !template.is_empty() {
        return Err(refuse("template", TEMPLATE));
    }
    let is_empty = prompt.is_empty() && suffix.is_empty() && images.is_empty();
    if !is_raw && suffix.is_empty() {
        let system = (!system.is_empty()).then(|| json!({"role": "system", "content": system}));
        let messages: Vec<Value> = system.into_iter().chain([user(prompt, &images, "")?]).collect();
        put(out, "messages", &messages);
        return Ok((false, is_empty));
    }
    let cause = if is_raw { "raw" } else { "suffix" };
    let unused = [
        ("system", !system.is_empty()),
        ("images", !images.is_empty()),
        ("format", out.contains_key("response_format")),
        ("think", out.contains_key("reasoning_effort")),
        ("logprobs", out.contains_key("logprobs")),
    ];
    if let Some((name, _)) = unused.into_iter().find(|(_, is_set)| *is_set) {
        return Err(refuse(name, format!("is not possible together with `{cause}`; remove one of them")));
    }
    put(out, "prompt", &prompt);
    if !suffix.is_empty() {
        put(out, "suffix", &suffix);
    }
    Ok((true, is_empty))
}
