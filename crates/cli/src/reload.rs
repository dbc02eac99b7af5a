//! Settings that a running gateway reads again when its files change and at SIGHUP: the tables of the LLM gateway, the default limits of keys,
//! and the certificate of TLS.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::signal::unix::Signal;
use weir_access::{Keys, unix_now};
use weir_api::KeyLimitsRequest;
use weir_config::{
    Config, Environment, Flags, Loaded, ModelConfig, Problem, Problems, SETTINGS, load_for_serving,
};
use weir_llm::Llm;
use weir_server::Tls;
use weir_telemetry::Metrics;

/// How often the files are looked at.
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

/// The settings that a gateway reads again. Files with an error are refused as a whole, and the gateway keeps its settings.
pub struct Reload {
    /// Where the configuration comes from.
    pub source: ConfigSource,
    /// The configuration in force.
    pub current: Config,
    /// The tables of the LLM gateway.
    pub llm: Llm,
    /// The keys, for their default limits.
    pub keys: Keys,
    /// The certificate.
    pub tls: Option<Tls>,
    /// Counts reloads.
    pub metrics: Metrics,
}

impl Reload {
    /// Keeps everything up to date until the process ends. `hangups`: by which everything is read again.
    pub async fn watch(mut self, mut hangups: Signal) {
        let mut config_file = Watched::new(self.source.file());
        let tls_files = self.tls.iter().flat_map(Tls::files).map(Path::to_owned);
        let mut certificate = Watched::new(tls_files);
        // files may have changed between the start and now
        self.reload_certificate(true);
        if !config_file.files.is_empty() {
            self.reload_config(true).await;
        }
        loop {
            let is_asked = tokio::select! {
                _ = hangups.recv() => true,
                () = tokio::time::sleep(INTERVAL) => false,
            };
            if config_file.has_changed() || is_asked && !config_file.files.is_empty() {
                self.reload_config(false).await;
            }
            if certificate.has_changed() || is_asked {
                self.reload_certificate(false);
            }
        }
    }

    /// `only_changes`: nothing is done if the configuration is the one in force.
    async fn reload_config(&mut self, only_changes: bool) {
        let read = self.source.clone();
        let loaded = tokio::task::spawn_blocking(move || {
            load_for_serving(&read.flags, &read.environment, &weir_inference::reranks)
        });
        let Ok(loaded) = loaded.await else { return };
        match loaded.and_then(|loaded| check_models(loaded, &self.current.models)) {
            Ok(loaded) if only_changes && loaded.config == self.current => {}
            Ok(loaded) => {
                let is_applied = self.apply(loaded.config).await;
                self.metrics.reload(is_applied);
            }
            Err(Problems(problems)) => {
                for problem in problems {
                    let hint = problem.hint.as_deref();
                    tracing::error!(%problem, hint, "the configuration was not changed: the file has an error");
                }
                self.metrics.reload(false);
            }
        }
    }

    async fn apply(&mut self, read: Config) -> bool {
        if let Err(error) = self.llm.reload(&read.llm) {
            tracing::error!(%error, "the configuration was not changed: it can't be used");
            return false;
        }
        let limits = self.keys.set_default_limits(default_limits(&read), unix_now()).await;
        if let Err(error) = &limits {
            tracing::error!(%error, "the limits of keys were not changed: the store can't be read");
        }
        tracing::info!(
            upstreams = read.llm.upstreams.len(),
            routes = read.llm.routes.len(),
            prices = read.llm.prices.len(),
            guardrails = read.llm.guardrails.len(),
            "upstreams, routes, prices, guardrails and the default limits of keys were read again"
        );
        self.current.llm = read.llm.clone();
        self.current.keys = read.keys.clone();
        let changed = SETTINGS.iter().filter(|setting| setting.value(&self.current) != setting.value(&read));
        let mut changed: Vec<&str> = changed.map(|setting| setting.name).collect();
        if self.current.models != read.models {
            changed.push("[[models]]");
        }
        if !changed.is_empty() {
            let settings = changed.join(", ");
            tracing::warn!(
                settings,
                "other settings have changed too; they are in force after the next start"
            );
        }
        limits.is_ok()
    }

    /// `only_changes`: files that are in service are not reported.
    fn reload_certificate(&self, only_changes: bool) {
        let Some(tls) = &self.tls else { return };
        let reloaded = tls.reload();
        if only_changes && matches!(reloaded, Ok(false)) {
            return;
        }
        self.metrics.reload(reloaded.is_ok());
        match reloaded {
            Ok(_) => tracing::info!("certificate and key were read again"),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(%error, cause, "certificate and key were not changed")
            }
        }
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

/// Files that are looked at from time to time.
struct Watched {
    files: Vec<PathBuf>,
    /// At the last look.
    seen: Vec<Version>,
    /// When they were last read.
    read: Vec<Version>,
}

/// Refuses what needs an embedding model where none was `running` at the start: models are not loaded again.
fn check_models(loaded: Loaded, running: &[ModelConfig]) -> Result<Loaded, Problems> {
    let problems: Vec<Problem> = match running {
        [] => loaded.config.llm.check_without_model().collect(),
        _ => Vec::new(),
    };
    if problems.is_empty() { Ok(loaded) } else { Err(Problems(problems)) }
}

/// A value that changes when a file is written or replaced.
type Version = Option<(SystemTime, u64)>;

impl Watched {
    fn new(files: impl IntoIterator<Item = PathBuf>) -> Watched {
        let files: Vec<PathBuf> = files.into_iter().collect();
        let seen = versions(&files);
        Watched { files, read: seen.clone(), seen }
    }

    /// Whether they have changed since they were read, and not since the last look: several files are often replaced one after the other.
    fn has_changed(&mut self) -> bool {
        let now = versions(&self.files);
        let is_settled = now == self.seen;
        self.seen = now;
        let has_changed = is_settled && self.seen != self.read;
        if has_changed {
            self.read = self.seen.clone();
        }
        has_changed
    }
}

fn versions(files: &[PathBuf]) -> Vec<Version> {
    let version = |file: &PathBuf| {
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_a_model_waits_for_the_start_that_loads_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weir.toml");
        let check = |tables: &str, running: &[ModelConfig]| {
            std::fs::write(&file, format!("[[models]]\nid = \"m\"\nkind = \"pseudo\"\n{tables}")).unwrap();
            let flags = Flags { config: Some(file.clone()), ..Flags::default() };
            let loaded = load_for_serving(&flags, &Environment::default(), &weir_inference::reranks);
            check_models(loaded.unwrap(), running).map(|loaded| loaded.config.models)
        };
        let running = check("", &[]).unwrap();
        assert_eq!(running.len(), 1);
        let topics = "[[guardrails]]\nid = \"t\"\ntopics = [\"football\"]\naction = \"block\"\n";
        let refused = check(topics, &[]).unwrap_err().to_string();
        assert!(refused.contains("`t` has `topics`, which needs an embedding model"), "{refused}");
        assert_eq!(check(topics, &running).unwrap(), running);
    }
}
