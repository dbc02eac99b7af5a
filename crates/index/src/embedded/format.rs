//! The file `FORMAT`: format and settings of the folder, readable by people.

use std::path::Path;

use serde::{Deserialize, Serialize};

use weir_text::ANALYSER_VERSION;

use super::head::{FORMAT_VERSION, replace_file};
use crate::{EngineSettings, IndexError, Result};

pub(crate) const NAME: &str = "FORMAT";

/// Why the content of a folder could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebuildReason {
    /// The folder had no index.
    #[error("there was no index")]
    Missing,
    /// Another version of the program wrote it.
    #[error("the index has format {0} instead of {FORMAT_VERSION}")]
    Format(u32),
    /// Another model, or precision, made its embeddings.
    #[error("the index was made with model `{0}`")]
    Fingerprint(String),
    /// Its embeddings have another dimension.
    #[error("the index was made with dimension {0}")]
    Dimension(usize),
    /// Its text was analysed for another language.
    #[error("the index was made for language `{0}`")]
    Language(String),
    /// It was made from a store that has another history.
    #[error("the index was made from another history of the store")]
    History,
    /// Another version of the text analysis made its terms.
    #[error("the index was made with version {0} of the text analysis instead of {ANALYSER_VERSION}")]
    Analyser(u32),
    /// Its files differ from those written, or contradict each other.
    #[error("the index is damaged: {0}")]
    Damaged(String),
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FormatFile {
    format: u32,
    fingerprint: String,
    dimension: usize,
    language: String,
    /// Version of the text analysis.
    #[serde(default = "first_analyser")]
    analyser: u32,
}

/// The version before `FORMAT` had one.
fn first_analyser() -> u32 {
    1
}

impl FormatFile {
    fn of(settings: &EngineSettings) -> FormatFile {
        FormatFile {
            format: FORMAT_VERSION,
            fingerprint: settings.fingerprint.clone(),
            dimension: settings.dimension,
            language: settings.language.name().to_owned(),
            analyser: ANALYSER_VERSION,
        }
    }
}

/// Writes `FORMAT`.
pub(crate) fn write(folder: &Path, settings: &EngineSettings) -> Result<()> {
    let mut text = serde_json::to_string_pretty(&FormatFile::of(settings)).unwrap_or_default();
    text.push('\n');
    replace_file(folder, NAME, "FORMAT.new", text.as_bytes())
}

/// Compares `FORMAT` with the settings; returns why the folder cannot be used with them.
pub(crate) fn check(folder: &Path, settings: &EngineSettings) -> Result<Option<RebuildReason>> {
    let path = folder.join(NAME);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Some(RebuildReason::Missing));
        }
        Err(error) => return Err(IndexError::file("read", &path)(error)),
    };
    let Ok(found) = serde_json::from_slice::<FormatFile>(&bytes) else {
        return Ok(Some(RebuildReason::Damaged("file `FORMAT` cannot be read".to_owned())));
    };
    let wanted = FormatFile::of(settings);
    Ok(if found.format != wanted.format {
        Some(RebuildReason::Format(found.format))
    } else if found.fingerprint != wanted.fingerprint {
        Some(RebuildReason::Fingerprint(found.fingerprint))
    } else if found.dimension != wanted.dimension {
        Some(RebuildReason::Dimension(found.dimension))
    } else if found.language != wanted.language {
        Some(RebuildReason::Language(found.language))
    } else if found.analyser != wanted.analyser {
        Some(RebuildReason::Analyser(found.analyser))
    } else {
        None
    })
}
