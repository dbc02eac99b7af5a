//! One request: routes, faults, delays, and the reply.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::Value;

use crate::account;
use crate::anthropic::{self, Messages};
use crate::args::Settings;
use crate::behavior::Behavior;
use crate::body::{Dropped, ReplyBody, Steps};
use crate::chaos::{Fault, FaultSet};
use crate::echo::Echo;
use crate::embeddings;
use crate::events::{EventStream, Exchange, Shape, Step, json_string};
use crate::gemini::Generate;
use crate::last::LastRequests;
use crate::openai::{self, Chat, Completions};
use crate::provider::Provider;
use crate::quirks::Quirk;
use crate::random::RequestRng;
use crate::reply::Reply;
use crate::request::{Prompt, Refusal};
use crate::responses::Responses;
use crate::stats::{RequestGuard, Stats};
use crate::timing::Delays;
use crate::wire::Wire;

/// State shared by all requests.
pub(crate) struct Mock {
    pub(crate) settings: Settings,
    pub(crate) stats: Arc<Stats>,
    pub(crate) last: LastRequests,
}

/// The kind of reply.
enum Answer {
    Json(String),
    Completion { shape: &'static dyn Shape, prompt: Prompt },
}

/// Answers one request. [`Dropped`] closes the connection.
pub(crate) async fn handle(
    mock: &Mock,
    wire: &Wire,
    request: hyper::Request<Incoming>,
) -> Result<Response<ReplyBody>, Dropped> {
    let (head, body) = request.into_parts();
    // Ends the cuts of the connection's previous request.
    wire.set_cut(0, 0.0);
    if head.uri.path().starts_with("/mock/") {
        return Ok(control(mock, &head));
    }
    let mut guard = mock.stats.begin();
    let provider = Provider::of_path(head.uri.path());
    let body = match read(body, mock.settings.body_bytes_max as usize).await? {
        Ok(body) => body,
        Err(refusal) => return Ok(error(provider, &refusal, None, guard)),
    };
    guard.add_request_bytes(body.len());
    mock.last.push(guard.number, &head, &body);
    let behavior = match mock.settings.behavior.with_headers(&head.headers) {
        Ok(behavior) => behavior,
        Err(wrong) => {
            let refusal = Refusal { status: 400, message: wrong.to_string(), param: None };
            return Ok(error(provider, &refusal, None, guard));
        }
    };
    let rng = RequestRng { seed: mock.settings.seed, request: guard.number };
    let faults = behavior.faults.decide(rng);
    mock.stats.add_faults(faults);
    wire.set_cut(behavior.cut_bytes, behavior.cut_pause_ms);
    let drops = [Fault::DropHeaders, Fault::DropFirstToken, Fault::DropMidstream];
    if faults.has(Fault::Reset) && drops.iter().any(|drop| faults.has(*drop)) {
        wire.set_reset();
    }
    let responder = Responder { behavior, faults, delays: delays(&behavior, rng) };
    wait(responder.delays.latency()).await;
    if faults.has(Fault::StallHeaders) {
        wait(responder.stall()).await;
    }
    if faults.has(Fault::DropHeaders) {
        guard.abandon();
        return Err(Dropped);
    }
    if let Some((status, body)) = account::error(provider, behavior.quirks) {
        return Ok(error_reply(provider, status, body.to_string(), None, guard));
    }
    let answer = responder.requested_error().map_or_else(|| answer(mock, &head, &body, behavior.echo), Err);
    match answer {
        Err(refusal) => Ok(responder.refuse(provider, &refusal, guard)),
        Ok(Answer::Json(json)) => Ok(responder.whole(json, provider, guard)),
        Ok(Answer::Completion { shape, prompt }) => {
            responder.completion(shape, prompt, guard, mock.settings.streams_max).await
        }
    }
}

async fn wait(delay: Duration) {
    if !delay.is_zero() {
        tokio::time::sleep(delay).await;
    }
}

fn delays(behavior: &Behavior, rng: RequestRng) -> Delays {
    Delays {
        profile: behavior.profile,
        jitter: behavior.jitter,
        latency_ms: behavior.latency_ms,
        first_token_ms: behavior.first_token_ms,
        token_ms: behavior.token_ms,
        rng,
    }
}

/// Reads a body of at most `bytes_max`. [`Dropped`] if the client leaves.
async fn read(body: Incoming, bytes_max: usize) -> Result<Result<Bytes, Refusal>, Dropped> {
    match Limited::new(body, bytes_max).collect().await {
        Ok(read) => Ok(Ok(read.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => {
            let message =
                format!("the body is larger than {bytes_max} bytes; send less, or raise --body-bytes-max");
            Ok(Err(Refusal { status: 413, message, param: None }))
        }
        Err(_) => Err(Dropped),
    }
}

/// Routes a request and parses its body.
fn answer(mock: &Mock, head: &Parts, body: &Bytes, echo: Echo) -> Result<Answer, Refusal> {
    let path = head.uri.path();
    if let Some(name) = path.strip_prefix("/v1/models") {
        require(head, &Method::GET)?;
        return models(&mock.settings.models, name).map(Answer::Json);
    }
    let shape: &'static dyn Shape = match openai_path(path).as_ref() {
        "/v1/chat/completions" => &Chat,
        "/v1/completions" => &Completions,
        "/v1/responses" => &Responses,
        "/v1/messages" => &Messages,
        "/v1/messages/count_tokens" => {
            require(head, &Method::POST)?;
            return anthropic::count_tokens(&parse(body)?).map(Answer::Json);
        }
        "/v1/embeddings" => {
            require(head, &Method::POST)?;
            return embeddings::reply(&parse(body)?).map(Answer::Json);
        }
        _ => return gemini(head, body, echo),
    };
    require(head, &Method::POST)?;
    let prompt = prompt(shape, body, echo)?;
    Ok(Answer::Completion { shape, prompt })
}

/// The path in OpenAI's API of one in Azure's: `/openai/deployments/NAME/…` and `/openai/v1/…`.
fn openai_path(path: &str) -> Cow<'_, str> {
    let deployed = || path.strip_prefix("/openai/deployments/")?.split_once('/');
    match (path.strip_prefix("/openai/v1/"), deployed()) {
        (Some(rest), _) | (None, Some((_, rest))) => format!("/v1/{rest}").into(),
        (None, None) => path.into(),
    }
}

/// Parses the body of a request for a completion.
fn prompt(shape: &dyn Shape, body: &Bytes, echo: Echo) -> Result<Prompt, Refusal> {
    let body = parse(body)?;
    let prompt = shape.parse(&body)?;
    Ok(Prompt { echo: echo.text(|| shape.messages(&body)), ..prompt })
}

/// The list, or the model after `/`.
fn models(names: &[String], path: &str) -> Result<String, Refusal> {
    match path.strip_prefix('/') {
        None if path.is_empty() => Ok(openai::models(names)),
        Some(name) if names.iter().any(|known| known == name) => Ok(openai::model(name).to_string()),
        Some(_) | None => Err(Refusal {
            status: 404,
            message: "there is no such model; GET /v1/models lists them".to_owned(),
            param: Some("model"),
        }),
    }
}

fn gemini(head: &Parts, body: &Bytes, echo: Echo) -> Result<Answer, Refusal> {
    let call = head.uri.path().strip_prefix("/v1beta/models/").and_then(|rest| rest.split_once(':'));
    let (model, stream) = match call {
        Some((model, "generateContent")) => (model, false),
        Some((model, "streamGenerateContent")) => (model, true),
        Some(_) | None => {
            let message = format!("there is no route {}; docs/mock.md lists the routes", head.uri.path());
            return Err(Refusal { status: 404, message, param: None });
        }
    };
    require(head, &Method::POST)?;
    if stream && !head.uri.query().unwrap_or_default().split('&').any(|pair| pair == "alt=sse") {
        return Err(Refusal::invalid("alt", "must be sse: the mock streams events only"));
    }
    let prompt = prompt(&Generate, body, echo)?;
    Ok(Answer::Completion { shape: &Generate, prompt: Prompt { model: model.to_owned(), stream, ..prompt } })
}

fn require(head: &Parts, method: &Method) -> Result<(), Refusal> {
    if head.method == *method {
        return Ok(());
    }
    let message = format!("{} does not allow {}; use {method}", head.uri.path(), head.method);
    Err(Refusal { status: 405, message, param: None })
}

fn parse(body: &Bytes) -> Result<Value, Refusal> {
    serde_json::from_slice(body).map_err(|wrong| Refusal {
        status: 400,
        message: format!("the body is not valid JSON: {wrong}"),
        param: None,
    })
}

/// Options, faults and delays of one request, and the replies that have them.
struct Responder {
    behavior: Behavior,
    faults: FaultSet,
    delays: Delays,
}

impl Responder {
    fn stall(&self) -> Duration {
        Duration::from_secs_f64(self.behavior.stall_ms / 1000.0)
    }

