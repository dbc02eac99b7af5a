//! Storing submitted documents: one transaction per submission, committed before it is acknowledged.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use serde_json::{Map, Value};

use super::collections::CollectionRow;
use super::{documents, files, idempotency, jobs, operations, originals, unsearchable};
use crate::access::Access;
use crate::damage::Damage;
use crate::{
    Acceptance, DocumentError, Error, NewDocument, OperationKind, Precondition, Result, Submission, Timestamp,
};

/// A submission with the content hashes of its documents. Hashes and the check of new metadata are computed outside the writing thread.
pub(crate) struct HashedSubmission {
    submission: Submission,
    hashes: Vec<[u8; 32]>,
}

impl HashedSubmission {
    /// Moves the documents that would be hidden from their own submitter to the rejected ones.
    pub(crate) fn new(mut submission: Submission, access: &Access) -> HashedSubmission {
        let refused = submission.documents.extract_if(.., |document| !access.is_visible(&document.metadata));
        submission.rejected.extend(refused.map(|document| DocumentError::not_allowed(document.id)));
        let hashes = submission.documents.iter().map(NewDocument::content_hash).collect();
        HashedSubmission { submission, hashes }
    }

    /// The last document of each id, in the order of the submission.
    fn last_of_each_id(&self) -> impl Iterator<Item = (&NewDocument, &[u8; 32])> {
        let documents = self.submission.documents.iter();
        let last: HashMap<&str, usize> = documents
            .clone()
            .enumerate()
            .map(|(position, document)| (document.id.as_str(), position))
            .collect();
        let numbered = documents.zip(&self.hashes).enumerate();
        let is_last = move |(position, (document, _)): &(usize, (&NewDocument, _))| {
            last.get(document.id.as_str()) == Some(position)
        };
        numbered.filter(is_last).map(|(_, document_and_hash)| document_and_hash)
    }
}

/// The error of a document that differs in one of these fields from the stored one. Metadata that can't be read, of a damaged
/// document, is replaced.
fn conflict(document: &NewDocument, fields: &[String], stored: &str) -> Option<DocumentError> {
    let stored: Map<String, Value> = serde_json::from_str(stored).ok()?;
    let new: Map<String, Value> = serde_json::from_str(&document.metadata).ok()?;
    fields.iter().find_map(|field| {
        let value = |metadata: &Map<String, Value>| metadata.get(field).cloned().unwrap_or_default();
        let (stored, new) = (value(&stored), value(&new));
        (stored != new).then(|| DocumentError::conflict(document.id.clone(), field, &stored, &new))
    })
}

pub(crate) fn accept(
    connection: &Connection,
    access: &Access,
    submission: &HashedSubmission,
    now: Timestamp,
    damage: &Damage,
) -> Result<Option<Acceptance>> {
    let collection = access.collection;
    let key = submission.submission.idempotency.as_ref();
    if let Some(key) = key
        && let Some(repeated) = idempotency::find(connection, key, now)?
    {
        return Ok(Some(repeated));
    }
    let Some(mut row) = CollectionRow::by_id(connection, collection)? else {
        return Ok(None);
    };
    if let Some(precondition) = &submission.submission.precondition {
        check(connection, access, precondition)?;
    }
    let first_operation = row.next_operation;
    let (mut changed, mut unchanged, mut refused) = (0, submission.submission.unchanged, Vec::new());
    let mut last_version = None;
    for (document, hash) in submission.last_of_each_id() {
        let stored = documents::version_and_equality(connection, collection, &document.id, hash)?;
        if stored.is_some() && documents::is_hidden(connection, access, &document.id)? {
            refused.push(DocumentError::not_allowed(document.id.clone()));
            continue;
        }
        if let Some((version, true)) = stored
            && !unsearchable::contains(connection, collection, version)?
        {
            unchanged += 1;
            last_version = Some(version);
            if let Some(source) = &document.source {
                files::record(connection, collection, &document.id, source)?;
            }
            continue;
        }
        let fields = &submission.submission.replace_if_equal;
        if stored.is_some()
            && !fields.is_empty()
            && let Some(stored) = documents::metadata(connection, collection, &document.id)?
            && let Some(conflict) = conflict(document, fields, &stored)
        {
            refused.push(conflict);
            continue;
        }
        if let Some((version, _)) = stored {
            changed += 1;
            operations::prune_superseded(connection, collection, version)?;
        }
        let (number, job) = (row.next_operation, Some(submission.submission.job_id.as_str()));
        documents::put(connection, collection, document, hash, number)?;
        damage.forget(collection, &document.id);
        operations::insert(connection, collection, number, OperationKind::Put, &document.id, job)?;
        last_version = Some(number);
        row.next_operation += 1;
    }
    let refusals = submission.submission.rejected.iter().chain(&refused);
    let refusals: HashSet<&str> = refusals.map(|error| error.document_id.as_str()).collect();
    for file in &submission.submission.originals {
        if !refusals.contains(file.document_id.as_str()) {
            originals::set(connection, collection, file)?;
        }
    }
    row.save(connection)?;
    let accepted = jobs::Accepted {
        collection: row,
        first_operation,
        total: submission.submission.total(),
        changed,
        unchanged,
        refused,
        filter_hash: access.filter_hash(),
        key: access.key,
    };
    record(connection, accepted, &submission.submission, last_version, now)
}

/// Inserts the job, and the idempotency key if there is one.
fn record(
    connection: &Connection,
    accepted: jobs::Accepted,
    submission: &Submission,
    version: Option<u64>,
    now: Timestamp,
) -> Result<Option<Acceptance>> {
    let caller = accepted.key;
    let Some(job) = jobs::insert(connection, accepted, submission, now)? else { return Ok(None) };
    let accepted = Acceptance { job, version, is_repeated: false };
    if let Some(key) = &submission.idempotency {
        idempotency::insert(connection, key, caller, &accepted)?;
    }
    Ok(Some(accepted))
}

fn check(connection: &Connection, access: &Access, precondition: &Precondition) -> Result<()> {
    let Precondition { document_id, test } = precondition;
    let version = documents::visible_version(connection, access, document_id)?;
    match test.is_met(version) {
        true => Ok(()),
        false => Err(Error::PreconditionFailed { id: document_id.clone(), version }),
    }
}
