//! Three gateways over PostgreSQL and Redis, any of them killed at random instants while documents are stored, deleted and found and chats spend
//! budgets: 20 requests a second that store, 7 that delete, 200 searches and 200 chats.
//!
//! The number of kills is 2, or `WEIR_CLUSTER_KILLS` if it is set; `make cluster` has 100.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_store::{Location, Store};

use super::fleet::{Caller, End, Fleet, GATEWAYS, PROVIDERS, Victim, check_log};
use super::pace::Pace;
use super::wait;
use crate::crash::check_counts;
use crate::crash::expectations::{Expectations, Random};
use crate::support::client::Client;

/// Requests per second. Of the writes three quarters store documents, and the others delete one.
const WRITES: u32 = 27;
const SEARCHES: u32 = 200;
const CHATS: u32 = 200;
/// Threads that send them.
const WRITERS: u64 = 4;
const SEARCHERS: u64 = 12;
/// Of each provider, all with one key. Those of some wait at the end of a budget for what a dead gateway has leased, and the others go on.
const CHATTERS: u64 = 6;
/// The budgets of keys for each provider, in replies.
const BUDGETS: [u64; PROVIDERS] = [30, 30, 30, 1_000, 1_000, 1_000, 1_000, 1_000];
/// What a kill can have embedded again: the documents that were prepared and not stored, of which a gateway takes this many at a time.
const REPEATED_DOCUMENTS_MAX: u64 = 8;

/// What was sent and answered.
#[derive(Default)]
struct Counts {
    writes: AtomicU64,
    searches: AtomicU64,
    /// Searches that failed on a gateway that died, and did not on another.
    repeated: AtomicU64,
    chats: AtomicU64,
    answered: AtomicU64,
    /// Budgets that were spent to their end.
    budgets: AtomicU64,
}

/// What callers do.
struct Load {
    fleet: Fleet,
    counts: Counts,
    stop: AtomicBool,
    writes: Pace,
    searches: Pace,
    chats: Pace,
}

#[test]
fn kills_of_any_process_lose_nothing_and_pass_no_budget() {
    let kills = kills();
    let fleet = Fleet::start();
    let before = embed_once(&fleet);
    let [writes, searches, chats] = [WRITES, SEARCHES, CHATS].map(Pace::new);
    let (counts, stop) = (Counts::default(), AtomicBool::new(false));
    let load = Load { fleet, counts, stop, writes, searches, chats };
    let started = Instant::now();
    let mut writers: Vec<Expectations> = (0..WRITERS).map(Expectations::new).collect();
    let (victims, took) = std::thread::scope(|scope| {
        let (load, ended) = (&load, End(&load.stop));
        for (seed, expectations) in (1..).zip(&mut writers) {
            scope.spawn(move || write(load, expectations, seed));
        }
        for seed in 0..SEARCHERS {
            scope.spawn(move || search(load, 100 + seed));
        }
        for provider in 0..PROVIDERS {
            scope.spawn(move || chat(load, provider));
        }
        let victims = kill_some(&load.fleet, kills, &load.stop);
        let took = started.elapsed();
        drop(ended);
        (victims, took)
    });
    check_at_rest(&load.fleet, &mut writers);
    let acknowledged: u64 = writers.iter().map(|expectations| expectations.acknowledged).sum();
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let Counts { writes, searches, repeated, chats, answered, budgets } = &load.counts;
    println!("{} kills in {:.0} s {victims:?}", victims.len(), took.as_secs_f64());
    println!("writes: {}; {acknowledged} documents acknowledged", load.writes.report(of(writes), took));
    println!("searches: {}; {} repeated", load.searches.report(of(searches), took), of(repeated));
    println!(
        "chats: {}; {} answered, {} budgets spent",
        load.chats.report(of(chats), took),
        of(answered),
        of(budgets)
    );
    println!(
        "{before} texts embedded for as many chunks before; {}",
        check_embedded(&load.fleet, &writers, before, kills)
    );
    assert!(acknowledged > kills && of(searches) > kills && of(answered) > kills && of(budgets) > 0);
}

