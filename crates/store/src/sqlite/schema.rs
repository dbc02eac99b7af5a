//! The tables and their migrations.

use rusqlite::Connection;

use crate::{Error, Result};

/// Entry `n` migrates a file from format `n` to `n + 1`. A published entry never changes.
const MIGRATIONS: [&str; 22] = [
    FORMAT_1, FORMAT_2, FORMAT_3, FORMAT_4, FORMAT_5, FORMAT_6, FORMAT_7, FORMAT_8, FORMAT_9, FORMAT_10,
    FORMAT_11, FORMAT_12, FORMAT_13, FORMAT_14, FORMAT_15, FORMAT_16, FORMAT_17, FORMAT_18, FORMAT_19,
    FORMAT_20, FORMAT_21, FORMAT_22,
];

/// Ids that are also used outside this file (index folders) are `AUTOINCREMENT`, so that they are never reused.
const FORMAT_1: &str = "
CREATE TABLE collections (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT NOT NULL UNIQUE,
    settings       TEXT NOT NULL,
    next_operation INTEGER NOT NULL,
    created_at     REAL NOT NULL,
    checksum       INTEGER NOT NULL
) STRICT;

-- Model fingerprints; other tables refer to them by a small integer.
CREATE TABLE fingerprints (
    id          INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE generations (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    collection_id  INTEGER NOT NULL REFERENCES collections (id),
    fingerprint_id INTEGER NOT NULL REFERENCES fingerprints (id),
    indexed        INTEGER NOT NULL,
    current        INTEGER NOT NULL,
    complete_from  INTEGER NOT NULL,
    created_at     REAL NOT NULL,
    checksum       INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX generations_current ON generations (collection_id) WHERE current = 1;

-- `version` is the number of the operation that stored the row.
CREATE TABLE documents (
    key           INTEGER PRIMARY KEY AUTOINCREMENT,
    collection_id INTEGER NOT NULL REFERENCES collections (id),
    id            TEXT NOT NULL,
    version       INTEGER NOT NULL,
    title         TEXT,
    text          TEXT NOT NULL,
    metadata      TEXT NOT NULL,
    content_hash  BLOB NOT NULL,
    checksum      INTEGER NOT NULL,
    UNIQUE (collection_id, id)
) STRICT;

CREATE TABLE operations (
    collection_id INTEGER NOT NULL REFERENCES collections (id),
    number        INTEGER NOT NULL,
    kind          TEXT NOT NULL,
    document_id   TEXT NOT NULL,
    job_id        TEXT,
    checksum      INTEGER NOT NULL,
    PRIMARY KEY (collection_id, number)
) STRICT, WITHOUT ROWID;

-- No foreign key: jobs remain when their collection is deleted. `processed` counts the documents that needed no operation until the
-- job is finished, and then all documents. A job without operations has last_operation = first_operation - 1.
CREATE TABLE jobs (
    sequence        INTEGER PRIMARY KEY AUTOINCREMENT,
    id              TEXT NOT NULL UNIQUE,
    collection_id   INTEGER NOT NULL,
    collection      TEXT NOT NULL,
    first_operation INTEGER NOT NULL,
    last_operation  INTEGER NOT NULL,
    total           INTEGER NOT NULL,
    processed       INTEGER NOT NULL,
    unchanged       INTEGER NOT NULL,
    failed          INTEGER NOT NULL,
    error           TEXT,
    errors          TEXT NOT NULL,
    status          TEXT NOT NULL,
    created_at      REAL NOT NULL,
    started_at      REAL,
    finished_at     REAL
) STRICT;
CREATE INDEX jobs_unfinished ON jobs (collection_id, first_operation) WHERE finished_at IS NULL;

-- When a document is replaced, its chunks keep the older version until the new version is prepared, so that the embeddings of unchanged
-- chunks are still stored. No foreign key to documents: on each delete SQLite would look up the document's chunks in every generation.
CREATE TABLE chunks (
    generation_id INTEGER NOT NULL REFERENCES generations (id),
    document      INTEGER NOT NULL,
    ordinal       INTEGER NOT NULL,
    version       INTEGER NOT NULL,
    start         INTEGER NOT NULL,
    end           INTEGER NOT NULL,
    text_hash     BLOB NOT NULL,
    checksum      INTEGER NOT NULL,
    PRIMARY KEY (generation_id, document, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX chunks_text_hash ON chunks (text_hash);

CREATE TABLE embeddings (
    id             INTEGER PRIMARY KEY,
    fingerprint_id INTEGER NOT NULL REFERENCES fingerprints (id),
    text_hash      BLOB NOT NULL,
    vector         BLOB NOT NULL,
    checksum       INTEGER NOT NULL,
    UNIQUE (fingerprint_id, text_hash)
) STRICT;
";

/// Feedback and the query log. No replay reads them, hence no checksums. Numbers ascend in each collection without gaps, so that the
/// oldest entries are one range of the primary key.
const FORMAT_2: &str = "
CREATE TABLE feedback (
    collection_id INTEGER NOT NULL REFERENCES collections (id),
    number        INTEGER NOT NULL,
    query         TEXT NOT NULL,
    document_id   TEXT NOT NULL,
    chunk         INTEGER,
    grade         INTEGER NOT NULL,
    created_at    REAL NOT NULL,
    PRIMARY KEY (collection_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE queries (
    collection_id INTEGER NOT NULL REFERENCES collections (id),
    number        INTEGER NOT NULL,
    query         TEXT NOT NULL,
    results       INTEGER NOT NULL,
    relevance     REAL,
    asked_at      REAL NOT NULL,
    PRIMARY KEY (collection_id, number)
) STRICT, WITHOUT ROWID;
";

/// Adds to each judgment the features that a hit's relevance is computed from, as JSON, and the model whose embeddings the search used.
/// A row with a model but without features: the document is not a hit of the query.
const FORMAT_3: &str = "
ALTER TABLE feedback ADD COLUMN fingerprint_id INTEGER REFERENCES fingerprints (id);
ALTER TABLE feedback ADD COLUMN features TEXT;

-- Operations up to this number are pruned, except those that are the version of a stored document.
ALTER TABLE collections ADD COLUMN pruned_to INTEGER NOT NULL DEFAULT 0;
";

/// The mandatory filter of the caller that submitted the job, as a hash; NULL without a filter.
const FORMAT_4: &str = "
ALTER TABLE jobs ADD COLUMN filter_hash BLOB;
";

/// Documents that replaced another version, and the chunks of a completed job. Jobs of earlier formats count 0.
const FORMAT_5: &str = "
ALTER TABLE jobs ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN chunks INTEGER NOT NULL DEFAULT 0;
";

/// The gap in features is now one of final scores: all features are computed again.
const FORMAT_6: &str = "
UPDATE feedback SET features = NULL, fingerprint_id = NULL;
";

/// API keys, as hashes, and the audit log.
const FORMAT_7: &str = "
CREATE TABLE api_keys (
    id             INTEGER PRIMARY KEY,
    name           TEXT NOT NULL,
    prefix         TEXT NOT NULL,
    hash           BLOB NOT NULL UNIQUE,
    grants         TEXT NOT NULL,
    expires_at     REAL,
    created_at     REAL NOT NULL,
    revoked_at     REAL,
    previous_hash  BLOB,
    previous_until REAL,
    checksum       INTEGER NOT NULL
) STRICT;

CREATE TABLE audit (
    number  INTEGER PRIMARY KEY,
    at      REAL NOT NULL,
    by_key  INTEGER,
    action  TEXT NOT NULL,
    subject TEXT NOT NULL
) STRICT;
";

/// The ledger: what keys with budgets have spent, in billionths of the currency.
const FORMAT_8: &str = "
CREATE TABLE spending (
    key_id INTEGER NOT NULL,
    day    INTEGER NOT NULL,
    nanos  INTEGER NOT NULL,
    PRIMARY KEY (key_id, day)
) STRICT, WITHOUT ROWID;
";

/// Budgets of a key for a model; an empty model is the budget of the whole key.
const FORMAT_9: &str = "
ALTER TABLE spending RENAME TO spending_of_keys;
CREATE TABLE spending (
    key_id INTEGER NOT NULL,
    model  TEXT NOT NULL,
    day    INTEGER NOT NULL,
    nanos  INTEGER NOT NULL,
    PRIMARY KEY (key_id, model, day)
) STRICT, WITHOUT ROWID;
INSERT INTO spending (key_id, model, day, nanos) SELECT key_id, '', day, nanos FROM spending_of_keys;
DROP TABLE spending_of_keys;
";

/// Who gave a judgment: the API key, NULL without one and in judgments of earlier formats; and whether it was an operator.
const FORMAT_10: &str = "
ALTER TABLE feedback ADD COLUMN caller INTEGER;
ALTER TABLE feedback ADD COLUMN is_operator INTEGER NOT NULL DEFAULT 0;
";

/// The request, as JSON; NULL in entries of earlier formats and where the action implies it.
const FORMAT_11: &str = "
ALTER TABLE audit ADD COLUMN changes TEXT;
";

/// A random number of each operation: see `identity_of` in `operations.rs`. NULL in operations of earlier formats.
const FORMAT_12: &str = "
ALTER TABLE operations ADD COLUMN identity INTEGER;
";

/// The pages of a document's text; NULL for a text without pages.
const FORMAT_13: &str = "
ALTER TABLE documents ADD COLUMN pages TEXT;
";

/// Operations whose documents are stored and not searchable: the model refused the text, or the job was cancelled. `refused` of a job is
/// the number of errors of documents that were not stored; NULL in jobs of earlier formats.
const FORMAT_14: &str = "
CREATE TABLE unsearchable (
    collection_id INTEGER NOT NULL REFERENCES collections (id),
    number        INTEGER NOT NULL,
    state         TEXT NOT NULL,
    code          TEXT,
    message       TEXT,
    PRIMARY KEY (collection_id, number)
) STRICT, WITHOUT ROWID;
ALTER TABLE jobs ADD COLUMN refused INTEGER;
";

/// The files from which documents were made, if they are kept: their bytes are in the folder `originals`, by SHA-256. A document with another text has
/// another file.
const FORMAT_15: &str = "
CREATE TABLE originals (
    document   INTEGER PRIMARY KEY,
    sha256     TEXT NOT NULL,
    media_type TEXT NOT NULL,
    name       TEXT NOT NULL,
    bytes      INTEGER NOT NULL
) STRICT;
CREATE INDEX originals_by_sha256 ON originals (sha256);
CREATE TRIGGER originals_of_deleted AFTER DELETE ON documents BEGIN
    DELETE FROM originals WHERE document = OLD.key;
END;
CREATE TRIGGER originals_of_replaced AFTER UPDATE OF text, pages ON documents
WHEN NEW.text IS NOT OLD.text OR NEW.pages IS NOT OLD.pages BEGIN
    DELETE FROM originals WHERE document = OLD.key;
END;
";

/// The title that chunks are embedded with where it is not the document's; the embedding that was sent with a document; the file that a
/// document was read from, as JSON. `source` is not in the checksum: a damaged one makes a file be read again.
const FORMAT_16: &str = "
ALTER TABLE documents ADD COLUMN embedded_title TEXT;
ALTER TABLE documents ADD COLUMN vector BLOB;
ALTER TABLE documents ADD COLUMN source TEXT;
";

/// The webhooks of jobs, and the idempotency keys of requests that stored documents.
///
/// A webhook is waiting while `due_at` is NULL, pending until `ended_at`, and then delivered if `error` is NULL. `caller` is the API key, 0
/// without one. `scope` identifies an idempotency key of a caller on a route; numbers ascend for each caller.
const FORMAT_17: &str = "
CREATE TABLE webhooks (
    job_id   TEXT PRIMARY KEY,
    caller   INTEGER NOT NULL,
    url      TEXT NOT NULL,
    origin   TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    due_at   REAL,
    ended_at REAL,
    error    TEXT
) STRICT;
CREATE INDEX webhooks_open ON webhooks (due_at, caller) WHERE ended_at IS NULL;

CREATE TABLE idempotency_keys (
    scope       BLOB PRIMARY KEY,
    caller      INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    job         TEXT NOT NULL,
    version     INTEGER,
    created_at  REAL NOT NULL,
    UNIQUE (caller, number)
) STRICT;
CREATE INDEX idempotency_keys_by_time ON idempotency_keys (created_at);
";

/// State that several gateways over one store share; in a file, they are kept for its copies. `service` has one row or none. The last lease of each
/// collection has the highest number in `fence`. `cancellations` are jobs that are to be cancelled by whoever has the lease.
const FORMAT_18: &str = "
CREATE TABLE service (
    only_row   INTEGER PRIMARY KEY CHECK (only_row = 1),
    id         TEXT NOT NULL,
    cursor_key BLOB NOT NULL
) STRICT;

CREATE TABLE leases (
    collection_id INTEGER PRIMARY KEY,
    fence         INTEGER NOT NULL,
    gateway       TEXT NOT NULL,
    ends_at       REAL NOT NULL
) STRICT;

CREATE TABLE cancellations (
    job_id        TEXT PRIMARY KEY,
    collection_id INTEGER NOT NULL
) STRICT;
";

/// The files of a job as JSON, while their text is not extracted and when that failed; else NULL. A job whose files are not read has no
/// operations: its `first_operation` is above all numbers.
const FORMAT_19: &str = "
ALTER TABLE jobs ADD COLUMN files TEXT;
";

/// Leases of gateways from the budgets of keys: `nanos` is leased and not reserved; `reserved`, which `spending` contains, is for requests on their way.
/// `ledger_writes` has the number of the last changes of `spending` by each gateway.
const FORMAT_20: &str = "
CREATE TABLE budget_leases (
    key_id   INTEGER NOT NULL,
    model    TEXT NOT NULL,
    gateway  TEXT NOT NULL,
    nanos    INTEGER NOT NULL,
    reserved INTEGER NOT NULL,
    ends_at  REAL NOT NULL,
    PRIMARY KEY (key_id, model, gateway)
) STRICT;

CREATE TABLE ledger_writes (
    gateway    TEXT PRIMARY KEY,
    number     INTEGER NOT NULL,
    written_at REAL NOT NULL
) STRICT;
";

/// The bytes of original files, where several gateways use the store; those of a gateway with a file of its own are in its data directory.
const FORMAT_21: &str = "
CREATE TABLE kept_files (
    sha256      TEXT PRIMARY KEY,
    bytes       INTEGER NOT NULL,
    is_complete INTEGER NOT NULL,
    kept_at     REAL NOT NULL
) STRICT;

CREATE TABLE kept_parts (
    sha256 TEXT NOT NULL,
    number INTEGER NOT NULL,
    bytes  BLOB NOT NULL,
    PRIMARY KEY (sha256, number)
) STRICT;
";

/// Work on the index of a collection beside the ingest, as text of the gateway. `revision` is higher after every change.
const FORMAT_22: &str = "
CREATE TABLE upkeep (
    collection_id INTEGER NOT NULL,
    kind          TEXT NOT NULL,
    revision      INTEGER NOT NULL,
    state         TEXT NOT NULL,
    PRIMARY KEY (collection_id, kind)
) STRICT;
";

/// Migrates the file to the newest format, one transaction per step.
pub(crate) fn migrate(connection: &mut Connection) -> Result<()> {
    let known = MIGRATIONS.len() as u32;
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > known {
        return Err(Error::NewerSchema { found, known });
    }
    for (step, migration) in (1_u32..).zip(MIGRATIONS).skip(found as usize) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", step)?;
        transaction.commit()?;
    }
    Ok(())
}
