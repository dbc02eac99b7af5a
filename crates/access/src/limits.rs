//! The interface of limits: amounts are reserved for a chain of accounts, and settled when it is known what was used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_policy::lease::Counting;
use weir_store::Timestamp;

use crate::chain::{Chain, NotReserved, Reservation, first};
use crate::shared::SharedLimits;

/// Where it is counted what accounts use of their limits.
#[derive(Debug, Clone)]
pub enum Limits {
    /// In this process.
    Local,
    /// With other gateways, by Redis.
    Redis(Arc<SharedLimits>),
}

/// The amounts to reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amounts {
    /// The request alone.
    Request,
    /// Tokens and cost, too.
    Use {
        /// Most tokens.
        tokens: u64,
        /// Its cost.
        cost: CostRange,
    },
}

/// The cost of a request, in billionths of the currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostRange {
    /// The most that it can cost.
    pub max: u64,
    /// Its likely cost; at most `max`.
    pub estimate: u64,
}

impl CostRange {
    /// A cost that is known.
    pub fn exactly(nanos: u64) -> CostRange {
        CostRange { max: nanos, estimate: nanos }
    }
}

/// The counted unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Requests per minute.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Requests at one time.
    Concurrency,
    /// Billionths of the currency in a day.
    DayBudget,
    /// Billionths of the currency in a month.
    MonthBudget,
    /// No limit is reached: what a key with a budget spends can't be stored.
    Ledger,
}

/// A limit of an account is reached; nothing was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    /// The model pattern of a limit for a model; empty: of the whole key.
    pub model: Arc<str>,
    /// The limit.
    pub unit: Unit,
    /// Its value.
    pub limit: u64,
    /// The need of the request, in the unit.
    pub needed: u64,
    /// The rest of a budget.
    pub left: Option<u64>,
    /// When a retry can succeed; `None` for a request of more tokens than a minute has, and for a budget that is spent.
    pub retry_after: Option<Duration>,
}

impl Limited {
    /// Whether a budget has enough left once requests on their way have ended.
    fn is_in_use(&self) -> bool {
        matches!(self.unit, Unit::DayBudget | Unit::MonthBudget) && self.retry_after.is_some()
    }
}

/// The state of a limit per minute, for the headers of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Requests or tokens.
    pub unit: Unit,
    /// The limit.
    pub limit: u64,
    /// The amount that can be used now.
    pub remaining: u64,
    /// Until all of it can be.
    pub reset_after: Duration,
}

/// How long a request waits near the end of a budget until those before it have ended.
const BUDGET_WAIT_MAX: Duration = Duration::from_secs(30);

/// How often a request that waits for other gateways asks again.
const LEASE_POLL: Duration = Duration::from_millis(50);

impl Limits {
    /// Takes `amounts` of every account of the chain, or nothing. With other gateways this may ask Redis, for 50 ms at most, and the store for a
    /// lease of a budget, for 5 s at most.
    ///
    /// # Errors
    /// [`Limited`] by the first account that has not enough left; nothing is taken then.
    pub async fn reserve(
        &self,
        chain: &Chain,
        amounts: Amounts,
        at: (Instant, Timestamp),
    ) -> Result<Reservation, Limited> {
        match chain.try_reserve(amounts, at, self.counting()) {
            Ok(reservation) => Ok(reservation),
            Err(NotReserved::Limited(limited)) => Err(limited),
            // apart: the future of most requests stays small
            Err(NotReserved::Ask(need)) => Box::pin(self.reserve_asking(chain, amounts, at, need)).await,
        }
    }

    /// [`Limits::reserve`], which waits where requests on their way have reserved what a budget has left: near the end of a budget its
    /// requests run one at a time. `at` returns the time.
    ///
    /// # Errors
    /// [`Limited`]; nothing is taken then.
    pub async fn reserve_in_turn(
        &self,
        chain: &Chain,
        amounts: Amounts,
        at: impl Fn() -> (Instant, Timestamp),
    ) -> Result<Reservation, Limited> {
        let until = tokio::time::Instant::now() + BUDGET_WAIT_MAX;
        loop {
            // listened to before the attempt, so that no end is missed
            let ends = chain.listen();
            let limited = match self.reserve(chain, amounts, at()).await {
                Err(limited) if limited.is_in_use() => limited,
                reserved => return reserved,
            };
            // the end of a request of another gateway is not notified
            let again = chain.is_leased().then(|| tokio::time::Instant::now() + LEASE_POLL);
            let waited = tokio::time::timeout_at(again.unwrap_or(until).min(until), first(ends)).await;
            if waited.is_err() && tokio::time::Instant::now() >= until {
                return Err(limited);
            }
        }
    }

    /// The limits shared with other gateways.
    pub(crate) fn shared(&self) -> Option<&Arc<SharedLimits>> {
        match self {
            Limits::Local => None,
            Limits::Redis(shared) => Some(shared),
        }
    }

    pub(crate) fn counting(&self) -> Counting {
        self.shared().map_or(Counting::Alone { gateways: 1 }, |shared| shared.counting())
    }
}
