//! The stages of a request, from its body to its reply.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use weir_api::ChatRetrieval;
use weir_guardrails::Placeholders;
use weir_guardrails::conversation::{Direction, Report};
use weir_policy::{Allowlist, Caller};
use weir_replies::Kept;
use weir_translate::conversation::{Api, Request, condensing, made_reply, question, text_of};

use crate::augment::{self, Asked, Augmented, NOTHING_FOUND, SourceChecks, augment};
use crate::exchange::{Exchange, LlmBody, LlmCall, LlmReply};
use crate::guard::Guard;
use crate::kept::replay;
use crate::long_scans::scanned;
use crate::output::{Output, Reporter};
use crate::provider::conversion;
use crate::settlement::unix_now;
use crate::similarity::Embedding;
use crate::source_list::without_list;
use crate::table::{PricedTarget, Route, Table};
use crate::{Llm, LlmError};

/// Longest body that is read on the thread of its request: about a millisecond.
const READ_INLINE_BYTES_MAX: usize = 1 << 20;

impl Llm {
    /// Answers a request. Dropping the future or the reply's stream cancels the call of the upstream.
    ///
    /// # Errors
    /// [`LlmError`].
    pub async fn forward(&self, call: LlmCall) -> Result<LlmReply, LlmError> {
        self.answer(call, true).await
    }

    /// `is_from_caller`: whether sources are searched and replies are kept, as for all but the gateway's own calls.
    async fn answer(&self, call: LlmCall, is_from_caller: bool) -> Result<LlmReply, LlmError> {
        let request = match call.body.len() {
            0..=READ_INLINE_BYTES_MAX => Request::read(call.body.clone())?,
            bytes => {
                let body = call.body.clone();
                Box::pin(scanned(bytes, move || Request::read(body))).await??
            }
        };
        let mut exchange = self.route(&call, request, is_from_caller)?;
        // the search is the gateway's own: it takes the question as it was asked
        let question = match &exchange.retrieval {
            Some(_) => Some(question(call.api, &exchange.request.object()?)?),
            None => None,
        };
        // the futures of stages that most requests do not have are not part of this one, which is moved
        if let Some(guard) = exchange.output.guard.clone() {
            Box::pin(exchange.check(&guard, self.embedding.as_ref())).await?;
        }
        let mut kept = None;
        if let Some((options, question)) = exchange.retrieval.take().zip(question) {
            kept = Box::pin(self.add_sources(&mut exchange, options, question)).await?;
        }
        if let Some(settings) = exchange.cache.take().filter(|_| kept.is_none()) {
            kept = Box::pin(self.find_kept(&mut exchange, &settings)).await?;
        }
        match kept {
            Some(kept) => Box::pin(replay(kept, exchange.output)).await,
            None => {
                let mut cleaner = exchange.output.cleaner();
                let sent = self.send(exchange).await;
                sent.map_err(|error| error.with_text(|text| cleaner.clean(text)))
            }
        }
    }

