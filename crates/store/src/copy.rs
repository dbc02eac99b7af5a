//! Copies a store into an empty one, of any database, and compares them row by row.

use crate::database::Database;
use crate::tx::{AsValue as _, Tx, Value, damaged, script};
use crate::value::Owned;
use crate::{Error, Result, Store};

/// A table with `N` columns, of which the first `key` are its primary key.
struct Table<const N: usize> {
    name: &'static str,
    key: usize,
    columns: [&'static str; N],
    /// Rows that are read at once.
    page: usize,
}

/// A row, by the columns of its table.
type Columns = Vec<Owned>;

/// Rows of a page of a table whose rows are short.
const PAGE: usize = 1_000;

/// Rows of a page of documents, which can have long texts.
const DOCUMENTS_PAGE: usize = 32;

/// The columns whose numbers are never given again, by their tables.
const IDENTITIES: [(&str, &str); 6] = [
    ("collections", "id"),
    ("fingerprints", "id"),
    ("generations", "id"),
    ("documents", "key"),
    ("jobs", "sequence"),
    ("embeddings", "id"),
];

impl Store {
    /// Copies everything into `target`, which must be empty, then reads and compares both. Returns the number of rows. Nothing may change them
    /// meanwhile. After an error, `target` has a part of the rows, and is of no use.
    ///
    /// # Errors
    /// `Unsupported` if the target is not empty; `Damaged` for a row that cannot be read, or that is another one in the target.
    pub async fn copy_to(&self, target: &Store) -> Result<u64> {
        // so that the copy is of the same service
        self.service().await?;
        let copy = Pair { from: &self.database, to: &target.database };
        let mut rows = copy.table(&SERVICE).await?;
        rows += copy.table(&COLLECTIONS).await?;
        rows += copy.table(&FINGERPRINTS).await?;
        rows += copy.table(&GENERATIONS).await?;
        rows += copy.table(&DOCUMENTS).await?;
        rows += copy.table(&OPERATIONS).await?;
        rows += copy.table(&UNSEARCHABLE).await?;
        rows += copy.table(&JOBS).await?;
        rows += copy.table(&CHUNKS).await?;
        rows += copy.table(&EMBEDDINGS).await?;
        rows += copy.table(&FEEDBACK).await?;
        rows += copy.table(&QUERIES).await?;
        rows += copy.table(&API_KEYS).await?;
        rows += copy.table(&AUDIT).await?;
        rows += copy.table(&SPENDING).await?;
        rows += copy.table(&WEBHOOKS).await?;
        rows += copy.table(&IDEMPOTENCY_KEYS).await?;
        rows += copy.table(&ORIGINALS).await?;
        for (table, column) in IDENTITIES {
            let last = self.database.read(script!(tx => tx.last_identity(table, column))).await?;
            target.database.write(script!(tx => tx.set_last_identity(table, column, last))).await?;
        }
        Ok(rows)
    }
}

/// The databases of a copy.
struct Pair<'a> {
    from: &'a Database,
    to: &'a Database,
}

impl Pair<'_> {
    /// Copies a table and compares it; returns the number of rows.
    async fn table<const N: usize>(&self, table: &Table<N>) -> Result<u64> {
        if !table.page_after(self.to, None).await?.is_empty() {
            let reason = format!("its table `{}` has rows already; name an empty one", table.name);
            return Err(Error::Unsupported(reason));
        }
        let insert = table.insert();
        let (mut copied, mut last) = (0, None);
        loop {
            let page = table.page_after(self.from, last.as_ref()).await?;
            let Some(end) = page.last().cloned() else { break };
            copied += page.len() as u64;
            self.to.write(script!(tx => write::<N>(tx, insert, &page))).await?;
            last = Some(end);
        }
        let (mut compared, mut last) = (0, None);
        loop {
            let page = table.page_after(self.from, last.as_ref()).await?;
            let written = table.page_after(self.to, last.as_ref()).await?;
            if page != written {
                return Err(damaged("copy", format!("of the table `{}`, which differs,", table.name)));
            }
            let Some(end) = page.last().cloned() else { break };
            compared += page.len() as u64;
            last = Some(end);
        }
        debug_assert_eq!(copied, compared);
        Ok(copied)
    }
}

/// Inserts rows of `N` columns.
async fn write<const N: usize>(tx: &mut Tx<'_>, insert: &'static str, rows: &[Columns]) -> Result<()> {
    let values = rows
        .iter()
        .map(|row| std::array::from_fn(|column| row.get(column).map_or(Value::Null, Owned::as_value)));
    let values: Vec<[Value<'_>; N]> = values.collect();
    tx.run_each(insert, &values).await?;
    Ok(())
}

impl<const N: usize> Table<N> {
    /// The rows after one, in the order of their keys.
    async fn page_after(&self, database: &Database, after: Option<&Columns>) -> Result<Vec<Columns>> {
        let (columns, key) = (self.columns.join(", "), self.columns[..self.key].join(", "));
        let condition = match after {
            Some(_) => format!("WHERE ({key}) > ({})", placeholders(self.key)),
            None => String::new(),
        };
        let sql =
            format!("SELECT {columns} FROM {} {condition} ORDER BY {key} LIMIT {}", self.name, self.page);
        let (sql, name): (&'static str, _) = (kept(sql), self.name);
        let after: Columns = after.map(|row| row[..self.key].to_vec()).unwrap_or_default();
        database.read(script!(tx => read::<N>(tx, sql, name, &after))).await
    }

    fn insert(&self) -> &'static str {
        let columns = self.columns.join(", ");
        kept(format!("INSERT INTO {} ({columns}) VALUES ({})", self.name, placeholders(N)))
    }
}

async fn read<const N: usize>(
    tx: &mut Tx<'_>,
    sql: &'static str,
    table: &'static str,
    after: &[Owned],
) -> Result<Vec<Columns>> {
    let values: Vec<Value<'_>> = after.iter().map(Owned::as_value).collect();
    tx.all(sql, &values, |row| {
        let columns: Result<Columns, _> = (0..N).map(|column| row.get(column)).collect();
        columns.map_err(|_| damaged("row", format!("of the table `{table}`")))
    })
    .await
}

fn placeholders(count: usize) -> String {
    (1..=count).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ")
}

/// Statements are kept for the time of the process, each once: a connection knows them by their texts.
fn kept(sql: String) -> &'static str {
    static STATEMENTS: std::sync::Mutex<std::collections::BTreeSet<&'static str>> =
        std::sync::Mutex::new(std::collections::BTreeSet::new());
    let mut statements = STATEMENTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(known) = statements.get(sql.as_str()) {
        return known;
    }
    let sql: &'static str = sql.leak();
    statements.insert(sql);
    sql
}