    /// The error of `status` or of a fault.
    fn requested_error(&self) -> Option<Refusal> {
        let faults = [(Fault::Status429, 429), (Fault::Status500, 500), (Fault::Status503, 503)];
        let of_fault = faults.iter().find(|(fault, _)| self.faults.has(*fault)).map(|row| row.1);
        let status = self.behavior.status.or(of_fault)?;
        let message = match status {
            429 => "rate limit requested by a flag or header; retry after Retry-After",
            _ => "error requested by a flag or header",
        };
        Some(Refusal { status, message: message.to_owned(), param: None })
    }

    /// A 429 says when to send the request again: in its head, or with a quirk of Gemini in its body.
    fn refuse(&self, provider: Provider, refusal: &Refusal, guard: RequestGuard) -> Response<ReplyBody> {
        let seconds = self.behavior.retry_after_s;
        if refusal.status != 429 {
            return error(provider, refusal, None, guard);
        }
        if provider == Provider::Gemini && self.behavior.quirks.has(Quirk::RetryDelay) {
            let body = account::retry_delay(&refusal.message, seconds).to_string();
            return error_reply(provider, refusal.status, body, None, guard);
        }
        error(provider, refusal, Some(seconds), guard)
    }

    async fn completion(
        &self,
        shape: &'static dyn Shape,
        prompt: Prompt,
        mut guard: RequestGuard,
        streams_max: u64,
    ) -> Result<Response<ReplyBody>, Dropped> {
        let reply = Reply::new(&self.behavior, &prompt);
        let (quirks, model) = (self.behavior.quirks, json_string(&prompt.model));
        let exchange = Exchange { number: guard.number, model, reply, prompt, quirks };
        if quirks.has(Quirk::ErrorIn200) {
            return Ok(self.whole(shape.failed(&exchange), shape.provider(), guard));
        }
        if !exchange.prompt.stream {
            wait(self.delays.generation(exchange.reply.pieces())).await;
            return Ok(self.whole(shape.whole(&exchange), shape.provider(), guard));
        }
        if !guard.open_stream(streams_max) {
            let message = format!("{streams_max} streams are open; close some, or raise --streams-max");
            let refusal = Refusal { status: 503, message, param: None };
            return Ok(error(shape.provider(), &refusal, None, guard));
        }
        let number = guard.number;
        let (delays, faults, stall) = (self.delays, self.faults, self.stall());
        let stream = EventStream { shape, exchange, delays, faults, stall, next: 0 };
        let steps = Steps { ready: VecDeque::new(), stream: Some(Box::new(stream)) };
        let body = ReplyBody::new(steps, guard);
        Ok(self.respond("text/event-stream; charset=utf-8", body, shape.provider(), number))
    }

