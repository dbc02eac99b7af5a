//! The limits of the caller's key: the refusal of a request, and the headers with the rest.

use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use weir_access::{Left, Limited, Reservation, Unit, unix_now};
use weir_api::ErrorCode;
use weir_config::ChargeClass;
use weir_retrieval::RequestError;
use weir_telemetry::requests::{Charge, RequestEntry};

use super::body::CallContext;
use super::error::ApiError;
use crate::Result;

impl CallContext {
    /// Reserves tokens that `model` is about to compute, and what they cost, of the limits of the caller's key.
    ///
    /// # Errors
    /// `rate_limit_exceeded`, `budget_exceeded`, and `store_unavailable` while what a key with a budget spends can't be stored.
    pub(super) async fn take_tokens(&self, model: &str, tokens: usize) -> Result<Due<'_>> {
        let tokens = tokens as u64;
        let cost = self.gateway.llm.cost_of_texts(model, tokens);
        if let Some(entry) = &self.entry {
            entry.update(|record| {
                record.model = Some(model.into());
                record.is_known_model = true;
            });
        }
        let reserved = match &self.usage {
            Some(usage) => {
                let reserved = usage.reserve_for(model, (Instant::now(), unix_now()), tokens, cost).await;
                Some(reserved.map_err(|limited| refusal(&limited))?)
            }
            None => None,
        };
        Ok(Due { entry: self.entry.as_ref(), reserved, tokens, cost, is_computed: true })
    }
}

/// The charge to the caller's key and the entry of the request log, written when this is dropped: also if the caller leaves meanwhile. The request runs
/// until then.
pub(super) struct Due<'a> {
    entry: Option<&'a RequestEntry>,
    reserved: Option<Reservation>,
    tokens: u64,
    cost: u64,
    is_computed: bool,
}

impl Due<'_> {
    /// The result of the work. Work that was refused because the gateway is busy costs nothing.
    ///
    /// # Errors
    /// That of the work.
    pub(super) fn of<T, E: Into<RequestError>>(mut self, done: std::result::Result<T, E>) -> Result<T> {
        let done = done.map_err(ApiError::from);
        self.is_computed = !matches!(&done, Err(error) if error.code() == ErrorCode::Overloaded);
        done
    }
}

impl Drop for Due<'_> {
    fn drop(&mut self) {
        if !self.is_computed {
            return; // the reservation gives back all
        }
        if let Some(entry) = self.entry {
            let class = ChargeClass::Input.name().into();
            entry.update(|record| {
                record.prompt_tokens = self.tokens;
                record.charge(vec![Charge { class, units: self.tokens, cost_nanos: self.cost }]);
            });
        }
        if let Some(reserved) = self.reserved.take() {
            reserved.settle((Instant::now(), unix_now()), self.tokens, self.cost);
        }
    }
}

/// Which tokens a limit counts.
const TOKENS_OF_REQUEST: &str = "those of its texts (for chat about one for four bytes) and, of a model that answers, of `max_tokens` (where there is none 1,024, for Anthropic's models 4,096)";

const LEDGER_REMEDY: &str = "Try again later; the operator finds the reason at `/readyz` and in the log: a full or read-only disk most of the time";

/// The error of a request beyond a limit.
pub(super) fn refusal(limited: &Limited) -> ApiError {
    let Limited { ref model, unit, limit, needed, retry_after, .. } = *limited;
    let who = match &**model {
        "" => "the key".to_owned(),
        model => format!("for the model `{model}` the key"),
    };
    let message = match (unit, retry_after) {
        (Unit::Ledger, _) => format!(
            "{who} has a budget, and what it spends can't be stored now; nothing was charged. {LEDGER_REMEDY}"
        ),
        (Unit::Requests, _) => format!("{who} is limited to {limit} requests per minute"),
        (Unit::DayBudget, _) => over_budget(&who, limited, "day", "midnight UTC"),
        (Unit::MonthBudget, _) => over_budget(&who, limited, "month", "the month ends (UTC)"),
        (Unit::Concurrency, _) => format!("{who} is limited to {limit} requests at one time"),
        (Unit::Tokens, Some(_)) => {
            format!(
                "{who} is limited to {limit} tokens per minute; the request needs {needed}: {TOKENS_OF_REQUEST}"
            )
        }
        (Unit::Tokens, None) => {
            format!(
                "{who} is limited to {limit} tokens per minute, and the request alone needs {needed}: {TOKENS_OF_REQUEST}; send less in one"
            )
        }
    };
    match (unit, retry_after) {
        (Unit::Ledger, _) => {
            let wait = retry_after.unwrap_or_default();
            RequestError::new(ErrorCode::StoreUnavailable, message).retry_after(wait).into()
        }
        (Unit::DayBudget | Unit::MonthBudget, None) => ApiError::new(ErrorCode::BudgetExceeded, message),
        _ => RequestError::limited(message, retry_after).into(),
    }
}

