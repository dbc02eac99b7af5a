//! Checks between settings, and of the machine.

use std::collections::BTreeSet;

use crate::llm::Places;
use crate::models::{DEFAULT_FOLDER, ModelConfig, ModelKind, Reranks};
use crate::problem::{Location, Problem};
use crate::secret::ApiKey;
use crate::table::{Config, QdrantCluster};
use crate::upstream::check_url;
use crate::value::{RequestStore, Role};

/// Invalid settings and models, which checks between settings skip.
#[derive(Debug, Default)]
pub(super) struct Unknowns {
    /// Settings whose value is unknown.
    pub(super) settings: BTreeSet<&'static str>,
    /// The names of invalid models: id and aliases.
    pub(super) models: Vec<Vec<String>>,
    /// Whether models may be missing because a part of the file could not be read.
    pub(super) unread_models: bool,
}

impl Unknowns {
    /// Whether the values of these settings are known.
    fn are_known(&self, settings: &[&str]) -> bool {
        !settings.iter().any(|setting| self.settings.contains(setting))
    }

    fn models_are_known(&self) -> bool {
        self.models.is_empty() && !self.unread_models
    }
}

/// Problems between settings that are each valid.
pub(super) fn check_consistency(config: &Config, unknowns: &Unknowns, llm_places: &Places) -> Vec<Problem> {
    let mut problems = Vec::new();
    let chunking = &config.chunking;
    if chunking.overlap_tokens >= chunking.max_tokens
        && unknowns.are_known(&["chunking.overlap_tokens", "chunking.max_tokens"])
    {
        let (overlap, max) = (chunking.overlap_tokens, chunking.max_tokens);
        let message = format!("chunking.overlap_tokens is {overlap} and chunking.max_tokens is {max}");
        problems.push(Problem::new(Location::General, message).hint("the overlap must be below the maximum"));
    }
    if config.search.weight_lexical + config.search.weight_dense == 0.0
        && unknowns.are_known(&["search.weight_lexical", "search.weight_dense"])
    {
        let message = "search.weight_lexical and search.weight_dense are both 0";
        problems.push(Problem::new(Location::General, message).hint("at least one must be above 0"));
    }
    for origin in config.server.cors_origins().filter(|origin| !is_origin(origin)) {
        let message = format!("`{origin}` in server.cors_origins is not an origin");
        let hint = "write a scheme and a host without a path, such as `https://app.example.com` or `http://localhost:3000`";
        problems.push(Problem::new(Location::General, message).hint(hint));
    }
    if unknowns.are_known(&["webhooks.secret"]) {
        problems.extend(config.check_webhooks());
    }
    if unknowns.are_known(&["store.url"]) {
        problems.extend(config.check_store());
    }
    if unknowns.are_known(&["redis.url"]) {
        problems.extend(config.check_redis());
    }
    if unknowns.are_known(&["redis.replies", "redis.url", "store.url"]) {
        problems.extend(config.check_shared_replies());
    }
    if unknowns.are_known(&["qdrant.api_key", "qdrant.copies", "qdrant.copies_written"]) {
        problems.extend(config.check_qdrant());
    }
    if unknowns.are_known(&TLS_FILES) {
        problems.extend(config.check_tls_pair());
    }
    let traces_url = &config.telemetry.traces_url;
    if !traces_url.is_empty() && check_url(traces_url).is_err() {
        let message = format!("`telemetry.traces_url` is no base URL: `{traces_url}`");
        problems
            .push(Problem::new(Location::General, message).hint("write it such as `http://127.0.0.1:4318`"));
    }
    let recogniser = &config.extract.url;
    if let Some(message) = Some(recogniser).filter(|url| !url.is_empty()).and_then(|url| check_url(url).err())
    {
        problems.push(Problem::new(Location::General, format!("`extract.url` {message}")));
    }
    if unknowns.are_known(&["client.url"]) {
        problems.extend(check_base_url(&config.client.url));
    }
    if !unknowns.unread_models {
        problems.extend(config.llm.check(llm_places));
    }
    let mut names = BTreeSet::new();
    let invalid = unknowns.models.iter().flatten().map(String::as_str);
    for name in config.models.iter().flat_map(ModelConfig::names).chain(invalid) {
        if !names.insert(name) {
            let message = format!("two models have the name `{name}`");
            problems.push(Problem::new(Location::General, message).hint("ids and aliases must be unique"));
        }
    }
    problems
}

