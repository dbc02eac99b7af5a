use weir_policy::KeyId;

use super::*;
use crate::chain::{Chain, Reservation};

const ALONE: Counting = Counting::Alone { gateways: 1 };

fn limited(not_reserved: NotReserved) -> Limited {
    match not_reserved {
        NotReserved::Limited(limited) => limited,
        NotReserved::Ask(need) => panic!("{need:?}"),
    }
}

/// Reservations without waiting, as in this process alone.
impl KeyUsage {
    pub(crate) fn try_admit(self: &Arc<KeyUsage>, now: Instant) -> Result<Reservation, Limited> {
        Chain::of_key(self).try_reserve(Amounts::Request, (now, 0.0), ALONE).map_err(limited)
    }

    pub(crate) fn try_use(
        self: &Arc<KeyUsage>,
        at: (Instant, Timestamp),
        tokens: u64,
        cost: CostRange,
    ) -> Result<Reservation, Limited> {
        let chain = Chain::new([self.clone()], 0);
        chain.try_reserve(Amounts::Use { tokens, cost }, at, ALONE).map_err(limited)
    }

    pub(crate) fn try_use_of(
        self: &Arc<KeyUsage>,
        model: &str,
        at: (Instant, Timestamp),
        tokens: u64,
        cost: CostRange,
    ) -> Result<Reservation, Limited> {
        Chain::of_model(self, model).try_reserve(Amounts::Use { tokens, cost }, at, ALONE).map_err(limited)
    }

    pub(crate) fn try_exact(
        self: &Arc<KeyUsage>,
        model: &str,
        at: (Instant, Timestamp),
        tokens: u64,
        nanos: u64,
    ) -> Result<Reservation, Limited> {
        self.try_use_of(model, at, tokens, CostRange::exactly(nanos))
    }
}

fn usage_with(limits: KeyLimits, now: Instant) -> Arc<KeyUsage> {
    Arc::new(usage_for("", limits, now))
}

fn usage_for(model: &str, limits: KeyLimits, now: Instant) -> KeyUsage {
    let counted = Counted { limits: Limits::Local, ledger: Arc::default() };
    KeyUsage::new((KeyId(1), model.into()), 0.0, limits, Spending::default(), counted, now)
}

#[test]
fn limits_for_a_model_hold_beside_those_of_the_key() {
    let now = (Instant::now(), 0.0);
    let tokens = |limit| KeyLimits { tokens_per_minute: Some(limit), ..KeyLimits::default() };
    let one = KeyLimits { concurrent_requests: Some(1), ..tokens(50) };
    let models =
        vec![Arc::new(usage_for("gpt-*", one, now.0)), Arc::new(usage_for("gpt-4o", tokens(70), now.0))];
    let usage = usage_with(tokens(100), now.0);
    usage.set_models(models);
    let running = usage.try_use_of("gpt-3", now, 50, CostRange::exactly(0)).unwrap();
    let refused = usage.try_use_of("gpt-5", now, 1, CostRange::exactly(0)).unwrap_err();
    assert_eq!((&*refused.model, refused.unit), ("gpt-*", Unit::Concurrency));
    running.settle(now, 10, 0);
    assert_eq!(usage.try_use_of("gpt-5", now, 41, CostRange::exactly(0)).unwrap_err().unit, Unit::Tokens);
    let refused = usage.try_use_of("gpt-4o", now, 71, CostRange::exactly(0)).unwrap_err();
    assert_eq!((&*refused.model, refused.limit), ("gpt-4o", 70), "the longest name that fits");
    usage.try_use_of("other", now, 60, CostRange::exactly(0)).unwrap().settle(now, 60, 0);
    assert_eq!(
        &*usage.try_use_of("gpt-4o", now, 40, CostRange::exactly(0)).unwrap_err().model,
        "",
        "the limit of the key"
    );
    assert_eq!(
        usage.of_model("gpt-4o").unwrap().left(now.0)[0].remaining,
        70,
        "what was refused took nothing"
    );
}

