//! The accounts that a request counts against, and what is reserved of them: all or nothing.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::futures::Notified;
use weir_policy::lease::Counting;
use weir_store::Timestamp;

use crate::limits::{Amounts, CostRange, Limited, Unit};
use crate::usage::{KeyUsage, Part, RETRY_AFTER_RUNNING};

/// Most accounts of a chain.
pub const CHAIN_MAX: usize = 4;

/// The accounts that a request counts against, from the narrowest on: the limits of a key for a model, the key.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    accounts: [Option<Arc<KeyUsage>>; CHAIN_MAX],
    /// The first accounts, which count the request itself; the others have counted it already.
    counting: usize,
}

/// Nothing was reserved.
#[derive(Debug)]
pub(crate) enum NotReserved {
    /// A limit is reached.
    Limited(Limited),
    /// This gateway's share of a limit does not suffice: the others are to be asked.
    Ask(Need),
}

impl From<Limited> for NotReserved {
    fn from(limited: Limited) -> NotReserved {
        NotReserved::Limited(limited)
    }
}

/// The missing amount.
#[derive(Debug)]
pub(crate) struct Need {
    pub(crate) usage: Arc<KeyUsage>,
    pub(crate) unit: Unit,
    /// Units per minute, all requests of this gateway at one time, or billionths of the currency.
    pub(crate) units: u64,
    /// Of a budget: what the request costs. The store is asked then, and Redis for the others.
    pub(crate) cost: Option<CostRange>,
}

impl Need {
    /// The error when the store cannot be asked, or other requests always took what was granted.
    pub(crate) fn limited(self) -> Limited {
        let (model, retry_after) = (self.usage.account.1.clone(), Some(RETRY_AFTER_RUNNING));
        Limited { model, unit: self.unit, limit: 0, needed: self.units, left: None, retry_after }
    }
}

impl Chain {
    /// The accounts in this order; the first `counting` of them count the request itself. Accounts beyond [`CHAIN_MAX`] are left out.
    pub fn new(accounts: impl IntoIterator<Item = Arc<KeyUsage>>, counting: usize) -> Chain {
        let mut chain = Chain { accounts: [const { None }; CHAIN_MAX], counting };
        chain.accounts.iter_mut().zip(accounts).for_each(|(place, account)| *place = Some(account));
        chain
    }

    /// A key, for a request that begins.
    pub fn of_key(key: &Arc<KeyUsage>) -> Chain {
        Chain::new([key.clone()], 1)
    }

    /// A key that has counted the request, behind its limits for the model, which have not.
    pub fn of_model(key: &Arc<KeyUsage>, model: &str) -> Chain {
        let of_model = key.of_model(model);
        let counting = usize::from(of_model.is_some());
        Chain::new(of_model.into_iter().chain([key.clone()]), counting)
    }

    fn accounts(&self) -> impl Iterator<Item = &Arc<KeyUsage>> {
        self.accounts.iter().flatten()
    }

    /// Takes `amounts` of every account, or nothing.
    pub(crate) fn try_reserve(
        &self,
        amounts: Amounts,
        at: (Instant, Timestamp),
        counting: Counting,
    ) -> Result<Reservation, NotReserved> {
        let mut parts = [const { None }; CHAIN_MAX];
        for (index, usage) in self.accounts().enumerate() {
            match usage.take(at, amounts, index < self.counting, counting) {
                Ok(part) => parts[index] = Some(part),
                Err(not_reserved) => {
                    parts.into_iter().flatten().for_each(|part: Part| part.withdraw(at.0));
                    return Err(not_reserved);
                }
            }
        }
        Ok(Reservation { parts })
    }

    /// The first account.
    pub(crate) fn first(&self) -> Option<&Arc<KeyUsage>> {
        self.accounts().next()
    }

    /// Whether budgets are leased from a store that other gateways use.
    pub(crate) fn is_leased(&self) -> bool {
        self.first().is_some_and(|usage| usage.counted.ledger.shared().is_some())
    }

