//! Budgets of three gateways over one PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use weir_access::{CostRange, Keys, Limited, Limits, RedisAddress, Reservation, SharedLimits, Unit};
use weir_policy::{Caller, KeyId};
use weir_store::{Location, Store};

use crate::postgres_server::Postgres;
use crate::redis_server::RedisServer;

const GATEWAYS: usize = 3;
/// A unit of the budgets of the tests, in billionths of the currency.
const CENT: u64 = 10_000_000;

struct Cluster {
    server: Postgres,
    gateways: Vec<Keys>,
    stores: Vec<Store>,
    writers: Vec<tokio::task::JoinHandle<()>>,
    key: KeyId,
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

fn at() -> (Instant, f64) {
    (Instant::now(), now())
}

/// A server that has just been started may refuse connections.
async fn open(location: &Location) -> Store {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match Store::open(location).await {
            Ok(store) => return store,
            Err(error) => assert!(error.retry_after().is_some() && Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl Cluster {
    /// Gateways with a key that has this budget of a day, in cents, and the same for a model. They write their ledgers as `weir serve` does.
    async fn start(cents: u64, redis: Option<&RedisServer>) -> Cluster {
        let server = tokio::task::block_in_place(Postgres::start);
        let location = Location::database(&server.url()).unwrap();
        let amount = cents as f64 / 100.0;
        let limits = format!(r#"{{"budget_per_day": {amount}, "requests_per_minute": 1000000}}"#);
        let models = format!(r#"{{"m": {{"budget_per_month": {amount}}}}}"#);
        let request = format!(r#"{{"name": "app", "limits": {limits}, "model_limits": {models}}}"#);
        let mut cluster =
            Cluster { server, gateways: Vec::new(), stores: Vec::new(), writers: Vec::new(), key: KeyId(0) };
        for _ in 0..GATEWAYS {
            let store = open(&location).await;
            let limits = match redis {
                Some(redis) => {
                    let address = RedisAddress::parse(&redis.url()).unwrap();
                    let prefix = format!("test-{}", cluster.server.port);
                    let shared = SharedLimits::new(address, Duration::from_millis(40), &prefix, 1);
                    shared.connect().await.unwrap();
                    Limits::Redis(Arc::new(shared))
                }
                None => Limits::Local,
            };
            let keys = Keys::load_with(store.clone(), limits, now()).await.unwrap();
            if cluster.gateways.is_empty() {
                let request = serde_json::from_str(&request).unwrap();
                let made = keys.create(&Caller::system(), &request, now()).await.unwrap();
                cluster.key = KeyId(made.reply.id);
            }
            let writer = keys.clone();
            cluster.writers.push(tokio::spawn(async move {
                loop {
                    let _ = tokio::time::timeout(Duration::from_millis(500), writer.ledger_changed()).await;
                    let _ = writer.flush_ledger(now()).await;
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }));
            cluster.gateways.push(keys);
            cluster.stores.push(store);
        }
        cluster
    }

    async fn reserve(&self, gateway: usize, cost: CostRange) -> Result<Reservation, Limited> {
        let usage = self.gateways[gateway].usage(self.key).unwrap();
        usage.reserve_in_turn("m", at, 1, cost).await
    }

    fn asked(&self) -> u64 {
        self.gateways.iter().map(|keys| keys.budget_leases_asked().unwrap()).sum()
    }

    /// What the ledger has, of the key and of its model.
    fn spent(&self) -> [u64; 2] {
        ["", "m"].map(|model| {
            let sql =
                format!("SELECT coalesce(sum(nanos), 0)::bigint FROM weir.spending WHERE model = '{model}'");
            tokio::task::block_in_place(|| self.server.count(&sql)) as u64
        })
    }

    /// Sends requests from tasks at all gateways until each is refused for good; what all of them cost, and those that were admitted.
    async fn spend(&self, tasks: usize, cost: CostRange, used: impl Fn(u64) -> u64) -> (u64, u64) {
        let (spent, admitted) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut running = Vec::new();
        for task in 0..tasks {
            let usage = self.gateways[task % GATEWAYS].usage(self.key).unwrap();
            let (spent, admitted) = (spent.clone(), admitted.clone());
            let used: Vec<u64> = (0..1_000).map(|request| used(task as u64 + request)).collect();
            running.push(tokio::spawn(async move {
                for used in used {
                    match usage.reserve_in_turn("m", at, 1, cost).await {
                        Ok(reservation) => {
                            spent.fetch_add(used, Ordering::Relaxed);
                            admitted.fetch_add(1, Ordering::Relaxed);
                            tokio::time::sleep(Duration::from_millis(5)).await;
                            reservation.settle(at(), 1, used);
                        }
                        Err(limited) if limited.retry_after.is_some() => {
                            tokio::time::sleep(Duration::from_millis(100)).await;
                        }
                        Err(limited) => {
                            assert!(
                                matches!(limited.unit, Unit::DayBudget | Unit::MonthBudget),
                                "{limited:?}"
                            );
                            return;
                        }
                    }
                }
            }));
        }
        for task in running {
            task.await.unwrap();
        }
        (spent.load(Ordering::Relaxed), admitted.load(Ordering::Relaxed))
    }

    async fn wait_for_ledger(&self, expected: u64) {
        let started = Instant::now();
        while self.spent() != [expected; 2] {
            assert!(started.elapsed() < Duration::from_secs(20), "{:?}, not {expected}", self.spent());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_gateways_spend_a_budget_to_its_end_and_never_pass_it() {
    let redis = RedisServer::start();
    for redis in [None, Some(&redis)] {
        // a request can cost 20 cents, and costs 1 to 3
        let cluster = Cluster::start(100, redis).await;
        let cost = CostRange { max: 20 * CENT, estimate: 3 * CENT };
        let started = Instant::now();
        let (spent, admitted) = cluster.spend(40, cost, |number| (1 + number % 3) * CENT).await;
        println!("{admitted} admitted, {} asked, {:?}", cluster.asked(), started.elapsed());
        assert!(spent <= 100 * CENT && spent > 97 * CENT, "{spent}");
        cluster.wait_for_ledger(spent).await;

        // what a request costs is known
        let cluster = Cluster::start(100, redis).await;
        let (spent, admitted) = cluster.spend(40, CostRange::exactly(3 * CENT), |_| 3 * CENT).await;
        assert_eq!((spent, admitted), (99 * CENT, 33));
        cluster.wait_for_ledger(spent).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn most_requests_of_a_large_budget_ask_nobody() {
    let cluster = Cluster::start(100_000, None).await;
    let cost = CostRange { max: CENT, estimate: CENT };
    for _ in 0..500 {
        cluster.reserve(0, cost).await.unwrap().settle(at(), 1, CENT / 10);
    }
    assert!((1..=10).contains(&cluster.asked()), "{}", cluster.asked());
    cluster.wait_for_ledger(50 * CENT).await;
    // what it has leased and does not use is given back
    let started = Instant::now();
    let leased = "SELECT coalesce(sum(nanos), 0)::bigint FROM weir.budget_leases";
    while tokio::task::block_in_place(|| cluster.server.count(leased)) > 0 {
        assert!(started.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let rest = CostRange::exactly(100_000 * CENT - 50 * CENT);
    drop(cluster.reserve(1, rest).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_at_midnight_takes_nothing_beside_the_budget_of_the_next_day() {
    // the end of a month
    const MIDNIGHT: f64 = 1_796_083_200.0;
    let cluster = Cluster::start(10, None).await;
    let usage = cluster.gateways[0].usage(cluster.key).unwrap();
    let reserve = |time: f64| {
        let usage = usage.clone();
        async move { usage.reserve_in_turn("m", || (Instant::now(), time), 1, CostRange::exactly(CENT)).await }
    };
    let mut running = Vec::new();
    for time in [MIDNIGHT - 10.0, MIDNIGHT + 5.0] {
        for _ in 0..10 {
            running.push(reserve(time).await.unwrap());
        }
        let more = tokio::time::timeout(Duration::from_secs(1), reserve(time)).await;
        assert!(!matches!(more, Ok(Ok(_))), "the budget of the day is reserved");
    }
    running.into_iter().for_each(|one| one.settle((Instant::now(), MIDNIGHT + 60.0), 1, CENT));
    cluster.wait_for_ledger(20 * CENT).await;
    let most =
        tokio::task::block_in_place(|| cluster.server.count("SELECT max(nanos)::bigint FROM weir.spending"));
    assert_eq!(most as u64, 10 * CENT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_gateway_has_reserved_stays_spent_and_what_it_has_leased_comes_back() {
    let cluster = Cluster::start(100, None).await;
    let lost = cluster.reserve(0, CostRange::exactly(30 * CENT)).await.unwrap();
    // it is gone: it writes nothing any more
    cluster.writers[0].abort();
    std::mem::forget(lost);
    assert_eq!(cluster.spent(), [30 * CENT; 2], "it was in the store before the request was sent");
    let refused = cluster.reserve(1, CostRange::exactly(71 * CENT));
    let refused = tokio::time::timeout(Duration::from_secs(2), refused).await;
    assert!(refused.is_err(), "it waits for what the first gateway can give back");
    let end =
        "WITH ended AS (UPDATE weir.budget_leases SET ends_at = 0 WHERE reserved > 0 RETURNING reserved)
        SELECT sum(reserved)::bigint FROM ended";
    assert_eq!(tokio::task::block_in_place(|| cluster.server.count(end)), (2 * 30 * CENT) as i64);
    let refused = cluster.reserve(1, CostRange::exactly(71 * CENT)).await.unwrap_err();
    assert_eq!((refused.left, refused.retry_after), (Some(70 * CENT), None));
    cluster.reserve(1, CostRange::exactly(70 * CENT)).await.unwrap().settle(at(), 1, 70 * CENT);
    cluster.wait_for_ledger(100 * CENT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_store_what_is_leased_can_be_spent_and_nothing_else() {
    let mut cluster = Cluster::start(100_000, None).await;
    let cost = CostRange::exactly(100 * CENT);
    // leases a 64th of the budget: 15 requests
    drop(cluster.reserve(0, cost).await.unwrap());
    cluster.server.signal(Signal::KILL);
    let mut admitted = 0;
    let refused = loop {
        let started = Instant::now();
        match cluster.reserve(0, cost).await {
            Ok(reservation) => reservation.settle(at(), 1, 100 * CENT),
            Err(refused) => break refused,
        }
        assert!(started.elapsed() < Duration::from_secs(1));
        admitted += 1;
    };
    assert_eq!((admitted, refused.unit), (15, Unit::Ledger));
    assert!(refused.retry_after.is_some());
    assert_eq!(cluster.reserve(1, cost).await.unwrap_err().unit, Unit::Ledger);
    let free = CostRange::exactly(0);
    assert!(cluster.reserve(1, free).await.is_ok(), "what costs nothing needs no budget");
    tokio::task::block_in_place(|| cluster.server.restart());
    let started = Instant::now();
    while let Err(refused) = cluster.reserve(1, cost).await {
        assert!(refused.unit == Unit::Ledger && started.elapsed() < Duration::from_secs(30), "{refused:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // nothing that was spent meanwhile is lost, and nothing is counted twice
    cluster.wait_for_ledger(15 * 100 * CENT).await;
}
