//! Upstreams, routes and prices in service: one table, swapped as a whole.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use weir_config::{LlmConfig, LlmUpstream, RouteCache, RouteRetrieval, Strategy};
use weir_filter::Filter;
use weir_guardrails::RuleSet;
use weir_policy::routing::{Choice, PeakEwma, TargetState, order, sticky_hash};
use weir_prices::{ModelPrice, PriceTable};
use weir_replies::ReplyCache;
use weir_retrieval::Retrieval;
use weir_telemetry::Metrics;
use weir_upstream::{UpstreamClient, UpstreamSettings};

use crate::Api;
use crate::guard::Guards;
use crate::kept::SharedCache;
use crate::listing::{Listing, Offer};
use crate::provider;
use crate::similarity::Embedding;

/// The LLM gateway. Clones share it.
#[derive(Clone)]
pub struct Llm {
    table: Arc<ArcSwap<Table>>,
    pub(crate) metrics: Arc<Metrics>,
    /// Where sources are searched; `None` for a gateway without collections.
    pub(crate) retrieval: Option<Retrieval>,
    pub(crate) embedding: Option<Embedding>,
    pub(crate) replies: ReplyCache,
    /// The replies of all gateways, if they share them.
    pub(crate) shared: Option<SharedCache>,
    /// Finds injected prompts in sources.
    pub(crate) documents: Arc<RuleSet>,
}

/// Why a configuration can't be put into service.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// An upstream has an address or a key that no request can be made with.
    #[error("the upstream `{upstream}` can't be called: {reason}")]
    Upstream {
        /// Its id.
        upstream: String,
        /// The problem.
        reason: String,
    },
    /// A guardrail can't be used.
    #[error("the guardrail `{guardrail}` can't be used: {reason}")]
    Guardrail {
        /// Its id.
        guardrail: String,
        /// The problem.
        reason: String,
    },
    /// A route can't be used.
    #[error("the route of `{model}` can't be used: {reason}")]
    Route {
        /// The model of the route.
        model: String,
        /// The problem.
        reason: String,
    },
}

/// The table that is in force.
pub(crate) struct Table {
    upstreams: HashMap<Arc<str>, Arc<Upstream>>,
    exact: HashMap<String, Arc<Route>>,
    /// Routes whose model ends by `*`: what is before it, the longest first.
    prefixes: Vec<(String, Arc<Route>)>,
    prices: PriceTable,
    pub(crate) guards: Guards,
}

/// An upstream in service.
pub(crate) struct Upstream {
    pub(crate) id: Arc<str>,
    /// The same as a header.
    pub(crate) name: HeaderValue,
    pub(crate) config: LlmUpstream,
    pub(crate) client: UpstreamClient,
    /// The request headers that are passed on.
    pub(crate) headers: Vec<HeaderName>,
    /// The names of its models, as it lists them.
    pub(crate) listing: Listing,
    in_flight: AtomicUsize,
    latency: Mutex<PeakEwma>,
}

/// The targets of a name.
pub(crate) struct Route {
    choice: Choice,
    sticky_header: Option<HeaderName>,
    targets: Vec<RouteTarget>,
    pub(crate) retrieval: Option<RouteRetrieval>,
    pub(crate) cache: Option<RouteCache>,
}

struct RouteTarget {
    upstream: Arc<Upstream>,
    /// Empty: the caller's name.
    model: String,
    weight: u32,
    priority: u32,
    when: Option<Filter>,
}

/// Where a request may go.
pub(crate) struct PricedTarget {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) model: String,
    pub(crate) price: ModelPrice,
}

impl PricedTarget {
    /// Who answers: the upstream, its address, the model.
    pub(crate) fn identity(&self) -> [String; 3] {
        let config = &self.upstream.config;
        [config.id.clone(), config.base_url().into_owned(), self.model.clone()]
    }
}

