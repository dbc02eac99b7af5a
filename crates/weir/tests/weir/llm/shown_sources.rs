//! How answers show their sources: the citations of each API, the list in Markdown, the events of Open WebUI.

use serde_json::{Value, json};

use super::setup::{Mock, Proxy, upstream};

const URL: &str = "https://example.com/weirs";
const WEIRS: &str = "A weir is a low dam across a river. It raises the water level a little.";
const QUOTE: &str = "A weir is a low dam across a river.";
/// The answer of the mock.
const ANSWER: &str = "\"A weir is a low dam across a river.\" [1]";
const LIST: &str =
    "\n\n**Sources**\n\n- [1] [On \\*secret\\* weirs](https://example.com/weirs), page 3, bytes 0–71";
const APIS: [&str; 4] = ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"];

/// A gateway with the model `docs`, whose answers cite one document.
fn proxy(mock: &Mock, retrieval: &str, more: &str) -> Proxy {
    let route = format!(
        "[[routes]]\nmodel = \"docs\"\ntargets = [{{ upstream = \"mock\", model = \"m\" }}]\n\
         retrieval = {{ collection = \"default\"{retrieval} }}\n"
    );
    let proxy = Proxy::start(&format!("{}{route}{more}", upstream("mock", mock, "")));
    let document = json!({"id": "weirs", "title": "On *secret* weirs", "text": WEIRS, "metadata": {"url": URL, "page": 3}});
    let reply = proxy.post("/v1/ingest?wait=true", &json!({"documents": [document]}), &[]).unwrap();
    assert!(reply.status < 300, "{}", reply.text);
    proxy
}

fn body(api: &str, is_stream: bool) -> Value {
    let mut body = json!({"model": "docs", "stream": is_stream});
    match api {
        "/v1/completions" => body["prompt"] = "What is a weir?".into(),
        "/v1/responses" => body["input"] = "What is a weir?".into(),
        _ => body["messages"] = json!([{"role": "user", "content": "What is a weir?"}]),
    }
    if api == "/v1/messages" {
        body["max_tokens"] = 500.into();
    }
    body
}

fn ask(proxy: &Proxy, api: &str, body: &Value) -> Value {
    let reply = proxy.post(api, body, &[]).unwrap();
    assert_eq!(reply.status, 200, "{api}: {}", reply.text);
    reply.json()
}

