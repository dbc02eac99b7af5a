//! `weir model info`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;
use weir_config::Precision;
use weir_encoder::{Kernels, Model};
use weir_inference::encoder_precision;

use weir_config::{Config, ModelKind};

use super::error::InfoError;
use crate::cli::failure::Result;
/// Loads the model in `folder`, or the default model, and prints its properties.
pub(super) fn run(folder: Option<&Path>, is_json: bool, config: &Config, out: &mut dyn Write) -> Result<()> {
    let (folder, precision, dimensions) = match folder {
        Some(folder) => (folder.to_owned(), config.inference.precision, [].as_slice()),
        None => default_model(config)?,
    };
    let begun = Instant::now();
    let (precision, bytes_max) = (encoder_precision(precision), config.inference.model_bytes_max);
    let mut model = Model::load_within(&folder, precision, Kernels::current(), None, bytes_max)
        .map_err(InfoError::Load)?;
    if !dimensions.is_empty() {
        model = model.with_dimensions(dimensions).map_err(InfoError::Load)?;
    }
    let load_ms = begun.elapsed().as_secs_f64() * 1e3;
    let info = model.info();
    let rows = [
        ("folder", json!(folder.display().to_string())),
        ("architecture", json!(info.architecture)),
        ("dimension", json!(info.dimension)),
        ("dimensions", json!(info.dimensions)),
        ("layers", json!(info.layers)),
        ("heads", json!(info.heads)),
        ("vocabulary", json!(info.vocabulary)),
        ("max_tokens", json!(info.max_tokens)),
        ("pooling", json!(info.pooling.name())),
        ("normalise", json!(info.normalise)),
        ("labels", json!(info.labels)),
        ("precision", json!(info.precision.name())),
        ("kernels", json!(model.kernels_name())),
        ("weights_bytes", json!(info.weights_bytes)),
        ("fingerprint", json!(info.fingerprint)),
        ("load_ms", json!((load_ms * 10.0).round() / 10.0)),
    ];
    if is_json {
        let object: serde_json::Map<_, _> =
            rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        writeln!(out, "{:#}", serde_json::Value::Object(object))?;
        return Ok(());
    }
    for (name, value) in rows {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        writeln!(out, "{name:<14} {shown}")?;
    }
    Ok(())
}

/// Folder, precision and declared dimensions of the default model.
fn default_model(config: &Config) -> Result<(PathBuf, Precision, &[usize]), InfoError> {
    let model = config.models.first().ok_or(InfoError::NoFolder)?;
    match &model.kind {
        ModelKind::Local { folder, precision, dimensions } => {
            Ok((folder.clone(), precision.unwrap_or(config.inference.precision), dimensions))
        }
        ModelKind::Onnx { .. } | ModelKind::Upstream(_) | ModelKind::Pseudo { .. } => {
            Err(InfoError::NotLocal(model.id.clone()))
        }
    }
}
