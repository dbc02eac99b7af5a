//! The command line, and its conversion to a plan.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, Parser, Subcommand};
use weir_loadgen::{
    Expect, ExpectedStatus, Limit, Load, LoadTarget, NullConfig, Plan, RequestTemplate, StreamExpect,
};

use crate::chat;

/// Largest --body-file and --reference.
const BODY_FILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Load generator for HTTP/1.1 servers on this machine, with percentiles free of coordinated omission.
#[derive(Debug, Parser)]
#[command(name = "weir-bench", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send requests in a closed loop, or at a constant rate with --rate, and print a report
    Load(Box<LoadArgs>),
    /// Serve a constant response
    Null(NullArgs),
    /// Measure the generator itself against a null server in the same process
    Ceiling(CeilingArgs),
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Target, http only; a loopback address unless --allow-remote
    #[arg(long)]
    url: String,
    /// Connections, each with at most one outstanding request
    #[arg(long, default_value_t = 16)]
    concurrency: usize,
    /// Generator threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Number of requests after which the run ends
    #[arg(long)]
    requests: Option<u64>,
    /// Time after which the run ends [default: 10s unless --requests is given]
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Send at this constant rate instead of in a closed loop: requests per second over all connections
    #[arg(long)]
    rate: Option<f64>,
    /// Requests before the measurement
    #[arg(long, default_value_t = 0)]
    warmup: u64,
    /// Timeout of one request
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    timeout: Duration,
    /// HTTP method [default: POST with a body, GET without]
    #[arg(long)]
    method: Option<String>,
    /// Header, as 'name: value'; repeatable
    #[arg(long = "header")]
    headers: Vec<String>,
    /// Body of every request
    #[arg(long, conflicts_with_all = ["body_file", "chat_bytes"])]
    body: Option<String>,
    /// Send a generated chat request of this size as the body, with `stream` set by --stream
    #[arg(long, conflicts_with = "body_file")]
    chat_bytes: Option<usize>,
    /// Model of --chat-bytes
    #[arg(long, default_value = "gpt-mock")]
    chat_model: String,
    /// File with one body per line, sent in order and repeated from the first; empty lines are skipped
    #[arg(long)]
    body_file: Option<PathBuf>,
    /// Shuffle the bodies before the run
    #[arg(long, requires = "body_file")]
    shuffle: bool,
    /// Random seed of --shuffle
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Statuses that count as success: 2xx, 404, 200-299, or several separated by commas
    #[arg(long, default_value = "2xx")]
    expect_status: ExpectedStatus,
    /// Text that every successful response must contain
    #[arg(long)]
    expect_body: Option<String>,
    /// Replies are server-sent events that must end by `data: [DONE]`; their times are reported
    #[arg(long)]
    stream: bool,
    /// Fewest events of a stream, `[DONE]` included
    #[arg(long, default_value_t = 1, requires = "stream")]
    expect_events: u64,
    /// File with the body that every stream must equal, except for the values of "id"
    #[arg(long, requires = "stream")]
    reference: Option<PathBuf>,
    /// Open one stream on each connection and keep all of them open for --duration
    #[arg(long, requires = "stream", conflicts_with_all = ["rate", "requests", "warmup"])]
    hold: bool,
    /// Server process whose memory and CPU time are reported; repeatable
    #[arg(long = "pid")]
    pids: Vec<u32>,
    /// Include the descendants of every --pid
    #[arg(long, requires = "pids")]
    pid_tree: bool,
    /// Allow a target on another machine
    #[arg(long)]
    allow_remote: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Write the report as JSON to this file; `-` prints it instead of the table
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Exit with code 0 even if requests failed
    #[arg(long)]
    pub(crate) allow_errors: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NullArgs {
    /// Address to listen on; port 0 chooses a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// Body of every response
    #[arg(long, default_value = r#"{"hits":[]}"#)]
    body: String,
    /// Delay before each response
    #[arg(long, default_value = "0ms", value_parser = parse_duration)]
    latency: Duration,
    /// Server threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Allow an address that other machines can reach
    #[arg(long)]
    pub(crate) allow_remote: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CeilingArgs {
    /// Connections
    #[arg(long, default_value_t = 16)]
    concurrency: usize,
    /// Generator threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Threads of the null server
    #[arg(long, default_value_t = 2)]
    server_threads: usize,
    /// Length of the measurement
    #[arg(long, default_value = "3s", value_parser = parse_duration)]
    duration: Duration,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl LoadArgs {
    /// Resolves the target, reads the bodies and renders the requests.
    pub(crate) fn plan(&self) -> anyhow::Result<Plan> {
        let target = LoadTarget::parse(&self.url, self.allow_remote)?;
        let bodies = self.bodies()?;
        let has_body = bodies.iter().any(|body| !body.is_empty());
        let method = self.method.as_deref().unwrap_or(if has_body { "POST" } else { "GET" });
        let template = RequestTemplate::new(method, &self.headers)?;
        let plan = Plan {
            url: self.url.clone(),
            requests: bodies.iter().map(|body| template.render(&target, body)).collect(),
            target,
            is_head: template.method() == "HEAD",
            load: self.load(),
            concurrency: self.concurrency,
            threads: self.threads,
            limit: Limit { requests: self.requests, duration: self.duration },
            warmup: self.warmup,
            timeout: self.timeout,
            expect: Expect { status: self.expect_status.clone(), body: self.expect_body.clone() },
            stream: self.stream_expect()?,
            pids: self.pids.clone(),
            pid_tree: self.pid_tree,
        };
        plan.check()?;
        Ok(plan)
    }

    fn load(&self) -> Load {
        match self.rate {
            Some(per_second) => Load::ConstantRate { per_second },
            None if self.hold => Load::Hold,
            None => Load::ClosedLoop,
        }
    }

    fn stream_expect(&self) -> anyhow::Result<Option<StreamExpect>> {
        if !self.stream {
            return Ok(None);
        }
        let reference = self.reference.as_deref().map(read_reference).transpose()?;
        Ok(Some(StreamExpect::new(self.expect_events, reference.as_deref())))
    }

    fn bodies(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        if let Some(bytes) = self.chat_bytes {
            return Ok(vec![chat::request(&self.chat_model, bytes, self.stream)?]);
        }
        let Some(path) = &self.body_file else {
            return Ok(vec![self.body.clone().unwrap_or_default().into_bytes()]);
        };
        let mut bodies = read_bodies(path)?;
        if self.shuffle {
            shuffle(&mut bodies, self.seed);
        }
        Ok(bodies)
    }
}

impl NullArgs {
    pub(crate) fn config(&self) -> NullConfig {
        NullConfig {
            listen: self.listen,
            threads: self.threads,
            body: self.body.clone().into_bytes(),
            latency: self.latency,
        }
    }
}

impl CeilingArgs {
    pub(crate) fn null_config(&self) -> NullConfig {
        NullConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            threads: self.server_threads,
            body: br#"{"hits":[]}"#.to_vec(),
            latency: Duration::ZERO,
        }
    }

    /// A closed loop of small search requests to `addr`.
    pub(crate) fn plan(&self, addr: SocketAddr) -> anyhow::Result<Plan> {
        let url = format!("http://{addr}/v1/search");
        let target = LoadTarget::parse(&url, false)?;
        let template = RequestTemplate::new("POST", &[])?;
        let plan = Plan {
            requests: vec![template.render(&target, br#"{"query":"how high is the ceiling","top_k":5}"#)],
            url,
            target,
            is_head: false,
            load: Load::ClosedLoop,
            concurrency: self.concurrency,
            threads: self.threads,
            limit: Limit { requests: None, duration: Some(self.duration) },
            warmup: 1000,
            timeout: Duration::from_secs(10),
            expect: Expect::default(),
            stream: None,
            pids: Vec::new(),
            pid_tree: false,
        };
        plan.check()?;
        Ok(plan)
    }
}

fn read_file(flag: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let len = std::fs::metadata(path).with_context(|| format!("could not read {flag} {shown}"))?.len();
    ensure!(len <= BODY_FILE_BYTES_MAX, "{flag} {shown} is larger than 1 GiB; split it");
    std::fs::read(path).with_context(|| format!("could not read {flag} {shown}"))
}

fn read_reference(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_file("--reference", path)
}

fn read_bodies(path: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let shown = path.display();
    let bytes = read_file("--body-file", path)?;
    let bodies: Vec<Vec<u8>> = bytes
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec())
        .filter(|line| !line.is_empty())
        .collect();
    ensure!(!bodies.is_empty(), "--body-file {shown} has no body; write one per line");
    Ok(bodies)
}

/// Fisher-Yates shuffle with SplitMix64 (Steele, Lea, Flood 2014): a seed gives the same order on every machine.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    for last in (1..items.len()).rev() {
        items.swap(last, (next() % (last as u64 + 1)) as usize);
    }
}

/// Parses `250us`, `10ms`, `1.5s`, `2m` or `1h`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds_per_unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("write a number and a unit: us, ms, s, m or h".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| format!("`{number}` isn't a number"))?;
    Duration::try_from_secs_f64(number * seconds_per_unit)
        .map_err(|_| "the duration is out of range".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_command_line_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_are_parsed_with_their_unit() {
        for (text, micros) in
            [("250us", 250), ("10ms", 10_000), ("1.5s", 1_500_000), ("2m", 120_000_000), ("0ms", 0)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_micros(micros)), "{text}");
        }
        for text in ["10", "ms", "-1s", "1d", "1 s", "infs", "NaNs", "1e30s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_seed_determines_the_order_and_keeps_every_item() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..10).collect();
            shuffle(&mut items, seed);
            items
        };
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        let mut sorted = shuffled(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<u32>>());
    }
}
