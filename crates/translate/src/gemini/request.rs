//! OpenAI's request as Gemini's.

use std::collections::HashMap;

use crate::chat::{Call, ChatRequest, Content, Effort, Format, Message, Part, Role, Tool, ToolChoice};
use crate::{TranslateError, refuse};
use weir_schema::{Map, Value, object};

/// Replies that Gemini gives to one request.
const CANDIDATES_MAX: u64 = 8;
/// Stop sequences that Gemini takes.
const STOP_MAX: usize = 5;
/// The budgets of thinking that models take, by a part of their names. Pro does not answer without thinking.
const BUDGETS: [(&str, u64, u64); 3] = [
    ("gemini-2.5-pro", 128, 32_768),
    ("gemini-2.5-flash-lite", 512, 24_576),
    ("gemini-2.5-flash", 1, 24_576),
];
/// The substitute for the signature of a call without one, by Gemini's page on thought signatures: Gemini 3 refuses a
/// conversation with calls that have none, such as those of another model.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";
/// Numbers with the same meaning in both.
const NUMBERS: [(&str, &str); 3] = [("temperature", "temperature"), ("top_p", "topP"), ("top_k", "topK")];
/// Numbers that Gemini 1 and 2.0 take alone; later models refuse them.
const PENALTIES: [(&str, &str); 2] =
    [("presence_penalty", "presencePenalty"), ("frequency_penalty", "frequencyPenalty")];

/// Translates the body of a chat completion request to the body of `:generateContent` or `:streamGenerateContent` for `model`.
///
/// # Errors
/// [`TranslateError::Request`] for what Gemini can't be asked for.
pub fn request(body: &[u8], model: &str) -> Result<Vec<u8>, TranslateError> {
    let mut chat = ChatRequest::parse(body)?;
    check_format(&chat, model)?;
    let mut out = Map::new();
    let config = generation_config(&mut chat, model)?;
    if !config.is_empty() {
        out.insert("generationConfig", config);
    }
    add_tools(&mut chat, &mut out)?;
    let mut turns = Turns { is_gemini_3: is_gemini_3(model), ..Turns::default() };
    for message in chat.messages {
        turns.push(message)?;
    }
    turns.end_results();
    if turns.contents.is_empty() {
        return Err(refuse("messages", "has no message of a user; send at least one"));
    }
    if !turns.system.is_empty() {
        out.insert("systemInstruction", object! {"parts": turns.system});
    }
    out.insert("contents", turns.contents);
    Ok(Value::from(out).to_json())
}

/// Whether a model is of Gemini 3 or later: it may refuse calls without signatures, takes a level of thinking, reads files in results, and takes a
/// format beside functions.
fn is_gemini_3(model: &str) -> bool {
    !model.contains("gemini-1") && !model.contains("gemini-2")
}

/// Models before Gemini 3 refuse a format of the reply beside functions that they may call.
fn check_format(chat: &ChatRequest, model: &str) -> Result<(), TranslateError> {
    let can_call = !chat.tools.is_empty() && chat.tool_choice != Some(ToolChoice::None);
    let has_format = matches!(chat.format, Format::Json | Format::Schema(_));
    if can_call && has_format && !is_gemini_3(model) {
        return Err(refuse(
            "response_format",
            "is refused by models before Gemini 3 beside `tools`; send one of both, `tool_choice` = \"none\", or use a later model",
        ));
    }
    Ok(())
}