#[test]
fn what_is_known_before_is_reserved_and_runs_until_its_end() {
    let now = (Instant::now(), 0.0);
    let budgets = Budgets { per_day: Some(100), per_month: None };
    let usage = Arc::new(usage_for("", KeyLimits { budgets, ..KeyLimits::default() }, now.0));
    let of_model = KeyLimits { concurrent_requests: Some(1), ..KeyLimits::default() };
    usage.set_models(vec![Arc::new(usage_for("m", of_model, now.0))]);
    let running = usage.try_exact("m", now, 5, 60).unwrap();
    assert_eq!(usage.try_exact("m", now, 5, 0).unwrap_err().unit, Unit::Concurrency);
    running.settle(now, 5, 60);
    assert_eq!(usage.spent(now.1), Some((60, 60)));
    assert_eq!(usage.try_exact("m", now, 5, 41).unwrap_err().unit, Unit::DayBudget);
    drop(usage.try_exact("m", now, 5, 40).unwrap());
    assert_eq!(usage.spent(now.1), Some((60, 60)), "what was refused is given back");
}

#[test]
fn the_rest_of_a_budget_is_reserved_by_one_request_after_the_other() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let now = (Instant::now(), 0.0);
    let budgets = Budgets { per_day: Some(100), per_month: None };
    let usage = usage_with(KeyLimits { budgets, ..KeyLimits::default() }, now.0);
    let cost = CostRange { max: 1_000, estimate: 30 };
    let order = Mutex::new(Vec::new());
    let request = |number: u64| {
        let (usage, order) = (usage.clone(), &order);
        async move {
            let reservation = usage.reserve_in_turn("m", || now, 0, cost).await?;
            order.lock().unwrap().push(number);
            assert_eq!(usage.try_use(now, 0, cost).unwrap_err().retry_after, Some(RETRY_AFTER_RUNNING));
            tokio::time::sleep(Duration::from_millis(5)).await;
            reservation.settle(now, 0, 30);
            Ok::<_, Limited>(())
        }
    };
    let (a, b, c, d) =
        runtime.block_on(async { tokio::join!(request(1), request(2), request(3), request(4)) });
    let refused = [a, b, c, d].into_iter().filter_map(Result::err).collect::<Vec<_>>();
    assert_eq!((order.lock().unwrap().len(), refused.len()), (3, 1), "90 of 100 are spent");
    assert_eq!((refused[0].needed, refused[0].left, refused[0].retry_after), (30, Some(10), None));
    let mut reservation = usage.try_use(now, 0, CostRange::exactly(4)).unwrap();
    assert!(runtime.block_on(reservation.extend(now, 7)).is_err());
    runtime.block_on(reservation.extend(now, 6)).unwrap();
    assert!(usage.try_use(now, 0, CostRange::exactly(1)).is_err());
    drop(reservation);
    assert!(usage.try_use(now, 0, CostRange::exactly(10)).is_ok());
}

#[test]
fn changed_limits_keep_what_was_used_of_the_others() {
    let now = Instant::now();
    let limits = |tokens, requests| KeyLimits {
        tokens_per_minute: Some(tokens),
        requests_per_minute: Some(requests),
        ..KeyLimits::default()
    };
    let usage = usage_with(limits(100, 10), now);
    usage.try_exact("m", (now, 0.0), 60, 0).unwrap().settle((now, 0.0), 60, 0);
    let _running = usage.try_admit(now).unwrap();
    usage.set_limits(KeyLimits { concurrent_requests: Some(1), ..limits(100, 20) }, Spending::default(), now);
    let left: Vec<u64> = usage.left(now).iter().map(|left| left.remaining).collect();
    assert_eq!(left, [20, 40]);
    assert_eq!(usage.try_admit(now).unwrap_err().unit, Unit::Concurrency);
}

