//! PostgreSQL or Redis is gone for a time, or hangs, while callers search, chat and store documents at three gateways.
//!
//! An outage lasts 5 s, or `WEIR_OUTAGE_SECONDS` if it is set; `make cluster` has 30.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::fleet::{End, Fleet, GATEWAYS, check_log};
use super::wait;
use crate::support::client::{Client, Reply};

/// How long a request of a loop waits before the next one.
const PAUSE: Duration = Duration::from_millis(15);
/// Within this time after its return, PostgreSQL is used again.
const RETURN_MAX: Duration = Duration::from_secs(2);
/// The longest time in which a write waits for a database that does not answer any more.
const REFUSED_WITHIN: Duration = Duration::from_secs(5);
/// By how much a request is delayed at most while Redis hangs.
const DELAY_MAX: Duration = Duration::from_millis(50);
/// After this time of an outage each gateway has noticed it.
const NOTICED: Duration = Duration::from_secs(4);

/// How a server is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outage {
    /// It is shut down, and started again later.
    Stopped,
    /// It does not answer, and keeps its connections.
    Hanging,
}

/// A request of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// By a key with limits, which are counted in Redis.
    Search,
    /// The same.
    Chat,
    /// By a key without limits.
    Unlimited,
    Ingest,
}

/// When a request was sent, how long it took, and whether it was carried out.
type Answer = (Instant, Duration, bool);

struct Load<'a> {
    fleet: &'a Fleet,
    /// With limits.
    limited: String,
    /// Without.
    unlimited: String,
    stop: AtomicBool,
    /// Answers of each kind at each gateway.
    answers: Mutex<BTreeMap<(Kind, usize), Vec<Answer>>>,
    /// Documents that were acknowledged.
    stored: Mutex<Vec<String>>,
}

