//! One request: it is checked and completed, its targets are tried until one replies, and what is done with the reply is set up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::Value;
use weir_access::{Reservation, Usage};
use weir_api::ChatRetrieval;
use weir_config::{CacheMode, Direction, RouteCache};
use weir_guardrails::Placeholders;
use weir_policy::{Allowlist, Caller};
use weir_telemetry::requests::RequestEntry;
use weir_translate::anthropic;
use weir_upstream::UpstreamError;

use crate::attempt::{Attempted, AttemptedBody, Failed, attempt};
use crate::augment::{self, Augmented, SourceChecks, augment};
use crate::cache::Kept;
use crate::empty_reply::nothing_found;
use crate::guard::{Guard, Report};
use crate::long_scans::scanned;
use crate::ollama::LineStream;
use crate::output::{Keeping, Output, Reporter, StreamOutput};
use crate::provider::Conversion;
use crate::question::same_meaning;
use crate::reply_key::{Keys, Question, Scope};
use crate::request::{Asked, COMPLETION_TOKENS_DEFAULT, Request};
use crate::settlement::{Settlement, unix_now};
use crate::stream::ReplyStream;
use crate::table::{Route, Table, Target};
use crate::{Api, Llm, LlmError, prompt};

/// The longest `Retry-After` of an upstream that is waited for. A longer one is told to the caller, who decides.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(5);

/// A request of a caller.
pub struct LlmCall {
    /// Its API.
    pub api: Api,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// Who calls.
    pub caller: Arc<Caller>,
    /// The limits of the caller's key, if it has any.
    pub usage: Option<Arc<Usage>>,
    /// The record of the request.
    pub entry: RequestEntry,
}

/// A reply, or an error of the provider that concerns the caller.
pub struct LlmReply {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: LlmBody,
}

/// The body of a reply.
pub enum LlmBody {
    /// All of it.
    Whole(Bytes),
    /// Server-sent events.
    Stream(Box<ReplyStream>),
    /// Lines of JSON.
    Lines(Box<LineStream>),
}

/// A request that can be sent.
struct Prepared {
    request: Request,
    output: Output,
    /// A reply without a call of an upstream: what was kept, or that nothing was found.
    reply: Option<Kept>,
}

/// What becomes of a request beside its targets.
struct Steps<'a> {
    guard: Option<Arc<Guard>>,
    retrieval: Option<ChatRetrieval>,
    cache: Option<&'a RouteCache>,
}

impl Llm {
    /// Answers a request. Dropping the future or the reply's stream cancels the call of the upstream.
    ///
    /// # Errors
    /// [`LlmError`].
    pub async fn forward(&self, call: LlmCall) -> Result<LlmReply, LlmError> {
        self.answer(call, true).await
    }

    /// `has_steps`: whether sources are searched and replies are kept.
    async fn answer(&self, call: LlmCall, has_steps: bool) -> Result<LlmReply, LlmError> {
        let request = Request::read(call.body.clone())?;
        if request.is_stream && call.api == Api::Embeddings {
            let reason = "is true, and embeddings are no stream; leave it out".to_owned();
            return Err(LlmError::Invalid { field: "stream".to_owned(), reason });
        }
        let table = self.table();
        call.entry.update(|record| {
            record.model = Some(request.model.as_str().into());
            record.is_known_model = table.is_named(&request.model);
            record.is_stream = request.is_stream;
        });
        let sticky = |name: &HeaderName| call.headers.get(name).map(|value| value.as_bytes().to_vec());
        let targets = match call.caller.models.contains(&request.model) {
            true => table.targets(call.api, &request.model, &request.metadata, sticky),
            false => None,
        };
        let Some(mut targets) = targets else { return Err(LlmError::NoModel(request.model)) };
        if targets.is_empty() {
            let reason = "has no route for this `metadata`; see `when` of its targets".to_owned();
            return Err(LlmError::Invalid { field: "model".to_owned(), reason });
        }
        // targets whose provider has no counterpart of the caller's API are left out
        let refused = call.api.conversion(&targets[0].upstream.config).err();
        targets.retain(|target| call.api.conversion(&target.upstream.config).is_ok());
        if let Some(refused) = refused.filter(|_| targets.is_empty()) {
            return Err(refused);
        }
        let guard = table.guards.of(&request.model, call.caller.key.map(|key| key.0));
        let guard = guard.map_err(|error| {
            tracing::error!(%error, "guardrails can't be compiled together");
            LlmError::Internal
        })?;
        let route = table.route(call.api, &request.model).filter(|_| has_steps);
        let steps = Steps {
            guard,
            retrieval: self.retrieval_of(&call, &request, route, &table)?,
            cache: route.and_then(|route| route.cache.as_ref()).filter(|_| call.api.is_charged()),
        };
        let Prepared { request, output, reply } = self.prepare(&call, request, steps, &targets).await?;
        match reply {
            Some(kept) => Box::pin(replay(kept, output)).await,
            None => self.send(&call, &request, &targets, output).await,
        }
    }

