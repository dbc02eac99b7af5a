//! The limits of the caller's key: the refusal of a request, and the headers that tell what is left.

use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::BytesMut;
use weir_access::{Left, Limited, Unit};
use weir_api::ErrorCode;
use weir_retrieval::RequestError;

use super::body::Call;
use super::error::ApiError;
use crate::Result;

impl Call {
    /// Counts tokens that `model` is about to compute against the limits of the caller's key.
    ///
    /// # Errors
    /// `rate_limit_exceeded`.
    pub(super) fn take_tokens(&self, model: &str, tokens: usize) -> Result<()> {
        let Some(usage) = self.caller.key.and_then(|key| self.gateway.keys.usage(key)) else { return Ok(()) };
        usage
            .take_tokens_for(model, Instant::now(), tokens as u64)
            .map_err(|limited| refusal(&limited, tokens))
    }
}

/// The error of a request beyond a limit; `units` is what it needs.
pub(super) fn refusal(limited: &Limited, units: usize) -> ApiError {
    let Limited { ref model, unit, limit, retry_after } = *limited;
    let who = match &**model {
        "" => "the key".to_owned(),
        model => format!("for the model `{model}` the key"),
    };
    let message = match (unit, retry_after) {
        (Unit::Requests, _) => format!("{who} is limited to {limit} requests per minute"),
        (Unit::DayBudget, _) => return over_budget(&who, limit, "day"),
        (Unit::MonthBudget, _) => return over_budget(&who, limit, "month"),
        (Unit::Concurrency, _) => format!("{who} is limited to {limit} requests at one time"),
        (Unit::Tokens, Some(_)) => {
            format!("{who} is limited to {limit} tokens per minute; the request has {units}")
        }
        (Unit::Tokens, None) => {
            format!(
                "{who} is limited to {limit} tokens per minute, and the request alone has {units}; send less in one"
            )
        }
    };
    RequestError::limited(message, retry_after).into()
}

/// The error of a request that might cost more than a budget has left.
fn over_budget(who: &str, nanos: u64, period: &str) -> ApiError {
    let budget = nanos as f64 / 1e9;
    let message = format!(
        "{who} may spend {budget} in a {period}, and has less left than the request may cost; the next {period} begins at midnight UTC"
    );
    ApiError::new(ErrorCode::BudgetExceeded, message)
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
    let mut text = Text::with_capacity(left.len() * 96);
    for Left { unit, limit, remaining, reset_after } in left {
        let names = names(*unit);
        headers.insert(names.limit.clone(), text.number(*limit).value());
        headers.insert(names.remaining.clone(), text.number(*remaining).value());
        headers.insert(names.reset.clone(), text.duration(*reset_after).value());
    }
    for Left { unit, limit, .. } in left {
        text.item(names(*unit).name).text(";q=").number(*limit).text(";w=60");
    }
    headers.insert(POLICY, text.value());
    for Left { unit, remaining, reset_after, .. } in left {
        let seconds = reset_after.as_micros().div_ceil(1_000_000) as u64;
        text.item(names(*unit).name).text(";r=").number(*remaining).text(";t=").number(seconds);
    }
    headers.insert(STATE, text.value());
}

fn names(unit: Unit) -> &'static Names {
    match unit {
        Unit::Tokens => &TOKENS,
        Unit::Requests | Unit::Concurrency | Unit::DayBudget | Unit::MonthBudget => &REQUESTS,
    }
}

/// The values of headers, in one buffer: they are written for every request of a key with limits.
struct Text {
    buffer: BytesMut,
    digits: itoa::Buffer,
}

impl Text {
    fn with_capacity(bytes: usize) -> Text {
        Text { buffer: BytesMut::with_capacity(bytes), digits: itoa::Buffer::new() }
    }

    fn text(&mut self, text: &str) -> &mut Text {
        self.buffer.extend_from_slice(text.as_bytes());
        self
    }

    fn number(&mut self, number: u64) -> &mut Text {
        self.buffer.extend_from_slice(self.digits.format(number).as_bytes());
        self
    }

    /// A quoted item of a list.
    fn item(&mut self, name: &str) -> &mut Text {
        let start = if self.buffer.is_empty() { "\"" } else { ", \"" };
        self.text(start).text(name).text("\"")
    }

    /// A duration as OpenAI writes it: `12ms`, `1.5s`, `1m0s`.
    fn duration(&mut self, duration: Duration) -> &mut Text {
        let ms = duration.as_micros().div_ceil(1000) as u64;
        if ms < 1_000 {
            return self.number(ms).text("ms");
        }
        if ms >= 60_000 {
            self.number(ms / 60_000).text("m");
        }
        let seconds = (ms % 60_000) as f64 / 1e3;
        self.text(&seconds.to_string()).text("s")
    }

    /// What was written since the last value.
    fn value(&mut self) -> HeaderValue {
        HeaderValue::from_maybe_shared(self.buffer.split().freeze()).unwrap_or(HeaderValue::from_static(""))
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
            let mut text = Text::with_capacity(0);
            assert_eq!(text.duration(Duration::from_micros(micros)).value(), expected);
        }
    }
}
