//! `POST /v1/ingest` with a document on each line: read and stored batch by batch, at constant memory.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt as _};
use tokio::time::{Instant, timeout_at};
use weir_api::{DEFAULT_COLLECTION, ErrorCode, LINES_MEDIA_TYPE, LinesFailure, LinesReply};
use weir_retrieval::{IngestTerms, LineIngest};

use super::body::{self, CallContext, Json, decoded, encoding_of, query_pairs, unknown_parameter};
use super::context;
use super::context::Admitted;
use super::error::ApiError;
use super::idempotency;
use super::upload::media_type;
use crate::Result;

/// Other names of the media type.
const MEDIA_TYPES: [&str; 4] =
    [LINES_MEDIA_TYPE, "application/jsonl", "application/x-jsonlines", "application/jsonlines"];

/// Lines are stored after this time, although further ones are awaited.
const STORE_AFTER: Duration = Duration::from_secs(1);
/// The time between two lines of a reply, so that a client that reads it late does not stop the stream.
const REPLY_INTERVAL: Duration = Duration::from_secs(1);
/// Most memory for the lines of one request beside its longest line.
const BATCH_MEMORY: usize = 8 << 20;

/// Whether the body has a document on each line.
pub(super) fn is_lines(headers: &HeaderMap) -> bool {
    media_type(headers).is_some_and(|media| MEDIA_TYPES.contains(&media.as_str()))
}

/// The memory that a stream takes, however long it is.
pub(super) fn memory(limits: &weir_config::table::Limits) -> usize {
    2 * limits.document_text_bytes_max + limits.metadata_bytes_max + BATCH_MEMORY
}

/// Stores the documents of the lines.
pub(super) async fn ingest(call: CallContext, query: Option<&str>, request: Request) -> Result<Response> {
    idempotency::refuse(request.headers())?;
    let parameters = Parameters::parse(query)?;
    let admitted = context::take_admitted(request.extensions());
    let (parts, body) = request.into_parts();
    let source = decoded(body, encoding_of(&parts.headers)?);
    let lines = call.retrieval.ingest_lines(&call.caller, &parameters.collection, parameters.terms).await?;
    let deadline_ms = call.config.server.ingest_stream_deadline_ms;
    let limit = Duration::from_millis(deadline_ms);
    let reader = LineReader::new(source, lines.line_bytes_max());
    let wait = parameters.wait;
    let mut stored =
        StoredLines { lines, reader, until: Instant::now() + limit, deadline_ms, wait, admitted };
    if accepts_lines(&parts.headers) {
        let headers = [(header::CONTENT_TYPE, LINES_MEDIA_TYPE)];
        return Ok((StatusCode::ACCEPTED, headers, Body::from_stream(replies(stored))).into_response());
    }
    while !stored.next().await? {}
    Ok((StatusCode::ACCEPTED, Json(stored.reply(true))).into_response())
}

fn accepts_lines(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    MEDIA_TYPES.iter().any(|media| accepted.contains(media))
}

/// The query parameters.
struct Parameters {
    collection: String,
    terms: IngestTerms,
    wait: bool,
}

impl Parameters {
    fn parse(query: Option<&str>) -> Result<Parameters> {
        let mut found = Parameters {
            collection: DEFAULT_COLLECTION.to_owned(),
            terms: IngestTerms::default(),
            wait: false,
        };
        for (key, value) in query_pairs(query) {
            match key.as_str() {
                "collection" => found.collection = value,
                "replace_if_equal" => found.terms.replace_if_equal.push(value),
                "webhook_url" => found.terms.webhook_url = Some(value),
                "wait" => found.wait = body::flag(Some(&format!("wait={value}")), "wait")?,
                _ => {
                    let known = "`collection`, `replace_if_equal`, `webhook_url` or `wait`";
                    return Err(unknown_parameter(&key, known));
                }
            }
        }
        Ok(found)
    }
}

/// A stream that is being stored.
struct StoredLines<S> {
    lines: LineIngest,
    reader: LineReader<S>,
    until: Instant,
    deadline_ms: u64,
    wait: bool,
    /// The memory that was reserved.
    admitted: Admitted,
}

impl<S: Stream<Item = std::io::Result<Bytes>> + Unpin> StoredLines<S> {
    /// Reads and stores the next batch; `true` at the end of the lines.
    ///
    /// # Errors
    /// `deadline_exceeded`, `invalid_parameter` when the connection broke, store errors. The message says which lines are acknowledged.
    async fn next(&mut self) -> Result<bool> {
        let ended = match timeout_at(self.until, self.read_and_store()).await {
            Ok(ended) => ended,
            Err(_) => {
                let message = format!(
                    "the lines were not read within {} ms (`server.ingest_stream_deadline_ms`)",
                    self.deadline_ms
                );
                Err(ApiError::new(ErrorCode::DeadlineExceeded, message))
            }
        };
        ended.map_err(|error| {
            let acknowledged = self.lines.acknowledged();
            let from = acknowledged + 1;
            error.with_note(&format!(
                "the lines up to {acknowledged} are stored; send those from {from} on again"
            ))
        })
    }

    async fn read_and_store(&mut self) -> Result<bool> {
        let store_at = Instant::now() + STORE_AFTER;
        let is_end = loop {
            if self.lines.is_full() {
                break false;
            }
            match self.reader.next(store_at, !self.lines.is_empty()).await? {
                Line::Text(line) => self.lines.push(&line),
                Line::TooLong => self.lines.push_too_long(),
                Line::Awaited => break false,
                Line::End => break true,
            }
        };
        self.lines.store().await?;
        if is_end && self.wait {
            self.lines.wait_until_searchable().await;
        }
        Ok(is_end)
    }