/// The message for a request that might cost more than a budget has left; amounts are in billionths.
fn over_budget(who: &str, limited: &Limited, period: &str, end: &str) -> String {
    let amount = |nanos: u64| nanos as f64 / 1e9;
    let (budget, left, cost) =
        (amount(limited.limit), amount(limited.left.unwrap_or_default()), amount(limited.needed));
    let left = match limited.retry_after {
        Some(_) => format!("{left} is left beside what is reserved for requests on their way"),
        None => format!("{left} is left until {end}"),
    };
    format!("{who} may spend {budget} in a {period}: {left}, and the request may cost up to {cost}")
}

/// The headers of one limit per minute.
struct Names {
    /// In the fields of the IETF's draft.
    name: &'static str,
    limit: HeaderName,
    remaining: HeaderName,
    reset: HeaderName,
}

static REQUESTS: Names = Names {
    name: "requests",
    limit: HeaderName::from_static("x-ratelimit-limit-requests"),
    remaining: HeaderName::from_static("x-ratelimit-remaining-requests"),
    reset: HeaderName::from_static("x-ratelimit-reset-requests"),
};
static TOKENS: Names = Names {
    name: "tokens",
    limit: HeaderName::from_static("x-ratelimit-limit-tokens"),
    remaining: HeaderName::from_static("x-ratelimit-remaining-tokens"),
    reset: HeaderName::from_static("x-ratelimit-reset-tokens"),
};
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// Adds what is left of the limits per minute: for each OpenAI's three headers, and the fields of the IETF's draft.
pub(super) fn describe(headers: &mut HeaderMap, left: &[Left]) {
    if left.is_empty() {
        return;
    }
    headers.reserve(3 * left.len() + 2);
    // formatted without `write!`: this is done for every request of a key with limits
    let (mut policies, mut states) = (String::with_capacity(64), String::with_capacity(64));
    let mut digits = itoa::Buffer::new();
    let mut push = |text: &mut String, before: &str, number: u64| {
        text.push_str(before);
        text.push_str(digits.format(number));
    };
    for Left { unit, limit, remaining, reset_after } in left {
        let names = match unit {
            Unit::Tokens => &TOKENS,
            Unit::Requests | Unit::Concurrency | Unit::DayBudget | Unit::MonthBudget | Unit::Ledger => {
                &REQUESTS
            }
        };
        headers.insert(names.limit.clone(), (*limit).into());
        headers.insert(names.remaining.clone(), (*remaining).into());
        if let Ok(reset) = HeaderValue::try_from(duration(*reset_after)) {
            headers.insert(names.reset.clone(), reset);
        }
        let seconds = reset_after.as_micros().div_ceil(1_000_000);
        for (text, first, number) in [(&mut policies, "\";q=", limit), (&mut states, "\";r=", remaining)] {
            text.push_str(if text.is_empty() { "\"" } else { ", \"" });
            text.push_str(names.name);
            push(text, first, *number);
        }
        policies.push_str(";w=60");
        push(&mut states, ";t=", seconds as u64);
    }
    for (name, text) in [(POLICY, policies), (STATE, states)] {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    }
}

/// A duration as OpenAI writes it: `12ms`, `1.5s`, `1m0s`.
fn duration(duration: Duration) -> String {
    let ms = duration.as_micros().div_ceil(1000);
    match ms {
        0..1_000 => {
            let mut text = String::with_capacity(5);
            text.push_str(itoa::Buffer::new().format(ms as u16));
            text.push_str("ms");
            text
        }
        1_000..60_000 => format!("{}s", ms as f64 / 1e3),
        _ => format!("{}m{}s", ms / 60_000, (ms % 60_000) as f64 / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_told_in_both_forms() {
        let mut headers = HeaderMap::new();
        describe(&mut headers, &[]);
        assert!(headers.is_empty());
        let left = |unit, limit, remaining, ms| Left {
            unit,
            limit,
            remaining,
            reset_after: Duration::from_millis(ms),
        };
        describe(
            &mut headers,
            &[left(Unit::Requests, 60, 59, 1_000), left(Unit::Tokens, 1_000, 250, 45_000)],
        );
        assert_eq!(headers["x-ratelimit-remaining-requests"], "59");
        assert_eq!(headers["x-ratelimit-reset-tokens"], "45s");
        assert_eq!(headers["ratelimit-policy"], "\"requests\";q=60;w=60, \"tokens\";q=1000;w=60");
        assert_eq!(headers["ratelimit"], "\"requests\";r=59;t=1, \"tokens\";r=250;t=45");
    }

    #[test]
    fn durations_are_written_as_clients_read_them() {
        for (micros, expected) in
            [(0, "0ms"), (11_001, "12ms"), (1_500_000, "1.5s"), (60_000_000, "1m0s"), (90_500_000, "1m30.5s")]
        {
            assert_eq!(duration(Duration::from_micros(micros)), expected);
        }
    }
}