/// The events of a stream, without the last that is no JSON.
fn events(proxy: &Proxy, api: &str, body: &Value) -> Vec<Value> {
    let reply = proxy.post(api, body, &[]).unwrap();
    assert_eq!(reply.status, 200, "{api}: {}", reply.text);
    let data = reply.text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// The text of a whole reply.
fn text_of(api: &str, reply: &Value) -> String {
    let joined = |parts: &Value| {
        let parts = parts.as_array().unwrap().iter();
        parts.map(|part| part["text"].as_str().unwrap_or_default()).collect::<String>()
    };
    match api {
        "/v1/completions" => reply["choices"][0]["text"].as_str().unwrap().to_owned(),
        "/v1/messages" => joined(&reply["content"]),
        "/v1/responses" => joined(&reply["output"][0]["content"]),
        _ => reply["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned(),
    }
}

/// The text of a stream, by its pieces.
fn text_of_stream(api: &str, events: &[Value]) -> String {
    let piece = |event: &Value| {
        let text = match api {
            "/v1/completions" => &event["choices"][0]["text"],
            "/v1/messages" => &event["delta"]["text"],
            "/v1/responses" => &event["delta"],
            _ => &event["choices"][0]["delta"]["content"],
        };
        text.as_str().unwrap_or_default().to_owned()
    };
    events.iter().map(piece).collect()
}

#[test]
fn the_list_ends_the_text_of_every_api() {
    let mock = Mock::start(&["--echo", "cite"]);
    let proxy = proxy(&mock, ", sources_as = \"markdown\"", "");
    let expected = format!("{ANSWER}{LIST}");
    for api in APIS {
        let reply = ask(&proxy, api, &body(api, false));
        assert_eq!(text_of(api, &reply), expected, "{api}: {reply}");
        assert_eq!(reply["citations"][0]["verified"], true, "{api}: {reply}");
        assert_eq!(reply["sources"][0]["document_id"], "weirs", "{api}: {reply}");
        let events = events(&proxy, api, &body(api, true));
        assert_eq!(text_of_stream(api, &events), expected, "{api}: {events:?}");
        let mut fields = body(api, false);
        fields["weir"] = json!({"sources_as": "fields"});
        assert_eq!(text_of(api, &ask(&proxy, api, &fields)), ANSWER, "{api}");
    }
    let chat = events(&proxy, APIS[0], &body(APIS[0], true));
    let place = |is: &dyn Fn(&Value) -> bool| chat.iter().position(is);
    let list = place(&|event| {
        event["choices"][0]["delta"]["content"].as_str().is_some_and(|text| text.contains("Sources"))
    });
    assert_eq!(
        list.map(|at| at + 1),
        place(&|event| event["choices"][0]["finish_reason"] == "stop"),
        "{chat:?}"
    );
}

#[test]
fn a_request_may_ask_for_another_form_and_nothing_else_of_a_route() {
    let mock = Mock::start(&["--echo", "cite"]);
    let proxy = proxy(&mock, "", "");
    let mut request = body(APIS[0], false);
    assert_eq!(text_of(APIS[0], &ask(&proxy, APIS[0], &request)), ANSWER);
    request["weir"] = json!({"sources_as": "markdown"});
    assert!(text_of(APIS[0], &ask(&proxy, APIS[0], &request)).ends_with(LIST));
    let check = |request: &Value, expected: &str| {
        let reply = proxy.chat(request, &[]).unwrap();
        assert!(reply.status == 400 && reply.text.contains(expected), "{} {}", reply.status, reply.text);
    };
    request["weir"] = json!({"sources_as": "html"});
    check(&request, "`markdown`");
    request["weir"] = json!({"sources_as": "markdown", "top_k": 9});
    check(&request, "missing field `collection`");
    request["weir"] = json!({"sources_as": "markdown"});
    request["model"] = "mock/m".into();
    check(&request, "name a `collection`");
    let mut count = body("/v1/messages", false);
    count["weir"] = json!({"sources_as": "markdown"});
    let reply = proxy.post("/v1/messages/count_tokens", &count, &[]).unwrap();
    assert_eq!(reply.status, 400, "{}", reply.text);
}

#[test]
fn citations_have_the_shape_of_each_api() {
    let mock = Mock::start(&["--echo", "cite"]);
    let proxy = proxy(&mock, ", sources_as = \"markdown\"", "");
    let (start, end) = (ANSWER.len() - 3, ANSWER.len());
    let title = "On *secret* weirs";
    let of_chat = json!([{"type": "url_citation",
        "url_citation": {"start_index": start, "end_index": end, "url": URL, "title": title}}]);
    let of_response =
        json!([{"type": "url_citation", "start_index": start, "end_index": end, "url": URL, "title": title}]);
    let of_message = json!([{"type": "search_result_location", "cited_text": QUOTE, "source": URL, "title": title,
        "search_result_index": 0, "start_block_index": 0, "end_block_index": 1}]);
    let [chat, _, messages, responses] = APIS;

    assert_eq!(ask(&proxy, chat, &body(chat, false))["choices"][0]["message"]["annotations"], of_chat);
    let streamed = events(&proxy, chat, &body(chat, true));
    let found: Vec<&Value> = streamed
        .iter()
        .map(|event| &event["choices"][0]["delta"]["annotations"])
        .filter(|found| !found.is_null())
        .collect();
    assert_eq!(found, [&of_chat]);

    assert_eq!(ask(&proxy, messages, &body(messages, false))["content"][0]["citations"], of_message);
    let streamed = events(&proxy, messages, &body(messages, true));
    let kinds: Vec<&str> = streamed.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let stop = kinds.iter().position(|kind| *kind == "content_block_stop").unwrap();
    let delta = json!({"type": "citations_delta", "citation": of_message[0]});
    assert_eq!(streamed[stop - 1], json!({"type": "content_block_delta", "index": 0, "delta": delta}));
    let end = &streamed[streamed.len() - 2];
    assert_eq!((&end["type"], &end["sources"][0]["document_id"]), (&json!("message_delta"), &json!("weirs")));

    let reply = ask(&proxy, responses, &body(responses, false));
    assert_eq!(reply["output"][0]["content"][0]["annotations"], of_response);
    let streamed = events(&proxy, responses, &body(responses, true));
    let numbers: Vec<u64> = streamed.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..streamed.len() as u64).collect::<Vec<u64>>(), "{streamed:?}");
    let of = |kind: &str| streamed.iter().find(|event| event["type"] == kind).unwrap();
    let added = of("response.output_text.annotation.added");
    assert_eq!((&added["annotation"], &added["annotation_index"]), (&of_response[0], &json!(0)));
    let text = format!("{ANSWER}{LIST}");
    assert_eq!(of("response.output_text.done")["text"], text.as_str());
    let part = json!({"type": "output_text", "text": text, "annotations": of_response});
    assert_eq!(of("response.content_part.done")["part"], part);
    assert_eq!(of("response.output_item.done")["item"]["content"][0], part);
    let last = &of("response.completed")["response"];
    assert_eq!(last["output"][0]["content"][0], part);
    assert_eq!(last["sources"][0]["document_id"], "weirs");
}

