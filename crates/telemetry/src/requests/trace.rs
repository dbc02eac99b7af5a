//! W3C Trace Context: the headers `traceparent` and `tracestate`.

use std::sync::Arc;

/// Version, trace id, span id and flags.
const TRACEPARENT_BYTES: usize = 55;
/// Longest `tracestate` that is passed on: the specification requires at least 512 characters.
const TRACESTATE_BYTES_MAX: usize = 4096;
const SAMPLED: u8 = 1;

/// The place of a request in a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    pub(super) trace_id: u128,
    /// Of this request; of the caller if this gateway exports no spans.
    pub(super) span_id: u64,
    /// Of the caller.
    pub(super) parent_id: Option<u64>,
    flags: u8,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// Parses the headers of a request. An invalid `traceparent` is ignored, and `tracestate` with it.
    pub(super) fn parse(parent: &str, state: Option<&str>) -> Option<TraceContext> {
        let bytes = parent.as_bytes();
        let hex = |range: std::ops::Range<usize>| {
            let digits = parent.get(range)?;
            let is_lower = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            is_lower.then(|| u128::from_str_radix(digits, 16).ok())?
        };
        let version = hex(0..2).filter(|version| *version != 0xff)?;
        let ends = match version {
            0 => bytes.len() == TRACEPARENT_BYTES,
            _ => bytes.len() == TRACEPARENT_BYTES || bytes.get(TRACEPARENT_BYTES) == Some(&b'-'),
        };
        if !ends || [2, 35, 52].iter().any(|&at| bytes[at] != b'-') {
            return None;
        }
        let trace_id = hex(3..35).filter(|id| *id != 0)?;
        let span_id = hex(36..52).and_then(|id| u64::try_from(id).ok()).filter(|id| *id != 0)?;
        let flags = u8::try_from(hex(53..55)?).ok()?;
        let state = state.map(str::trim).filter(|state| {
            !state.is_empty()
                && state.len() <= TRACESTATE_BYTES_MAX
                && state.bytes().all(|b| (b' '..=b'~').contains(&b))
        });
        Some(TraceContext { trace_id, span_id, parent_id: None, flags, state: state.map(Arc::from) })
    }

    /// A span below this one.
    pub(super) fn child(self) -> TraceContext {
        TraceContext { span_id: rand::random_range(1..=u64::MAX), parent_id: Some(self.span_id), ..self }
    }

    /// The first span of a new trace.
    pub(super) fn root(is_sampled: bool) -> TraceContext {
        TraceContext {
            trace_id: rand::random_range(1..=u128::MAX),
            span_id: rand::random_range(1..=u64::MAX),
            parent_id: None,
            flags: if is_sampled { SAMPLED } else { 0 },
            state: None,
        }
    }

    /// Whether its spans are recorded.
    pub(super) fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The value of `traceparent` for a call on behalf of this request.
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }

    /// The value of `tracestate` for the same call.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_header_is_passed_on_and_an_invalid_one_is_ignored() {
        let check = |text: &str, expected: Option<&str>| {
            let parsed = TraceContext::parse(text, Some("a=1,b=2"));
            assert_eq!(parsed.as_ref().map(TraceContext::traceparent).as_deref(), expected, "{text}");
            assert_eq!(parsed.as_ref().and_then(TraceContext::tracestate), expected.map(|_| "a=1,b=2"));
        };
        check(VALID, Some(VALID));
        check(&VALID.replace("-01", "-00"), Some(&VALID.replace("-01", "-00")));
        check(&VALID.replacen("00", "cc", 1), Some(VALID)); // a later version
        check(&format!("{}-more", VALID.replacen("00", "01", 1)), Some(VALID));
        check(&format!("{VALID}-more"), None);
        check(&format!("{}.more", VALID.replacen("00", "01", 1)), None);
        check(&VALID.replacen("00", "ff", 1), None);
        check(&VALID.to_uppercase(), None);
        check(&VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)), None);
        check(&VALID.replace("00f067aa0ba902b7", &"0".repeat(16)), None);
        check(&VALID.replace("-01", "_01"), None);
        check(&VALID.replace("-01", "-+1"), None);
        check(&format!("{}é", &VALID[..53]), None);
        for end in 0..VALID.len() {
            check(&VALID[..end], None);
        }
    }

    #[test]
    fn a_child_keeps_the_trace_and_has_its_own_span() {
        let parent = TraceContext::parse(VALID, None).unwrap();
        let child = parent.clone().child();
        assert_eq!((child.trace_id, child.parent_id), (parent.trace_id, Some(parent.span_id)));
        assert_ne!(child.span_id, parent.span_id);
        assert!(child.is_sampled() && !TraceContext::root(false).is_sampled());
    }
}
