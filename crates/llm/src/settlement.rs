//! What a request used: settled against the limits of its key and written into its record once, however it ends.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use weir_access::Reservation;
use weir_telemetry::requests::RequestEntry;
use weir_translate::TokenUsage;

use crate::table::TokenPrice;

/// The account of one request. Dropping it settles: a client that leaves or a stream that breaks changes nothing about that.
pub(crate) struct Settlement {
    entry: RequestEntry,
    reservation: Option<Reservation>,
    /// Tokens of the prompt, for providers that do not count.
    prompt_estimate: u64,
    price: TokenPrice,
    /// What has been used so far. `None`: nothing was sent, or what was sent failed without a charge.
    used: Option<TokenUsage>,
}

impl Settlement {
    /// The account of a request that has sent nothing yet.
    pub(crate) fn new(
        entry: RequestEntry,
        reservation: Option<Reservation>,
        prompt_estimate: u64,
    ) -> Settlement {
        Settlement { entry, reservation, prompt_estimate, price: TokenPrice::default(), used: None }
    }

    /// The request is sent to an upstream. Until it tells more, the provider has the prompt.
    pub(crate) fn sent(&mut self, upstream: &Arc<str>, provider: &'static str, price: TokenPrice) {
        self.price = price;
        self.used = Some(TokenUsage { prompt: self.prompt_estimate, ..TokenUsage::default() });
        self.entry.update(|record| {
            record.upstream = Some(upstream.clone());
            record.provider = Some(provider);
            record.attempts += 1;
        });
    }

    /// The upstream charged nothing for what it was sent.
    pub(crate) fn uncharged(&mut self) {
        self.used = None;
    }

    /// Counts from the provider, or how many tokens of the completion there were as far as that can be told.
    pub(crate) fn count(&mut self, counted: Option<TokenUsage>, completion_estimate: u64) {
        let estimate = TokenUsage {
            prompt: self.prompt_estimate,
            completion: completion_estimate,
            ..TokenUsage::default()
        };
        self.used = Some(counted.unwrap_or(estimate));
    }

    /// What was used so far, and what it costs in billionths.
    pub(crate) fn used(&self) -> Option<(TokenUsage, u64)> {
        self.used.map(|used| (used, self.price.cost_nanos(used)))
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
        let Some(used) = self.used else { return }; // the reservation gives back all
        let cost = self.price.cost_nanos(used);
        if let Some(reservation) = self.reservation.take() {
            reservation.settle((Instant::now(), unix_now()), used.total(), cost);
        }
        self.entry.update(|record| {
            // added, because a request may have others made for it
            record.prompt_tokens += used.prompt;
            record.cached_tokens += used.cached;
            record.completion_tokens += used.completion;
            record.cost_nanos += cost;
        });
    }
}

/// The time in unix seconds.
pub(crate) fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
