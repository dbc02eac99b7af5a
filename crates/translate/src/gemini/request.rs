//! OpenAI's request as Gemini's.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::schema;
use crate::chat::{Call, ChatRequest, Content, Effort, Format, Message, Part, Role, Tool, ToolChoice};
use crate::{TranslateError, refuse, write_json};

/// Replies that Gemini gives to one request.
const CANDIDATES_MAX: u64 = 8;
/// What stands for the signature of a call that came without one, by Gemini's page on thought signatures: Gemini 3 refuses a
/// conversation with calls that have none, such as those of another model.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";
/// Numbers with the same meaning in both.
const NUMBERS: [(&str, &str); 6] = [
    ("temperature", "temperature"),
    ("top_p", "topP"),
    ("top_k", "topK"),
    ("seed", "seed"),
    ("presence_penalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
];

/// Translates the body of a chat completion request to the body of `:generateContent` or `:streamGenerateContent`.
///
/// # Errors
/// [`TranslateError::Request`] for what Gemini can't be asked for.
pub fn request(body: &[u8]) -> Result<Vec<u8>, TranslateError> {
    let mut chat = ChatRequest::parse(body)?;
    let mut out = Map::new();
    let config = generation_config(&mut chat)?;
    if !config.is_empty() {
        out.insert("generationConfig".to_owned(), config.into());
    }
    add_tools(&mut chat, &mut out)?;
    let mut turns = Turns { checks_signatures: checks_signatures(&chat.model), ..Turns::default() };
    for message in chat.messages {
        turns.push(message)?;
    }
    turns.end_results();
    if turns.contents.is_empty() {
        return Err(refuse("messages", "has no message of a user; send at least one"));
    }
    if !turns.system.is_empty() {
        out.insert("systemInstruction".to_owned(), json!({"parts": turns.system}));
    }
    out.insert("contents".to_owned(), turns.contents.into());
    Ok(write_json(&out))
}

/// Whether a model may refuse calls without signatures: all but those before Gemini 3.
fn checks_signatures(model: &str) -> bool {
    !model.contains("gemini-1") && !model.contains("gemini-2")
}

fn generation_config(chat: &mut ChatRequest) -> Result<Map<String, Value>, TranslateError> {
    let mut config = Map::new();
    for (name, gemini_name) in NUMBERS {
        if let Some(value) = chat.number(name)? {
            config.insert(gemini_name.to_owned(), value);
        }
    }
    if let Some(tokens_max) = chat.tokens_max {
        config.insert("maxOutputTokens".to_owned(), tokens_max.into());
    }
    if !chat.stop.is_empty() {
        config.insert("stopSequences".to_owned(), std::mem::take(&mut chat.stop).into());
    }
    if chat.choices > CANDIDATES_MAX {
        return Err(refuse("n", format!("Gemini gives at most {CANDIDATES_MAX} replies; send a smaller n")));
    }
    if chat.choices > 1 {
        config.insert("candidateCount".to_owned(), chat.choices.into());
    }
    match &chat.format {
        Format::Text => {}
        Format::Json => {
            config.insert("responseMimeType".to_owned(), "application/json".into());
        }
        Format::Schema(value) => {
            config.insert("responseMimeType".to_owned(), "application/json".into());
            let schema = schema::translate(value, "response_format.json_schema.schema")?;
            config.insert("responseSchema".to_owned(), schema);
        }
    }
    if let Some(thinking) = thinking_config(chat) {
        config.insert("thinkingConfig".to_owned(), thinking);
    }
    Ok(config)
}

/// `reasoning_effort`, or Anthropic's `thinking`, as a budget: Gemini 2.5 and later take one.
fn thinking_config(chat: &ChatRequest) -> Option<Value> {
    let asked = chat.fields.get("thinking").unwrap_or(&Value::Null);
    let budget = match (asked["type"].as_str(), asked["budget_tokens"].as_u64()) {
        (Some("enabled"), Some(budget)) => budget,
        (Some("disabled"), _) => 0,
        _ => chat.effort.map(Effort::tokens)?,
    };
    Some(match budget {
        0 => json!({"thinkingBudget": 0}),
        budget => json!({"thinkingBudget": budget, "includeThoughts": true}),
    })
}

fn add_tools(chat: &mut ChatRequest, out: &mut Map<String, Value>) -> Result<(), TranslateError> {
    if chat.tools.is_empty() {
        return Ok(());
    }
    let mut declarations = Vec::with_capacity(chat.tools.len());
    for (number, tool) in chat.tools.drain(..).enumerate() {
        let (name, description, parameters) = match tool {
            Tool::Function { name, description, parameters, .. } => (name, description, parameters),
            Tool::Other { field, .. } => {
                return Err(refuse(
                    field,
                    "is not a function, and other tools are not translated; use a function",
                ));
            }
        };
        let mut declaration = json!({"name": name});
        if let Some(description) = description {
            declaration["description"] = description.into();
        }
        // Gemini refuses an object without properties.
        if let Some(parameters) = parameters.filter(has_properties) {
            let field = format!("tools[{number}].function.parameters");
            declaration["parameters"] = schema::translate(&parameters, &field)?;
        }
        declarations.push(declaration);
    }
    out.insert("tools".to_owned(), json!([{"functionDeclarations": declarations}]));
    let config = match chat.tool_choice.take() {
        None => return Ok(()),
        Some(ToolChoice::Auto) => json!({"mode": "AUTO"}),
        Some(ToolChoice::None) => json!({"mode": "NONE"}),
        Some(ToolChoice::Required) => json!({"mode": "ANY"}),
        Some(ToolChoice::Function(name)) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
    };
    out.insert("toolConfig".to_owned(), json!({"functionCallingConfig": config}));
    Ok(())
}

fn has_properties(schema: &Value) -> bool {
    let is_plain_object = schema
        .as_object()
        .is_some_and(|map| ["$ref", "allOf", "anyOf", "oneOf"].iter().all(|key| !map.contains_key(*key)));
    !is_plain_object || schema["properties"].as_object().is_some_and(|map| !map.is_empty())
}

/// The conversation so far.
#[derive(Default)]
struct Turns {
    system: Vec<Value>,
    contents: Vec<Value>,
    /// The results of tools since the last other message.
    results: Vec<Value>,
    /// The name of the function of every call, by the call's id.
    names: HashMap<String, String>,
    checks_signatures: bool,
}

impl Turns {
    fn push(&mut self, message: Message) -> Result<(), TranslateError> {
        match message.role {
            Role::System => {
                let parts = parts(message.parts);
                self.system.extend(parts);
            }
            Role::Tool => {
                let result = self.result(message)?;
                self.results.push(result);
            }
            Role::User => {
                let field = message.field;
                let parts = parts(message.parts);
                if parts.is_empty() {
                    return Err(refuse(format!("{field}.content"), "is empty; send a text"));
                }
                self.push_turn("user", parts);
            }
            Role::Assistant => {
                let mut parts = parts(message.parts);
                for (number, call) in message.calls.into_iter().enumerate() {
                    parts.push(self.call(call, number == 0));
                }
                self.push_turn("model", parts);
            }
        }
        Ok(())
    }

    fn push_turn(&mut self, role: &str, parts: Vec<Value>) {
        self.end_results();
        if !parts.is_empty() {
            self.contents.push(json!({"role": role, "parts": parts}));
        }
    }

    /// Ends a turn of results: Gemini wants those of one turn of calls together.
    fn end_results(&mut self) {
        if !self.results.is_empty() {
            let parts = std::mem::take(&mut self.results);
            self.contents.push(json!({"role": "user", "parts": parts}));
        }
    }

    /// A call. The first one of a turn has the signature.
    fn call(&mut self, call: Call, is_first: bool) -> Value {
        let Call { id, name, arguments, signature } = call;
        let mut part = json!({"functionCall": {"id": id, "name": name, "args": arguments}});
        let made = (is_first && self.checks_signatures).then(|| NO_SIGNATURE.to_owned());
        if let Some(signature) = signature.or(made) {
            part["thoughtSignature"] = signature.into();
        }
        self.names.insert(id, name);
        part
    }

    fn result(&mut self, message: Message) -> Result<Value, TranslateError> {
        let Some(name) = self.names.get(&message.call_id) else {
            let reason =
                format!("no earlier message has a call with the id `{}`; send it too", message.call_id);
            return Err(refuse(format!("{}.tool_call_id", message.field), reason));
        };
        let mut text = String::new();
        let mut files = Vec::new();
        for part in message.parts {
            match part.content {
                Content::Text(more) => text.push_str(&more),
                content => files.push(content_part(content)),
            }
        }
        // Gemini wants an object, and takes one without `output` as the output.
        let response = match serde_json::from_str(&text) {
            Ok(object @ Value::Object(_)) => object,
            _ => json!({"output": text}),
        };
        let mut result = json!({"id": message.call_id, "name": name, "response": response});
        if !files.is_empty() {
            result["parts"] = files.into();
        }
        Ok(json!({"functionResponse": result}))
    }
}

fn parts(parts: Vec<Part>) -> Vec<Value> {
    let is_set = |part: &Part| !matches!(&part.content, Content::Text(text) if text.is_empty());
    parts.into_iter().filter(is_set).map(|part| content_part(part.content)).collect()
}

fn content_part(content: Content) -> Value {
    match content {
        Content::Text(text) => json!({"text": text}),
        Content::Data { media_type, base64 } => {
            json!({"inlineData": {"mimeType": media_type, "data": base64}})
        }
        Content::Url(url) => match media_type(&url) {
            Some(media_type) => json!({"fileData": {"mimeType": media_type, "fileUri": url}}),
            None => json!({"fileData": {"fileUri": url}}),
        },
    }
}

/// The type of an image, by the end of its URL's path.
fn media_type(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    match path.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "webp" => Some("image/webp"),
        "heic" => Some("image/heic"),
        "heif" => Some("image/heif"),
        "gif" => Some("image/gif"),
        "pdf" => Some("application/pdf"),
        _ => None,
    }
}
