//! The requests of each API as far as sources concern them: the question, where sources and instructions are placed, and what is left out of the
//! turns before.

use serde_json::{Map, Value, json};

use super::{Api, InvalidRequest};
use crate::messages::Model;

/// The text of an answer without the list of sources that the gateway appended to it.
pub type WithoutList = fn(&str) -> &str;

/// The text of the last question.
///
/// # Errors
/// `Invalid`: there is none.
pub fn question(api: Api, body: &Map<String, Value>) -> Result<String, InvalidRequest> {
    let text = match turns(api, body) {
        Some(Value::String(text)) if matches!(api, Api::Completions | Api::Responses) => text.clone(),
        Some(Value::Array(turns)) => {
            last_question(turns).map(|last| text_of(&turns[last])).unwrap_or_default()
        }
        _ => String::new(),
    };
    if text.trim().is_empty() { Err(no_question(api)) } else { Ok(text) }
}

/// The request by which a model rewrites the last question so that it can be searched alone; `None` for the first question of a conversation.
pub fn condensing(
    api: Api,
    body: &Map<String, Value>,
    model: &str,
    without_list: WithoutList,
) -> Option<Value> {
    let turns = turns(api, body)?.as_array()?;
    let turns = turns.iter().filter(|turn| is_role(turn, &["user", "assistant"]));
    let turns: Vec<String> = turns
        .map(|turn| (turn, text_of(turn)))
        .filter(|(_, text)| !text.is_empty())
        .map(|(turn, text)| {
            let role = turn["role"].as_str().unwrap_or_default();
            let text = if role == "assistant" { without_list(&text) } else { &text };
            format!("{role}: {text}")
        })
        .collect();
    if turns.len() < 2 {
        return None;
    }
    let instruction = "Rewrite the last question of this conversation so that it can be understood alone, in its language and in one sentence. \
        Reply with the question only.";
    Some(json!({
        "model": model,
        // also for reasoning
        (if Model::named(model).reasons() { "max_completion_tokens" } else { "max_tokens" }): 1000,
        "messages": [{"role": "system", "content": instruction}, {"role": "user", "content": turns.join("\n")}],
    }))
}

/// Places instructions, and sources before the last question. What the gateway added to answers before is removed from them.
///
/// # Errors
/// `Invalid`: there is no question.
pub fn place(
    api: Api,
    body: &mut Map<String, Value>,
    instructions: &str,
    sources: Option<String>,
    without_list: WithoutList,
) -> Result<(), InvalidRequest> {
    if let Some(Value::Array(turns)) = body.get_mut(turns_field(api)) {
        let answers = turns.iter_mut().filter(|turn| is_role(turn, &["assistant"]));
        answers.for_each(|turn| clean(turn, without_list));
    }
    match api {
        Api::ChatCompletions => in_chat(body, instructions, sources),
        Api::Messages | Api::CountTokens => in_messages(body, instructions, sources),
        Api::Responses => in_response(body, instructions, sources),
        Api::Completions | Api::Embeddings => {
            let prompt = question(api, body)?;
            let parts = [Some(instructions.to_owned()), sources, Some(prompt)];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            body.insert("prompt".to_owned(), parts.join("\n\n").into());
            Ok(())
        }
    }
}

fn in_chat(
    body: &mut Map<String, Value>,
    instructions: &str,
    sources: Option<String>,
) -> Result<(), InvalidRequest> {
    let (messages, last) = turns_to_edit(Api::ChatCompletions, body)?;
    if let Some(sources) = sources {
        messages.insert(last, json!({"role": "user", "content": sources}));
    }
    let systems = messages.iter().take_while(|message| is_role(message, &["system", "developer"])).count();
    messages.insert(systems, json!({"role": "system", "content": instructions}));
    Ok(())
}

/// The sources are in the message of the question, behind the results of tools: these must follow the calls in the message before.
fn in_messages(
    body: &mut Map<String, Value>,
    instructions: &str,
    sources: Option<String>,
) -> Result<(), InvalidRequest> {
    let (messages, last) = turns_to_edit(Api::Messages, body)?;
    if let Some(sources) = sources {
        let content = &mut messages[last]["content"];
        let sources = json!({"type": "text", "text": sources});
        if let Value::Array(blocks) = content {
            let first = blocks.iter().position(|block| block["text"].is_string()).unwrap_or(blocks.len());
            blocks.insert(first, sources);
        } else {
            *content = json!([sources, {"type": "text", "text": content.take()}]);
        }
    }
    let system = match body.remove("system") {
        Some(Value::Array(mut blocks)) => {
            blocks.push(json!({"type": "text", "text": instructions}));
            Value::Array(blocks)
        }
        Some(Value::String(text)) if !text.is_empty() => format!("{text}\n\n{instructions}").into(),
        _ => instructions.into(),
    };
    body.insert("system".to_owned(), system);
    Ok(())
}

