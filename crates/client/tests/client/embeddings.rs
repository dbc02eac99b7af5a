//! Embeddings over real connections to a small server, which replies with what a test needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::server::{Asked, Reply, Server};
use http::{HeaderMap, StatusCode};
use weir_api::ErrorCode;
use weir_client::{
    AffectedTexts, Client, ClientError, EmbedManyOptions, EmbeddingOptions, Embeddings, RetryPolicy,
};

const DIMENSION: usize = 3;
const PATIENT: RetryPolicy =
    RetryPolicy { unreachable: Duration::from_secs(30), busy: Duration::from_secs(30) };

/// The embedding of a text that is a number: the number, its half, minus one.
fn row(text: &str) -> [f32; DIMENSION] {
    let number: f32 = text.parse().unwrap();
    [number, number / 2.0, -1.0]
}

/// What a gateway replies to a request for embeddings.
fn embedded(asked: &Asked) -> Reply {
    let texts: Vec<String> = serde_json::from_value(asked.json()["input"].clone()).unwrap();
    let bytes = texts.iter().flat_map(|text| row(text)).flat_map(f32::to_le_bytes).collect();
    Reply::new(StatusCode::OK, bytes)
        .header("content-type", "application/octet-stream")
        .header("x-embedding-count", &texts.len().to_string())
        .header("x-embedding-dim", &DIMENSION.to_string())
        .header("x-embedding-dtype", "float32")
        .header("x-embedding-model", "m")
        .header("x-usage-prompt-tokens", "7")
}

fn options() -> EmbeddingOptions {
    EmbeddingOptions { model: Some("m".to_owned()), ..EmbeddingOptions::default() }
}

async fn embed(client: &Client, texts: &[&str]) -> Result<Embeddings, ClientError> {
    client.embed(texts, &options()).await
}

#[tokio::test]
async fn the_floats_of_a_reply_are_rows() {
    let server = Server::start(|asked| {
        embedded(asked).header("x-truncated-inputs", "0,1").header("x-truncated-inputs-count", "2")
    });
    let client = Client::new(server.url.clone(), RetryPolicy::NONE).with_api_key("sk-1").unwrap();
    let embeddings = embed(&client, &["4", "-2.5"]).await.unwrap();
    assert_eq!((embeddings.len(), embeddings.dimension()), (2, DIMENSION));
    assert_eq!((embeddings.row(0), embeddings.row(1)), (&row("4")[..], &row("-2.5")[..]));
    assert_eq!(embeddings.rows().collect::<Vec<_>>(), [&row("4")[..], &row("-2.5")[..]]);
    assert_eq!(embeddings.as_slice().len(), 2 * DIMENSION);
    assert_eq!((embeddings.model(), embeddings.prompt_tokens()), ("m", 7));
    assert_eq!(*embeddings.truncated(), AffectedTexts { indices: vec![0, 1], count: 2 });
    assert_eq!(*embeddings.split(), AffectedTexts::default());

    let asked = server.requests();
    assert_eq!(
        (asked[0].call.as_str(), asked[0].header("accept")),
        ("POST /v1/embeddings", "application/octet-stream")
    );
    assert_eq!(asked[0].header("authorization"), "Bearer sk-1");
    assert_eq!(asked[0].json(), serde_json::json!({"model": "m", "input": ["4", "-2.5"]}));
}

#[tokio::test]
async fn a_body_in_many_frames_of_odd_lengths_is_put_together() {
    let server = Server::start(|asked| embedded(asked).in_frames_of(5));
    let client = Client::new(server.url.clone(), RetryPolicy::NONE);
    let texts: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let mut embeddings = client.embed(&texts, &options()).await.unwrap();
    let check = |embeddings: &Embeddings, texts: &[String]| {
        assert_eq!(embeddings.len(), texts.len());
        texts.iter().zip(embeddings.rows()).for_each(|(text, seen)| assert_eq!(seen, row(text)));
    };
    check(&embeddings, &texts);
    // the memory of more floats, and of fewer
    for count in [40, 70] {
        client.embed_into(&texts[..count], &options(), &mut embeddings).await.unwrap();
        check(&embeddings, &texts[..count]);
    }
}