impl Llm {
    /// Puts a configuration into service.
    ///
    /// # Errors
    /// [`TableError`].
    pub fn new(config: &LlmConfig, metrics: Metrics) -> Result<Llm, TableError> {
        let table = Table::new(config, None, &metrics)?;
        let documents = Guards::for_documents().map_err(|error| TableError::Guardrail {
            guardrail: "sources".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Llm {
            table: Arc::new(ArcSwap::from_pointee(table)),
            metrics: Arc::new(metrics),
            retrieval: None,
            embedding: None,
            replies: ReplyCache::default(),
            shared: None,
            documents: Arc::new(documents),
        })
    }

    /// With collections to search sources in, and models to compare questions with.
    #[must_use]
    pub fn with_retrieval(self, retrieval: Retrieval, embedding: Embedding) -> Llm {
        Llm { retrieval: Some(retrieval), embedding: Some(embedding), ..self }
    }

    /// Replaces the configuration for requests that come from now on. Upstreams that did not change keep their connections and their state.
    ///
    /// # Errors
    /// [`TableError`]; the table stays as it was.
    pub fn reload(&self, config: &LlmConfig) -> Result<(), TableError> {
        let table = Table::new(config, Some(&self.table.load()), &self.metrics)?;
        self.table.store(Arc::new(table));
        Ok(())
    }

    /// Bytes of the kept replies and their questions, and their bound.
    pub fn reply_cache(&self) -> (usize, usize) {
        (self.replies.bytes(), weir_replies::BYTES_MAX)
    }

    /// Whether requests of a model lead to any upstream.
    pub fn has_model(&self, model: &str) -> bool {
        self.table.load().has_model(Api::ChatCompletions, model)
    }

    /// Whether requests for embeddings of a model lead to any upstream.
    pub fn has_embeddings(&self, model: &str) -> bool {
        self.table.load().has_model(Api::Embeddings, model)
    }

    /// Whether there is any upstream.
    pub fn has_upstreams(&self) -> bool {
        !self.table.load().upstreams.is_empty()
    }

    /// The cost of tokens that `model` embeds or reranks, in billionths: by the first price of exactly this name, for any upstream.
    pub fn cost_of_texts(&self, model: &str, tokens: u64) -> u64 {
        self.table.load().prices.of_texts(model, tokens)
    }

    pub(crate) fn table(&self) -> Arc<Table> {
        self.table.load_full()
    }
}

impl Table {
    fn new(config: &LlmConfig, before: Option<&Table>, metrics: &Metrics) -> Result<Table, TableError> {
        let mut upstreams: HashMap<Arc<str>, Arc<Upstream>> = HashMap::new();
        for one in &config.upstreams {
            let same = before.and_then(|table| table.upstreams.get(one.id.as_str()));
            let upstream = match same.filter(|upstream| upstream.config == *one) {
                Some(same) => same.clone(),
                None => Arc::new(Upstream::new(one, metrics)?),
            };
            upstreams.insert(upstream.id.clone(), upstream);
        }
        let (mut exact, mut prefixes) = (HashMap::new(), Vec::new());
        for route in &config.routes {
            let failed = |reason: String| TableError::Route { model: route.model.clone(), reason };
            let mut targets = Vec::new();
            for target in &route.targets {
                // the configuration was checked: every target has an upstream
                let Some(upstream) = upstreams.get(target.upstream.as_str()) else { continue };
                let when = target.when.as_ref().map(Filter::from_value).transpose();
                let when =
                    when.map_err(|error| failed(format!("`when` of a target is no filter: {error}")))?;
                targets.push(RouteTarget {
                    upstream: upstream.clone(),
                    model: target.model.clone(),
                    weight: target.weight,
                    priority: target.priority,
                    when,
                });
            }
            let choice = match route.strategy {
                Strategy::Weighted => Choice::Weighted,
                Strategy::Latency => Choice::Latency,
            };
            let sticky_header = HeaderName::try_from(route.sticky_header.as_str()).ok();
            let (retrieval, cache) = (route.retrieval.clone(), route.cache.clone());
            retrieval.as_ref().map_or(Ok(()), check_retrieval).map_err(failed)?;
            let built = Arc::new(Route { choice, sticky_header, targets, retrieval, cache });
            match route.model.strip_suffix('*') {
                Some(prefix) => prefixes.push((prefix.to_owned(), built)),
                None => {
                    for target in &built.targets {
                        drop(metrics.model_series(&route.model, &target.upstream.id));
                    }
                    exact.insert(route.model.clone(), built);
                }
            }
        }
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        let prices = PriceTable::new(&config.prices);
        let guards = Guards::new(&config.guardrails, metrics)
            .map_err(|(guardrail, reason)| TableError::Guardrail { guardrail, reason })?;
        let table = Table { upstreams, exact, prefixes, prices, guards };
        for route in &config.routes {
            let condenses = route.retrieval.as_ref().and_then(|retrieval| retrieval.condense_model.as_ref());
            if let Some(other) = condenses.filter(|other| !table.has_model(Api::ChatCompletions, other)) {
                let reason = format!("its `condense_model` `{other}` is the model of no route");
                return Err(TableError::Route { model: route.model.clone(), reason });
            }
        }
        Ok(table)
    }

