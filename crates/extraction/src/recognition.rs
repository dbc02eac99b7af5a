//! Text of scans and pictures, which another server recognises: docling-serve or Apache Tika.
//!
//! A file goes there only if its own text was not found. What comes back is taken for text: that of docling-serve as it is, the page of Tika
//! is read by a child process as any other web page.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::{BodyExt as _, Full};
use serde::Deserialize;
use weir_api::{ErrorCode, Invalid};
use weir_config::{Config, Recogniser};
use weir_documents::{Extracted, Lost, Page};
use weir_telemetry::metrics::Metrics;
use weir_upstream::{Priority, TimeLimits, UpstreamClient, UpstreamError, UpstreamRequest, UpstreamSettings};

use crate::media_type_of;

/// The message of a failure whose details are in the log alone.
const INTERNAL: &str = "internal error; the log has the details under the request's id";

/// The name of the upstream in metrics and the log.
const ID: &str = "extract";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Retries of a request that failed in passing.
const RETRIES_MAX: u32 = 2;
/// Most bytes of a reply. The text in it is cut to `limits.document_text_bytes_max`.
const REPLY_BYTES_MAX: usize = 128 << 20;
/// Stands between two pages in what the server answers.
const PAGE_BREAK: &str = "\u{f0c0c}";
/// The mark that docling-serve writes in place of a picture.
const PICTURE_MARK: &str = "<!-- image -->";
/// Where a page begins in what Tika answers.
const TIKA_PAGE: &str = "<div class=\"page\">";
/// The code of pages that are images, and the warning for them.
const NO_TEXT: &str = "no_text";
const SCANNED_PAGE: &str = "scanned_page";
/// Larger answers are parsed on a blocking thread.
const PARSE_INLINE_BYTES_MAX: usize = 256 << 10;
const KEY_HEADER: HeaderName = HeaderName::from_static("x-api-key");
const TIKA_STRATEGY: HeaderName = HeaderName::from_static("x-tika-pdfocrstrategy");

/// The server that recognises text.
pub(crate) struct Recognition {
    kind: Recogniser,
    client: Result<UpstreamClient, String>,
    timeout: Duration,
    text_bytes_max: usize,
    pages_max: usize,
    metrics: Metrics,
}

/// The answer of the server.
pub(crate) enum Answer {
    /// Texts of pages, with [`PAGE_BREAK`] between them.
    Text(String),
    /// A web page, in which [`PAGE_BREAK`] stands before each page.
    Html(Vec<u8>),
}

/// The part of a reply of docling-serve that is read.
#[derive(Deserialize)]
struct DoclingReply {
    document: DoclingDocument,
}

#[derive(Deserialize)]
struct DoclingDocument {
    md_content: Option<String>,
}

impl Recognition {
    /// The server of the configuration, if there is one. Nothing is sent yet.
    pub(crate) fn new(config: &Config, metrics: &Metrics) -> Option<Recognition> {
        let settings = &config.extract;
        if settings.url.is_empty() {
            return None;
        }
        let key = settings.api_key.as_ref().and_then(|key| key.secret().ok());
        let client = UpstreamSettings {
            id: ID.to_owned(),
            name: format!("of `extract.url` ({})", settings.url),
            url: settings.url.trim_end_matches('/').to_owned(),
            api_key: key.map(|key| key.reveal().to_owned()),
            api_key_header: (settings.url_kind == Recogniser::Docling).then_some(KEY_HEADER),
            ca_file: (!settings.ca_file.is_empty()).then(|| PathBuf::from(&settings.ca_file)),
            connect_timeout: CONNECT_TIMEOUT,
            concurrent_requests_max: settings.url_requests_max,
            retries_max: RETRIES_MAX,
        };
        let client = UpstreamClient::new(client, metrics.clone()).map_err(|error| error.to_string());
        if let Err(error) = &client {
            tracing::error!(%error, "the server at `extract.url` can't be used; scans and pictures are refused");
        }
        Some(Recognition {
            kind: settings.url_kind,
            client,
            timeout: Duration::from_millis(settings.url_timeout_ms),
            text_bytes_max: config.limits.document_text_bytes_max,
            pages_max: settings.pages_max,
            metrics: metrics.clone(),
        })
    }

