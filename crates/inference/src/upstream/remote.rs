//! A model on another server: splits texts into requests within the upstream's limits, with several in flight.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};
use weir_config::{Protocol, UpstreamConfig};
use weir_telemetry::metrics::Metrics;
use weir_upstream::{
    Permit, Priority, TimeLimits, UpstreamClient, UpstreamError, UpstreamRequest, UpstreamSettings,
};

use super::description::Description;
use super::{fingerprint, wire};
use crate::request::{InferenceError, Lane, Truncation};
use crate::rows::Rows;
use crate::waiting::WaitingTokens;

/// Time before a deadline that is reserved for our own reply.
const REPLY_TIME: Duration = Duration::from_millis(50);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Upper bound of the bytes of a reply.
const REPLY_BYTES_MAX: usize = 256 << 20;
/// Larger replies are parsed on a blocking thread, because they would block a runtime thread for over a millisecond.
const PARSE_INLINE_BYTES_MAX: usize = 256 << 10;

/// A model on another server.
pub(crate) struct RemoteModel {
    settings: UpstreamConfig,
    fingerprint: String,
    client: UpstreamClient,
    /// Another gateway's description of the model; `None` for other servers.
    description: Option<Description>,
    /// Estimated tokens of interactive texts that wait for a permit.
    waiting: WaitingTokens,
    metrics: Metrics,
}

/// A text for a model on another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteText {
    pub(crate) text: String,
    /// Its estimated tokens.
    pub(crate) tokens: usize,
    /// How the upstream truncates it if it is too long.
    pub(crate) truncation: Truncation,
}

/// Texts to embed, or to score for a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RemoteRequest {
    /// The query, for a reranker.
    pub(crate) query: Option<String>,
    pub(crate) texts: Vec<RemoteText>,
}

/// One row for each text, and the wait for a permit.
type TimedRows = (Rows, Duration);

impl RemoteModel {
    /// The model `id`; sends nothing. Another gateway's description of it is saved in `folder`. Interactive requests are refused while `waiting_max` tokens wait for a permit.
    ///
    /// # Errors
    /// A message about an unreadable `api_key` or an invalid address.
    pub(crate) fn new(
        id: &str,
        settings: &UpstreamConfig,
        waiting_max: usize,
        folder: &Path,
        metrics: Metrics,
    ) -> Result<RemoteModel, String> {
        let UpstreamConfig { protocol, url, model, normalize, concurrent_requests_max, .. } = settings;
        let kind = if protocol.is_reranking() {
            "rerank"
        } else if *normalize {
            "true"
        } else {
            "false"
        };
        let fingerprint = fingerprint(&[protocol.name(), url, model, kind]);
        let api_key = settings.api_key.as_ref().map(|key| key.secret()).transpose()?;
        let client = UpstreamSettings {
            ca_file: (!settings.ca_file.is_empty()).then(|| PathBuf::from(&settings.ca_file)),
            id: id.to_owned(),
            name: format!("of model `{id}` ({url})"),
            url: url.clone(),
            api_key: api_key.map(|key| key.reveal().to_owned()),
            api_key_header: None,
            connect_timeout: CONNECT_TIMEOUT,
            concurrent_requests_max: *concurrent_requests_max,
            retries_max: settings.retries_max,
        };
        Ok(RemoteModel {
            client: UpstreamClient::new(client, metrics.clone()).map_err(|error| error.to_string())?,
            description: (*protocol == Protocol::Weir).then(|| Description::new(folder, &fingerprint)),
            fingerprint,
            settings: settings.clone(),
            waiting: WaitingTokens::new(waiting_max),
            metrics,
        })
    }

    pub(super) fn settings(&self) -> &UpstreamConfig {
        &self.settings
    }

    /// Hash of protocol, address and model name.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The error for a reply that does not match the request.
    pub(super) fn invalid_reply(&self, reason: &str) -> InferenceError {
        self.client.invalid_reply(reason).into()
    }

    /// Another gateway's description of the model; `None` for other servers.
    pub(super) fn description(&self) -> Option<&Description> {
        self.description.as_ref()
    }

