//! The files of `bench/search/corpus.py`.

use std::fs::File;
use std::io::{BufRead, BufReader, Lines, Read};
use std::path::Path;

use serde::Deserialize;
use weir_index::{IndexedChunk, IndexedDocument};

use crate::Outcome;

/// Values per embedding, as all-MiniLM-L6-v2 has them.
pub(crate) const DIMENSION: usize = 384;

/// The queries with their embeddings.
pub(crate) struct Queries {
    pub(crate) texts: Vec<String>,
    pub(crate) vectors: Vec<Vec<f32>>,
}

impl Queries {
    pub(crate) fn read(folder: &Path) -> Outcome<Queries> {
        let texts = lines(&folder.join("queries.jsonl"))?
            .map(|line| Ok(serde_json::from_str(&line?)?))
            .collect::<Outcome<Vec<String>>>()?;
        let mut rows = open(&folder.join("queries.f32"))?;
        let vectors = texts.iter().map(|_| row(&mut rows)).collect::<Outcome<Vec<_>>>()?;
        if texts.is_empty() {
            Err("the corpus has no queries".into())
        } else {
            Ok(Queries { texts, vectors })
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }
}

#[derive(Deserialize)]
struct Line {
    id: String,
    title: String,
    text: String,
    n: u32,
    group: String,
}

/// The first documents, one chunk each.
pub(crate) struct Documents {
    lines: std::iter::Take<Lines<BufReader<File>>>,
    rows: Option<BufReader<File>>,
}

impl Documents {
    pub(crate) fn open(folder: &Path, count: usize, with_vectors: bool) -> Outcome<Documents> {
        let rows = if with_vectors { Some(open(&folder.join("documents.f32"))?) } else { None };
        Ok(Documents { lines: lines(&folder.join("documents.jsonl"))?.take(count), rows })
    }

    fn document(&mut self, line: &str) -> Outcome<IndexedDocument> {
        let Line { id, title, text, n, group } = serde_json::from_str(line)?;
        let embedding = self.rows.as_mut().map(row).transpose()?;
        Ok(IndexedDocument {
            id,
            version: 1,
            title: Some(title),
            metadata: serde_json::json!({ "n": n, "group": group }).to_string(),
            pages: None,
            chunks: vec![IndexedChunk { start: 0, end: text.len(), text, embedding }],
        })
    }
}

impl Iterator for Documents {
    type Item = Outcome<IndexedDocument>;

    fn next(&mut self) -> Option<Outcome<IndexedDocument>> {
        let line = self.lines.next()?;
        Some(line.map_err(Into::into).and_then(|line| self.document(&line)))
    }
}

/// The number in a document's id.
pub(crate) fn number(id: &str) -> Outcome<u32> {
    let digits = id.strip_prefix('d').ok_or_else(|| format!("`{id}` is no document of the corpus"))?;
    Ok(digits.parse()?)
}

fn row(rows: &mut BufReader<File>) -> Outcome<Vec<f32>> {
    let mut bytes = vec![0; DIMENSION * 4];
    rows.read_exact(&mut bytes)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect())
}

fn lines(path: &Path) -> Outcome<Lines<BufReader<File>>> {
    Ok(open(path)?.lines())
}

fn open(path: &Path) -> Outcome<BufReader<File>> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(BufReader::with_capacity(1 << 20, file))
}