    /// Whether requests of a model lead to any target.
    pub(crate) fn has_model(&self, api: Api, model: &str) -> bool {
        self.route(api, model).is_some() || self.target_without_route(api, model).is_some()
    }

    /// The models of routes without `*`.
    pub(crate) fn named_models(&self) -> impl Iterator<Item = &String> {
        self.exact.keys()
    }

    /// Whether a model has a route of its own.
    pub(crate) fn is_named(&self, model: &str) -> bool {
        self.exact.contains_key(model)
    }

    /// Names by which an upstream's own models are offered: those of routes with `*` that pass on the caller's name, or, if there are no routes,
    /// all.
    pub(crate) fn offers(&self) -> Vec<Offer> {
        if self.exact.is_empty() && self.prefixes.is_empty() {
            let is_only = self.upstreams.len() == 1;
            let offer = |upstream: &Arc<Upstream>| {
                let before = if is_only { String::new() } else { format!("{}/", upstream.id) };
                Offer { upstream: upstream.clone(), before, start: String::new(), route: None }
            };
            return self.upstreams.values().map(offer).collect();
        }
        let of_route = |(start, route): &(String, Arc<Route>)| {
            let passed_on = route.targets.iter().filter(|target| target.model.is_empty());
            let offer = |target: &RouteTarget| Offer {
                upstream: target.upstream.clone(),
                before: String::new(),
                start: start.clone(),
                route: Some(route.clone()),
            };
            passed_on.map(offer).collect::<Vec<_>>()
        };
        self.prefixes.iter().flat_map(of_route).collect()
    }

    /// The targets for a model in the order in which they are tried; `None` if there is no route for it. Without a route, `ID/NAME` leads to the
    /// upstream `ID`, and the only upstream takes every name.
    ///
    /// Texts to embed go to an upstream by a route with a name or by `ID/NAME` only, not by the route `*` or to the only upstream: a mistyped
    /// name of a model of this gateway must not send them to another server.
    pub(crate) fn targets(
        &self,
        api: Api,
        model: &str,
        metadata: impl FnOnce() -> Map<String, Value>,
        sticky: impl Fn(&HeaderName) -> Option<Vec<u8>>,
    ) -> Option<Vec<PricedTarget>> {
        let Some(route) = self.route(api, model) else {
            return self.target_without_route(api, model).map(|target| vec![target]);
        };
        let has_conditions = route.targets.iter().any(|target| target.when.is_some());
        let metadata = if has_conditions { metadata() } else { Map::new() };
        let passes = |target: &&RouteTarget| target.when.as_ref().is_none_or(|when| when.evaluate(&metadata));
        let targets: Vec<&RouteTarget> = route.targets.iter().filter(passes).collect();
        if let [only] = targets.as_slice() {
            return Some(vec![self.target(&only.upstream, only.name(model))]);
        }
        let key = route.sticky_header.as_ref().and_then(sticky);
        let now = Instant::now();
        let states: Vec<TargetState> =
            targets.iter().map(|target| target.state(now, key.as_deref())).collect();
        let choice = if key.is_some() { Choice::Sticky } else { route.choice };
        let ordered = order(&states, choice, rand::random::<f64>);
        let ordered = ordered.into_iter().filter_map(|index| targets.get(index));
        Some(ordered.map(|target| self.target(&target.upstream, target.name(model))).collect())
    }

    /// The route of a model's name.
    pub(crate) fn route(&self, api: Api, model: &str) -> Option<&Arc<Route>> {
        let is_open = |prefix: &str| prefix.is_empty() && api == Api::Embeddings;
        let prefix =
            || self.prefixes.iter().find(|(prefix, _)| model.starts_with(prefix) && !is_open(prefix));
        self.exact.get(model).or_else(|| prefix().map(|(_, route)| route))
    }