/// Documents that no kill disturbs: of three gateways one embeds each chunk, and the others do not. The texts that were embedded.
fn embed_once(fleet: &Fleet) -> u64 {
    let clients = [0, 1, 2].map(|place| Client::with_key(&fleet.gateway(place).weir.url, &fleet.admin));
    assert_eq!(clients[0].send("PUT", "/v1/collections/calm", Some(b"{}")).status, 201);
    for (number, client) in (0..30).zip(clients.iter().cycle()) {
        let text = format!(
            "calm{number}a is a word of document {number}.\n\ncalm{number}b stands in another part of it."
        );
        let body =
            json!({"collection": "calm", "documents": [{"id": format!("calm{number}"), "text": text}]});
        wait("the collection", || client.try_post("/v1/ingest", &body).unwrap().0 == 202);
    }
    for client in &clients {
        let found = || {
            let body = json!({"collection": "calm", "query": "calm29b", "mode": "lexical"});
            let (_, reply) = client.try_post("/v1/search", &body).unwrap();
            reply["results"][0]["id"] == "calm29"
        };
        wait("the last document at each gateway", found);
        client.wait_until_searchable();
    }
    let chunks = clients[0].get("/v1/collections/calm").1["chunk_count"].as_u64().unwrap();
    let embedded = fleet.embedded();
    assert!(chunks >= 30 && embedded == chunks, "{embedded} texts were embedded for {chunks} chunks");
    embedded
}

/// No text was embedded a second time, but for those of documents on their way when a process was killed.
fn check_embedded(fleet: &Fleet, writers: &[Expectations], before: u64, kills: u64) -> String {
    let client = Client::with_key(&fleet.gateway(0).weir.url, &fleet.admin);
    let chunks = |id: &String| client.document(id).unwrap()["chunks"].as_u64().unwrap();
    let chunks_max = writers.iter().flat_map(Expectations::live).map(|id| chunks(&id)).max().unwrap();
    let sent: u64 = writers.iter().map(Expectations::sent).sum();
    let embedded = fleet.embedded() - before;
    let allowed = (sent + kills * REPEATED_DOCUMENTS_MAX) * chunks_max;
    assert!(embedded <= allowed, "{embedded} texts were embedded of {allowed}");
    format!(
        "{embedded} texts embedded of {sent} documents that were sent, each of {chunks_max} chunks at most"
    )
}

fn kills() -> u64 {
    #[allow(clippy::disallowed_methods, reason = "how long the test runs; no setting of the product")]
    let said = std::env::var("WEIR_CLUSTER_KILLS").ok();
    said.map_or(2, |text| text.parse().expect("WEIR_CLUSTER_KILLS is a number"))
}

/// Kills one process after the other, a gateway first; the names of all.
fn kill_some(fleet: &Fleet, kills: u64, stop: &AtomicBool) -> Vec<Victim> {
    let mut random = Random(kills * 31 + 7);
    let mut victims = Vec::new();
    for kill in 0..kills {
        std::thread::sleep(Duration::from_millis(500 + random.below(1_000)));
        if stop.load(Ordering::Relaxed) {
            break; // a caller has failed
        }
        let victim = match kill {
            0 => Victim::Gateway(0),
            1 => Victim::Postgres,
            _ => Victim::any(&mut random),
        };
        fleet.kill(victim, Duration::from_millis(random.below(600)));
        victims.push(victim);
    }
    std::thread::sleep(Duration::from_millis(500));
    victims
}

fn write(load: &Load, expectations: &mut Expectations, seed: u64) {
    let _ended = End(&load.stop);
    let mut caller = Caller::new(&load.fleet, &load.fleet.admin, seed);
    while load.writes.wait(&load.stop).is_some() {
        expectations.write_once(&caller.any().1);
        load.counts.writes.fetch_add(1, Ordering::Relaxed);
    }
}

/// A search fails on a gateway that dies, and not on another.
fn search(load: &Load, seed: u64) {
    let _ended = End(&load.stop);
    let mut caller = Caller::new(&load.fleet, &load.fleet.admin, seed);
    while let Some(number) = load.searches.wait(&load.stop) {
        let query = format!("w{}d{} stands here", number % WRITERS, number % 12);
        let body = json!({"query": query, "top_k": 5});
        let (gateway, client) = caller.any();
        match client.try_post("/v1/search", &body) {
            Some((200, _)) => {}
            failed => {
                let is_killed = gateway.is_killed.load(Ordering::Relaxed);
                assert!(
                    is_killed,
                    "a search failed on a gateway that lives: {failed:?}\n{}",
                    gateway.weir.log()
                );
                let (other, client) = caller.any_but(Some(&gateway));
                let again = client.try_post("/v1/search", &body);
                assert!(
                    matches!(again, Some((200, _))),
                    "a search failed on another gateway: {again:?}\n{}",
                    other.weir.log()
                );
                load.counts.repeated.fetch_add(1, Ordering::Relaxed);
            }
        }
        load.counts.searches.fetch_add(1, Ordering::Relaxed);
    }
}

