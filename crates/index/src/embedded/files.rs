//! The append-only files of a folder: one writer writes them, every snapshot maps them.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crc32fast::Hasher;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSlice;
use weir_mapped::{AppendOnlyFile, Mapped, MappedError};

use super::head::FileState;
use crate::{IndexError, Result};

const DOCUMENTS: &str = "documents";
const TEXTS: &str = "texts";
/// Chunk records; the name is that of format 4.
const CHUNKS: &str = "slots";
const VECTORS_I8: &str = "vectors.i8";
const VECTORS_SCALE: &str = "vectors.scale";
const VECTORS_F16: &str = "vectors.f16";
/// Half-precision files up to this size (80,000 chunks of the default model) are mapped.
const F16_MAPPED_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a task of the parallel verification.
const VERIFIED_BYTES: usize = 8 << 20;

/// All names, in the order of the head.
pub(crate) const ALL: &[&str] = &[DOCUMENTS, TEXTS, CHUNKS, VECTORS_I8, VECTORS_SCALE, VECTORS_F16];

/// The files of a generation in the order of the head; a text-only one has no vectors.
pub(crate) fn names(dimension: usize) -> &'static [&'static str] {
    if dimension == 0 { &ALL[..3] } else { ALL }
}

/// The committed part of every file, for reading.
#[derive(Debug)]
pub(crate) struct MappedFiles {
    pub(crate) documents: AppendOnlyFile,
    pub(crate) texts: ReadFile,
    pub(crate) chunks: AppendOnlyFile,
    /// Absent in a text-only collection.
    pub(crate) vectors: Option<MappedVectors>,
}

/// One row per chunk id in each file.
#[derive(Debug)]
pub(crate) struct MappedVectors {
    /// Int8 values, -127..=127.
    pub(crate) i8: AppendOnlyFile,
    /// One f32 per row: the scale of its int8 values.
    pub(crate) scales: AppendOnlyFile,
    /// Values in half precision.
    pub(crate) f16: ReadFile,
}

impl MappedFiles {
    /// Maps the committed part of each file; `states` are in the order of [`names`].
    pub(crate) fn open(folder: &Path, states: &[FileState]) -> Result<MappedFiles> {
        let map = |name, state: &FileState| AppendOnlyFile::open(folder.join(name), state.len);
        let read =
            |name, state: &FileState, mapped_max| ReadFile::open(folder.join(name), state.len, mapped_max);
        let wrong = || IndexError::damaged(folder, "file `head` lists other files");
        let vectors = match states {
            [_, _, _] => None,
            [_, _, _, i8, scales, f16] => Some(MappedVectors {
                i8: map(VECTORS_I8, i8)?,
                scales: map(VECTORS_SCALE, scales)?,
                f16: read(VECTORS_F16, f16, F16_MAPPED_BYTES_MAX)?,
            }),
            _ => return Err(wrong()),
        };
        let [documents, texts, chunks, ..] = states else { return Err(wrong()) };
        Ok(MappedFiles {
            documents: map(DOCUMENTS, documents)?,
            texts: read(TEXTS, texts, 0)?,
            chunks: map(CHUNKS, chunks)?,
            vectors,
        })
    }
}

impl MappedFiles {
    /// Checks that all bytes that were read so far were those of the files: see [`Mapped::check`].
    pub(crate) fn check(&self) -> Result<()> {
        let vectors = self.vectors.iter().flat_map(|vectors| {
            [Some(&*vectors.i8), Some(&*vectors.scales), vectors.f16.as_mapped()].into_iter().flatten()
        });
        let others = [Some(&*self.documents), Some(&*self.chunks), self.texts.as_mapped()];
        Ok(others.into_iter().flatten().chain(vectors).try_for_each(Mapped::check)?)
    }

