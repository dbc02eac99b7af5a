//! Checks of the tables of the LLM gateway.

use std::collections::{BTreeMap, BTreeSet};

use super::{CacheMode, LlmConfig, LlmRoute, LlmUpstream, RouteCache};
use crate::problem::{Location, Problem};
use crate::secret::ApiKey;
use crate::upstream::check_url;

/// Highest price per million tokens.
const PRICE_MAX: f64 = 1e6;
/// Highest weight of a target.
const WEIGHT_MAX: u32 = 1_000_000;
/// Upper bounds of time limits and of requests at the same time.
const TIMEOUT_MS_MAX: u64 = 24 * 3_600_000;
const CONCURRENCY_MAX: usize = 1_000_000;
/// Longest time for which a reply is kept.
const CACHE_SECONDS_MAX: u64 = 30 * 86_400;

/// Where the tables of each list are.
#[derive(Debug, Default)]
pub(crate) struct Places(BTreeMap<String, Vec<Location>>);

impl Places {
    /// Notes the place of the next table of the list.
    pub(crate) fn add(&mut self, list: &str, place: Location) {
        self.0.entry(list.to_owned()).or_default().push(place);
    }

    fn of(&self, list: &str, index: usize) -> Location {
        self.0.get(list).and_then(|places| places.get(index)).cloned().unwrap_or(Location::General)
    }
}

/// Paths that the gateway adds to an upstream's URL.
const PATHS_OF_ROUTES: [&str; 6] =
    ["/chat/completions", "/completions", "/responses", "/messages", "/models", "/openai/deployments"];

