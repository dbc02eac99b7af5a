//! An index whose files are open only while it is used.
//!
//! A gateway can have more collections than open files and memory for their indexes. [`OpenIndexes`] bounds how many are open; opening
//! one more closes the least recently used. The next use opens it again, which checks every byte. An index whose files were removed or
//! damaged meanwhile starts empty then: that use fails with [`IndexError::Lost`], and the store's operations are to be applied again.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use weir_ranking::relevance::{LearnedRelevance, LearnedSummary};

use super::Embedded;
use super::format::RebuildReason;
use super::head::{Head, Summary, sync_folder};
use crate::{EngineSettings, IndexError, Result};

/// Indexes that a start opens, at most: the first use opens the others, so that a start with many does not take long.
const OPENED_AT_START_MAX: usize = 32;

/// The indexes of a process whose files are open. Clones share the limit.
#[derive(Clone)]
pub struct OpenIndexes(Arc<Pool>);

struct Pool {
    max: usize,
    /// Advances with every use of an index.
    uses: AtomicU64,
    open: Mutex<Vec<Weak<Shared>>>,
}

/// An index that is opened when it is used. Its functions block, except those that say otherwise.
#[derive(Clone)]
pub(crate) struct OnDemand(Arc<Shared>);

struct Shared {
    folder: PathBuf,
    settings: EngineSettings,
    pool: OpenIndexes,
    /// Locked briefly.
    state: RwLock<OpenState>,
    /// Locked while the files are opened or closed.
    changing: Mutex<()>,
    /// The pool's count of uses at the last use.
    used: AtomicU64,
    learned: Mutex<Arc<LearnedRelevance>>,
}

enum OpenState {
    Open(Embedded),
    /// Opened again by the next use.
    Idle(Summary),
    /// Closed for good. Searches are still answered if it was open.
    Closed(Option<Embedded>, Summary),
}

impl OpenIndexes {
    /// Keeps at most `max` indexes open, and more while all of them are in use.
    pub fn new(max: usize) -> OpenIndexes {
        OpenIndexes(Arc::new(Pool { max, uses: AtomicU64::new(0), open: Mutex::default() }))
    }

    /// The number of open indexes.
    pub fn count(&self) -> usize {
        self.live(&mut lock(&self.0.open)).len()
    }

    /// Bytes of the cached results of filters in open indexes.
    pub fn filter_cache_bytes(&self) -> usize {
        let open = self.live(&mut lock(&self.0.open));
        let of_index = |index: &OnDemand| match &*index.0.state.read().unwrap_or_else(PoisonError::into_inner)
        {
            OpenState::Open(index) => index.filter_cache_bytes(),
            OpenState::Closed(..) | OpenState::Idle(_) => 0,
        };
        open.iter().map(of_index).sum()
    }

    /// The open indexes; forgets the others.
    fn live(&self, open: &mut Vec<Weak<Shared>>) -> Vec<OnDemand> {
        open.retain(|index| index.upgrade().is_some_and(|index| OnDemand(index).is_open()));
        open.iter().filter_map(Weak::upgrade).map(OnDemand).collect()
    }

    /// Adds an index that was opened, and closes the least recently used ones beyond the limit, except those in use.
    fn add(&self, opened: &OnDemand) {
        let mut others = {
            let mut open = lock(&self.0.open);
            let others = self.live(&mut open);
            open.push(Arc::downgrade(&opened.0));
            others
        };
        others.retain(|other| !Arc::ptr_eq(&other.0, &opened.0));
        let mut surplus = (others.len() + 1).saturating_sub(self.0.max);
        others.sort_by_key(|index| index.0.used.load(Ordering::Relaxed));
        for index in others {
            if surplus == 0 {
                return;
            }
            surplus -= usize::from(index.close_if_unused());
        }
    }
}

impl OnDemand {
    /// An index that was opened and stays open.
    pub(crate) fn of(index: Embedded) -> OnDemand {
        let (folder, settings) = (index.folder().to_owned(), index.settings().clone());
        let (state, pool) = (RwLock::new(OpenState::Open(index)), OpenIndexes::new(usize::MAX));
        let (changing, used, learned) = (Mutex::default(), AtomicU64::new(0), Mutex::default());
        OnDemand(Arc::new(Shared { folder, settings, pool, state, changing, used, learned }))
    }

    /// The index in `folder`, which is created if it is missing. Opened if few are open, or something has to be done: it cannot be used, and
    /// then the reason is returned, or operations up to `store_last_operation` are to be applied.
    pub(crate) fn start(
        folder: PathBuf,
        settings: EngineSettings,
        pool: OpenIndexes,
        store_last_operation: u64,
    ) -> Result<(OnDemand, Option<RebuildReason>)> {
        let is_opened = pool.count() < pool.0.max.min(OPENED_AT_START_MAX);
        let idle = if is_opened { None } else { Embedded::peek(&folder, &settings)? };
        let idle = idle.filter(|idle| idle.applied_seq == store_last_operation);
        let (state, rebuilt) = match idle {
            Some(idle) => (OpenState::Idle(idle), None),
            None => {
                let (index, rebuilt) = Embedded::open(&folder, settings.clone(), store_last_operation)?;
                (OpenState::Open(index), rebuilt)
            }
        };
        let used = AtomicU64::new(pool.0.uses.fetch_add(1, Ordering::Relaxed));
        let state = RwLock::new(state);
        let learned = Mutex::default();
        let shared = Shared { folder, settings, pool, state, changing: Mutex::default(), used, learned };
        let index = OnDemand(Arc::new(shared));
        if index.is_open() {
            index.0.pool.add(&index);
        }
        Ok((index, rebuilt))
    }

