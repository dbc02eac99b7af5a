//! Merging of the layers: defaults, file, environment, flags.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use super::file;
use crate::check::{Unknowns, check_consistency, check_for_serving};
use crate::environment::Environment;
use crate::foreign_variables::{is_from_kubernetes, means_the_address};
use crate::llm::Places;
use crate::models::{DEFAULT_FOLDER, ModelConfig, Reranks};
use crate::problem::{Location, Problem, Problems};
use crate::table::{Config, SETTINGS, Setting};
use crate::upstream::Protocol;
use crate::value::{Role, Scalar};

/// The command-line flags; they override everything else.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--config`.
    pub config: Option<PathBuf>,
    /// `--listen`.
    pub listen: Option<String>,
    /// `--data-dir`.
    pub data_dir: Option<String>,
    /// `--model`.
    pub model: Option<String>,
    /// `--embedder-url`.
    pub embedder_url: Option<String>,
    /// `--role`.
    pub role: Option<String>,
    /// `--insecure-no-auth`.
    pub insecure_no_auth: bool,
    /// `--url`.
    pub url: Option<String>,
    /// `--hub`.
    pub hub: Option<String>,
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Not set.
    Default,
    /// Set at this location.
    Set(Location),
}

impl Source {
    /// `default`, `file`, `env` or `flag`.
    pub fn layer(&self) -> &'static str {
        match self {
            Source::Default | Source::Set(Location::General) => "default",
            Source::Set(Location::File { .. }) => "file",
            Source::Set(Location::Variable(_)) => "env",
            Source::Set(Location::Flag(_)) => "flag",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::Set(location) => f.write_str(location.to_string().trim_end_matches([':', ' '])),
        }
    }
}

/// A configuration with the sources of its values.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The values in force.
    pub config: Config,
    sources: BTreeMap<&'static str, Source>,
    model_sources: Vec<Source>,
}

impl Loaded {
    /// The source of a setting's value.
    pub fn source(&self, setting: &Setting) -> Source {
        self.sources.get(setting.name).cloned().unwrap_or(Source::Default)
    }

    /// Each model with its source.
    pub fn models(&self) -> impl Iterator<Item = (&ModelConfig, &Source)> {
        self.config.models.iter().zip(&self.model_sources)
    }
}

/// The variable with the API key of commands.
pub const API_KEY_VARIABLE: &str = "WEIR_API_KEY";

/// Variables that begin with `WEIR_` and are not settings: configuration file, default model, embedder, the key of commands, and instruction
/// set, which the kernels read.
const OTHER_VARIABLES: [&str; 5] =
    ["WEIR_CONFIG", "WEIR_MODEL", "WEIR_EMBEDDER_URL", API_KEY_VARIABLE, "WEIR_ISA"];

/// Variables of a published gateway with a folder, and with a server that answers `{"texts": […]}`. They count only where nothing else names a model.
const MODEL_DIR: &str = "MODEL_DIR";
const EMBEDDING_API_URL: &str = "EMBEDDING_API_URL";

/// Merges defaults, file, environment and flags.
///
/// # Errors
/// All problems of all layers.
pub fn load(flags: &Flags, environment: &Environment) -> Result<Loaded, Problems> {
    Layers::read(flags, environment).finish(|_, _| Vec::new())
}

/// [`load`] for `weir serve`, which also requires a model with its files.
///
/// # Errors
/// All problems, including those that keep the server from starting.
pub fn load_for_serving(
    flags: &Flags,
    environment: &Environment,
    reranks: Reranks<'_>,
) -> Result<Loaded, Problems> {
    Layers::read(flags, environment).finish(|config, unknowns| check_for_serving(config, unknowns, reranks))
}

/// Settings of a command that only calls a gateway: its address and trusted certificates. Problems of other settings are not reported.
///
/// # Errors
/// All problems of all layers, when the address is one of them or may be.
pub fn load_for_calling(flags: &Flags, environment: &Environment) -> Result<Config, Problems> {
    const NEEDED: [&str; 4] = ["client.url", "client.ca_file", "server.listen", "server.tls_certificate"];
    let layers = Layers::read(flags, environment);
    let is_known = !layers.rejected.iter().any(|name| NEEDED.contains(name))
        && (!layers.is_incomplete || layers.sources.contains_key("client.url"));
    if is_known { Ok(layers.config) } else { Ok(layers.finish(|_, _| Vec::new())?.config) }
}

