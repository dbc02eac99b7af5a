//! The end of a job is told to the address that its request named: signed, again until it is taken, and only to addresses that may be called.

use std::net::TcpListener;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::receiver::{Call, Receiver};
use super::{HELD, Model, document, post, send, wait_for};
use crate::support::client::document_path;
use crate::support::documented::check_error;
use crate::support::gateway::Gateway;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Settings with which webhooks are sent to this machine.
const SETTINGS: [(&str, &str); 4] = [
    ("HOOK_SECRET", SECRET),
    ("WEIR_WEBHOOKS_SECRET", "env:HOOK_SECRET"),
    ("WEIR_WEBHOOKS_ALLOW_PRIVATE_ADDRESSES", "true"),
    ("WEIR_WEBHOOKS_RETRY_AFTER_MS", "50"),
];

/// HMAC-SHA256 as RFC 2104 writes it.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let padded =
        |byte: u8| -> Vec<u8> { (0..64).map(|place| key.get(place).copied().unwrap_or(0) ^ byte).collect() };
    let inner = Sha256::digest([padded(0x36).as_slice(), message].concat());
    Sha256::digest([padded(0x5c).as_slice(), &inner].concat()).to_vec()
}

/// Checks id, time and signature as a receiver does, and returns the message.
fn verified(call: &Call) -> Value {
    let header = |name: &str| call.headers[name].as_str();
    let sent_at: u64 = header("webhook-timestamp").parse().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(now.abs_diff(sent_at) < 60, "{sent_at} is not now");
    let signed = format!("{}.{sent_at}.{}", header("webhook-id"), call.body);
    let key = STANDARD.decode(SECRET.strip_prefix("whsec_").unwrap()).unwrap();
    let expected = format!("v1,{}", STANDARD.encode(hmac(&key, signed.as_bytes())));
    assert_eq!(header("webhook-signature"), expected);
    assert_eq!(header("content-type"), "application/json");
    call.json()
}

/// Sends one document whose job is told to `url`; the path of the job.
fn send_to(gateway: &Gateway, id: &str, words: &str, url: &str) -> String {
    let body = json!({"documents": [document(id, words)], "webhook_url": url});
    let (status, job) = gateway.try_post("/v1/ingest", &body).unwrap();
    assert_eq!(status, 202, "{job}");
    assert!(["waiting", "pending"].contains(&job["webhook"]["status"].as_str().unwrap()), "{job}");
    format!("/v1/jobs/{}", job["job_id"].as_str().unwrap())
}

fn wait_for_webhook(gateway: &Gateway, job: &str, status: &str) -> Value {
    gateway.wait(status, || gateway.get(job).1["webhook"]["status"] == status);
    gateway.get(job).1["webhook"].clone()
}

fn id_of(job: &str) -> &str {
    job.rsplit('/').next().unwrap()
}

/// Demand 17: nobody has to ask whether a job has ended.
#[test]
fn demand_17_the_end_of_a_job_is_told_once_and_signed() {
    let (receiver, model) = (Receiver::start(|_| Some(204)), Model::holding());
    let folder = tempfile::tempdir().unwrap();
    let gateway = super::start(folder.path(), &model.upstream.url, &SETTINGS);
    let url = format!("{}/hook?token=hidden-part", receiver.url);
    let completed = send_to(&gateway, "a", "river", &url);
    let webhook = wait_for_webhook(&gateway, &completed, "delivered");
    assert_eq!((&webhook["attempts"], &webhook["error"]), (&json!(1), &Value::Null), "{webhook}");
    let calls = receiver.calls();
    let message = verified(&calls[0]);
    assert_eq!((calls.len(), calls[0].path.as_str()), (1, "/hook?token=hidden-part"));
    assert_eq!(calls[0].headers["webhook-id"], id_of(&completed));
    assert_eq!(
        (&message["type"], &message["data"]["job_id"]),
        (&json!("job.completed"), &json!(id_of(&completed)))
    );
    assert_eq!(message["timestamp"], message["data"]["finished_at"]);
    assert_eq!(message["data"]["new_documents"], 1);

    // a job that is cancelled, those of forms and lines, and one that ends at once
    let cancelled = send_to(&gateway, "b", HELD, &url);
    assert_eq!(post(&gateway, &format!("{cancelled}/cancel")).0, 200);
    model.release();
    let form = format!(
        "--b\r\ncontent-disposition: form-data; name=\"webhook_url\"\r\n\r\n{url}\r\n\
         --b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"c.txt\"\r\n\r\nc river\r\n--b--\r\n"
    );
    let media = [("content-type", "multipart/form-data; boundary=b")];
    let sent = gateway.try_send("POST", "/v1/ingest", &media, Some(form.as_bytes())).unwrap();
    assert_eq!(sent.status, 202, "{}", sent.text);
    let lines = document("d", "river").to_string();
    let media = [("content-type", "application/x-ndjson")];
    let path = format!("/v1/ingest?webhook_url={}", url.replace('?', "%3F"));
    let sent = gateway.try_send("POST", &path, &media, Some(lines.as_bytes())).unwrap();
    assert_eq!(sent.status, 202, "{}", sent.text);
    let unchanged = send_to(&gateway, "a", "river", &url);
    gateway.wait("the calls", || receiver.calls().len() == 5);
    let mut kinds: Vec<String> =
        receiver.calls().iter().map(|call| verified(call)["type"].as_str().unwrap().to_owned()).collect();
    kinds.sort();
    assert_eq!(kinds, ["job.cancelled", "job.completed", "job.completed", "job.completed", "job.completed"]);
    wait_for_webhook(&gateway, &unchanged, "delivered");

    let shown = gateway.send("GET", "/v1/jobs", None).text;
    let log = gateway.weir.log();
    assert!(log.contains("webhook delivered"), "{log}");
    for secret in ["hidden-part", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
        assert!(!shown.contains(secret) && !log.contains(secret), "{secret} is shown");
    }
    let metrics = gateway.send("GET", "/metrics", None).text;
    assert!(metrics.contains("weir_webhook_attempts_total{result=\"delivered\"} 5"), "{metrics}");
}

