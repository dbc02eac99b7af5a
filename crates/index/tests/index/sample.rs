//! Small collections, and one way to ask them.

use std::path::Path;

use tempfile::TempDir;
use weir_index::{
    Change, Embedded, EngineSettings, Hit, IndexQuery, IndexResult, IndexedChunk, IndexedDocument,
    RebuildReason,
};
use weir_policy::Caller;
use weir_query::Query;
use weir_ranking::RetrievalMode;
use weir_text::Language;

/// Dimension of the embeddings in these tests.
pub(crate) const DIMENSION: usize = 4;

/// A folder and the engine in it.
pub(crate) struct Index {
    pub(crate) folder: TempDir,
    pub(crate) engine: Embedded,
    pub(crate) settings: EngineSettings,
}

pub(crate) fn settings() -> EngineSettings {
    EngineSettings {
        dimension: DIMENSION,
        language: Language::English,
        fingerprint: "model-1".to_owned(),
        writer_memory_bytes: 15_000_000,
    }
}

pub(crate) fn text_only() -> EngineSettings {
    EngineSettings { dimension: 0, ..settings() }
}

impl Index {
    pub(crate) fn new(settings: EngineSettings) -> Index {
        let folder = tempfile::tempdir().unwrap();
        let (engine, rebuilt) = Embedded::open(folder.path(), settings.clone(), 0).unwrap();
        assert_eq!(rebuilt, Some(RebuildReason::Missing));
        Index { folder, engine, settings }
    }

    /// Wraps a folder that was opened with the usual settings.
    pub(crate) fn opened(folder: TempDir, engine: Embedded) -> Index {
        Index { folder, engine, settings: settings() }
    }

    /// Ends the engine without closing it and opens its folder again.
    pub(crate) fn reopen(self) -> (Index, Option<RebuildReason>) {
        let Index { folder, engine, settings } = self;
        drop(engine);
        let (engine, rebuilt) = open(folder.path(), settings.clone());
        (Index { folder, engine, settings }, rebuilt)
    }

    pub(crate) fn apply(&self, changes: Vec<Change>, applied_seq: u64) {
        self.engine.apply(changes, applied_seq).unwrap();
    }

    pub(crate) fn search(&self, request: &IndexQuery) -> IndexResult {
        self.engine.search(&Caller::system(), request).unwrap()
    }

    /// The rankings of both retrievers, each chunk as `id.chunk` in the order of its ranking; asserts that the index is sound.
    pub(crate) fn sees(&self, text: &str, axis_number: usize) -> (String, String) {
        let report = self.engine.verify().unwrap();
        assert!(report.is_sound(), "{report:?}");
        (names(&self.search(&lexical(text)).hits), names(&self.search(&dense(axis(axis_number))).hits))
    }

    pub(crate) fn counts(&self) -> (u64, u64) {
        let counts = self.engine.counts();
        (counts.documents, counts.chunks)
    }
}

pub(crate) fn open(folder: &Path, settings: EngineSettings) -> (Embedded, Option<RebuildReason>) {
    Embedded::open(folder, settings, 1_000_000).unwrap()
}

pub(crate) fn names(hits: &[Hit]) -> String {
    hits.iter().map(|hit| format!("{}.{}", hit.document_id, hit.chunk)).collect::<Vec<_>>().join(" ")
}

/// The unit vector along one axis.
pub(crate) fn axis(number: usize) -> Vec<f32> {
    (0..DIMENSION).map(|place| if place == number { 1.0 } else { 0.0 }).collect()
}

/// A document whose chunks lie one after the other, each with an embedding.
pub(crate) fn document(id: &str, version: u64, chunks: &[(&str, Vec<f32>)]) -> IndexedDocument {
    let mut start = 0;
    let chunks = chunks
        .iter()
        .map(|(text, embedding)| {
            let end = start + text.len();
            let chunk =
                IndexedChunk { start, end, text: (*text).to_owned(), embedding: Some(embedding.clone()) };
            start = end;
            chunk
        })
        .collect();
    IndexedDocument {
        id: id.to_owned(),
        version,
        title: None,
        metadata: "{}".to_owned(),
        pages: None,
        chunks,
    }
}

/// A document of one chunk along an axis.
pub(crate) fn put(id: &str, version: u64, text: &str, axis_number: usize) -> Change {
    Change::Put(document(id, version, &[(text, axis(axis_number))]))
}

pub(crate) fn put_text(id: &str, version: u64, text: &str) -> Change {
    let mut document = document(id, version, &[(text, Vec::new())]);
    document.chunks[0].embedding = None;
    Change::Put(document)
}

pub(crate) fn remove(id: &str) -> Change {
    Change::Remove { id: id.to_owned(), before: u64::MAX }
}

pub(crate) fn request(mode: RetrievalMode, text: &str, embedding: Option<Vec<f32>>) -> IndexQuery {
    IndexQuery::new(mode, Some(Query::Words(text.to_owned())), embedding, 10)
}

pub(crate) fn lexical(text: &str) -> IndexQuery {
    request(RetrievalMode::Lexical, text, None)
}

pub(crate) fn dense(embedding: Vec<f32>) -> IndexQuery {
    request(RetrievalMode::Dense, "", Some(embedding))
}