    /// The name of the server's kind, for the description of the file.
    pub(crate) fn name(&self) -> &'static str {
        match self.kind {
            Recogniser::Docling => "docling",
            Recogniser::Tika => "tika",
        }
    }

    /// Sends a file, and returns what was recognised. Waits for its turn: at most `extract.url_requests_max` files are on their way.
    ///
    /// # Errors
    /// `upstream_error`, `upstream_timeout` or `overloaded`, as of other upstreams.
    pub(crate) async fn ask(&self, name: &str, file: Bytes) -> Result<Answer, Invalid> {
        let begun = Instant::now();
        let answer = self.send(name, file).await;
        let result = if answer.is_ok() { "answered" } else { "failed" };
        self.metrics.file_recognised(result, begun.elapsed());
        answer
    }

    async fn send(&self, name: &str, file: Bytes) -> Result<Answer, Invalid> {
        let client = self.client.as_ref().map_err(|error| {
            Invalid::whole(
                ErrorCode::UpstreamError,
                format!("the server at `extract.url` can't be used: {error}"),
            )
        })?;
        let mut retries = client.retries(None);
        loop {
            let permit = client.permit(Priority::Interactive, None).await.map_err(failed)?;
            let request = self.request(name, &file);
            let reply = async { client.send(request, permit).await?.into_body().read(REPLY_BYTES_MAX).await };
            match reply.await {
                Ok(reply) => {
                    let (kind, is_long) = (self.kind, reply.len() > PARSE_INLINE_BYTES_MAX);
                    let parsed = match is_long {
                        true => tokio::task::spawn_blocking(move || parse(kind, &reply)).await.map_err(
                            |error| {
                                tracing::error!(%error, "the reply of the recogniser was not read");
                                Invalid::whole(ErrorCode::Internal, INTERNAL)
                            },
                        )?,
                        false => parse(kind, &reply),
                    };
                    return parsed.map_err(|reason| failed(client.invalid_reply(&reason)));
                }
                Err(error) => retries.wait(error).await.map_err(failed)?,
            }
        }
    }

    fn request(&self, name: &str, file: &Bytes) -> UpstreamRequest {
        let ascii: String = name
            .chars()
            .map(
                |letter| if letter.is_ascii_alphanumeric() || "._- ".contains(letter) { letter } else { '_' },
            )
            .collect();
        let (method, path, headers, body) = match self.kind {
            Recogniser::Docling => {
                let (media_type, body) = docling_form(&ascii, media_type_of(name), file);
                let headers = [(ACCEPT, "application/json".to_owned()), (CONTENT_TYPE, media_type)];
                (Method::POST, "/v1/convert/file", headers.to_vec(), body)
            }
            Recogniser::Tika => {
                let headers = vec![
                    (ACCEPT, "text/html".to_owned()),
                    (CONTENT_TYPE, media_type_of(name).to_owned()),
                    (CONTENT_DISPOSITION, format!("attachment; filename=\"{ascii}\"")),
                    (TIKA_STRATEGY, "ocr_only".to_owned()),
                ];
                (Method::PUT, "/tika", headers, file.clone())
            }
        };
        let headers =
            headers.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?)));
        UpstreamRequest {
            method,
            path: Cow::Borrowed(path),
            headers: headers.collect::<HeaderMap>(),
            body: Full::new(body).map_err(|never| match never {}).boxed_unsync(),
            limits: TimeLimits::whole_reply(self.timeout, None),
        }
    }

    /// The text with its pages; `None` where no letter was recognised.
    pub(crate) fn pages_of(&self, text: &str) -> Option<Extracted> {
        // Tika marks each page at its beginning, docling-serve between two
        let text = text.trim_start();
        let parts = text.strip_prefix(PAGE_BREAK).unwrap_or(text).split(PAGE_BREAK);
        let mut extracted = Extracted::default();
        for part in parts.take(self.pages_max) {
            let part = part.trim();
            let begun = extracted.text.len();
            if !part.is_empty() && begun > 0 {
                // the blank line belongs to the page before it
                extracted.text.push_str("\n\n");
                let before = extracted.pages.iter_mut().rev().take_while(|page| page.end == begun);
                before.for_each(|page| page.end = begun + 2);
            }
            let left = self.text_bytes_max.saturating_sub(extracted.text.len());
            extracted.text.push_str(&part[..part.floor_char_boundary(left)]);
            extracted.pages.push(Page { end: extracted.text.len(), label: None, approximate: false });
        }
        if extracted.pages.len() == 1 {
            extracted.pages.clear();
        }
        extracted.text.chars().any(char::is_alphanumeric).then_some(extracted)
    }
}

