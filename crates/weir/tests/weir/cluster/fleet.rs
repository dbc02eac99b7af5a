//! Three gateways, PostgreSQL and Redis, of which any is killed and started again while callers go on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use super::{PATIENCE, Postgres, start_weir};
use crate::crash::expectations::Random;
use crate::http::redis_server::RedisServer;
use crate::llm::setup::{Mock, PROVIDER_KEY, upstream};
use crate::support::client::Client;
use crate::support::process::Weir;

pub(crate) const GATEWAYS: usize = 3;

/// What a reply of the mock costs, with 10 tokens: 1 in the currency.
const PRICE: &str = "[[prices]]\nmodel = \"m\"\ninput = 0\noutput = 100000\n";
/// Providers whose calls are counted apart, each behind a model of its own beside the model `m` of the first.
pub(super) const PROVIDERS: usize = 8;

/// All processes.
pub(crate) struct Fleet {
    pub(crate) server: Mutex<Postgres>,
    pub(crate) redis: Mutex<RedisServer>,
    pub(crate) store_url: String,
    variables: Vec<(String, String)>,
    places: Vec<Place>,
    pub(crate) mocks: Vec<Mock>,
    /// The key of an administrator.
    pub(crate) admin: String,
    /// Texts of documents that gateways had embedded when they were killed.
    embedded: AtomicU64,
    _settings: TempDir,
}

/// The place of a gateway, with its data directory.
struct Place {
    folder: TempDir,
    running: RwLock<Arc<Gateway>>,
    /// Whether a load balancer would send requests to it.
    is_up: AtomicBool,
}

/// A running gateway.
pub(crate) struct Gateway {
    pub(crate) weir: Weir,
    /// Set before it is killed.
    pub(crate) is_killed: AtomicBool,
}

/// A process that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Gateway(usize),
    Postgres,
    Redis,
}

impl Victim {
    pub(crate) fn any(random: &mut Random) -> Victim {
        match random.below(6) {
            4 => Victim::Postgres,
            5 => Victim::Redis,
            number => Victim::Gateway(number as usize % GATEWAYS),
        }
    }
}

impl Fleet {
    pub(crate) fn start() -> Fleet {
        Fleet::start_with(&[])
    }