    /// Asks another gateway what the model needs, and keeps the answer.
    ///
    /// # Errors
    /// [`InferenceError`].
    pub(super) async fn describe(&self) -> Result<(), InferenceError> {
        let Some(description) = &self.description else { return Ok(()) };
        let mut retries = self.client.retries(None);
        let body = loop {
            let permit = self.client.permit(Priority::Interactive, None).await?;
            match self.fetch_description(permit).await {
                Ok(body) => break body,
                Err(error) => retries.wait(error).await?,
            }
        };
        description.keep(&body).map_err(|reason| {
            self.invalid_reply(&format!("its description of the model can't be read: {reason}"))
        })
    }

    async fn fetch_description(&self, permit: Permit) -> Result<Bytes, UpstreamError> {
        let limits = TimeLimits::whole_reply(Duration::from_millis(self.settings.timeout_ms), None);
        let request = UpstreamRequest::get(&wire::description_path(&self.settings.model), limits);
        self.client.send(request, permit).await?.into_body().read(REPLY_BYTES_MAX).await
    }

    /// A row for each text, in order: its embedding or its one score; and the longest wait for a permit. Fails if replies would arrive
    /// after `deadline`, less [`REPLY_TIME`].
    ///
    /// # Errors
    /// The first [`InferenceError`]; it cancels the other requests.
    pub(crate) async fn rows(
        &self,
        request: RemoteRequest,
        lane: Lane,
        deadline: Option<Instant>,
    ) -> Result<TimedRows, InferenceError> {
        let deadline = deadline.map(|deadline| deadline.checked_sub(REPLY_TIME).unwrap_or(deadline));
        let requests = split(request, &self.settings);
        let parts = requests.iter().map(|request| self.send(request, lane, deadline));
        let parts = try_join_all(parts).await?;
        let waited = parts.iter().map(|(_, waited)| *waited).max().unwrap_or_default();
        let mut rows = Rows::default();
        parts.into_iter().for_each(|(part, _)| rows.append(part));
        Ok((rows, waited))
    }

    /// Sends one request, with retries.
    async fn send(
        &self,
        request: &RemoteRequest,
        lane: Lane,
        deadline: Option<Instant>,
    ) -> Result<TimedRows, InferenceError> {
        let model =
            self.description.as_ref().and_then(Description::get).map(|known| known.reply.model.as_str());
        let model = model.unwrap_or(&self.settings.model);
        let body = Bytes::from(wire::request(&self.settings, model, request));
        let mut retries = self.client.retries(deadline);
        let mut waited = Duration::ZERO;
        loop {
            let (permit, queued) = self.permit(&request.texts, lane, deadline).await?;
            waited = waited.max(queued);
            match self.attempt(body.clone(), permit, deadline).await {
                Ok(reply) => return Ok((self.parse(reply, request.texts.len()).await?, waited)),
                Err(error) => retries.wait(error).await?,
            }
        }
    }

    /// A permit, and the wait for it.
    async fn permit(
        &self,
        texts: &[RemoteText],
        lane: Lane,
        deadline: Option<Instant>,
    ) -> Result<(Permit, Duration), InferenceError> {
        let queued = self.metrics.queued(lane.name(), texts.len());
        let tokens: usize = texts.iter().map(|text| text.tokens).sum();
        let permit = match lane {
            Lane::Query | Lane::Interactive => {
                let waiting = self.waiting.add(tokens);
                if self.client.is_saturated() {
                    waiting.check()?;
                }
                self.client.permit(Priority::Interactive, deadline).await?
            }
            Lane::Bulk => self.client.permit(Priority::Background, deadline).await?,
        };
        self.metrics.batch(texts.len(), tokens);
        Ok((permit, queued.finish()))
    }

