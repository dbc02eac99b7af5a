//! `weir eval --draft`: a set made of a collection's own documents and of the feedback to it.
//!
//! The same collection always gives the same draft: documents are chosen by the hash of their ids. A drafted query
//! shares words with its document, so that a draft compares configurations and says little by itself.

use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use weir_api::{DocumentReply, FeedbackReply, List};
use weir_text::{Analyser, Language, is_stop_word};

use super::EvalError;
use super::dataset::{CORPUS, QRELS, QRELS_NAMES, QUERIES};
use crate::cli::arguments::EvalArguments;
use crate::cli::client::{Client, Patience};
use crate::cli::failure::Failure;
use crate::cli::interrupt;

/// Things on a page: as many as the gateway gives.
const PAGE: usize = 1_000;
/// Documents that are kept for one query: some give none.
const CANDIDATES_PER_QUERY: usize = 4;
/// Bytes of a document's text that queries are made of.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// A sentence or title of fewer or more characters is no query.
const QUERY_CHARS: std::ops::RangeInclusive<usize> = 12..=300;
/// Words of a query of key words.
const KEY_WORDS: usize = 4;

/// Drafts a set and says what it has.
///
/// # Errors
/// When the folder has a set, the gateway can't be asked, or the collection gives no query.
pub(super) fn run(
    arguments: &EvalArguments,
    client: &Client,
    language: Language,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    interrupt::listen();
    let ([folder], Some(collection)) = (arguments.folders.as_slice(), arguments.collection.as_deref()) else {
        return Err(EvalError::OneCollection.into());
    };
    let files = [CORPUS, QUERIES, QRELS].map(|name| folder.join(name));
    if let Some(path) = files.iter().find(|path| path.exists()) {
        return Err(EvalError::DraftExists { path: path.clone() }.into());
    }
    std::fs::create_dir_all(folder).map_err(|source| EvalError::Write { path: folder.clone(), source })?;
    let drafted = draft(&files, client, collection, arguments.queries, language);
    match &drafted {
        Err(_) => files.iter().for_each(|path| drop(std::fs::remove_file(path))), // half a set is none
        Ok(made) if arguments.json => {
            let queries = made.from_documents + made.from_feedback;
            let shown = json!({
                "folder": folder, "documents": made.documents, "queries": queries, "from_feedback": made.from_feedback,
            });
            writeln!(out, "{shown}")?;
        }
        Ok(made) => writeln!(
            out,
            "{}: {} documents, {} queries drafted from them and {} from feedback",
            folder.display(),
            made.documents,
            made.from_documents,
            made.from_feedback
        )?,
    }
    drafted.map(drop)
}

struct Made {
    documents: u64,
    from_documents: usize,
    from_feedback: usize,
}

fn draft(
    [corpus, queries, qrels]: &[PathBuf; 3],
    client: &Client,
    collection: &str,
    count: usize,
    language: Language,
) -> Result<Made, Failure> {
    let mut judged = Judged::default();
    each_of(client, &format!("/v1/feedback?collection={collection}&"), |feedback| judged.add(feedback))?;
    let mut statistics = Statistics::new(language);
    let mut candidates =
        Candidates { heap: BinaryHeap::new(), count_max: count.saturating_mul(CANDIDATES_PER_QUERY) };
    let mut file = create(corpus)?;
    let mut documents = 0;
    each_of(client, &format!("/v1/collections/{collection}/documents?"), |document: DocumentReply| {
        let line = json!({
            "_id": document.id, "title": document.title.as_deref().unwrap_or_default(), "text": document.text,
            "metadata": document.metadata,
        });
        documents += 1;
        judged.found.extend(judged.documents.take(&document.id));
        statistics.add(&document);
        candidates.add(document);
        writeln!(file, "{line}").map_err(|source| EvalError::Write { path: corpus.clone(), source })
    })?;
    finish(file, corpus)?;

    let from_feedback = judged.queries();
    let from_documents = statistics.queries(candidates.in_order(), count);
    if from_feedback.is_empty() && from_documents.is_empty() {
        return Err(EvalError::NothingToDraft { collection: collection.to_owned() }.into());
    }
    let made = Made { documents, from_documents: from_documents.len(), from_feedback: from_feedback.len() };
    write_queries(from_feedback.iter().chain(&from_documents), queries, qrels)?;
    Ok(made)
}

