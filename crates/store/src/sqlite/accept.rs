//! Taking documents in: the transaction that an acknowledgement stands for.

use std::collections::HashMap;

use rusqlite::Connection;

use super::collections::CollectionRow;
use super::{documents, jobs, operations};
use crate::{CollectionId, Job, NewDocument, Now, OperationKind, Result, Submission};

/// A submission with its content hashes, made before the writing thread is asked.
pub(crate) struct Incoming {
    submission: Submission,
    hashes: Vec<[u8; 32]>,
}

impl Incoming {
    pub(crate) fn new(submission: Submission) -> Incoming {
        let hashes = submission.documents.iter().map(NewDocument::content_hash).collect();
        Incoming { submission, hashes }
    }

    /// The documents to store: of each id the last one, in the order handed in.
    fn winners(&self) -> impl Iterator<Item = (&NewDocument, &[u8; 32])> {
        let documents = &self.submission.documents;
        let last: HashMap<&str, usize> =
            documents.iter().enumerate().map(|(place, document)| (document.id.as_str(), place)).collect();
        documents
            .iter()
            .zip(&self.hashes)
            .enumerate()
            .filter(move |(place, (document, _))| last.get(document.id.as_str()) == Some(place))
            .map(|(_, winner)| winner)
    }
}

pub(crate) fn accept(
    connection: &Connection,
    collection: CollectionId,
    incoming: &Incoming,
    now: Now,
) -> Result<Option<Job>> {
    let Some(mut row) = CollectionRow::by_id(connection, collection)? else {
        return Ok(None);
    };
    let first_operation = row.next_operation;
    let mut unchanged = 0;
    for (document, hash) in incoming.winners() {
        let stored = documents::hash_and_version(connection, collection, &document.id)?;
        if stored.as_ref().is_some_and(|(stored, _)| stored == hash) {
            unchanged += 1;
            continue;
        }
        if let Some((_, version)) = stored {
            operations::supersede(connection, collection, version)?;
        }
        let (number, job) = (row.next_operation, Some(incoming.submission.job_id.as_str()));
        documents::put(connection, collection, document, hash, number)?;
        operations::insert(connection, collection, number, OperationKind::Put, &document.id, job)?;
        row.next_operation += 1;
    }
    row.save(connection)?;
    let accepted = jobs::Accepted { collection: row, first_operation, unchanged };
    jobs::insert(connection, &accepted, &incoming.submission, now)?;
    jobs::by_id(connection, &incoming.submission.job_id)
}