#[tokio::test]
async fn options_are_sent_and_the_default_model_is_asked_for_once() {
    let server = Server::start(|asked| match asked.call.as_str() {
        "GET /v1/models" => Reply::json(
            200,
            r#"{"object":"list","data":[
                {"id":"ce","object":"model","created":1,"owned_by":"weir","alias":[],"capabilities":["rerank"],"dimensions":null,"max_input_tokens":null,"fingerprint":""},
                {"id":"first","object":"model","created":1,"owned_by":"weir","alias":[],"capabilities":["embeddings"],"dimensions":3,"max_input_tokens":null,"fingerprint":""}]}"#,
        ),
        _ => embedded(asked),
    });
    let client = Client::new(server.url.clone(), RetryPolicy::NONE);
    let options = EmbeddingOptions {
        model: None,
        dimensions: Some(3),
        truncate: Some(weir_api::Truncate::Split),
        input_type: Some(weir_api::TextRole::Query),
        is_cache_bypassed: true,
    };
    for _ in 0..2 {
        client.embed(&["1"], &options).await.unwrap();
    }
    let calls: Vec<String> = server.requests().iter().map(|asked| asked.call.clone()).collect();
    assert_eq!(calls, ["GET /v1/models", "POST /v1/embeddings", "POST /v1/embeddings"]);
    let last = &server.requests()[2];
    let expected = serde_json::json!({"model": "first", "input": ["1"], "dimensions": 3, "truncate": "split", "input_type": "query"});
    assert_eq!((last.json(), last.header("cache-control")), (expected, "no-cache"));
}

/// What the client says of a reply that `change` made of a good one.
async fn refused(change: impl Fn(Reply) -> Reply + Send + Sync + 'static) -> String {
    let server = Server::start(move |asked| change(embedded(asked)));
    let error = embed(&Client::new(server.url.clone(), PATIENT), &["1", "2"]).await.unwrap_err();
    assert!(matches!(error, ClientError::Malformed { .. }), "{error}");
    assert!(error.hint().is_some());
    assert_eq!(server.requests().len(), 1, "a wrong reply is not asked for again");
    error.to_string().strip_prefix(&format!("the reply of {} ", server.url)).unwrap().to_owned()
}

#[tokio::test]
async fn a_reply_that_contradicts_its_headers_is_an_error_that_says_how() {
    let check = async |change: fn(Reply) -> Reply, expected: &str| {
        assert_eq!(refused(change).await, expected);
    };
    check(
        |reply| reply.header("x-embedding-dtype", "float16"),
        "has embeddings of the type `float16` instead of `float32`",
    )
    .await;
    check(
        |reply| reply.header("content-type", "application/json"),
        "has the media type `application/json` instead of `application/octet-stream`",
    )
    .await;
    check(|reply| reply.header("x-embedding-count", "3"), "has 3 embeddings for 2 texts").await;
    check(|reply| reply.without("x-embedding-dim"), "has no header x-embedding-dim").await;
    check(
        |reply| reply.header("x-embedding-dim", "many"),
        "has the header x-embedding-dim \"many\", which is no number",
    )
    .await;
    check(|reply| reply.header("x-embedding-dim", "0"), "has embeddings of dimension 0").await;
    check(
        |reply| reply.header("x-embedding-dim", "1000000000"),
        "has 2 embeddings of dimension 1000000000, which are more than 1073741824 bytes: embed fewer texts at once",
    )
    .await;
}

#[tokio::test]
async fn a_body_of_another_length_is_an_error_with_both_lengths() {
    let shorter = |reply: Reply| reply.with_body(|body| body.truncate(23));
    let longer = |reply: Reply| reply.with_body(|body| body.extend([0; 5]));
    assert_eq!(refused(shorter).await, "has 23 bytes of embeddings, and 24 by its headers");
    assert_eq!(refused(longer).await, "has 29 bytes of embeddings, and 24 by its headers");
    // without a content-length the body itself is counted
    assert_eq!(
        refused(move |reply| shorter(reply).in_frames_of(10)).await,
        "has 23 bytes of embeddings, and 24 by its headers"
    );
    assert_eq!(
        refused(move |reply| longer(reply).in_frames_of(10)).await,
        "has at least 29 bytes of embeddings, and 24 by its headers"
    );
}

#[tokio::test]
async fn a_refused_request_is_repeated_after_its_retry_after() {
    let calls = Arc::new(AtomicUsize::new(0));
    let server = Server::start(move |asked| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::json(429, "{}").header("retry-after", "1"),
        1 => Reply::json(503, "{}").header("retry-after-ms", "150").header("retry-after", "60"),
        _ => embedded(asked),
    });
    let begun = Instant::now();
    let embeddings = embed(&Client::new(server.url.clone(), PATIENT), &["1"]).await.unwrap();
    assert_eq!((embeddings.row(0), server.requests().len()), (&row("1")[..], 3));
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(1_150) && waited < Duration::from_secs(20), "{waited:?}");
}

