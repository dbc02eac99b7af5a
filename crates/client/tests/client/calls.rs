//! Calls over real connections to a server that sends prepared responses.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_api::{ErrorCode, IngestRequest, Problem};
use weir_client::{Client, ClientError, RetryPolicy, Transport, TransportError};

const PATIENT: RetryPolicy =
    RetryPolicy { unreachable: Duration::from_secs(30), busy: Duration::from_secs(30) };
const NO_JOBS: &str = r#"{"data":[],"next_cursor":null}"#;

/// Serves one response per connection; the thread returns the request lines.
fn serve(responses: Vec<String>) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = move |response: String| {
        let (mut stream, _) = listener.accept().unwrap();
        let head: Vec<String> =
            BufReader::new(&stream).lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        stream.write_all(response.as_bytes()).unwrap();
        head[0].clone()
    };
    (url, std::thread::spawn(move || responses.into_iter().map(answer).collect()))
}

fn response(status: u16, header: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} x\r\nconnection: close\r\n{header}\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn busy(header: &str) -> String {
    let problem = Problem::new(ErrorCode::Overloaded, "the queue is full", None);
    response(503, header, &serde_json::to_string(&problem).unwrap())
}

#[tokio::test]
async fn a_call_is_repeated_after_the_retry_after_of_the_reply() {
    let job = r#"{"job_id":"j","collection":"default","status":"pending","total_documents":0,"processed_documents":0,"failed_documents":0,
        "new_documents":0,"changed_documents":0,"unchanged_documents":0,"chunks":0,
        "error":null,"started_at":1.0,"finished_at":null,"errors":[]}"#;
    let (url, server) = serve(vec![busy("retry-after: 1"), busy("x: y"), response(202, "x: y", job)]);
    let begun = Instant::now();
    let mut reports = Vec::new();
    let request = IngestRequest {
        collection: None,
        documents: Vec::new(),
        replace_if_equal: Vec::new(),
        webhook_url: None,
    };
    let job = Client::new(url, PATIENT).ingest(&request, |text| reports.push(text.to_owned())).await.unwrap();
    assert_eq!((job.job_id.as_str(), server.join().unwrap().len()), ("j", 3));
    assert!(begun.elapsed() >= Duration::from_millis(1_200), "{:?}", begun.elapsed());
    assert_eq!(reports, ["the queue is full; trying again in 1 s"], "delays below a second are not reported");
}

#[tokio::test]
async fn without_retries_the_first_error_is_returned() {
    let (url, server) = serve(vec![busy("retry-after: 1")]);
    let error = Client::new(url, RetryPolicy::NONE).jobs().await.unwrap_err();
    assert!(matches!(error, ClientError::Refused { code: ErrorCode::Overloaded, .. }), "{error}");
    assert_eq!(server.join().unwrap(), ["GET /v1/jobs HTTP/1.1"]);
}

#[tokio::test]
async fn an_error_that_will_not_go_away_is_not_repeated() {
    let problem = Problem::new(ErrorCode::JobNotFound, "there is no job `x`", None);
    let (url, _server) = serve(vec![response(404, "x: y", &serde_json::to_string(&problem).unwrap())]);
    let error = Client::new(url.clone(), PATIENT).job("x").await.unwrap_err();
    assert_eq!(error.to_string(), "there is no job `x`");
    assert_eq!(error.hint().unwrap(), "`weir jobs` lists the jobs");
}

#[tokio::test]
async fn a_call_is_repeated_until_the_gateway_listens() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let client = Client::new(format!("http://127.0.0.1:{port}"), PATIENT);
    let starts = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        // another connection may use the port for a moment
        let listener = loop {
            match TcpListener::bind(("127.0.0.1", port)) {
                Ok(listener) => break listener,
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        // and somebody who had the port before may still call it
        let mut line = String::new();
        while !line.starts_with("GET /v1/jobs") {
            let (mut stream, _) = listener.accept().unwrap();
            line.clear();
            let _ = BufReader::new(&stream).read_line(&mut line);
            let _ = stream.write_all(response(200, "x: y", NO_JOBS).as_bytes());
        }
    });
    assert!(client.jobs().await.unwrap().parse().unwrap().data.is_empty());
    starts.join().unwrap();
}

#[tokio::test]
async fn ids_names_and_cursors_are_percent_encoded() {
    let (url, server) = serve(vec![response(404, "x: y", ""); 3]);
    let client = Client::new(url, RetryPolicy::NONE);
    assert!(client.job("job_1 a/é").await.is_err());
    assert!(client.documents("notes", 5, Some("a+b/=")).await.is_err());
    let error = client.feedback("a&b", 5, None).await.unwrap_err();
    assert!(matches!(error, ClientError::NotAGateway { status: 404, .. }), "{error}");
    assert_eq!(
        server.join().unwrap(),
        [
            "GET /v1/jobs/job_1%20a%2F%C3%A9 HTTP/1.1",
            "GET /v1/collections/notes/documents?limit=5&cursor=a%2Bb%2F%3D HTTP/1.1",
            "GET /v1/feedback?collection=a%26b&limit=5 HTTP/1.1",
        ]
    );
}

#[tokio::test]
async fn redirects_to_paths_and_urls_are_followed() {
    let (other, other_server) = serve(vec![response(200, "x: y", "found")]);
    let (url, server) = serve(vec![
        response(307, "location: /second?a=b", ""),
        response(302, &format!("location: {other}/third"), ""),
    ]);
    let found = Transport::new(Duration::from_secs(5)).get(&format!("{url}/first")).await.unwrap();
    assert_eq!(found.status(), 200);
    assert_eq!(server.join().unwrap(), ["GET /first HTTP/1.1", "GET /second?a=b HTTP/1.1"]);
    assert_eq!(other_server.join().unwrap(), ["GET /third HTTP/1.1"]);
}

#[tokio::test]
async fn a_loop_of_redirects_ends() {
    let (url, _server) = serve(vec![response(302, "location: /", ""); 10]);
    let error = Transport::new(Duration::from_secs(5)).get(&url).await.unwrap_err();
    assert!(matches!(error, TransportError::Redirects(_)), "{error}");
}

#[tokio::test]
async fn errors_of_connections_name_the_innermost_cause() {
    let transport = Transport::new(Duration::from_secs(5));
    let refused = transport.get("http://127.0.0.1:9/").await.unwrap_err();
    assert_eq!(
        (refused.to_string().as_str(), refused.is_transient()),
        ("Connection refused (os error 111)", true)
    );
    let without_tls = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", without_tls.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = without_tls.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 x\r\n\r\n").unwrap();
        stream
    });
    let error = transport.get(&url).await.unwrap_err();
    assert!(!error.is_transient(), "{error}");
    drop(server);
    assert!(!transport.get("no url").await.unwrap_err().is_transient());
}
