//! An evaluation set: a folder in the layout of BEIR.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::metrics::Grades;
use crate::{EvalError, Result};

/// The file of documents: `_id`, `title`, `text`.
pub(crate) const CORPUS: &str = "corpus.jsonl";
/// The file of queries: `_id`, `text`.
pub(crate) const QUERIES: &str = "queries.jsonl";
/// The file of judgments: query, document, grade, below a header. Or a folder with such a file per split.
pub(crate) const QRELS: &str = "qrels.tsv";
const QRELS_FOLDER: &str = "qrels";
/// The header of a file of judgments in BEIR.
pub(crate) const QRELS_HEADER: &str = "query-id\tcorpus-id\tscore";

/// Queries with their judgments. The documents are not loaded.
#[derive(Debug)]
pub(crate) struct EvaluationSet {
    /// The folder's name.
    pub(crate) name: String,
    /// The file of documents.
    pub(crate) corpus: PathBuf,
    /// The queries with a relevant document, in the order of the file.
    pub(crate) queries: Vec<Query>,
}

/// A query with its judgments.
#[derive(Debug, PartialEq)]
pub(crate) struct Query {
    /// The query's id.
    pub(crate) id: String,
    /// The query's text.
    pub(crate) text: String,
    /// Its judgments.
    pub(crate) grades: Grades,
}

#[derive(Deserialize)]
struct QueryLine {
    #[serde(rename = "_id", alias = "id")]
    id: String,
    text: String,
}

impl EvaluationSet {
    /// Reads a folder. `split` names the file of judgments in `qrels`: `test` or the only file when absent. Queries
    /// without a relevant document are left out.
    ///
    /// # Errors
    /// When a file can't be read or is malformed, and when judged queries are missing.
    pub(crate) fn load(folder: &Path, split: Option<&str>) -> Result<EvaluationSet> {
        let name =
            folder.canonicalize().map_err(|source| EvalError::Read { path: folder.to_owned(), source })?;
        let name = name.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut judged = read_judgments(&judgments_path(folder, split)?)?;
        judged.retain(|_, grades| grades.values().any(|grade| *grade > 0));
        let mut queries = Vec::new();
        let path = folder.join(QUERIES);
        for (number, line) in (1..).zip(read(&path)?.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let QueryLine { id, text } =
                serde_json::from_str(line).map_err(|error| bad_line(&path, number, error.to_string()))?;
            if let Some(grades) = judged.remove(&id) {
                queries.push(Query { id, text, grades });
            }
        }
        if let Some(example) = judged.keys().next() {
            let example = example.clone();
            return Err(EvalError::UnknownQueries {
                folder: folder.to_owned(),
                count: judged.len(),
                example,
            });
        }
        if queries.is_empty() {
            return Err(EvalError::NoRelevantJudgment(folder.to_owned()));
        }
        Ok(EvaluationSet { name, corpus: folder.join(CORPUS), queries })
    }
}

/// The file of judgments: `qrels.tsv`, or the file of the split in `qrels/`.
fn judgments_path(folder: &Path, split: Option<&str>) -> Result<PathBuf> {
    let single = folder.join(QRELS);
    if single.is_file() {
        return Ok(single);
    }
    let of_split = folder.join(QRELS_FOLDER).join(format!("{}.tsv", split.unwrap_or("test")));
    if of_split.is_file() {
        return Ok(of_split);
    }
    let entries = std::fs::read_dir(folder.join(QRELS_FOLDER)).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "tsv"))
        .collect();
    found.sort();
    match found.as_slice() {
        [only] if split.is_none() => Ok(only.clone()),
        _ => Err(EvalError::NoJudgments {
            folder: folder.to_owned(),
            splits: found
                .iter()
                .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
                .collect(),
        }),
    }
}

