//! The tables, and how a file comes to have them.

use rusqlite::Connection;

use crate::{Error, Result};

/// Each entry brings a file from the format of its index to the next. Published entries never change.
const MIGRATIONS: [&str; 3] = [FORMAT_1, FORMAT_2, FORMAT_3];

/// Ids that name something outside this file (index folders) are `AUTOINCREMENT`: never given out twice.
const FORMAT_1: &str = "
CREATE TABLE collections (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT NOT NULL UNIQUE,
    settings       TEXT NOT NULL,
    next_operation INTEGER NOT NULL,
    created_at     REAL NOT NULL,
    checksum       INTEGER NOT NULL
) STRICT;

-- A model's fingerprint, so that the tables below need only a small number.
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

-- `version` is the number of the operation that made the row what it is.
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

-- A job outlives its collection, hence no reference. `processed` counts what needed no operation until the job is
-- finished, and everything then. A job without operations has last_operation = first_operation - 1.
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

-- Chunks of a document that has been replaced stay, at their older version, until the new version is prepared, so
-- that the embeddings of what did not change are still there. No reference to documents: SQLite would look for the
-- chunks of a deleted document in every generation.
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

/// What people said about hits, and what was searched. Neither feeds a replay, hence no checksums. Numbers ascend in each
/// collection without gaps, so that what is too old is a range.
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

/// First, what a judged hit's relevance was computed from, as JSON, and the model whose embeddings the search had. A row with a model
/// and no features was no hit of its query.
const FORMAT_3: &str = "
ALTER TABLE feedback ADD COLUMN fingerprint_id INTEGER REFERENCES fingerprints (id);
ALTER TABLE feedback ADD COLUMN features TEXT;

-- Up to this number only the operations are left that a document stands for: its version.
ALTER TABLE collections ADD COLUMN pruned_to INTEGER NOT NULL DEFAULT 0;
";

/// Brings the file to the newest format, one transaction per step.
pub(super) fn migrate(connection: &mut Connection) -> Result<()> {
    let known = MIGRATIONS.len() as u32;
    let found: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > known {
        return Err(Error::NewerFormat { found, known });
    }
    for (step, migration) in (1_u32..).zip(MIGRATIONS).skip(found as usize) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.pragma_update(None, "user_version", step)?;
        transaction.commit()?;
    }
    Ok(())
}
