//! The stage in which a request is sent: its targets are tried until one replies.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use weir_guardrails::conversation::Report;
use weir_prices::decimal;
use weir_translate::answer_tokens;
use weir_upstream::UpstreamError;

use crate::attempt::{Attempted, AttemptedBody, Failed, attempt};
use crate::exchange::{Exchange, LlmBody, LlmReply};
use crate::kept::X_WEIR_CACHE;
use crate::output::{Output, StreamOutput};
use crate::reservation::reserve;
use crate::settlement::Settlement;
use crate::stream::ReplyStream;
use crate::{Llm, LlmError};

/// The longest `Retry-After` of an upstream that is waited for. The caller is informed of a longer one, and decides.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);

impl Llm {
    /// Tries the targets until one replies.
    pub(crate) async fn send(&self, exchange: Exchange<'_>) -> Result<LlmReply, LlmError> {
        let Exchange { call, request, targets, output, .. } = exchange;
        let reservation = reserve(call, &request, &targets).await?;
        let mut settlement = Settlement::new(call, &request, reservation);
        let mut last = targets.len() - 1;
        let mut retries = targets[last].upstream.client.retries(None);
        let mut index = 0;
        let mut was_broken = false;
        // the last target that was asked, its error and whether it has the request, in case no further target can be asked
        let mut previous: Option<(usize, LlmError, bool)> = None;
        loop {
            let target = &targets[index];
            let attempted =
                attempt(call.api, &request, target, &call.headers, index == last, &mut settlement).await;
            let Failed { mut error, mut may_go_on, is_broken } = match attempted {
                Ok(attempted) => return replied(attempted, settlement, output).await,
                Err(failed) => failed,
            };
            may_go_on &= !is_broken || target.upstream.config.retry_broken_replies;
            let mut was_sent =
                is_broken || matches!(error, LlmError::Upstream(UpstreamError::Timeout { .. }));
            let mut is_affordable = true;
            match was_sent {
                true => {
                    is_affordable = settlement.sent_without_reply().await;
                    may_go_on &= is_affordable;
                }
                false if may_go_on || matches!(error, LlmError::Refused { .. }) => settlement.uncharged(),
                false => {}
            }
            let was_asked =
                !matches!(error, LlmError::Invalid { .. } | LlmError::Upstream(UpstreamError::Open { .. }));
            if may_go_on && index < last {
                if was_asked {
                    previous = Some((index, error, was_sent));
                }
                index += 1;
                continue;
            }
            if !was_asked && let Some((at, earlier, was_sent_then)) = previous.take() {
                (last, index, error, was_sent, may_go_on) = (at, at, earlier, was_sent_then, true);
                retries = targets[at].upstream.client.retries(None);
            }
            let LlmError::Upstream(error) = error else { return Err(error) };
            // a reply that broke may have been charged: one further attempt, of another target if there is one
            if is_broken && !was_broken && is_affordable && target.upstream.config.retry_broken_replies {
                was_broken = true;
                previous = Some((index, LlmError::Upstream(error.clone()), true));
                retries.wait_after_break(error).await?;
                index = (index + 1).min(last);
                continue;
            }
            let is_soon = error.retry_after().is_none_or(|wait| wait <= RETRY_AFTER_MAX);
            match may_go_on && !was_sent && is_soon {
                true => retries.wait(error).await?,
                false => return Err(error.into()),
            }
        }
    }
}

pub(crate) const X_WEIR_UPSTREAM: HeaderName = HeaderName::from_static("x-weir-upstream");
const X_WEIR_COST: HeaderName = HeaderName::from_static("x-weir-cost");
const X_WEIR_GUARDRAILS: HeaderName = HeaderName::from_static("x-weir-guardrails");

/// The reply with what is done on its way.
async fn replied(
    attempted: Attempted,
    mut settlement: Settlement,
    mut output: Output,
) -> Result<LlmReply, LlmError> {
    let Attempted { upstream, status, mut headers, body } = attempted;
    headers.insert(X_WEIR_UPSTREAM, upstream);
    if output.keeping.is_some() {
        headers.insert(X_WEIR_CACHE, HeaderValue::from_static("miss"));
    }
    let body = match body {
        AttemptedBody::Whole(body, usage) => {
            let is_charged = status.is_success() && output.api.is_charged();
            match is_charged {
                true => {
                    let is_counted = usage.is_some_and(|usage| usage.completion > 0);
                    let has_answer = output.api.has_completion() && !is_counted;
                    settlement.count(usage, if has_answer { answer_tokens(&body) } else { 0 });
                }
                // what a provider counted for an error it charges
                false if usage.is_some_and(|usage| usage.total() > 0) => settlement.count(usage, 0),
                false => settlement.uncharged(),
            }
            if let Some(cost) = settlement.cost().filter(|&cost| is_charged || cost > 0) {
                add_cost(&mut headers, output.spent_before.saturating_add(cost));
            }
            let body = match status.is_success() {
                _ if !output.is_needed() => body,
                true => Box::pin(output.whole(body, &headers, settlement.used())).await?,
                false => Box::pin(output.guarded(body)).await?,
            };
            add_report(&mut headers, &output.reporter.report);
            LlmBody::Whole(body)
        }
        AttemptedBody::Stream(source) => {
            add_report(&mut headers, &output.reporter.report);
            let output = output.is_needed().then(|| Box::new(StreamOutput::new(output, headers.clone())));
            LlmBody::Stream(Box::new(ReplyStream::new(*source, settlement, output)))
        }
    };
    Ok(LlmReply { status, headers, body })
}

/// Adds what the request cost.
pub(crate) fn add_cost(headers: &mut HeaderMap, nanos: u64) {
    if let Ok(value) = HeaderValue::try_from(decimal(nanos)) {
        headers.insert(X_WEIR_COST, value);
    }
}

pub(crate) fn add_report(headers: &mut HeaderMap, report: &Report) {
    if !report.is_empty()
        && let Ok(value) = HeaderValue::from_str(&report.to_text())
    {
        headers.insert(X_WEIR_GUARDRAILS, value);
    }
}
