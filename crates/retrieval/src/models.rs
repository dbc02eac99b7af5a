//! Models by name, as far as a caller may use them.

use std::sync::Arc;

use weir_api::{ErrorCode, Invalid};
use weir_inference::{LoadedModel, Models, Reranker};
use weir_policy::Caller;

use crate::Result;
use weir_refusal::RequestError;
pub use weir_refusal::no_model;

/// The models that `caller` may embed with, the default one first.
pub fn embedders<'m>(models: &'m Models, caller: &Caller) -> impl Iterator<Item = &'m Arc<LoadedModel>> {
    models.iter().filter(|model| caller.may_use_model(&model.id))
}

/// The models that `caller` may rerank with.
pub fn rerankers<'m>(models: &'m Models, caller: &Caller) -> impl Iterator<Item = &'m Arc<Reranker>> {
    models.rerankers().filter(|model| caller.may_use_model(&model.id))
}

/// The models that `caller` may rerank or classify with.
pub fn cross_encoders<'m>(models: &'m Models, caller: &Caller) -> impl Iterator<Item = &'m Arc<Reranker>> {
    models.cross_encoders().filter(|model| caller.may_use_model(&model.id))
}

/// The model that embeds with this id or alias.
///
/// # Errors
/// `model_not_found`, also for a model that the caller may not use; `invalid_parameter` for a model that reranks.
pub fn embedder<'m>(models: &'m Models, caller: &Caller, name: &str) -> Result<&'m Arc<LoadedModel>> {
    let found = models.get(name).filter(|model| caller.may_use_model(&model.id));
    found.ok_or_else(|| {
        if models.reranker(name).is_none_or(|model| !caller.may_use_model(&model.id)) {
            return no_model(name);
        }
        let known = quoted(embedders(models, caller).map(|model| model.id.as_str()));
        let message = format!("the model `{name}` reranks and does not embed; models that embed: {known}");
        Invalid::at(ErrorCode::InvalidParameter, &["model"], message).into()
    })
}

/// The model that reranks with this id or alias; `path` is where the request names it.
///
/// # Errors
/// As [`embedder`], for a model that embeds.
pub fn reranker<'m>(
    models: &'m Models,
    caller: &Caller,
    name: &str,
    path: &str,
) -> Result<&'m Arc<Reranker>> {
    let found = models.reranker(name).filter(|model| caller.may_use_model(&model.id));
    found.ok_or_else(|| {
        let known = match quoted(rerankers(models, caller).map(|model| model.id.as_str())) {
            none if none.is_empty() => "`[[models]]` has no model that reranks".to_owned(),
            known => format!("models that rerank: {known}"),
        };
        let shown = name.escape_debug();
        let (code, message) = match models.get(name).filter(|model| caller.may_use_model(&model.id)) {
            Some(_) => (
                ErrorCode::InvalidParameter,
                format!("the model `{shown}` embeds and does not rerank; {known}"),
            ),
            None => (ErrorCode::ModelNotFound, format!("there is no model `{shown}`; {known}")),
        };
        Invalid::at(code, &[path], message).into()
    })
}

/// The first model that the caller may rerank with.
///
/// # Errors
/// `model_not_found`, with the way to one.
pub fn default_reranker<'m>(models: &'m Models, caller: &Caller) -> Result<&'m Arc<Reranker>> {
    rerankers(models, caller).next().ok_or_else(|| {
        let message = "no model that reranks is installed; declare one in `[[models]]`: the folder of a cross-encoder as `path`, \
                       or the `url` of a server that reranks";
        RequestError::new(ErrorCode::ModelNotFound, message)
    })
}

/// The first model of this process that the caller may classify with.
///
/// # Errors
/// `model_not_found`, with the way to one.
pub fn default_classifier<'m>(models: &'m Models, caller: &Caller) -> Result<&'m Arc<Reranker>> {
    cross_encoders(models, caller).find(|model| model.labels().is_some()).ok_or_else(|| {
        let message = "no classifier runs in this gateway; declare the folder of one in `[[models]]`: a model with a classification head, \
                       such as a cross-encoder";
        RequestError::new(ErrorCode::ModelNotFound, message)
    })
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