fn generation_config(chat: &mut ChatRequest, model: &str) -> Result<Map, TranslateError> {
    let mut config = Map::new();
    for (name, gemini_name) in NUMBERS {
        if let Some(value) = chat.number(name)? {
            config.insert(gemini_name, value);
        }
    }
    for (name, gemini_name) in PENALTIES {
        let value = chat.number(name)?;
        if let Some(value) = value.filter(|_| model.contains("gemini-1") || model.contains("gemini-2.0")) {
            config.insert(gemini_name, value);
        }
    }
    // Gemini's seeds are of 32 bits.
    let seed = chat.number("seed")?;
    if let Some(seed) =
        seed.filter(|seed| seed.as_f64().is_some_and(|seed| seed.abs() <= f64::from(i32::MAX)))
    {
        config.insert("seed", seed);
    }
    if let Some(tokens_max) = chat.tokens_max {
        config.insert("maxOutputTokens", tokens_max);
    }
    let stop: Vec<Value> = chat.stop.drain(..).filter(|text| !text.is_empty()).map(Value::from).collect();
    if stop.len() > STOP_MAX {
        return Err(refuse(
            "stop",
            format!("has more than the {STOP_MAX} sequences that Gemini takes; send fewer"),
        ));
    }
    if !stop.is_empty() {
        config.insert("stopSequences", stop);
    }
    if chat.choices > CANDIDATES_MAX {
        return Err(refuse("n", format!("Gemini gives at most {CANDIDATES_MAX} replies; send a smaller n")));
    }
    if chat.choices > 1 {
        config.insert("candidateCount", chat.choices);
    }
    match &chat.format {
        Format::Text => {}
        Format::Json => config.insert("responseMimeType", "application/json"),
        Format::Schema(value) => {
            config.insert("responseMimeType", "application/json");
            config.insert(
                "responseSchema",
                weir_schema::for_gemini(value, "response_format.json_schema.schema")?,
            );
        }
    }
    if let Some(thinking) = thinking_config(chat, model) {
        config.insert("thinkingConfig", thinking);
    }
    Ok(config)
}

/// Anthropic's `thinking` as a budget, and `reasoning_effort` as one, or as a level since Gemini 3. Models that always think get the least that they
/// take instead of none.
fn thinking_config(chat: &ChatRequest, model: &str) -> Option<Value> {
    // they have no budget, and refuse one
    if model.contains("gemini-1") || model.contains("gemini-2.0") {
        return None;
    }
    let takes_level = is_gemini_3(model) && model.contains("gemini");
    let asked = chat.fields.get("thinking").unwrap_or(&Value::Null);
    let budget = match (asked["type"].as_str(), asked["budget_tokens"].as_u64()) {
        (Some("enabled"), Some(budget)) => budget,
        (Some("disabled"), _) if takes_level => return Some(level(Effort::None, model)),
        (Some("disabled"), _) => 0,
        _ if takes_level => return Some(level(chat.effort?, model)),
        _ => chat.effort?.tokens(),
    };
    Some(match budget {
        0 if model.contains("gemini-2.5-pro") => object! {"thinkingBudget": BUDGETS[0].1},
        0 => object! {"thinkingBudget": 0},
        budget => {
            let bounds = BUDGETS.iter().find(|(name, ..)| model.contains(name));
            let budget = bounds.map_or(budget, |(_, least, most)| budget.clamp(*least, *most));
            object! {"thinkingBudget": budget, "includeThoughts": true}
        }
    })
}

/// The level of thinking of a model since Gemini 3.
fn level(effort: Effort, model: &str) -> Value {
    let level = match effort {
        Effort::None if model.contains("flash") => return object! {"thinkingLevel": "minimal"},
        Effort::None => return object! {"thinkingLevel": "low"},
        Effort::Minimal if model.contains("flash") => "minimal",
        Effort::Minimal | Effort::Low => "low",
        // it has two levels
        Effort::Medium if model.contains("gemini-3-pro") => "high",
        Effort::Medium => "medium",
        Effort::High | Effort::ExtraHigh | Effort::Max => "high",
    };
    object! {"thinkingLevel": level, "includeThoughts": true}
}

fn add_tools(chat: &mut ChatRequest, out: &mut Map) -> Result<(), TranslateError> {
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
        let mut declaration: Map = [("name".to_owned(), name.into())].into_iter().collect();
        if let Some(description) = description {
            declaration.insert("description", description);
        }
        // Gemini refuses an object without properties.
        if let Some(parameters) = parameters.filter(has_properties) {
            let field = format!("tools[{number}].function.parameters");
            declaration.insert("parameters", weir_schema::for_gemini(&parameters, &field)?);
        }
        declarations.push(Value::from(declaration));
    }
    out.insert("tools", vec![object! {"functionDeclarations": declarations}]);
    let config = match chat.tool_choice.take() {
        None => return Ok(()),
        Some(ToolChoice::Auto) => object! {"mode": "AUTO"},
        Some(ToolChoice::None) => object! {"mode": "NONE"},
        Some(ToolChoice::Required) => object! {"mode": "ANY"},
        Some(ToolChoice::Function(name)) => {
            object! {"mode": "ANY", "allowedFunctionNames": vec![Value::from(name)]}
        }
    };
    out.insert("toolConfig", object! {"functionCallingConfig": config});
    Ok(())
}

