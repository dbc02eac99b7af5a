//! The plan of a run: requests, rate, length and expected responses.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use crate::stream::without_ids;
use crate::target::LoadTarget;

/// Largest number of connections.
pub const CONCURRENCY_MAX: usize = 10_000;
/// Largest number of generator threads.
pub const THREADS_MAX: usize = 64;
/// Largest number of requests in one run, without warm-up.
pub const REQUESTS_MAX: u64 = 100_000_000;
/// Longest run.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);
/// Length of a run without a given number of requests or duration.
pub const DURATION_DEFAULT: Duration = Duration::from_secs(10);
/// Highest constant rate, requests per second.
pub const RATE_MAX: f64 = 1_000_000.0;
/// Longest timeout of one request.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// Why a plan is invalid.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A value is outside its limits.
    #[error("{what} is {given}, but must be {allowed}")]
    OutOfRange {
        /// The setting.
        what: &'static str,
        /// Its value.
        given: String,
        /// The allowed values.
        allowed: String,
    },
    /// No request to send.
    #[error("there is no request to send; give at least one body")]
    NoRequests,
    /// A list of statuses can't be parsed.
    #[error("`{0}` isn't a list of statuses; write 2xx, 404, 200-299 or several separated by commas")]
    Status(String),
}

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Each connection sends the next request after the response to the previous one.
    ClosedLoop,
    /// Requests are due at fixed instants, `1 / per_second` apart, independent of responses.
    ConstantRate {
        /// Requests per second over all connections.
        per_second: f64,
    },
    /// Each connection sends one request, whose reply is read until the end of the run and then cut off.
    Hold,
}

/// When a run ends: at the first of these limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limit {
    /// Number of requests.
    pub requests: Option<u64>,
    /// Time after which no request is sent (closed loop) or due (constant rate).
    pub duration: Option<Duration>,
}

impl Limit {
    /// The effective duration: as given; the maximum if only `requests` is given; else the default.
    pub fn duration(&self) -> Duration {
        match (self.duration, self.requests) {
            (Some(duration), _) => duration,
            (None, Some(_)) => DURATION_MAX,
            (None, None) => DURATION_DEFAULT,
        }
    }
}

/// Everything that a run needs.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The target as the user wrote it, for the report.
    pub url: String,
    /// The address to connect to.
    pub target: LoadTarget,
    /// Rendered requests, sent in this order and repeated from the first.
    pub requests: Vec<Vec<u8>>,
    /// Whether the requests are `HEAD`, whose responses have no body.
    pub is_head: bool,
    /// Closed loop or constant rate.
    pub load: Load,
    /// Connections, 1 to [`CONCURRENCY_MAX`], each with at most one outstanding request.
    pub concurrency: usize,
    /// Generator threads, 1 to [`THREADS_MAX`]; connections are spread over them evenly.
    pub threads: usize,
    /// When the run ends.
    pub limit: Limit,
    /// Requests sent in the closed loop before anything is measured.
    pub warmup: u64,
    /// Timeout of one request, from sending. Does not end a reply that is held open.
    pub timeout: Duration,
    /// Which responses are successful.
    pub expect: Expect,
    /// Set when replies are streams of server-sent events.
    pub stream: Option<StreamExpect>,
    /// Server processes whose memory and CPU time are measured.
    pub pids: Vec<u32>,
    /// Whether to include their descendants.
    pub pid_tree: bool,
}