/// Spends the budget of one key after the other. The provider never answers more than a budget pays for.
fn chat(load: &Load, provider: usize) {
    let Load { fleet, counts, stop, .. } = load;
    let _ended = End(stop);
    let (mut admin, budget) = (Caller::new(fleet, &fleet.admin, 200 + provider as u64), BUDGETS[provider]);
    let calls = || fleet.mocks[provider].stats()["requests"].as_u64().unwrap();
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let limits = json!({"budget_per_day": budget, "requests_per_minute": 100_000});
        let request =
            json!({"name": format!("chat {provider} {round}"), "scopes": ["chat"], "limits": limits});
        let Some(key) = fleet.key(&admin.any().1, &request) else { continue };
        let before = calls();
        let (answered, exhausted) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for chatter in 0..CHATTERS {
                let (key, answered, exhausted) = (&key, &answered, &exhausted);
                let caller = Caller::new(fleet, key, (provider as u64 * 1_000 + round) * CHATTERS + chatter);
                scope.spawn(move || {
                    if chat_until_refused(load, caller, provider, answered) {
                        exhausted.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let (called, answered) = (calls() - before, answered.into_inner());
        assert!(called <= budget && answered <= called, "{answered} answered, {called} of {budget} called");
        counts.answered.fetch_add(answered, Ordering::Relaxed);
        if exhausted.into_inner() == CHATTERS {
            counts.budgets.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Whether the budget is spent.
fn chat_until_refused(load: &Load, mut caller: Caller<'_>, provider: usize, answered: &AtomicU64) -> bool {
    let model = format!("m{provider}");
    let body = json!({"model": model, "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]});
    while load.chats.wait(&load.stop).is_some() {
        let (gateway, client) = caller.any();
        let reply = client.try_post("/v1/chat/completions", &body);
        load.counts.chats.fetch_add(1, Ordering::Relaxed);
        let code = |reply: &Value| reply["error"]["code"].as_str().unwrap_or_default().to_owned();
        match reply {
            Some((200, _)) => {
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Some((429, reply)) if code(&reply) == "budget_exceeded" => return true,
            // it has waited for what a dead gateway has leased; the store is gone; the key is not known yet
            Some((429 | 503 | 401, _)) => {}
            None => assert!(gateway.is_killed.load(Ordering::Relaxed), "{}", gateway.weir.log()),
            Some((status, reply)) => panic!("chat: {status} {reply}"),
        }
    }
    false
}

/// Everything acknowledged is at every gateway, jobs have ended, and each row of the store is sound.
fn check_at_rest(fleet: &Fleet, writers: &mut [Expectations]) {
    let server = fleet.server.lock().unwrap();
    let clients: Vec<Client> =
        (0..GATEWAYS).map(|place| Client::with_key(&fleet.gateway(place).weir.url, &fleet.admin)).collect();
    wait("the end of all jobs", || {
        server.count("SELECT count(*) FROM weir.jobs WHERE finished_at IS NULL") == 0
    });
    for (place, client) in clients.iter().enumerate() {
        client.wait_until_ready();
        client.wait_until_searchable();
        writers.iter_mut().for_each(|expectations| expectations.check_acknowledged(client));
        writers.iter_mut().for_each(|expectations| expectations.check_searchable(client));
        check_counts(client, writers);
        check_log(&fleet.gateway(place).weir);
    }
    let embedded = "SELECT count(*) - count(DISTINCT (fingerprint_id, text_hash)) FROM weir.embeddings";
    assert_eq!(server.count(embedded), 0, "a text is embedded twice");
    wait("the end of all leases of budgets", || {
        server.count(
            "SELECT count(*) FROM weir.budget_leases WHERE nanos > 0 AND ends_at > extract(epoch FROM now())",
        ) == 0
    });
    let passed = server.count(
        "SELECT count(*) FROM weir.spending JOIN weir.api_keys ON api_keys.id = spending.key_id
         WHERE nanos > (grants::json->'limits'->>'budget_per_day')::float8 * 1e9",
    );
    assert_eq!(passed, 0, "a budget was passed");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let report = runtime.block_on(Store::verify_at(&Location::database(&fleet.store_url).unwrap())).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}
