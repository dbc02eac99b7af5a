//! Storing submitted documents: one transaction per submission, committed before it is acknowledged.

use std::collections::HashMap;

use rusqlite::Connection;

use super::collections::CollectionRow;
use super::{documents, jobs, operations};
use crate::{CollectionId, Job, NewDocument, OperationKind, Result, Submission, Timestamp};

/// A submission with the content hashes of its documents, which are computed outside the writing thread.
pub(crate) struct HashedSubmission {
    submission: Submission,
    hashes: Vec<[u8; 32]>,
}

impl HashedSubmission {
    pub(crate) fn new(submission: Submission) -> HashedSubmission {
        let hashes = submission.documents.iter().map(NewDocument::content_hash).collect();
        HashedSubmission { submission, hashes }
    }

    /// The last document of each id, in the order of the submission.
    fn last_of_each_id(&self) -> impl Iterator<Item = (&NewDocument, &[u8; 32])> {
        let documents = &self.submission.documents;
        let last: HashMap<&str, usize> = documents
            .iter()
            .enumerate()
            .map(|(position, document)| (document.id.as_str(), position))
            .collect();
        documents
            .iter()
            .zip(&self.hashes)
            .enumerate()
            .filter(move |(position, (document, _))| last.get(document.id.as_str()) == Some(position))
            .map(|(_, document_and_hash)| document_and_hash)
    }
}

pub(crate) fn accept(
    connection: &Connection,
    collection: CollectionId,
    submission: &HashedSubmission,
    now: Timestamp,
) -> Result<Option<Job>> {
    let Some(mut row) = CollectionRow::by_id(connection, collection)? else {
        return Ok(None);
    };
    let first_operation = row.next_operation;
    let mut unchanged = 0;
    for (document, hash) in submission.last_of_each_id() {
        let stored = documents::hash_and_version(connection, collection, &document.id)?;
        if stored.as_ref().is_some_and(|(stored, _)| stored == hash) {
            unchanged += 1;
            continue;
        }
        if let Some((_, version)) = stored {
            operations::prune_superseded(connection, collection, version)?;
        }
        let (number, job) = (row.next_operation, Some(submission.submission.job_id.as_str()));
        documents::put(connection, collection, document, hash, number)?;
        operations::insert(connection, collection, number, OperationKind::Put, &document.id, job)?;
        row.next_operation += 1;
    }
    row.save(connection)?;
    let accepted = jobs::Accepted { collection: row, first_operation, unchanged };
    jobs::insert(connection, &accepted, &submission.submission, now)?;
    jobs::by_id(connection, &submission.submission.job_id)
}
