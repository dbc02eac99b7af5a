//! Why a request to an upstream failed.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};

/// The result of a request to an upstream.
pub type Result<T, E = UpstreamError> = std::result::Result<T, E>;

/// A request to an upstream that failed. `upstream` is what [`crate::UpstreamSettings::name`] calls it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpstreamError {
    /// No connection could be made.
    #[error("the upstream {upstream} can't be reached: {reason}; {}", connect_remedy(reason))]
    Connect {
        /// The upstream.
        upstream: String,
        /// The failure.
        reason: String,
    },
    /// The connection broke after the request was sent: before the reply, or within it.
    #[error("the reply of the upstream {upstream} broke off: {reason}")]
    Broken {
        /// The upstream.
        upstream: String,
        /// The failure.
        reason: String,
    },
    /// A time limit passed.
    #[error("the upstream {upstream} {} {} ms", awaited.told(), waited.as_millis())]
    Timeout {
        /// The upstream.
        upstream: String,
        /// The awaited part that did not arrive in time.
        awaited: Awaited,
        /// The limit.
        waited: Duration,
    },
    /// Status 429.
    #[error("the upstream {upstream} takes no more requests for now: {}", shortened(message))]
    Limited {
        /// The upstream.
        upstream: String,
        /// The message in the reply.
        message: String,
        /// The delay that the reply asks for.
        retry_after: Option<Duration>,
    },
    /// Any other status that is not a success.
    #[error("the upstream {upstream} answered {status}: {}{}", shortened(message), remedy(*status))]
    Status {
        /// The upstream.
        upstream: String,
        /// The status.
        status: u16,
        /// The message in the reply.
        message: String,
        /// The delay that the reply asks for.
        retry_after: Option<Duration>,
    },
    /// The reply does not fit the request.
    #[error("the upstream {upstream} answered with something else than was asked for: {reason}")]
    Reply {
        /// The upstream.
        upstream: String,
        /// The problem of the reply.
        reason: String,
    },
    /// The circuit breaker is open.
    #[error(
        "the upstream {upstream} failed too often and is not asked for {} ms; the last failure: {last_failure}",
        retry_after.as_millis()
    )]
    Open {
        /// The upstream.
        upstream: String,
        /// Time until the next probe.
        retry_after: Duration,
        /// The error that was counted last, without text of a reply.
        last_failure: String,
    },
}

/// The part of a reply to which a time limit applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// The head of the reply.
    Head,
    /// The first byte of the reply's body, or the first event of a stream.
    FirstByte,
    /// The next chunk of the reply's body.
    Chunk,
    /// The end of the reply, by the limit of the upstream or the deadline of the caller.
    End,
}

impl Awaited {
    /// The predicate of a timeout message, before the limit.
    const fn told(self) -> &'static str {
        match self {
            Awaited::Head => "sent no headers within",
            Awaited::FirstByte => "sent nothing of its reply within",
            Awaited::Chunk => "sent nothing more of its reply for",
            Awaited::End => "did not answer in full within",
        }
    }
}

/// The remedy of a failed connection.
fn connect_remedy(reason: &str) -> &'static str {
    let is_untrusted =
        ["UnknownIssuer", "CaUsedAsEndEntity", "BadSignature"].iter().any(|name| reason.contains(name));
    match is_untrusted {
        true => "name its certificate, or that of its authority, as `ca_file` of the upstream",
        false if reason.contains("not valid for") => {
            "use a name of its certificate (`subjectAltName`) in `url`"
        }
        false => "see whether it runs and `url` is right",
    }
}

/// The remedy of a status.
fn remedy(status: u16) -> &'static str {
    match status {
        401 | 403 => "; check its `api_key`",
        404 => "; check its `url` and `model`",
        413 => "; lower `texts_per_request_max` or `bytes_per_request_max`",
        300..=399 => "; redirections are not followed: correct its `url`",
        _ => "",
    }
}

impl UpstreamError {
    /// Whether the same request can succeed in a moment.
    pub fn is_retryable(&self) -> bool {
        match self {
            UpstreamError::Connect { .. }
            | UpstreamError::Broken { .. }
            | UpstreamError::Timeout { .. }
            | UpstreamError::Limited { .. } => true,
            // those of `provider-errors.md` that are outages
            UpstreamError::Status { status, .. } => {
                matches!(status, 408 | 425 | 498 | 499) || (*status >= 500 && *status != 501)
            }
            UpstreamError::Reply { .. } | UpstreamError::Open { .. } => false,
        }
    }