#[test]
fn a_reservation_is_settled_or_given_back() {
    let now = (Instant::now(), 0.0);
    let budgets = Budgets { per_day: Some(100), per_month: None };
    let limits = KeyLimits { tokens_per_minute: Some(1_000), budgets, ..KeyLimits::default() };
    let usage = usage_with(limits, now.0);
    let first = usage.try_use(now, 100, CostRange::exactly(60)).unwrap();
    let refused = usage.try_use(now, 100, CostRange::exactly(50)).unwrap_err();
    assert_eq!((refused.unit, refused.left), (Unit::DayBudget, Some(40)));
    assert_eq!(refused.retry_after, Some(RETRY_AFTER_RUNNING), "the first may use less");
    assert_eq!(usage.try_use(now, 100, CostRange::exactly(101)).unwrap_err().retry_after, None);
    assert_eq!(usage.try_use(now, 901, CostRange::exactly(1)).unwrap_err().unit, Unit::Tokens);
    let left = |usage: &KeyUsage| usage.left(now.0)[0].remaining;
    assert_eq!(left(&usage), 900, "what was refused took nothing");
    drop(first);
    assert_eq!(left(&usage), 1_000);
    usage.try_use(now, 100, CostRange::exactly(60)).unwrap().settle(now, 30, 20);
    assert_eq!(left(&usage), 970);
    assert!(
        usage.try_use(now, 0, CostRange::exactly(81)).is_err()
            && usage.try_use(now, 0, CostRange::exactly(80)).is_ok()
    );
    usage.try_use(now, 10, CostRange::exactly(0)).unwrap().settle(now, 1_000, 500);
    assert_eq!(left(&usage), 0);
    assert!(
        usage.try_use(now, 0, CostRange::exactly(1)).is_err(),
        "what was used beyond the reservation is charged"
    );
}

#[test]
fn each_limit_refuses_on_its_own_and_says_when_to_come_again() {
    let now = Instant::now();
    let limits = KeyLimits {
        requests_per_minute: Some(3),
        tokens_per_minute: Some(100),
        concurrent_requests: Some(2),
        budgets: Budgets::default(),
    };
    let usage = usage_with(limits, now);
    let (first, second) = (usage.try_admit(now).unwrap(), usage.try_admit(now).unwrap());
    let refused = usage.try_admit(now).unwrap_err();
    assert_eq!((refused.unit, refused.limit), (Unit::Concurrency, 2));
    drop((first, second));
    assert!(usage.try_admit(now).is_ok(), "what was refused was not counted");
    let refused = usage.try_admit(now).unwrap_err();
    assert_eq!((refused.unit, refused.retry_after), (Unit::Requests, Some(Duration::from_secs(20))));
    let charge = |tokens| usage.try_exact("m", (now, 0.0), tokens, 0);
    charge(90).unwrap().settle((now, 0.0), 90, 0);
    let refused = charge(20).unwrap_err();
    assert_eq!((refused.unit, refused.retry_after), (Unit::Tokens, Some(Duration::from_secs(6))));
    assert_eq!(charge(101).unwrap_err().retry_after, None);
    let left: Vec<(Unit, u64)> = usage.left(now).iter().map(|left| (left.unit, left.remaining)).collect();
    assert_eq!(left, [(Unit::Requests, 0), (Unit::Tokens, 10)]);
    let unlimited = usage_with(KeyLimits::default(), now);
    assert!(unlimited.try_admit(now).is_ok() && unlimited.left(now).is_empty());
}

#[test]
fn many_threads_together_get_no_more_than_the_limit() {
    let now = Instant::now();
    let limits = KeyLimits { requests_per_minute: Some(1_000), ..KeyLimits::default() };
    let usage = usage_with(limits, now);
    let admitted: usize = std::thread::scope(|scope| {
        let count = || (0..500).filter(|_| usage.try_admit(now).is_ok()).count();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(count)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(admitted, 1_000);
}

#[test]
fn a_chain_is_reserved_together_or_not_at_all() {
    let now = (Instant::now(), 0.0);
    let tokens = |limit| KeyLimits {
        tokens_per_minute: Some(limit),
        requests_per_minute: Some(5),
        ..KeyLimits::default()
    };
    let accounts = [100, 60, 80].map(|limit| usage_with(tokens(limit), now.0));
    let chain = Chain::new(accounts.clone(), 3);
    let use_of = |tokens| Amounts::Use { tokens, cost: CostRange::exactly(0) };
    let left = || {
        accounts
            .each_ref()
            .map(|usage| usage.left(now.0).iter().map(|left| left.remaining).collect::<Vec<_>>())
    };
    let refused = limited(chain.try_reserve(use_of(70), now, ALONE).unwrap_err());
    assert_eq!((refused.unit, refused.limit), (Unit::Tokens, 60));
    assert_eq!(left(), [[5, 100], [5, 60], [5, 80]]);
    let taken = chain.try_reserve(use_of(50), now, ALONE).unwrap();
    assert_eq!(left(), [[4, 50], [4, 10], [4, 30]]);
    taken.settle(now, 20, 0);
    assert_eq!(left(), [[4, 80], [4, 40], [4, 60]]);
}