    /// Listens to the ends of reservations, from now on.
    pub(crate) fn listen(&self) -> [Option<Notified<'_>>; CHAIN_MAX] {
        self.accounts.each_ref().map(|usage| usage.as_ref().map(|usage| usage.settled.notified()))
    }
}

/// Waits for the first of them.
pub(crate) async fn first(ends: [Option<Notified<'_>>; CHAIN_MAX]) {
    let mut ends: Vec<_> = ends.into_iter().flatten().map(Box::pin).collect();
    let is_over = |context: &mut Context<'_>| {
        let mut ends = ends.iter_mut().map(|end| end.as_mut().poll(context));
        if ends.any(|end| end.is_ready()) { Poll::Ready(()) } else { Poll::Pending }
    };
    poll_fn(is_over).await
}

impl KeyUsage {
    /// Counts a request of the key, which runs until the reservation is dropped.
    ///
    /// # Errors
    /// [`Limited`].
    pub async fn admit(self: &Arc<KeyUsage>, now: Instant) -> Result<Reservation, Limited> {
        // no budget is asked, so that the time is not needed
        self.counted.limits.reserve(&Chain::of_key(self), Amounts::Request, (now, 0.0)).await
    }

    /// Reserves what a request of `model` may use, and waits its turn near the end of a budget. If the key has limits for the model, the request
    /// counts there as well. `at` returns the time.
    ///
    /// # Errors
    /// [`Limited`]; nothing is taken then.
    pub async fn reserve_in_turn(
        self: &Arc<KeyUsage>,
        model: &str,
        at: impl Fn() -> (Instant, Timestamp),
        tokens: u64,
        cost: CostRange,
    ) -> Result<Reservation, Limited> {
        let chain = Chain::of_model(self, model);
        self.counted.limits.reserve_in_turn(&chain, Amounts::Use { tokens, cost }, at).await
    }

    /// Reserves what a request of `model` uses and costs where that is known before. If the key has limits for the model, the request counts
    /// there as well, and runs there until the reservation ends.
    ///
    /// # Errors
    /// [`Limited`]; nothing is taken then.
    pub async fn reserve_for(
        self: &Arc<KeyUsage>,
        model: &str,
        at: (Instant, Timestamp),
        tokens: u64,
        nanos: u64,
    ) -> Result<Reservation, Limited> {
        let amounts = Amounts::Use { tokens, cost: CostRange::exactly(nanos) };
        self.counted.limits.reserve(&Chain::of_model(self, model), amounts, at).await
    }
}

/// The amounts reserved for a request. Dropping it without [`Reservation::settle`] returns them, except the count of the request itself.
#[derive(Debug)]
pub struct Reservation {
    parts: [Option<Part>; CHAIN_MAX],
}

impl Reservation {
    /// Counts what was used: the rest is given back, and what is beyond the reservation is charged.
    pub fn settle(mut self, (now, time): (Instant, Timestamp), tokens: u64, nanos: u64) {
        self.parts.iter_mut().flatten().for_each(|part| part.settle(now, time, tokens, nanos));
    }

    /// Reserves more, for what is charged beside what was reserved.
    ///
    /// # Errors
    /// [`Limited`]; nothing is taken then.
    pub async fn extend(&mut self, at: (Instant, Timestamp), nanos: u64) -> Result<(), Limited> {
        let accounts = self.parts.iter().flatten().map(|part| part.usage.clone());
        let chain = Chain::new(accounts, 0);
        let Some(first) = chain.first() else { return Ok(()) };
        let more = Amounts::Use { tokens: 0, cost: CostRange::exactly(nanos) };
        let more = first.counted.limits.reserve(&chain, more, at).await?;
        for (part, more) in self.parts.iter_mut().flatten().zip(more.parts.into_iter().flatten()) {
            part.add(more);
        }
        Ok(())
    }
}
