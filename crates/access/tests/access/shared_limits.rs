//! Three gateways over one store and one Redis server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weir_access::{KeyUsage, Keys, Limited, Limits, RedisAddress, Reservation, SharedLimits, Unit};
use weir_policy::{Caller, KeyId};
use weir_store::Store;

use crate::redis_server::RedisServer;

const GATEWAYS: usize = 3;
/// The longest wait of a request for Redis, and what a busy machine adds.
const WAIT_MAX: Duration = Duration::from_millis(50 + 100);

struct Cluster {
    gateways: Vec<Keys>,
    key: KeyId,
    text: String,
    _folder: tempfile::TempDir,
}

impl Cluster {
    /// Gateways with a key that has these limits.
    async fn start(url: &str, limits: &str) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(folder.path()).unwrap();
        let request = serde_json::from_str(&format!(r#"{{"name": "app", "limits": {limits}}}"#)).unwrap();
        let made = Keys::load(store.clone(), 1.0)
            .await
            .unwrap()
            .create(&Caller::system(), &request, 1.0)
            .await
            .unwrap();
        // gateways of the cluster before may still be there
        let prefix = format!("test-{}", folder.path().display());
        let mut gateways = Vec::new();
        for _ in 0..GATEWAYS {
            let address = RedisAddress::parse(url).unwrap();
            let shared = SharedLimits::new(address, Duration::from_millis(40), &prefix, 1);
            shared.connect().await.unwrap();
            let keys = Keys::load_with(store.clone(), Limits::Redis(Arc::new(shared)), 1.0).await.unwrap();
            let working = keys.clone();
            tokio::spawn(async move { working.work_with_others().await });
            gateways.push(keys);
        }
        let cluster = Cluster { gateways, key: KeyId(made.reply.id), text: made.key, _folder: folder };
        let sees_all = |keys: &Keys| keys.limits_status().unwrap().gateways == GATEWAYS as u64;
        cluster.wait("all gateways see each other", || cluster.gateways.iter().all(sees_all)).await;
        // each listens a moment after it is connected
        tokio::time::sleep(Duration::from_millis(200)).await;
        cluster
    }

    fn usage(&self, gateway: usize) -> Arc<KeyUsage> {
        self.gateways[gateway].usage(self.key).unwrap()
    }

    async fn admit(&self, gateway: usize) -> Result<Reservation, Limited> {
        self.usage(gateway).admit(Instant::now()).await
    }

    /// A request within the limit: a busy machine may need more than the wait of one to move a slot.
    async fn admit_soon(&self, gateway: usize) -> Reservation {
        let started = Instant::now();
        loop {
            match self.admit(gateway).await {
                Ok(running) => return running,
                Err(limited) => assert!(started.elapsed() < Duration::from_secs(2), "{limited:?}"),
            }
        }
    }

    fn is_shared(&self) -> bool {
        self.gateways.iter().all(|keys| keys.limits_status().unwrap().is_shared)
    }

    fn asked(&self) -> u64 {
        self.gateways.iter().map(|keys| keys.limits_status().unwrap().asked).sum()
    }

    async fn wait(&self, what: &str, is_done: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_done() {
            assert!(started.elapsed() < Duration::from_secs(20), "{what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Requests from all gateways for this time; how many were admitted.
    async fn hammer(&self, time: Duration) -> u64 {
        let until = Instant::now() + time;
        let hammer = |gateway: usize| {
            let usage = self.usage(gateway);
            tokio::spawn(async move {
                let mut admitted = 0;
                while Instant::now() < until {
                    match usage.admit(Instant::now()).await {
                        Ok(_) => admitted += 1,
                        Err(limited) => {
                            assert_eq!(limited.unit, Unit::Requests);
                            tokio::time::sleep(Duration::from_millis(2)).await;
                        }
                    }
                }
                admitted
            })
        };
        let tasks: Vec<_> = (0..GATEWAYS).chain(0..GATEWAYS).map(hammer).collect();
        let mut admitted = 0;
        for task in tasks {
            admitted += task.await.unwrap();
        }
        admitted
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_gateways_admit_at_most_2_percent_over_a_limit() {
    let redis = RedisServer::start();
    for limit in [600, 12_000] {
        let cluster = Cluster::start(&redis.url(), &format!(r#"{{"requests_per_minute": {limit}}}"#)).await;
        let started = Instant::now();
        let admitted = cluster.hammer(Duration::from_secs(3)).await;
        let one_bucket = limit as f64 * (1.0 + started.elapsed().as_secs_f64() / 60.0);
        let over = admitted as f64 / one_bucket - 1.0;
        println!("limit {limit}: {admitted} admitted, {:+.2} %, {} asked", 100.0 * over, cluster.asked());
        assert!((-0.05..=0.02).contains(&over), "{admitted} of {one_bucket}");
        assert!(cluster.is_shared());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn most_requests_ask_nobody() {
    let redis = RedisServer::start();
    let cluster =
        Cluster::start(&redis.url(), r#"{"requests_per_minute": 48000, "concurrent_requests": 480}"#).await;
    for _ in 0..2_000 {
        drop(cluster.admit(0).await.unwrap());
    }
    assert!(cluster.asked() <= 60, "{} of 2,000 asked", cluster.asked());
    let left = cluster.usage(0).left(Instant::now())[0];
    assert!((45_900..48_000).contains(&left.remaining), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_at_one_time_are_counted_exactly() {
    let redis = RedisServer::start();
    for limit in [1, 7, 200] {
        let cluster = Cluster::start(&redis.url(), &format!(r#"{{"concurrent_requests": {limit}}}"#)).await;
        let mut running = Vec::new();
        for number in 0..limit {
            running.push((number % GATEWAYS, cluster.admit_soon(number % GATEWAYS).await));
        }
        for gateway in 0..GATEWAYS {
            assert_eq!(cluster.admit(gateway).await.unwrap_err().unit, Unit::Concurrency);
        }
        // a request that ends at one gateway frees its slot for the others
        running.retain(|(gateway, _)| *gateway != 0);
        let freed = limit - running.len();
        for _ in 0..freed {
            running.push((1, cluster.admit_soon(1).await));
        }
        assert!(cluster.admit(2).await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_that_were_not_used_come_back_to_all() {
    let redis = RedisServer::start();
    let cluster = Cluster::start(&redis.url(), r#"{"tokens_per_minute": 1000}"#).await;
    let at = || (Instant::now(), 1.0);
    let reserve = async |gateway: usize, tokens| {
        let cost = weir_access::CostRange::exactly(0);
        cluster.usage(gateway).reserve_in_turn("m", at, tokens, cost).await
    };
    let first = reserve(0, 900).await.unwrap();
    let refused = reserve(1, 500).await.unwrap_err();
    assert!(refused.unit == Unit::Tokens && refused.retry_after.is_some(), "{refused:?}");
    assert_eq!(reserve(2, 1_001).await.unwrap_err().retry_after, None);
    first.settle(at(), 100, 0);
    tokio::time::sleep(Duration::from_millis(400)).await;
    reserve(1, 500).await.unwrap().settle(at(), 900, 0);
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(reserve(2, 100).await.is_err(), "what was used beyond the reservation is charged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_hangs_delays_a_request_once_and_each_gateway_counts_its_share() {
    let redis = RedisServer::start();
    let cluster = Cluster::start(&redis.url(), r#"{"requests_per_minute": 300}"#).await;
    redis.signal(Signal::STOP);
    let mut delays = Vec::new();
    for gateway in 0..GATEWAYS {
        for _ in 0..20 {
            let started = Instant::now();
            drop(cluster.admit(gateway).await.unwrap());
            delays.push(started.elapsed());
        }
    }
    let late = delays.iter().filter(|delay| **delay > Duration::from_millis(20)).count();
    assert!(late <= GATEWAYS && delays.iter().all(|delay| *delay <= WAIT_MAX), "{delays:?}");
    assert!(!cluster.is_shared());
    let admitted = 20 * GATEWAYS as u64 + cluster.hammer(Duration::from_secs(1)).await;
    assert!((290..=310).contains(&admitted), "{admitted}");

    redis.signal(Signal::CONT);
    cluster.wait("all count together again", || cluster.is_shared()).await;
    // what was admitted meanwhile is charged: only what has come since is left
    let admitted = cluster.hammer(Duration::from_secs(1)).await;
    assert!(admitted <= 40, "{admitted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_redis_no_request_fails_and_with_it_again_all_count_together() {
    let mut redis = RedisServer::start();
    let cluster =
        Cluster::start(&redis.url(), r#"{"requests_per_minute": 3000, "concurrent_requests": 30}"#).await;
    redis.signal(Signal::KILL);
    for number in 0..300 {
        let started = Instant::now();
        drop(cluster.admit(number % GATEWAYS).await.unwrap());
        assert!(started.elapsed() <= WAIT_MAX, "{:?}", started.elapsed());
    }
    assert!(!cluster.is_shared());
    redis.restart();
    cluster.wait("all count together again", || cluster.is_shared()).await;
    let asked = cluster.asked();
    for number in 0..30 {
        drop(cluster.admit(number % GATEWAYS).await.unwrap());
    }
    assert!(cluster.asked() > asked);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_revoked_on_one_gateway_is_refused_by_all() {
    let redis = RedisServer::start();
    let cluster = Cluster::start(&redis.url(), r#"{"requests_per_minute": 300}"#).await;
    let knows = |text: &str| cluster.gateways.iter().filter(|keys| keys.caller(text, 2.0).is_some()).count();
    assert_eq!(knows(&cluster.text), GATEWAYS);
    let request = serde_json::from_str(r#"{"name": "other"}"#).unwrap();
    let other = cluster.gateways[1].create(&Caller::system(), &request, 2.0).await.unwrap();
    cluster.wait("a new key on all gateways", || knows(&other.key) == GATEWAYS).await;
    let revoked = Instant::now();
    cluster.gateways[0].revoke(&Caller::system(), cluster.key.0, 3.0).await.unwrap();
    cluster.wait("the end of the key", || knows(&cluster.text) == 0).await;
    assert!(revoked.elapsed() < Duration::from_secs(1), "{:?}", revoked.elapsed());
    assert_eq!(knows(&other.key), GATEWAYS);
}