impl Plan {
    /// Checks every value against its limits.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.requests.is_empty() {
            return Err(PlanError::NoRequests);
        }
        in_range("concurrency", self.concurrency as u64, 1..=CONCURRENCY_MAX as u64)?;
        in_range("threads", self.threads as u64, 1..=THREADS_MAX as u64)?;
        in_range("requests", self.limit.requests.unwrap_or(1), 1..=REQUESTS_MAX)?;
        in_range("warmup", self.warmup, 0..=REQUESTS_MAX)?;
        time_in_range("duration", self.limit.duration(), DURATION_MAX)?;
        time_in_range("timeout", self.timeout, TIMEOUT_MAX)?;
        if let Load::ConstantRate { per_second } = self.load {
            let allowed = || format!("above 0 and at most {RATE_MAX}");
            if !(per_second > 0.0 && per_second <= RATE_MAX) {
                return Err(out_of_range("rate", per_second.to_string(), allowed()));
            }
            in_range("rate times duration", self.requests_max(), 1..=REQUESTS_MAX)?;
        }
        Ok(())
    }

    /// Largest number of requests that will be sent; at a constant rate, the exact number that will be due.
    pub fn requests_max(&self) -> u64 {
        let requests = self.limit.requests.unwrap_or(u64::MAX);
        match self.load {
            Load::ClosedLoop => requests.min(REQUESTS_MAX),
            Load::Hold => self.concurrency as u64,
            // Due before the end: 0/rate, 1/rate, …; the small term compensates rounding errors.
            Load::ConstantRate { per_second } => {
                let due = (per_second * self.limit.duration().as_secs_f64() - 1e-6).ceil();
                requests.min((due as u64).max(1))
            }
        }
    }

    /// How long one exchange may take: to the end of the run where replies are held open.
    pub(crate) fn exchange_timeout(&self) -> Duration {
        match self.load {
            Load::Hold => self.limit.duration() + self.timeout,
            Load::ClosedLoop | Load::ConstantRate { .. } => self.timeout,
        }
    }

    /// The bytes of request number `n`.
    pub(crate) fn request(&self, n: u64) -> &[u8] {
        &self.requests[(n % self.requests.len() as u64) as usize]
    }
}

fn out_of_range(what: &'static str, given: String, allowed: String) -> PlanError {
    PlanError::OutOfRange { what, given, allowed }
}

fn in_range(what: &'static str, given: u64, allowed: RangeInclusive<u64>) -> Result<(), PlanError> {
    if allowed.contains(&given) {
        return Ok(());
    }
    Err(out_of_range(what, given.to_string(), format!("{} to {}", allowed.start(), allowed.end())))
}

fn time_in_range(what: &'static str, given: Duration, max: Duration) -> Result<(), PlanError> {
    if given >= Duration::from_millis(1) && given <= max {
        return Ok(());
    }
    Err(out_of_range(what, format!("{given:?}"), format!("1ms to {max:?}")))
}

/// Which responses count as successful.
#[derive(Debug, Clone, Default)]
pub struct Expect {
    /// The statuses.
    pub status: ExpectedStatus,
    /// Text that must be in the first 16 MiB of the body.
    pub body: Option<String>,
}

/// Conditions of a successful stream of server-sent events, beside the end by `data: [DONE]`.
#[derive(Debug, Clone, Default)]
pub struct StreamExpect {
    /// Fewest events, `[DONE]` included.
    pub(crate) events_min: u64,
    /// The whole body without ids.
    pub(crate) reference: Option<Vec<u8>>,
}

impl StreamExpect {
    /// At least `events_min` events, `[DONE]` included, and the bytes of `reference` except for the values of `"id"`.
    pub fn new(events_min: u64, reference: Option<&[u8]>) -> StreamExpect {
        StreamExpect { events_min, reference: reference.map(without_ids) }
    }
}

/// A list of status ranges; 200 to 299 by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedStatus(Vec<RangeInclusive<u16>>);

impl ExpectedStatus {
    /// Whether `status` is in the list.
    pub fn contains(&self, status: u16) -> bool {
        self.0.iter().any(|range| range.contains(&status))
    }
}

impl Default for ExpectedStatus {
    fn default() -> ExpectedStatus {
        ExpectedStatus(vec![200..=299])
    }
}

impl FromStr for ExpectedStatus {
    type Err = PlanError;

    /// Parses `2xx`, `404`, `200-299` or several of them separated by commas.
    fn from_str(text: &str) -> Result<ExpectedStatus, PlanError> {
        let ranges: Option<Vec<_>> = text.split(',').map(|part| parse_status_range(part.trim())).collect();
        ranges.map(ExpectedStatus).ok_or_else(|| PlanError::Status(text.to_owned()))
    }
}