    /// The same, with more settings of each gateway.
    pub(crate) fn start_with(more: &[(&'static str, String)]) -> Fleet {
        let (server, redis) = (Postgres::start(), RedisServer::start());
        let mocks: Vec<Mock> =
            (0..PROVIDERS).map(|_| Mock::start(&["--tokens", "10", "--latency-ms", "20"])).collect();
        let settings = tempfile::tempdir().unwrap();
        let file = settings.path().join("weir.toml");
        let mut tables = PRICE.to_owned();
        for (number, mock) in mocks.iter().enumerate() {
            tables.push_str(&upstream(&format!("mock{number}"), mock, ""));
            let target = format!("targets = [{{ upstream = \"mock{number}\", model = \"m\" }}]\n");
            tables.push_str(&format!("[[routes]]\nmodel = \"m{number}\"\n{target}"));
            if number == 0 {
                tables.push_str(&format!("[[routes]]\nmodel = \"m\"\n{target}"));
            }
        }
        std::fs::write(&file, tables).unwrap();
        let variables = [
            ("WEIR_CONFIG", file.to_str().unwrap()),
            ("PROVIDER_KEY", PROVIDER_KEY),
            ("WEIR_REDIS_URL", "env:REDIS_URL"),
            ("REDIS_URL", &redis.url()),
        ];
        let more = more.iter().map(|(name, value)| (*name, value.as_str()));
        let variables = variables.into_iter().chain(more);
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let store_url = server.url();
        let mut fleet = Fleet {
            server: Mutex::new(server),
            redis: Mutex::new(redis),
            store_url,
            variables,
            places: Vec::new(),
            mocks,
            admin: String::new(),
            embedded: AtomicU64::new(0),
            _settings: settings,
        };
        for _ in 0..GATEWAYS {
            let folder = tempfile::tempdir().unwrap();
            let running = RwLock::new(fleet.run(folder.path()));
            fleet.places.push(Place { folder, running, is_up: AtomicBool::new(false) });
        }
        let scopes = ["admin", "search", "ingest", "chat", "metrics"];
        fleet.admin = fleet
            .key(&Client::new(&fleet.gateway(0).weir.url), &json!({"name": "admin", "scopes": scopes}))
            .unwrap();
        (0..GATEWAYS).for_each(|place| fleet.wait_until_up(place));
        fleet
    }

    fn run(&self, folder: &Path) -> Arc<Gateway> {
        let variables: Vec<_> =
            self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let weir = start_weir(&self.store_url, folder, &variables);
        Arc::new(Gateway { weir, is_killed: AtomicBool::new(false) })
    }

    fn wait_until_up(&self, place: usize) {
        let client = Client::with_key(&self.gateway(place).weir.url, &self.admin);
        client.wait_until_ready();
        client.wait("the key of the administrator", || {
            client.send("GET", "/v1/collections", None).status == 200
        });
        self.places[place].is_up.store(true, Ordering::Relaxed);
    }

    /// Creates a key; its text. `None` if it is not known whether there is one.
    pub(crate) fn key(&self, client: &Client, request: &serde_json::Value) -> Option<String> {
        let (status, reply) = client.try_post("/v1/keys", request)?;
        assert!(matches!(status, 201 | 503), "{status} {reply}");
        (status == 201).then(|| reply["key"].as_str().unwrap().to_owned())
    }

    pub(crate) fn gateway(&self, place: usize) -> Arc<Gateway> {
        self.places[place].running.read().unwrap().clone()
    }

    /// Texts of documents that all gateways have embedded since the start, as their metrics say. What a gateway did in the moment before it was
    /// killed is not among them.
    pub(super) fn embedded(&self) -> u64 {
        let running: u64 = (0..GATEWAYS).map(|place| self.embedded_by(&self.gateway(place))).sum();
        self.embedded.load(Ordering::Relaxed) + running
    }

    fn embedded_by(&self, gateway: &Gateway) -> u64 {
        let text = Client::with_key(&gateway.weir.url, &self.admin).send("GET", "/metrics", None).text;
        let line = text.lines().find_map(|line| line.strip_prefix("weir_embed_texts_total{lane=\"bulk\"} "));
        line.map_or(0, |value| value.parse().unwrap())
    }

    fn is_up(&self, place: usize) -> bool {
        self.places[place].is_up.load(Ordering::Relaxed)
    }

    /// Kills a process, and starts it again after `pause`.
    pub(crate) fn kill(&self, victim: Victim, pause: Duration) {
        match victim {
            Victim::Gateway(place) => {
                let gateway = self.gateway(place);
                self.embedded.fetch_add(self.embedded_by(&gateway), Ordering::Relaxed);
                gateway.is_killed.store(true, Ordering::Relaxed);
                gateway.weir.kill();
                // a load balancer finds out a moment later
                std::thread::sleep(pause / 4);
                self.places[place].is_up.store(false, Ordering::Relaxed);
                std::thread::sleep(pause);
                check_log(&gateway.weir);
                let running = self.run(self.places[place].folder.path());
                *self.places[place].running.write().unwrap() = running;
                self.wait_until_up(place);
            }
            Victim::Postgres => {
                let mut server = self.server.lock().unwrap();
                server.signal(Signal::KILL);
                std::thread::sleep(pause);
                server.restart();
            }
            Victim::Redis => {
                let mut redis = self.redis.lock().unwrap();
                redis.signal(Signal::KILL);
                std::thread::sleep(pause);
                redis.restart();
            }
        }
    }
}

/// Ends all callers when it is dropped: at the end of the test, or where one of them fails.
pub(crate) struct End<'a>(pub(crate) &'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A gateway that logs this has lost what was stored.
pub(crate) fn check_log(weir: &Weir) {
    let log = weir.log();
    for unexpected in ["computed again", "panicked", "operation numbers went back"] {
        assert!(!log.contains(unexpected), "{log}");
    }
}

/// Somebody who sends requests to any gateway that is up.
pub(crate) struct Caller<'a> {
    fleet: &'a Fleet,
    random: Random,
    key: String,
    clients: Vec<Option<(Arc<Gateway>, Arc<Client>)>>,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(fleet: &'a Fleet, key: &str, seed: u64) -> Caller<'a> {
        let clients = (0..GATEWAYS).map(|_| None).collect();
        Caller { fleet, random: Random(seed * 7_919 + 13), key: key.to_owned(), clients }
    }

    /// A gateway that is up, with a client of it.
    pub(crate) fn any(&mut self) -> (Arc<Gateway>, Arc<Client>) {
        self.any_but(None)
    }

    /// The same, another one than this.
    pub(crate) fn any_but(&mut self, other: Option<&Arc<Gateway>>) -> (Arc<Gateway>, Arc<Client>) {
        let started = Instant::now();
        loop {
            let place = self.random.below(GATEWAYS as u64) as usize;
            let gateway = self.fleet.gateway(place);
            if self.fleet.is_up(place) && other.is_none_or(|other| !Arc::ptr_eq(other, &gateway)) {
                let known = self.clients[place].take().filter(|(known, _)| Arc::ptr_eq(known, &gateway));
                let new = || Arc::new(Client::with_key(&gateway.weir.url, &self.key));
                let client = known.map_or_else(new, |(_, client)| client);
                self.clients[place] = Some((gateway.clone(), client.clone()));
                return (gateway, client);
            }
            assert!(started.elapsed() < PATIENCE, "no gateway is up");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