#[test]
fn a_document_without_an_address_is_cited_as_a_file() {
    let mock = Mock::start(&["--echo", "cite"]);
    let proxy = proxy(&mock, "", "");
    let document = json!({"documents": [{"id": "weirs", "text": WEIRS}]});
    assert!(proxy.post("/v1/ingest?wait=true", &document, &[]).unwrap().status < 300);
    let [chat, _, messages, responses] = APIS;
    let reply = ask(&proxy, responses, &body(responses, false));
    let expected = json!([{"type": "file_citation", "index": ANSWER.len() - 3, "file_id": "weirs", "filename": "weirs"}]);
    assert_eq!(reply["output"][0]["content"][0]["annotations"], expected);
    let reply = ask(&proxy, messages, &body(messages, false));
    assert_eq!(reply["content"][0]["citations"][0]["source"], "weirs");
    let reply = ask(&proxy, chat, &body(chat, false));
    assert!(reply["choices"][0]["message"]["annotations"].as_array().is_none_or(Vec::is_empty), "{reply}");
}

#[test]
fn guardrails_hold_for_what_is_added() {
    let mock = Mock::start(&["--echo", "cite"]);
    let guardrail = "[[guardrails]]\nid = \"words\"\non = [\"output\"]\nwords = [\"secret\", \"dam\"]\n";
    let blocks = "[[guardrails]]\nid = \"no\"\non = [\"output\"]\naction = \"block\"\nwords = [\"secret\"]\n";
    for more in [guardrail.to_owned(), format!("{guardrail}{blocks}")] {
        let proxy = proxy(&mock, ", sources_as = \"open-webui\"", &more);
        for (api, is_stream) in APIS.into_iter().flat_map(|api| [(api, false), (api, true)]) {
            for form in ["markdown", "open-webui"] {
                let mut request = body(api, is_stream);
                request["weir"] = json!({"sources_as": form});
                let reply = proxy.post(api, &request, &[]).unwrap();
                assert_eq!(reply.status, 200, "{}", reply.text);
                assert!(reply.text.contains("weirs"), "{api} {form}: {}", reply.text);
                let is_redacted = !reply.text.contains("secret") && !reply.text.contains(" dam ");
                assert!(is_redacted, "{api} {form} {is_stream}: {}", reply.text);
                let is_listed = reply.text.contains("**Sources**");
                assert_eq!(is_listed, form == "markdown", "{api}: {}", reply.text);
            }
        }
    }
}

#[test]
fn a_call_of_a_tool_gets_no_list() {
    let mock = Mock::start(&["--echo", "cite"]);
    let proxy = proxy(&mock, ", sources_as = \"markdown\"", "");
    for (api, is_stream) in APIS.into_iter().flat_map(|api| [(api, false), (api, true)]) {
        let schema = json!({"type": "object", "properties": {}});
        let mut request = body(api, is_stream);
        let question = json!([{"role": "user", "content": "What is a weir? Please call the tool"}]);
        request[if api == "/v1/responses" { "input" } else { "messages" }] = question;
        request["tools"] = match api {
            "/v1/completions" => continue,
            "/v1/messages" => json!([{"name": "look", "input_schema": schema}]),
            "/v1/responses" => json!([{"type": "function", "name": "look", "parameters": schema}]),
            _ => json!([{"type": "function", "function": {"name": "look", "parameters": schema}}]),
        };
        let reply = proxy.post(api, &request, &[]).unwrap();
        let is_call = reply.text.contains("\"look\"") && !reply.text.contains("Sources");
        assert!(reply.status == 200 && is_call, "{api} {is_stream}: {}", reply.text);
    }
}

