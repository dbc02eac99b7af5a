//! Merging of the layers: defaults, file, environment, flags.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use super::file;
use crate::check::{Unknowns, check_consistency, check_for_serving};
use crate::environment::Environment;
use crate::foreign_variables::{is_from_kubernetes, means_the_address};
use crate::models::{DEFAULT_FOLDER, ModelConfig, Reranks};
use crate::problem::{Location, Problem, Problems};
use crate::table::{Config, SETTINGS, Setting};
use crate::value::Scalar;

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

/// Variables that begin with `WEIR_` and are not settings: configuration file, default model, and instruction set, which the kernels read.
const OTHER_VARIABLES: [&str; 3] = ["WEIR_CONFIG", "WEIR_MODEL", "WEIR_ISA"];

/// Merges defaults, file, environment and flags.
///
/// # Errors
/// All problems of all layers.
pub fn load(flags: &Flags, environment: &Environment) -> Result<Loaded, Problems> {
    Layers::read(flags, environment).finish(|_, _| Vec::new())
}

/// [`load`] for `weir serve`, which also requires a model with its files and a safe address.
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

#[derive(Default)]
struct Layers {
    config: Config,
    sources: BTreeMap<&'static str, Source>,
    model_sources: Vec<Source>,
    /// Settings with an invalid value.
    rejected: BTreeSet<&'static str>,
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
        layers.config.models.iter_mut().for_each(|model| model.read_key(environment));
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
            self.set_model(&model.to_string_lossy(), Location::Variable("WEIR_MODEL".to_owned()));
        }
    }

    /// Whether `variable` holds the `api_key` of a model.
    fn is_key(&self, variable: &str) -> bool {
        let mut keys = self.config.models.iter().filter_map(ModelConfig::api_key);
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
            ("--insecure-no-auth", "server.insecure_no_auth", &insecure),
            ("--url", "client.url", &flags.url),
            ("--hub", "hub.url", &flags.hub),
        ] {
            if let (Some(value), Some(setting)) = (value, Setting::named(name)) {
                self.set(setting, &Scalar::Untyped(value.clone()), Location::Flag(flag));
            }
        }
        if let Some(model) = &flags.model {
            self.set_model(model, Location::Flag("--model"));
        }
    }

    /// Inserts the model of a flag or variable first, and removes another with the same id.
    fn set_model(&mut self, argument: &str, location: Location) {
        let model = ModelConfig::from_argument(argument);
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
        self.problems.extend(check_consistency(&self.config, &unknowns));
        if self.config.models.iter().all(ModelConfig::is_reranking) && Path::new(DEFAULT_FOLDER).is_dir() {
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
mod tests {
    use super::*;
    use crate::ModelKind;

    fn in_file(text: &str, variables: &[(&str, &str)], mut flags: Flags) -> Result<Loaded, Problems> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.toml");
        std::fs::write(&path, text).unwrap();
        flags.config = Some(path);
        load(&flags, &Environment::of(variables))
    }

    /// Loads a file and compares the problems, one per line with its hint; `FILE` stands for the path.
    fn check(text: &str, expected: &[&str]) {
        let problems = in_file(text, &[], Flags::default()).unwrap_err();
        let shown: Vec<String> = problems
            .0
            .iter()
            .map(|problem| {
                let line = if let Location::File { line, .. } = &problem.location {
                    format!("{line}: ")
                } else {
                    problem.location.to_string()
                };
                let hint = problem.hint.as_ref().map(|hint| format!(" | {hint}")).unwrap_or_default();
                format!("{line}{}{hint}", problem.message)
            })
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn later_layers_win() {
        let file = "[server]\nlisten = \"127.0.0.1:1\"\nrequest_deadline_ms = 5\n[limits]\ntop_k_max = 7\n";
        let variables = [("WEIR_LISTEN", "127.0.0.1:2"), ("WEIR_SERVER_REQUEST_DEADLINE_MS", "6")];
        let flags = Flags { listen: Some("127.0.0.1:3".to_owned()), ..Flags::default() };
        let loaded = in_file(file, &variables, flags).unwrap();
        assert_eq!(loaded.config.server.listen.port(), 3);
        assert_eq!(loaded.config.server.request_deadline_ms, 6);
        assert_eq!(loaded.config.limits.top_k_max, 7);
        assert_eq!(loaded.config.limits.query_bytes_max, 16_384);
        let layer = |name| loaded.source(Setting::named(name).unwrap()).layer();
        assert_eq!(
            ["server.listen", "server.request_deadline_ms", "limits.top_k_max", "limits.query_bytes_max"]
                .map(layer),
            ["flag", "env", "file", "default"]
        );
    }

    #[test]
    fn every_problem_is_reported_at_once_with_its_line() {
        check(
            "[server]\nlisten = \"nowhere\"\nlisen = 1\n\n[limits]\ntop_k_max = 0\nbody_bytes_max = \"a\"\n\n[colours]\n",
            &[
                "2: `server.listen` must be an IP address with a port such as \"127.0.0.1:8000\" or \"[::1]:8000\", \
                 not \"nowhere\"",
                "3: unknown setting in `[server]` `lisen` | did you mean `listen`? (accepted: listen, data_dir, \
                 insecure_no_auth, allowed_hosts, cors_origins, compress_replies, request_deadline_ms, shutdown_grace_ms)",
                "6: `limits.top_k_max` must be a whole number of 1 or more, not 0",
                "7: `limits.body_bytes_max` must be a whole number of 1 or more, not \"a\"",
                "9: unknown section `colours` | accepted: server, log, limits, inference, onnx, search, ingest, index, \
                 chunking, collections, client, hub, models",
            ],
        );
    }

    #[test]
    fn values_that_contradict_each_other_are_refused() {
        check(
            "[chunking]\nmax_tokens = 30\n[search]\nweight_lexical = 0\nweight_dense = 0.0\n",
            &[
                "chunking.overlap_tokens is 32 and chunking.max_tokens is 30 | the overlap must be below the maximum",
                "search.weight_lexical and search.weight_dense are both 0 | at least one must be above 0",
            ],
        );
    }

    #[test]
    fn contradictions_are_reported_beside_invalid_values() {
        let overlap = "chunking.overlap_tokens is 32 and chunking.max_tokens is 30 | the overlap must be below the maximum";
        check(
            "[limits]\ntop_k_max = 0\n[chunking]\nmax_tokens = 30\n",
            &["2: `limits.top_k_max` must be a whole number of 1 or more, not 0", overlap],
        );
        check(
            "[[models]]\nid = \"a\"\nkind = \"pseudo\"\n[[models]]\nid = \"a\"\nkind = \"pseudo\"\ndimension = 0\n",
            &[
                "7: `models.dimension` must be a whole number from 1 to 16384, not 0",
                "two models have the name `a` | ids and aliases must be unique",
            ],
        );
    }

    #[test]
    fn an_invalid_value_is_not_reported_as_a_contradiction() {
        let refused = "`chunking.overlap_tokens` must be a whole number of 0 or more, not -1";
        check("[chunking]\nmax_tokens = 30\noverlap_tokens = -1\n", &[&format!("3: {refused}")]);
        check(
            "[search]\nweight_lexical = 0\nweight_dense = -1\n",
            &["3: `search.weight_dense` must be a number from 0 to 1000000, not -1"],
        );
    }

    #[test]
    fn contradictions_with_defaults_are_not_reported_for_an_unreadable_file() {
        let overlap = [("WEIR_CHUNKING_OVERLAP_TOKENS", "300")];
        for text in
            ["[chunking]\nmax_tokens = 400 tokens\n", "[chunking]\nmax_token = 400\n", "chunking = 400\n"]
        {
            let problems = in_file(text, &overlap, Flags::default()).unwrap_err();
            assert_eq!(problems.0.len(), 1, "{problems}");
        }
        let flags = Flags { config: Some("no/such.toml".into()), ..Flags::default() };
        assert_eq!(load(&flags, &Environment::of(&overlap)).unwrap_err().0.len(), 1);
    }

    #[test]
    fn invalid_toml_is_reported_with_its_line() {
        let problems = in_file("[server]\nlisten = \n", &[], Flags::default()).unwrap_err();
        assert!(matches!(problems.0[0].location, Location::File { line: 2, .. }), "{problems}");
        assert!(problems.0[0].message.starts_with("not valid TOML: "), "{problems}");
    }

    #[test]
    fn models_are_read_in_order() {
        let file = "[[models]]\nid = \"a\"\nfolder = \"m/a\"\nalias = [\"x\", \"y\"]\ndimensions = [64, 128]\n\
                    prompts = { query = \"q: \" }\n\
                    [[models]]\nid = \"b\"\nkind = \"pseudo\"\ndimension = 8\n";
        let models = in_file(file, &[], Flags::default()).unwrap().config.models;
        let folder = PathBuf::from("m/a");
        assert_eq!(models[0].kind, ModelKind::Local { folder, precision: None, dimensions: vec![64, 128] });
        assert_eq!(models[0].names().collect::<Vec<_>>(), ["a", "x", "y"]);
        assert_eq!((models[0].prompts.query.as_str(), models[0].prompts.document.as_str()), ("q: ", ""));
        assert_eq!((models[1].id.as_str(), &models[1].kind), ("b", &ModelKind::Pseudo { dimension: 8 }));
    }

    #[test]
    fn problems_of_a_model_are_reported_with_their_lines() {
        check(
            "[[models]]\nid = \"a\"\nfolder = \"m\"\nprecision = \"int4\"\n[[models]]\nkind = \"gguf\"\n\
             [[models]]\nid = \"c\"\nfolders = \"m\"\n[[models]]\nid = 7\n[[models]]\nid = \"d\"\n",
            &[
                "4: `models.precision` must be one of f32, bf16, int8, not \"int4\"",
                "5: `models.id` is missing: give the model a name",
                "6: `models.kind` must be one of local, onnx, openai, tei, cohere, pseudo, not \"gguf\"",
                "9: unknown field of a model `folders` | did you mean `folder`? (accepted: id, alias, kind, task, folder, \
                 precision, dimension, dimensions, url, model, api_key, normalize, texts_per_request_max, \
                 bytes_per_request_max, concurrent_requests_max, timeout_ms, retries_max, prompts)",
                "11: `models.id` must be a text in quotes",
                "12: `models.folder` is missing: name the model's folder",
            ],
        );
        check(
            "[[models]]\nid = \"a\"\nkind = \"pseudo\"\n[[models]]\nid = \"b\"\nkind = \"pseudo\"\nalias = [\"a\"]\n",
            &["two models have the name `a` | ids and aliases must be unique"],
        );
    }

    #[test]
    fn an_upstream_is_read_with_its_limits_and_its_key() {
        let file = "[[models]]\nid = \"a\"\nkind = \"openai\"\nurl = \"https://api.example/v1/\"\nmodel = \"m\"\n\
                    api_key = \"env:WEIR_TEST_KEY\"\ntimeout_ms = 7\n[[models]]\nid = \"b\"\nkind = \"tei\"\n\
                    url = \"http://127.0.0.1:1\"\n[[models]]\nid = \"c\"\nkind = \"onnx\"\nfolder = \"m\"\n";
        let loaded = in_file(file, &[("WEIR_TEST_KEY", "sk-1")], Flags::default()).unwrap();
        let [ModelKind::Upstream(a), ModelKind::Upstream(b), ModelKind::Onnx { .. }] =
            [0, 1, 2].map(|at: usize| loaded.config.models[at].kind.clone())
        else {
            panic!("{:?}", loaded.config.models)
        };
        assert_eq!(
            (a.url.as_str(), a.timeout_ms, a.texts_per_request_max),
            ("https://api.example/v1", 7, 128)
        );
        assert_eq!(a.api_key.unwrap().secret().unwrap().reveal(), "sk-1");
        assert_eq!((b.timeout_ms, b.texts_per_request_max, b.concurrent_requests_max), (10_000, 32, 8));
        let unset = in_file(file, &[], Flags::default()).unwrap().config; // only serving needs the key
        assert_eq!(
            check_for_serving(&unset, &Unknowns::default(), &|_| None)[0].to_string(),
            "the model `a` has no `api_key`: the variable WEIR_TEST_KEY is not set"
        );
    }

    #[test]
    fn problems_of_an_upstream_are_reported_without_secrets() {
        check(
            "[[models]]\nid = \"a\"\nkind = \"openai\"\nurl = \"https://me:pass@api.example\"\napi_key = \"sk-1\"\n\
             timeout_ms = 0\nfolder = \"m\"\n[[models]]\nid = \"b\"\nkind = \"tei\"\nurl = \"ftp://pass\"\n",
            &[
                "1: `models.model` is missing: give the upstream's name for the model",
                "4: `models.url` must not hold a name or password; use `api_key`",
                "5: `models.api_key` must be \"env:NAME\" or \"file:PATH\": do not write the key itself into the \
                 configuration file",
                "6: `models.timeout_ms` must be a whole number from 1 to 600000, not 0",
                "7: `models.folder` is not a field of the kind `openai`: remove it",
                "11: `models.url` must be a URL such as \"https://api.openai.com/v1\" or \"http://127.0.0.1:8080\"",
            ],
        );
    }

    #[test]
    fn the_model_of_the_flag_comes_first_and_replaces_one_with_the_same_id() {
        let file = "[[models]]\nid = \"a\"\nfolder = \"m/a\"\n[[models]]\nid = \"b\"\nkind = \"pseudo\"\n";
        let ids = |model: &str, variables: &[(&str, &str)]| {
            let flags = Flags { model: (!model.is_empty()).then(|| model.to_owned()), ..Flags::default() };
            let models = in_file(file, variables, flags).unwrap().config.models;
            models.into_iter().map(|model| model.id).collect::<Vec<_>>()
        };
        assert_eq!(ids("elsewhere/c", &[]), ["c", "a", "b"]);
        assert_eq!(ids("elsewhere/b/", &[]), ["b", "a"]);
        assert_eq!(ids("pseudo", &[("WEIR_MODEL", "x/c")]), ["pseudo", "c", "a", "b"]);
    }

    #[test]
    fn a_base_url_without_scheme_or_with_the_path_of_the_api_is_refused() {
        let text =
            "[server]\ncors_origins = \"https://a.example/app, *\"\n[client]\nurl = \"localhost:8000\"";
        check(
            text,
            &[
                "`https://a.example/app` in server.cors_origins is not an origin | write a scheme and a host without a path, \
                 such as `https://app.example.com` or `http://localhost:3000`",
                "the gateway's URL `localhost:8000` has no scheme | did you mean `http://localhost:8000`?",
            ],
        );
        check(
            "[client]\nurl = \"http://localhost:8000/v1/\"",
            &[
                "the gateway's URL `http://localhost:8000/v1/` ends in `/v1`, which the calls add themselves | \
               did you mean `http://localhost:8000`?",
            ],
        );
    }

    #[test]
    fn an_unknown_variable_is_refused_with_the_nearest_name() {
        let problems =
            load(&Flags::default(), &Environment::of(&[("WEIR_LIMITS_TOPK_MAX", "7"), ("OTHER", "x")]))
                .unwrap_err();
        assert_eq!(problems.to_string(), "WEIR_LIMITS_TOPK_MAX: unknown variable `WEIR_LIMITS_TOPK_MAX`");
        let hint = problems.0[0].hint.clone().unwrap();
        assert!(hint.starts_with("did you mean `WEIR_LIMITS_TOP_K_MAX`"), "{hint}");
    }

    #[test]
    fn variables_of_kubernetes_and_empty_ones_are_ignored() {
        let variables = [
            ("WEIR_SERVICE_HOST", "10.0.0.1"),
            ("WEIR_SERVICE_PORT_HTTP", "80"),
            ("WEIR_PORT", "tcp://10.0.0.1:80"),
            ("WEIR_PORT_80_TCP", "tcp://10.0.0.1:80"),
            ("WEIR_PORT_80_TCP_ADDR", "10.0.0.1"),
            ("WEIR_PORT_80_TCP_PROTO", "tcp"),
            ("WEIR_A_PORT", "udp://10.0.0.1:80"),
            ("WEIR_A_SERVICE_PORT", "80"),
            ("WEIR_ISA", "scalar"),
            ("WEIR_LISTEN", ""),
        ];
        let loaded = load(&Flags::default(), &Environment::of(&variables)).unwrap();
        assert_eq!(loaded.config.server.listen.port(), 8000);
    }

    #[test]
    fn a_port_or_host_that_kubernetes_did_not_set_is_an_unknown_variable() {
        for (name, value) in [
            ("WEIR_PORT", "8000"),
            ("WEIR_SERVER_PORT", "8000"),
            ("WEIR_HOST", "0.0.0.0"),
            ("WEIR_PORT_NUMBER", "1"),
            ("WEIR_SERVICE_PORT", "tcp"),
        ] {
            let problems = load(&Flags::default(), &Environment::of(&[(name, value)])).unwrap_err();
            assert_eq!(problems.to_string(), format!("{name}: unknown variable `{name}`"));
            let hint = problems.0[0].hint.clone().unwrap();
            let is_listen = hint.starts_with("did you mean `WEIR_SERVER_LISTEN`, an address with its port");
            assert_eq!(is_listen, name != "WEIR_PORT_NUMBER", "{name}: {hint}");
        }
    }

    #[test]
    fn serving_needs_a_model_and_a_safe_address() {
        let lacks = |config: &Config| {
            let problems = check_for_serving(config, &Unknowns::default(), &|_| None).into_iter();
            problems.map(|problem| problem.to_string()).collect::<Vec<_>>()
        };
        let mut config = Config::default();
        config.server.listen = "0.0.0.0:8000".parse().unwrap();
        assert_eq!(
            lacks(&config),
            [
                "listening on 0.0.0.0:8000 would let everybody who can reach it read and change all data",
                "no model is configured, and there is no folder models/all-MiniLM-L6-v2",
            ]
        );
        config.server.insecure_no_auth = true;
        config.models.push(ModelConfig::from_argument("pseudo"));
        assert_eq!(lacks(&config), [""; 0]);
        config.models.push(ModelConfig::from_argument("no/such/folder"));
        assert_eq!(lacks(&config), ["the model `folder` can't be loaded: no/such/folder is not a folder"]);
    }

    #[test]
    fn a_missing_file_is_named_in_the_message() {
        let flags = Flags { config: Some("no/such.toml".into()), ..Flags::default() };
        let message = load(&flags, &Environment::default()).unwrap_err().to_string();
        assert!(
            message.starts_with("the configuration file no/such.toml can't be read: No such file"),
            "{message}"
        );
    }
}