    /// Finds the targets, and what is done with the request and its reply.
    fn route<'a>(
        &self,
        call: &'a LlmCall,
        request: Request,
        is_from_caller: bool,
    ) -> Result<Exchange<'a>, LlmError> {
        if request.is_stream && !call.api.has_completion() {
            let reason = "is true, and embeddings are no stream; leave it out".to_owned();
            return Err(LlmError::Invalid { field: "stream".to_owned(), reason });
        }
        let table = self.table();
        call.entry.update(|record| {
            record.model = Some(request.model.as_str().into());
            record.is_known_model = table.is_named(&request.model);
            record.is_stream = request.is_stream;
        });
        let targets = targets(call, &request, &table)?;
        let guard = table.guards.of(&request.model, call.caller.key.map(|key| key.0));
        let guard = guard.map_err(|error| {
            tracing::error!(%error, "guardrails can't be compiled together");
            LlmError::Internal
        })?;
        let route = table.route(call.api, &request.model).filter(|_| is_from_caller);
        let retrieval = self.retrieval_of(call, &request, route, &table)?;
        let cache = route.and_then(|route| route.cache.clone()).filter(|_| call.api.is_charged());
        let models = match guard.is_some() {
            true => {
                targets.iter().map(|target| target.model.to_string()).chain([request.model.clone()]).collect()
            }
            false => Vec::new(),
        };
        let reporter =
            Reporter { entry: call.entry.clone(), metrics: self.metrics.clone(), report: Report::default() };
        // its report is written when it is dropped, also with an error
        let output = Output {
            api: call.api,
            models,
            guard,
            placeholders: Arc::default(),
            sources: None,
            keeping: None,
            spent_before: 0,
            reporter,
        };
        Ok(Exchange { call, request, targets, retrieval, cache, output })
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
        let (options, is_asked) = match Asked::read(request)? {
            Some(Asked::Retrieval(options)) => (*options, true),
            Some(Asked::SourcesAs(form)) => {
                let options = of_route().ok_or_else(augment::no_collection)?;
                (ChatRetrieval { sources_as: Some(form), ..options }, false)
            }
            // tokens are counted without sources, which are searched for an answer
            None if !call.api.is_charged() => return Ok(None),
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

    /// Adds the sources of the answer to a request. A reply: that nothing was found.
    async fn add_sources(
        &self,
        exchange: &mut Exchange<'_>,
        options: ChatRetrieval,
        question: String,
    ) -> Result<Option<Kept>, LlmError> {
        let Exchange { call, request, output, .. } = exchange;
        let (question, spent) = self.condensed(call, request, &options, question).await?;
        output.spent_before = spent;
        let is_flagged = |text: &str| {
            let mut findings = Vec::new();
            self.documents.scan(text, &mut findings);
            !findings.is_empty()
        };
        let retrieval = self.retrieval.as_ref();
        let (guard, report) = (output.guard.clone(), &mut output.reporter.report);
        let placeholders = Arc::make_mut(&mut output.placeholders);
        let mut redact = |text: &str| match &guard {
            Some(guard) => guard.checks.redact_source(text, placeholders, report),
            None => text.to_owned(),
        };
        let checks = SourceChecks { is_flagged: &is_flagged, redact: &mut redact };
        match augment(retrieval, call.api, request, options, question, &call.caller, checks).await? {
            Augmented::Request(with_sources, sources) => {
                output.sources = Some(sources);
                *request = *with_sources;
                Ok(None)
            }
            Augmented::Nothing(sources) => {
                output.sources = Some(sources);
                Ok(Some(nothing_found(call.api, request)))
            }
        }
    }

    /// The question that is searched: of a longer conversation, as a model rewrites it. With what that call cost, which is booked to its model.
    async fn condensed(
        &self,
        call: &LlmCall,
        request: &Request,
        options: &ChatRetrieval,
        question: String,
    ) -> Result<(String, u64), LlmError> {
        let Some(model) = &options.condense_model else { return Ok((question, 0)) };
        let Some(body) = condensing(call.api, &request.object()?, model, without_list) else {
            return Ok((question, 0));
        };
        let entry = call.entry.of_call();
        let call = LlmCall {
            api: Api::ChatCompletions,
            headers: HeaderMap::new(),
            body: body.to_string().into(),
            // a request's choice was checked; a route's is the operator's
            caller: Arc::new(Caller { models: Allowlist::All, ..Caller::clone(&call.caller) }),
            usage: call.usage.clone(),
            entry: entry.clone(),
        };
        let reply = Box::pin(self.answer(call, false)).await;
        let mut spent = 0;
        entry.update(|record| {
            spent = record.cost_nanos;
            record.status = match &reply {
                Ok(reply) => reply.status.as_u16(),
                Err(LlmError::Limited(_)) => StatusCode::TOO_MANY_REQUESTS.as_u16(),
                Err(_) => StatusCode::BAD_GATEWAY.as_u16(),
            };
        });
        let LlmReply { status, body, .. } = reply?;
        if !status.is_success() {
            tracing::warn!(model, status = status.as_u16(), "`condense_model` does not rewrite the question");
        }
        let LlmBody::Whole(body) = body else { return Ok((question, spent)) };
        let reply: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
        let condensed = text_of(&reply["choices"][0]["message"]);
        Ok((if condensed.trim().is_empty() { question } else { condensed }, spent))
    }
}

/// The targets that may answer, best first.
fn targets(call: &LlmCall, request: &Request, table: &Table) -> Result<Vec<PricedTarget>, LlmError> {
    let sticky = |name: &HeaderName| call.headers.get(name).map(|value| value.as_bytes().to_vec());
    let targets = match call.caller.models.contains(&request.model) {
        true => table.targets(call.api, &request.model, || request.metadata(), sticky),
        false => None,
    };
    let Some(mut targets) = targets else { return Err(LlmError::NoModel(request.model.clone())) };
    if targets.is_empty() {
        let reason = "has no route for this `metadata`; see `when` of its targets".to_owned();
        return Err(LlmError::Invalid { field: "model".to_owned(), reason });
    }
    // targets whose provider has no counterpart of the caller's API are left out
    let refused = conversion(call.api, &targets[0].upstream.config).err();
    targets.retain(|target| conversion(call.api, &target.upstream.config).is_ok());
    match refused.filter(|_| targets.is_empty()) {
        Some(refused) => Err(refused),
        None => Ok(targets),
    }
}

impl Exchange<'_> {
    /// Applies the guardrails to the request.
    async fn check(&mut self, guard: &Guard, embedding: Option<&Embedding>) -> Result<(), LlmError> {
        let Exchange { request, output, .. } = self;
        let report = &mut output.reporter.report;
        if guard.has_judges() {
            let question = question(output.api, &request.object()?).ok();
            guard.judge_topics(embedding, question.as_deref(), report).await?;
        }
        let (body, models, checks) = (request.body().clone(), output.models.clone(), guard.checks.clone());
        let mut found = std::mem::take(report);
        let (checked, placeholders, found) = scanned(body.len(), move || {
            let mut placeholders = Placeholders::new();
            let checked = checks.check_input(&body, &models, &mut placeholders, &mut found);
            (checked, placeholders, found)
        })
        .await?;
        *report = found;
        let body = checked?;
        guard.moderate(Direction::Input, &body, report).await?;
        output.placeholders = Arc::new(placeholders);
        if body != *request.body() {
            *request = Request::read(body)?;
        }
        Ok(())
    }
}

/// The reply to a question for which nothing was found. No model is called for it.
fn nothing_found(api: Api, request: &Request) -> Kept {
    let id = format!("{:032x}", rand::random::<u128>());
    let body = made_reply(api, request.is_stream, NOTHING_FOUND, &id, &request.model, unix_now() as u64);
    let media = if request.is_stream { "text/event-stream" } else { "application/json" };
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media))]);
    Kept { body: body.into(), headers, usage: Default::default(), cost_nanos: 0 }
}
