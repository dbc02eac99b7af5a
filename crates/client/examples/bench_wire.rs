//! The Rust client of `bench/wire.sh`: embeddings as raw bytes over pooled connections, to `f32`s in one of two ways.
//!
//! `cargo run --release -p weir-client --example bench_wire -- URL MODEL MODE BATCH REQUESTS RUNS`
//!
//! URL is that of the route, `http://127.0.0.1:8000/v1/embeddings`. `copy` collects the reply's body and then decodes each float; `view` is
//! [`Client::embed_into`], which writes the body's frames straight into the memory of the floats.
//! Prints a line of JSON: the seconds of each run, and the vectors and bytes of one.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use weir_client::{Client, EmbeddingOptions, Embeddings, RetryPolicy, Transport};

/// That of the published experiment.
const CONCURRENCY: usize = 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const RAW: &str = "application/octet-stream";
/// The route, which the library knows.
const ROUTE: &str = "/v1/embeddings";

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How a reply becomes floats.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Copy,
    View,
}

/// What is sent, by what, and how often.
struct Plan {
    url: String,
    mode: Mode,
    client: Client,
    transport: Transport,
    options: EmbeddingOptions,
    batch: usize,
    requests: usize,
}

/// What one task received.
#[derive(Default, Clone, Copy)]
struct Received {
    floats: usize,
    bytes: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, model, mode, batch, requests, runs] = arguments.as_slice() else {
        return Err("usage: bench_wire URL MODEL copy|view BATCH REQUESTS RUNS".into());
    };
    let mode = match mode.as_str() {
        "copy" => Mode::Copy,
        "view" => Mode::View,
        other => return Err(format!("the mode `{other}` is neither `copy` nor `view`").into()),
    };
    let gateway = url.strip_suffix(ROUTE).ok_or(format!("the URL must end in {ROUTE}"))?;
    let plan = Plan {
        url: url.clone(),
        mode,
        client: Client::new(gateway.to_owned(), RetryPolicy::NONE),
        transport: Transport::new(CONNECT_TIMEOUT),
        options: EmbeddingOptions {
            model: Some(model.clone()),
            // every text is new, and the cache would only cost time
            is_cache_bypassed: true,
            ..EmbeddingOptions::default()
        },
        batch: batch.parse()?,
        requests: requests.parse()?,
    };
    if plan.batch == 0 || plan.requests == 0 {
        return Err("BATCH and REQUESTS must be at least 1".into());
    }
    let (plan, runs): (_, usize) = (Arc::new(plan), runs.parse()?);
    let (mut seconds, mut received) = (Vec::new(), Received::default());
    for run in 0..runs {
        // opens the connections, which is not measured
        send_all(&plan, usize::MAX / 2, CONCURRENCY).await?;
        let started = Instant::now();
        received = send_all(&plan, run * plan.requests, plan.requests).await?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    let dimension = received.floats / (plan.batch * plan.requests);
    let report = serde_json::json!({
        "seconds": seconds,
        "vectors": plan.batch * plan.requests,
        "dimension": dimension,
        "reply_bytes": received.bytes,
    });
    println!("{report}");
    Ok(())
}

/// Sends requests with the numbers from `first` on, `CONCURRENCY` at a time.
async fn send_all(plan: &Arc<Plan>, first: usize, count: usize) -> Result<Received> {
    let next = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..CONCURRENCY)
        .map(|_| {
            let (plan, next) = (plan.clone(), next.clone());
            tokio::spawn(async move {
                let mut received = Received::default();
                let mut embeddings = Embeddings::default();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Ok::<_, Box<dyn Error + Send + Sync>>(received);
                    }
                    // different in every request, so that no cache can help
                    let text = |at| format!("text {at} of request {}", first + number);
                    let texts: Vec<String> = (0..plan.batch).map(text).collect();
                    let floats = match plan.mode {
                        Mode::Copy => black_box(copy(&plan, &texts).await?).len(),
                        Mode::View => {
                            plan.client.embed_into(&texts, &plan.options, &mut embeddings).await?;
                            black_box(embeddings.as_slice()).len()
                        }
                    };
                    received.floats += floats;
                    received.bytes += floats * size_of::<f32>();
                }
            })
        })
        .collect();
    let mut all = Received::default();
    for task in tasks {
        let received = task.await??;
        all.floats += received.floats;
        all.bytes += received.bytes;
    }
    Ok(all)
}

/// One request, of which the body is collected and then decoded float by float.
async fn copy(plan: &Plan, texts: &[String]) -> Result<Vec<f32>> {
    let body = serde_json::to_vec(&serde_json::json!({ "model": plan.options.model, "input": texts }))?;
    let request = Request::post(&plan.url)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, RAW)
        .header(CACHE_CONTROL, "no-cache")
        .body(Full::new(Bytes::from(body)))?;
    let response = plan.transport.send(request).await?;
    check(&response)?;
    let body = response.into_body().collect().await?.to_bytes();
    let (values, rest) = body.as_chunks::<4>();
    let floats: Vec<f32> = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
    if floats.is_empty() || !floats.len().is_multiple_of(plan.batch) || !rest.is_empty() {
        return Err(format!("{} bytes for {} texts", body.len(), plan.batch).into());
    }
    Ok(floats)
}

fn check(response: &Response<Incoming>) -> Result<()> {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if response.status() != StatusCode::OK || kind != RAW {
        return Err(
            format!("the server answered {} with `{kind}` instead of `{RAW}`", response.status()).into()
        );
    }
    Ok(())
}
