//! Collections whose index is not of this process alone. While their engine does not answer they wait to be opened; what deleted collections have
//! left in it is removed when it answers again; and generations that no gateway searches any more are removed.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use weir_api::{
    CollectionReply, CollectionSettings, CollectionStatus, EngineChoice, ErrorCode, Invalid, LexicalSettings,
    require,
};
use weir_index::{Change, EngineKind, HistoryPoint, IndexError, features};
use weir_policy::Caller;
use weir_refusal::{CollectionError, RequestError};
use weir_store::{Collection, CollectionId};

use crate::Result;
use crate::collections::Collections;
use crate::ingest::IngestError;
use crate::open_collection::OpenCollection;

/// How often the engine is asked for what waits.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where the index of a collection is.
pub(crate) fn kind_of(settings: &CollectionSettings) -> EngineKind {
    match settings.engine {
        None | Some(EngineChoice::Embedded) => EngineKind::Embedded,
        Some(EngineChoice::Qdrant) => EngineKind::Qdrant,
    }
}

/// Collections that are opened when their engine answers, by name.
#[derive(Default)]
pub(crate) struct Waiting(RwLock<BTreeMap<String, Collection>>);

impl Waiting {
    fn all(&self) -> Vec<Collection> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    pub(crate) fn get(&self, caller: &Caller, name: &str) -> Option<Collection> {
        let waiting = self.0.read().unwrap_or_else(PoisonError::into_inner);
        waiting.get(name).filter(|_| caller.sees(name)).cloned()
    }

