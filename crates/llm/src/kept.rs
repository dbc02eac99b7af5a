//! The stage in which a reply is looked for that was kept, and how it is given again.

use std::time::{Duration, Instant};

use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use weir_access::Keys as ApiKeys;
use weir_config::{CacheMode, RouteCache};
use weir_policy::KeyId;
use weir_replies::{Kept, Key, Question, SharedReplies, SharedReply};

use crate::attempt::is_event_stream;
use crate::exchange::{Exchange, LlmBody, LlmReply};
use crate::long_scans::scanned;
use crate::output::{Keeping, Output};
use crate::question::same_meaning;
use crate::reply_key::{Keys, Scope};
use crate::send::{X_WEIR_UPSTREAM, add_cost, add_report};
use crate::table::PricedTarget;
use crate::{Llm, LlmError};

pub(crate) const X_WEIR_CACHE: HeaderName = HeaderName::from_static("x-weir-cache");

/// The replies of all gateways, and the names of API keys that hold on all of them.
#[derive(Clone)]
pub(crate) struct SharedCache {
    replies: SharedReplies,
    keys: ApiKeys,
}

impl Llm {
    /// With replies that all gateways over one store give, by the Redis of their limits. `service`: the id and the key that they have in common.
    /// Changes nothing where limits are counted in this process.
    #[must_use]
    pub fn with_shared_replies(mut self, keys: ApiKeys, prefix: &str, service: (&str, &[u8; 32])) -> Llm {
        let metrics = weir_telemetry::Metrics::clone(&self.metrics);
        let replies = keys.redis().map(|redis| SharedReplies::start(redis, prefix, service, metrics));
        self.shared = replies.map(|replies| SharedCache { replies, keys });
        self
    }

    /// A reply that was kept, or where the reply is to be kept.
    pub(crate) async fn find_kept(
        &self,
        exchange: &mut Exchange<'_>,
        settings: &RouteCache,
    ) -> Result<Option<Kept>, LlmError> {
        let Exchange { call, request, targets, output, .. } = exchange;
        let (may_read, may_keep) = caching(&call.headers);
        let scope = Scope {
            api: call.api,
            caller: &call.caller,
            settings,
            targets: targets.iter().map(PricedTarget::identity).collect(),
            headers: passed(&call.headers, targets),
        };
        let Some(Keys { exact, question }) = Keys::new(scope, request.body()) else { return Ok(None) };
        let question = question.filter(|_| settings.mode == CacheMode::Semantic && self.embedding.is_some());
        let now = Instant::now();
        let mut found = None;
        let shared = self.shared_reply(&exact, call.caller.key.filter(|_| !settings.shared));
        if may_read {
            let kept = match (self.replies.get(&exact, now), &shared) {
                (None, Some(shared)) => self.kept_by_others(shared, exact, &question, settings).await,
                (kept, _) => kept,
            };
            found = kept.map(|kept| (kept, "hit"));
            if let (None, Some(question)) = (&found, &question) {
                let kept = self.same_question(question, settings.similarity, now).await;
                found = kept.map(|kept| (kept, "semantic_hit"));
            }
        }
        let result = found.as_ref().map_or("miss", |(_, result)| result);
        self.metrics.reply_cache(result);
        let saved = found.as_ref().map_or(0, |(kept, _)| {
            // at today's prices
            let cost =
                targets.first().map_or(0, |target| target.price.cost(kept.usage, request.tier).total());
            if cost > 0 { cost } else { kept.cost_nanos }
        });
        call.entry.update(|record| {
            record.cache = Some(result);
            record.saved_nanos = saved;
        });
        if found.is_none() && may_keep {
            output.keeping = Some(Keeping {
                cache: self.replies.clone(),
                key: exact,
                shared,
                question,
                lifetime: Duration::from_secs(settings.seconds),
            });
        }
        Ok(found.map(|(mut kept, result)| {
            kept.headers.insert(X_WEIR_CACHE, HeaderValue::from_static(result));
            kept
        }))
    }

    /// Where other gateways find the reply of a request; `None` where they do not, and for a key that has just been revoked.
    fn shared_reply(&self, exact: &Key, owner: Option<KeyId>) -> Option<SharedReply> {
        let SharedCache { replies, keys } = self.shared.as_ref()?;
        // numbers of keys are given again when a database has lost commits
        let owner = owner.map_or(Some(String::new()), |key| keys.name_for_all(key))?;
        Some(replies.of(exact, &owner))
    }

    /// The reply that another gateway has kept, which this one keeps as well for the rest of its time.
    async fn kept_by_others(
        &self,
        shared: &SharedReply,
        exact: Key,
        question: &Option<Question>,
        settings: &RouteCache,
    ) -> Option<Kept> {
        let (kept, lifetime) = shared.get().await?;
        let lifetime = lifetime.min(Duration::from_secs(settings.seconds));
        self.replies.put(exact, &kept, question.clone(), lifetime, Instant::now());
        self.metrics.reply_cache_bytes(self.replies.bytes());
        Some(kept)
    }

    /// The reply to a question that means the same with at least this probability.
    async fn same_question(&self, question: &Question, probability: f32, now: Instant) -> Option<Kept> {
        let (other, kept) = self.replies.answered(&question.key, now)?;
        let rows = self.embedding.as_ref()?.embed(&[&question.text, &other]).await?;
        let [a, b] = rows.as_slice() else { return None };
        (same_meaning(a, b) >= probability).then_some(kept)
    }
}

/// Whether a reply that was kept may be given, and whether this one may be kept.
fn caching(headers: &HeaderMap) -> (bool, bool) {
    let control = headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let has = |directive: &str| control.split(',').any(|one| one.trim().eq_ignore_ascii_case(directive));
    (!has("no-cache") && !has("no-store"), !has("no-store"))
}

/// The headers that are passed on to any of the targets.
fn passed<'a>(headers: &'a HeaderMap, targets: &[PricedTarget]) -> Vec<(&'a HeaderName, &'a HeaderValue)> {
    let is_passed = |name: &HeaderName| targets.iter().any(|target| target.upstream.headers.contains(name));
    headers.iter().filter(|(name, _)| is_passed(name)).collect()
}

/// A reply that no upstream was called for.
pub(crate) async fn replay(kept: Kept, mut output: Output) -> Result<LlmReply, LlmError> {
    let Kept { body, mut headers, .. } = kept;
    let is_stream = is_event_stream(&headers);
    headers.remove(X_WEIR_UPSTREAM);
    add_cost(&mut headers, output.spent_before);
    let body = match is_stream {
        true => {
            add_report(&mut headers, &output.reporter.report);
            let bytes = body.len();
            scanned(bytes, move || output.kept_stream(&body)).await??
        }
        false => {
            let body = output.whole(body, &headers, None).await?;
            add_report(&mut headers, &output.reporter.report);
            body
        }
    };
    Ok(LlmReply { status: StatusCode::OK, headers, body: LlmBody::Whole(body) })
}
