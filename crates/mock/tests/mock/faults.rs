//! Each fault, by header or flag.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::support::{CHAT, CHAT_BODY, CHAT_STREAM, Mock, Reply, parse, start};
use serde_json::{Value, json};

const ANTHROPIC_STREAM: &str =
    r#"{"model":"m","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"hello"}]}"#;

fn fault(mock: &Mock, name: &str, body: &str) -> Option<Reply> {
    mock.try_post(CHAT, &[(&format!("x-mock-{name}"), "1")], body)
}

/// The same reply without a fault; its id differs, so that each is taken from a server of its own.
fn plain(flags: &[&str], path: &str, body: &str) -> String {
    start(flags).post(path, &[], body).text().to_owned()
}

#[test]
fn connections_are_dropped_in_three_phases() {
    for body in [CHAT_BODY, CHAT_STREAM] {
        let mock = start(&["--tokens", "4"]);
        assert!(fault(&mock, "drop-headers", body).is_none());
        let first = fault(&mock, "drop-first-token", body).unwrap();
        assert_eq!((first.status, first.body.len(), first.is_complete), (200, 0, false));
        mock.post("/mock/reset", &[], "");
        let middle = fault(&mock, "drop-midstream", body).unwrap();
        let whole = plain(&["--tokens", "4"], CHAT, body);
        assert!(whole.starts_with(middle.text()) && !middle.is_complete, "{middle:?}");
        assert!(!middle.body.is_empty() && middle.body.len() < whole.len());
        let stats = mock.stats();
        let cancelled = json!({"before_headers": 0, "before_first_token": 0, "midstream": 0});
        assert_eq!((&stats["cancelled"], &stats["completed"]), (&cancelled, &json!(0)));
        assert_eq!(stats["faults"]["drop-midstream"], 1);
    }
}

#[test]
fn a_stream_is_dropped_after_half_of_its_tokens() {
    let reply = fault(&start(&["--tokens", "4"]), "drop-midstream", CHAT_STREAM).unwrap();
    assert_eq!(reply.events().len(), 3);
    assert!(reply.events()[2].contains(" t000002"));
}

#[test]
fn a_reset_ends_the_connection_by_rst() {
    let mock = start(&[]);
    let read = |headers: &[(&str, &str)]| {
        let mut bytes = Vec::new();
        let result = mock.open("POST", CHAT, headers, CHAT_STREAM).read_to_end(&mut bytes);
        result.map_err(|error| error.kind())
    };
    let drop = ("x-mock-drop-midstream", "1");
    assert!(read(&[drop]).is_ok());
    assert_eq!(read(&[drop, ("x-mock-reset", "1")]), Err(std::io::ErrorKind::ConnectionReset));
    assert!(read(&[("x-mock-reset", "1")]).is_ok(), "without a drop there is no reset");
}

/// Time to the headers, to the first byte of the body, and to the end.
fn times(mock: &Mock, headers: &[(&str, &str)], body: &str) -> [Duration; 3] {
    let start = Instant::now();
    let mut stream = mock.open("POST", CHAT, headers, body);
    let (mut bytes, mut times) = (Vec::<u8>::new(), [None; 3]);
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).unwrap();
        bytes.extend(&buffer[..count]);
        let head_len = bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        let has_body = head_len.is_some_and(|len| bytes.len() > len);
        for (time, is_reached) in times.iter_mut().zip([head_len.is_some(), has_body, count == 0]) {
            if is_reached && time.is_none() {
                *time = Some(start.elapsed());
            }
        }
        if count == 0 {
            return times.map(Option::unwrap);
        }
    }
}

#[test]
fn a_stall_delays_what_follows_it_and_then_the_reply_continues() {
    let mock = start(&["--stall-ms", "400", "--tokens", "4"]);
    let stall = Duration::from_millis(400);
    for body in [CHAT_BODY, CHAT_STREAM] {
        let [headers, ..] = times(&mock, &[("x-mock-stall-headers", "1")], body);
        assert!(headers >= stall, "{headers:?}");
        let [_, first, _] = times(&mock, &[("x-mock-stall-first-token", "1")], body);
        assert!(first >= stall, "{first:?}");
        let [.., end] = times(&mock, &[("x-mock-stall-midstream", "1")], body);
        assert!(end >= stall, "{end:?}");
    }
    let reply = fault(&mock, "stall-midstream", CHAT_STREAM).unwrap();
    assert_eq!((reply.is_complete, reply.events().len()), (true, 7));
}