    /// The error for the log, where no text of a reply may stand: it can repeat that of the request.
    pub fn without_text(&self) -> String {
        match self {
            UpstreamError::Status { upstream, status, .. } => {
                format!("the upstream {upstream} answered {status}{}", remedy(*status))
            }
            UpstreamError::Limited { upstream, .. } => {
                format!("the upstream {upstream} accepts no more requests at present")
            }
            UpstreamError::Reply { upstream, .. } => {
                format!("the upstream {upstream} answered with something else than was asked for")
            }
            UpstreamError::Connect { .. }
            | UpstreamError::Broken { .. }
            | UpstreamError::Timeout { .. }
            | UpstreamError::Open { .. } => self.to_string(),
        }
    }

    /// The error with what `change` makes of the text of its reply.
    #[must_use]
    pub fn with_text(mut self, change: impl FnOnce(&str) -> String) -> UpstreamError {
        match &mut self {
            UpstreamError::Limited { message: text, .. }
            | UpstreamError::Status { message: text, .. }
            | UpstreamError::Reply { reason: text, .. } => *text = change(text),
            UpstreamError::Connect { .. }
            | UpstreamError::Broken { .. }
            | UpstreamError::Timeout { .. }
            | UpstreamError::Open { .. } => {}
        }
        self
    }

    /// Whether the circuit breaker takes the upstream for ill.
    pub(crate) fn is_counted_by_breaker(&self) -> bool {
        match self {
            UpstreamError::Connect { .. } | UpstreamError::Broken { .. } | UpstreamError::Timeout { .. } => {
                true
            }
            UpstreamError::Status { status, .. } => *status >= 500,
            UpstreamError::Limited { .. } | UpstreamError::Reply { .. } | UpstreamError::Open { .. } => false,
        }
    }

    /// Whether the content of the request can be the cause. The upstream may fail for every other content, too.
    pub fn may_be_the_text(&self) -> bool {
        match self {
            UpstreamError::Status { status, .. } => matches!(status, 400 | 413 | 422),
            UpstreamError::Reply { .. } => true,
            UpstreamError::Connect { .. }
            | UpstreamError::Broken { .. }
            | UpstreamError::Timeout { .. }
            | UpstreamError::Limited { .. }
            | UpstreamError::Open { .. } => false,
        }
    }

    /// Time until the upstream accepts requests again, if it is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            UpstreamError::Limited { retry_after, .. } | UpstreamError::Status { retry_after, .. } => {
                *retry_after
            }
            UpstreamError::Open { retry_after, .. } => Some(*retry_after),
            UpstreamError::Connect { .. }
            | UpstreamError::Broken { .. }
            | UpstreamError::Timeout { .. }
            | UpstreamError::Reply { .. } => None,
        }
    }

    /// The value of the label `code` in metrics. Bounded: a status has three digits.
    pub(crate) fn label(&self) -> String {
        match self {
            UpstreamError::Connect { .. } => "connect".to_owned(),
            UpstreamError::Broken { .. } => "broken".to_owned(),
            UpstreamError::Timeout { .. } => "timeout".to_owned(),
            UpstreamError::Limited { .. } => "429".to_owned(),
            UpstreamError::Status { status, .. } => status.to_string(),
            UpstreamError::Reply { .. } => "reply".to_owned(),
            UpstreamError::Open { .. } => "breaker".to_owned(),
        }
    }
}

/// Upper bound of the characters that are repeated of an upstream's message.
const MESSAGE_CHARS_MAX: usize = 300;

/// The message in the body of an error, on one line: that of the known JSON shapes, else the body. All of it, because a part of what guardrails
/// look for is not found; it is cut where it is shown.
pub(crate) fn message(body: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let known = [&json["error"]["message"], &json["error"], &json["message"], &json["detail"]];
    let message = known.iter().find_map(|value| value.as_str()).unwrap_or(body);
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() { "nothing more".to_owned() } else { line }
}

/// A message as it is shown.
fn shortened(message: &str) -> Cow<'_, str> {
    match message.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &message[..end]).into(),
        None => message.into(),
    }
}

/// The delay that the details of an error ask for, as Gemini words it: `{"retryDelay": "34s"}`.
pub(crate) fn retry_delay(body: &str) -> Option<Duration> {
    let json: serde_json::Value = serde_json::from_str(body).ok()?;
    let json = json.get(0).unwrap_or(&json); // a list where a stream was asked for
    let details = json["error"]["details"].as_array()?;
    let delay = details.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

/// The delay that `retry-after-ms` or `Retry-After` asks for; a date counts from `now`.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str, unit: f64| Duration::try_from_secs_f64(text.parse::<f64>().ok()? * unit).ok();
    let date = |text| Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default());
    text("retry-after-ms")
        .and_then(|text| number(text, 1e-3))
        .or_else(|| text("retry-after").and_then(|text| number(text, 1.0).or_else(|| date(text))))
}

