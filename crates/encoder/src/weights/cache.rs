//! The cache file of packed weights: made once, memory-mapped after.
//!
//! It is never trusted blindly. Its header names the files that it was made of (path, length, time of change), what it was
//! made for (precision, instruction set, format version), and the checksum of the weights; where anything differs, the
//! weights are packed anew from the checkpoint and the file is replaced. A cache that can't be written costs time and
//! memory, and nothing else.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use weir_kernels::{AlignedVec, Kernels};
use weir_mapped::{Mapped, uncache};

use super::layout::Layout;
use super::pack::pack;
use super::{Block, Weights};
use crate::config::{Network, SMALL_FILES, read_optional};
use crate::{LoadError, Precision};

const MAGIC: &[u8; 8] = b"WEIRPACK";

/// Rises with every change to the layout of weights or to how they are quantised.
const VERSION: u32 = 3;

/// Rises with every change to how weights or activations are quantised: embeddings are others then.
const QUANTISATION: u32 = 2;

/// The weights start here; the header stands before them, filled up with spaces.
const HEADER: usize = 4096;

const WEIGHTS_FILE: &str = "model.safetensors";

/// Weights, and the hash of all files that decide an embedding, together with the precision.
pub(crate) struct Loaded {
    pub(crate) weights: Weights,
    pub(crate) fingerprint: String,
    /// Why the weights could not be kept in the cache, if they should have been.
    pub(crate) cache_error: Option<io::Error>,
}

#[derive(PartialEq, Serialize, Deserialize)]
struct Header {
    version: u32,
    precision: String,
    isa: String,
    sources: Vec<Stamp>,
    fingerprint: String,
    len: usize,
    crc32: u32,
}

/// What a source file looked like when the cache was made.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
struct Stamp {
    path: PathBuf,
    /// `None`: it was not there.
    file: Option<(u64, u128)>,
}

/// The weights of the model in `folder`, from the cache folder if it has them, else packed and kept there.
pub(crate) fn load(
    folder: &Path,
    config: &Network,
    precision: Precision,
    kernels: &Kernels,
    cache: Option<&Path>,
) -> Result<Loaded, LoadError> {
    let path = folder.join(WEIGHTS_FILE);
    if !path.exists() {
        return Err(LoadError::Missing { path });
    }
    let layout = Layout::new(config, precision, kernels);
    let unreadable = |source| LoadError::Unreadable { path: path.clone(), source };
    let sources = stamps(folder).map_err(unreadable)?;
    let cached = cache.map(|cache| file_of(cache, folder, precision, kernels));
    if let Some((file, header)) = cached.as_deref().and_then(open)
        && header.sources == sources
        && (header.version, header.len) == (VERSION, layout.len)
        && (header.precision.as_str(), header.isa.as_str()) == (precision.name(), kernels.isa.name())
    {
        let weights = Weights { layout, block: Block::Mapped { file, start: HEADER } };
        return Ok(Loaded { weights, fingerprint: header.fingerprint, cache_error: None });
    }
    let file = Mapped::open(&path).map_err(|error| unreadable(io::Error::other(error)))?;
    let fingerprint = fingerprint(folder, precision, &file)?;
    let block = pack(&file, config, &layout, &path)?;
    drop(file);
    let header = |crc32| Header {
        version: VERSION,
        precision: precision.name().to_owned(),
        isa: kernels.isa.name().to_owned(),
        sources,
        fingerprint: fingerprint.clone(),
        len: layout.len,
        crc32,
    };
    let kept = cached.map(|cached| keep(&cached, header, &block));
    let (block, cache_error) = match kept {
        None => (Block::Owned(block), None),
        Some(Ok(file)) => (Block::Mapped { file, start: HEADER }, None),
        Some(Err(error)) => (Block::Owned(block), Some(error)),
    };
    Ok(Loaded { weights: Weights { layout, block }, fingerprint, cache_error })
}

/// One file for each folder, precision and instruction set.
fn file_of(cache: &Path, folder: &Path, precision: Precision, kernels: &Kernels) -> PathBuf {
    let full = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let name = full.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let place = blake3::hash(full.as_os_str().as_encoded_bytes()).to_hex();
    cache.join(format!("{name}-{}-{}-{}.packed", &place[..8], precision.name(), kernels.isa.name()))
}

fn stamps(folder: &Path) -> io::Result<Vec<Stamp>> {
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
        Ok(Stamp { path, file })
    };
    SMALL_FILES.iter().chain([&WEIGHTS_FILE]).map(|name| stamp(name)).collect()
}

/// The mapped file and its header, if it is whole.
fn open(path: &Path) -> Option<(Mapped, Header)> {
    let file = Mapped::open_in_large_pages(path).ok()?;
    let head = file.get(..HEADER)?.strip_prefix(MAGIC)?;
    let header: Header = serde_json::from_slice(head).ok()?;
    let is_whole = file.len() == HEADER + header.len && crc32fast::hash(&file[HEADER..]) == header.crc32;
    is_whole.then_some((file, header))
}

/// Writes the file under another name, syncs it, and puts it in its place; then maps it.
fn keep(path: &Path, header: impl FnOnce(u32) -> Header, block: &AlignedVec<u8>) -> io::Result<Mapped> {
    let mut head = MAGIC.to_vec();
    head.extend(serde_json::to_vec(&header(crc32fast::hash(block)))?);
    if head.len() > HEADER {
        return Err(io::Error::other("the names of the model's files are too long"));
    }
    head.resize(HEADER, b' ');
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let write = || {
        let mut file = File::create(&draft)?;
        file.write_all(&head)?;
        file.write_all(block)?;
        file.sync_all()?;
        uncache(&file);
        std::fs::rename(&draft, path)
    };
    if let Err(error) = write() {
        // a draft that can't be removed either is overwritten by the next try
        let _ = std::fs::remove_file(&draft);
        return Err(error);
    }
    Mapped::open_in_large_pages(path).map_err(io::Error::other)
}

/// Hash over all files that decide an embedding, framed by name and length, the precision, and how it quantises.
fn fingerprint(folder: &Path, precision: Precision, weights: &[u8]) -> Result<String, LoadError> {
    let mut hasher = blake3::Hasher::new();
    let mut add = |name: &str, bytes: &[u8]| {
        hasher.update(name.as_bytes()).update(&[0]).update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    for name in SMALL_FILES {
        if let Some(bytes) = read_optional(&folder.join(name))? {
            add(name, &bytes);
        }
    }
    add(WEIGHTS_FILE, weights);
    add("precision", precision.name().as_bytes());
    if precision == Precision::Int8 {
        add("quantisation", &QUANTISATION.to_le_bytes());
    }
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}
