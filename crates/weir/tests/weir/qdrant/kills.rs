//! Three gateways over PostgreSQL and three nodes of Qdrant, any of them killed at random instants while documents are stored, deleted and found.
//!
//! The number of kills is 4, at low rates, or `WEIR_QDRANT_KILLS` if it is set, at 200 searches and 20 changes in a second; `make qdrant` has 50. Nodes
//! of this program drop their connections without an answer, as a process does that gets SIGKILL; gateways are processes that get it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_qdrant_mock::Cluster as Nodes;

use crate::cluster::fleet::{Caller, End, Fleet, GATEWAYS, Victim, check_log};
use crate::cluster::wait;
use crate::crash::expectations::Random;
use crate::support::client::Client;

const WRITERS: u64 = 4;
const SEARCHERS: u64 = 8;
/// Documents of a writer that are changed again and again.
const DOCUMENTS: u64 = 12;

/// How much is done.
struct Sizes {
    kills: u64,
    searches_per_s: u64,
    changes_per_s: u64,
}

impl Sizes {
    fn asked() -> Sizes {
        #[allow(clippy::disallowed_methods, reason = "how long the test runs; no setting of the product")]
        let said = std::env::var("WEIR_QDRANT_KILLS").ok();
        match said {
            None => Sizes { kills: 4, searches_per_s: 40, changes_per_s: 8 },
            Some(text) => {
                let kills = text.parse().expect("WEIR_QDRANT_KILLS is a number");
                Sizes { kills, searches_per_s: 200, changes_per_s: 20 }
            }
        }
    }
}

/// What was answered.
#[derive(Default)]
struct Counts {
    searches: AtomicU64,
    /// Searches that failed on a gateway that died, and did not on another.
    repeated: AtomicU64,
    stored: AtomicU64,
    deleted: AtomicU64,
}

/// What the store may have of each document: the round of its text, or nothing. More than one when an answer was lost.
type Expected = BTreeMap<String, BTreeSet<Option<u64>>>;

#[test]
fn kills_of_gateways_and_nodes_lose_nothing_and_fail_no_search_twice() {
    let sizes = Sizes::asked();
    let nodes = Nodes::start(3, None).unwrap();
    // with the timeouts that gateways have by default
    let fleet = Fleet::start_with(&[("WEIR_QDRANT_URLS", nodes.urls().join(", "))]);
    let admin = |place: usize| Client::with_key(&fleet.gateway(place).weir.url, &fleet.admin);
    super::create(&admin(0), "far", &json!({"engine": "qdrant"}));
    (0..GATEWAYS).for_each(|place| {
        wait("the collection", || admin(place).get("/v1/collections/far").0 == 200);
    });
    let (counts, stop, started) = (Counts::default(), AtomicBool::new(false), Instant::now());
    let mut expected: Vec<Expected> = (0..WRITERS).map(|_| Expected::new()).collect();
    std::thread::scope(|scope| {
        let ended = End(&stop);
        let (fleet, counts, stop, sizes) = (&fleet, &counts, &stop, &sizes);
        for (writer, expected) in (0..).zip(&mut expected) {
            scope.spawn(move || change(fleet, (writer, expected), counts, stop, sizes));
        }
        for seed in 0..SEARCHERS {
            scope.spawn(move || search(fleet, counts, stop, sizes, seed));
        }
        kill_some(fleet, &nodes, sizes.kills, stop);
        drop(ended);
    });
    let took = started.elapsed().as_secs_f64();
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (searches, stored, deleted) = (of(&counts.searches), of(&counts.stored), of(&counts.deleted));
    let report = check_at_rest(&fleet, &nodes, &expected.into_iter().flatten().collect());
    println!(
        "{} kills in {took:.0} s: {:.0} searches and {:.1} changes a second, {searches} searches ({} repeated), {stored} documents stored and {deleted} \
         deleted; {report}",
        sizes.kills,
        searches as f64 / took,
        (stored + deleted) as f64 / took,
        of(&counts.repeated),
    );
    assert!(searches > 10 * sizes.kills && stored > sizes.kills && deleted > 0);
}