    /// Checks the checksums of all files; `states` are those they were opened with. Parallel.
    ///
    /// The check also faults in the pages that every search reads, so that the first searches do not wait for them. Files that are
    /// read and not mapped are mapped for the check only, so that their pages do not count as memory of the process.
    pub(crate) fn verify(&self, folder: &Path, states: &[FileState]) -> Result<()> {
        let check = |(name, state): (&&str, &FileState)| {
            let transient;
            let file: &Mapped = match (*name, &self.vectors) {
                (DOCUMENTS, _) => &self.documents,
                (CHUNKS, _) => &self.chunks,
                (VECTORS_I8, Some(vectors)) => &vectors.i8,
                (VECTORS_SCALE, Some(vectors)) => &vectors.scales,
                _ => {
                    transient = AppendOnlyFile::open(folder.join(name), state.len)?;
                    &transient
                }
            };
            verify(file, *state)
        };
        ALL.iter().zip(states).collect::<Vec<_>>().into_par_iter().try_for_each(check)
    }
}

/// Checks the checksum of a file that was mapped with the length of `state`. Parallel.
fn verify(file: &Mapped, state: FileState) -> Result<()> {
    let checksum = |bytes: &[u8]| {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher
    };
    let parts: Vec<Hasher> = file.par_chunks(VERIFIED_BYTES).map(checksum).collect();
    let mut all = Hasher::new();
    parts.iter().for_each(|part| all.combine(part));
    match all.finalize() {
        actual if actual == state.crc => Ok(()),
        actual => {
            let path = file.path().to_owned();
            Err(MappedError::Checksum { path, expected: state.crc, actual }.into())
        }
    }
}

/// A file of which a search reads a few places. A large one is read, not mapped: mapped pages, also those around the ones needed,
/// count as memory of the process, and in the end the whole file would. A small one is mapped: a system call takes longer than copying
/// what it would read, and a mapping needs no descriptor.
#[derive(Debug)]
pub(crate) enum ReadFile {
    Mapped(AppendOnlyFile),
    Read { file: File, len: u64 },
}

impl ReadFile {
    /// Opens a file of at least `len` bytes and ignores the rest; maps it if `len` is at most `mapped_max`.
    fn open(path: PathBuf, len: u64, mapped_max: u64) -> Result<ReadFile> {
        if len <= mapped_max {
            return Ok(ReadFile::Mapped(AppendOnlyFile::open(&path, len)?));
        }
        let file = File::open(&path).map_err(IndexError::file("open", &path))?;
        let actual = file.metadata().map_err(IndexError::file("read", &path))?.len();
        if actual < len {
            return Err(MappedError::Length { path, expected: len, actual }.into());
        }
        Ok(ReadFile::Read { file, len })
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            ReadFile::Mapped(map) => map.len() as u64,
            ReadFile::Read { len, .. } => *len,
        }
    }

    /// The whole content; `None` if the file is not mapped.
    pub(crate) fn mapped(&self) -> Option<&[u8]> {
        self.as_mapped().map(|map| &map[..])
    }

    fn as_mapped(&self) -> Option<&Mapped> {
        match self {
            ReadFile::Mapped(map) => Some(map),
            ReadFile::Read { .. } => None,
        }
    }

    /// Fills `bytes` from offset `start`; `None` beyond the end.
    pub(crate) fn read_into(&self, start: u64, bytes: &mut [u8]) -> Option<()> {
        let end = start.checked_add(bytes.len() as u64)?;
        match self {
            ReadFile::Mapped(map) => {
                bytes.copy_from_slice(map.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?);
                Some(())
            }
            ReadFile::Read { len, .. } if end > *len => None,
            ReadFile::Read { file, .. } => file.read_exact_at(bytes, start).ok(),
        }
    }
}

/// The append-only files, for writing.
#[derive(Debug)]
pub(crate) struct AppendFiles {
    pub(crate) documents: AppendFile,
    pub(crate) texts: AppendFile,
    pub(crate) chunks: AppendFile,
    /// Absent in a text-only collection.
    pub(crate) vectors: Option<AppendVectors>,
}

