//! Anthropic's request as OpenAI's.

use super::model::Model;
use super::{content, mistral};
use crate::chat::{Effort, read_body, refuse_others, take_bool, take_number};
use crate::{TranslateError, refuse};
use weir_schema::{Map, Value, object};

/// The longest `user` that OpenAI accepts.
const USER_CHARS_MAX: usize = 64;

/// Fields that are read where they are translated, and those without a counterpart.
const IGNORED: [&str; 18] = [
    "model",
    "input",
    "prompt",
    "metadata",
    "tools",
    "tool_choice",
    "output_config",
    "output_format",
    "thinking",
    "mcp_servers",
    "top_k",
    "service_tier",
    "container",
    "context_management",
    "inference_geo",
    "cache_control",
    "betas",
    "anthropic_beta",
];

/// Translates the body of `POST /v1/messages` to a chat completion request to `model`. A stream is asked for its usage or not.
///
/// # Errors
/// [`TranslateError::Request`] for what a provider with OpenAI's API can't be asked for.
pub fn request(body: &[u8], model: &str, asks_for_usage: bool) -> Result<Vec<u8>, TranslateError> {
    let mut fields = read_body(body)?;
    let version = Model::named(model);
    let mut out = Map::new();
    out.insert("model", model);
    check_servers(&fields)?;
    let mut messages = Vec::new();
    if let Some(system) = fields.remove("system") {
        content::push_text("system", &content::text(&system, "system")?, &mut messages);
    }
    content::read_messages(fields.remove("messages"), version.reasoning_fields(), &mut messages)?;
    out.insert("messages", messages);
    if let Some(tokens_max) = take_number(&mut fields, "max_tokens")? {
        out.insert(if version.reasons() { "max_completion_tokens" } else { "max_tokens" }, tokens_max);
    }
    for (name, openai_name) in
        [("temperature", "temperature"), ("top_p", "top_p"), ("stop_sequences", "stop")]
    {
        let value = fields.remove(name).filter(|value| !value.is_null() && value.as_array() != Some(&[]));
        // OpenAI's models that reason refuse them. Without the first two an answer is still what was asked for.
        match value {
            Some(_) if version.reasons() && name == "stop_sequences" => {
                return Err(refuse(name, "are not taken by this model, which reasons: leave them out"));
            }
            Some(value) if !version.reasons() => {
                out.insert(openai_name, value);
            }
            Some(_) | None => {}
        }
    }
    if take_bool(&mut fields, "stream")?.unwrap_or(false) {
        out.insert("stream", true);
        if asks_for_usage {
            out.insert("stream_options", object! {"include_usage": true});
        }
    }
    let user = fields.get("metadata").and_then(|metadata| metadata["user_id"].as_str());
    if let Some(user) = user.filter(|user| user.chars().count() <= USER_CHARS_MAX) {
        out.insert("user", user);
    }
    refuse_others(&fields, &IGNORED)?;
    add_tools(&mut fields, version, &mut out)?;
    add_format(&mut fields, &mut out);
    add_effort(&fields, version, &mut out);
    if version == Model::Mistral {
        mistral::adapt(&mut out);
    }
    Ok(Value::from(out).to_json())
}

/// Servers that the provider is to call: no other provider does.
fn check_servers(fields: &Map) -> Result<(), TranslateError> {
    match fields.get("mcp_servers").and_then(Value::as_array) {
        Some([_, ..]) => {
            Err(refuse("mcp_servers", "are not called by this model's provider; call them and send `tools`"))
        }
        _ => Ok(()),
    }
}

/// The schema of the reply. OpenAI has `strict` for schemas whose properties are all required.
fn add_format(fields: &mut Map, out: &mut Map) {
    let config = fields.get_mut("output_config").and_then(|config| config.at_mut("format")).map(Value::take);
    let format = config.filter(|format| !format.is_null()).or_else(|| fields.remove("output_format"));
    let Some(mut format) = format.filter(|format| format["type"] == "json_schema") else { return };
    let mut schema = format.at_mut("schema").map(Value::take).unwrap_or_default();
    weir_schema::close_objects(&mut schema);
    let is_strict = weir_schema::is_strict(&schema);
    let schema = object! {"name": "reply", "schema": schema, "strict": is_strict};
    out.insert("response_format", object! {"type": "json_schema", "json_schema": schema});
}

/// The effort of the reply.
fn add_effort(fields: &Map, model: Model, out: &mut Map) {
    let none = Value::default();
    let config = fields.get("output_config").unwrap_or(&none);
    let budget = fields.get("thinking").and_then(|thinking| thinking["budget_tokens"].as_u64());
    let effort = match config["effort"].as_str() {
        Some(name) => Some(Effort::named(name).unwrap_or(Effort::High)),
        None => budget.map(Effort::of_tokens),
    };
    let effort = effort.map(|effort| model.effort(effort));
    let effort = match out.contains_key("tools") {
        true => model.effort_with_tools(effort),
        false => effort,
    };
    if let Some(effort) = effort.filter(|_| model.reasons()) {
        out.insert("reasoning_effort", effort);
    }
}

fn add_tools(fields: &mut Map, model: Model, out: &mut Map) -> Result<(), TranslateError> {
    let list = match fields.remove("tools") {
        Some(Value::Array(list)) if !list.is_empty() => list,
        None | Some(Value::Null | Value::Array(_)) => return Ok(()),
        Some(_) => return Err(refuse("tools", "must be a list")),
    };
    let mut tools = Vec::with_capacity(list.len());
    for (number, tool) in list.into_iter().enumerate() {
        tools.push(read_tool(tool, &format!("tools[{number}]"))?);
    }
    out.insert("tools", tools);
    let Some(choice) = fields.remove("tool_choice").filter(|choice| !choice.is_null()) else { return Ok(()) };
    let value = match (choice["type"].as_str(), choice["name"].as_str()) {
        (Some("auto"), _) => "auto".into(),
        (Some("any"), _) => "required".into(),
        (Some("none"), _) => "none".into(),
        (Some("tool"), Some(name)) => object! {"type": "function", "function": object! {"name": name}},
        _ => {
            return Err(refuse(
                "tool_choice",
                "must have the type `auto`, `any`, `none` or `tool` with a name",
            ));
        }
    };
    out.insert("tool_choice", value);
    if choice["disable_parallel_tool_use"] == true && model.takes_parallel_calls() {
        out.insert("parallel_tool_calls", false);
    }
    Ok(())
}

fn read_tool(mut tool: Value, field: &str) -> Result<Value, TranslateError> {
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
    let mut function = Map::new();
    function.insert("name", name);
    if let Some(description) = tool["description"].as_str() {
        function.insert("description", description);
    }
    if let Some(Value::Object(mut schema)) = tool.at_mut("input_schema").map(Value::take) {
        // OpenAI refuses an object without them.
        if schema.get("type").is_some_and(|kind| *kind == "object") {
            schema.or_insert("properties", Map::new());
        }
        function.insert("parameters", schema);
    }
    Ok(object! {"type": "function", "function": function})
}