impl LlmConfig {
    /// Problems inside the tables and between them.
    pub(crate) fn check(&self, places: &Places) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut report = |place: &Location, message: String, hint: &str| {
            problems.push(Problem::new(place.clone(), message).hint(hint));
        };
        let mut ids = BTreeSet::new();
        for (index, upstream) in self.upstreams.iter().enumerate() {
            let place = &places.of("upstreams", index);
            let id = &upstream.id;
            let is_name = id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            if id.is_empty() {
                report(place, "an upstream has no `id`".to_owned(), "name it");
            } else if !is_name {
                report(
                    place,
                    format!("`{id}` is no id of an upstream"),
                    "use letters, digits, `-`, `_` and `.`",
                );
            }
            if !ids.insert(id.as_str()) {
                report(place, format!("two upstreams have the id `{id}`"), "ids must be unique");
            }
            if let Err(message) = check_url(&upstream.base_url()) {
                report(place, format!("`url` of the upstream `{id}` {message}"), "see docs/llm.md");
            }
            if let Some(path) = PATHS_OF_ROUTES.iter().find(|path| upstream.base_url().ends_with(*path)) {
                report(
                    place,
                    format!("`url` of the upstream `{id}` ends with the path of a route, `{path}`"),
                    "leave it out: the gateway adds the path of each request",
                );
            }
            for (field, message) in upstream.limits_out_of_range() {
                report(place, format!("`{field}` of the upstream `{id}` {message}"), "see docs/llm.md");
            }
            for header in &upstream.headers {
                if let Some(reason) = refused_header(header) {
                    report(
                        place,
                        format!("the upstream `{id}` can't be passed the header `{header}`"),
                        reason,
                    );
                }
            }
        }
        let mut models = BTreeSet::new();
        for (index, route) in self.routes.iter().enumerate() {
            let place = &places.of("routes", index);
            let model = &route.model;
            if model.is_empty() || !is_pattern(model) {
                report(
                    place,
                    format!("`{model}` is no model of a route"),
                    "name it; `*` may stand at the end only",
                );
            }
            if !models.insert(model.as_str()) {
                report(
                    place,
                    format!("two routes are for the model `{model}`"),
                    "give one route several targets",
                );
            }
            if route.targets.is_empty() {
                report(
                    place,
                    format!("the route of `{model}` has no target"),
                    "add `targets = [{ upstream = \"…\" }]`",
                );
            }
            if !route.sticky_header.is_empty() && http::HeaderName::try_from(&route.sticky_header).is_err() {
                report(
                    place,
                    format!("`sticky_header` of the route of `{model}` is no name of a header"),
                    "headers have letters, digits and `-`",
                );
            }
            for message in route.problems() {
                report(
                    place,
                    format!("the route of `{model}` {message}"),
                    "see `[[routes]]` in docs/configuration.md",
                );
            }
            for target in &route.targets {
                if !ids.contains(target.upstream.as_str()) {
                    let message = format!(
                        "the route of `{model}` leads to `{}`, which is no upstream",
                        target.upstream
                    );
                    let known: Vec<&str> = ids.iter().copied().collect();
                    let hint = match known.as_slice() {
                        [] => "add it to `[[upstreams]]`".to_owned(),
                        known => format!("known upstreams: {}", known.join(", ")),
                    };
                    report(place, message, &hint);
                }
                if target.weight == 0 || target.weight > WEIGHT_MAX {
                    let message = format!("the route of `{model}` has the weight {}", target.weight);
                    report(place, message, &format!("a weight is from 1 to {WEIGHT_MAX}"));
                }
            }
        }
        for (index, price) in self.prices.iter().enumerate() {
            let place = &places.of("prices", index);
            let model = &price.model;
            if model.is_empty() || !is_pattern(model) {
                report(
                    place,
                    format!("`{model}` is no model of a price"),
                    "name it; `*` may stand at the end only",
                );
            }
            if !price.upstream.is_empty() && !ids.contains(price.upstream.as_str()) {
                report(
                    place,
                    format!("a price names `{}`, which is no upstream", price.upstream),
                    "name an id of `[[upstreams]]`",
                );
            }
            let all = [Some(price.input), price.cached_input, Some(price.output)];
            if !all.into_iter().flatten().all(|price| (0.0..=PRICE_MAX).contains(&price)) {
                report(
                    place,
                    format!("the prices of `{model}` are out of range"),
                    "they are from 0 to 1000000 per million tokens",
                );
            }
        }
        let mut names = BTreeSet::new();
        for (index, guardrail) in self.guardrails.iter().enumerate() {
            let place = &places.of("guardrails", index);
            let id = &guardrail.id;
            if !names.insert(id.as_str()) {
                report(place, format!("two guardrails have the id `{id}`"), "ids must be unique");
            }
            for message in guardrail.problems() {
                report(place, format!("the guardrail `{id}` {message}"), "see docs/guardrails.md");
            }
        }
        problems
    }

    /// Problems of a server without an embedding model: what needs one.
    pub fn check_without_model(&self) -> impl Iterator<Item = Problem> {
        let is_semantic = |cache: &RouteCache| cache.mode == CacheMode::Semantic;
        let of_routes = self.routes.iter().filter(move |route| route.cache.as_ref().is_some_and(is_semantic));
        let of_routes =
            of_routes.map(|route| format!("the route of `{}` has a semantic `cache`", route.model));
        let of_guardrails = self.guardrails.iter().filter(|guardrail| !guardrail.topics.is_empty());
        let of_guardrails =
            of_guardrails.map(|guardrail| format!("the guardrail `{}` has `topics`", guardrail.id));
        of_routes.chain(of_guardrails).map(|has| {
            let message = format!("{has}, which needs an embedding model, and none is configured");
            let hint = "`weir model pull all-MiniLM-L6-v2` downloads the default model; `--model DIR` or `[[models]]` names another";
            Problem::new(Location::General, message).hint(hint)
        })
    }

    /// Problems that keep a server from starting: keys that can't be read.
    pub(crate) fn check_keys(&self) -> impl Iterator<Item = Problem> {
        let problem = |what: &str, id: &str, field: &str, key: Option<&ApiKey>| {
            let reason = key?.secret().err()?;
            let message = format!("the {what} `{id}` has no `{field}`: {reason}");
            let hint = format!(
                "set that variable or write that file, or remove `{field}` if its server requires none"
            );
            Some(Problem::new(Location::General, message).hint(hint))
        };
        let of_upstreams = self.upstreams.iter().filter_map(move |upstream| {
            problem("upstream", &upstream.id, "api_key", upstream.api_key.as_ref())
        });
        let of_moderation = self.guardrails.iter().filter_map(move |guardrail| {
            problem("guardrail", &guardrail.id, "moderation_key", guardrail.moderation_key.as_ref())
        });
        of_upstreams.chain(of_moderation)
    }
}