/// The vector files, for writing.
#[derive(Debug)]
pub(crate) struct AppendVectors {
    pub(crate) i8: AppendFile,
    pub(crate) scales: AppendFile,
    pub(crate) f16: AppendFile,
}

impl AppendFiles {
    /// Creates empty files.
    pub(crate) fn create(folder: &Path, dimension: usize) -> Result<AppendFiles> {
        for name in names(dimension) {
            let path = folder.join(name);
            File::create(&path).map_err(IndexError::file("create", &path))?;
        }
        AppendFiles::open(folder, &vec![FileState::default(); names(dimension).len()])
    }

    /// Opens the files for writing and truncates them to their committed lengths.
    pub(crate) fn open(folder: &Path, states: &[FileState]) -> Result<AppendFiles> {
        let open = |name, state: &FileState| AppendFile::open(folder.join(name), *state);
        let wrong = || IndexError::damaged(folder, "file `head` lists other files");
        let vectors = match states {
            [_, _, _] => None,
            [_, _, _, i8, scales, f16] => Some(AppendVectors {
                i8: open(VECTORS_I8, i8)?,
                scales: open(VECTORS_SCALE, scales)?,
                f16: open(VECTORS_F16, f16)?,
            }),
            _ => return Err(wrong()),
        };
        let [documents, texts, chunks, ..] = states else { return Err(wrong()) };
        Ok(AppendFiles {
            documents: open(DOCUMENTS, documents)?,
            texts: open(TEXTS, texts)?,
            chunks: open(CHUNKS, chunks)?,
            vectors,
        })
    }

    /// Writes buffers, syncs all files, and returns their states for the head.
    pub(crate) fn sync(&mut self) -> Result<Vec<FileState>> {
        self.all().into_iter().map(AppendFile::sync).collect()
    }

    /// Truncates the files to `states`.
    pub(crate) fn cut(&mut self, states: &[FileState]) -> Result<()> {
        self.all().into_iter().zip(states).try_for_each(|(file, state)| file.cut(*state))
    }

    /// Whether all files exist with their lengths.
    pub(crate) fn exist(&self) -> bool {
        let vectors = self.vectors.iter().flat_map(|vectors| [&vectors.i8, &vectors.scales, &vectors.f16]);
        [&self.documents, &self.texts, &self.chunks].into_iter().chain(vectors).all(AppendFile::exists)
    }

    fn all(&mut self) -> Vec<&mut AppendFile> {
        let mut all = vec![&mut self.documents, &mut self.texts, &mut self.chunks];
        if let Some(vectors) = &mut self.vectors {
            all.extend([&mut vectors.i8, &mut vectors.scales, &mut vectors.f16]);
        }
        all
    }
}

/// An append-only file, with the running checksum of all its bytes. It is open between the first write of a batch and its sync.
#[derive(Debug)]
pub(crate) struct AppendFile {
    path: PathBuf,
    file: Option<File>,
    /// Not yet written.
    buffer: Vec<u8>,
    /// Length including the buffer.
    len: u64,
    hasher: Hasher,
    unsynced: bool,
}

/// The buffer is written when it reaches this size.
const BUFFER_BYTES: usize = 1 << 20;

impl AppendFile {
    fn open(path: PathBuf, state: FileState) -> Result<AppendFile> {
        let mut opened = AppendFile {
            path,
            file: None,
            buffer: Vec::new(),
            len: 0,
            hasher: Hasher::new(),
            unsynced: false,
        };
        opened.cut(state)?;
        Ok(opened)
    }