/// The problem of a base URL without a scheme, or with the path that calls add themselves.
fn check_base_url(url: &str) -> Option<Problem> {
    let trimmed = url.trim_end_matches('/');
    let (message, meant) = if let Some(base) = trimmed.strip_suffix("/v1") {
        ("ends in `/v1`, which the calls add themselves", base.to_owned())
    } else if !trimmed.is_empty() && !trimmed.contains("://") {
        ("has no scheme", format!("http://{trimmed}"))
    } else {
        return None;
    };
    let problem = Problem::new(Location::General, format!("the gateway's URL `{url}` {message}"));
    Some(problem.hint(format!("did you mean `{meant}`?")))
}

/// Whether it is `*`, or a scheme and a host with or without a port.
fn is_origin(origin: &str) -> bool {
    let host = origin.split_once("://").map(|(_, host)| host);
    origin == "*" || host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '*', ' ', '?', '#']))
}

/// Problems that keep `weir serve` from starting: a missing model or file.
pub(super) fn check_for_serving(config: &Config, unknowns: &Unknowns, reranks: Reranks<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    if unknowns.are_known(&["server.role"]) && config.server.role == Role::Gateway {
        problems.extend(config.models.iter().filter_map(check_is_elsewhere));
    }
    let needs_model = config.llm.upstreams.is_empty();
    if config.models.is_empty() && needs_model && unknowns.models_are_known() {
        let message = format!("no model is configured, and there is no folder {DEFAULT_FOLDER}");
        problems.push(Problem::new(Location::General, message).hint(
            "`weir model pull all-MiniLM-L6-v2` downloads the default model; `--model DIR` uses another, `--embedder-url URL` another server's, `--model pseudo` needs none; a gateway for chat alone has `[[upstreams]]`",
        ));
    }
    if config.models.is_empty() && !needs_model && unknowns.models_are_known() {
        problems.extend(config.llm.check_without_model());
    }
    problems.extend(config.models.iter().filter_map(check_model));
    problems.extend(config.llm.check_keys());
    problems.extend(config.check_recogniser());
    if unknowns.are_known(&["telemetry.requests", "telemetry.postgres_url"]) {
        problems.extend(config.check_request_store());
    }
    if unknowns.are_known(&TLS_FILES) {
        problems.extend(config.check_tls_files());
    }
    if unknowns.are_known(&["onnx.library"]) {
        problems.extend(config.check_library());
    }
    if unknowns.are_known(&["search.rerank"]) && unknowns.models_are_known() {
        problems.extend(config.check_rerank(reranks));
    }
    problems
}

/// The problem of a model of this machine in a gateway that runs none.
fn check_is_elsewhere(model: &ModelConfig) -> Option<Problem> {
    match &model.kind {
        ModelKind::Upstream(_) | ModelKind::Pseudo { .. } => None,
        ModelKind::Local { .. } | ModelKind::Onnx { .. } => {
            let message =
                format!("the role is `gateway`, and the model `{}` would run in this process", model.id);
            let hint = "name another server with --embedder-url or in `[[models]]`, or leave the role out";
            Some(Problem::new(Location::General, message).hint(hint))
        }
    }
}

/// The two files of TLS.
const TLS_FILES: [&str; 2] = ["server.tls_certificate", "server.tls_key"];

impl Config {
    /// Checks that there is a key if there is a certificate, and the reverse.
    fn check_tls_pair(&self) -> Option<Problem> {
        let files = [&self.server.tls_certificate, &self.server.tls_key];
        let set = files.iter().position(|file| !file.is_empty())?;
        let empty = files.iter().position(|file| file.is_empty())?;
        let message = format!("`{}` is set, and `{}` is empty", TLS_FILES[set], TLS_FILES[empty]);
        Some(Problem::new(Location::General, message).hint("TLS needs both; set neither for plain HTTP"))
    }

