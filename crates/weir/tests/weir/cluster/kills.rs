//! Three gateways over PostgreSQL and Redis, any of them killed at random instants while documents are stored, deleted and found and chats spend
//! budgets.
//!
//! The number of kills is 2, or `WEIR_CLUSTER_KILLS` if it is set; `make cluster` has 100.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_store::{Location, Store};

use super::fleet::{Caller, End, Fleet, GATEWAYS, Victim, check_log};
use super::wait;
use crate::crash::check_counts;
use crate::crash::expectations::{Expectations, Random};
use crate::support::client::Client;

const WRITERS: u64 = 3;
const SEARCHERS: u64 = 3;
/// Chats at one time, all of one key.
const CHATS: u64 = 6;
/// The budget of each key, in replies.
const BUDGET: u64 = 30;

/// What was answered.
#[derive(Default)]
struct Counts {
    searches: AtomicU64,
    /// Searches that failed on a gateway that died, and did not on another.
    repeated: AtomicU64,
    chats: AtomicU64,
    /// Budgets that were spent to their end.
    budgets: AtomicU64,
}

#[test]
fn kills_of_any_process_lose_nothing_and_pass_no_budget() {
    let kills = kills();
    let (fleet, counts, stop) = (Fleet::start(), Counts::default(), AtomicBool::new(false));
    let started = Instant::now();
    let mut writers: Vec<Expectations> = (0..WRITERS).map(Expectations::new).collect();
    let victims = std::thread::scope(|scope| {
        let ended = End(&stop);
        for (seed, expectations) in (1..).zip(&mut writers) {
            let (fleet, stop) = (&fleet, &stop);
            scope.spawn(move || write(fleet, expectations, stop, seed));
        }
        for seed in 0..SEARCHERS {
            let (fleet, counts, stop) = (&fleet, &counts, &stop);
            scope.spawn(move || search(fleet, counts, stop, 100 + seed));
        }
        let (chat_fleet, chat_counts, chat_stop) = (&fleet, &counts, &stop);
        scope.spawn(move || chat(chat_fleet, chat_counts, chat_stop));
        let victims = kill_some(&fleet, kills, &stop);
        drop(ended);
        victims
    });
    let took = started.elapsed().as_secs_f64();
    check_at_rest(&fleet, &mut writers);
    let acknowledged: u64 = writers.iter().map(|expectations| expectations.acknowledged).sum();
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{} kills in {took:.0} s {victims:?}: {acknowledged} documents acknowledged, {} searches ({} repeated), {} chats, {} budgets spent",
        victims.len(),
        of(&counts.searches),
        of(&counts.repeated),
        of(&counts.chats),
        of(&counts.budgets)
    );
    assert!(acknowledged > kills && of(&counts.searches) > kills && of(&counts.chats) > kills);
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

fn write(fleet: &Fleet, expectations: &mut Expectations, stop: &AtomicBool, seed: u64) {
    let _ended = End(stop);
    let mut caller = Caller::new(fleet, &fleet.admin, seed);
    while !stop.load(Ordering::Relaxed) {
        if !expectations.write_once(&caller.any().1) {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A search fails on a gateway that dies, and not on another.
fn search(fleet: &Fleet, counts: &Counts, stop: &AtomicBool, seed: u64) {
    let _ended = End(stop);
    let mut caller = Caller::new(fleet, &fleet.admin, seed);
    let mut number = seed;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
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
                counts.repeated.fetch_add(1, Ordering::Relaxed);
            }
        }
        counts.searches.fetch_add(1, Ordering::Relaxed);
    }
}

/// Spends the budget of one key after the other. The provider never answers more than a budget pays for.
fn chat(fleet: &Fleet, counts: &Counts, stop: &AtomicBool) {
    let _ended = End(stop);
    let mut admin = Caller::new(fleet, &fleet.admin, 200);
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        let limits = json!({"budget_per_day": BUDGET, "requests_per_minute": 100_000});
        let request = json!({"name": format!("chat {round}"), "scopes": ["chat"], "limits": limits});
        let Some(key) = fleet.key(&admin.any().1, &request) else { continue };
        let before = fleet.mock.stats()["requests"].as_u64().unwrap();
        let (answered, exhausted) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for seed in 0..CHATS {
                let (key, answered, exhausted) = (&key, &answered, &exhausted);
                scope.spawn(move || {
                    if chat_until_refused(fleet, key, answered, stop, 1_000 * round + seed) {
                        exhausted.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let called = fleet.mock.stats()["requests"].as_u64().unwrap() - before;
        let answered = answered.into_inner();
        assert!(called <= BUDGET && answered <= called, "{answered} answered, {called} of {BUDGET} called");
        counts.chats.fetch_add(answered, Ordering::Relaxed);
        if exhausted.into_inner() == CHATS {
            counts.budgets.fetch_add(1, Ordering::Relaxed);
        }
        round += 1;
    }
}

/// Whether the budget is spent.
fn chat_until_refused(fleet: &Fleet, key: &str, answered: &AtomicU64, stop: &AtomicBool, seed: u64) -> bool {
    let mut caller = Caller::new(fleet, key, seed);
    let body = json!({"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]});
    while !stop.load(Ordering::Relaxed) {
        let (gateway, client) = caller.any();
        let reply = client.try_post("/v1/chat/completions", &body);
        let code = |reply: &Value| reply["error"]["code"].as_str().unwrap_or_default().to_owned();
        match reply {
            Some((200, _)) => {
                answered.fetch_add(1, Ordering::Relaxed);
            }
            Some((429, reply)) if code(&reply) == "budget_exceeded" => return true,
            // it waits for what a dead gateway has leased; the store is gone; the key is not known yet
            Some((429 | 503 | 401, _)) => std::thread::sleep(Duration::from_millis(20)),
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
    let passed = server
        .count(&format!("SELECT count(*) FROM weir.spending WHERE nanos > {BUDGET} * 1000000000::bigint"));
    assert_eq!(passed, 0, "a budget was passed");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let report = runtime.block_on(Store::verify_at(&Location::database(&fleet.store_url).unwrap())).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}