#[test]
fn delays_add_up() {
    let mock = start(&["--tokens", "5"]);
    let delays = [("x-mock-latency-ms", "100"), ("x-mock-first-token-ms", "150"), ("x-mock-token-ms", "50")];
    let [headers, first, end] = times(&mock, &delays, CHAT_STREAM);
    let ms = Duration::from_millis;
    assert!(headers >= ms(100) && first >= ms(250) && end >= ms(450), "{headers:?} {first:?} {end:?}");
    let [headers, ..] = times(&mock, &delays, CHAT_BODY);
    assert!(headers >= ms(450), "{headers:?}");
    assert!(times(&mock, &[("x-vidai-latency", "120")], CHAT_BODY)[0] >= ms(120));
}

#[test]
fn one_event_in_the_middle_is_malformed() {
    let mock = start(&["--tokens", "4"]);
    let events = fault(&mock, "malformed", CHAT_STREAM).unwrap().events();
    let is_json = |event: &String| serde_json::from_str::<Value>(event).is_ok() || event == "[DONE]";
    assert_eq!(events.iter().map(is_json).collect::<Vec<_>>(), [true, true, false, true, true, true, true]);
    let whole = fault(&mock, "malformed", CHAT_BODY).unwrap();
    assert!(whole.is_complete && serde_json::from_slice::<Value>(&whole.body).is_err());
}

#[test]
fn one_event_in_the_middle_lacks_its_blank_line() {
    let reply = fault(&start(&["--tokens", "4"]), "no-blank-line", CHAT_STREAM).unwrap();
    let blocks: Vec<usize> =
        reply.text().split_terminator("\n\n").map(|block| block.lines().count()).collect();
    assert_eq!(blocks, [1, 1, 2, 1, 1, 1]);
    assert_eq!(
        reply.text().replace('\n', ""),
        plain(&["--tokens", "4"], CHAT, CHAT_STREAM).replace('\n', "")
    );
}

#[test]
fn the_last_event_is_missing() {
    let reply = fault(&start(&[]), "no-done", CHAT_STREAM).unwrap();
    assert_eq!(format!("{}data: [DONE]\n\n", reply.text()), plain(&[], CHAT, CHAT_STREAM));
    assert!(reply.is_complete);
    let reply = start(&["--no-done", "1"]).post("/v1/messages", &[], ANTHROPIC_STREAM);
    let whole = plain(&[], "/v1/messages", ANTHROPIC_STREAM);
    assert_eq!(
        whole.strip_prefix(reply.text()),
        Some("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
    );
}

#[test]
fn an_error_ends_the_stream_in_the_providers_shape() {
    let mock = start(&["--tokens", "4", "--error-midstream", "1"]);
    let events = mock.post(CHAT, &[], CHAT_STREAM).events();
    assert_eq!(events.len(), 4);
    assert_eq!(serde_json::from_str::<Value>(&events[3]).unwrap()["error"]["type"], "server_error");
    let reply = mock.post("/v1/messages", &[], ANTHROPIC_STREAM);
    let last = "event: error\ndata: {\"error\":{\"message\":\"error requested by a flag or header\",\"type\":\"overloaded_error\"},\"type\":\"error\"}\n\n";
    assert!(reply.text().ends_with(last), "{}", reply.text());
    let reply = mock.post("/v1/responses", &[], r#"{"model":"m","input":"a b","stream":true}"#);
    let last = "event: error\ndata: {\"type\":\"error\",\"sequence_number\":5,\"code\":\"server_error\",\"message\":\"error requested by a flag or header\",\"param\":null}\n\n";
    assert!(reply.text().ends_with(last), "{}", reply.text());
}

#[test]
fn comments_precede_every_event() {
    let reply = fault(&start(&["--tokens", "2"]), "ping", CHAT_STREAM).unwrap();
    assert_eq!(reply.text().matches(": ping\n\n").count(), 5);
    assert!(reply.text().starts_with(": ping\n\ndata: "));
    assert_eq!(reply.text().replace(": ping\n\n", ""), plain(&["--tokens", "2"], CHAT, CHAT_STREAM));
}

#[test]
fn replies_and_streams_are_compressed() {
    for body in [CHAT_BODY, CHAT_STREAM] {
        let reply = fault(&start(&["--tokens", "50", "--token-ms", "1"]), "gzip", body).unwrap();
        assert_eq!(reply.header("content-encoding"), Some("gzip"));
        let mut text = String::new();
        flate2::read::GzDecoder::new(reply.body.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text, plain(&["--tokens", "50"], CHAT, body));
        assert!(reply.body.len() < text.len() && reply.is_complete);
    }
}

#[test]
fn an_event_of_a_compressed_stream_can_be_read_when_it_arrives() {
    let mock = start(&["--tokens", "4", "--stall-ms", "600000"]);
    let headers = [("x-mock-gzip", "1"), ("x-mock-stall-midstream", "1")];
    let mut stream = mock.open("POST", CHAT, &headers, CHAT_STREAM);
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut buffer).unwrap();
        bytes.extend(&buffer[..count]);
        let Some(reply) = parse(&bytes) else { continue };
        let mut decoder = flate2::write::GzDecoder::new(Vec::new());
        decoder.write_all(&reply.body).unwrap();
        decoder.flush().unwrap();
        let text = String::from_utf8_lossy(decoder.get_ref()).into_owned();
        if text.contains("t000002") && text.ends_with("\n\n") {
            return;
        }
    }
}