/// Kills one process after the other, gateways and nodes in turn; at most one of each is away.
fn kill_some(fleet: &Fleet, nodes: &Nodes, kills: u64, stop: &AtomicBool) {
    let mut random = Random(kills * 31 + 11);
    for kill in 0..kills {
        std::thread::sleep(Duration::from_millis(300 + random.below(700)));
        if stop.load(Ordering::Relaxed) {
            return; // a caller has failed
        }
        let pause = Duration::from_millis(random.below(600));
        if kill % 2 == 0 {
            let node = &nodes.nodes[random.below(3) as usize];
            node.kill();
            std::thread::sleep(pause);
            node.restart().unwrap();
        } else {
            fleet.kill(Victim::Gateway(random.below(GATEWAYS as u64) as usize), pause);
        }
    }
    std::thread::sleep(Duration::from_millis(500));
}

/// Waits until the next of so many in a second is due, of one of `callers`.
fn pace(started: Instant, done: u64, per_s: u64, callers: u64) {
    let due = Duration::from_secs_f64(done as f64 * callers as f64 / per_s as f64);
    std::thread::sleep(due.saturating_sub(started.elapsed()));
}

/// Stores, replaces and deletes documents. Every fifth document has several chunks.
fn change(
    fleet: &Fleet,
    (writer, expected): (u64, &mut Expected),
    counts: &Counts,
    stop: &AtomicBool,
    sizes: &Sizes,
) {
    let _ended = End(stop);
    let mut caller = Caller::new(fleet, &fleet.admin, 50 + writer);
    let (mut random, started) = (Random(writer * 17 + 3), Instant::now());
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        pace(started, round, sizes.changes_per_s, WRITERS);
        let id = format!("w{writer}d{}", random.below(DOCUMENTS));
        let possible = expected.entry(id.clone()).or_insert_with(|| [None].into());
        let (gateway, client) = caller.any();
        if random.below(4) == 0 {
            let reply = client.try_send("DELETE", &path_of(&id), &[], None);
            match reply.map(|reply| (reply.status, reply.json())) {
                Some((200, reply)) => {
                    *possible = [None].into();
                    counts.deleted.fetch_add(1, Ordering::Relaxed);
                    check_not_found(&mut caller, &client, &id, &reply["operation"]);
                }
                Some((404, _)) => *possible = [None].into(),
                Some((503, _)) | None => {
                    possible.insert(None);
                }
                Some(other) => panic!("{other:?}\n{}", gateway.weir.log()),
            }
            continue;
        }
        let text = format!("{id} stands here in round r{writer}x{round}. ");
        let text = if random.below(5) == 0 { text.repeat(80) } else { text };
        let body = json!({"collection": "far", "documents": [{"id": id, "text": text}]});
        match client.try_post("/v1/ingest", &body) {
            Some((202, _)) => {
                *possible = [Some(round)].into();
                counts.stored.fetch_add(1, Ordering::Relaxed);
            }
            Some((503, _)) | None => {
                possible.insert(Some(round));
            }
            Some(other) => panic!("{other:?}\n{}", gateway.weir.log()),
        }
    }
}

fn path_of(id: &str) -> String {
    format!("/v1/collections/far/documents/{id}")
}

/// A deleted document is not found by the gateway that has acknowledged that, nor by another one that has heard of it.
fn check_not_found(caller: &mut Caller<'_>, client: &Client, id: &str, operation: &Value) {
    let mut body =
        json!({"collection": "far", "query": id, "mode": "lexical", "top_k": 50, "deadline_ms": 2000});
    let check = |reply: Option<(u16, Value)>| {
        if let Some((200, reply)) = reply {
            let found = super::ids(&reply);
            assert!(!found.contains(&id.to_owned()), "{id} is deleted: {reply}");
        }
    };
    check(client.try_post("/v1/search", &body));
    body["at_least"] = operation.clone();
    check(caller.any().1.try_post("/v1/search", &body));
}