    /// Where a request's sources are searched: where it says, if the caller may, or where its route does.
    fn retrieval_of(
        &self,
        call: &LlmCall,
        request: &Request,
        route: Option<&Arc<Route>>,
        table: &Table,
    ) -> Result<Option<ChatRetrieval>, LlmError> {
        let of_route = || route.and_then(|route| route.retrieval.as_ref()).map(augment::options_of);
        let (options, is_asked) = match request.asked()? {
            Some(Asked::Retrieval(options)) => (*options, true),
            Some(Asked::SourcesAs(form)) => {
                let options = of_route().ok_or_else(augment::no_collection)?;
                (ChatRetrieval { sources_as: Some(form), ..options }, false)
            }
            // tokens are counted without sources, which are searched for an answer
            None if call.api == Api::CountTokens => return Ok(None),
            None => match of_route() {
                Some(options) => (options, false),
                None => return Ok(None),
            },
        };
        augment::check_api(call.api, self.retrieval.is_some(), (!is_asked).then_some(&request.model))?;
        if is_asked {
            augment::check_asked(&options, &call.caller)?;
            let has_model = |model: &str| table.has_model(Api::ChatCompletions, model);
            let may_use = |model: &String| call.caller.models.contains(model) && has_model(model);
            if let Some(model) = options.condense_model.as_ref().filter(|model| !may_use(model)) {
                return Err(LlmError::NoModel(model.clone()));
            }
        }
        Ok(Some(options))
    }

    /// Checks the request, adds its sources and looks for a reply that was kept.
    async fn prepare(
        &self,
        call: &LlmCall,
        mut request: Request,
        steps: Steps<'_>,
        targets: &[Target],
    ) -> Result<Prepared, LlmError> {
        let reporter =
            Reporter { entry: call.entry.clone(), metrics: self.metrics.clone(), report: Report::default() };
        let Steps { guard, retrieval, cache } = steps;
        // told when it is dropped, also with an error
        let mut output = Output {
            api: call.api,
            models: match guard.is_some() {
                true => targets
                    .iter()
                    .map(|target| target.model.to_string())
                    .chain([request.model.clone()])
                    .collect(),
                false => Vec::new(),
            },
            guard,
            placeholders: Arc::default(),
            sources: None,
            keeping: None,
            reporter,
        };
        // the search is the gateway's own: it takes the question as it was asked
        let question = match &retrieval {
            Some(_) => Some(prompt::question(call.api, &request.object()?)?),
            None => None,
        };
        // the futures of steps that most requests do not have are not part of this one, which is moved
        if let Some(guard) = output.guard.clone() {
            request = Box::pin(self.check(guard, request, &mut output)).await?;
        }
        let mut reply = None;
        if let (Some(options), Some(question)) = (retrieval, question) {
            (request, reply) =
                Box::pin(self.with_sources(call, request, options, question, &mut output)).await?;
        }
        if reply.is_none()
            && let Some(settings) = cache
        {
            reply = Box::pin(self.find_kept(call, &request, settings, targets, &mut output)).await?;
        }
        Ok(Prepared { request, output, reply })
    }