#[test]
fn streams_cut_at_any_byte_have_the_same_content() {
    for (path, body) in [
        (CHAT, CHAT_STREAM),
        ("/v1/messages", ANTHROPIC_STREAM),
        ("/v1beta/models/g:streamGenerateContent?alt=sse", r#"{"contents":"hello"}"#),
    ] {
        let whole = plain(&["--tokens", "3"], path, body);
        let mock = start(&["--tokens", "3"]);
        for cut in 1..=40 {
            mock.post("/mock/reset", &[], "");
            let reply = mock.post(path, &[("x-mock-cut-bytes", &cut.to_string())], body);
            assert!(reply.is_complete && reply.text() == whole, "{path} {cut}");
        }
    }
}

#[test]
fn a_cut_reply_arrives_in_pieces() {
    let mock = start(&["--tokens", "2", "--cut-bytes", "50", "--cut-pause-ms", "20"]);
    let sizes = || {
        let mut stream = mock.open("POST", CHAT, &[], CHAT_STREAM);
        let mut buffer = [0; 4096];
        std::iter::from_fn(|| Some(stream.read(&mut buffer).unwrap()))
            .take_while(|count| *count > 0)
            .collect()
    };
    // A late reader finds several pieces at once; on a busy machine some readers are late.
    let is_cut = |sizes: Vec<usize>| sizes.len() > 5 && sizes[0] == 50;
    assert!((0..10).any(|_| is_cut(sizes())));
}

#[test]
fn errors_have_their_status_and_a_429_has_retry_after() {
    let mock = start(&["--retry-after-s", "7"]);
    for (name, status, kind) in [
        ("status-429", 429, "requests"),
        ("status-500", 500, "server_error"),
        ("status-503", 503, "server_error"),
    ] {
        for body in [CHAT_BODY, CHAT_STREAM] {
            let reply = fault(&mock, name, body).unwrap();
            assert_eq!((reply.status, &reply.json()["error"]["type"]), (status, &json!(kind)));
            assert_eq!(reply.header("retry-after"), (status == 429).then_some("7"));
        }
    }
    let check = |path: &str, status: &str, expected: &[&str]| {
        let reply = mock.post(path, &[("x-mock-status", status)], "{}");
        assert_eq!(reply.status.to_string(), status);
        assert!(expected.iter().all(|part| reply.text().contains(part)), "{}", reply.text());
    };
    check("/v1/messages", "429", &[r#""type":"rate_limit_error""#, r#""type":"error""#]);
    check("/v1/messages", "529", &[r#""type":"overloaded_error""#]);
    check("/v1beta/models/g:generateContent", "429", &[r#""code":429"#, r#""status":"RESOURCE_EXHAUSTED""#]);
}

#[test]
fn rates_have_the_same_outcome_with_the_same_seed() {
    let statuses = |seed: &str| {
        let mock = start(&["--status-503", "0.3", "--status-429", "0.1", "--seed", seed]);
        (0..200).map(|_| mock.post(CHAT, &[], CHAT_BODY).status).collect::<Vec<u16>>()
    };
    let first = statuses("7");
    assert_eq!(first, statuses("7"));
    assert_ne!(first, statuses("8"));
    let count = |status: u16| first.iter().filter(|found| **found == status).count();
    assert!(
        (35..=85).contains(&count(503)) && (5..=40).contains(&count(429)),
        "{} {}",
        count(503),
        count(429)
    );
}