    /// Checks that the files of TLS can be read. What they hold is checked at the start.
    fn check_tls_files(&self) -> Vec<Problem> {
        let files = [&self.server.tls_certificate, &self.server.tls_key];
        let named = TLS_FILES.into_iter().zip(files).filter(|(_, file)| !file.is_empty());
        let unreadable = named.filter_map(|(setting, file)| {
            let error = std::fs::File::open(file).err()?;
            let message = format!("`{setting}` can't be read: {file}: {error}");
            let hint = "name a PEM file that the user of this process may read; relative paths begin at the working directory";
            Some(Problem::new(Location::General, message).hint(hint))
        });
        unreadable.collect()
    }

    fn check_library(&self) -> Option<Problem> {
        let is_onnx = |model: &ModelConfig| matches!(model.kind, ModelKind::Onnx { .. });
        let model =
            self.models.iter().find(|model| is_onnx(model)).filter(|_| self.onnx.library.is_empty())?;
        let message = format!("the model `{}` needs ONNX Runtime, but `onnx.library` is empty", model.id);
        Some(Problem::new(Location::General, message).hint(
            "set it to the shared library; `pip install onnxruntime` installs one, onnxruntime/capi/libonnxruntime.so.VERSION",
        ))
    }

    /// Checks that the key of the server that recognises text can be read.
    fn check_recogniser(&self) -> Option<Problem> {
        let key = self.extract.api_key.as_ref().filter(|_| !self.extract.url.is_empty())?;
        let reason = key.secret().err()?;
        let message = format!("the server at `extract.url` has no `extract.api_key`: {reason}");
        let hint =
            "set that variable or write that file, or remove `extract.api_key` if the server requires none";
        Some(Problem::new(Location::General, message).hint(hint))
    }

    /// Checks that the URL of PostgreSQL can be read, if it is needed.
    fn check_request_store(&self) -> Option<Problem> {
        let telemetry = &self.telemetry;
        let reason = match &telemetry.postgres_url {
            _ if telemetry.requests != RequestStore::Postgres => return None,
            Some(url) => url.secret().err()?.to_owned(),
            None => "`telemetry.postgres_url` is empty".to_owned(),
        };
        let message = format!("`telemetry.requests` is `postgres`, and there is no URL of it: {reason}");
        let hint = "set a variable or write a file with postgresql://USER:PASSWORD@HOST/DATABASE, and name it in `telemetry.postgres_url` as env:NAME or file:PATH";
        Some(Problem::new(Location::General, message).hint(hint))
    }

    /// Checks that the URL of the store can be read, if there is one.
    fn check_store(&self) -> Option<Problem> {
        let reason = self.store.url.as_ref()?.secret().err()?;
        let message = format!("the URL of the store can't be read: {reason}");
        let hint = "set that variable or write that file with postgresql://USER:PASSWORD@HOST/DATABASE, or remove `store.url` to keep the store in `server.data_dir`";
        Some(Problem::new(Location::General, message).hint(hint))
    }

    /// Checks that the secret of webhooks can be read, and is base64 of 24 to 64 bytes, as receivers' libraries expect.
    fn check_webhooks(&self) -> Option<Problem> {
        let reason = match self.webhooks.secret.as_ref()?.secret() {
            Ok(secret) => {
                let text = secret.reveal();
                let digits = text.strip_prefix("whsec_").unwrap_or(text).trim_end_matches('=');
                let is_base64 =
                    digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'));
                if is_base64 && digits.len() % 4 != 1 && (24..=64).contains(&(digits.len() * 3 / 4)) {
                    return None;
                }
                "it is not `whsec_` and 24 to 64 bytes in base64"
            }
            Err(reason) => reason,
        };
        let message = format!("`webhooks.secret` can't be used: {reason}");
        let hint = "make one with `echo \"whsec_$(openssl rand -base64 32)\"`, set it in a variable or write it to a file, and name that as env:NAME or file:PATH";
        Some(Problem::new(Location::General, message).hint(hint))
    }

