//! The file `FORMAT`: format and settings of the folder, readable by people.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::head::{FORMAT_VERSION, replace_file};
use crate::{EngineSettings, IndexError};

const NAME: &str = "FORMAT";

/// Why the content of a folder could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RebuildReason {
    /// The folder had no index.
    Missing,
    /// Another version of the program wrote it.
    Format {
        /// Its format version.
        found: u32,
    },
    /// Another model, or precision, made its embeddings.
    Fingerprint {
        /// The fingerprint of that model.
        found: String,
    },
    /// Its embeddings have another dimension.
    Dimension {
        /// That dimension.
        found: usize,
    },
    /// Its text was analysed for another language.
    Language {
        /// That language.
        found: String,
    },
    /// Its files differ from those written, or contradict each other.
    Damaged {
        /// The cause, for the log.
        detail: String,
    },
}

impl fmt::Display for RebuildReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RebuildReason::Missing => write!(f, "there was no index"),
            RebuildReason::Format { found } => {
                write!(f, "the index has format {found} instead of {FORMAT_VERSION}")
            }
            RebuildReason::Fingerprint { found } => write!(f, "the index was made with model `{found}`"),
            RebuildReason::Dimension { found } => write!(f, "the index was made with dimension {found}"),
            RebuildReason::Language { found } => write!(f, "the index was made for language `{found}`"),
            RebuildReason::Damaged { detail } => write!(f, "the index is damaged: {detail}"),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FormatFile {
    format: u32,
    fingerprint: String,
    dimension: usize,
    language: String,
}

impl FormatFile {
    fn of(settings: &EngineSettings) -> FormatFile {
        FormatFile {
            format: FORMAT_VERSION,
            fingerprint: settings.fingerprint.clone(),
            dimension: settings.dimension,
            language: settings.language.name().to_owned(),
        }
    }
}

/// Writes `FORMAT`.
pub(crate) fn write(folder: &Path, settings: &EngineSettings) -> Result<(), IndexError> {
    let mut text = serde_json::to_string_pretty(&FormatFile::of(settings)).unwrap_or_default();
    text.push('\n');
    replace_file(folder, NAME, "FORMAT.new", text.as_bytes())
}

/// Compares `FORMAT` with the settings; returns why the folder cannot be used with them.
pub(crate) fn check(folder: &Path, settings: &EngineSettings) -> Result<Option<RebuildReason>, IndexError> {
    let path = folder.join(NAME);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Some(RebuildReason::Missing));
        }
        Err(error) => return Err(IndexError::file("read", &path)(error)),
    };
    let Ok(found) = serde_json::from_slice::<FormatFile>(&bytes) else {
        return Ok(Some(RebuildReason::Damaged { detail: "file `FORMAT` cannot be read".to_owned() }));
    };
    let wanted = FormatFile::of(settings);
    Ok(if found.format != wanted.format {
        Some(RebuildReason::Format { found: found.format })
    } else if found.fingerprint != wanted.fingerprint {
        Some(RebuildReason::Fingerprint { found: found.fingerprint })
    } else if found.dimension != wanted.dimension {
        Some(RebuildReason::Dimension { found: found.dimension })
    } else if found.language != wanted.language {
        Some(RebuildReason::Language { found: found.language })
    } else {
        None
    })
}