    async fn attempt(
        &self,
        body: Bytes,
        permit: Permit,
        deadline: Option<Instant>,
    ) -> Result<Bytes, UpstreamError> {
        let timeout = Duration::from_millis(self.settings.timeout_ms);
        let limits = TimeLimits::whole_reply(timeout, deadline);
        let mut request = UpstreamRequest::post_json(wire::path(self.settings.protocol), body, limits);
        if self.settings.protocol == Protocol::Weir {
            request.headers.insert(ACCEPT, HeaderValue::from_static("application/octet-stream"));
        }
        let reply = self.client.send(request, permit).await?;
        self.check_model(reply.headers())?;
        reply.into_body().read(REPLY_BYTES_MAX).await
    }

    /// Refuses the reply of another gateway that has changed its model.
    fn check_model(&self, headers: &HeaderMap) -> Result<(), UpstreamError> {
        let Some(description) = &self.description else { return Ok(()) };
        let Some(known) = description.get() else { return Ok(()) };
        let seen = headers.get(wire::FINGERPRINT_HEADER).map(HeaderValue::as_bytes);
        if seen == Some(known.reply.fingerprint.as_bytes()) {
            return Ok(());
        }
        description.forget();
        Err(self.client.invalid_reply(&format!(
            "embeddings of another model than `{}`, which it served when this gateway started; restart this gateway",
            known.reply.model
        )))
    }

    async fn parse(&self, reply: Bytes, count: usize) -> Result<Rows, InferenceError> {
        let UpstreamConfig { protocol, normalize, .. } = self.settings;
        let is_large = reply.len() > PARSE_INLINE_BYTES_MAX;
        let parse = move || wire::rows(protocol, &reply, count, normalize);
        let rows = match is_large {
            true => tokio::task::spawn_blocking(parse).await.map_err(|_| InferenceError::Failed)?,
            false => parse(),
        };
        rows.map_err(|reason| self.invalid_reply(&reason))
    }
}

/// Splits a request, in order, into requests of at most the configured texts and bytes. The texts of each have the same truncation.
fn split(request: RemoteRequest, settings: &UpstreamConfig) -> Vec<RemoteRequest> {
    let RemoteRequest { query, texts } = request;
    let mut requests: Vec<RemoteRequest> = Vec::new();
    let mut bytes = 0;
    for text in texts {
        bytes += text.text.len();
        let open = requests.last_mut().map(|request| &mut request.texts).filter(|texts| {
            texts.len() < settings.texts_per_request_max
                && bytes <= settings.bytes_per_request_max
                && texts.last().is_some_and(|last| last.truncation == text.truncation)
        });
        match open {
            Some(texts) => texts.push(text),
            None => {
                bytes = text.text.len();
                requests.push(RemoteRequest { query: query.clone(), texts: vec![text] });
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_config::Protocol;

    /// Splits texts of these lengths, at most three texts or ten bytes at once; `expected` has the lengths of each request.
    fn check(lengths: &[usize], expected: &[&[usize]]) {
        let settings = UpstreamConfig {
            protocol: Protocol::Tei,
            url: String::new(),
            model: String::new(),
            api_key: None,
            ca_file: String::new(),
            dimension: None,
            dimensions: Vec::new(),
            normalize: true,
            texts_per_request_max: 3,
            bytes_per_request_max: 10,
            concurrent_requests_max: 1,
            timeout_ms: 1,
            retries_max: 0,
        };
        let text =
            |length: &usize| RemoteText { text: "a".repeat(*length), tokens: 1, truncation: Truncation::End };
        let request =
            RemoteRequest { query: Some("q".to_owned()), texts: lengths.iter().map(text).collect() };
        let requests = split(request, &settings);
        assert!(requests.iter().all(|request| request.query.as_deref() == Some("q")));
        let lengths: Vec<Vec<usize>> = requests
            .iter()
            .map(|request| request.texts.iter().map(|text| text.text.len()).collect())
            .collect();
        assert_eq!(lengths, expected);
    }

    #[test]
    fn requests_hold_as_many_texts_and_bytes_as_the_upstream_takes() {
        check(&[], &[]);
        check(&[1, 1, 1, 1], &[&[1, 1, 1], &[1]]);
        check(&[5, 5, 1], &[&[5, 5], &[1]]);
        check(&[11, 1, 10], &[&[11], &[1], &[10]]);
    }
}
