//! Nodes of a cluster in a process of their own, and a bare client of one of them, for `bench/qdrant.py`.
//!
//! Reads commands as lines of JSON and answers each by a line: `nodes` starts the cluster, `record` forgets the calls that were received, and
//! `bare` makes the rankings among those that were received since then once more, one after the other, as a program does that calls the
//! official client and nothing else.
#![allow(clippy::print_stdout, reason = "a program whose purpose is to print")]

use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

use qdrant_client::Qdrant;
use qdrant_client::qdrant::QueryBatchPoints;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_qdrant_mock::{Cluster, Recorded};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Rankings of a hybrid search: by words and by embeddings.
const RANKINGS: usize = 2;

#[derive(Deserialize)]
#[serde(tag = "command", rename_all = "lowercase")]
enum Command {
    Nodes { count: usize },
    Record,
    Bare { seconds: f64 },
}

fn main() -> Outcome<()> {
    let mut cluster = None;
    for line in std::io::stdin().lock().lines() {
        let reply = match serde_json::from_str(&line?)? {
            Command::Nodes { count } => {
                let started = cluster.insert(Cluster::start(count, None)?);
                json!({ "urls": started.urls() })
            }
            Command::Record => {
                cluster.iter().for_each(|cluster| drop(cluster.take_recorded()));
                json!({})
            }
            Command::Bare { seconds } => {
                let cluster = cluster.as_ref().ok_or("`nodes` comes first")?;
                bare(cluster, Duration::from_secs_f64(seconds))?
            }
        };
        println!("{reply}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// The rankings of the searches that were received.
fn rankings(cluster: &Cluster) -> Vec<QueryBatchPoints> {
    let of_search = |recorded| {
        let Recorded::QueryBatch(mut batch) = recorded else { return None };
        let is_ranking =
            batch.query_points.get(1).is_some_and(|query| query.using.as_deref() == Some("dense"));
        batch.query_points.truncate(RANKINGS);
        is_ranking.then_some(batch)
    };
    cluster.take_recorded().into_iter().filter_map(of_search).collect()
}

/// Makes the calls on a thread of its own, whose CPU time is that of the client.
fn bare(cluster: &Cluster, time: Duration) -> Outcome<Value> {
    let calls = rankings(cluster);
    let url = cluster.urls().remove(0);
    let client = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let client = Qdrant::from_url(&url).skip_compatibility_check().build()?;
            let mut times = Vec::new();
            let (started, cpu) = (Instant::now(), cpu_time()?);
            for call in calls.iter().cycle().take_while(|_| started.elapsed() < time) {
                let sent = Instant::now();
                client.query_batch(call.clone()).await?;
                times.push(sent.elapsed());
            }
            let cpu = cpu_time()?.saturating_sub(cpu);
            times.sort();
            let p50 = times.get(times.len() / 2).ok_or("no rankings were received")?;
            Ok::<Value, Box<dyn Error + Send + Sync>>(json!({
                "searches": times.len(),
                "p50_ms": p50.as_secs_f64() * 1e3,
                "cpu_ms": cpu.as_secs_f64() * 1e3 / times.len() as f64,
            }))
        })
    });
    let measured = client.join().map_err(|_| "the client panicked")??;
    cluster.take_recorded();
    Ok(measured)
}

fn cpu_time() -> Outcome<Duration> {
    Ok(clock_gettime(ClockId::ThreadCPUTime).try_into()?)
}
