//! Drafts a set from the documents of a collection and the feedback to it.
//!
//! The same collection always gives the same draft: documents are chosen by the hash of their ids. A drafted query
//! shares words with its document, so a draft is good for comparing configurations; its absolute scores mean little.

use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use tokio_util::sync::CancellationToken;
use weir_api::{DocumentReply, FeedbackReply, List};
use weir_client::{Client, ClientError};
use weir_text::{Analyser, Language, is_stop_word};

use crate::dataset::{CORPUS, QRELS, QRELS_HEADER, QUERIES};
use crate::{EvalError, Result};

/// Entries per page of a list: the gateway's maximum.
const PAGE: usize = 1_000;
/// Candidate documents per query: some yield no query.
const CANDIDATES_PER_QUERY: usize = 4;
/// Bytes of a document's text that queries are made of.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Characters of a sentence or title that is used as a query.
const QUERY_CHARS: std::ops::RangeInclusive<usize> = 12..=300;
/// Words of a query of key words.
const KEY_WORDS: usize = 4;

/// The source of a drafted set, and its destination.
#[derive(Debug, Clone, Copy)]
pub struct DraftOptions<'a> {
    /// The folder of the set.
    pub folder: &'a Path,
    /// The collection that has the documents.
    pub collection: &'a str,
    /// The language of the documents.
    pub language: Language,
    /// Queries to draft from documents, at most. Those from feedback are not limited.
    pub queries_max: usize,
}

/// The content of a drafted set.
#[derive(Debug, Clone, Copy)]
pub struct Draft {
    /// Documents.
    pub documents: u64,
    /// Queries drafted from documents.
    pub from_documents: usize,
    /// Queries with feedback.
    pub from_feedback: usize,
}