    /// Offset of the next byte.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.len += bytes.len() as u64;
        self.unsynced = true;
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let written = self.len - self.buffer.len() as u64;
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open_of_len(written)?,
        };
        let file = self.file.insert(file);
        file.write_all(&self.buffer).map_err(IndexError::file("write to", &self.path))?;
        self.buffer = Vec::new();
        Ok(())
    }

    fn sync(&mut self) -> Result<FileState> {
        self.write_out()?;
        if self.unsynced {
            let file = match self.file.take() {
                Some(file) => file,
                None => self.open_of_len(self.len)?,
            };
            file.sync_data().map_err(IndexError::file("sync", &self.path))?;
            self.unsynced = false;
        }
        Ok(FileState { len: self.len, crc: self.hasher.clone().finalize() })
    }

    /// Opens the file, which must have the length that was written.
    fn open_of_len(&self, len: u64) -> Result<File> {
        let (file, actual) = self.open_file()?;
        match actual == len {
            true => Ok(file),
            false => Err(MappedError::Length { path: self.path.clone(), expected: len, actual }.into()),
        }
    }

    fn open_file(&self) -> Result<(File, u64)> {
        let path = &self.path;
        let file = OpenOptions::new().append(true).open(path).map_err(IndexError::file("open", path))?;
        let actual = file.metadata().map_err(IndexError::file("read", path))?.len();
        Ok((file, actual))
    }

    fn cut(&mut self, state: FileState) -> Result<()> {
        let (file, actual) = self.open_file()?;
        if actual < state.len {
            return Err(MappedError::Length { path: self.path.clone(), expected: state.len, actual }.into());
        }
        if actual > state.len {
            file.set_len(state.len).map_err(IndexError::file("cut", &self.path))?;
            self.unsynced = true;
        }
        self.file = None;
        self.buffer = Vec::new();
        self.len = state.len;
        self.hasher = Hasher::new_with_initial_len(state.crc, state.len);
        Ok(())
    }

    /// Whether the file exists, and is at least as long as what was written.
    fn exists(&self) -> bool {
        let written = self.len - self.buffer.len() as u64;
        std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() >= written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_checksum_covers_the_whole_file_also_after_truncation() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = AppendFiles::create(folder.path(), 0).unwrap();
        files.texts.append(b"1234").unwrap();
        let first = files.sync().unwrap();
        files.texts.append(b"lost").unwrap();
        files.sync().unwrap();
        drop(files);

        let mut files = AppendFiles::open(folder.path(), &first).unwrap();
        files.texts.append(b"also lost").unwrap();
        files.cut(&first).unwrap();
        files.texts.append(b"56789").unwrap();
        assert_eq!(files.texts.len(), 9);
        let states = files.sync().unwrap();

        assert_eq!(states[1], FileState { len: 9, crc: 0xcbf4_3926 });
        let texts = MappedFiles::open(folder.path(), &states).unwrap().texts;
        let mut read = [0; 9];
        texts.read_into(0, &mut read).unwrap();
        assert_eq!(&read, b"123456789");
        assert_eq!(texts.read_into(1, &mut read), None);
        assert_eq!(std::fs::read(folder.path().join(TEXTS)).unwrap(), b"123456789");
    }

    #[test]
    fn a_checksum_of_several_parts_is_that_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..2 * VERIFIED_BYTES + 5).map(|i| (i / 3) as u8).collect();
        let path = folder.path().join("file");
        std::fs::write(&path, &bytes).unwrap();
        let state = FileState { len: bytes.len() as u64, crc: crc32fast::hash(&bytes) };
        let file = AppendOnlyFile::open(&path, state.len).unwrap();
        verify(&file, state).unwrap();
        let error = verify(&file, FileState { crc: !state.crc, ..state }).unwrap_err();
        assert!(matches!(
            error,
            IndexError::Mapped(MappedError::Checksum { expected, actual, .. })
                if (expected, actual) == (!state.crc, state.crc)
        ));
    }

    #[test]
    fn a_text_only_folder_has_no_vector_files() {
        let folder = tempfile::tempdir().unwrap();
        AppendFiles::create(folder.path(), 0).unwrap();
        assert!(!folder.path().join(VECTORS_I8).exists());
        AppendFiles::create(folder.path(), 2).unwrap();
        assert!(folder.path().join(VECTORS_I8).exists());
    }
}
