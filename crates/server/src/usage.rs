//! `GET /v1/usage`.

use axum::extract::RawQuery;
use weir_access::{Keys, unix_now};
use weir_api::{ErrorCode, Invalid, UsageClassReply, UsageReportReply, UsageSource, UsageSumReply};
use weir_policy::{KeyId, Scope};
use weir_telemetry::requests::{UsageError, UsageQuery, UsageRow, day_of};

use super::body::{CallContext, Json, Reply, query_pairs, unknown_parameter};
use super::error::ApiError;
use crate::Result;

/// The first day of a report that names none: this many days ago.
const DAYS_BEFORE: f64 = 30.0;

/// Sums of the request log by key, model and day. Who is no administrator without restrictions sees the requests of the own key.
pub(super) async fn report(call: CallContext, RawQuery(query): RawQuery) -> Reply<UsageReportReply> {
    let mut query = parse(query.as_deref(), unix_now())?;
    if !(call.caller.may(Scope::Admin) && call.caller.is_unrestricted()) {
        let Some(key) = call.caller.key else {
            let message = "the report tells of all keys; use a key, which sees its own requests";
            return Err(ApiError::new(ErrorCode::InsufficientScope, message));
        };
        query.key = Some(key.0);
    }
    let (first_day, last_day) = (query.from.clone(), query.to.clone());
    let report = call.requests.usage(query).await.map_err(refused)?;
    let source = if report.is_of_this_gateway { UsageSource::Gateway } else { UsageSource::Database };
    Ok(Json(UsageReportReply {
        first_day,
        last_day,
        source,
        data: report.rows.into_iter().map(|row| sum(row, &call.keys)).collect(),
    }))
}

/// The query of a request at the time `now`.
fn parse(query: Option<&str>, now: f64) -> Result<UsageQuery> {
    let mut read =
        UsageQuery { from: day_of(now - DAYS_BEFORE * 86_400.0), to: day_of(now), ..UsageQuery::default() };
    for (key, value) in query_pairs(query) {
        match key.as_str() {
            "from" => read.from = day("from", &value)?,
            "to" => read.to = day("to", &value)?,
            "group_by" => {
                for name in value.split(',').map(str::trim) {
                    match name {
                        "key" => read.by_key = true,
                        "model" => read.by_model = true,
                        "day" => read.by_day = true,
                        _ => {
                            return Err(invalid(
                                "group_by",
                                &value,
                                "`key`, `model` and `day`, separated by commas",
                            ));
                        }
                    }
                }
            }
            _ => return Err(unknown_parameter(&key, "`from`, `to` or `group_by`")),
        }
    }
    if read.from > read.to {
        let expected = format!("a day that is not after `to`, which is {}", read.to);
        return Err(invalid("from", &read.from, &expected));
    }
    Ok(read)
}

/// The day of a date or of a time in unix seconds.
fn day(name: &'static str, text: &str) -> Result<String> {
    if let Ok(date) = text.parse::<jiff::civil::Date>() {
        return Ok(date.to_string());
    }
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.0..1e11).contains(seconds));
    seconds
        .map(day_of)
        .ok_or_else(|| invalid(name, text, "a day such as 2026-01-31, or a time in unix seconds"))
}

fn invalid(name: &'static str, value: &str, expected: &str) -> ApiError {
    let message = format!("`{name}` is `{}`; send {expected}", value.escape_debug());
    Invalid::at(ErrorCode::InvalidParameter, &[name], message).into()
}

fn sum(row: UsageRow, keys: &Keys) -> UsageSumReply {
    let UsageRow { day, key, model, sums } = row;
    let count = |count: i64| u64::try_from(count).unwrap_or_default();
    UsageSumReply {
        day,
        key,
        key_name: key.and_then(|key| keys.name(KeyId(key))),
        model,
        requests: count(sums.requests),
        errors: count(sums.errors),
        prompt_tokens: count(sums.prompt_tokens),
        cached_tokens: count(sums.cached_tokens),
        completion_tokens: count(sums.completion_tokens),
        cost: sums.cost_nanos as f64 / 1e9,
        classes: sums.classes.into_iter().map(class).collect(),
    }
}

fn class((name, (units, cost_nanos)): (String, (i64, i64))) -> UsageClassReply {
    let units = u64::try_from(units).unwrap_or_default();
    UsageClassReply { name, units, cost: cost_nanos as f64 / 1e9 }
}

fn refused(error: UsageError) -> ApiError {
    match error {
        UsageError::Disabled => ApiError::new(ErrorCode::RouteNotFound, error.to_string()),
        UsageError::Sqlite(_) | UsageError::Postgres(_) | UsageError::Ended(_) => {
            tracing::error!(%error, "the request log can't be read");
            ApiError::new(
                ErrorCode::StoreUnavailable,
                "the request log can't be read; see the log of the gateway",
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates_or_times() {
        let check = |query: &str, expected: (&str, &str, [bool; 3])| {
            let read = parse(Some(query), 1_790_000_000.0).unwrap();
            assert_eq!(
                (&*read.from, &*read.to, [read.by_key, read.by_model, read.by_day]),
                expected,
                "{query}"
            );
        };
        check("", ("2026-08-22", "2026-09-21", [false; 3]));
        check("from=2026-01-31&to=1770000000.5", ("2026-01-31", "2026-02-02", [false; 3]));
        check("group_by=key,day&group_by=model", ("2026-08-22", "2026-09-21", [true; 3]));
        for refused in [
            "from=yesterday",
            "to=-1",
            "to=inf",
            "from=",
            "from=2026-02-01&to=2026-01-31",
            "group_by=hour",
            "group_by=",
            "by=day",
        ] {
            assert!(parse(Some(refused), 0.0).is_err(), "{refused}");
        }
    }
}
