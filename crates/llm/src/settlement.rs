//! The usage of a request: settled against the limits of its key and written into its record once, however it ends.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_access::Reservation;
use weir_config::ChargeClass;
use weir_prices::{Cost, ModelPrice};
use weir_telemetry::requests::{Charge, RequestEntry};
use weir_translate::conversation::Request;
use weir_translate::{ServiceTier, TokenUsage};

use crate::exchange::LlmCall;

/// The account of one request. Dropping it settles: a client that leaves or a stream that breaks changes nothing about that.
pub(crate) struct Settlement {
    entry: RequestEntry,
    reservation: Option<Reservation>,
    /// Tokens of the prompt, for providers that do not count.
    prompt_estimate: u64,
    /// The limit of the completion that was sent, which an estimate does not exceed.
    pub(crate) completion_max: u64,
    /// The service tier that the upstream was asked for.
    tier: Option<ServiceTier>,
    price: ModelPrice,
    /// The usage so far. `None`: nothing was sent, or all attempts failed without a charge.
    used: Option<TokenUsage>,
    /// Tokens of what was sent to earlier upstreams, which may have charged for it and gave no reply, and its cost.
    earlier: (TokenUsage, Cost),
    /// Whether a model was called of which no price is known.
    is_unpriced: bool,
}

impl Settlement {
    /// The account of a request that has sent nothing yet.
    pub(crate) fn new(call: &LlmCall, request: &Request, reservation: Option<Reservation>) -> Settlement {
        Settlement {
            entry: call.entry.clone(),
            reservation,
            prompt_estimate: if call.api.is_charged() { request.prompt_tokens() } else { 0 },
            completion_max: request.completion_max(call.api, u64::MAX),
            tier: None,
            price: ModelPrice::default(),
            used: None,
            earlier: (TokenUsage::default(), Cost::default()),
            is_unpriced: false,
        }
    }

    /// The request is sent to an upstream. Until its reply, the provider has the prompt.
    pub(crate) fn sent(
        &mut self,
        upstream: &Arc<str>,
        provider: &'static str,
        price: &ModelPrice,
        tier: Option<ServiceTier>,
    ) {
        self.is_unpriced |= !price.is_known();
        self.price = price.clone();
        self.tier = tier;
        self.used = Some(TokenUsage { prompt: self.prompt_estimate, ..TokenUsage::default() });
        self.entry.update(|record| {
            record.upstream = Some(upstream.clone());
            record.provider = Some(provider);
            record.attempts += 1;
        });
    }

    /// The upstream to which the request was sent last may have charged for it, and gives no reply. Whether the limits of the key have enough
    /// left to send it once more.
    pub(crate) async fn sent_without_reply(&mut self) -> bool {
        let Some(used) = self.used.take() else { return true };
        let cost = self.price.cost(used, self.tier);
        let (earlier, before) = &mut self.earlier;
        earlier.prompt += used.prompt;
        earlier.cached += used.cached;
        earlier.completion += used.completion;
        *before = before.plus(cost);
        match &mut self.reservation {
            Some(reservation) => reservation.extend((Instant::now(), unix_now()), cost.total()).await.is_ok(),
            None => true,
        }
    }

    /// The upstream to which the request was sent last charged nothing.
    pub(crate) fn uncharged(&mut self) {
        self.used = None;
    }

    /// Counts from the provider, if it counts at all, or the estimated tokens of the completion.
    pub(crate) fn count(&mut self, counted: Option<TokenUsage>, completion_estimate: u64) {
        let estimate = TokenUsage {
            prompt: self.prompt_estimate,
            completion: completion_estimate.min(self.completion_max),
            ..TokenUsage::default()
        };
        let counted = counted.filter(|counted| counted.total() > 0);
        self.used = Some(counted.map_or(estimate, |counted| counted.with_answer(completion_estimate)));
    }

    /// The usage so far, and its cost in billionths.
    pub(crate) fn used(&self) -> Option<(TokenUsage, u64)> {
        self.used.map(|used| (used, self.price.cost(used, self.tier).total()))
    }

    /// The cost of the request so far in billionths, with failed attempts; `None` where no price is known.
    pub(crate) fn cost(&self) -> Option<u64> {
        let cost = self.used.map(|used| self.price.cost(used, self.tier)).unwrap_or_default();
        (!self.is_unpriced).then(|| cost.plus(self.earlier.1).total())
    }

    /// The first part of a stream goes to the caller.
    pub(crate) fn first_token(&self) {
        let took = self.entry.started().elapsed();
        self.entry.update(|record| record.first_token = Some(took));
    }

    /// The reply ended by an error after its head was sent.
    pub(crate) fn broken(&self, code: &'static str) {
        self.entry.update(|record| record.error = Some(code));
    }

    /// The record of the request.
    pub(crate) fn entry(&self) -> &RequestEntry {
        &self.entry
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        let mut used = self.used.unwrap_or_default();
        let cost = self.price.cost(used, self.tier).plus(self.earlier.1);
        used.prompt += self.earlier.0.prompt;
        used.cached += self.earlier.0.cached;
        used.completion += self.earlier.0.completion;
        if (used.total(), cost.total()) == (0, 0) {
            return; // the reservation gives back all
        }
        if let Some(reservation) = self.reservation.take() {
            reservation.settle((Instant::now(), unix_now()), used.total(), cost.total());
        }
        self.entry.update(|record| {
            // added, because a request may have others made for it
            record.prompt_tokens += used.prompt;
            record.cached_tokens += used.cached;
            record.completion_tokens += used.completion;
            let charge = |(class, units, cost_nanos): (ChargeClass, u64, u64)| Charge {
                class: class.name().into(),
                units,
                cost_nanos,
            };
            record.charge(cost.charges().map(charge).collect());
            record.is_unpriced |= self.is_unpriced;
        });
    }
}

/// The time in unix seconds.
pub(crate) fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