fn in_response(
    body: &mut Map<String, Value>,
    instructions: &str,
    sources: Option<String>,
) -> Result<(), InvalidRequest> {
    if let Some(input) = body.get_mut("input").filter(|input| input.is_string()) {
        *input = json!([{"role": "user", "content": input.take()}]);
    }
    let (items, last) = turns_to_edit(Api::Responses, body)?;
    if let Some(sources) = sources {
        items.insert(last, json!({"role": "user", "content": [{"type": "input_text", "text": sources}]}));
    }
    let system = match body.remove("instructions") {
        Some(Value::String(text)) if !text.is_empty() => format!("{text}\n\n{instructions}"),
        _ => instructions.to_owned(),
    };
    body.insert("instructions".to_owned(), system.into());
    Ok(())
}

/// Removes what the gateway added to an answer: the list of its sources, and citations, which name nothing in this request.
fn clean(turn: &mut Value, without_list: WithoutList) {
    let Some(turn) = turn.as_object_mut() else { return };
    turn.remove("annotations");
    match turn.get_mut("content") {
        Some(Value::String(text)) => *text = without_list(text).to_owned(),
        Some(Value::Array(parts)) => {
            parts.iter_mut().for_each(|part| clean_part(part, without_list));
            // a block of the list alone has no text left, and providers refuse empty ones
            let is_empty = |part: &Value| part["type"] == "text" && part["text"] == "";
            if parts.iter().any(|part| !is_empty(part)) {
                parts.retain(|part| !is_empty(part));
            }
        }
        _ => {}
    }
}

fn clean_part(part: &mut Value, without_list: WithoutList) {
    let Some(part) = part.as_object_mut() else { return };
    if let Some(Value::String(text)) = part.get_mut("text") {
        *text = without_list(text).to_owned();
    }
    if let Some(Value::Array(annotations)) = part.get_mut("annotations") {
        annotations.clear();
    }
    if let Some(Value::Array(citations)) = part.get_mut("citations") {
        citations.retain(|citation| citation["type"] != "search_result_location");
        if citations.is_empty() {
            part.remove("citations");
        }
    }
}

/// The field that has the turns of a conversation.
fn turns_field(api: Api) -> &'static str {
    match api {
        Api::ChatCompletions | Api::Messages | Api::CountTokens => "messages",
        Api::Responses | Api::Embeddings => "input",
        Api::Completions => "prompt",
    }
}

/// The turns of a conversation: a list of them, or a text.
fn turns(api: Api, body: &Map<String, Value>) -> Option<&Value> {
    let turns = body.get(turns_field(api))?;
    match turns.as_array() {
        // a prompt in a list of its own
        Some(prompts) if api == Api::Completions => {
            prompts.first().filter(|prompt| prompts.len() == 1 && prompt.is_string())
        }
        Some(_) | None => Some(turns),
    }
}

/// The list of turns, and which of them has the question.
fn turns_to_edit(
    api: Api,
    body: &mut Map<String, Value>,
) -> Result<(&mut Vec<Value>, usize), InvalidRequest> {
    let field = turns_field(api);
    let Some(Value::Array(turns)) = body.get_mut(field) else {
        return Err(InvalidRequest::Field { field: field.to_owned(), reason: "must be a list".to_owned() });
    };
    let last = last_question(turns).ok_or_else(|| no_question(api))?;
    Ok((turns, last))
}

/// The last turn of the user; of those with results of tools, only one that has a text too.
fn last_question(turns: &[Value]) -> Option<usize> {
    let has_results = |turn: &Value| {
        turn["content"].as_array().is_some_and(|parts| parts.iter().any(|part| part["type"] == "tool_result"))
    };
    turns
        .iter()
        .rposition(|turn| is_role(turn, &["user"]) && !(has_results(turn) && text_of(turn).is_empty()))
}

fn is_role(turn: &Value, roles: &[&str]) -> bool {
    turn["role"].as_str().is_some_and(|role| roles.contains(&role))
}

/// The text of a message: its content, or the texts of its parts.
pub fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

