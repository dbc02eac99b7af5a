//! Changes: what is removed, what is put, and that both are safe to repeat.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use weir_qdrant::BATCH_POINTS_MAX;
use weir_qdrant::api::{Condition, Filter, PointStruct, WriteOrderingType};

use super::Shared;
use super::conditions::{of_tenant, older};
use super::points::points_of;
use crate::embedded::lock;
use crate::{Change, HistoryPoint, IndexError, IndexedDocument, Result};

/// Documents that are deleted by one call.
const DELETED_MAX: usize = 200;

/// The outcome of a batch for a document.
struct Outcome {
    /// In versions before which it is removed, before it is perhaps put.
    removed_before: Option<u64>,
    put: Option<IndexedDocument>,
}

/// The changes of a batch, each document once.
fn outcomes(changes: Vec<Change>) -> Vec<(String, Outcome)> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut all: Vec<(String, Outcome)> = Vec::new();
    for change in changes {
        let id = match &change {
            Change::Put(document) => &document.id,
            Change::Remove { id, .. } => id,
        };
        let place = match places.entry(id.clone()) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(vacant) => {
                all.push((id.clone(), Outcome { removed_before: None, put: None }));
                *vacant.insert(all.len() - 1)
            }
        };
        let outcome = &mut all[place].1;
        match change {
            Change::Remove { before, .. } => *outcome = Outcome { removed_before: Some(before), put: None },
            Change::Put(document) => {
                if outcome.put.as_ref().is_none_or(|put| put.version < document.version) {
                    outcome.put = Some(document);
                }
            }
        }
    }
    all
}

impl Shared {
    pub(super) async fn apply(
        &self,
        changes: Vec<Change>,
        applied_seq: u64,
        read_to: Option<HistoryPoint>,
    ) -> Result<()> {
        let read_to = {
            let state = lock(&self.state);
            if state.is_closed {
                return Err(IndexError::Closed);
            }
            if applied_seq < state.applied_seq {
                return Err(IndexError::OutOfOrder { applied_seq, current: state.applied_seq });
            }
            read_to.or(state.read_to)
        };
        // another gateway, to which the changes belong too, may be further already
        let applied = self.prepare_to_apply().await?;
        if applied <= applied_seq {
            self.carry_out(outcomes(changes)).await?;
            self.remove_hidden(applied_seq).await?;
            self.write_head(applied_seq, read_to).await?;
        }
        let mut state = lock(&self.state);
        (state.applied_seq, state.read_to, state.counted) = (applied_seq, read_to, None);
        state.hidden.retain(|_, removal| *removal > applied_seq);
        Ok(())
    }

    /// The applied sequence by the cluster. If it has none that can be used, remaining points are removed: they are of a first batch that did not
    /// end, or in another form.
    async fn prepare_to_apply(&self) -> Result<u64> {
        let (known, is_emptied) = {
            let state = lock(&self.state);
            (state.applied_seq, state.is_emptied)
        };
        if let Some(head) = self.current_head(known).await?.filter(|head| head.applied_seq >= known) {
            return Ok(head.applied_seq);
        }
        if known > 0 || !is_emptied {
            self.remove_all().await?;
            self.forget();
        }
        if known > 0 { Err(self.lost()) } else { Ok(0) }
    }

    /// Removals apply to versions up to the last operation that was read: a call that is delivered late removes nothing that was
    /// put since.
    async fn carry_out(&self, outcomes: Vec<(String, Outcome)>) -> Result<()> {
        let (mut removed, mut put) = (Vec::new(), Vec::new());
        for (id, Outcome { removed_before, put: document }) in outcomes {
            if let Some(before) = removed_before {
                removed.push((id, document.as_ref().map_or(before, |put| put.version)));
            }
            put.extend(document);
        }
        self.remove(removed).await?;
        let (mut points, mut documents) = (Vec::new(), Vec::new());
        for document in put {
            documents.push((document.id.clone(), document.version));
            let mut of_document = points_of(&self.tenant, &document, self.settings.language);
            if points.len() + of_document.len() > BATCH_POINTS_MAX && documents.len() > 1 {
                let last = documents.split_off(documents.len() - 1);
                self.replace(std::mem::take(&mut points), std::mem::replace(&mut documents, last)).await?;
            }
            points.append(&mut of_document);
        }
        self.replace(points, documents).await
    }

    /// Puts the points of documents, each given with its version, and deletes what older versions had beyond them.
    async fn replace(&self, points: Vec<PointStruct>, documents: Vec<(String, u64)>) -> Result<()> {
        if documents.is_empty() {
            return Ok(());
        }
        let older = self.older_versions(&documents);
        let mut points = points.into_iter().peekable();
        while points.peek().is_some() {
            let batch = points.by_ref().take(BATCH_POINTS_MAX).collect();
            let ordering = WriteOrderingType::Medium;
            self.client.upsert(&self.alias, batch, Some(older.clone()), ordering).await?;
        }
        self.client.delete(&self.alias, older, WriteOrderingType::Medium).await
    }

    /// Deletes documents, each in the versions before one. What is put later for one of them must come later at every replica.
    pub(super) async fn remove(&self, versions: Vec<(String, u64)>) -> Result<()> {
        for versions in versions.chunks(DELETED_MAX) {
            let filter = self.older_versions(versions);
            self.client.delete(&self.alias, filter, WriteOrderingType::Strong).await?;
        }
        Ok(())
    }

    /// The points of documents in versions before those given.
    fn older_versions(&self, versions: &[(String, u64)]) -> Filter {
        let is_older: Vec<Condition> = versions.iter().map(|(id, version)| older(id, *version)).collect();
        Filter { should: is_older, ..Filter::must([of_tenant(&self.tenant.name)]) }
    }

    /// Deletes documents again that were removed meanwhile, which a batch of earlier changes may have brought back.
    async fn remove_hidden(&self, applied_seq: u64) -> Result<()> {
        let is_later = |(_, removal): &(&String, &u64)| **removal > applied_seq;
        let hidden: Vec<(String, u64)> = {
            let state = lock(&self.state);
            state.hidden.iter().filter(is_later).map(|(id, removal)| (id.clone(), *removal)).collect()
        };
        self.remove(hidden).await
    }

    /// Deletes everything, what is applied first: if the rest fails, the collection is filled again from the start.
    pub(super) async fn remove_all(&self) -> Result<()> {
        for tenant in [self.head_tenant(), self.tenant.name.clone()] {
            let filter = Filter::must([of_tenant(&tenant)]);
            self.client.delete(&self.alias, filter, WriteOrderingType::Strong).await?;
        }
        Ok(())
    }
}
