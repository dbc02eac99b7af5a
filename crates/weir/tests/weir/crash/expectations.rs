//! What one writer did, and what must be true of it ever after.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::support::client::Client;

/// Documents of one writer.
const IDS: u64 = 12;

/// A number generator with a seed, so that a failure can be had again.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The content of a document by its version; `None`: it is not there.
type State = Option<u64>;

/// What is known of one document.
#[derive(Default)]
struct Known {
    /// The last acknowledged state.
    acknowledged: State,
    /// The states that unanswered requests since then may have brought.
    in_flight: Vec<State>,
}

/// One writer's documents.
pub(crate) struct Expectations {
    writer: u64,
    version: u64,
    random: Random,
    known: BTreeMap<String, Known>,
    /// Operations that were answered with success.
    pub(crate) acknowledged: u64,
}

impl Expectations {
    pub(crate) fn new(writer: u64) -> Expectations {
        let random = Random(writer * 977 + 5);
        Expectations { writer, version: 0, random, known: BTreeMap::new(), acknowledged: 0 }
    }

    /// Ingests, replaces and deletes until told to stop or the gateway is gone.
    pub(crate) fn write_until(&mut self, client: &Client, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            if !self.write_once(client) {
                return;
            }
        }
    }

    /// Ingests, replaces or deletes; whether that was acknowledged.
    pub(crate) fn write_once(&mut self, client: &Client) -> bool {
        if self.random.below(4) == 0 { self.delete(client) } else { self.ingest(client) }
    }

    fn ingest(&mut self, client: &Client) -> bool {
        let mut states: BTreeMap<String, State> = BTreeMap::new();
        let mut documents = Vec::new();
        for _ in 0..=self.random.below(4) {
            self.version += 1;
            let id = self.any_id();
            documents
                .push(json!({"id": id, "title": self.version.to_string(), "text": text(&id, self.version)}));
            states.insert(id, Some(self.version)); // of an id that comes twice the last one wins
        }
        self.note_in_flight(&states);
        match client.try_post("/v1/ingest", &json!({"documents": documents})) {
            Some((202, _)) => self.note_acknowledged(states),
            Some((503, _)) | None => false,
            Some((status, body)) => panic!("ingest: {status} {body}"),
        }
    }

    fn delete(&mut self, client: &Client) -> bool {
        let id = self.any_id();
        let states = BTreeMap::from([(id.clone(), None)]);
        self.note_in_flight(&states);
        match client.try_delete(&id) {
            Some((200 | 404, _)) => self.note_acknowledged(states),
            Some((503, _)) | None => false,
            Some((status, body)) => panic!("delete: {status} {body}"),
        }
    }

    fn any_id(&mut self) -> String {
        format!("w{}d{}", self.writer, self.random.below(IDS))
    }

    fn note_in_flight(&mut self, states: &BTreeMap<String, State>) {
        for (id, state) in states {
            self.known.entry(id.clone()).or_default().in_flight.push(*state);
        }
    }

    fn note_acknowledged(&mut self, states: BTreeMap<String, State>) -> bool {
        for (id, state) in states {
            self.known.insert(id, Known { acknowledged: state, in_flight: Vec::new() });
            self.acknowledged += 1;
        }
        true
    }

    /// Documents that were sent, each with a text of its own.
    pub(crate) fn sent(&self) -> u64 {
        self.version
    }

    /// Ids of the documents that are there.
    pub(crate) fn live(&self) -> Vec<String> {
        self.known
            .iter()
            .filter(|(_, known)| known.acknowledged.is_some())
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Every acknowledged state is there, and what was deleted is not found; an unanswered request did all or nothing.
    pub(crate) fn check_acknowledged(&mut self, client: &Client) {
        for (id, known) in &mut self.known {
            let found: State = client.document(id).map(|document| {
                let version: u64 = document["title"].as_str().unwrap().parse().unwrap();
                assert_eq!(
                    document["text"],
                    text(id, version),
                    "{id} is half of one version and half of another"
                );
                version
            });
            let is_allowed = found == known.acknowledged || known.in_flight.contains(&found);
            assert!(
                is_allowed,
                "{id} is {found:?}, and not {:?} or {:?}",
                known.acknowledged, known.in_flight
            );
            *known = Known { acknowledged: found, in_flight: Vec::new() };
            if found.is_none() {
                for mode in ["lexical", "dense"] {
                    let hits = client.search(id, mode);
                    assert!(
                        hits.iter().all(|hit| hit["id"] != *id),
                        "{id} was deleted and is found ({mode})"
                    );
                }
            }
        }
    }

    /// Both retrievers find the current version of each document by any of its chunks, and no older one.
    pub(crate) fn check_searchable(&mut self, client: &Client) {
        for (id, known) in &self.known {
            let Some(version) = known.acknowledged else { continue };
            for part in 0..PARTS {
                let word = marker(id, version, part);
                for mode in ["lexical", "dense"] {
                    let hits = client.search(&format!("{word} {word}"), mode);
                    let best = hits.first().unwrap_or_else(|| panic!("{word} is not found ({mode})"));
                    assert_eq!(best["id"], *id, "{word} ({mode})");
                    assert!(
                        best["text"].as_str().unwrap().contains(&word),
                        "{word} ({mode}) gives {}",
                        best["text"]
                    );
                    let all = text(id, version);
                    let span = |key: &str| best["citation"][key].as_u64().unwrap() as usize;
                    assert_eq!(best["citation"]["quote"], all[span("start")..span("end")]);
                }
            }
            let old = format!("{} {}", marker(id, version - 1, 0), marker(id, version - 1, 0));
            let hits = client.search(&old, "lexical");
            assert!(hits.iter().all(|hit| hit["id"] != *id), "an older version of {id} is found");
        }
    }
}

/// Paragraphs of a document, each of them a chunk at least.
const PARTS: u64 = 3;

/// A word that stands in one paragraph of one version of one document alone.
fn marker(id: &str, version: u64, part: u64) -> String {
    format!("{id}v{version}p{part}x")
}

fn text(id: &str, version: u64) -> String {
    let paragraph = |part| {
        let word = marker(id, version, part);
        format!("{word} stands here with {word} beside {id} and once more {word} at the end.")
    };
    (0..PARTS).map(paragraph).collect::<Vec<_>>().join("\n\n")
}