    /// Adds the sources of the answer to a request. A reply: that nothing was found.
    async fn with_sources(
        &self,
        call: &LlmCall,
        request: Request,
        options: ChatRetrieval,
        question: String,
        output: &mut Output,
    ) -> Result<(Request, Option<Kept>), LlmError> {
        let question = self.condensed(call, &request, &options, question).await?;
        let is_flagged = |text: &str| {
            let mut findings = Vec::new();
            self.documents.scan(text, &mut findings);
            !findings.is_empty()
        };
        let retrieval = self.retrieval.as_ref();
        let (guard, report) = (output.guard.clone(), &mut output.reporter.report);
        let placeholders = Arc::make_mut(&mut output.placeholders);
        let mut redact = |text: &str| match &guard {
            Some(guard) => guard.redact_source(text, placeholders, report),
            None => text.to_owned(),
        };
        let caller = &call.caller;
        let checks = SourceChecks { is_flagged: &is_flagged, redact: &mut redact };
        match augment(retrieval, call.api, &request, options, question, caller, checks).await? {
            Augmented::Request(with_sources, sources) => {
                output.sources = Some(sources);
                Ok((*with_sources, None))
            }
            Augmented::Nothing(sources) => {
                output.sources = Some(sources);
                let reply = nothing_found(call.api, &request);
                Ok((request, Some(reply)))
            }
        }
    }

    /// Applies the guardrails to a request.
    async fn check(
        &self,
        guard: Arc<Guard>,
        request: Request,
        output: &mut Output,
    ) -> Result<Request, LlmError> {
        let report = &mut output.reporter.report;
        if guard.has_judges() {
            let question = prompt::question(output.api, &request.object()?).ok();
            guard.judge_topics(self.embedding.as_ref(), question.as_deref(), report).await?;
        }
        let (body, models, scanning) = (request.body().clone(), output.models.clone(), guard.clone());
        let mut found = std::mem::take(report);
        let (checked, placeholders, found) = scanned(body.len(), move || {
            let mut placeholders = Placeholders::new();
            let checked = scanning.check_input(&body, &models, &mut placeholders, &mut found);
            (checked, placeholders, found)
        })
        .await?;
        *report = found;
        let body = checked?;
        guard.moderate(Direction::Input, &body, report).await?;
        output.placeholders = Arc::new(placeholders);
        if body == *request.body() { Ok(request) } else { Request::read(body) }
    }

    /// The question that is searched: of a longer conversation, as a model rewrites it.
    async fn condensed(
        &self,
        call: &LlmCall,
        request: &Request,
        options: &ChatRetrieval,
        question: String,
    ) -> Result<String, LlmError> {
        let Some(model) = &options.condense_model else { return Ok(question) };
        let Some(body) = prompt::condensing(call.api, &request.object()?, model) else { return Ok(question) };
        let call = LlmCall {
            api: Api::ChatCompletions,
            headers: HeaderMap::new(),
            body: body.to_string().into(),
            // a request's choice was checked; a route's is the operator's
            caller: Arc::new(Caller { models: Allowlist::All, ..Caller::clone(&call.caller) }),
            usage: call.usage.clone(),
            entry: call.entry.clone(),
        };
        let reply = Box::pin(self.answer(call, false)).await?;
        let LlmBody::Whole(body) = reply.body else { return Ok(question) };
        let reply: Value = serde_json::from_slice(&body).unwrap_or_default();
        let condensed = prompt::text_of(&reply["choices"][0]["message"]);
        Ok(if condensed.trim().is_empty() { question } else { condensed })
    }