fn parse_status_range(text: &str) -> Option<RangeInclusive<u16>> {
    let code = |t: &str| t.parse::<u16>().ok().filter(|c| (200..=999).contains(c));
    if let Some(class) = text.strip_suffix("xx") {
        let first = class.parse::<u16>().ok().filter(|c| (2..=9).contains(c))? * 100;
        return Some(first..=first + 99);
    }
    match text.split_once('-') {
        Some((from, to)) => Some(code(from)?..=code(to)?).filter(|range| !range.is_empty()),
        None => code(text).map(|c| c..=c),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A plan that passes `check`, for tests to vary.
    pub(crate) fn plan() -> Plan {
        let url = "http://127.0.0.1:1/".to_owned();
        Plan {
            target: LoadTarget::parse(&url, false).unwrap(),
            url,
            requests: vec![b"a".to_vec(), b"b".to_vec()],
            is_head: false,
            load: Load::ClosedLoop,
            concurrency: 1,
            threads: 1,
            limit: Limit::default(),
            warmup: 0,
            timeout: Duration::from_secs(1),
            expect: Expect::default(),
            stream: None,
            pids: Vec::new(),
            pid_tree: false,
        }
    }

    #[test]
    fn the_schedule_contains_the_requests_due_before_its_end() {
        for (rate, ms, requests, expected) in [
            (500.0, 2000, None, 1000),
            (0.1, 10_000, None, 1),
            (3.0, 1000, None, 3),
            (1.0, 1500, None, 2),
            (500.0, 2000, Some(7), 7),
        ] {
            let mut plan = plan();
            plan.load = Load::ConstantRate { per_second: rate };
            plan.limit = Limit { requests, duration: Some(Duration::from_millis(ms)) };
            assert_eq!(plan.requests_max(), expected, "{rate}/s for {ms} ms, at most {requests:?}");
        }
    }

    #[test]
    fn a_hold_sends_one_request_per_connection_and_outlasts_the_timeout() {
        let mut plan = plan();
        (plan.load, plan.concurrency) = (Load::Hold, 30);
        plan.limit.duration = Some(Duration::from_secs(7));
        assert_eq!((plan.requests_max(), plan.exchange_timeout()), (30, Duration::from_secs(8)));
    }

    #[test]
    fn the_default_duration_is_ten_seconds_or_a_day_with_a_number_of_requests() {
        assert_eq!(Limit::default().duration(), Duration::from_secs(10));
        assert_eq!(Limit { requests: Some(5), duration: None }.duration(), Duration::from_secs(86_400));
    }

    #[test]
    fn values_out_of_range_are_rejected_by_name() {
        let check = |change: fn(&mut Plan), expected: &str| {
            let mut plan = plan();
            change(&mut plan);
            assert_eq!(plan.check().unwrap_err().to_string(), expected);
        };
        assert!(plan().check().is_ok());
        check(|p| p.concurrency = 0, "concurrency is 0, but must be 1 to 10000");
        check(|p| p.limit.requests = Some(0), "requests is 0, but must be 1 to 100000000");
        check(
            |p| p.limit.duration = Some(Duration::from_secs(86_401)),
            "duration is 86401s, but must be 1ms to 86400s",
        );
        check(
            |p| p.load = Load::ConstantRate { per_second: f64::NAN },
            "rate is NaN, but must be above 0 and at most 1000000",
        );
        check(|p| p.requests.clear(), "there is no request to send; give at least one body");
    }

    #[test]
    fn statuses_are_parsed_as_classes_codes_ranges_and_lists() {
        let parse = |text: &str| text.parse::<ExpectedStatus>();
        assert_eq!(parse("2xx").unwrap(), ExpectedStatus::default());
        let list = parse("2xx, 404,500-502").unwrap();
        let accepted: Vec<u16> =
            [199, 200, 299, 300, 404, 405, 500, 502, 503].into_iter().filter(|s| list.contains(*s)).collect();
        assert_eq!(accepted, [200, 299, 404, 500, 502]);
        for text in ["", "xx", "1xx", "20", "abc", "300-200", "200,"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn requests_repeat_in_order() {
        let plan = plan();
        let sent: Vec<&[u8]> = (0..5).map(|n| plan.request(n)).collect();
        assert_eq!(sent, [b"a", b"b", b"a", b"b", b"a"]);
    }
}