    fn reply(&mut self, done: bool) -> LinesReply {
        if done {
            self.admitted = Admitted::Light;
        }
        LinesReply { done, ..self.lines.take_reply() }
    }
}

/// The lines of the reply: one after each batch, at most one in [`REPLY_INTERVAL`], and the last with `done` or `error`.
fn replies<S>(stored: StoredLines<S>) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>>
where
    S: Stream<Item = std::io::Result<Bytes>> + Unpin,
{
    let replied_at = Instant::now();
    futures_util::stream::unfold(Some((stored, replied_at)), |state| async move {
        let (mut stored, mut replied_at) = state?;
        loop {
            match stored.next().await {
                Ok(true) => return Some((Ok(line(&stored.reply(true))), None)),
                Ok(false) if replied_at.elapsed() >= REPLY_INTERVAL => {
                    replied_at = Instant::now();
                    let reply = line(&stored.reply(false));
                    return Some((Ok(reply), Some((stored, replied_at))));
                }
                Ok(false) => {}
                Err(error) => {
                    let (code, message) = error.into_code_and_detail();
                    let error = Some(LinesFailure { code, message });
                    return Some((Ok(line(&LinesReply { error, ..stored.reply(false) })), None));
                }
            }
        }
    })
}

fn line(reply: &LinesReply) -> Bytes {
    let mut line = serde_json::to_vec(reply).unwrap_or_default();
    line.push(b'\n');
    line.into()
}

/// A result of the reader of lines.
enum Line {
    Text(Bytes),
    /// A line over the limit; it was not kept.
    TooLong,
    /// The next line has not arrived in time.
    Awaited,
    End,
}

/// Divides a body into lines.
struct LineReader<S> {
    source: S,
    part: Bytes,
    /// The beginning of a line that ends in a later part.
    begun: Vec<u8>,
    bytes_max: usize,
    is_too_long: bool,
    is_ended: bool,
}

impl<S: Stream<Item = std::io::Result<Bytes>> + Unpin> LineReader<S> {
    fn new(source: S, bytes_max: usize) -> LineReader<S> {
        LineReader {
            source,
            part: Bytes::new(),
            begun: Vec::new(),
            bytes_max,
            is_too_long: false,
            is_ended: false,
        }
    }

    /// The next line. With `may_end_early`, it is awaited until `until`.
    async fn next(&mut self, until: Instant, may_end_early: bool) -> Result<Line> {
        loop {
            if let Some(end) = self.part.iter().position(|byte| *byte == b'\n') {
                let line = self.part.split_to(end + 1).slice(..end);
                return Ok(self.finish(line));
            }
            self.keep();
            if self.is_ended {
                let is_last = self.is_too_long || !self.begun.is_empty();
                return Ok(if is_last { self.finish(Bytes::new()) } else { Line::End });
            }
            let next = match may_end_early {
                true => match timeout_at(until, self.source.next()).await {
                    Ok(next) => next,
                    Err(_) => return Ok(Line::Awaited),
                },
                false => self.source.next().await,
            };
            match next {
                Some(part) => {
                    self.part = part.map_err(|error| {
                        ApiError::new(ErrorCode::InvalidParameter, format!("the body broke off: {error}"))
                    })?;
                }
                None => self.is_ended = true,
            }
        }
    }

    /// Keeps the part for the line that goes on in the next one.
    fn keep(&mut self) {
        let part = std::mem::take(&mut self.part);
        if self.is_too_long || self.begun.len() + part.len() > self.bytes_max {
            self.is_too_long = true;
            self.begun = Vec::new();
        } else {
            self.begun.extend_from_slice(&part);
        }
    }

    /// The line that ends with `rest`.
    fn finish(&mut self, rest: Bytes) -> Line {
        let is_too_long =
            std::mem::take(&mut self.is_too_long) || self.begun.len() + rest.len() > self.bytes_max;
        let mut begun = std::mem::take(&mut self.begun);
        if is_too_long {
            return Line::TooLong;
        }
        if begun.is_empty() {
            return Line::Text(rest);
        }
        begun.extend_from_slice(&rest);
        Line::Text(begun.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&str], bytes_max: usize) -> Vec<String> {
        let parts: Vec<std::io::Result<Bytes>> =
            parts.iter().map(|part| Ok(Bytes::copy_from_slice(part.as_bytes()))).collect();
        let mut reader = LineReader::new(futures_util::stream::iter(parts), bytes_max);
        let mut found = Vec::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        loop {
            match runtime.block_on(reader.next(Instant::now(), false)).ok().unwrap() {
                Line::Text(line) => found.push(String::from_utf8(line.to_vec()).unwrap()),
                Line::TooLong => found.push("(too long)".to_owned()),
                Line::Awaited | Line::End => return found,
            }
        }
    }

    #[test]
    fn lines_are_whole_wherever_the_body_is_divided() {
        let text = "one\n\ntwo words\r\nlonger than ten bytes\nend";
        let expected = ["one", "", "two words\r", "(too long)", "end"];
        for size in 1..=text.len() {
            let parts: Vec<&str> =
                text.as_bytes().chunks(size).map(|part| std::str::from_utf8(part).unwrap()).collect();
            assert_eq!(lines(&parts, 10), expected, "parts of {size} bytes");
        }
        assert_eq!(lines(&["a\n"], 10), ["a"]);
        assert_eq!(lines(&[], 10), [""; 0]);
    }
}