    /// A reply that was kept, or where the reply is to be kept.
    async fn find_kept(
        &self,
        call: &LlmCall,
        request: &Request,
        settings: &RouteCache,
        targets: &[Target],
        output: &mut Output,
    ) -> Result<Option<Kept>, LlmError> {
        let (may_read, may_keep) = caching(&call.headers);
        let scope = Scope {
            api: call.api,
            caller: &call.caller,
            settings,
            targets: targets.iter().map(Target::identity).collect(),
            headers: passed_to_any(&call.headers, targets),
        };
        let Some(Keys { exact, question }) = Keys::new(scope, request.body()) else { return Ok(None) };
        let question = question.filter(|_| settings.mode == CacheMode::Semantic && self.embedding.is_some());
        let now = Instant::now();
        let mut found = None;
        if may_read {
            found = self.replies.get(&exact, now).map(|kept| (kept, "hit"));
            if let (None, Some(question)) = (&found, &question) {
                let kept = self.same_question(question, settings.similarity, now).await;
                found = kept.map(|kept| (kept, "semantic_hit"));
            }
        }
        let result = found.as_ref().map_or("miss", |(_, result)| result);
        self.metrics.reply_cache(result);
        let saved = found.as_ref().map_or(0, |(kept, _)| {
            // at today's prices
            let cost = targets.first().map_or(0, |target| target.price.cost_nanos(kept.usage));
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
                question,
                lifetime: Duration::from_secs(settings.seconds),
            });
        }
        Ok(found.map(|(mut kept, result)| {
            kept.headers.insert(X_WEIR_CACHE, HeaderValue::from_static(result));
            kept
        }))
    }

    /// The reply to a question that means the same with at least this probability.
    async fn same_question(&self, question: &Question, probability: f32, now: Instant) -> Option<Kept> {
        let (other, kept) = self.replies.answered(&question.key, now)?;
        let rows = self.embedding.as_ref()?.embed(&[&question.text, &other]).await?;
        let [a, b] = rows.as_slice() else { return None };
        (same_meaning(a, b) >= probability).then_some(kept)
    }

    /// Tries the targets until one replies.
    async fn send(
        &self,
        call: &LlmCall,
        request: &Request,
        targets: &[Target],
        output: Output,
    ) -> Result<LlmReply, LlmError> {
        let (reservation, prompt_tokens) = match call.api.is_charged() {
            true => (reserve(call, request, targets)?, request.prompt_tokens()),
            false => (None, 0),
        };
        let mut settlement = Settlement::new(call.entry.clone(), reservation, prompt_tokens);
        let last = targets.len() - 1;
        let mut retries = targets[last].upstream.client.retries(None);
        let mut index = 0;
        let mut was_broken = false;
        // the error of the last upstream that was asked, in case no further target can be
        let mut previous = None;
        loop {
            let target = &targets[index];
            let attempted =
                attempt(call.api, request, target, &call.headers, index == last, &mut settlement).await;
            let Failed { error, may_go_on, is_broken } = match attempted {
                Ok(attempted) => return replied(attempted, settlement, output).await,
                Err(failed) => failed,
            };
            let was_sent = is_broken || matches!(error, LlmError::Upstream(UpstreamError::Timeout { .. }));
            match was_sent {
                true => settlement.sent_without_reply(),
                false if may_go_on => settlement.uncharged(),
                false => {}
            }
            let was_asked =
                !matches!(error, LlmError::Invalid { .. } | LlmError::Upstream(UpstreamError::Open { .. }));
            if may_go_on && index < last {
                index += 1;
                if was_asked {
                    previous = Some(error);
                }
                continue;
            }
            if !was_asked && let Some(previous) = previous {
                return Err(previous);
            }
            let LlmError::Upstream(error) = error else { return Err(error) };
            // a reply that broke may have been charged: one further attempt, of another target if there is one
            if is_broken && !was_broken && target.upstream.config.retry_broken_replies {
                was_broken = true;
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

/// Takes what the request may use at most of the limits of the caller's key.
fn reserve(call: &LlmCall, request: &Request, targets: &[Target]) -> Result<Option<Reservation>, LlmError> {
    let Some(usage) = &call.usage else { return Ok(None) };
    let most = |target: &Target| request.usage_max(call.api, completion_open(call.api, target));
    let tokens = targets.iter().map(|target| most(target).total()).max().unwrap_or_default();
    let cost = targets.iter().map(|target| target.price.cost_nanos(most(target))).max().unwrap_or_default();
    let at = (Instant::now(), unix_now());
    usage.reserve_for(&request.model, at, tokens, cost).map(Some).map_err(LlmError::Limited)
}

/// Tokens that are reserved for a completion without a limit.
fn completion_open(api: Api, target: &Target) -> u64 {
    match api.conversion(&target.upstream.config) {
        Ok(Conversion::FromAnthropic) => anthropic::TOKENS_MAX, // the limit that is sent then
        Ok(Conversion::Same | Conversion::FromGemini | Conversion::ToMessages) | Err(_) => {
            COMPLETION_TOKENS_DEFAULT
        }
    }
}

const X_WEIR_UPSTREAM: HeaderName = HeaderName::from_static("x-weir-upstream");
const X_WEIR_CACHE: HeaderName = HeaderName::from_static("x-weir-cache");
const X_WEIR_GUARDRAILS: HeaderName = HeaderName::from_static("x-weir-guardrails");

/// Whether a reply that was kept may be given, and whether this one may be kept.
fn caching(headers: &HeaderMap) -> (bool, bool) {
    let control = headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let has = |directive: &str| control.split(',').any(|one| one.trim().eq_ignore_ascii_case(directive));
    (!has("no-cache") && !has("no-store"), !has("no-store"))
}

/// The headers that are passed on to any of the targets.
fn passed_to_any<'a>(headers: &'a HeaderMap, targets: &[Target]) -> Vec<(&'a HeaderName, &'a HeaderValue)> {
    let is_passed = |name: &HeaderName| targets.iter().any(|target| target.upstream.headers.contains(name));
    headers.iter().filter(|(name, _)| is_passed(name)).collect()
}

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
            match status.is_success() && output.api.is_charged() {
                true => {
                    let completion = if output.api.has_completion() { body.len() as u64 / 4 } else { 0 };
                    settlement.count(usage, completion);
                }
                false => settlement.uncharged(),
            }
            if !status.is_success() || !output.is_needed() {
                add_report(&mut headers, &output.reporter.report);
                return Ok(LlmReply { status, headers, body: LlmBody::Whole(body) });
            }
            let body = Box::pin(output.whole(body, &headers, settlement.used())).await?;
            LlmBody::Whole(body)
        }
        AttemptedBody::Stream(source) => {
            add_report(&mut headers, &output.reporter.report);
            let output = output.is_needed().then(|| Box::new(StreamOutput::new(output, headers.clone())));
            return Ok(LlmReply {
                status,
                headers,
                body: LlmBody::Stream(Box::new(ReplyStream::new(*source, settlement, output))),
            });
        }
    };
    add_report(&mut headers, &output.reporter.report);
    Ok(LlmReply { status, headers, body })
}

/// A reply that no upstream was called for.
async fn replay(kept: Kept, mut output: Output) -> Result<LlmReply, LlmError> {
    let Kept { body, mut headers, .. } = kept;
    let is_stream =
        headers.get(CONTENT_TYPE).is_some_and(|media| media.as_bytes().starts_with(b"text/event-stream"));
    headers.remove(X_WEIR_UPSTREAM);
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

fn add_report(headers: &mut HeaderMap, report: &Report) {
    if !report.is_empty()
        && let Ok(value) = HeaderValue::from_str(&report.to_text())
    {
        headers.insert(X_WEIR_GUARDRAILS, value);
    }
}