#[derive(Default)]
struct Layers {
    config: Config,
    sources: BTreeMap<&'static str, Source>,
    model_sources: Vec<Source>,
    /// Settings with an invalid value.
    rejected: BTreeSet<&'static str>,
    /// Where the tables of the LLM gateway are.
    llm_places: Places,
    /// The names of invalid models.
    invalid_models: Vec<Vec<String>>,
    /// Whether an unreadable part may contain settings that are not set elsewhere.
    is_incomplete: bool,
    problems: Vec<Problem>,
}

impl Layers {
    fn read(flags: &Flags, environment: &Environment) -> Layers {
        let mut layers = Layers::default();
        let file = flags.config.clone().or_else(|| environment.get("WEIR_CONFIG").map(PathBuf::from));
        if let Some(path) = file {
            layers.add_file(&path);
        }
        layers.add_environment(environment);
        layers.add_flags(flags);
        layers.add_published_variables(environment);
        layers.config.models.iter_mut().for_each(|model| model.read_key(environment));
        layers.config.llm.read_keys(environment);
        let config = &mut layers.config;
        let keys = [&mut config.store.url, &mut config.telemetry.postgres_url, &mut config.extract.api_key];
        for key in keys.into_iter().flatten() {
            key.read(environment);
        }
        for secret in [&mut config.webhooks.secret, &mut config.redis.url, &mut config.qdrant.api_key]
            .into_iter()
            .flatten()
        {
            secret.read(environment);
        }
        layers
    }

    fn set(&mut self, setting: &'static Setting, scalar: &Scalar, location: Location) {
        match (setting.set)(&mut self.config, scalar, &setting.range) {
            Ok(()) => {
                self.rejected.remove(setting.name);
                self.sources.insert(setting.name, Source::Set(location));
            }
            Err(message) => {
                self.rejected.insert(setting.name);
                self.problems.push(Problem::new(location, format!("`{}` {message}", setting.name)));
            }
        }
    }