/// A search that fails is repeated once, at another gateway.
fn search(fleet: &Fleet, counts: &Counts, stop: &AtomicBool, sizes: &Sizes, seed: u64) {
    let _ended = End(stop);
    let mut caller = Caller::new(fleet, &fleet.admin, 100 + seed);
    let started = Instant::now();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        pace(started, number, sizes.searches_per_s, SEARCHERS);
        let mode = if number % 2 == 0 { "hybrid" } else { "lexical" };
        let query = format!("w{}d{} stands here", number % WRITERS, number % DOCUMENTS);
        let body = json!({"collection": "far", "query": query, "mode": mode, "top_k": 5});
        let (gateway, client) = caller.any();
        let first = client.try_post("/v1/search", &body);
        if !matches!(first, Some((200, _))) {
            let (other, client) = caller.any_but(Some(&gateway));
            let again = client.try_post("/v1/search", &body);
            assert!(
                matches!(again, Some((200, _))),
                "a search failed twice: {first:?}, {again:?}\n{}\n{}",
                gateway.weir.log(),
                other.weir.log()
            );
            counts.repeated.fetch_add(1, Ordering::Relaxed);
        }
        counts.searches.fetch_add(1, Ordering::Relaxed);
    }
}

/// The points of a document that the cluster has, all of one version.
fn points_of(nodes: &Nodes, id: &str) -> usize {
    let state = nodes.state();
    let points = state.collections.values().flat_map(|collection| collection.points.values());
    let of_document = points.filter(|point| point.payload.get("d") == Some(&id.into()));
    let versions: Vec<_> = of_document.map(|point| &point.payload["v"]).collect();
    assert!(versions.windows(2).all(|pair| pair[0] == pair[1]), "{id} is there in several versions");
    versions.len()
}

/// Jobs have ended; after a comparison the store has what was acknowledged, the cluster has exactly that, and every gateway finds it. What was mended.
fn check_at_rest(fleet: &Fleet, nodes: &Nodes, expected: &Expected) -> Value {
    let server = fleet.server.lock().unwrap();
    wait("the end of all jobs", || {
        server.count("SELECT count(*) FROM weir.jobs WHERE finished_at IS NULL") == 0
    });
    drop(server);
    let client = |place: usize| Client::with_key(&fleet.gateway(place).weir.url, &fleet.admin);
    let report = super::reconcile::reconcile(&client(0));
    assert_eq!(report["status"], "completed", "{report}");
    let stored: BTreeSet<&String> = expected
        .iter()
        .filter_map(|(id, possible)| check_document(&client(0), id, possible).then_some(id))
        .collect();
    let mut chunks = 0;
    for id in expected.keys() {
        let count = points_of(nodes, id);
        assert_eq!(count > 0, stored.contains(id), "{count} points of {id}");
        chunks += count;
    }
    for place in 0..GATEWAYS {
        let client = client(place);
        wait("the counts", || {
            let shown = super::shown(&client, "far");
            shown["document_count"] == json!(stored.len()) && shown["chunk_count"] == json!(chunks)
        });
        for (id, possible) in expected {
            let body = json!({"query": id, "mode": "lexical", "top_k": 50});
            let is_found = super::found(&client, "far", &body).contains(id);
            assert_eq!(is_found, stored.contains(id), "{id} at gateway {place}, of {possible:?}");
        }
        check_log(&fleet.gateway(place).weir);
    }
    let again = super::reconcile::reconcile(&client(1));
    assert_eq!((&again["mended"], &again["points"]), (&json!(0), &json!(chunks)), "{again}");
    report
}

/// Whether the store has a document; its text is one of those that it may have.
fn check_document(client: &Client, id: &str, possible: &BTreeSet<Option<u64>>) -> bool {
    let (status, document) = client.get(&path_of(id));
    if status == 404 {
        assert!(possible.contains(&None), "{id} is lost: {possible:?}");
        return false;
    }
    let text = document["text"].as_str().unwrap();
    let is_of = |round: &u64| text.contains(&format!("x{round}."));
    assert!(possible.iter().flatten().any(is_of), "{id} is of another round: {text}, {possible:?}");
    true
}