    /// Checks that gateways which share replies share the API keys, too, for which replies are kept.
    fn check_shared_replies(&self) -> Option<Problem> {
        let (missing, remedy) = match (&self.redis.url, &self.store.url) {
            _ if !self.redis.replies => return None,
            (None, _) => ("redis.url", "name where the URL of Redis is"),
            (Some(_), None) => (
                "store.url",
                "name the database that the gateways share: those with stores of their own have other API keys",
            ),
            (Some(_), Some(_)) => return None,
        };
        let message = format!("`redis.replies` is true, and there is no `{missing}`");
        Some(Problem::new(Location::General, message).hint(format!("{remedy}; or remove `redis.replies`")))
    }

    /// Checks that the URL of Redis can be read.
    fn check_redis(&self) -> Option<Problem> {
        let reason = self.redis.url.as_ref()?.secret().err()?;
        let message = format!("`redis.url` can't be used: {reason}");
        let hint = "set a variable or write a file with redis://USER:PASSWORD@HOST:PORT/DATABASE, and name it in `redis.url` as env:NAME or file:PATH";
        Some(Problem::new(Location::General, message).hint(hint))
    }

    /// Checks the API key of the Qdrant cluster, if there is one, and that it can lose a node.
    fn check_qdrant(&self) -> Option<Problem> {
        let qdrant = &self.qdrant;
        qdrant.nodes().next()?;
        if let Some(reason) = qdrant.api_key.as_ref().and_then(|key| key.secret().err()) {
            let message = format!("`qdrant.api_key` can't be used: {reason}");
            let hint = "set that variable or write that file, or remove `qdrant.api_key` if the cluster requires none";
            return Some(Problem::new(Location::General, message).hint(hint));
        }
        let (copies, written) = (qdrant.copies, qdrant.copies_written);
        let is_fit = written < copies || (copies, written) == (1, 1);
        let message = format!("qdrant.copies is {copies} and qdrant.copies_written is {written}");
        let hint = "ask for fewer copies than there are, or the loss of one node stops all changes: 1 of 2, or 2 of 3";
        (!is_fit).then(|| Problem::new(Location::General, message).hint(hint))
    }

    /// Checks that `search.rerank` is a reranker. A model whose files can't be read has a problem of its own.
    fn check_rerank(&self, reranks: Reranks<'_>) -> Option<Problem> {
        let name = &self.search.rerank;
        let is_named = |model: &&ModelConfig| model.names().any(|other| other == name);
        let named = self.models.iter().find(is_named);
        if name.is_empty() || named.is_some_and(|model| model.reranks(reranks) != Some(false)) {
            return None;
        }
        let known = self.models.iter().filter(|model| model.reranks(reranks) == Some(true));
        let known: Vec<String> = known.map(|model| format!("`{}`", model.id)).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!(
            "`search.rerank` is `{name}`, which is not a reranker; rerankers in `[[models]]`: {known}"
        );
        Some(Problem::new(Location::General, message))
    }
}

fn check_model(model: &ModelConfig) -> Option<Problem> {
    if let Some(Err(reason)) = model.api_key().map(ApiKey::secret) {
        let message = format!("the model `{}` has no `api_key`: {reason}", model.id);
        return Some(Problem::new(Location::General, message).hint(
            "set that variable or write that file, use another in `api_key`, or remove `api_key` if the upstream requires none",
        ));
    }
    let (ModelKind::Local { folder, .. } | ModelKind::Onnx { folder, .. }) = &model.kind else { return None };
    if folder.join("config.json").is_file() {
        return None;
    }
    let (id, shown) = (&model.id, folder.display());
    let what = if folder.is_dir() { "holds no config.json" } else { "is not a folder" };
    let message = format!("the model `{id}` can't be loaded: {shown} {what}");
    Some(Problem::new(Location::General, message).hint(
        "`weir model pull all-MiniLM-L6-v2` downloads the default model into models/, `weir model pull NAME` others; any folder in the Hugging Face layout works",
    ))
}
impl QdrantCluster {
    /// The addresses of the nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.urls.split(',').map(str::trim).filter(|url| !url.is_empty())
    }
}