    fn target_without_route(&self, api: Api, model: &str) -> Option<PricedTarget> {
        if let Some((id, name)) = model.split_once('/')
            && let Some(upstream) = self.upstreams.get(id)
        {
            return Some(self.target(upstream, name));
        }
        if api == Api::Embeddings {
            return None;
        }
        let has_routes = !self.exact.is_empty() || !self.prefixes.is_empty();
        let only = self.upstreams.values().next().filter(|_| self.upstreams.len() == 1 && !has_routes)?;
        Some(self.target(only, model))
    }

    fn target(&self, upstream: &Arc<Upstream>, model: &str) -> PricedTarget {
        let price = self.prices.of(&upstream.config, model);
        PricedTarget { upstream: upstream.clone(), model: model.to_owned(), price }
    }
}

/// Finds settings of a route's `retrieval` that would make every request fail.
fn check_retrieval(retrieval: &RouteRetrieval) -> Result<(), String> {
    weir_api::check_collection_name(&retrieval.collection)
        .map_err(|error| format!("`collection` of its `retrieval`: {}", error.message))?;
    let filter = retrieval.filter.as_ref().map(Filter::from_value).transpose();
    filter.map(|_| ()).map_err(|error| format!("`filter` of its `retrieval` is no filter: {error}"))
}

impl RouteTarget {
    fn name<'a>(&'a self, asked: &'a str) -> &'a str {
        if self.model.is_empty() { asked } else { &self.model }
    }

    fn state(&self, now: Instant, sticky: Option<&[u8]>) -> TargetState {
        TargetState {
            weight: self.weight,
            priority: self.priority,
            is_open: self.upstream.client.is_open(),
            load: self.upstream.load(now),
            hash: sticky.map_or(0, |key| sticky_hash(key, &self.upstream.id, &self.model)),
        }
    }
}

impl Upstream {
    fn new(config: &LlmUpstream, metrics: &Metrics) -> Result<Upstream, TableError> {
        let failed = |reason: String| TableError::Upstream { upstream: config.id.clone(), reason };
        let key = config.api_key.as_ref().map(|key| key.secret()).transpose();
        let key = key.map_err(|reason| failed(reason.to_owned()))?;
        let settings = UpstreamSettings {
            ca_file: (!config.ca_file.is_empty()).then(|| PathBuf::from(&config.ca_file)),
            id: config.id.clone(),
            name: format!("`{}`", config.id),
            url: config.base_url().into_owned(),
            api_key: key.map(|key| key.reveal().to_owned()),
            api_key_header: provider::key_header(config.provider),
            connect_timeout: Duration::from_millis(config.connect_timeout_ms),
            concurrent_requests_max: config.concurrent_requests_max,
            retries_max: config.retries_max,
        };
        let client =
            UpstreamClient::new(settings, metrics.clone()).map_err(|error| failed(error.to_string()))?;
        let name = HeaderValue::from_str(&config.id).map_err(|error| failed(error.to_string()))?;
        Ok(Upstream {
            id: config.id.as_str().into(),
            name,
            client,
            headers: provider::passed_headers(config),
            listing: Listing::default(),
            in_flight: AtomicUsize::new(0),
            latency: Mutex::new(PeakEwma::new(Instant::now())),
            config: config.clone(),
        })
    }

    fn load(&self, now: Instant) -> f64 {
        let in_flight = self.in_flight.load(Ordering::Relaxed);
        self.latency.lock().unwrap_or_else(PoisonError::into_inner).load(now, in_flight)
    }

    /// Takes in how long the first byte of a reply took.
    pub(crate) fn observe(&self, latency: Duration) {
        self.latency.lock().unwrap_or_else(PoisonError::into_inner).observe(Instant::now(), latency);
    }

    /// Counts a request until the guard is dropped.
    pub(crate) fn enter(self: &Arc<Upstream>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }
}

/// One request in flight.
pub(crate) struct InFlight(Arc<Upstream>);

impl InFlight {
    /// The upstream that works on the request.
    pub(crate) fn upstream(&self) -> &Upstream {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
