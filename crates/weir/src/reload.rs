//! The tables of the LLM gateway, read again when the configuration file changes and at SIGHUP.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::signal::unix::{SignalKind, signal};
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

/// Keeps `llm` up to date until the process ends. A configuration with an error is refused as a whole, and the gateway goes on with what it has.
pub async fn watch(source: ConfigSource, mut current: Config, llm: Llm) {
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
            Ok(loaded) => apply(&mut current, loaded.config, &llm),
            Err(problems) => {
                tracing::error!(%problems, "the configuration was not changed: the file has errors")
            }
        }
    }
}

fn apply(current: &mut Config, read: Config, llm: &Llm) {
    if let Err(error) = llm.reload(&read.llm) {
        return tracing::error!(%error, "the configuration was not changed: it can't be used");
    }
    let tables = (read.llm.upstreams.len(), read.llm.routes.len(), read.llm.prices.len());
    tracing::info!(
        upstreams = tables.0,
        routes = tables.1,
        prices = tables.2,
        "upstreams, routes and prices were read again"
    );
    current.llm = read.llm.clone();
    if *current != read {
        tracing::warn!("other settings have changed too; they are in force after the next start");
    }
}

/// What changes when the file is written or replaced.
fn version(file: &Path) -> Option<(SystemTime, u64)> {
    let metadata = std::fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
