//! Keeps the open collections equal to those of a store that other gateways use too: what they create, change and delete appears here.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use weir_api::CollectionSettings;
use weir_policy::Caller;
use weir_store::{Change, Changes, Collection, CollectionId};

use crate::collections::{Collections, unreadable};
use crate::open_collection::{LexicalInForce, OpenCollection};
use weir_refusal::CollectionError;
use weir_upkeep::hide_deleted;

/// How often everything is checked, beside notifications.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// After how many looks judgments that other gateways were given are looked for.
const FEEDBACK_LOOKS: u32 = 6;

/// Follows the changes of the store until the gateway stops.
pub(crate) async fn run(collections: Collections, mut changes: Changes) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut looks: u32 = 0;
    loop {
        let mut told = tokio::select! {
            () = collections.0.stopping.cancelled() => return,
            change = changes.next() => match change {
                Some(change) => Told::of(change),
                None => return,
            },
            _ = look.tick() => {
                looks = looks.wrapping_add(1);
                Told { all: true, ..Told::default() }
            }
        };
        // changes come in bursts
        while let Some(change) = changes.try_next() {
            told.add(change);
        }
        if told.all {
            if let Err(error) = collections.follow_all().await {
                tracing::warn!(%error, "the collections of the store can't be read; it is tried again");
            }
            if looks.is_multiple_of(FEEDBACK_LOOKS) {
                collections.all(&Caller::system()).iter().for_each(|one| one.feedback_changed.notify_one());
            }
        }
        for collection in collections.all(&Caller::system()) {
            if told.all || told.operations.contains(&collection.id) {
                collection.look_again();
                if let Err(error) = collection.take_cancellation_requests().await {
                    tracing::warn!(collection = collection.name, %error, "cancellations can't be read");
                }
            }
        }
    }
}

/// Changes that are handled together.
#[derive(Debug, Default)]
struct Told {
    all: bool,
    operations: HashSet<CollectionId>,
}

impl Told {
    fn of(change: Change) -> Told {
        let mut told = Told::default();
        told.add(change);
        told
    }

    fn add(&mut self, change: Change) {
        match change {
            Change::Collections | Change::Unknown => self.all = true,
            Change::Operations(id) => drop(self.operations.insert(id)),
            Change::Keys => {}
        }
    }
}

impl Collections {
    /// Opens the collections that are in the store and not open, closes those that are open and not in the store, and takes over changes of the
    /// others. A collection that can't be opened is tried again the next time.
    async fn follow_all(&self) -> Result<(), CollectionError> {
        let _changing = self.0.changing.lock().await;
        if self.0.stopping.is_cancelled() {
            return Ok(());
        }
        let stored = self.0.store.collections(&Caller::system()).await?;
        for open in self.all(&Caller::system()) {
            let is_stored = stored.iter().any(|one| one.id == open.id);
            // the list is without damaged rows
            if !is_stored && !self.0.store.has_collection(open.id).await? {
                self.forget(&open).await?;
            }
        }
        for one in stored {
            let name = one.name.clone();
            let followed = match self.get(&Caller::system(), &name) {
                Some(open) if open.id == one.id => self.follow(&open, one).await,
                Some(_) => Ok(()),
                None if self.is_to_wait(&one) => Ok(()),
                None => self.open_if_it_fits(one).await,
            };
            if let Err(error) = followed
                && !error.is_engine_unavailable()
            {
                tracing::error!(collection = name, %error, "a collection of another gateway can't be opened");
            }
        }
        Ok(())
    }

    /// Closes a collection that was deleted.
    async fn forget(&self, open: &Arc<OpenCollection>) -> Result<(), CollectionError> {
        self.remove(&open.name);
        open.preparer.lease.take();
        open.close().await;
        // the gateway that has deleted it removes what all use, if it can
        self.delete_engines_of(&open.stored, false).await?;
        tracing::info!(collection = open.name, "the collection was deleted by another gateway");
        Ok(())
    }

    /// Opens a collection that another gateway has created, if this one has its model: it starts no generation of another model.
    pub(crate) async fn open_if_it_fits(&self, stored: Collection) -> Result<(), CollectionError> {
        let name = stored.name.clone();
        let own = self.fingerprint_for(&stored).await?;
        if own != stored.generation.fingerprint {
            let embedded_by = stored.generation.fingerprint;
            return Err(CollectionError::OtherModel { collection: name, embedded_by });
        }
        self.open_stored(stored).await?;
        tracing::info!(collection = name, "the collection was created by another gateway");
        Ok(())
    }

    /// Checks that this gateway has the model and the engine of another generation of a collection that it has open.
    async fn check_next_generation(
        &self,
        open: &OpenCollection,
        stored: &Collection,
        settings: &CollectionSettings,
    ) -> Result<(), CollectionError> {
        if self.fingerprint_for(stored).await? != stored.generation.fingerprint {
            let (collection, embedded_by) = (stored.name.clone(), stored.generation.fingerprint.clone());
            return Err(CollectionError::OtherModel { collection, embedded_by });
        }
        let prepared = self.prepare_engine(open, settings).await;
        if let Err(error) = &prepared
            && error.is_engine_unavailable()
        {
            tracing::warn!(collection = open.name, %error, "it is searched in the index of before until its next engine answers");
        }
        prepared
    }

    /// Takes over what another gateway has changed of a collection.
    async fn follow(&self, open: &Arc<OpenCollection>, stored: Collection) -> Result<(), CollectionError> {
        let name = stored.name.clone();
        let settings: CollectionSettings =
            serde_json::from_str(&stored.settings).map_err(|error| unreadable(&name, &error))?;
        if stored.generation.id != open.preparer.generation {
            if let Err(error) = self.check_next_generation(open, &stored, &settings).await {
                // what this gateway has stays searchable, without what was deleted
                let index_error = |source| CollectionError::Index { collection: name.clone(), source };
                let (engine, documents) = (open.serving().engine, &open.preparer.documents);
                hide_deleted(documents, &engine, engine.applied_seq(), index_error).await?;
                return Err(error);
            }
            tracing::info!(collection = name, "the collection is prepared again: its index is rebuilt");
            open.stop().await;
            self.reopen(open, stored).await?;
            return Ok(());
        }
        let lexical = settings.lexical.unwrap_or_default();
        if lexical != open.lexical().sent {
            open.set_lexical(LexicalInForce::new(lexical, open.language()));
        }
        Ok(())
    }
}