    fn add_file(&mut self, path: &Path) {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                let message = format!("the configuration file {} can't be read: {error}", path.display());
                self.is_incomplete = true;
                return self.problems.push(Problem::new(Location::General, message));
            }
        };
        let found = file::read(path, &text);
        self.problems.extend(found.problems);
        self.is_incomplete |= found.is_incomplete;
        self.invalid_models.extend(found.invalid_models);
        self.config.llm = found.llm;
        self.llm_places = found.llm_places;
        for (setting, scalar, line) in found.values {
            self.set(setting, &scalar, Location::File { path: path.to_owned(), line });
        }
        for (model, line) in found.models {
            self.config.models.push(model);
            self.model_sources.push(Source::Set(Location::File { path: path.to_owned(), line }));
        }
    }

    fn add_environment(&mut self, environment: &Environment) {
        for (name, value) in environment.weir_variables() {
            let location = Location::Variable(name.to_owned());
            match setting_of_variable(name) {
                Some(setting) => self.set_from_variable(setting, value, location),
                None if OTHER_VARIABLES.contains(&name)
                    || is_from_kubernetes(name, value)
                    || self.is_key(name) => {}
                None => {
                    self.is_incomplete = true;
                    self.problems.push(unknown_variable(location, name));
                }
            }
        }
        if let Some(model) = environment.get("WEIR_MODEL") {
            self.set_model(
                ModelConfig::from_argument(&model.to_string_lossy()),
                Location::Variable("WEIR_MODEL".to_owned()),
            );
        }
        if let Some(url) = environment.get("WEIR_EMBEDDER_URL") {
            let location = Location::Variable("WEIR_EMBEDDER_URL".to_owned());
            self.set_embedder(&url.to_string_lossy(), Protocol::Weir, location);
        }
    }

    /// Reads the variables of a published gateway, unless there is a model.
    fn add_published_variables(&mut self, environment: &Environment) {
        if !self.config.models.is_empty() || !self.invalid_models.is_empty() {
            return;
        }
        if let Some(url) = environment.get(EMBEDDING_API_URL) {
            let location = Location::Variable(EMBEDDING_API_URL.to_owned());
            self.set_embedder(&url.to_string_lossy(), Protocol::Texts, location);
        } else if let Some(folder) = environment.get(MODEL_DIR) {
            let location = Location::Variable(MODEL_DIR.to_owned());
            self.set_model(ModelConfig::from_argument(&folder.to_string_lossy()), location);
        }
    }

    fn set_embedder(&mut self, url: &str, protocol: Protocol, location: Location) {
        match ModelConfig::from_embedder_url(url, protocol) {
            Ok(model) => self.set_model(model, location),
            Err(message) => {
                self.is_incomplete = true;
                self.problems.push(Problem::new(location, format!("the URL of the embedder {message}")));
            }
        }
    }

    /// Whether `variable` holds the `api_key` of a server, the URL of the database or the secret of webhooks.
    fn is_key(&self, variable: &str) -> bool {
        let keys = self.config.models.iter().filter_map(ModelConfig::api_key);
        let keys = keys.chain(&self.config.telemetry.postgres_url).chain(&self.config.webhooks.secret);
        let keys = keys.chain(&self.config.extract.api_key).chain(&self.config.store.url);
        let keys = keys.chain(&self.config.redis.url).chain(&self.config.qdrant.api_key);
        let mut keys = keys.chain(self.config.llm.api_keys());
        keys.any(|key| key.variable() == Some(variable))
    }

    fn set_from_variable(&mut self, setting: &'static Setting, value: &OsString, location: Location) {
        match value.to_str() {
            Some(text) => self.set(setting, &Scalar::Untyped(text.to_owned()), location),
            None => {
                self.rejected.insert(setting.name);
                self.problems.push(Problem::new(location, "the value is not valid UTF-8"));
            }
        }
    }

    fn add_flags(&mut self, flags: &Flags) {
        let insecure = flags.insecure_no_auth.then(|| "true".to_owned());
        for (flag, name, value) in [
            ("--listen", "server.listen", &flags.listen),
            ("--data-dir", "server.data_dir", &flags.data_dir),
            ("--role", "server.role", &flags.role),
            ("--insecure-no-auth", "server.insecure_no_auth", &insecure),
            ("--url", "client.url", &flags.url),
            ("--hub", "hub.url", &flags.hub),
        ] {
            if let (Some(value), Some(setting)) = (value, Setting::named(name)) {
                self.set(setting, &Scalar::Untyped(value.clone()), Location::Flag(flag));
            }
        }
        if let Some(model) = &flags.model {
            self.set_model(ModelConfig::from_argument(model), Location::Flag("--model"));
        }
        if let Some(url) = &flags.embedder_url {
            self.set_embedder(url, Protocol::Weir, Location::Flag("--embedder-url"));
        }
    }

    /// Inserts the model of a flag or variable first, and removes another with the same id.
    fn set_model(&mut self, model: ModelConfig, location: Location) {
        if let Some(index) = self.config.models.iter().position(|other| other.id == model.id) {
            self.config.models.remove(index);
            self.model_sources.remove(index);
        }
        self.invalid_models.retain(|names| names.first() != Some(&model.id));
        self.config.models.insert(0, model);
        self.model_sources.insert(0, Source::Set(location));
    }

    /// The configuration, or all problems, including those of `check`.
    fn finish(mut self, check: impl FnOnce(&Config, &Unknowns) -> Vec<Problem>) -> Result<Loaded, Problems> {
        let unknowns = self.unknowns();
        self.problems.extend(check_consistency(&self.config, &unknowns, &self.llm_places));
        if self.config.models.iter().all(ModelConfig::is_reranking)
            && self.config.server.role != Role::Gateway
            && Path::new(DEFAULT_FOLDER).is_dir()
        {
            self.config.models.insert(0, ModelConfig::from_argument(DEFAULT_FOLDER));
            self.model_sources.insert(0, Source::Default);
        }
        self.problems.extend(check(&self.config, &unknowns));
        if !self.problems.is_empty() {
            self.problems.sort_by_key(|problem| problem.location.line());
            return Err(Problems(self.problems));
        }
        Ok(Loaded { config: self.config, sources: self.sources, model_sources: self.model_sources })
    }

    fn unknowns(&mut self) -> Unknowns {
        let names = SETTINGS.iter().map(|setting| setting.name);
        let unset = names.filter(|name| self.is_incomplete && !self.sources.contains_key(name));
        Unknowns {
            settings: self.rejected.iter().copied().chain(unset).collect(),
            models: std::mem::take(&mut self.invalid_models),
            unread_models: self.is_incomplete,
        }
    }
}

fn setting_of_variable(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.short_variable() == Some(name) || setting.variable() == name)
}

/// The problem of an unknown variable.
fn unknown_variable(location: Location, name: &str) -> Problem {
    let problem = Problem::unknown(location, "variable", name, &variables());
    if !means_the_address(name) {
        return problem;
    }
    problem.hint(
        "did you mean `WEIR_SERVER_LISTEN`, an address with its port such as 127.0.0.1:8000? (`weir config show` lists all)",
    )
}

fn variables() -> Vec<String> {
    let short = SETTINGS.iter().filter_map(Setting::short_variable).map(str::to_owned);
    let others = OTHER_VARIABLES.iter().map(|name| (*name).to_owned());
    short.chain(others).chain(SETTINGS.iter().map(Setting::variable)).collect()
}

#[cfg(test)]
mod tests;