/// Hands over everything that a list of the API has, page by page.
fn each_of<T: serde::de::DeserializeOwned>(
    client: &Client,
    path: &str,
    mut each: impl FnMut(T) -> Result<(), EvalError>,
) -> Result<(), Failure> {
    let mut cursor = String::new();
    loop {
        let page: List<T> = client.get(&format!("{path}limit={PAGE}{cursor}"), Patience::LONG)?;
        page.data.into_iter().try_for_each(&mut each)?;
        let Some(next) = page.next_cursor else { return Ok(()) };
        if interrupt::is_asked() {
            return Err(Failure::Interrupted(String::new()));
        }
        let encoded: String = form_urlencoded::byte_serialize(next.as_bytes()).collect();
        cursor = format!("&cursor={encoded}");
    }
}

/// A query of the draft.
#[derive(Debug, PartialEq)]
struct Drafted {
    text: String,
    /// What it was made of.
    from: &'static str,
    grades: BTreeMap<String, u32>,
}

/// Writes queries and judgments.
fn write_queries<'a>(
    drafted: impl Iterator<Item = &'a Drafted>,
    queries: &Path,
    qrels: &Path,
) -> Result<(), EvalError> {
    let (mut lines, mut judgments) = (create(queries)?, create(qrels)?);
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| EvalError::Write { path, source }
    };
    writeln!(judgments, "{QRELS_NAMES}").map_err(failed(qrels))?;
    for (number, query) in (1..).zip(drafted) {
        let line = json!({"_id": format!("q{number}"), "text": query.text, "metadata": {"from": query.from}});
        writeln!(lines, "{line}").map_err(failed(queries))?;
        for (document, grade) in &query.grades {
            writeln!(judgments, "q{number}\t{document}\t{grade}").map_err(failed(qrels))?;
        }
    }
    finish(lines, queries)?;
    finish(judgments, qrels)
}

fn create(path: &Path) -> Result<BufWriter<File>, EvalError> {
    let created = File::create_new(path).map_err(|source| EvalError::Write { path: path.to_owned(), source });
    created.map(BufWriter::new)
}

fn finish(mut file: BufWriter<File>, path: &Path) -> Result<(), EvalError> {
    file.flush().map_err(|source| EvalError::Write { path: path.to_owned(), source })
}

/// An id with one of these would break a file of judgments.
fn fits_a_line(id: &str) -> bool {
    !id.contains(['\t', '\n', '\r'])
}

/// The feedback to the collection.
#[derive(Default)]
struct Judged {
    /// The newest grade by query and document.
    grades: BTreeMap<String, BTreeMap<String, u32>>,
    /// Documents with a grade that were not seen yet.
    documents: HashSet<String>,
    /// Those that are there.
    found: HashSet<String>,
}

impl Judged {
    /// Adds feedback, which comes newest first.
    fn add(&mut self, feedback: FeedbackReply) -> Result<(), EvalError> {
        if fits_a_line(&feedback.document_id) {
            self.documents.insert(feedback.document_id.clone());
            let grades = self.grades.entry(feedback.query).or_default();
            grades.entry(feedback.document_id).or_insert(feedback.grade);
        }
        Ok(())
    }

    /// The queries for which a document that is there is relevant.
    fn queries(mut self) -> Vec<Drafted> {
        for grades in self.grades.values_mut() {
            grades.retain(|document, _| self.found.contains(document));
        }
        self.grades.retain(|_, grades| grades.values().any(|grade| *grade > 0));
        let drafted = |(text, grades)| Drafted { text, from: "feedback", grades };
        self.grades.into_iter().map(drafted).collect()
    }
}

/// Some documents, chosen by the hash of their ids: those with the lowest.
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

    fn in_order(self) -> Vec<Candidate> {
        self.heap.into_sorted_vec()
    }
}

