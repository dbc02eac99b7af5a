//! Budgets of keys hold for all gateways together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use super::{Cluster, Postgres, wait};
use crate::http::redis_server::RedisServer;
use crate::llm::setup::{Mock, PROVIDER_KEY, upstream};
use crate::support::client::Client;

/// A reply of the mock costs 1 and can cost 2.
const PRICE: &str = "[[prices]]\nmodel = \"m\"\ninput = 0\noutput = 100000\n";
const BUDGET: u64 = 20;
/// Requests at one time, of all gateways.
const CALLERS: usize = 40;

struct Chats {
    cluster: Cluster,
    mock: Mock,
    /// Requests to the mock before the first chat: for its models.
    before: u64,
    key: String,
    _settings: tempfile::TempDir,
}

impl Chats {
    /// Three gateways with a key that has a budget.
    fn start(redis: Option<&RedisServer>, budget: u64) -> Chats {
        let mock = Mock::start(&["--tokens", "10", "--latency-ms", "100"]);
        let settings = tempfile::tempdir().unwrap();
        let file = settings.path().join("weir.toml");
        std::fs::write(&file, format!("{}{PRICE}", upstream("mock", &mock, ""))).unwrap();
        let url = redis.map(RedisServer::url);
        let shared = url.iter().flat_map(|url| [("WEIR_REDIS_URL", "env:REDIS_URL"), ("REDIS_URL", url)]);
        let own = [("WEIR_CONFIG", file.to_str().unwrap()), ("PROVIDER_KEY", PROVIDER_KEY)];
        let cluster = Cluster::start_with(3, &own.into_iter().chain(shared).collect::<Vec<_>>());
        let limits = json!({"budget_per_day": budget, "requests_per_minute": 100_000});
        let request = json!({"name": "app", "scopes": ["chat"], "limits": limits});
        let made = cluster.gateways[0].client.try_post("/v1/keys", &request).unwrap();
        let key = made.1["key"].as_str().unwrap_or_else(|| panic!("{}", made.1)).to_owned();
        let knows = |url: &str| Client::with_key(url, &key).send("GET", "/v1/models", None).status == 200;
        wait("the key at all gateways", || cluster.gateways.iter().all(|one| knows(&one.weir.url)));
        let before = requests(&mock);
        Chats { cluster, mock, before, key, _settings: settings }
    }

    /// The status of a chat at a gateway, and the code of an error; `None` if the gateway is gone.
    fn chat(&self, gateway: usize) -> Option<(u16, String)> {
        let client = Client::with_key(&self.cluster.gateways[gateway].weir.url, &self.key);
        let body = json!({"model": "m", "max_tokens": 20, "messages": [{"role": "user", "content": "hi"}]});
        let (status, reply) = client.try_post("/v1/chat/completions", &body)?;
        Some((status, reply["error"]["code"].as_str().unwrap_or_default().to_owned()))
    }

    /// What all replies of the mock have cost.
    fn called(&self) -> u64 {
        requests(&self.mock) - self.before
    }

    /// What the ledger has, in the currency.
    fn spent(&self) -> i64 {
        spent(&self.cluster.server)
    }

    /// Chats at all gateways at one time, each until the budget is spent; how many were answered.
    fn spend(&self, while_running: impl FnOnce()) -> u64 {
        let answered = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for caller in 0..CALLERS {
                let answered = &answered;
                scope.spawn(move || {
                    for request in 0.. {
                        match self.chat((caller + request) % 3) {
                            Some((200, _)) => answered.fetch_add(1, Ordering::Relaxed),
                            Some((429, code)) if code == "budget_exceeded" => return,
                            // another request has a part of the rest; a gateway is gone
                            Some((429, _)) | None => {
                                std::thread::sleep(Duration::from_millis(100));
                                0
                            }
                            Some(other) => panic!("{other:?}"),
                        };
                    }
                });
            }
            while_running();
        });
        answered.into_inner()
    }
}

fn requests(mock: &Mock) -> u64 {
    mock.stats()["requests"].as_u64().unwrap()
}

fn spent(server: &Postgres) -> i64 {
    server.count("SELECT coalesce(sum(nanos), 0)::bigint / 1000000000 FROM weir.spending")
}

#[test]
fn forty_requests_at_three_gateways_spend_a_budget_and_do_not_pass_it() {
    let redis = RedisServer::start();
    for redis in [None, Some(&redis)] {
        let chats = Chats::start(redis, BUDGET);
        let answered = chats.spend(|| ());
        assert!((BUDGET - 1..=BUDGET).contains(&answered), "{answered}");
        assert_eq!(chats.called(), answered);
        wait("the ledger", || chats.spent() as u64 == answered);
    }
}

#[test]
fn a_gateway_that_is_killed_passes_no_budget_and_keeps_none() {
    let chats = Chats::start(None, BUDGET);
    let answered = chats.spend(|| {
        wait("some chats", || chats.called() >= 6);
        chats.cluster.gateways[1].weir.kill();
    });
    let called = chats.called();
    // what the dead gateway had reserved is spent: 2 for each of its requests
    assert!(answered <= called && called <= BUDGET, "{answered} answered, {called} called");
    wait("the ledger", || (BUDGET - 1..=BUDGET).contains(&(chats.spent() as u64)));
    println!("{answered} answered, {called} called");
}

#[test]
fn without_the_database_a_budget_is_refused_beyond_what_is_leased() {
    let mut chats = Chats::start(None, BUDGET);
    assert_eq!(chats.chat(0).unwrap().0, 200);
    wait("the ledger", || chats.spent() == 1);
    chats.cluster.server.signal(Signal::KILL);
    for gateway in [0, 1, 2, 0] {
        let refused = chats.chat(gateway).unwrap();
        assert_eq!(
            refused,
            (503, "store_unavailable".to_owned()),
            "nothing is leased near the end of a budget"
        );
    }
    assert_eq!(chats.called(), 1);
    chats.cluster.server.restart();
    for gateway in 0..3 {
        wait("the database", || chats.chat(gateway).unwrap().0 == 200);
    }
    let answered = 4 + chats.spend(|| ());
    assert!((BUDGET - 1..=BUDGET).contains(&answered), "{answered}");
    wait("the ledger", || chats.spent() as u64 == answered);
}