impl LlmRoute {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let ratio = |value: f32| (0.0..=1.0).contains(&value);
        if let Some(retrieval) = &self.retrieval {
            if retrieval.collection.is_empty() {
                problems.push("has `retrieval` without a `collection`".to_owned());
            }
            if !retrieval.min_relevance.is_none_or(ratio) {
                problems.push("has a `min_relevance` that is not from 0 to 1".to_owned());
            }
            for (field, number) in [("top_k", retrieval.top_k), ("tokens_max", retrieval.tokens_max)] {
                if number == Some(0) {
                    problems.push(format!("has a `{field}` of 0; it is at least 1"));
                }
            }
        }
        if let Some(cache) = &self.cache {
            if !(1..=CACHE_SECONDS_MAX).contains(&cache.seconds) {
                problems.push(format!(
                    "keeps replies for {} seconds; `seconds` is from 1 to {CACHE_SECONDS_MAX}",
                    cache.seconds
                ));
            }
            if !ratio(cache.similarity) {
                problems.push("has a `similarity` that is not from 0 to 1".to_owned());
            }
        }
        problems
    }
}

impl LlmUpstream {
    fn limits_out_of_range(&self) -> Vec<(&'static str, String)> {
        let mut problems = Vec::new();
        for (field, value) in [
            ("connect_timeout_ms", self.connect_timeout_ms),
            ("header_timeout_ms", self.header_timeout_ms),
            ("first_token_timeout_ms", self.first_token_timeout_ms),
            ("idle_timeout_ms", self.idle_timeout_ms(false)),
            ("total_timeout_ms", self.total_timeout_ms),
        ] {
            if !(1..=TIMEOUT_MS_MAX).contains(&value) {
                problems.push((field, format!("must be from 1 to {TIMEOUT_MS_MAX}, not {value}")));
            }
        }
        let requests = self.concurrent_requests_max;
        if !(1..=CONCURRENCY_MAX).contains(&requests) {
            let message = format!("must be from 1 to {CONCURRENCY_MAX}, not {requests}");
            problems.push(("concurrent_requests_max", message));
        }
        if !(EVENT_BYTES_MIN..=EVENT_BYTES_MAX).contains(&self.event_bytes_max) {
            let message =
                format!("must be from {EVENT_BYTES_MIN} to {EVENT_BYTES_MAX}, not {}", self.event_bytes_max);
            problems.push(("event_bytes_max", message));
        }
        if self.retries_max > 20 {
            problems.push(("retries_max", format!("must be from 0 to 20, not {}", self.retries_max)));
        }
        problems
    }
}

/// Bytes of the largest event: less holds no usual event, more no gateway should hold for one stream.
const EVENT_BYTES_MIN: usize = 4 << 10;
const EVENT_BYTES_MAX: usize = 64 << 20;

/// Whether `*` stands at the end only.
fn is_pattern(model: &str) -> bool {
    !model.strip_suffix('*').unwrap_or(model).contains('*')
}

/// Headers that carry credentials or belong to one connection.
const REFUSED_HEADERS: [&str; 14] = [
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "proxy-authorization",
    "te",
    "upgrade",
    "accept-encoding",
    "expect",
];

fn refused_header(name: &str) -> Option<&'static str> {
    if http::HeaderName::try_from(name).is_err() {
        return Some("it is not a name of a header");
    }
    let is_refused = REFUSED_HEADERS.contains(&name.to_ascii_lowercase().as_str());
    is_refused.then_some("it carries credentials of callers or belongs to the connection")
}