fn parse(kind: Recogniser, reply: &[u8]) -> Result<Answer, String> {
    match kind {
        Recogniser::Docling => {
            let reply: DoclingReply = serde_json::from_slice(reply).map_err(|error| error.to_string())?;
            let text = reply.document.md_content.ok_or("it has no `document.md_content`")?;
            Ok(Answer::Text(text.replace(PICTURE_MARK, "")))
        }
        Recogniser::Tika => {
            let page = format!("<p>{PAGE_BREAK}</p>{TIKA_PAGE}");
            Ok(Answer::Html(String::from_utf8_lossy(reply).replace(TIKA_PAGE, &page).into_bytes()))
        }
    }
}

/// Puts recognised pages in the place of those that were lost as images. The pages must be the same.
pub(crate) fn fill_in(extracted: &mut Extracted, recognised: &Extracted) -> bool {
    if extracted.pages.len() != recognised.pages.len() {
        return false;
    }
    let (mut text, mut begun, mut recognised_at) = (String::new(), 0, 0);
    let (mut is_filled, mut left) = (false, 0);
    let lost = std::mem::take(&mut extracted.lost);
    let (scanned, mut others): (Vec<_>, Vec<_>) = lost.into_iter().partition(|lost| lost.code == NO_TEXT);
    for (number, page) in extracted.pages.iter_mut().enumerate() {
        let own = &extracted.text[begun..page.end];
        let other = &recognised.text[recognised_at..recognised.pages[number].end];
        (begun, recognised_at) = (page.end, recognised.pages[number].end);
        let scanned = scanned.iter().find(|lost| range_has(&lost.part, number + 1));
        match scanned {
            Some(_) if !other.trim().is_empty() => {
                is_filled = true;
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push_str("\n\n");
                }
                text.push_str(own);
                text.push_str(other.trim());
                text.push_str("\n\n");
            }
            Some(lost) => {
                left += 1;
                others.push(Lost { part: (number + 1).to_string(), ..lost.clone() });
                text.push_str(own);
            }
            None => text.push_str(own),
        }
        page.end = text.len();
    }
    let end = text.trim_end().len();
    text.truncate(end);
    extracted.pages.iter_mut().for_each(|page| page.end = page.end.min(end));
    extracted.text = text;
    extracted.lost = others;
    extracted.warnings.retain_mut(|warning| {
        let is_of_scans = warning.code == SCANNED_PAGE;
        if is_of_scans {
            warning.count = left;
        }
        !is_of_scans || left > 0
    });
    is_filled
}

/// Whether `7` or a range such as `5-9` has a number.
fn range_has(range: &str, number: usize) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    first.parse().is_ok_and(|first: usize| first <= number)
        && last.parse().is_ok_and(|last: usize| number <= last)
}

/// The form of docling-serve: its media type and its bytes.
fn docling_form(name: &str, media_type: &str, file: &Bytes) -> (String, Bytes) {
    let boundary = format!("weir-{}", uuid::Uuid::new_v4().simple());
    let mut form = Vec::with_capacity(file.len() + 2_000);
    for (field, value) in [
        ("to_formats", "md"),
        ("do_ocr", "true"),
        ("force_ocr", "true"),
        ("image_export_mode", "placeholder"),
        ("md_page_break_placeholder", PAGE_BREAK),
    ] {
        let part =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n{value}\r\n");
        form.extend_from_slice(part.as_bytes());
    }
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"files\"; filename=\"{name}\"\r\nContent-Type: {media_type}\r\n\r\n"
    );
    form.extend_from_slice(head.as_bytes());
    form.extend_from_slice(file);
    form.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    (format!("multipart/form-data; boundary={boundary}"), form.into())
}