fn start_of(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// What has to be known of all documents to ask for one of them.
struct Statistics {
    analyser: Analyser,
    language: Language,
    documents: u32,
    /// How many documents have a term.
    with_term: HashMap<u64, u32>,
    /// How many documents have this title or this first sentence.
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

    /// Up to `count` queries, a document each: by title, first sentence and key words in turn, where they are there.
    fn queries(&mut self, candidates: Vec<Candidate>, count: usize) -> Vec<Drafted> {
        let (mut drafted, mut seen) = (Vec::new(), HashSet::new());
        for candidate in candidates {
            if drafted.len() == count {
                break;
            }
            let ways: [(&str, Option<String>); 3] = [
                ("title", self.only_start(Some(&candidate.title))),
                ("first sentence", self.only_start(first_sentence(&candidate.text))),
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
    fn only_start(&self, text: Option<&str>) -> Option<String> {
        let text = text?.trim();
        let is_only = self.with_start.get(&short_hash(text)) == Some(&1);
        (is_only && QUERY_CHARS.contains(&text.chars().count())).then(|| text.to_owned())
    }

    /// The words that tell this text from the others (term frequency times inverse document frequency), in the order of
    /// the text.
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
                let weight = f64::from(self.documents) / f64::from(*self.with_term.get(&term)?);
                (is_word && !is_stop_word(word, self.language))
                    .then(|| (f64::from(frequency) * weight.ln(), start, word))
            })
            .filter(|(score, _, _)| *score > 0.0)
            .collect();
        words.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        words.truncate(KEY_WORDS);
        words.sort_by_key(|word| word.1);
        (words.len() == KEY_WORDS).then(|| words.iter().map(|word| word.2).collect::<Vec<_>>().join(" "))
    }
}

/// The first sentence that is long enough to ask with; headings are none.
fn first_sentence(text: &str) -> Option<&str> {
    let paragraphs = text.split('\n').map(str::trim).filter(|line| !line.starts_with('#'));
    paragraphs.flat_map(sentences).find(|sentence| QUERY_CHARS.contains(&sentence.chars().count()))
}

/// The sentences of a paragraph: they end with a mark that is followed by white space, or with a full-width mark.
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
    fn the_first_sentence_is_the_first_that_is_long_enough() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(first_sentence(text), expected, "{text}");
        check("A weir is a low dam. It holds water.", Some("A weir is a low dam."));
        check("# Weirs in rivers\n\nYes! Does 3.5 m suffice? No.", Some("Does 3.5 m suffice?"));
        check("堰は川を横切る低いダムである。水を溜める。", Some("堰は川を横切る低いダムである。"));
        check("short", None);
        check("", None);
    }

    /// Drafts from documents; shows `from: text -> document` of each query, sorted.
    fn drafted(documents: &[DocumentReply], count: usize) -> Vec<String> {
        let mut statistics = Statistics::new(Language::English);
        let mut candidates = Candidates { heap: BinaryHeap::new(), count_max: 100 };
        for document in documents {
            statistics.add(document);
            candidates.add(document.clone());
        }
        let queries = statistics.queries(candidates.in_order(), count);
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
    fn a_title_of_two_documents_is_no_query() {
        let twins = [document("a", "Annual report", "x"), document("b", "annual report", "y")];
        assert_eq!(drafted(&twins, 10), Vec::<String>::new());
    }

    #[test]
    fn the_newest_feedback_counts_where_its_document_is_still_there() {
        let feedback = |query: &str, document_id: &str, grade| FeedbackReply {
            number: 1,
            query: query.to_owned(),
            document_id: document_id.to_owned(),
            collection: "c".to_owned(),
            chunk: None,
            grade,
            relevant: grade > 0,
            created_at: 1.0,
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
            judged.add(feedback(query, document, grade)).unwrap();
        }
        judged.found.extend(["a".to_owned(), "b".to_owned()]);
        let grades = [("a".to_owned(), 2), ("b".to_owned(), 0)].into();
        assert_eq!(judged.queries(), [Drafted { text: "dam".to_owned(), from: "feedback", grades }]);
    }
}