#[test]
fn an_answer_that_comes_back_is_searched_and_sent_without_its_list() {
    let mock = Mock::start(&["--echo", "cite"]);
    let proxy = proxy(&mock, ", sources_as = \"markdown\", condense_model = \"mock/small\"", "");
    for api in ["/v1/chat/completions", "/v1/messages", "/v1/responses"] {
        let reply = ask(&proxy, api, &body(api, false));
        assert!(text_of(api, &reply).ends_with(LIST));
        let mut request = body(api, false);
        let turns = if api == "/v1/responses" { "input" } else { "messages" };
        let said = match api {
            "/v1/chat/completions" => reply["choices"][0]["message"].clone(),
            "/v1/messages" => json!({"role": "assistant", "content": reply["content"]}),
            _ => reply["output"][0].clone(),
        };
        let user = |text: &str| json!({"role": "user", "content": text});
        request[turns] = json!([user("What is a weir?"), said, user("And how high?")]);
        let before = mock.stats()["requests"].as_u64().unwrap();
        ask(&proxy, api, &request);
        assert_eq!(mock.stats()["requests"], before + 2, "{api}: one condenses the question");
        let sent = mock.last()["body"].as_str().unwrap().to_owned();
        let is_clean =
            !sent.contains("Sources**") && !sent.contains("citation") && !sent.contains("example.com");
        assert!(sent.contains("A weir is a low dam") && is_clean, "{api}: {sent}");
    }
}

#[test]
fn open_webui_gets_an_event_for_each_source() {
    let mock = Mock::start(&["--echo", "cite"]);
    let proxy = proxy(&mock, ", sources_as = \"open-webui\"", "");
    let events = events(&proxy, APIS[0], &body(APIS[0], true));
    let name = "On *secret* weirs";
    let item = json!({
        "source": {"id": "bytes 0–71 of weirs", "name": name, "url": URL},
        "document": [WEIRS],
        "metadata": [{"source": "bytes 0–71 of weirs", "name": name, "source_url": URL, "page": 2}],
    });
    let holds = |found: &Value| {
        let distances = found["distances"].as_array().map(Vec::len);
        assert!(distances.is_some_and(|count| count <= 1), "{found}");
        for (field, value) in item.as_object().unwrap() {
            assert_eq!(&found[field], value, "{found}");
        }
    };
    let sent: Vec<&Value> = events.iter().filter(|event| !event["event"].is_null()).collect();
    assert_eq!((sent.len(), &sent[0]["event"]["type"]), (1, &json!("source")), "{events:?}");
    holds(&sent[0]["event"]["data"]);
    let last = events.last().unwrap();
    holds(&last["sources"][0]);
    assert_eq!(last["sources"][0]["document_id"], "weirs", "with the fields of every reply");
    for event in &events {
        assert!(
            event["choices"][0]["delta"].is_object() && event["object"] == "chat.completion.chunk",
            "{event}"
        );
        assert!(event["choices"][0]["delta"]["annotations"].is_null(), "the events stand for them: {event}");
    }
    assert_eq!(text_of_stream(APIS[0], &events), ANSWER);
}

#[test]
fn nothing_relevant_is_answered_in_every_api() {
    let mock = Mock::start(&["--echo", "cite"]);
    let proxy =
        proxy(&mock, ", filter = { page = 99 }, reply_when_empty = true, sources_as = \"markdown\"", "");
    let expected = "The documents contain nothing relevant to this question.";
    for api in APIS {
        let reply = ask(&proxy, api, &body(api, false));
        assert_eq!((text_of(api, &reply).as_str(), &reply["sources"]), (expected, &json!([])), "{api}");
        let events = events(&proxy, api, &body(api, true));
        assert_eq!(text_of_stream(api, &events), expected, "{api}");
    }
    assert_eq!(mock.stats()["requests"], 0);
}
