//! Loads the shared library of ONNX Runtime.

use std::path::Path;

use ort::environment::Environment;

use crate::OnnxError;

/// A handle to the loaded ONNX Runtime. Clones share it.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) environment: Environment,
}

impl Runtime {
    /// Loads the shared library `library`. A process can load one only; later calls must name the same path.
    ///
    /// # Errors
    /// [`OnnxError::NoLibrary`] for an empty path, [`OnnxError::Library`] when it can't be loaded.
    pub fn load(library: &Path) -> Result<Runtime, OnnxError> {
        if library.as_os_str().is_empty() {
            return Err(OnnxError::NoLibrary);
        }
        let failed = |reason: String| OnnxError::Library { path: library.to_owned(), reason };
        // relative paths start at the working directory, as everywhere in Weir
        let absolute = std::path::absolute(library).map_err(|error| failed(error.to_string()))?;
        let builder = ort::init_from(&absolute).map_err(|error| failed(error.to_string()))?;
        let built = builder.with_name("weir").with_telemetry(false).build();
        Ok(Runtime { environment: built.map_err(|error| failed(error.to_string()))? })
    }
}
