//! Kept chat replies, which all gateways give by Redis.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Cluster, wait};
use crate::http::redis_server::RedisServer;
use crate::llm::setup::{Mock, PROVIDER_KEY, upstream};
use crate::support::client::{Client, Reply};

const ROUTE: &str = "[[routes]]\nmodel = \"m\"\ntargets = [{ upstream = \"mock\" }]\ncache = { mode = \"exact\", seconds = 600 }\n";
const TEXT: &str = "Where is the lighthouse?";

/// Two gateways before one mock.
struct Chats {
    cluster: Cluster,
    redis: RedisServer,
    mock: Mock,
    /// With all rights.
    admin: String,
    variables: Vec<(&'static str, String)>,
    _settings: tempfile::TempDir,
}

impl Chats {
    fn start() -> Chats {
        let (redis, mock) = (RedisServer::start(), Mock::start(&["--echo", "last"]));
        let settings = tempfile::tempdir().unwrap();
        let file = settings.path().join("weir.toml");
        std::fs::write(&file, format!("{}{ROUTE}", upstream("mock", &mock, "retries_max = 0"))).unwrap();
        let variables = vec![
            ("WEIR_CONFIG", file.to_str().unwrap().to_owned()),
            ("PROVIDER_KEY", PROVIDER_KEY.to_owned()),
            ("WEIR_REDIS_URL", "env:REDIS_URL".to_owned()),
            ("REDIS_URL", redis.url()),
            ("WEIR_REDIS_REPLIES", "true".to_owned()),
        ];
        let cluster = Cluster::start(0);
        let mut chats = Chats { cluster, redis, mock, admin: String::new(), variables, _settings: settings };
        (0..2).for_each(|_| chats.add());
        let request = json!({"name": "admin", "scopes": ["admin", "chat", "metrics"]});
        let made = chats.cluster.gateways[0].client.try_post("/v1/keys", &request).unwrap().1;
        chats.admin = made["key"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        chats.wait_for(&chats.admin);
        chats
    }

    /// Starts one more gateway.
    fn add(&mut self) {
        let variables: Vec<_> = self.variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.cluster.add(&variables);
    }

    /// Waits until all gateways know a key.
    fn wait_for(&self, key: &str) {
        let knows = |place: usize| self.client(place, key).send("GET", "/v1/models", None).status == 200;
        wait("the key at all gateways", || (0..self.cluster.gateways.len()).all(knows));
    }

    fn key(&self, request: &Value) -> String {
        let made = self.client(0, &self.admin).try_post("/v1/keys", request).unwrap().1;
        let key = made["key"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        self.wait_for(&key);
        key
    }

    fn client(&self, place: usize, key: &str) -> Client {
        Client::with_key(&self.cluster.gateways[place].weir.url, key)
    }

    /// The reply of a gateway to a question.
    fn ask(&self, place: usize, key: &str, body: &Value, more: &[(&str, &str)]) -> Reply {
        let headers = [&[("content-type", "application/json")], more].concat();
        let body = body.to_string();
        let sent =
            self.client(place, key).try_send("POST", "/v1/chat/completions", &headers, Some(body.as_bytes()));
        sent.unwrap()
    }

    /// Where the reply of a gateway came from.
    fn cache(&self, place: usize, key: &str, body: &Value) -> String {
        let reply = self.ask(place, key, body, &[]);
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.header("x-weir-cache").to_owned()
    }

    fn metric(&self, place: usize, series: &str) -> f64 {
        let text = self.client(place, &self.admin).send("GET", "/metrics", None).text;
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{series}: {text}")).parse().unwrap()
    }

    fn lookups(&self, place: usize, result: &str) -> f64 {
        self.metric(place, &format!("weir_shared_reply_lookups_total{{result=\"{result}\"}}"))
    }

    fn written(&self, place: usize) -> f64 {
        self.metric(place, "weir_shared_reply_writes_total{result=\"written\"}")
    }

    /// Has a gateway keep the reply to a question, which others then find.
    fn keep(&self, place: usize, key: &str, body: &Value) {
        let before = self.written(place);
        assert_eq!(self.cache(place, key, body), "miss");
        wait("the reply in Redis", || self.written(place) > before);
    }

    /// The names of the replies in Redis.
    fn names(&self) -> Vec<String> {
        let reply = String::from_utf8(self.redis.ask(&[b"KEYS", b"weir:reply:*"])).unwrap();
        reply.lines().filter(|line| line.starts_with("weir:")).map(str::to_owned).collect()
    }

    fn called(&self) -> u64 {
        self.mock.stats()["requests"].as_u64().unwrap()
    }
}

fn say(text: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": text}]})
}

#[test]
fn a_gateway_gives_what_another_has_kept_to_the_same_key() {
    let chats = Chats::start();
    let app = json!({"name": "app", "scopes": ["chat"]});
    let (one, two) = (chats.key(&app), chats.key(&app));
    for is_stream in [false, true] {
        let mut body = say(TEXT);
        body["stream"] = is_stream.into();
        let before = chats.called();
        chats.keep(0, &one, &body);
        let first = chats.ask(0, &one, &body, &[]);
        let other = chats.ask(1, &one, &body, &[]);
        assert_eq!(other.header("x-weir-cache"), "hit", "{}", other.text);
        assert_eq!((&other.text, other.header("content-type")), (&first.text, first.header("content-type")));
        assert!(other.text.contains("lighthouse"), "{}", other.text);
        assert_eq!(chats.called(), before + 1);
        let asked = chats.lookups(1, "hit");
        assert_eq!(chats.cache(1, &one, &body), "hit");
        assert_eq!(chats.lookups(1, "hit"), asked, "the other one has kept it in memory as well");
        assert_eq!(chats.cache(1, &two, &body), "miss", "of another key");
    }
    assert_eq!(chats.lookups(0, "hit"), 0.0);
    assert!(chats.metric(1, "weir_shared_reply_read_bytes_total") > 100.0);
    assert!(chats.metric(0, "weir_shared_reply_written_bytes_total") > 100.0);

    // what memory does not keep, Redis does not keep
    let written = chats.written(0);
    let no_store = chats.ask(0, &one, &say("secret"), &[("cache-control", "no-store")]);
    let failed = chats.ask(0, &one, &say("failed"), &[("x-mock-status", "400")]);
    let broken = chats.ask(0, &one, &say("broken"), &[("x-mock-malformed", "1")]);
    assert_eq!((no_store.status, failed.status, broken.status), (200, 400, 502));
    chats.keep(0, &one, &say("later"));
    assert_eq!(chats.written(0), written + 1.0);
    assert_eq!(chats.cache(1, &one, &say("secret")), "miss");

    // who reads Redis learns nothing
    let folder = chats.cluster.gateways[0].folder.path();
    let service = std::fs::read_to_string(folder.join("service.id")).unwrap();
    let names = chats.names();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        assert!(name.starts_with(&format!("weir:reply:{}:", service.trim())), "{name}");
        let value = chats.redis.ask(&[b"GET", name.as_bytes()]);
        assert!(!String::from_utf8_lossy(&value).contains("lighthouse"));
        let lifetime = String::from_utf8(chats.redis.ask(&[b"TTL", name.as_bytes()])).unwrap();
        let seconds: u64 = lifetime[1..].lines().next().unwrap().parse().unwrap();
        assert!((1..=600).contains(&seconds), "{lifetime}");
    }
}

#[test]
fn a_key_that_has_the_number_of_a_lost_one_gets_none_of_its_replies() {
    let mut chats = Chats::start();
    let app = json!({"name": "app", "scopes": ["chat"]});
    let number = |chats: &Chats| {
        let listed = chats.client(0, &chats.admin).get("/v1/keys").1;
        let keys = listed["data"].as_array().unwrap_or_else(|| panic!("{listed}"));
        keys.iter().find(|key| key["name"] == "app").unwrap_or_else(|| panic!("{listed}"))["id"].clone()
    };
    let lost = chats.key(&app);
    let of_lost = number(&chats);
    chats.keep(0, &lost, &say(TEXT));
    // as in a database that has lost its last commits
    chats.cluster.server.execute("DELETE FROM api_keys WHERE name = 'app'");
    let next = chats.key(&app);
    assert_eq!(number(&chats), of_lost);
    // a gateway that has nothing in memory
    chats.add();
    chats.wait_for(&next);
    assert_eq!(chats.cache(2, &next, &say(TEXT)), "miss");
    assert_eq!(chats.cache(2, &next, &say(TEXT)), "hit");
}

#[test]
fn a_value_that_can_not_be_read_is_a_miss_and_is_replaced() {
    let mut chats = Chats::start();
    let key = &chats.admin;
    chats.keep(0, key, &say("one"));
    let of_one = chats.names().pop().unwrap();
    chats.keep(0, key, &say("two"));
    let of_two = chats.names().into_iter().find(|name| *name != of_one).unwrap();
    let replies = [
        // damaged
        chats.redis.ask(&[b"SETRANGE", of_one.as_bytes(), b"20", b"???"]),
        // the reply to another question
        chats.redis.ask(&[b"COPY", of_one.as_bytes(), of_two.as_bytes(), b"REPLACE"]),
    ];
    assert!(replies.iter().all(|reply| reply.starts_with(b":")), "{replies:?}");
    for (count, question) in [(1.0, "one"), (2.0, "two")] {
        chats.keep(1, key, &say(question));
        assert_eq!(chats.lookups(1, "unreadable"), count, "{question}");
    }
    // far too large, and of another type
    let large = vec![b'x'; 1 << 20];
    chats.redis.ask(&[b"SETEX", of_one.as_bytes(), b"60", &large]);
    chats.redis.ask(&[b"DEL", of_two.as_bytes()]);
    chats.redis.ask(&[b"HSET", of_two.as_bytes(), b"a", b"b"]);
    // a gateway that has nothing in memory
    chats.add();
    chats.wait_for(&chats.admin);
    chats.keep(2, &chats.admin, &say("one"));
    assert_eq!(chats.lookups(2, "unreadable"), 1.0);
    chats.keep(2, &chats.admin, &say("two"));
    assert_eq!(chats.lookups(2, "failed"), 1.0);
    assert_eq!(chats.metric(2, "weir_limits_failures_total"), 0.0);
    chats.add();
    chats.wait_for(&chats.admin);
    for question in ["one", "two"] {
        assert_eq!(chats.cache(3, &chats.admin, &say(question)), "hit");
    }
}

#[test]
fn a_redis_that_hangs_or_is_killed_fails_no_chat_and_delays_one_at_most() {
    const CHATS: usize = 20;
    /// Less than a call of Redis may take.
    const DELAYED: Duration = Duration::from_millis(38);
    let mut chats = Chats::start();
    let limits = json!({"requests_per_minute": 600_000, "tokens_per_minute": 600_000_000});
    let key = chats.key(&json!({"name": "app", "scopes": ["chat"], "limits": limits}));
    for outage in [Signal::STOP, Signal::KILL] {
        chats.keep(0, &key, &say(&format!("before {outage:?}")));
        assert_eq!(chats.cache(1, &key, &say(&format!("before {outage:?}"))), "hit");
        chats.redis.signal(outage);
        for place in 0..2 {
            let failed = chats.lookups(place, "failed");
            let mut times = Vec::new();
            for number in 0..CHATS {
                let asked = Instant::now();
                let body = say(&format!("{outage:?} {place} {number}"));
                assert_eq!(chats.cache(place, &key, &body), "miss");
                times.push(asked.elapsed());
            }
            assert_eq!(chats.lookups(place, "failed") - failed, CHATS as f64);
            times.sort_unstable();
            println!("{outage:?}: {times:?}");
            let delayed = times.iter().filter(|took| **took > DELAYED).count();
            // one by Redis, others by what else this machine does
            assert!(delayed <= CHATS / 4 && times[CHATS - 1] < Duration::from_millis(500), "{times:?}");
            assert_eq!(chats.cache(place, &key, &say(&format!("before {outage:?}"))), "hit", "from memory");
        }
        match outage {
            Signal::STOP => chats.redis.signal(Signal::CONT),
            _ => chats.redis.restart(),
        }
        let is_back = |place| chats.metric(place, "weir_limits_shared") == 1.0;
        wait("Redis at both gateways", || is_back(0) && is_back(1));
        let body = say(&format!("after {outage:?}"));
        chats.keep(1, &key, &body);
        assert_eq!(chats.cache(0, &key, &body), "hit");
    }
}