    /// A reply without stream. The faults of a stream apply to the halves of its body.
    fn whole(&self, mut json: String, provider: Provider, guard: RequestGuard) -> Response<ReplyBody> {
        let number = guard.number;
        if self.faults.is_empty() {
            return self.respond("application/json", ReplyBody::whole(json, guard), provider, number);
        }
        if self.faults.has(Fault::Malformed) {
            json.truncate(json.floor_char_boundary(json.len() / 2));
        }
        let content_length = json.len() as u64;
        let steps = Steps { ready: self.halves(json.into_bytes()), stream: None };
        let body = ReplyBody::new(steps, guard).with_content_length(content_length);
        self.respond("application/json", body, provider, number)
    }

    fn halves(&self, mut bytes: Vec<u8>) -> VecDeque<Step> {
        let rest = bytes.split_off(bytes.len() / 2);
        let steps = [
            (self.faults.has(Fault::StallFirstToken), Step::Wait(self.stall())),
            (self.faults.has(Fault::DropFirstToken), Step::Drop),
            (true, Step::Send(bytes)),
            (self.faults.has(Fault::StallMidstream), Step::Wait(self.stall())),
            (self.faults.has(Fault::DropMidstream), Step::Drop),
            (true, Step::Send(rest)),
        ];
        steps.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, step)| step).collect()
    }

    fn respond(
        &self,
        content_type: &'static str,
        body: ReplyBody,
        provider: Provider,
        number: u64,
    ) -> Response<ReplyBody> {
        let is_gzip = self.faults.has(Fault::Gzip);
        let mut response = Response::new(if is_gzip { body.with_gzip() } else { body });
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(provider.id_header(), HeaderValue::from(number));
        if is_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if content_type.starts_with("text/event-stream") {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        }
        response
    }
}

/// An error in the provider's shape.
fn error(
    provider: Provider,
    refusal: &Refusal,
    retry_after_s: Option<u64>,
    guard: RequestGuard,
) -> Response<ReplyBody> {
    error_reply(provider, refusal.status, provider.error_body(refusal), retry_after_s, guard)
}

fn error_reply(
    provider: Provider,
    status: u16,
    body: String,
    retry_after_s: Option<u64>,
    guard: RequestGuard,
) -> Response<ReplyBody> {
    let number = guard.number;
    let mut response = Response::new(ReplyBody::whole(body, guard));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(provider.id_header(), HeaderValue::from(number));
    if let Some(seconds) = retry_after_s {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The routes of the mock itself, which are not counted.
fn control(mock: &Mock, head: &Parts) -> Response<ReplyBody> {
    let (status, body) = match (&head.method, head.uri.path()) {
        (&Method::GET, "/mock/stats") => (StatusCode::OK, mock.stats.to_json()),
        (&Method::GET, "/mock/last") => (StatusCode::OK, mock.last.to_json()),
        (&Method::POST, "/mock/reset") => {
            mock.stats.reset();
            mock.last.reset();
            (StatusCode::OK, serde_json::json!({"reset": true}))
        }
        _ => {
            let message = "use GET /mock/stats, GET /mock/last or POST /mock/reset";
            (StatusCode::NOT_FOUND, serde_json::json!({"error": {"message": message}}))
        }
    };
    let mut response = Response::new(ReplyBody::whole(body.to_string(), RequestGuard::uncounted()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
