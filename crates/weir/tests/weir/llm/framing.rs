//! Problem 12: events in every legal and common illegal form. Problem 14: large bodies do not stop others.

use std::time::{Duration, Instant};

use super::setup::{Mock, Proxy, ask, ask_stream, read_to_close, upstream};

#[test]
fn events_arrive_whatever_their_framing() {
    let mock = Mock::start(&["--tokens", "5"]);
    let proxy = Proxy::start(&upstream("mock", &mock, ""));
    let expected = proxy.chat(&ask_stream("m"), &[]).unwrap();
    let contents =
        |text: &str| text.matches("\"content\":\"t0").count() + text.matches("\"content\":\" t0").count();
    assert_eq!(contents(&expected.text), 5, "{}", expected.text);
    for fault in [
        ("x-mock-ping", "1"),
        ("x-mock-gzip", "1"),
        ("x-mock-no-blank-line", "1"),
        ("x-mock-cut-bytes", "1"),
        ("x-mock-cut-bytes", "7"),
    ] {
        let reply = proxy.chat(&ask_stream("m"), &[fault]).unwrap();
        assert_eq!(reply.status, 200, "{fault:?}");
        assert!(reply.text.ends_with("data: [DONE]\n\n"), "{fault:?}: {}", reply.text);
        assert_eq!(contents(&reply.text), 5, "{fault:?}: {}", reply.text);
    }
    let (broken, is_whole) = read_to_close(&mut proxy.open(&ask_stream("m"), &[("x-mock-malformed", "1")]));
    assert!(broken.contains("an event is not JSON") && !broken.contains("[DONE]") && !is_whole, "{broken}");
    let whole = proxy.chat(&ask("m"), &[("x-mock-gzip", "1")]).unwrap();
    assert_eq!(whole.json()["usage"]["completion_tokens"], 5, "{}", whole.text);
    assert_eq!(whole.header("content-encoding"), "");
}

#[test]
fn large_bodies_do_not_delay_health() {
    let mock = Mock::start(&[]);
    let claude =
        format!("[[upstreams]]\nid = \"claude\"\nprovider = \"anthropic\"\nurl = \"{}\"\n", mock.url(""));
    let proxy = Proxy::start(&format!("{}{claude}", upstream("mock", &mock, "")));
    // one is passed on as it is, the other is translated
    let large = ["mock/m", "claude/m"].map(|model| {
        let mut body = ask(model);
        body["messages"][0]["content"] = "x".repeat(20 << 20).into();
        body
    });
    let slowest = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..4)
            .map(|number| {
                scope.spawn({
                    let (proxy, body) = (&proxy, &large[number % 2]);
                    move || proxy.chat(body, &[]).unwrap().status
                })
            })
            .collect();
        let mut slowest = Duration::ZERO;
        while senders.iter().any(|sender| !sender.is_finished()) {
            let started = Instant::now();
            assert_eq!(proxy.client.send("GET", "/livez", None).status, 200);
            slowest = slowest.max(started.elapsed());
        }
        assert!(senders.into_iter().all(|sender| sender.join().unwrap() == 200));
        slowest
    });
    println!("the slowest of /livez: {slowest:?}");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    let [mut large, _] = large;
    large["messages"][0]["content"] = "x".repeat(33 << 20).into();
    assert_eq!(proxy.chat(&large, &[]).unwrap().status, 413);
}