fn read_judgments(path: &Path) -> Result<BTreeMap<String, Grades>> {
    let mut judged: BTreeMap<String, Grades> = BTreeMap::new();
    for (number, line) in (1..).zip(read(path)?.lines()) {
        let fields: Vec<&str> = line.trim_end().split('\t').collect();
        let grade = |text: &str| text.trim().parse::<i64>().ok();
        match fields[..] {
            [""] => {}
            [query, document, score] => match grade(score) {
                Some(grade) => {
                    judged.entry(query.to_owned()).or_default().insert(document.to_owned(), grade);
                }
                None if number == 1 => {} // the header
                None => {
                    return Err(bad_line(path, number, format!("the grade `{score}` is not a whole number")));
                }
            },
            _ => {
                let message = "needs a query, a document and a grade with tabs between".to_owned();
                return Err(bad_line(path, number, message));
            }
        }
    }
    Ok(judged)
}

fn bad_line(path: &Path, number: usize, message: String) -> EvalError {
    EvalError::Line { path: path.to_owned(), number, message }
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|source| EvalError::Read { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY_LINES: &str =
        "{\"_id\":\"q1\",\"text\":\"dam\"}\n\n{\"_id\":\"q2\",\"text\":\"boat\",\"metadata\":{}}\n";

    fn check(files: &[(&str, &str)], expected: &str) {
        check_split(files, None, expected);
    }

    /// Loads a folder with these files; compares the queries with their grades, or the error.
    fn check_split(files: &[(&str, &str)], split: Option<&str>, expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let shown = match EvaluationSet::load(folder.path(), split) {
            Ok(set) => {
                let show = |query: &Query| format!("{} {} {:?}", query.id, query.text, query.grades);
                set.queries.iter().map(show).collect::<Vec<_>>().join("; ")
            }
            Err(error) => error.to_string().replace(&folder.path().display().to_string(), "F"),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn queries_with_a_relevant_document_are_loaded() {
        let qrels = "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\nq2\ta\t0\nq3\ta\t0\n";
        check(&[(QUERIES, QUERY_LINES), (QRELS, qrels)], r#"q1 dam {"a": 2, "b": 0}"#);
        check(&[(QUERIES, QUERY_LINES), (QRELS, "q2\tb\t1\n")], r#"q2 boat {"b": 1}"#);
    }

    #[test]
    fn judgments_may_be_in_a_folder_by_split() {
        let (train, test) = (("qrels/train.tsv", "q1\ta\t1\n"), ("qrels/test.tsv", "q2\ta\t1\n"));
        check(&[(QUERIES, QUERY_LINES), train, test], r#"q2 boat {"a": 1}"#);
        check(&[(QUERIES, QUERY_LINES), train], r#"q1 dam {"a": 1}"#);
        let queries = (QUERIES, QUERY_LINES);
        check_split(&[queries, train, test], Some("train"), r#"q1 dam {"a": 1}"#);
        check_split(&[queries, train], Some("trian"), "F has no judgments of that --split; there are: train");
        let dev = ("qrels/dev.tsv", "");
        check(
            &[(QUERIES, QUERY_LINES), train, dev],
            "F has no judgments of that --split; there are: dev, train",
        );
        check(&[(QUERIES, QUERY_LINES)], "F has no judgments: neither qrels.tsv nor a qrels folder");
    }

    #[test]
    fn errors_name_the_file_and_line() {
        let queries = (QUERIES, QUERY_LINES);
        check(
            &[queries, (QRELS, "q1\ta\t1\nq1 b 1\n")],
            "F/qrels.tsv, line 2: needs a query, a document and a grade with tabs between",
        );
        check(
            &[queries, (QRELS, "q1\ta\t1\nq1\tb\tx\n")],
            "F/qrels.tsv, line 2: the grade `x` is not a whole number",
        );
        check(
            &[(QUERIES, "{}"), (QRELS, "q1\ta\t1\n")],
            "F/queries.jsonl, line 1: missing field `_id` at line 1 column 2",
        );
        check(
            &[queries, (QRELS, "q9\ta\t1\n")],
            "F judges 1 queries that are not in queries.jsonl, such as `q9`",
        );
        check(&[queries, (QRELS, "q1\ta\t0\n")], "F has no query with a relevant document");
    }
}
