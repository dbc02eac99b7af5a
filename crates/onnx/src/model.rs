//! An ONNX network and the sessions that run it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};

use ort::session::Session;
use ort::session::builder::GraphOptimizationLevel;
use ort::value::TensorRef;
use weir_encoder::ExternalModel;

use crate::{OnnxError, Runtime};

/// Most bytes of the weights of all sessions of one thread together.
const SINGLE_SESSIONS_BYTES_MAX: u64 = 256 << 20;

/// The lane of a text. Texts of one lane do not wait for the session on several threads of the other, since those threads inherit the priority of
/// the thread that ran its first text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// For requests of waiting callers.
    Interactive,
    /// For background work.
    Bulk,
}

/// An embedding model whose network is an ONNX file. Shared by all threads.
pub struct OnnxModel {
    external_model: ExternalModel,
    runtime: Runtime,
    network: PathBuf,
    fingerprint: String,
    threads: usize,
    interactive: LaneSession,
    bulk: LaneSession,
    /// Of one thread each, that of the caller. For texts that run while the session of their lane runs another.
    single: Vec<Mutex<Option<Session>>>,
}

/// The session of a lane, which runs a text on all threads.
#[derive(Default)]
struct LaneSession {
    session: Mutex<Option<Session>>,
    /// Texts of the lane that run, on any session.
    running: AtomicUsize,
}

/// Counts a text as running until it is dropped.
struct Running<'a> {
    count: &'a AtomicUsize,
    is_alone: bool,
}

