//! Checks that look at more than one setting, or at the machine.

use std::collections::BTreeSet;

use crate::models::{DEFAULT_FOLDER, ModelConfig, ModelKind};
use crate::problem::{Place, Problem};
use crate::secret::ApiKey;
use crate::table::Config;

/// What can't be judged yet, because what was typed for it has a problem of its own.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// Settings without a value that is sure.
    pub(super) settings: BTreeSet<&'static str>,
    /// The id and every alias of models that are not well-formed.
    pub(super) models: Vec<Vec<String>>,
    /// Whether there may be models that nothing is known of.
    pub(super) unread_models: bool,
}

impl Doubts {
    /// Whether these settings are beyond doubt.
    fn spare(&self, settings: &[&str]) -> bool {
        !settings.iter().any(|setting| self.settings.contains(setting))
    }

    /// Whether all models are known.
    fn spare_models(&self) -> bool {
        self.models.is_empty() && !self.unread_models
    }
}

/// What is wrong between settings that are each right.
pub(super) fn check_together(config: &Config, doubts: &Doubts) -> Vec<Problem> {
    let mut problems = Vec::new();
    let chunking = &config.chunking;
    if chunking.overlap_tokens >= chunking.max_tokens
        && doubts.spare(&["chunking.overlap_tokens", "chunking.max_tokens"])
    {
        let (overlap, max) = (chunking.overlap_tokens, chunking.max_tokens);
        let message = format!("chunking.overlap_tokens is {overlap} and chunking.max_tokens is {max}");
        problems.push(Problem::new(Place::Nowhere, message).hint("the overlap must be below the maximum"));
    }
    if config.search.weight_lexical + config.search.weight_dense == 0.0
        && doubts.spare(&["search.weight_lexical", "search.weight_dense"])
    {
        let message = "search.weight_lexical and search.weight_dense are both 0";
        problems.push(Problem::new(Place::Nowhere, message).hint("at least one must be above 0"));
    }
    let mut names = BTreeSet::new();
    let spoilt = doubts.models.iter().flatten().map(String::as_str);
    for name in config.models.iter().flat_map(ModelConfig::names).chain(spoilt) {
        if !names.insert(name) {
            let message = format!("two models are called `{name}`");
            problems.push(Problem::new(Place::Nowhere, message).hint("ids and aliases must differ"));
        }
    }
    problems
}

/// What `weir serve` lacks beyond well-formed settings: a model, its files, an address that is safe.
pub(super) fn check_for_serving(config: &Config, doubts: &Doubts) -> Vec<Problem> {
    let mut problems = Vec::new();
    if doubts.spare(&["server.listen", "server.insecure_no_auth"]) {
        problems.extend(config.check_address());
    }
    if config.models.is_empty() && doubts.spare_models() {
        let message = format!("no model is configured, and there is no folder {DEFAULT_FOLDER}");
        problems.push(Problem::new(Place::Nowhere, message).hint(
            "`make setup` gets the default model; `--model DIR` names another, `--model pseudo` needs none",
        ));
    }
    problems.extend(config.models.iter().filter_map(check_model));
    if doubts.spare(&["onnx.library"]) {
        problems.extend(config.check_library());
    }
    if doubts.spare(&["search.rerank"]) && doubts.spare_models() {
        problems.extend(config.check_rerank());
    }
    problems
}

impl Config {
    fn check_library(&self) -> Option<Problem> {
        let is_onnx = |model: &ModelConfig| matches!(model.kind, ModelKind::Onnx { .. });
        let model =
            self.models.iter().find(|model| is_onnx(model)).filter(|_| self.onnx.library.is_empty())?;
        let message = format!("the model `{}` needs ONNX Runtime, and `onnx.library` is empty", model.id);
        Some(Problem::new(Place::Nowhere, message).hint(
            "name its shared library; `pip install onnxruntime` brings one, onnxruntime/capi/libonnxruntime.so.VERSION",
        ))
    }

    /// Whether `search.rerank` names a model that reranks. Of a model that can't be read something else is said.
    fn check_rerank(&self) -> Option<Problem> {
        let name = &self.search.rerank;
        let is_named = |model: &&ModelConfig| model.names().any(|other| other == name);
        let named = self.models.iter().find(is_named);
        if name.is_empty() || named.is_some_and(|model| model.reranks() != Some(false)) {
            return None;
        }
        let message = format!("`search.rerank` is `{name}`, which is no model that reranks");
        Some(
            Problem::new(Place::Nowhere, message)
                .hint("name a model of `[[models]]` that reranks, or leave it empty"),
        )
    }

    fn check_address(&self) -> Option<Problem> {
        let address = self.server.listen;
        if address.ip().is_loopback() || self.server.insecure_no_auth {
            return None;
        }
        let message =
            format!("listening on {address} would let anybody who reaches it read and change everything");
        let hint = format!(
            "listen on 127.0.0.1:{}, or say that this is meant with --insecure-no-auth (server.insecure_no_auth = true)",
            address.port()
        );
        Some(Problem::new(Place::Nowhere, message).hint(hint))
    }
}

fn check_model(model: &ModelConfig) -> Option<Problem> {
    if let Some(Err(reason)) = model.api_key().map(ApiKey::secret) {
        let message = format!("the model `{}` has no `api_key`: {reason}", model.id);
        return Some(Problem::new(Place::Nowhere, message).hint(
            "set that variable or write that file, name another in `api_key`, or remove `api_key` where the upstream wants none",
        ));
    }
    let (ModelKind::Local { folder, .. } | ModelKind::Onnx { folder, .. }) = &model.kind else { return None };
    if folder.join("config.json").is_file() {
        return None;
    }
    let (id, shown) = (&model.id, folder.display());
    let what = if folder.is_dir() { "holds no config.json" } else { "is not a folder" };
    let message = format!("the model `{id}` can't be loaded: {shown} {what}");
    Some(Problem::new(Place::Nowhere, message).hint(
        "name a folder in the Hugging Face layout; `make setup` gets the default model, `weir model pull NAME` others",
    ))
}
