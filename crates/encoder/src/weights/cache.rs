//! The cache file of packed weights: written once, then memory-mapped.
//!
//! Its header names the source files (path, length, modification time), precision, instruction set and format version, and has the
//! checksum of the weights. If anything differs, the weights are packed again from the checkpoint and the file is replaced. Without a
//! writable cache, every start packs the weights in memory.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use weir_kernels::{AlignedVec, Kernels};
use weir_mapped::ImmutableFile;

use super::layout::{ALIGNMENT, Layout};
use super::names::Names;
use super::pack::pack;
use super::source::Source;
use super::{Block, Weights};
use crate::config::{CONFIG_FILES, ModelConfig, TOKENIZER_BYTES_MAX, read_optional};
use crate::{LoadError, Precision};

const MAGIC: &[u8; 8] = b"WEIRPACK";

/// Incremented with every change of the layout of weights, their quantization, or the checks of a model that precede the file.
const VERSION: u32 = 4;

/// Incremented with every change of the quantization of weights or activations, which changes embeddings.
const QUANTIZATION: u32 = 2;

/// Bytes of the header, padded with spaces; the weights follow.
const HEADER_BYTES: usize = 4096;
const _: () = assert!(
    HEADER_BYTES.is_multiple_of(ALIGNMENT),
    "weights have the same alignment in the file as in memory"
);

pub(crate) const WEIGHTS_FILE: &str = "model.safetensors";

/// Bytes for each weight of a tensor while it is packed: as it is in the file, as a float, and packed.
const PACKING_BYTES: u128 = 12;

/// Weights, and the hash of the precision and all files that affect embeddings.
pub(crate) struct Loaded {
    pub(crate) weights: Weights,
    pub(crate) fingerprint: String,
    /// Whether they come from the checkpoint, and the model was not tried out before.
    pub(crate) is_new: bool,
    /// Where they are to be kept once the model is tried out.
    pub(crate) cache_file: Option<CacheFile>,
}

/// A cache file to be written.
pub(crate) struct CacheFile {
    path: PathBuf,
    header: Header,
}

impl CacheFile {
    pub(super) fn write(self, block: &AlignedVec<u8>) -> io::Result<Block> {
        let header = Header { crc32: crc32fast::hash(block), ..self.header };
        let file = write(&self.path, &header, block)?;
        Ok(Block::Mapped { file, start: HEADER_BYTES })
    }
}

#[derive(PartialEq, Serialize, Deserialize)]
struct Header {
    version: u32,
    precision: String,
    isa: String,
    sources: Vec<FileStamp>,
    fingerprint: String,
    len: usize,
    crc32: u32,
}

/// Metadata of a source file when the cache was written.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct FileStamp {
    path: PathBuf,
    /// Length and modification time in nanoseconds; `None` when the file does not exist.
    file: Option<(u64, u128)>,
}

/// Loads the weights of the model in `folder` from the cache folder, or packs them. Refuses models that need more than `bytes_max` bytes,
/// `working_bytes` of working memory included, before it allocates them.
pub(crate) fn load(
    folder: &Path,
    config: &ModelConfig,
    precision: Precision,
    kernels: &Kernels,
    cache: Option<&Path>,
    working_bytes: usize,
    bytes_max: u64,
) -> Result<Loaded, LoadError> {
    let network = &config.network;
    let path = folder.join(WEIGHTS_FILE);
    let source = Source::open(&path, Names::of(network.family).prefix)?;
    let sizes = source.check(network)?;
    let too_large = |needed| LoadError::TooLarge { folder: folder.to_owned(), needed, limit: bytes_max };
    let weights_min = sizes.weights * precision.bytes() as u128;
    if weights_min > u128::from(bytes_max) {
        return Err(too_large(weights_min));
    }
    let layout = Layout::new(network, precision, kernels);
    let needed = (layout.len + working_bytes) as u128 + sizes.largest * PACKING_BYTES;
    if needed > u128::from(bytes_max) {
        return Err(too_large(needed));
    }
    let unreadable = |source| LoadError::Unreadable { path: path.clone(), source };
    let sources = file_stamps(folder).map_err(unreadable)?;
    let cached = cache.map(|cache| cache_path(cache, folder, precision, kernels));
    if let Some((file, header)) = cached.as_deref().and_then(open)
        && header.sources == sources
        && (header.version, header.len) == (VERSION, layout.len)
        && (header.precision.as_str(), header.isa.as_str()) == (precision.name(), kernels.isa.name())
    {
        let weights = Weights { layout, block: Block::Mapped { file, start: HEADER_BYTES } };
        return Ok(Loaded { weights, fingerprint: header.fingerprint, is_new: false, cache_file: None });
    }
    let fingerprint = fingerprint(folder, precision, &path)?;
    let block = pack(&source, network, &layout)?;
    let header = Header {
        version: VERSION,
        precision: precision.name().to_owned(),
        isa: kernels.isa.name().to_owned(),
        sources,
        fingerprint: fingerprint.clone(),
        len: layout.len,
        crc32: 0,
    };
    let cache_file = cached.map(|path| CacheFile { path, header });
    let weights = Weights { layout, block: Block::Owned(block) };
    Ok(Loaded { weights, fingerprint, is_new: true, cache_file })
}

