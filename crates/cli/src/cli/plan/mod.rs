//! `weir plan`: processes, memory, disk and cost for a number of documents and requests. It computes them and calls no server.

mod basis;
mod compute;
mod render;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::context::Context;
use super::failure::{Failure, Result};
use compute::{Demand, Prices, plan};

/// The arguments of `weir plan`.
#[derive(Debug, Args)]
pub struct PlanArguments {
    /// The number of documents.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub documents: u64,
    /// The number of chunks [default: one for each document].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000_000))]
    pub chunks: Option<u64>,
    /// The mean length of a chunk in characters.
    #[arg(long, value_name = "N", default_value_t = 380, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub characters: u64,
    /// The dimension of the embeddings.
    #[arg(long, value_name = "N", default_value_t = 384, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub dimension: u64,
    /// Searches a second, at the busiest time.
    #[arg(long, value_name = "RATE", default_value_t = 10.0, value_parser = rate)]
    pub searches: f64,
    /// Chat requests a second, at the busiest time.
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = rate)]
    pub chat: f64,
    /// Tokens of the streamed answer to a chat request.
    #[arg(long, value_name = "N", default_value_t = 100.0, value_parser = rate)]
    pub chat_tokens: f64,
    /// Seconds for which an answer is streamed.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = rate)]
    pub chat_seconds: f64,
    /// Copies of everything that must survive: with 2, one machine of each kind may be lost without loss of data or speed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    pub copies: u64,
    /// Cores of a machine.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    pub cores: u64,
    /// Memory of a machine, in GiB: a larger index is not proposed as embedded.
    #[arg(long, value_name = "GIB", default_value_t = 64.0, value_parser = positive)]
    pub memory: f64,
    /// The share of the cores' time that may be used at the busiest time.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = share)]
    pub busy: f64,
    /// Where collections are indexed.
    #[arg(long, value_enum, default_value_t = PlanEngine::Auto)]
    pub engine: PlanEngine,
    /// How Qdrant keeps vectors in memory.
    #[arg(long, value_enum, default_value_t = QdrantVectors::Int8)]
    pub qdrant_vectors: QdrantVectors,
    /// Cores of the database's machine; no figure of this project says how many are needed.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    pub database_cores: u64,
    /// Memory of the database's machine, in GiB; no figure of this project says how much is needed.
    #[arg(long, value_name = "GIB", default_value_t = 4.0, value_parser = positive)]
    pub database_memory: f64,
    /// Days for which a row for each request is kept, as telemetry.days_kept.
    #[arg(long, value_name = "DAYS", default_value_t = 30.0, value_parser = rate)]
    pub days_kept: f64,
    /// The price table, a JSON file: {"currency": "EUR", "source": "list price", "core": 20, "memory_gib": 3, "disk_gib": 0.1}, each a
    /// month [default: OpenCost's default prices, which follow Google Cloud in us-central1].
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The engines that a plan can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PlanEngine {
    /// Embedded while a search stays below 50 ms and the index fits a machine.
    Auto,
    /// An index in each gateway.
    Embedded,
    /// A Qdrant cluster; see the page Qdrant.
    Qdrant,
}

/// Qdrant's form of a vector in memory; the originals are on disk but for f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QdrantVectors {
    /// Four bytes for each value.
    F32,
    /// One byte.
    Int8,
    /// One bit.
    Binary,
}

/// Computes and prints a plan.
///
/// # Errors
/// When the price table can't be read.
pub fn run(arguments: &PlanArguments, context: Context<'_>) -> Result<()> {
    let prices = arguments.prices.as_ref().map_or_else(|| Ok(Prices::default()), read_prices)?;
    let plan = plan(&Demand::of(arguments), &prices);
    let text = if arguments.json { format!("{:#}\n", render::json(&plan)) } else { render::text(&plan) };
    context.out.write_all(text.as_bytes())?;
    Ok(())
}

fn read_prices(path: &PathBuf) -> Result<Prices> {
    let shown = || path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| Failure::File { path: shown(), source })?;
    let parsed: serde_json::Result<Prices> = serde_json::from_str(&text);
    let prices = parsed.map_err(|error| Failure::Prices { path: shown(), message: error.to_string() })?;
    match prices.negative() {
        Some(name) => Err(Failure::Prices { path: shown(), message: format!("`{name}` must be 0 or more") }),
        None => Ok(prices),
    }
}

/// A number of 0 or more.
fn rate(text: &str) -> Result<f64, String> {
    number(text, |value| (0.0..=1e9).contains(&value), "a number from 0 to 1,000,000,000")
}

/// A number above 0.
fn positive(text: &str) -> Result<f64, String> {
    number(text, |value| value > 0.0 && value <= 1e6, "a number above 0, at most 1,000,000")
}

/// A share of one.
fn share(text: &str) -> Result<f64, String> {
    number(text, |value| value > 0.0 && value <= 1.0, "a number above 0, at most 1")
}

fn number(text: &str, is_allowed: impl Fn(f64) -> bool, wanted: &str) -> Result<f64, String> {
    text.parse().ok().filter(|value| is_allowed(*value)).ok_or_else(|| format!("not {wanted}"))
}