#[test]
fn the_jobs_of_single_documents_and_of_another_attempt_have_webhooks() {
    let (receiver, model) = (Receiver::start(|_| Some(204)), Model::holding());
    let folder = tempfile::tempdir().unwrap();
    let gateway = super::start(folder.path(), &model.upstream.url, &SETTINGS);
    let told = |method: &str, path: &str, media: &str, body: &[u8]| {
        let path = format!("{path}?webhook_url={}/{}", receiver.url, method.to_lowercase());
        let sent = gateway.try_send(method, &path, &[("content-type", media)], Some(body)).unwrap();
        assert_eq!(sent.status, 202, "{method}: {}", sent.text);
        format!("/v1/jobs/{}", sent.json()["job_id"].as_str().unwrap())
    };
    let path = document_path("a");
    let put = told("PUT", &path, "application/json", br#"{"text": "a river"}"#);
    wait_for_webhook(&gateway, &put, "delivered");
    let file = told("PUT", &path, "text/plain", b"another river");
    let patch = told("PATCH", &path, "application/merge-patch+json", br#"{"title": "b"}"#);
    let cancelled = send(&gateway, &[document("c", HELD)]);
    assert_eq!(post(&gateway, &format!("{cancelled}/cancel")).0, 200);
    model.release();
    let again = told("POST", &format!("{cancelled}/retry-failed"), "application/json", b"");
    for job in [&file, &patch, &again] {
        wait_for_webhook(&gateway, job, "delivered");
    }
    let mut calls: Vec<(String, String)> =
        receiver.calls().iter().map(|call| (call.path.clone(), call.headers["webhook-id"].clone())).collect();
    calls.sort();
    let mut expected = [("/put", &put), ("/put", &file), ("/patch", &patch), ("/post", &again)]
        .map(|(path, job)| (path.to_owned(), id_of(job).to_owned()));
    expected.sort();
    assert_eq!(calls, expected);
    let refused = gateway.send("POST", &format!("{again}/retry-failed?webhook_url=ftp://a"), None);
    check_error(&refused, "invalid_parameter", "an address");
}

#[test]
fn a_webhook_is_sent_again_after_a_failure_and_a_restart_and_given_up_at_the_limit() {
    let receiver = Receiver::start(|number| Some(if number == 2 { 200 } else { 500 }));
    let folder = tempfile::tempdir().unwrap();
    let start = |attempts_max, retry_after| {
        let mut all = SETTINGS.to_vec();
        all.extend([
            ("WEIR_WEBHOOKS_ATTEMPTS_MAX", attempts_max),
            ("WEIR_WEBHOOKS_RETRY_AFTER_MS", retry_after),
        ]);
        let gateway = Gateway::start_in(folder.path(), &all);
        gateway.wait_until_ready();
        gateway
    };
    let gateway = start("9", "600");
    let job = send_to(&gateway, "a", "river", &receiver.url);
    gateway.wait("the reason", || gateway.get(&job).1["webhook"]["error"].is_string());
    let webhook = gateway.get(&job).1["webhook"].clone();
    assert!(webhook["error"].as_str().unwrap().contains("status 500"), "{webhook}");
    assert!(webhook["next_attempt_at"].is_number() && webhook["finished_at"].is_null(), "{webhook}");
    gateway.weir.kill();

    let gateway = start("9", "50");
    let webhook = wait_for_webhook(&gateway, &job, "delivered");
    assert_eq!((&webhook["attempts"], &webhook["error"]), (&json!(3), &Value::Null), "{webhook}");
    let ids: Vec<String> = receiver.calls().iter().map(|call| call.headers["webhook-id"].clone()).collect();
    assert_eq!(ids, vec![id_of(&job); 3]);
    receiver.calls().iter().for_each(|call| drop(verified(call)));
    gateway.weir.terminate();

    let gateway = start("3", "1");
    let job = send_to(&gateway, "b", "river", &receiver.url);
    let webhook = wait_for_webhook(&gateway, &job, "failed");
    assert_eq!((&webhook["attempts"], receiver.calls().len()), (&json!(3), 6), "{webhook}");
    assert!(gateway.weir.log().contains("it is given up"));
    let metrics = gateway.send("GET", "/metrics", None).text;
    for expected in ["{result=\"retried\"} 2", "{result=\"given_up\"} 1"] {
        assert!(metrics.contains(&format!("weir_webhook_attempts_total{expected}")), "{metrics}");
    }
}

#[test]
fn a_receiver_that_hangs_is_bounded_and_delays_nothing_else() {
    let (hanging, other) = (Receiver::start(|_| None), Receiver::start(|_| Some(200)));
    let mut all = SETTINGS.to_vec();
    all.extend([
        ("WEIR_WEBHOOKS_TIMEOUT_MS", "3000"),
        ("WEIR_WEBHOOKS_ATTEMPTS_MAX", "1"),
        ("WEIR_WEBHOOKS_OPEN_MAX", "21"),
    ]);
    let gateway = Gateway::start_with(&all);
    let held: Vec<String> =
        (0..20).map(|number| send_to(&gateway, &format!("h{number}"), "river", &hanging.url)).collect();
    let begun = std::time::Instant::now();
    gateway.wait("calls that hang", || hanging.calls().len() == 4);
    let job = send_to(&gateway, "a", "river", &other.url);
    wait_for_webhook(&gateway, &job, "delivered");
    assert!(begun.elapsed() < Duration::from_secs(3), "it waited for the others: {:?}", begun.elapsed());
    assert_eq!(hanging.calls().len(), 4, "calls to one receiver at a time");
    // what is open is bounded
    let last = send_to(&gateway, "b", "river", &hanging.url);
    let body = json!({"documents": [document("c", "river")], "webhook_url": other.url}).to_string();
    let refused = gateway.send("POST", "/v1/ingest", Some(body.as_bytes()));
    check_error(&refused, "overloaded", "too many webhooks");
    assert!(gateway.document("c").is_none());

    let webhook = wait_for_webhook(&gateway, &held[0], "failed");
    assert!(webhook["error"].as_str().unwrap().contains("within 3000 ms"), "{webhook}");
    gateway.weir.terminate();
    drop(last);
}

#[test]
fn addresses_that_are_not_public_are_refused_unless_a_setting_allows_them() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let gateway = Gateway::start_with(&SETTINGS[..2]);
    for host in ["127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.7", "[::ffff:127.0.0.1]"] {
        let body =
            json!({"documents": [document("a", "river")], "webhook_url": format!("http://{host}:{port}/")});
        let refused = gateway.send("POST", "/v1/ingest", Some(body.to_string().as_bytes()));
        let problem = check_error(&refused, "invalid_parameter", host);
        assert_eq!(problem["error"]["param"], "webhook_url");
        assert!(
            problem["detail"].as_str().unwrap().contains("webhooks.allow_private_addresses"),
            "{problem}"
        );
    }
    assert!(gateway.document("a").is_none(), "nothing of a refused request is stored");
    // names are judged by what they resolve to
    for host in ["localhost", "2130706433"] {
        let job = send_to(&gateway, host, "river", &format!("http://{host}:{port}/"));
        let webhook = wait_for_webhook(&gateway, &job, "failed");
        assert!(webhook["error"].as_str().unwrap().contains("not public"), "{webhook}");
        assert_eq!(webhook["attempts"], 1);
        wait_for(&gateway, &job, "completed");
    }
    assert!(listener.accept().is_err(), "it was connected to");

    let without = Gateway::start();
    let body =
        json!({"documents": [document("a", "river")], "webhook_url": "https://example.com/"}).to_string();
    let refused = without.send("POST", "/v1/ingest", Some(body.as_bytes()));
    let problem = check_error(&refused, "invalid_parameter", "no secret");
    assert!(problem["detail"].as_str().unwrap().contains("webhooks.secret"), "{problem}");
}