fn no_question(api: Api) -> InvalidRequest {
    let reason = match api {
        Api::Completions | Api::Embeddings => "has no question: it must be one text",
        Api::ChatCompletions | Api::Messages | Api::CountTokens | Api::Responses => {
            "has no question: the last message of the role `user` has no text"
        }
    };
    InvalidRequest::Field { field: turns_field(api).to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "\n\n**Sources**\n\n- [1] weirs, bytes 0–9";

    fn without_list(text: &str) -> &str {
        text.strip_suffix(LIST).unwrap_or(text)
    }

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn the_question_is_the_last_text_of_the_user() {
        let check = |messages: Value, expected: Option<&str>| {
            let body = object(json!({"messages": messages}));
            assert_eq!(question(Api::ChatCompletions, &body).ok().as_deref(), expected, "{body:?}");
        };
        check(json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]), Some("a"));
        let parts =
            json!([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]);
        check(json!([{"role": "user", "content": parts}]), Some("a\nb"));
        check(json!([{"role": "user", "content": " "}]), None);
        check(json!([{"role": "system", "content": "a"}]), None);
        check(json!("a"), None);
        let body = object(json!({"prompt": ["q"], "input": "i"}));
        assert_eq!(question(Api::Completions, &body).ok().as_deref(), Some("q"));
        assert_eq!(question(Api::Responses, &body).ok().as_deref(), Some("i"));
        assert!(question(Api::Completions, &object(json!({"prompt": ["q", "r"]}))).is_err());
        let result = json!({"type": "tool_result", "tool_use_id": "1", "content": "r"});
        let turns = json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": []}, {"role": "user", "content": [result]}]);
        let body = object(json!({"messages": turns}));
        assert_eq!(question(Api::Messages, &body).ok().as_deref(), Some("q"));
    }

    fn placed(api: Api, body: Value) -> Value {
        let mut body = object(body);
        place(api, &mut body, "I", Some("S".to_owned()), without_list).unwrap();
        Value::Object(body)
    }

    #[test]
    fn sources_are_placed_before_the_question_in_each_api() {
        let check = |api: Api, body: Value, expected: Value| assert_eq!(placed(api, body), expected);
        let user = |content: &str| json!({"role": "user", "content": content});
        let system = |content: &str| json!({"role": "system", "content": content});
        check(
            Api::ChatCompletions,
            json!({"messages": [system("s"), user("q")]}),
            json!({"messages": [system("s"), system("I"), user("S"), user("q")]}),
        );
        check(Api::Completions, json!({"prompt": "q"}), json!({"prompt": "I\n\nS\n\nq"}));
        let text = |text: &str| json!({"type": "text", "text": text});
        check(
            Api::Messages,
            json!({"system": "s", "messages": [user("q")]}),
            json!({"system": "s\n\nI", "messages": [{"role": "user", "content": [text("S"), text("q")]}]}),
        );
        let result = json!({"type": "tool_result", "tool_use_id": "1", "content": "r"});
        check(
            Api::Messages,
            json!({"system": [text("s")], "messages": [{"role": "user", "content": [result, text("q")]}]}),
            json!({"system": [text("s"), text("I")], "messages": [{"role": "user", "content": [result, text("S"), text("q")]}]}),
        );
        let input = |text: &str| json!({"role": "user", "content": [{"type": "input_text", "text": text}]});
        check(
            Api::Responses,
            json!({"input": "q"}),
            json!({"instructions": "I", "input": [input("S"), user("q")]}),
        );
        check(
            Api::Responses,
            json!({"instructions": "s", "input": [input("q"), {"type": "function_call_output", "output": "o"}]}),
            json!({"instructions": "s\n\nI", "input": [input("S"), input("q"), {"type": "function_call_output", "output": "o"}]}),
        );
    }

    #[test]
    fn what_was_added_to_an_answer_does_not_come_back() {
        let q = json!({"role": "user", "content": "q"});
        let said = |content: Value, annotations: bool| {
            let mut turn = json!({"role": "assistant", "content": content});
            if annotations {
                turn["annotations"] = json!([{"type": "url_citation"}]);
            }
            turn
        };
        let body = json!({"messages": [q, said(format!("A dam [1].{LIST}").into(), true), q]});
        let condensed =
            condensing(Api::ChatCompletions, body.as_object().unwrap(), "m", without_list).unwrap();
        assert_eq!(condensed["messages"][1]["content"], "user: q\nassistant: A dam [1].\nuser: q");
        assert_eq!(placed(Api::ChatCompletions, body)["messages"][2], said("A dam [1].".into(), false));
        let cited = json!([{"type": "text", "text": "A dam [1].", "citations": [{"type": "search_result_location"}]},
            {"type": "text", "text": LIST}]);
        let body = json!({"messages": [q, said(cited, false), q]});
        let left = json!([{"type": "text", "text": "A dam [1]."}]);
        assert_eq!(placed(Api::Messages, body)["messages"][1]["content"], left);
        let part = |text: &str, annotations: Value| json!([{"type": "output_text", "text": text, "annotations": annotations}]);
        let before = part(&format!("A dam.{LIST}"), json!([{"type": "url_citation"}]));
        let body = json!({"input": [q, said(before, false), q]});
        assert_eq!(placed(Api::Responses, body)["input"][1]["content"], part("A dam.", json!([])));
    }
}
