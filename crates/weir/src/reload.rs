//! The tables of the LLM gateway and the default limits of keys, read again when the configuration file changes and at SIGHUP.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{SignalKind, signal};
use weir_access::Keys;
use weir_api::KeyLimitsRequest;
use weir_config::{Config, Environment, Flags, load_for_serving};
use weir_llm::Llm;

/// How often the file is looked at.
const INTERVAL: Duration = Duration::from_millis(500);

/// Where the configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct ConfigSource {
    /// The flags of the command line.
    pub flags: Flags,
    /// The environment of the process.
    pub environment: Environment,
}

impl ConfigSource {
    fn file(&self) -> Option<PathBuf> {
        let named = self.environment.get("WEIR_CONFIG").map(PathBuf::from);
        self.flags.config.clone().or(named)
    }
}

/// Keeps `llm` and the default limits of `keys` up to date until the process ends. A configuration with an error is refused as a whole, and the gateway goes on with what it has.
pub async fn watch(source: ConfigSource, mut current: Config, llm: Llm, keys: Keys) {
    let Some(file) = source.file() else { return };
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => return tracing::warn!(%error, "the configuration is not read again: no signals"),
    };
    let mut seen = version(&file);
    loop {
        tokio::select! {
            _ = hangups.recv() => {}
            () = tokio::time::sleep(INTERVAL) => {
                if version(&file) == seen {
                    continue;
                }
            }
        }
        seen = version(&file);
        let read = source.clone();
        let loaded = tokio::task::spawn_blocking(move || {
            load_for_serving(&read.flags, &read.environment, &weir_inference::reranks)
        });
        let Ok(loaded) = loaded.await else { continue };
        match loaded.map_err(|problems| problems.to_string()) {
            Ok(loaded) => apply(&mut current, loaded.config, &llm, &keys).await,
            Err(problems) => {
                tracing::error!(%problems, "the configuration was not changed: the file has errors")
            }
        }
    }
}

async fn apply(current: &mut Config, read: Config, llm: &Llm, keys: &Keys) {
    if let Err(error) = llm.reload(&read.llm) {
        return tracing::error!(%error, "the configuration was not changed: it can't be used");
    }
    if let Err(error) = keys.set_default_limits(default_limits(&read)).await {
        tracing::error!(%error, "the limits of keys were not changed: the store can't be read");
    }
    let tables = (read.llm.upstreams.len(), read.llm.routes.len(), read.llm.prices.len());
    tracing::info!(
        upstreams = tables.0,
        routes = tables.1,
        prices = tables.2,
        "upstreams, routes, prices and the default limits of keys were read again"
    );
    current.llm = read.llm.clone();
    current.keys = read.keys.clone();
    if *current != read {
        tracing::warn!("other settings have changed too; they are in force after the next start");
    }
}

/// The limits of keys that have none of their own.
pub fn default_limits(config: &Config) -> KeyLimitsRequest {
    let limit = |limit: u64| (limit > 0).then_some(limit);
    // by way of the decimal digits: 0.1 stays 0.1
    let budget = |amount: f32| (amount > 0.0).then(|| amount.to_string().parse().unwrap_or_default());
    let keys = &config.keys;
    KeyLimitsRequest {
        requests_per_minute: limit(keys.requests_per_minute),
        tokens_per_minute: limit(keys.tokens_per_minute),
        concurrent_requests: limit(keys.concurrent_requests),
        budget_per_day: budget(keys.budget_per_day),
        budget_per_month: budget(keys.budget_per_month),
    }
}

/// What changes when the file is written or replaced.
fn version(file: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