/// The path of the cache file: one for each folder, precision and instruction set.
fn cache_path(cache: &Path, folder: &Path, precision: Precision, kernels: &Kernels) -> PathBuf {
    let full = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = full.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let hash = blake3::hash(full.as_os_str().as_encoded_bytes()).to_hex();
    cache.join(format!("{name}-{}-{}-{}.packed", &hash[..8], precision.name(), kernels.isa.name()))
}

fn file_stamps(folder: &Path) -> io::Result<Vec<FileStamp>> {
    let stamp = |name: &str| {
        let path = folder.join(name);
        let path = path.canonicalize().unwrap_or(path);
        let file = match path.metadata() {
            Ok(metadata) => {
                let changed = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
                Some((metadata.len(), changed.as_nanos()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(FileStamp { path, file })
    };
    CONFIG_FILES.iter().chain([&WEIGHTS_FILE]).map(|name| stamp(name)).collect()
}

/// Maps the file; `None` when it is missing or damaged.
fn open(path: &Path) -> Option<(ImmutableFile, Header)> {
    let file = ImmutableFile::open(path).ok()?;
    let head = file.get(..HEADER_BYTES)?.strip_prefix(MAGIC)?;
    let header: Header = serde_json::from_slice(head).ok()?;
    let weights = &file[HEADER_BYTES..];
    let is_intact = weights.len() == header.len && crc32fast::hash(weights) == header.crc32;
    is_intact.then_some((file, header))
}

/// Writes the file, and maps it.
fn write(path: &Path, header: &Header, block: &AlignedVec<u8>) -> io::Result<ImmutableFile> {
    let mut head = MAGIC.to_vec();
    head.extend(serde_json::to_vec(header)?);
    if head.len() > HEADER_BYTES {
        return Err(io::Error::other("the paths of the model's files are too long for the header"));
    }
    head.resize(HEADER_BYTES, b' ');
    ImmutableFile::create(path, &[&head, block])
}

/// Hash of all files that affect embeddings, each framed by name and length, and of the precision and its quantization.
fn fingerprint(folder: &Path, precision: Precision, checkpoint: &Path) -> Result<String, LoadError> {
    let mut hasher = blake3::Hasher::new();
    fn frame<'a>(hasher: &'a mut blake3::Hasher, name: &str, len: u64) -> &'a mut blake3::Hasher {
        hasher.update(name.as_bytes()).update(&[0]).update(&len.to_le_bytes())
    }
    let add = |hasher: &mut _, name: &str, bytes: &[u8]| {
        frame(hasher, name, bytes.len() as u64).update(bytes);
    };
    for name in CONFIG_FILES {
        if let Some(bytes) = read_optional(&folder.join(name), TOKENIZER_BYTES_MAX)? {
            add(&mut hasher, name, &bytes);
        }
    }
    let unreadable = |source| LoadError::Unreadable { path: checkpoint.to_owned(), source };
    let file = File::open(checkpoint).map_err(unreadable)?;
    let len = file.metadata().map_err(unreadable)?.len();
    frame(&mut hasher, WEIGHTS_FILE, len).update_reader(file).map_err(unreadable)?;
    add(&mut hasher, "precision", precision.name().as_bytes());
    if precision == Precision::Int8 {
        add(&mut hasher, "quantisation", &QUANTIZATION.to_le_bytes());
    }
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}