    /// The index, if it is open; `None` if [`OnDemand::open`] has to open it. Does not block.
    pub(crate) fn if_open(&self) -> Result<Option<Embedded>> {
        let index = match &*self.0.state.read().unwrap_or_else(PoisonError::into_inner) {
            OpenState::Open(index) => index.clone(),
            OpenState::Closed(Some(index), _) => return Ok(Some(index.clone())),
            OpenState::Idle(_) => return Ok(None),
            OpenState::Closed(None, _) => return Err(IndexError::Closed),
        };
        let uses = self.0.pool.0.uses.fetch_add(1, Ordering::Relaxed);
        self.0.used.store(uses, Ordering::Relaxed);
        Ok(Some(index))
    }

    /// The index, opened if it is not.
    pub(crate) fn open(&self) -> Result<Embedded> {
        if let Some(index) = self.if_open()? {
            return Ok(index);
        }
        let _changing = lock(&self.0.changing);
        if let Some(index) = self.if_open()? {
            return Ok(index);
        }
        let known = self.summary();
        let (mut index, mut rebuilt) = self.open_files(known.applied_seq)?;
        if rebuilt.is_none() && index.summary().read_to != known.read_to {
            index.abandon();
            drop(index);
            Head::remove(&self.0.folder)?;
            (index, _) = self.open_files(known.applied_seq)?;
            rebuilt = Some(RebuildReason::History);
        }
        index.set_learned_relevance(lock(&self.0.learned).clone());
        self.set(OpenState::Open(index.clone()));
        let _ = self.if_open();
        self.0.pool.add(self);
        if index.applied_seq() < known.applied_seq {
            let reason =
                rebuilt.map_or_else(|| "it is older than it was".to_owned(), |reason| reason.to_string());
            return Err(IndexError::Lost { folder: self.0.folder.clone(), reason });
        }
        Ok(index)
    }

    fn open_files(&self, store_last_operation: u64) -> Result<(Embedded, Option<RebuildReason>)> {
        Embedded::open(&self.0.folder, self.0.settings.clone(), store_last_operation)
    }

    /// Runs `work` on the index. When that shows that files were removed or damaged, they are opened again: checked, and emptied if they
    /// cannot be used.
    pub(crate) fn run<T>(&self, work: impl FnOnce(&Embedded) -> Result<T>) -> Result<T> {
        let index = self.open()?;
        let result = work(&index);
        self.checked(&index, result)
    }

    /// The result of reading or writing the index. If bytes that were read were not those of the files, or the result is an error because
    /// of their content, they are opened again.
    pub(crate) fn checked<T>(&self, index: &Embedded, result: Result<T>) -> Result<T> {
        match index.check_reads().and(result) {
            Err(error) if error.is_damage() => Err(self.reopen(index).err().unwrap_or(error)),
            result => result,
        }
    }

    /// Closes the files of `damaged`, of which one was removed or damaged, and opens them again. Does nothing if another call has.
    fn reopen(&self, damaged: &Embedded) -> Result<()> {
        let removals = {
            let _changing = lock(&self.0.changing);
            if !self.is_current(damaged) {
                return Ok(());
            }
            // first, so that later removals are made in the next index
            self.set(OpenState::Idle(damaged.summary()));
            damaged.abandon()
        };
        // an empty index has nothing to remove
        self.open().and_then(|index| remove_all(&index, &removals))
    }

    /// Whether this is the open index: no other call has closed it.
    pub(crate) fn is_current(&self, index: &Embedded) -> bool {
        match &*self.0.state.read().unwrap_or_else(PoisonError::into_inner) {
            OpenState::Open(current) | OpenState::Closed(Some(current), _) => current.is_same(index),
            OpenState::Idle(_) | OpenState::Closed(None, _) => false,
        }
    }

    /// Whether [`OnDemand::compact`] has something to remove, and the last time was at least `interval` ago. Reads at most the time of a file.
    pub(crate) fn is_compaction_due(&self, interval: Duration) -> bool {
        self.summary().counts.deleted_chunks > 0
            && Embedded::age(&self.0.folder).is_some_and(|age| age >= interval)
    }