fn failed(error: UpstreamError) -> Invalid {
    let message = format!("the file has no text of its own, and {error}");
    let code = match error {
        UpstreamError::Limited { .. } => ErrorCode::Overloaded,
        UpstreamError::Timeout { .. } => ErrorCode::UpstreamTimeout,
        UpstreamError::Connect { .. }
        | UpstreamError::Broken { .. }
        | UpstreamError::Status { .. }
        | UpstreamError::Reply { .. }
        | UpstreamError::Open { .. } => ErrorCode::UpstreamError,
    };
    Invalid::whole(code, message)
}

#[cfg(test)]
mod tests {
    use weir_documents::Warning;

    use super::*;

    fn recognition(kind: Recogniser) -> Recognition {
        let mut config = Config::default();
        config.extract.url = "http://127.0.0.1:1".to_owned();
        config.extract.url_kind = kind;
        config.limits.document_text_bytes_max = 40;
        config.extract.pages_max = 3;
        Recognition::new(&config, &Metrics::new("scalar")).unwrap()
    }

    /// The pages of an answer, each in brackets.
    fn check(answer: &str, expected: &str) {
        let found = recognition(Recogniser::Docling).pages_of(&answer.replace('|', PAGE_BREAK));
        let found = found.map_or_else(String::new, |found| {
            let ends: Vec<usize> = found.pages.iter().map(|page| page.end).collect();
            assert!(found.pages.is_empty() || ends.last() == Some(&found.text.len()), "{ends:?}");
            let mut begun = 0;
            let pages = ends.iter().map(|end| {
                let page = format!("[{}]", &found.text[begun..*end]);
                begun = *end;
                page
            });
            if ends.is_empty() { found.text.clone() } else { pages.collect() }
        });
        assert_eq!(found, expected, "{answer:?}");
    }

    #[test]
    fn an_answer_becomes_text_with_pages() {
        check("one\n\n|\n\ntwo\n", "[one\n\n][two]");
        check("|one||three", "[one\n\n][][three]");
        check("one page", "one page");
        check("a|b|c|d", "[a\n\n][b\n\n][c]");
        check(&"ä".repeat(30), &"ä".repeat(20));
        for nothing in ["", "|", " \n- |...", "||"] {
            check(nothing, "");
        }
    }

    #[test]
    fn recognised_pages_fill_the_gaps_of_a_file() {
        let page = |end| Page { end, label: None, approximate: false };
        let lost = |part: &str, code: &str| Lost {
            part: part.to_owned(),
            code: code.to_owned(),
            message: String::new(),
        };
        let scans = Warning { code: SCANNED_PAGE.to_owned(), message: String::new(), count: 3 };
        let mut own = Extracted {
            text: "first\n\nthird".to_owned(),
            pages: vec![page(7), page(7), page(12), page(12), page(12)],
            lost: vec![lost("2", NO_TEXT), lost("4-5", NO_TEXT), lost("3", "broken_page")],
            warnings: vec![scans],
            ..Extracted::default()
        };
        let recognised = recognition(Recogniser::Docling);
        let mut other = recognised.pages_of(&["one", "two", "three"].join(PAGE_BREAK)).unwrap();
        assert!(!fill_in(&mut own.clone(), &other), "another number of pages");
        other.text.push_str("\n\nfour");
        other.pages.extend([page(other.text.len()), page(other.text.len())]);
        assert!(fill_in(&mut own, &other));
        assert_eq!(own.text, "first\n\ntwo\n\nthird\n\nfour");
        assert_eq!(own.pages, [page(7), page(12), page(17), page(23), page(23)]);
        // nothing was recognised on the last page
        assert_eq!(own.lost, [lost("3", "broken_page"), lost("5", NO_TEXT)]);
        assert_eq!(own.warnings[0].count, 1);
    }
}
