//! The earlier generations of an index that other processes use too: removed when no gateway searches them any more.
//!
//! Where the next index is one that all use, all gateways search it as soon as they have looked at the store. Where each gateway fills its own, one can
//! need longer than another: as long as it searches the earlier one, it says so in the store.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_index::{EngineId, Engines};
use weir_store::{CollectionId, Store, UpkeepKind};

use crate::UpkeepError;

/// After this long without an announcement, no gateway searches an earlier generation: they read the store every ten seconds, even without notifications.
const SEARCHED_FOR: Duration = Duration::from_secs(30);

/// How often a gateway says that it searches one.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The state of the earlier generations of one index.
#[derive(Debug)]
pub struct Earlier(Mutex<EarlierState>);

#[derive(Debug)]
struct EarlierState {
    /// Whether there may be some.
    is_left: bool,
    /// The last revision of what gateways say, and since when it is the last one.
    quiet: Option<(Instant, u64)>,
    /// When this gateway has said that it searches one.
    told: Option<Instant>,
}

impl Earlier {
    /// `is_left`: whether there may be some.
    pub fn new(is_left: bool) -> Earlier {
        Earlier(Mutex::new(EarlierState { is_left, quiet: None, told: None }))
    }

    /// Whether there may be some.
    pub fn is_left(&self) -> bool {
        self.lock().is_left
    }

    /// Notes that there may be some.
    pub fn note_left(&self) {
        self.lock().is_left = true;
    }

    /// Says in the store that this gateway searches one, unless it has said so lately; whether it did.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn tell_searched(&self, store: &Store, id: CollectionId) -> weir_store::Result<bool> {
        if self.lock().told.is_some_and(|told| told.elapsed() < TELL_EVERY) {
            return Ok(false);
        }
        let revision = revision(store, id).await?;
        // if it has another revision by now, another gateway has said so
        store.replace_upkeep(id, UpkeepKind::EarlierSearched, revision, "").await?;
        self.lock().told = Some(Instant::now());
        Ok(true)
    }

    /// Removes those before `current`, which is complete, if there may be some. If `are_searched`, when no gateway has said for some time that it
    /// searches one: this is to be called again until then.
    ///
    /// # Errors
    /// Errors of the store and the engines.
    pub async fn remove(
        &self,
        engines: &Engines,
        current: EngineId,
        store: &Store,
        are_searched: bool,
    ) -> Result<(), UpkeepError> {
        let collection = current.collection;
        if !self.is_left() || are_searched && !self.is_quiet(revision(store, CollectionId(collection)).await?)
        {
            return Ok(());
        }
        for kind in engines.kinds().filter(|kind| kind.is_shared()) {
            for generation in engines.generations(kind, collection).await? {
                if generation < current.generation {
                    engines.delete(EngineId { kind, collection, generation }).await?;
                }
            }
        }
        self.lock().is_left = false;
        Ok(())
    }

    fn is_quiet(&self, revision: u64) -> bool {
        let (now, mut state) = (Instant::now(), self.lock());
        let quiet = state.quiet.get_or_insert((now, revision));
        if quiet.1 != revision {
            *quiet = (now, revision);
        }
        now - quiet.0 >= SEARCHED_FOR
    }

    fn lock(&self) -> MutexGuard<'_, EarlierState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn revision(store: &Store, id: CollectionId) -> weir_store::Result<u64> {
    let rows = store.upkeep(UpkeepKind::EarlierSearched).await?;
    Ok(rows.into_iter().find(|row| row.collection == id).map_or(0, |row| row.revision))
}
