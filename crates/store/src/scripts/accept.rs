//! Storing submitted documents: one transaction per submission, committed before it is acknowledged.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::collections::CollectionRow;
use super::documents::Put;
use super::operations::NewOperation;
use super::{documents, files, idempotency, jobs, operations, originals, unsearchable};
use crate::access::Access;
use crate::damage::Damage;
use crate::tx::{Lock, Tx};
use crate::{
    Acceptance, DocumentError, Error, NewDocument, OperationKind, Precondition, Result, Submission,
    SubmittedFiles, Timestamp,
};

/// A submission with the content hashes of its documents. Hashes and the check of new metadata are computed outside the writing thread.
pub(crate) struct HashedSubmission {
    submission: Submission,
    hashes: Vec<[u8; 32]>,
}

impl HashedSubmission {
    /// Moves the documents that would be hidden from their own submitter to the rejected ones.
    pub(crate) fn new(mut submission: Submission, access: &Access) -> HashedSubmission {
        let refused = submission
            .documents
            .extract_if(.., |document| !access.is_visible_document(Some(&document.metadata)));
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

/// See [`StoreView::accept`](crate::StoreView::accept).
pub(crate) async fn accept(
    tx: &mut Tx<'_>,
    access: &Access,
    submission: &HashedSubmission,
    now: Timestamp,
    damage: &Damage,
) -> Result<Option<Acceptance>> {
    let collection = access.collection;
    tx.lock(Lock::Collection(collection)).await?;
    if submission.submission.idempotency.is_some() || submission.submission.webhook.is_some() {
        tx.lock(Lock::Caller(access.key)).await?;
    }
    if let Some(key) = &submission.submission.idempotency
        && let Some(repeated) = idempotency::find(tx, key, now).await?
    {
        return Ok(Some(repeated));
    }
    let Some(mut row) = CollectionRow::by_id(tx, collection).await? else {
        return Ok(None);
    };
    access.check_known(row.next_operation - 1)?;
    let is_read = matches!(submission.submission.files, SubmittedFiles::Read(_));
    if is_read && !jobs::is_reading(tx, &submission.submission.job_id).await? {
        // it was cancelled
        return Ok(None);
    }
    if let Some(precondition) = &submission.submission.precondition {
        check(tx, access, precondition).await?;
    }
    let documents: Vec<(&NewDocument, &[u8; 32])> = submission.last_of_each_id().collect();
    let stored = Stored::read(tx, access, &documents, &submission.submission.replace_if_equal).await?;
    let first_operation = row.next_operation;
    let (mut unchanged, mut refused) = (submission.submission.unchanged, Vec::new());
    let (mut last_version, mut puts, mut replaced, mut sources) = (None, Vec::new(), Vec::new(), Vec::new());
    for ((document, content_hash), stored) in documents.into_iter().zip(stored) {
        match stored.decide(document, &submission.submission.replace_if_equal) {
            Decision::Refuse(error) => refused.push(error),
            Decision::Keep(version) => {
                unchanged += 1;
                last_version = Some(version);
                sources.extend(document.source.as_ref().map(|source| (document.id.as_str(), source)));
            }
            Decision::Put => {
                let version = row.next_operation;
                row.next_operation += 1;
                last_version = Some(version);
                replaced.extend(stored.version);
                puts.push(Put { content: document, content_hash, version });
            }
        }
    }
    files::record(tx, collection, &sources).await?;
    operations::prune_superseded(tx, collection, &replaced).await?;
    documents::put(tx, collection, &puts).await?;
    let job = Some(submission.submission.job_id.as_str());
    let operations = puts.iter().map(|put| NewOperation {
        number: put.version,
        kind: OperationKind::Put,
        document_id: &put.content.id,
        job,
    });
    operations::insert(tx, collection, &operations.collect::<Vec<_>>()).await?;
    let refusals = submission.submission.rejected.iter().chain(&refused);
    let refusals: HashSet<&str> = refusals.map(|error| error.document_id.as_str()).collect();
    let files = submission.submission.originals.iter();
    let files: Vec<_> = files.filter(|file| !refusals.contains(file.document_id.as_str())).collect();
    originals::set(tx, collection, &files).await?;
    row.save(tx).await?;
    puts.iter().for_each(|put| damage.forget(collection, &put.content.id));
    let accepted = jobs::Accepted {
        collection: row,
        first_operation,
        total: submission.submission.total(),
        changed: replaced.len() as u64,
        unchanged,
        refused,
        filter_hash: access.filter_hash(),
        key: access.key,
    };
    record(tx, accepted, &submission.submission, last_version, now).await
}

/// Inserts the job, and the idempotency key if there is one.
async fn record(
    tx: &mut Tx<'_>,
    accepted: jobs::Accepted,
    submission: &Submission,
    version: Option<u64>,
    now: Timestamp,
) -> Result<Option<Acceptance>> {
    let caller = accepted.key;
    let job = match &submission.files {
        SubmittedFiles::Read(failed) => {
            jobs::end_reading(tx, accepted, submission, failed.as_ref(), now).await?
        }
        SubmittedFiles::None | SubmittedFiles::Unread(_) => {
            jobs::insert(tx, accepted, submission, now).await?
        }
    };
    let Some(job) = job else { return Ok(None) };
    let accepted = Acceptance { job, version, is_repeated: false };
    if let Some(key) = &submission.idempotency {
        idempotency::insert(tx, key, caller, &accepted).await?;
    }
    Ok(Some(accepted))
}

/// The stored state of a document's id.
struct Stored {
    /// `None` if there is no such document.
    version: Option<u64>,
    /// Whether it is sound, has the same content and is searchable.
    is_equal: bool,
    is_hidden: bool,
    /// Read where it decides.
    metadata: Option<String>,
}

/// The decision on a document.
enum Decision {
    Refuse(DocumentError),
    /// It is stored already, in this version.
    Keep(u64),
    Put,
}

impl Stored {
    async fn read(
        tx: &mut Tx<'_>,
        access: &Access,
        documents: &[(&NewDocument, &[u8; 32])],
        replace_if_equal: &[String],
    ) -> Result<Vec<Stored>> {
        let collection = access.collection;
        let ids: Vec<&str> = documents.iter().map(|(document, _)| document.id.as_str()).collect();
        let hashes: Vec<(&str, &[u8; 32])> =
            documents.iter().map(|(document, hash)| (document.id.as_str(), *hash)).collect();
        let found = documents::versions_and_equality(tx, collection, &hashes).await?;
        let equal = found.iter().flatten().filter(|(_, is_equal)| *is_equal).map(|(version, _)| *version);
        let mut unsearchable =
            unsearchable::contains(tx, collection, &equal.collect::<Vec<_>>()).await?.into_iter();
        let metadata = match access.is_filtered() || !replace_if_equal.is_empty() {
            true => documents::metadata(tx, collection, &ids).await?,
            false => vec![None; ids.len()],
        };
        let stored = found.into_iter().zip(metadata).map(|(found, metadata)| Stored {
            version: found.map(|(version, _)| version),
            is_equal: found.is_some_and(|(_, is_equal)| is_equal && unsearchable.next() == Some(false)),
            is_hidden: found.is_some() && access.hides_document(metadata.as_deref()),
            metadata,
        });
        Ok(stored.collect())
    }

    fn decide(&self, document: &NewDocument, replace_if_equal: &[String]) -> Decision {
        if self.is_hidden {
            return Decision::Refuse(DocumentError::not_allowed(document.id.clone()));
        }
        if let Some(version) = self.version.filter(|_| self.is_equal) {
            return Decision::Keep(version);
        }
        let stored = self.metadata.as_deref().filter(|_| !replace_if_equal.is_empty());
        match stored.and_then(|stored| conflict(document, replace_if_equal, stored)) {
            Some(conflict) => Decision::Refuse(conflict),
            None => Decision::Put,
        }
    }
}

async fn check(tx: &mut Tx<'_>, access: &Access, precondition: &Precondition) -> Result<()> {
    let Precondition { document_id, test } = precondition;
    let version = documents::visible_version(tx, access, document_id).await?;
    match test.is_met(version) {
        true => Ok(()),
        false => Err(Error::PreconditionFailed { id: document_id.clone(), version }),
    }
}