impl<'a> Running<'a> {
    fn new(count: &'a AtomicUsize) -> Running<'a> {
        Running { count, is_alone: count.fetch_add(1, Ordering::Relaxed) == 0 }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The supported inputs. The first is required.
const INPUTS: [&str; 3] = ["input_ids", "attention_mask", "token_type_ids"];
/// Names of the output with the last hidden rows, in exports by `optimum` and by sentence-transformers.
const OUTPUTS: [&str; 2] = ["last_hidden_state", "token_embeddings"];

impl OnnxModel {
    /// Loads the model in `folder`: `model.onnx` or `onnx/model.onnx`, and the configuration files of the Hugging Face layout. Refuses files of
    /// more than `bytes_max` bytes, and tries the network on a text.
    ///
    /// A text runs on `threads` threads while it is the only one of its lane. Texts that run side by side have a thread each, since several
    /// texts on one thread each take less time than one after the other on all threads.
    ///
    /// Creates the session of the interactive lane; others are created at their first use. Each holds the weights. There are up to `threads`
    /// sessions of one thread, fewer where their weights were more than 256 MiB together.
    ///
    /// # Errors
    /// [`OnnxError`].
    pub fn load(
        folder: &Path,
        runtime: Runtime,
        threads: usize,
        bytes_max: u64,
    ) -> Result<OnnxModel, OnnxError> {
        let network = [folder.join("model.onnx"), folder.join("onnx").join("model.onnx")];
        let network = network
            .into_iter()
            .find(|path| path.is_file())
            .ok_or_else(|| OnnxError::NoNetwork { folder: folder.to_owned() })?;
        let external_model = ExternalModel::load(folder)?;
        let data_files = [network.with_extension("onnx_data"), network.with_extension("onnx.data")];
        let files: Vec<&Path> = std::iter::once(network.as_path())
            .chain(data_files.iter().map(PathBuf::as_path).filter(|path| path.is_file()))
            .collect();
        let bytes = files.iter().filter_map(|path| path.metadata().ok()).map(|metadata| metadata.len()).sum();
        if bytes > bytes_max {
            return Err(OnnxError::TooLarge { path: network, bytes, limit: bytes_max });
        }
        let fingerprint = ExternalModel::fingerprint(folder, &files, "onnx")?;
        let most = usize::try_from(SINGLE_SESSIONS_BYTES_MAX / bytes.max(1)).unwrap_or(usize::MAX);
        let single = if threads > 1 { threads.min(most) } else { 0 };
        let mut model = OnnxModel {
            external_model,
            runtime,
            network,
            fingerprint,
            threads,
            interactive: LaneSession::default(),
            bulk: LaneSession::default(),
            single: (0..single).map(|_| Mutex::default()).collect(),
        };
        let session = model.session(threads)?;
        model.check(&session)?;
        model.interactive.session = Mutex::new(Some(session));
        let ids = model.external_model.tokenizer().encode("").ids;
        model.embed(&[&ids], Lane::Interactive)?;
        Ok(model)
    }

    /// Replaces the dimensions, read from the files, that embeddings can be cut to; adds the full one.
    ///
    /// # Errors
    /// A dimension that is 0 or larger than the model's.
    pub fn with_dimensions(mut self, dimensions: &[usize]) -> Result<OnnxModel, OnnxError> {
        self.external_model = self.external_model.with_dimensions(dimensions)?;
        Ok(self)
    }

    /// Tokenizer, pooling and configuration.
    pub fn external_model(&self) -> &ExternalModel {
        &self.external_model
    }

    /// Hash of everything that affects embeddings, except the version of the runtime.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Embeds sequences of token ids from the model's tokenizer: `dimension` floats each, one after the other.
    ///
    /// # Errors
    /// [`OnnxError::Run`] and [`OnnxError::Shape`].
    pub fn embed(&self, sequences: &[&[u32]], lane: Lane) -> Result<Vec<f32>, OnnxError> {
        let lane = match lane {
            Lane::Interactive => &self.interactive,
            Lane::Bulk => &self.bulk,
        };
        let dimension = self.external_model.dimension();
        let mut out = vec![0.0; sequences.len() * dimension];
        for (ids, out) in sequences.iter().zip(out.chunks_exact_mut(dimension)) {
            // chosen per text, so that texts of other calls run in between
            let running = Running::new(&lane.running);
            let single = self.single.iter().filter(|_| !running.is_alone).find_map(|session| {
                match session.try_lock() {
                    Ok(session) => Some(session),
                    Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                    Err(TryLockError::WouldBlock) => None,
                }
            });
            let (mut session, threads) = match single {
                Some(session) => (session, 1),
                None => (lane.session.lock().unwrap_or_else(PoisonError::into_inner), self.threads),
            };
            let session = match &mut *session {
                Some(session) => session,
                none => none.insert(self.session(threads)?),
            };
            self.run(session, ids, out)?;
        }
        Ok(out)
    }

    fn failed(&self, reason: impl ToString) -> OnnxError {
        OnnxError::Run { path: self.network.clone(), reason: reason.to_string() }
    }

    fn shape(&self, reason: impl Into<String>) -> OnnxError {
        OnnxError::Shape { path: self.network.clone(), reason: reason.into() }
    }

    fn session(&self, threads: usize) -> Result<Session, OnnxError> {
        let build = || -> Result<Session, String> {
            let text = |error: &dyn std::fmt::Display| error.to_string();
            let mut builder = Session::builder(&self.runtime.environment)
                .map_err(|error| text(&error))?
                .with_intra_threads(threads)
                .map_err(|error| text(&error))?
                // idle threads must not occupy cores
                .with_intra_op_spinning(false)
                .map_err(|error| text(&error))?
                .with_optimization_level(GraphOptimizationLevel::All)
                .map_err(|error| text(&error))?;
            builder.commit_from_file(&self.network).map_err(|error| text(&error))
        };
        build().map_err(|reason| self.failed(reason))
    }

    fn check(&self, session: &Session) -> Result<(), OnnxError> {
        let inputs: Vec<&str> = session.inputs().iter().map(|input| input.name()).collect();
        if let Some(unknown) = inputs.iter().find(|name| !INPUTS.contains(name)) {
            return Err(self.shape(format!(
                "its input `{unknown}` is not one of `input_ids`, `attention_mask` and `token_type_ids`; \
                 export it for feature extraction"
            )));
        }
        if !inputs.contains(&INPUTS[0]) {
            return Err(self.shape("it has no input `input_ids`; export it for feature extraction"));
        }
        self.output(session).map(drop)
    }

    /// The name of the output with the last hidden rows.
    fn output(&self, session: &Session) -> Result<&'static str, OnnxError> {
        let has = |name: &&&str| session.outputs().iter().any(|output| output.name() == **name);
        OUTPUTS.iter().find(has).copied().ok_or_else(|| {
            self.shape(
                "it has no output `last_hidden_state`; export it for feature extraction, without pooling",
            )
        })
    }

    fn run(&self, session: &mut Session, ids: &[u32], out: &mut [f32]) -> Result<(), OnnxError> {
        let name = self.output(session)?;
        let count = ids.len();
        let ids: Vec<i64> = ids.iter().map(|id| i64::from(*id)).collect();
        let (mask, types) = (vec![1_i64; count], vec![0_i64; count]);
        let mut inputs = Vec::with_capacity(INPUTS.len());
        for input in session.inputs() {
            let values = match INPUTS.iter().position(|name| *name == input.name()) {
                Some(0) => &ids,
                Some(1) => &mask,
                _ => &types,
            };
            let tensor = TensorRef::from_array_view(([1, count], values.as_slice()))
                .map_err(|error| self.failed(error))?;
            inputs.push((input.name().to_owned(), tensor));
        }
        let outputs = session.run(inputs).map_err(|error| self.failed(error))?;
        let (shape, rows) =
            outputs[name].try_extract_tensor::<f32>().map_err(|error| self.shape(error.to_string()))?;
        let dimension = self.external_model.dimension();
        if rows.len() != count * dimension {
            let reason = format!(
                "`{name}` has the shape {:?} for {count} tokens, but `hidden_size` is {dimension} in `config.json`",
                &shape[..]
            );
            return Err(self.shape(reason));
        }
        self.external_model.pool(rows, out);
        // the weights are unknown, and so is whether every text gives numbers
        match out.iter().all(|x| x.is_finite()) {
            true => Ok(()),
            false => Err(OnnxError::NotFinite { path: self.network.clone() }),
        }
    }
}
