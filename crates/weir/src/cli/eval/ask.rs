//! Asking a gateway: the documents of a set go in, its queries are asked, what was made is removed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use weir_api::{CollectionReply, DeletedReply, DocumentReply, ErrorCode, SearchReply};

use super::EvalError;
use super::configuration::Configuration;
use super::dataset::{EvaluationSet, Query};
use super::metrics::Scores;
use super::run_file::{ConfigurationRun, SetRun};
use crate::cli::client::{Client, ClientError, Patience};
use crate::cli::failure::Failure;
use crate::cli::jobs::percent_encode;
use crate::cli::sources::{Documents, Inputs, Outcome};
use crate::cli::{ingest, interrupt};

/// Queries that are asked at one instant.
const QUERIES_AT_ONCE: usize = 4;
/// Documents in one ingest request, at most.
const BATCH_DOCUMENTS: usize = 500;

/// Where the documents of a set are searched.
pub(super) struct Target<'a> {
    /// The gateway.
    pub(super) client: &'a Client,
    /// The collection's name; one of our own when absent.
    pub(super) collection: Option<&'a str>,
    /// Whether a collection that was made stays.
    pub(super) is_kept: bool,
}

impl Target<'_> {
    /// Measures every configuration on `set`. A collection that is there is asked as it stands and left alone; one
    /// that is not is made, filled with the set's documents, and removed afterwards, whatever happens meanwhile.
    pub(super) fn measure(
        &self,
        set: &EvaluationSet,
        configurations: &[Configuration],
        top_k: u64,
    ) -> Result<SetRun, Failure> {
        let name = self.collection.map_or_else(|| temporary_name(&set.name), str::to_owned);
        let is_there = self.collection.is_some() && self.is_there(&name)?;
        if is_there {
            eprintln!("{}: the collection `{name}` is asked as it stands", set.name);
            self.check_documents(set, &name, format!("the collection `{name}`"))?;
            return self.ask_all(set, &name, configurations, top_k);
        }
        self.client.put::<CollectionReply>(&path_of(&name), "{}", Patience::LONG)?;
        let measured = self.make_and_ask(set, &name, configurations, top_k);
        if self.is_kept {
            eprintln!("{}: the collection `{name}` is kept", set.name);
            return measured;
        }
        let removed = self.client.delete::<DeletedReply>(&path_of(&name), Patience::LONG);
        if let Err(error) = &removed {
            eprintln!("{}: the collection `{name}` could not be removed: {error}", set.name);
        }
        measured
    }

    /// Fills a collection that was just made, and measures. What the gateway refuses of the searches is known before.
    fn make_and_ask(
        &self,
        set: &EvaluationSet,
        collection: &str,
        configurations: &[Configuration],
        top_k: u64,
    ) -> Result<SetRun, Failure> {
        if let Some(query) = set.queries.first() {
            for configuration in configurations {
                let tried = self.search(&configuration.request(&query.text, collection, top_k));
                tried.map_err(|source| not_asked(set, query, source))?;
            }
        }
        self.fill(set, collection)?;
        self.check_documents(set, collection, set.corpus.display().to_string())?;
        self.ask_all(set, collection, configurations, top_k)
    }

    /// Refuses to measure where no relevant document could be found; looks until there is one. `place` is for the message.
    fn check_documents(&self, set: &EvaluationSet, collection: &str, place: String) -> Result<(), Failure> {
        let judged = set.queries.iter().flat_map(|query| &query.grades);
        let relevant: BTreeSet<&str> =
            judged.filter(|(id, grade)| **grade > 0 && !id.is_empty()).map(|(id, _)| id.as_str()).collect();
        for id in &relevant {
            if interrupt::is_asked() {
                return Err(Failure::Interrupted(String::new()));
            }
            let path = format!("{}/documents/{}", path_of(collection), percent_encode(id));
            match self.client.get::<DocumentReply>(&path, Patience::LONG) {
                Ok(_) => return Ok(()),
                Err(ClientError::Refused { code: ErrorCode::DocumentNotFound, .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(EvalError::NoRelevantDocument { set: set.name.clone(), count: relevant.len(), place }.into())
    }

    fn is_there(&self, name: &str) -> Result<bool, ClientError> {
        match self.client.get::<CollectionReply>(&path_of(name), Patience::LONG) {
            Ok(_) => Ok(true),
            Err(ClientError::Refused { code: ErrorCode::CollectionNotFound, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts the set's documents in. Those with neither title nor text can't be found and are left out.
    fn fill(&self, set: &EvaluationSet, collection: &str) -> Result<(), Failure> {
        let inputs = Inputs::find(std::slice::from_ref(&set.corpus));
        if let Some(rejected) = inputs.rejected.first() {
            let (path, source) = (set.corpus.clone(), std::io::Error::other(rejected.message.clone()));
            return Err(EvalError::Read { path, source }.into());
        }
        let bytes = inputs.bytes();
        let mut empty = 0_u64;
        let documents = Documents::of(inputs.files).filter(|step| match &step.outcome {
            Outcome::Document(document) => {
                let is_empty = document.text.trim().is_empty()
                    && document.title.as_deref().unwrap_or_default().trim().is_empty();
                empty += u64::from(is_empty);
                !is_empty
            }
            Outcome::Empty | Outcome::Rejected(_) => true,
        });
        let sent = ingest::send(self.client, collection, documents, BATCH_DOCUMENTS, bytes);
        if interrupt::is_asked() {
            return Err(Failure::Interrupted(String::new())); // what went in is removed
        }
        let (count, seconds) = sent?;
        let left_out =
            if empty > 0 { format!(", {empty} without text were left out") } else { String::new() };
        eprintln!("{}: {count} documents in {seconds:.1} s{left_out}", set.name);
        Ok(())
    }

    fn ask_all(
        &self,
        set: &EvaluationSet,
        collection: &str,
        configurations: &[Configuration],
        top_k: u64,
    ) -> Result<SetRun, Failure> {
        let mut measured = Vec::new();
        for configuration in configurations {
            let begun = std::time::Instant::now();
            let scores = self.ask(set, collection, configuration, top_k)?;
            let (label, count, seconds) =
                (&configuration.label, set.queries.len(), begun.elapsed().as_secs_f64());
            eprintln!("{}: {label}: {count} queries in {seconds:.1} s", set.name);
            let queries = set.queries.iter().map(|query| query.id.clone()).zip(scores).collect();
            measured.push(ConfigurationRun { configuration: label.clone(), queries });
        }
        Ok(SetRun { set: set.name.clone(), configurations: measured })
    }

    /// The scores of all queries, in their order; a few are on their way at a time.
    fn ask(
        &self,
        set: &EvaluationSet,
        collection: &str,
        configuration: &Configuration,
        top_k: u64,
    ) -> Result<Vec<Scores>, Failure> {
        let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let answers = Mutex::new(vec![None; set.queries.len()]);
        let failure = Mutex::new(None);
        let degraded = AtomicUsize::new(0);
        let work = || {
            while !is_over.load(Ordering::Relaxed) {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(query) = set.queries.get(place) else { return };
                let request = configuration.request(&query.text, collection, top_k);
                match self.search(&request) {
                    Ok((ranking, is_degraded)) => {
                        degraded.fetch_add(usize::from(is_degraded), Ordering::Relaxed);
                        lock(&answers)[place] = Scores::of(&ranking, &query.grades);
                    }
                    Err(source) => {
                        is_over.store(true, Ordering::Relaxed);
                        lock(&failure).get_or_insert((place, source));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..QUERIES_AT_ONCE.min(set.queries.len()) {
                scope.spawn(work);
            }
        });
        let degraded = degraded.into_inner();
        if degraded > 0 {
            let (set, label) = (&set.name, &configuration.label);
            eprintln!(
                "warning: {set}: {label}: {degraded} replies were degraded: they lack a part of what was asked for"
            );
        }
        match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((place, source)) => Err(not_asked(set, &set.queries[place], source)),
            None => Ok(answers
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner)
                .into_iter()
                .flatten()
                .collect()),
        }
    }

    /// The ids of the results, and whether a part of what was asked for is missing in them.
    fn search(&self, request: &weir_api::SearchRequest) -> Result<(Vec<String>, bool), ClientError> {
        if interrupt::is_asked() {
            return Err(ClientError::Interrupted);
        }
        let body = serde_json::to_string(request).unwrap_or_default();
        let text = self.client.post_text("/v1/search", &body, Patience::LONG, &|_| {})?;
        let reply: SearchReply = self.client.read(&text)?;
        Ok((reply.results.into_iter().map(|result| result.id).collect(), reply.degraded))
    }
}

/// Why there is no answer to a query.
fn not_asked(set: &EvaluationSet, query: &Query, source: ClientError) -> Failure {
    if matches!(source, ClientError::Interrupted) {
        return Failure::Interrupted(String::new());
    }
    EvalError::Query { name: format!("{}/{}", set.name, query.id), source: Box::new(source) }.into()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn path_of(collection: &str) -> String {
    format!("/v1/collections/{collection}")
}

/// A name that no other run takes, made of the characters that a collection's name may have.
fn temporary_name(set: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let set: String = set.chars().take(64).map(plain).collect();
    let unique = uuid::Uuid::new_v4().simple().to_string();
    format!("eval-{set}-{}", &unique[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_name_can_name_a_collection() {
        for set in ["scifact", "a b/ü", "", &"x".repeat(300)] {
            weir_api::check_collection_name(&temporary_name(set)).unwrap();
        }
        assert_ne!(temporary_name("a"), temporary_name("a"));
    }
}
