//! The shared library.

use std::path::Path;

use ort::environment::Environment;

use crate::OnnxError;

/// ONNX Runtime, loaded. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) environment: Environment,
}

impl Runtime {
    /// Loads the shared library `library`; a process has one, and a second call must name the same.
    ///
    /// # Errors
    /// [`OnnxError::NoLibrary`] for an empty path, [`OnnxError::Library`] when it can't be loaded.
    pub fn load(library: &Path) -> Result<Runtime, OnnxError> {
        if library.as_os_str().is_empty() {
            return Err(OnnxError::NoLibrary);
        }
        let failed = |reason: String| OnnxError::Library { path: library.to_owned(), reason };
        // a relative path starts where the process was started, as everywhere in Weir
        let absolute = std::path::absolute(library).map_err(|error| failed(error.to_string()))?;
        let builder = ort::init_from(&absolute).map_err(|error| failed(error.to_string()))?;
        let built = builder.with_name("weir").with_telemetry(false).build();
        Ok(Runtime { environment: built.map_err(|error| failed(error.to_string()))? })
    }
}