const SERVICE: Table<3> =
    Table { name: "service", key: 1, columns: ["only_row", "id", "cursor_key"], page: PAGE };
const COLLECTIONS: Table<7> = Table {
    name: "collections",
    key: 1,
    columns: ["id", "name", "settings", "next_operation", "created_at", "checksum", "pruned_to"],
    page: PAGE,
};
const FINGERPRINTS: Table<2> =
    Table { name: "fingerprints", key: 1, columns: ["id", "fingerprint"], page: PAGE };
const GENERATIONS: Table<8> = Table {
    name: "generations",
    key: 1,
    columns: [
        "id",
        "collection_id",
        "fingerprint_id",
        "indexed",
        "current",
        "complete_from",
        "created_at",
        "checksum",
    ],
    page: PAGE,
};
const DOCUMENTS: Table<13> = Table {
    name: "documents",
    key: 1,
    columns: [
        "key",
        "collection_id",
        "id",
        "version",
        "title",
        "text",
        "metadata",
        "content_hash",
        "checksum",
        "pages",
        "embedded_title",
        "vector",
        "source",
    ],
    page: DOCUMENTS_PAGE,
};
const OPERATIONS: Table<7> = Table {
    name: "operations",
    key: 2,
    columns: ["collection_id", "number", "kind", "document_id", "job_id", "checksum", "identity"],
    page: PAGE,
};
const UNSEARCHABLE: Table<5> = Table {
    name: "unsearchable",
    key: 2,
    columns: ["collection_id", "number", "state", "code", "message"],
    page: PAGE,
};
const JOBS: Table<21> = Table {
    name: "jobs",
    key: 1,
    columns: [
        "sequence",
        "id",
        "collection_id",
        "collection",
        "first_operation",
        "last_operation",
        "total",
        "processed",
        "unchanged",
        "failed",
        "error",
        "errors",
        "status",
        "created_at",
        "started_at",
        "finished_at",
        "filter_hash",
        "changed",
        "chunks",
        "refused",
        "files",
    ],
    page: PAGE,
};
const CHUNKS: Table<8> = Table {
    name: "chunks",
    key: 3,
    columns: [
        "generation_id",
        "document",
        "ordinal",
        "version",
        "\"start\"",
        "\"end\"",
        "text_hash",
        "checksum",
    ],
    page: PAGE,
};
const EMBEDDINGS: Table<5> = Table {
    name: "embeddings",
    key: 1,
    columns: ["id", "fingerprint_id", "text_hash", "vector", "checksum"],
    page: PAGE,
};
const FEEDBACK: Table<11> = Table {
    name: "feedback",
    key: 2,
    columns: [
        "collection_id",
        "number",
        "query",
        "document_id",
        "chunk",
        "grade",
        "created_at",
        "fingerprint_id",
        "features",
        "caller",
        "is_operator",
    ],
    page: PAGE,
};
const QUERIES: Table<6> = Table {
    name: "queries",
    key: 2,
    columns: ["collection_id", "number", "query", "results", "relevance", "asked_at"],
    page: PAGE,
};
const API_KEYS: Table<11> = Table {
    name: "api_keys",
    key: 1,
    columns: [
        "id",
        "name",
        "prefix",
        "hash",
        "grants",
        "expires_at",
        "created_at",
        "revoked_at",
        "previous_hash",
        "previous_until",
        "checksum",
    ],
    page: PAGE,
};
const AUDIT: Table<6> = Table {
    name: "audit",
    key: 1,
    columns: ["number", "at", "by_key", "action", "subject", "changes"],
    page: PAGE,
};
const SPENDING: Table<4> =
    Table { name: "spending", key: 3, columns: ["key_id", "model", "day", "nanos"], page: PAGE };
const WEBHOOKS: Table<8> = Table {
    name: "webhooks",
    key: 1,
    columns: ["job_id", "caller", "url", "origin", "attempts", "due_at", "ended_at", "error"],
    page: PAGE,
};
const IDEMPOTENCY_KEYS: Table<7> = Table {
    name: "idempotency_keys",
    key: 1,
    columns: ["scope", "caller", "number", "fingerprint", "job", "version", "created_at"],
    page: PAGE,
};
const ORIGINALS: Table<5> = Table {
    name: "originals",
    key: 1,
    columns: ["document", "sha256", "media_type", "name", "bytes"],
    page: PAGE,
};