#[tokio::test]
async fn errors_of_openais_route_have_their_code() {
    let server = Server::start(|_| {
        Reply::json(
            404,
            r#"{"error":{"message":"there is no model `m`. `GET /v1/models` lists the names. In the configuration, `[[models]]` adds models that embed and rerank, `[[upstreams]]` and `[[routes]]` those for chat; `UPSTREAM/NAME` is any model of an upstream.","type":"invalid_request_error","param":"model","code":"model_not_found"}}"#,
        )
    });
    let error = embed(&Client::new(server.url.clone(), PATIENT), &["1"]).await.unwrap_err();
    assert!(matches!(error, ClientError::Refused { code: ErrorCode::ModelNotFound, .. }), "{error}");
    assert_eq!(error.to_string(), "there is no model `m`");
}

fn many(batch_texts_max: usize, requests_max: usize) -> EmbedManyOptions {
    EmbedManyOptions { embedding: options(), batch_texts_max, requests_max }
}

#[tokio::test]
async fn many_texts_are_embedded_in_order_and_few_requests_at_a_time() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let server = Server::start_async(move |asked| {
        let (running, most) = (running.clone(), most.clone());
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let first: u64 = asked.json()["input"][0].as_str().unwrap().parse().unwrap();
            // the first request ends after those that were sent with it have begun, and later ones before those before them
            while first == 0 && most.load(Ordering::SeqCst) < 3 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_millis(30 - first.min(29))).await;
            running.fetch_sub(1, Ordering::SeqCst);
            embedded(&asked)
        }
    });
    let client = Client::new(server.url.clone(), RetryPolicy::NONE);
    let read = Arc::new(AtomicUsize::new(0));
    let texts = (0..31).map(|number| {
        read.fetch_add(1, Ordering::SeqCst);
        number.to_string()
    });
    let mut batches = client.embed_many(texts, many(4, 3));
    let (mut floats, mut lengths, mut taken) = (Vec::new(), Vec::new(), 0);
    while let Some(batch) = batches.next().await {
        let batch = batch.unwrap();
        taken += batch.len();
        let ahead = read.load(Ordering::SeqCst) - taken + batch.len();
        assert!(ahead <= 12, "{ahead} texts are read ahead");
        lengths.push(batch.len());
        floats.extend(batch.rows().map(|row| row[0]));
    }
    assert_eq!(floats, (0..31).map(|number| number as f32).collect::<Vec<_>>());
    assert_eq!(lengths, [4, 4, 4, 4, 4, 4, 4, 3]);
    assert_eq!(seen.load(Ordering::SeqCst), 3, "requests at a time");
    assert!(batches.next().await.is_none());
}

#[tokio::test]
async fn long_texts_make_small_batches() {
    let server = Server::start(|asked| {
        let count = asked.json()["input"].as_array().unwrap().len();
        let numbers = serde_json::json!({ "input": vec!["1"; count] }).to_string().into_bytes();
        embedded(&Asked { body: numbers, call: asked.call.clone(), headers: HeaderMap::new() })
    });
    let client = Client::new(server.url.clone(), RetryPolicy::NONE);
    let long = "a".repeat(3 << 20);
    let mut batches = client.embed_many(vec![long.as_str(); 5], many(64, 1));
    let mut lengths = Vec::new();
    while let Some(batch) = batches.next().await {
        lengths.push(batch.unwrap().len());
    }
    assert_eq!(lengths, [2, 2, 1]);
}

#[tokio::test]
async fn an_error_ends_the_stream() {
    let server = Server::start(|asked| match asked.json()["input"][0].as_str().unwrap() {
        "2" => Reply::json(400, r#"{"error":{"message":"no","type":"t","param":null,"code":"empty_input"}}"#),
        _ => embedded(asked),
    });
    let client = Client::new(server.url.clone(), RetryPolicy::NONE);
    let mut batches = client.embed_many((0..1_000).map(|number| number.to_string()), many(1, 2));
    for expected in [0.0, 1.0] {
        assert_eq!(batches.next().await.unwrap().unwrap().row(0)[0], expected);
    }
    let error = batches.next().await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Refused { code: ErrorCode::EmptyInput, .. }), "{error}");
    assert!(batches.next().await.is_none());
    assert!(server.requests().len() <= 4, "{}", server.requests().len());
}

#[tokio::test]
async fn a_stream_can_be_read_by_a_task() {
    let server = Server::start(embedded);
    let client = Arc::new(Client::new(server.url.clone(), RetryPolicy::NONE));
    let task = tokio::spawn(async move {
        let mut batches = client.embed_many(["1", "2"], many(1, 2));
        let mut count = 0;
        while let Some(batch) = batches.next().await {
            count += batch.unwrap().len();
        }
        count
    });
    assert_eq!(task.await.unwrap(), 2);
}