/// Drafts a set into a folder.
///
/// # Errors
/// When the folder has a set, a call fails, the collection yields no query, or `cancelled` is set. No files are left then.
pub async fn draft(
    options: DraftOptions<'_>,
    client: &Client,
    cancelled: &CancellationToken,
) -> Result<Draft> {
    let files = [CORPUS, QUERIES, QRELS].map(|name| options.folder.join(name));
    if let Some(path) = files.iter().find(|path| path.exists()) {
        return Err(EvalError::DraftExists(path.clone()));
    }
    std::fs::create_dir_all(options.folder).map_err(unwritable(options.folder))?;
    let drafted = cancelled.run_until_cancelled(write_set(&files, options, client)).await;
    let drafted = drafted.unwrap_or(Err(EvalError::Cancelled));
    if drafted.is_err() {
        files.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
    drafted
}

async fn write_set(
    [corpus, queries, qrels]: &[PathBuf; 3],
    options: DraftOptions<'_>,
    client: &Client,
) -> Result<Draft> {
    let DraftOptions { collection, language, queries_max, .. } = options;
    let mut judged = Judged::default();
    let feedback = async |cursor: Option<&str>| client.feedback(collection, PAGE, cursor).await;
    for_each(feedback, |feedback| {
        judged.add(feedback);
        Ok(())
    })
    .await?;
    let mut statistics = Statistics::new(language);
    let mut candidates =
        Candidates { heap: BinaryHeap::new(), count_max: queries_max.saturating_mul(CANDIDATES_PER_QUERY) };
    let mut file = create(corpus)?;
    let mut documents = 0;
    let pages = async |cursor: Option<&str>| client.documents(collection, PAGE, cursor).await;
    for_each(pages, |document: DocumentReply| {
        let line = json!({
            "_id": document.id, "title": document.title.as_deref().unwrap_or_default(), "text": document.text,
            "metadata": document.metadata,
        });
        documents += 1;
        judged.existing.extend(judged.documents.take(&document.id));
        statistics.add(&document);
        candidates.add(document);
        writeln!(file, "{line}").map_err(unwritable(corpus))
    })
    .await?;
    file.flush().map_err(unwritable(corpus))?;

    let from_feedback = judged.into_queries();
    let from_documents = statistics.draft_queries(candidates.into_sorted(), queries_max);
    if from_feedback.is_empty() && from_documents.is_empty() {
        return Err(EvalError::NothingToDraft(collection.to_owned()));
    }
    write_queries(from_feedback.iter().chain(&from_documents), queries, qrels)?;
    Ok(Draft { documents, from_documents: from_documents.len(), from_feedback: from_feedback.len() })
}

/// Passes every entry of a list to `each`, page by page.
async fn for_each<T>(
    page: impl AsyncFn(Option<&str>) -> Result<List<T>, ClientError>,
    mut each: impl FnMut(T) -> Result<()>,
) -> Result<()> {
    let mut cursor: Option<String> = None;
    loop {
        let list = page(cursor.as_deref()).await?;
        list.data.into_iter().try_for_each(&mut each)?;
        cursor = list.next_cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

/// A drafted query with its judgments.
#[derive(Debug, PartialEq)]
struct Drafted {
    text: String,
    /// The source of its text, as written to the set's metadata.
    from: &'static str,
    grades: BTreeMap<String, u32>,
}

/// Writes queries and judgments.
fn write_queries<'a>(drafted: impl Iterator<Item = &'a Drafted>, queries: &Path, qrels: &Path) -> Result<()> {
    let (mut lines, mut judgments) = (create(queries)?, create(qrels)?);
    writeln!(judgments, "{QRELS_HEADER}").map_err(unwritable(qrels))?;
    for (number, query) in (1..).zip(drafted) {
        let line = json!({"_id": format!("q{number}"), "text": query.text, "metadata": {"from": query.from}});
        writeln!(lines, "{line}").map_err(unwritable(queries))?;
        for (document, grade) in &query.grades {
            writeln!(judgments, "q{number}\t{document}\t{grade}").map_err(unwritable(qrels))?;
        }
    }
    lines.flush().map_err(unwritable(queries))?;
    judgments.flush().map_err(unwritable(qrels))
}

fn create(path: &Path) -> Result<BufWriter<File>> {
    File::create_new(path).map(BufWriter::new).map_err(unwritable(path))
}

fn unwritable(path: &Path) -> impl FnOnce(std::io::Error) -> EvalError {
    let path = path.to_owned();
    move |source| EvalError::Write { path, source }
}

/// Whether an id can be written to a file of judgments, whose separators are tabs and line ends.
fn fits_a_line(id: &str) -> bool {
    !id.contains(['\t', '\n', '\r'])
}

/// The feedback to a collection.
#[derive(Default)]
struct Judged {
    /// The newest grade by query and document.
    grades: BTreeMap<String, BTreeMap<String, u32>>,
    /// Documents with a grade that were not found in the collection yet.
    documents: HashSet<String>,
    /// Documents with a grade that exist.
    existing: HashSet<String>,
}

impl Judged {
    /// Adds feedback in the order of the API: newest first.
    fn add(&mut self, feedback: FeedbackReply) {
        if fits_a_line(&feedback.document_id) {
            self.documents.insert(feedback.document_id.clone());
            let grades = self.grades.entry(feedback.query).or_default();
            grades.entry(feedback.document_id).or_insert(feedback.grade);
        }
    }

    /// The queries that have an existing relevant document.
    fn into_queries(mut self) -> Vec<Drafted> {
        for grades in self.grades.values_mut() {
            grades.retain(|document, _| self.existing.contains(document));
        }
        self.grades.retain(|_, grades| grades.values().any(|grade| *grade > 0));
        let drafted = |(text, grades)| Drafted { text, from: "feedback", grades };
        self.grades.into_iter().map(drafted).collect()
    }
}

/// The documents with the lowest hashes of their ids: a sample that does not depend on their order.
struct Candidates {
    heap: BinaryHeap<Candidate>,
    count_max: usize,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    hash: [u8; 32],
    id: String,
    title: String,
    text: String,
}

impl Candidates {
    fn add(&mut self, document: DocumentReply) {
        if !fits_a_line(&document.id) {
            return;
        }
        let hash = blake3::hash(document.id.as_bytes()).into();
        let text = start_of(&document.text).to_owned();
        self.heap.push(Candidate { hash, id: document.id, title: document.title.unwrap_or_default(), text });
        if self.heap.len() > self.count_max {
            self.heap.pop();
        }
    }

    fn into_sorted(self) -> Vec<Candidate> {
        self.heap.into_sorted_vec()
    }
}

fn start_of(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// Document frequencies in a collection.
struct Statistics {
    analyser: Analyser,
    language: Language,
    documents: u32,
    /// Documents per term.
    with_term: HashMap<u64, u32>,
    /// Documents per title and per first sentence.
    with_start: HashMap<u64, u32>,
}

fn short_hash(text: &str) -> u64 {
    let hash: [u8; 32] = blake3::hash(text.trim().to_lowercase().as_bytes()).into();
    u64::from_le_bytes([hash[0], hash[1], hash[2], hash[3], hash[4], hash[5], hash[6], hash[7]])
}

impl Statistics {
    fn new(language: Language) -> Statistics {
        Statistics {
            analyser: Analyser::new(language),
            language,
            documents: 0,
            with_term: HashMap::new(),
            with_start: HashMap::new(),
        }
    }

    fn add(&mut self, document: &DocumentReply) {
        self.documents += 1;
        let text = start_of(&document.text);
        let mut terms = HashSet::new();
        self.analyser.analyse(text, |token| {
            terms.insert(short_hash(token.text));
        });
        terms.into_iter().for_each(|term| *self.with_term.entry(term).or_default() += 1);
        let title = document.title.as_deref().filter(|title| !title.trim().is_empty());
        let starts: HashSet<u64> = title.into_iter().chain(first_sentence(text)).map(short_hash).collect();
        starts.into_iter().for_each(|start| *self.with_start.entry(start).or_default() += 1);
    }

    /// Up to `count` queries, one per document. Title, first sentence and key words take turns where a document has them.
    fn draft_queries(&mut self, candidates: Vec<Candidate>, count: usize) -> Vec<Drafted> {
        let (mut drafted, mut seen) = (Vec::new(), HashSet::new());
        for candidate in candidates {
            if drafted.len() == count {
                break;
            }
            let ways: [(&str, Option<String>); 3] = [
                ("title", self.unique_start(Some(&candidate.title))),
                ("first sentence", self.unique_start(first_sentence(&candidate.text))),
                ("key words", self.key_words(&candidate.text)),
            ];
            let turn = drafted.len() % ways.len();
            let made = (turn..turn + ways.len()).map(|way| &ways[way % ways.len()]);
            let made = made.filter_map(|(from, text)| Some((*from, text.clone()?)));
            if let Some((from, text)) = made.into_iter().find(|(_, text)| seen.insert(short_hash(text))) {
                drafted.push(Drafted { text, from, grades: [(candidate.id, 1)].into() });
            }
        }
        drafted
    }

    /// A title or first sentence that no other document has.
    fn unique_start(&self, text: Option<&str>) -> Option<String> {
        let text = text?.trim();
        let is_unique = self.with_start.get(&short_hash(text)) == Some(&1);
        (is_unique && QUERY_CHARS.contains(&text.chars().count())).then(|| text.to_owned())
    }

    /// The [`KEY_WORDS`] words with the highest TF-IDF, in the order of the text.
    fn key_words(&mut self, text: &str) -> Option<String> {
        let mut found: HashMap<u64, (u32, usize, usize)> = HashMap::new();
        self.analyser.analyse(text, |token| {
            found.entry(short_hash(token.text)).or_insert((0, token.start, token.end)).0 += 1;
        });
        let mut words: Vec<(f64, usize, &str)> = found
            .into_iter()
            .filter_map(|(term, (frequency, start, end))| {
                let word = &text[start..end];
                let is_word = word.chars().count() > 2 && word.chars().all(char::is_alphabetic);
                let inverse_frequency = f64::from(self.documents) / f64::from(*self.with_term.get(&term)?);
                (is_word && !is_stop_word(word, self.language))
                    .then(|| (f64::from(frequency) * inverse_frequency.ln(), start, word))
            })
            .filter(|(score, _, _)| *score > 0.0)
            .collect();
        words.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        words.truncate(KEY_WORDS);
        words.sort_by_key(|word| word.1);
        (words.len() == KEY_WORDS).then(|| words.iter().map(|word| word.2).collect::<Vec<_>>().join(" "))
    }
}

/// The first sentence of a suitable length; headings are skipped.
fn first_sentence(text: &str) -> Option<&str> {
    let paragraphs = text.split('\n').map(str::trim).filter(|line| !line.starts_with('#'));
    paragraphs.flat_map(sentences).find(|sentence| QUERY_CHARS.contains(&sentence.chars().count()))
}

/// The sentences of a paragraph: each ends with a punctuation mark before white space, or with a full-width mark.
fn sentences(paragraph: &str) -> impl Iterator<Item = &str> {
    let mut previous = ' ';
    paragraph
        .split_inclusive(move |c: char| {
            let before = std::mem::replace(&mut previous, c);
            matches!(c, '。' | '！' | '？') || (c.is_whitespace() && matches!(before, '.' | '!' | '?'))
        })
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::Metadata;

    fn document(id: &str, title: &str, text: &str) -> DocumentReply {
        DocumentReply {
            id: id.to_owned(),
            title: Some(title.to_owned()),
            text: text.to_owned(),
            metadata: Metadata::empty(),
            version: 1,
            chunks: 1,
        }
    }

    #[test]
    fn the_first_sentence_of_a_suitable_length_is_found() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(first_sentence(text), expected, "{text}");
        check("A weir is a low dam. It holds water.", Some("A weir is a low dam."));
        check("# Weirs in rivers\n\nYes! Does 3.5 m suffice? No.", Some("Does 3.5 m suffice?"));
        check("堰は川を横切る低いダムである。水を溜める。", Some("堰は川を横切る低いダムである。"));
        check("short", None);
        check("", None);
    }

    /// Drafts queries from documents, each shown as `from: text -> grades`.
    fn drafted(documents: &[DocumentReply], count: usize) -> Vec<String> {
        let mut statistics = Statistics::new(Language::English);
        let mut candidates = Candidates { heap: BinaryHeap::new(), count_max: 100 };
        for document in documents {
            statistics.add(document);
            candidates.add(document.clone());
        }
        let queries = statistics.draft_queries(candidates.into_sorted(), count);
        let show = |query: &Drafted| format!("{}: {} -> {:?}", query.from, query.text, query.grades);
        queries.iter().map(show).collect()
    }

    #[test]
    fn queries_are_drafted_by_title_first_sentence_and_key_words_in_turn() {
        let documents = [
            document(
                "a",
                "Weirs and dams",
                "A weir is a low dam across a river. Boats pass the lock beside it.",
            ),
            document(
                "b",
                "The upper locks",
                "A lock lifts boats between two reaches. Gates hold the water back.",
            ),
            document(
                "c",
                "Old mill wheels",
                "A wheel turns the stones of the mill. Millers grind their grain slowly.",
            ),
        ];
        assert_eq!(
            drafted(&documents, 10),
            [
                "title: The upper locks -> {\"b\": 1}",
                "first sentence: A weir is a low dam across a river. -> {\"a\": 1}",
                "key words: wheel turns stones mill -> {\"c\": 1}",
            ]
        );
        assert_eq!(drafted(&documents, 1).len(), 1);
        let reversed: Vec<DocumentReply> = documents.iter().rev().cloned().collect();
        assert_eq!(drafted(&reversed, 10), drafted(&documents, 10));
    }

    #[test]
    fn a_title_of_two_documents_is_not_a_query() {
        let twins = [document("a", "Annual report", "x"), document("b", "annual report", "y")];
        assert_eq!(drafted(&twins, 10), Vec::<String>::new());
    }

    #[test]
    fn the_newest_feedback_to_existing_documents_counts() {
        let feedback = |query: &str, document_id: &str, grade| FeedbackReply {
            number: 1,
            query: query.to_owned(),
            document_id: document_id.to_owned(),
            collection: "c".to_owned(),
            chunk: None,
            grade,
            relevant: grade > 0,
            created_at: 1.0,
            key: None,
        };
        let mut judged = Judged::default();
        for (query, document, grade) in [
            ("dam", "a", 2),
            ("dam", "a", 0),
            ("dam", "gone", 1),
            ("dam", "b", 0),
            ("lock", "b", 0),
            ("sea", "gone", 1),
        ] {
            judged.add(feedback(query, document, grade));
        }
        judged.existing.extend(["a".to_owned(), "b".to_owned()]);
        let grades = [("a".to_owned(), 2), ("b".to_owned(), 0)].into();
        assert_eq!(judged.into_queries(), [Drafted { text: "dam".to_owned(), from: "feedback", grades }]);
    }
}