    /// Replaces the files by new ones without what was deleted. Searches go on meanwhile; no batch may be applied. `false` if that was
    /// not possible, because a removal waits for its batch.
    pub(crate) fn compact(&self) -> Result<bool> {
        let index = self.open()?;
        let target = self.0.folder.with_extension("compact");
        remove_folder(&target)?;
        let copied = index.copy_live(&target);
        let copied = self.checked(&index, copied)?;
        let removals = {
            let _changing = lock(&self.0.changing);
            if !self.is_current(&index) || !self.is_open() || index.applied_seq() != copied {
                remove_folder(&target)?;
                return Ok(false);
            }
            self.set(OpenState::Idle(index.summary()));
            let removals = index.abandon();
            // after a crash between these, the index is rebuilt from the store
            remove_folder(&self.0.folder)?;
            std::fs::rename(&target, &self.0.folder).map_err(IndexError::file("rename", &target))?;
            if let Some(parent) = self.0.folder.parent() {
                sync_folder(parent)?;
            }
            removals
        };
        remove_all(&self.open()?, &removals)?;
        Ok(true)
    }

    /// Empties the index, to be filled again from the store.
    pub(crate) fn discard(&self) -> Result<()> {
        let index = self.open()?;
        Head::remove(&self.0.folder)?;
        self.reopen(&index)
    }

    /// Checks that the files still exist and have their lengths; if not, as [`OnDemand::reopen`]. Reads no content.
    pub(crate) fn check_files(&self) -> Result<()> {
        let (open, idle) = match &*self.0.state.read().unwrap_or_else(PoisonError::into_inner) {
            OpenState::Open(index) => (Some(index.clone()), None),
            OpenState::Idle(summary) => (None, Some(*summary)),
            OpenState::Closed(..) => return Ok(()),
        };
        match (open, idle) {
            (Some(index), _) if !index.has_its_files() || index.check_reads().is_err() => self.reopen(&index),
            (None, Some(idle)) => match Embedded::peek(&self.0.folder, &self.0.settings)? {
                Some(found) if (found.applied_seq, found.read_to) == (idle.applied_seq, idle.read_to) => {
                    Ok(())
                }
                Some(_) | None => self.open().map(drop),
            },
            _ => Ok(()),
        }
    }

    /// Closes the files for good. See [`Embedded::close`].
    pub(crate) fn close(&self) -> Result<()> {
        let _changing = lock(&self.0.changing);
        let Ok(index) = self.if_open() else { return Ok(()) };
        self.set(OpenState::Closed(index.clone(), self.summary()));
        index.map_or(Ok(()), |index| index.close())
    }

    /// See [`crate::Engine::set_learned_relevance`].
    pub(crate) fn set_learned_relevance(&self, learned: LearnedRelevance) {
        let mut current = lock(&self.0.learned);
        *current = Arc::new(learned);
        if let Ok(Some(index)) = self.if_open() {
            index.set_learned_relevance(current.clone());
        }
    }

    /// See [`crate::Engine::learned_relevance`]. Does not block: of an index that is not open, what searches have taught is 0.
    pub(crate) fn learned_relevance(&self) -> (LearnedSummary, (f32, f32)) {
        let baseline = self.if_open().ok().flatten().map(|index| index.baseline_deviation());
        (lock(&self.0.learned).summary(), baseline.unwrap_or_default())
    }

    /// See [`crate::Engine::applied_seq`]. Does not block.
    pub(crate) fn applied_seq(&self) -> u64 {
        self.summary().applied_seq
    }

    /// The summary of the index, whether it is open or not. Does not block.
    pub(crate) fn summary(&self) -> Summary {
        match &*self.0.state.read().unwrap_or_else(PoisonError::into_inner) {
            // removals are made in an index that is closed, too
            OpenState::Open(index) | OpenState::Closed(Some(index), _) => index.summary(),
            OpenState::Idle(summary) | OpenState::Closed(None, summary) => *summary,
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// Values per embedding.
    pub(crate) fn dimension(&self) -> usize {
        self.0.settings.dimension
    }

    /// See [`crate::Engine::disk_bytes`].
    pub(crate) fn disk_bytes(&self) -> Result<u64> {
        Embedded::disk_bytes_of(&self.0.folder)
    }

    fn is_open(&self) -> bool {
        matches!(&*self.0.state.read().unwrap_or_else(PoisonError::into_inner), OpenState::Open(_))
    }

    fn set(&self, state: OpenState) {
        *self.0.state.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// Closes the files until the next use; `false` if something uses them, or removals of [`Embedded::remove_now`] wait for their batch.
    fn close_if_unused(&self) -> bool {
        let Ok(_changing) = self.0.changing.try_lock() else { return false };
        let index = {
            let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
            let OpenState::Open(index) = &*state else { return true };
            let index = index.clone();
            *state = OpenState::Idle(index.summary());
            index
        };
        if !index.is_unused() {
            self.set(OpenState::Open(index));
            return false;
        }
        // what is not written is computed again when the index is opened
        let _ = index.close();
        true
    }
}

/// Makes the removals again that waited for their batch.
fn remove_all(index: &Embedded, removals: &HashMap<String, u64>) -> Result<()> {
    removals.iter().try_for_each(|(id, operation)| index.remove_now(id, *operation).map(drop))
}

pub(crate) fn remove_folder(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(IndexError::file("remove folder", folder)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Ignores poisoning: what the locks guard is replaced in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