/// Longest value of a header that is passed on, in bytes.
const HEADER_BYTES_MAX: usize = 128;

/// Whether a header of a reply has a value of its kind, which can be passed on without a check of its text: a time to wait, a media type, or an id, a
/// version or a number for others.
pub fn has_plain_value(name: &HeaderName, value: &HeaderValue) -> bool {
    let Some(text) = value.to_str().ok().filter(|text| !text.is_empty() && text.len() <= HEADER_BYTES_MAX)
    else {
        return false;
    };
    if *name == RETRY_AFTER {
        return text.bytes().all(|byte| byte.is_ascii_digit()) || httpdate::parse_http_date(text).is_ok();
    }
    let more = if *name == CONTENT_TYPE { "/+; =\"" } else { "" };
    text.chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "_.:-".contains(letter) || more.contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_of_an_error_is_found_in_every_usual_shape() {
        for (body, expected) in [
            (r#"{"error":{"message":"too\nmuch"}}"#, "too much"),
            (r#"{"error":"no model","error_type":"Backend"}"#, "no model"),
            (r#"{"message":"m"}"#, "m"),
            (r#"{"detail":"d"}"#, "d"),
            ("Bad Gateway", "Bad Gateway"),
            ("", "nothing more"),
        ] {
            assert_eq!(message(body), expected);
        }
    }

    #[test]
    fn headers_with_a_value_of_another_kind_are_not_plain() {
        for (name, value, expected) in [
            ("retry-after", "20", true),
            ("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT", true),
            ("retry-after", "ann@example.com", false),
            ("retry-after", "X", false),
            ("request-id", "req_018EeWyXxfu5pfWkrYcMdjWG", true),
            ("request-id", "ann@example.com", false),
            ("request-id", "4111 1111 1111 1111", false),
            ("openai-model", "gpt-4o:a.b-1", true),
            ("content-type", "text/event-stream; charset=utf-8", true),
            ("content-type", "text/plain; a=ann@example.com", false),
        ] {
            let value = HeaderValue::from_str(value).unwrap();
            assert_eq!(has_plain_value(&name.parse().unwrap(), &value), expected, "{name}: {value:?}");
        }
        assert!(!has_plain_value(&"request-id".parse().unwrap(), &"a".repeat(129).parse().unwrap()));
    }

    #[test]
    fn a_long_message_is_cut_behind_what_changes_it() {
        let message = message(&format!("{} 4111 1111 1111 1111 end", "ä".repeat(285)));
        let error =
            UpstreamError::Status { upstream: "a".to_owned(), status: 500, message, retry_after: None };
        assert!(error.to_string().ends_with("ä 4111 1111 1111…"), "{error}");
        let changed = error.with_text(|text| text.replace("4111 1111 1111 1111", "[PAYMENT_CARD_1]"));
        assert!(changed.to_string().ends_with("ä [PAYMENT_CARD_…"), "{changed}");
    }

    #[test]
    fn the_delay_in_the_details_of_an_error_is_read() {
        let delay = |delay: &str| {
            retry_delay(&format!(r#"{{"error":{{"details":[{{}},{{"retryDelay":"{delay}"}}]}}}}"#))
        };
        assert_eq!(delay("34s"), Some(Duration::from_secs(34)));
        assert_eq!(delay("0.5s"), Some(Duration::from_millis(500)));
        assert_eq!(
            [delay("34"), delay("-1s"), delay("1e99s"), retry_delay("[]"), retry_delay("")],
            [None; 5]
        );
        assert_eq!(
            retry_delay(r#"[{"error":{"details":[{"retryDelay":"2s"}]}}]"#),
            Some(Duration::from_secs(2))
        );
    }

    #[test]
    fn every_form_of_retry_after_is_read() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let check = |sent: &[(&'static str, &'static str)], expected: Option<u64>| {
            let headers = sent
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), http::HeaderValue::from_static(value)))
                .collect();
            assert_eq!(retry_after(&headers, now), expected.map(Duration::from_millis), "{sent:?}");
        };
        check(&[], None);
        check(&[("retry-after-ms", "250"), ("retry-after", "9")], Some(250));
        check(&[("retry-after", "2")], Some(2000));
        check(&[("retry-after", "0.5")], Some(500));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT")], Some(3000));
        check(&[("retry-after", "Sun, 06 Nov 1994 08:49:30 GMT")], Some(0));
        check(&[("retry-after", "-1")], None);
        check(&[("retry-after", "soon")], None);
    }
}