fn has_properties(schema: &Value) -> bool {
    let is_plain_object = schema
        .as_object()
        .is_some_and(|map| ["$ref", "allOf", "anyOf", "oneOf"].iter().all(|key| !map.contains_key(key)));
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
    is_gemini_3: bool,
}

impl Turns {
    fn push(&mut self, message: Message) -> Result<(), TranslateError> {
        match message.role {
            Role::System => {
                let parts = parts(message.parts);
                self.system.extend(parts);
            }
            Role::Tool => self.push_result(message)?,
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
                if let Some(signature) = message.signature {
                    sign(&mut parts, signature);
                }
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
            self.contents.push(object! {"role": role, "parts": parts});
        }
    }

    /// Ends a turn of results: Gemini wants those of one turn of calls together.
    fn end_results(&mut self) {
        if !self.results.is_empty() {
            let parts = std::mem::take(&mut self.results);
            self.contents.push(object! {"role": "user", "parts": parts});
        }
    }

    /// A call. The first one of a turn has the signature.
    fn call(&mut self, call: Call, is_first: bool) -> Value {
        let Call { id, name, arguments, signature } = call;
        let call = object! {"id": id.as_str(), "name": name.as_str(), "args": arguments};
        let mut part: Map = [("functionCall".to_owned(), call)].into_iter().collect();
        let made = (is_first && self.is_gemini_3).then(|| NO_SIGNATURE.to_owned());
        if let Some(signature) = signature.or(made) {
            part.insert("thoughtSignature", signature);
        }
        self.names.insert(id, name);
        part.into()
    }

    /// The result of a call. Since Gemini 3 its files are inside of the result; for earlier models they are parts beside it.
    fn push_result(&mut self, message: Message) -> Result<(), TranslateError> {
        let Some(name) = self.names.get(&message.call_id) else {
            let reason =
                format!("no earlier message has a call with the id `{}`; send it too", message.call_id);
            return Err(refuse(format!("{}.tool_call_id", message.field), reason));
        };
        let (mut texts, mut files) = (Vec::new(), Vec::new());
        for part in message.parts {
            match part.content {
                Content::Text(text) => texts.push(text),
                content => files.push(content_part(content)),
            }
        }
        let text = texts.join("\n");
        // Gemini wants an object, and takes one without `output` or `error` as the output.
        let response = match Value::parse(text.as_bytes()) {
            _ if message.is_error => object! {"error": text},
            Ok(object @ Value::Object(_)) => object,
            _ => object! {"output": text},
        };
        let result = [
            ("id".to_owned(), message.call_id.into()),
            ("name".to_owned(), name.as_str().into()),
            ("response".to_owned(), response),
        ];
        let mut result: Map = result.into_iter().collect();
        if self.is_gemini_3 && !files.is_empty() {
            result.insert("parts", std::mem::take(&mut files));
        }
        self.results.push(object! {"functionResponse": result});
        self.results.extend(files);
        Ok(())
    }
}

/// Adds the signature of an answer to its last text.
fn sign(parts: &mut Vec<Value>, signature: String) {
    if parts.is_empty() {
        parts.push(object! {"text": ""});
    }
    if let Some(part) = parts.last_mut().and_then(Value::as_object_mut) {
        part.insert("thoughtSignature", signature);
    }
}

fn parts(parts: Vec<Part>) -> Vec<Value> {
    let is_set = |part: &Part| !matches!(&part.content, Content::Text(text) if text.is_empty());
    parts.into_iter().filter(is_set).map(|part| content_part(part.content)).collect()
}

fn content_part(content: Content) -> Value {
    match content {
        Content::Text(text) => object! {"text": text},
        Content::Data { media_type, base64, .. } => {
            object! {"inlineData": object! {"mimeType": media_type, "data": base64}}
        }
        Content::Url { url, .. } => match media_type(&url) {
            Some(media_type) => object! {"fileData": object! {"mimeType": media_type, "fileUri": url}},
            None => object! {"fileData": object! {"fileUri": url}},
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
