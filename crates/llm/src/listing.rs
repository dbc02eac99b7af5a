//! The models that upstreams list: names that routes with `*` lead to.
//!
//! An upstream is asked in the background, with its own key, when somebody wants the list and the last one is older than [`FRESH_FOR`]. The
//! first list is waited for, [`WAIT`] at most; later the old one is given.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::HeaderValue;
use http::header::ACCEPT_ENCODING;
use tokio::sync::watch;
use weir_config::Provider;
use weir_upstream::{DecodedBody, TimeLimits, UpstreamRequest, listed_models};

use crate::provider;
use crate::table::{Route, Table, Upstream};
use crate::{Api, Llm};

/// How long a list is given without asking again.
const FRESH_FOR: Duration = Duration::from_secs(300);
/// The same after an upstream did not answer.
const FAILED_FOR: Duration = Duration::from_secs(30);
/// Upper bound of the time for which a request waits for lists that were never there.
const WAIT: Duration = Duration::from_secs(1);
/// Upper bound of the time in which an upstream must answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// Upper bound of the bytes of an upstream's reply.
const REPLY_BYTES_MAX: usize = 4 << 20;
/// The list of one upstream.
pub(crate) struct Listing {
    list: watch::Sender<List>,
    is_asked: AtomicBool,
}

#[derive(Clone, Default)]
struct List {
    names: Arc<Vec<String>>,
    /// `None`: a list is worth waiting for.
    fresh_until: Option<Instant>,
}

/// The models of an upstream that a table offers.
pub(crate) struct Offer {
    pub(crate) upstream: Arc<Upstream>,
    /// The prefix that callers put before the name.
    pub(crate) before: String,
    /// How names begin that lead to it.
    pub(crate) start: String,
    /// The route that they must lead to.
    pub(crate) route: Option<Arc<Route>>,
}

impl Default for Listing {
    fn default() -> Listing {
        Listing { list: watch::Sender::new(List::default()), is_asked: AtomicBool::new(false) }
    }
}

impl Listing {
    /// Nobody waits for a list that did not come in time; it is still taken when it comes.
    fn wait_no_more(&self) {
        self.list.send_modify(|list| {
            list.fresh_until.get_or_insert_with(Instant::now);
        });
    }
}

impl Llm {
    /// The names of models that callers can ask for, in order: those of routes without `*`, and those that upstreams list behind the others.
    pub async fn models(&self) -> Vec<String> {
        let table = self.table();
        let offers = table.offers();
        let until = tokio::time::Instant::now() + WAIT;
        let mut asked = Vec::new();
        for offer in &offers {
            let list = refresh(&offer.upstream, Instant::now());
            asked.extend(list.map(|list| (&offer.upstream, list)));
        }
        for (upstream, mut list) in asked {
            let is_known = list.wait_for(|list| list.fresh_until.is_some());
            if tokio::time::timeout_at(until, is_known).await.is_err() {
                upstream.listing.wait_no_more();
            }
        }
        let mut names: BTreeSet<String> = table.named_models().cloned().collect();
        names.extend(offers.iter().flat_map(|offer| offer.names(&table)));
        names.into_iter().collect()
    }
}

impl Offer {
    fn names(&self, table: &Table) -> Vec<String> {
        let list = self.upstream.listing.list.borrow().names.clone();
        let leads_here = |name: &String| match (&self.route, table.route(Api::ChatCompletions, name)) {
            (Some(route), Some(found)) => Arc::ptr_eq(route, found),
            (None, _) => true,
            (Some(_), None) => false,
        };
        let starting = list.iter().filter(|name| name.starts_with(&self.start) && leads_here(name));
        starting.map(|name| format!("{}{name}", self.before)).collect()
    }
}

/// Asks an upstream in the background, unless its list is fresh or it is being asked. What to wait for, if there never was a list.
fn refresh(upstream: &Arc<Upstream>, now: Instant) -> Option<watch::Receiver<List>> {
    let path = path(upstream.config.provider)?;
    let listing = &upstream.listing;
    let fresh_until = listing.list.borrow().fresh_until;
    if fresh_until.is_some_and(|until| now < until) {
        return None;
    }
    if !listing.is_asked.swap(true, Ordering::AcqRel) {
        let asking = Asking(upstream.clone());
        tokio::spawn(async move { asking.ask(path).await });
    }
    fresh_until.is_none().then(|| listing.list.subscribe())
}

/// An upstream that is being asked.
struct Asking(Arc<Upstream>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.listing.is_asked.store(false, Ordering::Release);
    }
}

impl Asking {
    async fn ask(self, path: &'static str) {
        let names = self.names(path).await;
        let lifetime = if names.is_some() { FRESH_FOR } else { FAILED_FOR };
        self.0.listing.list.send_modify(|list| {
            list.fresh_until = Some(Instant::now() + lifetime);
            // an upstream that does not answer now keeps its models
            if let Some(names) = names {
                list.names = Arc::new(names);
            }
        });
    }

    /// The names; `None` when the upstream did not answer with a list.
    async fn names(&self, path: &'static str) -> Option<Vec<String>> {
        let Upstream { client, config, .. } = &*self.0;
        let deadline = Instant::now() + ANSWERED_WITHIN;
        // the end of the wait is no failure of the upstream
        let limits = TimeLimits::whole_reply(2 * ANSWERED_WITHIN, Some(deadline));
        let mut request = UpstreamRequest::get(path, limits);
        request.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        provider::add_version(config.provider, &mut request.headers);
        let permit = client.try_permit().ok()?;
        let reply = client.exchange(request, permit).await.ok()?;
        if !reply.status().is_success() {
            let (upstream, status) = (&*self.0.id, reply.status().as_u16());
            tracing::info!(upstream, status, "an upstream does not list its models");
            return None;
        }
        let (head, body) = reply.into_parts();
        let body = DecodedBody::new(&head.headers, body).read(REPLY_BYTES_MAX).await.ok()?.ok()?;
        listed_models(&body)
    }
}

/// Where a provider lists its models, if it does: Azure has no list of deployments.
fn path(provider: Provider) -> Option<&'static str> {
    match provider {
        Provider::OpenAi | Provider::Ollama | Provider::Vllm => Some("/models"),
        Provider::Anthropic => Some("/v1/models?limit=1000"),
        Provider::Gemini => Some("/v1beta/models?pageSize=1000"),
        Provider::Azure => None,
    }
}