    pub(crate) fn add(&self, stored: Collection) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(stored.name.clone(), stored);
    }

    pub(crate) fn remove(&self, name: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

/// Opens what waits and removes what is left of deleted collections, until the gateway stops.
pub(crate) async fn keep_up(collections: Collections) {
    let inner = &collections.0;
    let mut reason = None;
    loop {
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if inner.waiting.all().is_empty() && !inner.has_leftovers.load(Ordering::Relaxed) {
            continue;
        }
        // without the lock: nobody waits for an engine that does not answer
        if let Err(error) = inner.engines.check_shared().await {
            let now = error.to_string();
            if reason.as_ref() != Some(&now) {
                tracing::error!(%error, "collections wait for their engine");
                reason = Some(now);
            }
            continue;
        }
        reason = None;
        collections.open_waiting().await;
        if inner.has_leftovers.swap(false, Ordering::Relaxed)
            && let Err(error) = collections.remove_leftovers().await
        {
            tracing::warn!(%error, "what deleted collections have left in their engine is removed later");
            inner.has_leftovers.store(true, Ordering::Relaxed);
        }
    }
}

impl Collections {
    /// The refusal of a request for a collection that is not open.
    pub(crate) fn absence(&self, caller: &Caller, name: &str) -> RequestError {
        self.check_waiting(caller, name).err().map_or_else(|| RequestError::no_collection(name), Into::into)
    }

    /// Refuses a collection that waits for its engine.
    pub(crate) fn check_waiting(&self, caller: &Caller, name: &str) -> Result<(), CollectionError> {
        match self.0.waiting.get(caller, name) {
            Some(stored) => Err(CollectionError::Waiting { collection: stored.name }),
            None => Ok(()),
        }
    }

    /// Whether a collection, as the store has it, waits for its engine.
    pub(crate) fn is_to_wait(&self, stored: &Collection) -> bool {
        let settings = serde_json::from_str::<CollectionSettings>(&stored.settings);
        self.0.waiting.get(&Caller::system(), &stored.name).is_some()
            && settings.is_ok_and(|settings| kind_of(&settings).is_shared())
    }

    /// The collections that `caller` sees and that wait for their engine, as the API shows them.
    pub(crate) fn waiting(&self, caller: &Caller) -> Vec<CollectionReply> {
        let all = self.0.waiting.all().into_iter().filter(|stored| caller.sees(&stored.name));
        all.filter_map(|stored| {
            let settings = serde_json::from_str::<CollectionSettings>(&stored.settings).ok()?;
            let model = self.model_for(&settings).ok().flatten().map(|model| model.id.clone());
            Some(CollectionReply {
                name: stored.name,
                document_count: 0,
                chunk_count: 0,
                model,
                settings,
                status: CollectionStatus::Unavailable,
                rebuilt: None,
                created_at: stored.created_at,
            })
        })
        .collect()
    }

    /// Refuses settings that the engine they name does not have, and an engine that this gateway does not have.
    pub(crate) fn check_engine(&self, settings: &CollectionSettings) -> Result<(), Invalid> {
        let kind = kind_of(settings);
        require(
            self.0.engines.has(kind),
            &["engine"],
            || "`engine` is `qdrant`, and this gateway has no Qdrant cluster; name its nodes in the setting `qdrant.urls`, or leave out `engine`",
        )?;
        if settings.lexical.as_ref().is_none_or(LexicalSettings::is_default) {
            return Ok(());
        }
        features::check_lexical_settings(kind)
            .map_err(|error| Invalid::at(ErrorCode::InvalidParameter, &["lexical"], error.to_string()))
    }

    async fn open_waiting(&self) {
        for stored in self.0.waiting.all() {
            let name = stored.name.clone();
            if let Err(error) = self.open_if_stored(stored).await
                && !error.is_engine_unavailable()
            {
                tracing::error!(collection = name, %error, "a collection that waits for its engine can't be opened");
            }
        }
    }

    /// Opens a collection that waits, as the store has it now.
    async fn open_if_stored(&self, waiting: Collection) -> Result<(), CollectionError> {
        let _changing = self.0.changing.lock().await;
        if self.0.stopping.is_cancelled() || self.0.waiting.get(&Caller::system(), &waiting.name).is_none() {
            return Ok(());
        }
        let all = self.0.store.collections(&Caller::system()).await?;
        let Some(stored) = all.into_iter().find(|stored| stored.id == waiting.id) else {
            self.0.waiting.remove(&waiting.name);
            return self.delete_engines_of(&waiting, false).await;
        };
        match self.0.store.is_shared() {
            true => self.open_if_it_fits(stored).await,
            false => self.open_stored(stored).await.map(drop),
        }?;
        tracing::info!(collection = waiting.name, "its engine answers: the collection is open");
        Ok(())
    }

    /// Deletes a collection that waits for its engine; `None` if none of this name does.
    pub(crate) async fn delete_waiting(
        &self,
        caller: &Caller,
        name: &str,
    ) -> Result<Option<bool>, CollectionError> {
        let Some(stored) = self.0.waiting.get(caller, name) else { return Ok(None) };
        let deleted = self.0.store.view(caller, &stored)?.delete_collection(crate::clock::now()).await?;
        self.0.webhooks_due.notify_one();
        self.0.waiting.remove(name);
        // its engine does not answer
        self.delete_engines_of(&stored, false).await?;
        Ok(Some(deleted))
    }

    /// Removes the indexes of a collection of the store, which were closed: those of this gateway, and if `is_shared`, those that other gateways use too.
    /// Remaining engines are removed later, as those whose engine does not answer.
    pub(crate) async fn delete_engines_of(
        &self,
        stored: &Collection,
        is_shared: bool,
    ) -> Result<(), CollectionError> {
        for kind in self.0.engines.kinds() {
            if kind.is_shared() && !is_shared {
                self.0.has_leftovers.store(true, Ordering::Relaxed);
                continue;
            }
            let deleted = self.0.engines.delete_collection(kind, stored.id.0).await;
            match deleted.map_err(CollectionError::Engines) {
                Err(error) if kind.is_shared() && error.is_engine_unavailable() => {
                    tracing::warn!(collection = stored.name, %error, "its index is removed when its engine answers");
                    self.0.has_leftovers.store(true, Ordering::Relaxed);
                }
                deleted => deleted?,
            }
        }
        Ok(())
    }

    /// Removes the indexes of collections that the store does not have any more. Others, with higher ids than the store has ever given, are left: the
    /// store may be an older copy. Of collections that are in another engine, what is left is removed as earlier generations are.
    async fn remove_leftovers(&self) -> Result<(), CollectionError> {
        let all = self.0.engines.shared_collections().await.map_err(CollectionError::Engines)?;
        let last = self.0.store.last_collection_id().await?;
        let open = self.all(&Caller::system());
        for (kind, id) in all {
            if let Some(open) = open.iter().find(|open| open.id.0 == id) {
                if open.engine_id.kind != kind {
                    open.earlier.note_left();
                    open.remove_superseded().await;
                }
            } else if id <= last.0 && !self.0.store.has_collection(CollectionId(id)).await? {
                self.0.engines.delete_collection(kind, id).await.map_err(CollectionError::Engines)?;
                tracing::info!(id, "the index of a deleted collection is removed");
            }
        }
        Ok(())
    }
}

impl OpenCollection {
    /// Whether other gateways use the same index.
    pub(crate) fn shares_index(&self) -> bool {
        self.engine.capabilities().shared && self.preparer.store.is_shared()
    }

    /// Whether this gateway may change the index.
    pub(crate) fn may_change_index(&self) -> bool {
        !self.shares_index() || self.preparer.lease.get().is_some()
    }

    /// Applies changes to the index. To one that other gateways use too, only as long as this gateway certainly has the lease.
    pub(crate) async fn apply_to_index(
        &self,
        changes: Vec<Change>,
        applied_seq: u64,
        read_to: Option<HistoryPoint>,
    ) -> Result<(), IngestError> {
        self.while_leased(self.engine.apply(changes, applied_seq, read_to)).await
    }

    /// Changes the index as long as this gateway certainly has the lease, if others use it too.
    pub(crate) async fn while_leased(
        &self,
        applied: impl Future<Output = Result<(), IndexError>>,
    ) -> Result<(), IngestError> {
        if !self.shares_index() {
            return Ok(applied.await?);
        }
        tokio::select! {
            biased;
            () = self.preparer.lease.ended() => Err(weir_store::Error::LeaseLost.into()),
            applied = applied => Ok(applied?),
        }
    }

    /// Removes the earlier generations of an index that is complete, where a restart does not: once, and when no gateway searches them any more.
    pub(crate) async fn remove_superseded(&self) {
        if self.is_rebuilding() {
            return;
        }
        let store = &self.preparer.store;
        let are_searched = store.is_shared() || self.has_searched_earlier;
        if let Err(error) = self.earlier.remove(&self.engines, self.engine_id, store, are_searched).await {
            tracing::warn!(collection = self.name, %error, "earlier generations of its index are removed later");
        }
    }
}
