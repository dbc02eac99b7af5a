//! The Rust client of `bench/wire.sh`: embeddings as raw bytes over pooled connections, to `f32`s in one of two ways.
//!
//! `cargo run --release -p weir-client --example bench_wire -- URL MODEL MODE BATCH REQUESTS RUNS`
//!
//! `copy` collects the reply's body and then decodes each float; `view` writes the body's frames straight into the memory of the floats.
//! Prints a line of JSON: the seconds of each run, and the vectors and bytes of one.

#![allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use weir_client::Transport;
use zerocopy::IntoBytes;

/// That of the published experiment.
const CONCURRENCY: usize = 10;
/// Longest reply that memory is reserved for.
const REPLY_BYTES_MAX: usize = 64 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const RAW: &str = "application/octet-stream";

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How a reply becomes floats.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Copy,
    View,
}

/// What is sent, and how often.
struct Plan {
    url: String,
    model: String,
    mode: Mode,
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
    let plan = Plan {
        url: url.clone(),
        model: model.clone(),
        mode,
        batch: batch.parse()?,
        requests: requests.parse()?,
    };
    if plan.batch == 0 || plan.requests == 0 {
        return Err("BATCH and REQUESTS must be at least 1".into());
    }
    let (plan, runs): (_, usize) = (Arc::new(plan), runs.parse()?);
    let transport = Arc::new(Transport::new(CONNECT_TIMEOUT));
    let (mut seconds, mut received) = (Vec::new(), Received::default());
    for run in 0..runs {
        // opens the connections, which is not measured
        send_all(&transport, &plan, usize::MAX / 2, CONCURRENCY).await?;
        let started = Instant::now();
        received = send_all(&transport, &plan, run * plan.requests, plan.requests).await?;
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
async fn send_all(
    transport: &Arc<Transport>,
    plan: &Arc<Plan>,
    first: usize,
    count: usize,
) -> Result<Received> {
    let next = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..CONCURRENCY)
        .map(|_| {
            let (transport, plan, next) = (transport.clone(), plan.clone(), next.clone());
            tokio::spawn(async move {
                let mut received = Received::default();
                let mut floats = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Ok::<_, Box<dyn Error + Send + Sync>>(received);
                    }
                    received.bytes += fetch(&transport, &plan, first + number, &mut floats).await?;
                    received.floats += black_box(&floats).len();
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

/// One request. `floats` holds the embeddings after it; returns the bytes of the reply.
async fn fetch(transport: &Transport, plan: &Plan, number: usize, floats: &mut Vec<f32>) -> Result<usize> {
    // different in every request, so that no cache can help
    let texts: Vec<String> = (0..plan.batch).map(|at| format!("text {at} of request {number}")).collect();
    let body = serde_json::to_vec(&serde_json::json!({ "model": plan.model, "input": texts }))?;
    let request = Request::post(&plan.url)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, RAW)
        .header(CACHE_CONTROL, "no-cache")
        .body(Full::new(Bytes::from(body)))?;
    let response = transport.send(request).await?;
    check(&response)?;
    let bytes = match plan.mode {
        Mode::Copy => decode(response, floats).await?,
        Mode::View => read_into(response, floats).await?,
    };
    if floats.is_empty() || !floats.len().is_multiple_of(plan.batch) {
        return Err(format!("{} floats for {} texts", floats.len(), plan.batch).into());
    }
    Ok(bytes)
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

/// Collects the body, then decodes it float by float.
async fn decode(response: Response<Incoming>, floats: &mut Vec<f32>) -> Result<usize> {
    let body = response.into_body().collect().await?.to_bytes();
    let (values, _) = body.as_chunks::<4>();
    *floats = values.iter().map(|value| f32::from_le_bytes(*value)).collect();
    Ok(body.len())
}

/// Reads the body into the memory of the floats, which is used again for the next reply.
async fn read_into(response: Response<Incoming>, floats: &mut Vec<f32>) -> Result<usize> {
    let length = response.headers().get(CONTENT_LENGTH).ok_or("the reply has no content-length")?;
    let length: usize = length.to_str()?.parse()?;
    if length > REPLY_BYTES_MAX || !length.is_multiple_of(size_of::<f32>()) {
        return Err(format!("a reply of {length} bytes is too long or not of whole floats").into());
    }
    floats.resize(length / size_of::<f32>(), 0.0);
    let memory = floats.as_mut_bytes();
    let mut body = response.into_body();
    let mut filled = 0;
    while let Some(frame) = body.frame().await {
        let Ok(mut data) = frame?.into_data() else { continue };
        let count = data.remaining();
        let Some(target) = memory.get_mut(filled..filled + count) else {
            return Err("the reply is longer than its content-length".into());
        };
        data.copy_to_slice(target);
        filled += count;
    }
    if filled != length {
        return Err(format!("{filled} of {length} bytes arrived").into());
    }
    Ok(length)
}