impl<'a> Load<'a> {
    fn new(fleet: &'a Fleet) -> Load<'a> {
        let admin = Client::with_key(&fleet.gateway(0).weir.url, &fleet.admin);
        let limits = json!({"requests_per_minute": 600_000, "concurrent_requests": 1_000});
        let limited = json!({"name": "limited", "scopes": ["search", "chat"], "limits": limits});
        let unlimited = json!({"name": "unlimited", "scopes": ["search", "ingest", "metrics"]});
        let [limited, unlimited] = [limited, unlimited].map(|key| fleet.key(&admin, &key).unwrap());
        let load = Load {
            fleet,
            limited,
            unlimited,
            stop: AtomicBool::new(false),
            answers: Mutex::default(),
            stored: Mutex::default(),
        };
        for place in 0..GATEWAYS {
            for key in [&load.limited, &load.unlimited] {
                let client = load.client(place, key);
                wait("the keys at each gateway", || client.send("GET", "/v1/models", None).status == 200);
            }
        }
        load
    }

    fn client(&self, place: usize, key: &str) -> Client {
        Client::with_key(&self.fleet.gateway(place).weir.url, key)
    }

    /// Sends requests of a kind to a gateway until the end.
    fn run(&self, kind: Kind, place: usize) {
        let _ended = End(&self.stop);
        let key = if matches!(kind, Kind::Search | Kind::Chat) { &self.limited } else { &self.unlimited };
        let client = self.client(place, key);
        for number in 0_u64.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let (sent, id) = (Instant::now(), format!("g{place}n{number}"));
            let (path, body) = match kind {
                Kind::Search | Kind::Unlimited => {
                    ("/v1/search", json!({"query": format!("word{}", number % 40), "top_k": 5}))
                }
                Kind::Chat => (
                    "/v1/chat/completions",
                    json!({"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}),
                ),
                Kind::Ingest => {
                    let text = format!("{id}x of word{}", number % 40);
                    ("/v1/ingest", json!({"documents": [{"id": id, "text": text}]}))
                }
            };
            let json = [("content-type", "application/json")];
            let reply = client.try_send("POST", path, &json, Some(body.to_string().as_bytes()));
            let reply = reply.unwrap_or_else(|| panic!("{kind:?}: no answer of gateway {place}"));
            let is_done = self.check(kind, &reply);
            let took = sent.elapsed();
            if is_done && kind == Kind::Ingest {
                self.stored.lock().unwrap().push(id);
            }
            self.answers.lock().unwrap().entry((kind, place)).or_default().push((sent, took, is_done));
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether a request was carried out. Only writes can be refused.
    fn check(&self, kind: Kind, reply: &Reply) -> bool {
        match (kind, reply.status) {
            (Kind::Ingest, 202) | (Kind::Search | Kind::Chat | Kind::Unlimited, 200) => true,
            (Kind::Ingest, 503) => {
                assert_eq!(reply.json()["code"], "store_unavailable", "{}", reply.text);
                assert!(!reply.header("retry-after").is_empty());
                false
            }
            (kind, status) => panic!("{kind:?}: {status} {}", reply.text),
        }
    }

    /// The answers of a kind to requests that were sent between two times.
    fn answers(&self, kind: Kind, from: Instant, to: Instant) -> Vec<Answer> {
        let answers = self.answers.lock().unwrap();
        let of_kind = answers.iter().filter(|((of, _), _)| *of == kind).flat_map(|(_, all)| all);
        of_kind.filter(|(sent, ..)| (from..to).contains(sent)).copied().collect()
    }

    /// When a gateway acknowledged a document that was sent after an instant.
    fn acknowledged(&self, place: usize, since: Instant) -> Option<Instant> {
        let answers = self.answers.lock().unwrap();
        let mut of_place = answers.get(&(Kind::Ingest, place))?.iter();
        of_place.find(|(sent, _, is_done)| *sent >= since && *is_done).map(|(sent, took, _)| *sent + *took)
    }

    fn metric(&self, place: usize, name: &str) -> f64 {
        let text = self.client(place, &self.unlimited).send("GET", "/metrics", None).text;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
    }

    /// What `/readyz` of a gateway says while it is ready.
    fn degraded(&self, place: usize) -> String {
        let reply = self.client(place, &self.fleet.admin).send("GET", "/readyz", None);
        assert_eq!((reply.status, &reply.json()["ready"]), (200, &json!(true)), "{}", reply.text);
        reply.json().get("degraded").map(Value::to_string).unwrap_or_default()
    }
}

/// Runs the load while `during` has one outage after the other.
fn under_load(kinds: &[Kind], during: impl FnOnce(&Load<'_>)) {
    let fleet = Fleet::start();
    let load = Load::new(&fleet);
    std::thread::scope(|scope| {
        let ended = End(&load.stop);
        for place in 0..GATEWAYS {
            for kind in kinds {
                let load = &load;
                scope.spawn(move || load.run(*kind, place));
            }
        }
        std::thread::sleep(Duration::from_secs(1));
        during(&load);
        drop(ended);
    });
    let stored = load.stored.lock().unwrap();
    for place in 0..GATEWAYS {
        let client = load.client(place, &load.unlimited);
        for id in stored.iter() {
            let found = || client.search(&format!("{id}x"), "lexical").iter().any(|hit| hit["id"] == **id);
            wait("each acknowledged document at each gateway", found);
        }
        check_log(&fleet.gateway(place).weir);
    }
}

fn length() -> Duration {
    #[allow(clippy::disallowed_methods, reason = "how long the test runs; no setting of the product")]
    let said = std::env::var("WEIR_OUTAGE_SECONDS").ok();
    Duration::from_secs(said.map_or(5, |text| text.parse().expect("WEIR_OUTAGE_SECONDS is a number")))
}

#[test]
fn an_outage_of_postgres_fails_no_search_and_no_chat() {
    under_load(&[Kind::Search, Kind::Chat, Kind::Ingest], |load| {
        for outage in [Outage::Hanging, Outage::Stopped] {
            let began = Instant::now();
            let mut server = load.fleet.server.lock().unwrap();
            match outage {
                Outage::Hanging => server.signal(Signal::STOP),
                Outage::Stopped => server.shut_down(),
            }
            std::thread::sleep(length());
            for place in 0..GATEWAYS {
                let degraded = load.degraded(place);
                assert!(degraded.contains("the store is not available"), "{outage:?}: {degraded}");
                assert_eq!(load.metric(place, "weir_store_up"), 0.0, "{outage:?}");
            }
            let noticed = load.answers(Kind::Ingest, began + NOTICED, Instant::now());
            assert!(noticed.len() > GATEWAYS && noticed.iter().all(|(.., is_done)| !is_done), "{outage:?}");
            match outage {
                Outage::Hanging => server.signal(Signal::CONT),
                Outage::Stopped => server.restart(),
            }
            let returned = Instant::now();
            drop(server);
            for place in 0..GATEWAYS {
                wait("an acknowledgement", || load.acknowledged(place, returned).is_some());
                let took = load.acknowledged(place, returned).unwrap() - returned;
                println!("{outage:?}: gateway {place} stores again after {took:?}");
                assert!(took < RETURN_MAX, "{outage:?}: gateway {place} stores again after {took:?}");
            }
            let last = load.stored.lock().unwrap().last().unwrap().clone();
            for place in 0..GATEWAYS {
                let client = load.client(place, &load.unlimited);
                wait("its search", || {
                    client.search(&format!("{last}x"), "lexical").iter().any(|hit| hit["id"] == *last)
                });
            }
            println!("{outage:?}: found at all gateways {:?} after the return", returned.elapsed());
            wait("the end of the outage", || {
                (0..GATEWAYS).all(|place| load.metric(place, "weir_store_up") == 1.0)
            });
            // also those that were sent before and wait
            let writes = load.answers(Kind::Ingest, began - REFUSED_WITHIN, returned);
            let longest = writes.iter().map(|(_, took, _)| *took).max().unwrap();
            assert!(longest < REFUSED_WITHIN, "{outage:?}: a write was refused after {longest:?}");
            let searches = load.answers(Kind::Search, began, returned);
            println!(
                "{outage:?}: {} searches, {} writes, the longest {longest:?}",
                searches.len(),
                writes.len()
            );
            assert!(searches.len() as u64 > 10 * length().as_secs(), "{}", searches.len());
        }
    });
}

#[test]
fn an_outage_of_redis_fails_no_request_and_delays_none_for_long() {
    let kinds = [Kind::Search, Kind::Chat, Kind::Unlimited, Kind::Ingest];
    under_load(&kinds, |load| {
        let is_together = |place| {
            load.metric(place, "weir_limits_shared") == 1.0
                && load.metric(place, "weir_limits_gateways") == GATEWAYS as f64
        };
        let wait_until_together =
            || wait("limits that are counted together", || (0..GATEWAYS).all(is_together));
        wait_until_together();
        for outage in [Outage::Hanging, Outage::Stopped] {
            let began = Instant::now();
            let mut server = load.fleet.redis.lock().unwrap();
            server.signal(if outage == Outage::Hanging { Signal::STOP } else { Signal::TERM });
            std::thread::sleep(NOTICED);
            let asked = [0, 1, 2].map(|place| load.metric(place, "weir_limits_asked_total"));
            let failed: f64 =
                (0..GATEWAYS).map(|place| load.metric(place, "weir_limits_failures_total")).sum();
            check_shares(load);
            std::thread::sleep(length().saturating_sub(began.elapsed()));
            for (place, asked) in asked.into_iter().enumerate() {
                assert!(load.degraded(place).contains("Redis can't be reached"), "{outage:?}");
                assert_eq!(load.metric(place, "weir_limits_shared"), 0.0, "{outage:?}");
                // nobody waits any more
                assert_eq!(load.metric(place, "weir_limits_asked_total"), asked, "{outage:?}");
            }
            let returned = Instant::now();
            match outage {
                Outage::Hanging => server.signal(Signal::CONT),
                Outage::Stopped => server.restart(),
            }
            drop(server);
            wait_until_together();
            let longest =
                |kind| load.answers(kind, began, returned).iter().map(|(_, took, _)| *took).max().unwrap();
            let (limited, unlimited) = (longest(Kind::Search), longest(Kind::Unlimited));
            println!(
                "{outage:?}: the longest search {limited:?}, without limits {unlimited:?}, {failed} calls failed"
            );
            assert!(limited < unlimited + DELAY_MAX, "{outage:?}: {limited:?}, without limits {unlimited:?}");
        }
    });
}

/// A limit that is new during the outage is divided among the gateways.
fn check_shares(load: &Load<'_>) {
    const LIMIT: usize = 60;
    let admin = load.client(0, &load.fleet.admin);
    let limits = json!({"requests_per_minute": LIMIT});
    let key = json!({"name": "shares", "scopes": ["search"], "limits": limits});
    let (created, key) = (Instant::now(), load.fleet.key(&admin, &key).unwrap());
    for place in 0..GATEWAYS {
        let client = load.client(place, &key);
        let status = || client.send("GET", "/v1/models", None).status;
        wait("the key", || status() != 401);
        let admitted = (0..LIMIT).filter(|_| status() == 200).count();
        // one was used by the question for the key, and others have come in since
        let share = LIMIT / GATEWAYS;
        let came_in = created.elapsed().as_secs() as usize * share / 60 + 1;
        assert!(
            (share - 2..=share + came_in).contains(&admitted),
            "gateway {place} admits {admitted} of {LIMIT}, {:?} after the key was created",
            created.elapsed()
        );
    }
}
