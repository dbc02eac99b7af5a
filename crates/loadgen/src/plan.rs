//! What to send, how fast, for how long, and what to expect: everything that is known before a run.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use crate::target::Target;

/// Most connections.
pub const CONCURRENCY_MAX: usize = 10_000;
/// Most generator threads.
pub const THREADS_MAX: usize = 64;
/// Most requests of one run, warm-up not included.
pub const REQUESTS_MAX: u64 = 100_000_000;
/// Longest run.
pub const DURATION_MAX: Duration = Duration::from_secs(24 * 3600);
/// Length of a run for which neither requests nor a duration were given.
pub const DURATION_DEFAULT: Duration = Duration::from_secs(10);
/// Highest constant rate, requests per second.
pub const RATE_MAX: f64 = 1_000_000.0;
/// Longest timeout of one request.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// Why a plan can't be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A number outside its limits.
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
    /// A status expectation that can't be read.
    #[error("`{given}` isn't a list of statuses; write 2xx, 404, 200-299 or several with commas")]
    Status {
        /// What was given.
        given: String,
    },
}

/// How requests follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// Each connection sends the next request when the last was answered.
    Closed,
    /// Requests are due at fixed instants, `1 / per_second` apart, whether or not answers come.
    Rate {
        /// Requests per second over all connections.
        per_second: f64,
    },
}

/// When a run ends: at whichever comes first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limit {
    /// Number of requests.
    pub requests: Option<u64>,
    /// Time; in the closed loop no request is sent after it, at a constant rate none is due after it.
    pub duration: Option<Duration>,
}

impl Limit {
    /// The duration that holds: as given, the longest allowed if only requests were, else the default.
    pub fn duration(&self) -> Duration {
        match (self.duration, self.requests) {
            (Some(duration), _) => duration,
            (None, Some(_)) => DURATION_MAX,
            (None, None) => DURATION_DEFAULT,
        }
    }
}

/// Everything about one run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The target as the user wrote it, for the report.
    pub url: String,
    /// Where to connect.
    pub target: Target,
    /// Rendered requests, sent in this order, again from the first after the last.
    pub requests: Vec<Vec<u8>>,
    /// Whether the requests are `HEAD`, whose answers have no body.
    pub to_head: bool,
    /// Closed loop or constant rate.
    pub load: Load,
    /// Connections, 1 to [`CONCURRENCY_MAX`]; at most one request is under way on each.
    pub concurrency: usize,
    /// Generator threads, 1 to [`THREADS_MAX`]; connections are spread over them evenly.
    pub threads: usize,
    /// When the run ends.
    pub limit: Limit,
    /// Requests sent in the closed loop before anything is measured.
    pub warmup: u64,
    /// Longest wait for one answer, from sending.
    pub timeout: Duration,
    /// Which answers are right.
    pub expect: Expect,
    /// Server processes whose memory and CPU are read from `/proc`.
    pub pids: Vec<u32>,
    /// Whether their descendants count too.
    pub pid_tree: bool,
}

impl Plan {
    /// Checks every number against its limits.
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
        if let Load::Rate { per_second } = self.load {
            let allowed = || format!("above 0 and at most {RATE_MAX}");
            if !(per_second > 0.0 && per_second <= RATE_MAX) {
                return Err(out_of_range("rate", per_second.to_string(), allowed()));
            }
            in_range("rate times duration", self.planned(), 1..=REQUESTS_MAX)?;
        }
        Ok(())
    }

    /// How many requests will be sent at most; at a constant rate exactly how many will be due.
    pub fn planned(&self) -> u64 {
        let requests = self.limit.requests.unwrap_or(u64::MAX);
        match self.load {
            Load::Closed => requests.min(REQUESTS_MAX),
            // Requests due before the end: 0/rate, 1/rate, …; the small term forgives float error.
            Load::Rate { per_second } => {
                let due = (per_second * self.limit.duration().as_secs_f64() - 1e-6).ceil();
                requests.min((due as u64).max(1))
            }
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

/// Which answers count as right.
#[derive(Debug, Clone, Default)]
pub struct Expect {
    /// The statuses.
    pub status: ExpectedStatus,
    /// Text that the body must hold within its first 16 MiB.
    pub body: Option<String>,
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

    /// Reads `2xx`, `404`, `200-299` or several of them with commas between.
    fn from_str(text: &str) -> Result<ExpectedStatus, PlanError> {
        let ranges: Option<Vec<_>> = text.split(',').map(|part| parse_status_range(part.trim())).collect();
        ranges.map(ExpectedStatus).ok_or_else(|| PlanError::Status { given: text.to_owned() })
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
            target: Target::parse(&url, false).unwrap(),
            url,
            requests: vec![b"a".to_vec(), b"b".to_vec()],
            to_head: false,
            load: Load::Closed,
            concurrency: 1,
            threads: 1,
            limit: Limit::default(),
            warmup: 0,
            timeout: Duration::from_secs(1),
            expect: Expect::default(),
            pids: Vec::new(),
            pid_tree: false,
        }
    }

    #[test]
    fn planned_requests_are_those_due_before_the_end() {
        for (rate, ms, requests, expected) in [
            (500.0, 2000, None, 1000),
            (0.1, 10_000, None, 1),
            (3.0, 1000, None, 3),
            (1.0, 1500, None, 2),
            (500.0, 2000, Some(7), 7),
        ] {
            let mut plan = plan();
            plan.load = Load::Rate { per_second: rate };
            plan.limit = Limit { requests, duration: Some(Duration::from_millis(ms)) };
            assert_eq!(plan.planned(), expected, "{rate}/s for {ms} ms, at most {requests:?}");
        }
    }

    #[test]
    fn a_run_without_limits_lasts_ten_seconds_and_one_with_requests_at_most_a_day() {
        assert_eq!(Limit::default().duration(), Duration::from_secs(10));
        assert_eq!(Limit { requests: Some(5), duration: None }.duration(), Duration::from_secs(86_400));
    }

    #[test]
    fn numbers_out_of_range_are_refused_by_name() {
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
            |p| p.load = Load::Rate { per_second: f64::NAN },
            "rate is NaN, but must be above 0 and at most 1000000",
        );
        check(|p| p.requests.clear(), "there is no request to send; give at least one body");
    }

    #[test]
    fn statuses_are_read_as_classes_codes_ranges_and_lists() {
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
    fn bodies_are_cycled_in_order() {
        let plan = plan();
        let sent: Vec<&[u8]> = (0..5).map(|n| plan.request(n)).collect();
        assert_eq!(sent, [b"a", b"b", b"a", b"b", b"a"]);
    }
}
