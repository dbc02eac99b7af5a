//! Problem 1: memory does not grow with the requests that were served.

use serde_json::Value;

use super::setup::{Mock, Proxy, ask, ask_stream, read_to_close, read_until, upstream};

/// MiB that the gateway may hold after the load beyond what it held after the first round of it.
const GROWTH_MIB_MAX: u64 = 32;

/// A request of 100 KB, so that a request of which anything is kept is noticed.
fn large(mut body: Value, number: usize) -> Value {
    body["messages"][0]["content"] = format!("{number} {}", "x".repeat(100_000)).into();
    body
}

/// Whole replies, streams, streams that clients leave, refusals and failures of the upstream, each with a name of a model of its own.
fn load(proxy: &Proxy, from: usize, requests: usize) {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for number in (from..from + requests).filter(|number| number % 4 == thread) {
                    let model = format!("mock/m{number}");
                    let fault = [("x-mock-status", "500")];
                    match number / 4 % 5 {
                        0 => assert_eq!(proxy.chat(&large(ask(&model), number), &[]).unwrap().status, 200),
                        1 => assert_eq!(
                            proxy.chat(&large(ask_stream(&model), number), &[]).unwrap().status,
                            200
                        ),
                        2 => drop(read_until(
                            &mut proxy.open(&large(ask_stream(&model), number), &[]),
                            "t000001",
                        )),
                        3 => assert_eq!(proxy.chat(&large(ask("unknown"), number), &[]).unwrap().status, 404),
                        _ => {
                            let sent = [fault[0], ("connection", "close")];
                            drop(read_to_close(&mut proxy.open(&large(ask(&model), number), &sent)));
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn memory_does_not_grow_with_requests() {
    let mock = Mock::start(&["--tokens", "50", "--token-ms", "1"]);
    let route = "[[routes]]\nmodel = \"mock/*\"\ntargets = [{ upstream = \"mock\" }]\n";
    let proxy = Proxy::start(&format!("{}{route}", upstream("mock", &mock, "retries_max = 0\n")));
    load(&proxy, 0, 600);
    let before = proxy.weir.rss_mib();
    load(&proxy, 600, 1_800);
    let after = proxy.weir.rss_mib();
    println!("{before} MiB after 600 requests, {after} MiB after 2,400");
    assert!(after <= before + GROWTH_MIB_MAX, "{before} MiB before, {after} MiB after");
}

/// Requests of 1 MB wait for an upstream that is slow: those beyond the memory are refused before their body is read.
#[test]
fn bodies_are_admitted_by_memory() {
    let mock = Mock::start(&["--latency-ms", "3000"]);
    let variables = [("WEIR_LIMITS_CHAT_MEMORY_BYTES_MAX", "20000000")];
    let proxy = Proxy::start_with(&upstream("mock", &mock, "retries_max = 0\n"), &variables);
    let mut body = ask("mock/m");
    body["messages"][0]["content"] = "a ".repeat(500_000).into();
    let replies: Vec<_> = std::thread::scope(|scope| {
        let (proxy, body) = (&proxy, &body);
        let senders: Vec<_> = (0..12).map(|_| scope.spawn(|| proxy.chat(body, &[]).unwrap())).collect();
        senders.into_iter().map(|sender| sender.join().unwrap()).collect()
    });
    let (taken, refused): (Vec<_>, Vec<_>) = replies.into_iter().partition(|reply| reply.status == 200);
    assert_eq!((taken.len(), refused.len()), (6, 6), "three times a body of 1 MB each, of 20 MB");
    for reply in refused {
        let error = &reply.json()["error"];
        assert_eq!((reply.status, &error["code"]), (503, &"overloaded".into()));
        assert!(error["message"].as_str().unwrap().contains("`limits.chat_memory_bytes_max`"), "{error}");
    }
    // the memory is free again
    assert_eq!(proxy.chat(&body, &[("x-mock-latency-ms", "0")]).unwrap().status, 200);
    body["messages"][0]["content"] = "a ".repeat(3_500_000).into();
    let large = proxy.chat(&body, &[]).unwrap();
    assert_eq!(
        (large.status, &large.json()["error"]["code"]),
        (413, &"payload_too_large".into()),
        "{}",
        large.text
    );
}
