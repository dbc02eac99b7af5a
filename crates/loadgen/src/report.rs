//! The report of a run: typed, and as JSON with stable names.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Map, Value, json};
use strum::VariantArray as _;

use crate::client::FailureKind;
use crate::excerpt::excerpt;
use crate::plan::{Load, Plan};
use crate::process_usage::ServerUsage;
use crate::recorder::Recorder;
use crate::stream_report::StreamReport;

/// 99th percentile of lateness above which a warning says that the generator was too slow.
const LATENESS_P99_MS_MAX: f64 = 1.0;
/// Share of requests that found every connection busy, above which a warning says so.
const QUEUED_SHARE_MAX: f64 = 0.01;
/// CPU use per generator thread above which a warning says that the generator may be the limit.
const CORES_PER_THREAD_MAX: f64 = 0.9;

/// Percentiles of a time in milliseconds, precise to 0.1 %; all zero when nothing was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Number of recorded times.
    pub count: u64,
    /// Arithmetic mean.
    pub ms_mean: f64,
    /// Median.
    pub ms_p50: f64,
    /// 90th percentile.
    pub ms_p90: f64,
    /// 95th percentile.
    pub ms_p95: f64,
    /// 99th percentile.
    pub ms_p99: f64,
    /// 99.9th percentile.
    pub ms_p999: f64,
    /// Longest.
    pub ms_max: f64,
}

impl Latency {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Latency {
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let at = |quantile| ms(histogram.value_at_quantile(quantile));
        Latency {
            count: histogram.len(),
            ms_mean: histogram.mean() / 1e6,
            ms_p50: at(0.5),
            ms_p90: at(0.9),
            ms_p95: at(0.95),
            ms_p99: at(0.99),
            ms_p999: at(0.999),
            ms_max: ms(histogram.max()),
        }
    }

    pub(crate) fn columns(&self) -> [(&'static str, f64); 7] {
        [
            ("mean", self.ms_mean),
            ("p50", self.ms_p50),
            ("p90", self.ms_p90),
            ("p95", self.ms_p95),
            ("p99", self.ms_p99),
            ("p999", self.ms_p999),
            ("max", self.ms_max),
        ]
    }
}

/// How closely a constant-rate run followed its schedule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleReport {
    /// Requests per second that were due.
    pub rate_target_per_s: f64,
    /// Requests that found every connection busy when they were due.
    pub requests_queued: u64,
    /// Delay of sending caused by the generator itself, without the wait for a free connection.
    #[serde(flatten, with = "late")]
    pub lateness: Latency,
}

// The names in JSON are stable and end with their unit.
serde_with::with_prefix!(latency "latency_");
serde_with::with_prefix!(service "service_");
serde_with::with_prefix!(late "late_");
serde_with::with_prefix!(server "server_");

/// The result of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The given URL.
    pub url: String,
    /// Connections.
    pub concurrency: usize,
    /// Generator threads.
    pub threads: usize,
    /// Warm-up requests, which are not measured.
    pub requests_warmup: u64,
    /// Timeout of one request.
    pub timeout_ms: f64,
    /// From start to the last response; at a constant rate, at least the length of the schedule.
    pub duration_s: f64,
    /// Requests sent.
    pub requests_sent: u64,
    /// Requests with a complete, expected response before their timeout.
    pub requests_ok: u64,
    /// Failed requests, including those that were due but never sent.
    pub requests_failed: u64,
    /// Successful requests per second.
    pub requests_per_s: f64,
    /// Latency seen by a caller: from the due instant at a constant rate, from sending in the closed loop.
    #[serde(flatten, with = "latency")]
    pub latency: Latency,
    /// From sending to the last byte of the response. Equal to `latency` in the closed loop.
    #[serde(flatten, with = "service")]
    pub service: Latency,
    /// Constant rate only.
    #[serde(flatten)]
    pub schedule: Option<ScheduleReport>,
    /// Streams only.
    #[serde(flatten)]
    pub stream: Option<StreamReport>,
    /// Whether the replies were held open to the end of the run.
    #[serde(skip)]
    pub is_hold: bool,
    /// From sending to the last byte of complete responses, expected or not, by status.
    #[serde(skip)]
    pub statuses: BTreeMap<u16, Latency>,
    /// Failures by kind; kinds that did not occur are missing.
    #[serde(skip)]
    pub failures: BTreeMap<FailureKind, u64>,
    /// Description of the first failure of each kind.
    pub failure_examples: BTreeMap<FailureKind, String>,
    /// Bytes of all requests.
    pub sent_bytes: u64,
    /// Bytes of all responses, including their heads.
    pub received_bytes: u64,
    /// Connections opened during the run, besides those opened before it.
    pub reconnects: u64,
    /// User and system time of the generator's threads during the run.
    pub generator_cpu_s: f64,
    /// Memory and CPU time of the server's processes, if any were given.
    #[serde(flatten, with = "server")]
    pub server: Option<ServerUsage>,
    /// Reasons why the figures may not mean what they seem to.
    pub warnings: Vec<String>,
}

impl Report {
    pub(crate) fn new(
        plan: &Plan,
        total: Recorder,
        elapsed: Duration,
        server: Option<ServerUsage>,
    ) -> Report {
        let duration_s = elapsed.as_secs_f64();
        let mut report = Report {
            url: plan.url.clone(),
            concurrency: plan.concurrency,
            threads: plan.threads.min(plan.concurrency),
            requests_warmup: plan.warmup,
            timeout_ms: plan.timeout.as_secs_f64() * 1e3,
            duration_s,
            requests_sent: total.sent,
            requests_ok: total.ok,
            requests_failed: total.failures.values().sum(),
            requests_per_s: ratio(total.ok as f64, duration_s),
            latency: Latency::of(&total.response),
            service: Latency::of(&total.service),
            schedule: schedule_report(plan, &total),
            stream: plan.stream.as_ref().map(|_| StreamReport::new(&total.streams)),
            is_hold: plan.load == Load::Hold,
            statuses: total.statuses.iter().map(|(status, times)| (*status, Latency::of(times))).collect(),
            failures: total.failures,
            failure_examples: total.examples.into_iter().map(shorten_example).collect(),
            sent_bytes: total.traffic.sent_bytes,
            received_bytes: total.traffic.received_bytes,
            reconnects: total.traffic.connects,
            generator_cpu_s: total.cpu.as_secs_f64(),
            server,
            warnings: Vec::new(),
        };
        report.warnings = report.find_warnings();
        report
    }

    /// Whether any request failed.
    pub fn has_failures(&self) -> bool {
        self.requests_failed > 0
    }

    /// Successful requests per second of the server's CPU time; `None` when that was not measured or is zero.
    pub fn requests_per_cpu_s(&self) -> Option<f64> {
        let server = self.server.as_ref()?;
        (server.cpu_s > 0.0).then(|| self.requests_ok as f64 / server.cpu_s)
    }

    /// CPU time of the server for each event of a stream, in microseconds; `None` without events or when it was not measured.
    pub fn cpu_us_per_event(&self) -> Option<f64> {
        let (server, stream) = (self.server.as_ref()?, self.stream.as_ref()?);
        (stream.events > 0).then(|| server.cpu_s * 1e6 / stream.events as f64)
    }

    pub(crate) fn generator_cores_mean(&self) -> f64 {
        ratio(self.generator_cpu_s, self.duration_s)
    }

    fn find_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(schedule) = &self.schedule {
            self.add_schedule_warnings(schedule, &mut warnings);
        }
        let cores = self.generator_cores_mean();
        if cores > CORES_PER_THREAD_MAX * self.threads as f64 {
            warnings.push(format!(
                "the generator used {cores:.2} of {} cores: it may be the limit instead of the server; raise --threads",
                self.threads
            ));
        }
        let not_errors: u64 = self.statuses.range(..400).map(|(_, times)| times.count).sum();
        if self.requests_ok > not_errors {
            warnings.push(
                "error statuses count as success in every figure except those by status: fast errors improve the others"
                    .to_owned(),
            );
        }
        for pid in self.server.iter().flat_map(|server| &server.ended) {
            warnings.push(format!("process {pid} ended during the run: its figures are incomplete"));
        }
        warnings
    }

    fn add_schedule_warnings(&self, schedule: &ScheduleReport, warnings: &mut Vec<String>) {
        if schedule.lateness.ms_p99 > LATENESS_P99_MS_MAX {
            warnings.push(format!(
                "the generator did not keep its schedule: 1 % of the requests were sent {:.3} ms late or more; \
                 lower --rate, raise --threads or free some CPU",
                schedule.lateness.ms_p99
            ));
        }
        let share = ratio(schedule.requests_queued as f64, self.requests_sent as f64);
        if share > QUEUED_SHARE_MAX {
            warnings.push(format!(
                "{:.1} % of the requests found every connection busy when they were due: the server stalled, \
                 {}/s is above its capacity, or --concurrency {} is too low",
                share * 100.0,
                schedule.rate_target_per_s,
                self.concurrency
            ));
        }
        if let Some(unsent) = self.failures.get(&FailureKind::Unsent) {
            warnings.push(format!(
                "{unsent} requests were due but never sent: their wait so far is in the percentiles, and the true \
                 latencies are higher"
            ));
        }
    }

    /// The report as a flat JSON object; names end with their unit and are stable.
    pub fn to_json(&self) -> Value {
        let mut report = json!(self);
        report["tool"] = json!("weir-bench");
        report["version"] = json!(env!("CARGO_PKG_VERSION"));
        report["mode"] = json!(match (&self.schedule, self.is_hold) {
            (Some(_), _) => "rate",
            (None, true) => "hold",
            (None, false) => "closed",
        });
        let counts = self.statuses.iter().map(|(status, times)| (status.to_string(), times.count));
        report["statuses"] = json!(BTreeMap::from_iter(counts));
        report["service_by_status"] = json!(BTreeMap::from_iter(self.statuses.iter().map(by_status)));
        let failed = |kind: &FailureKind| (*kind, self.failures.get(kind).copied().unwrap_or(0));
        report["failures"] = json!(BTreeMap::from_iter(FailureKind::VARIANTS.iter().map(failed)));
        report["generator_cores_mean"] = json!(self.generator_cores_mean());
        if self.server.is_some() {
            report["server_requests_per_cpu_s"] = json!(self.requests_per_cpu_s());
        }
        if let Some(cpu_us) = self.cpu_us_per_event() {
            report["server_cpu_us_per_event"] = json!(cpu_us);
        }
        report
    }
}

fn schedule_report(plan: &Plan, total: &Recorder) -> Option<ScheduleReport> {
    match plan.load {
        Load::ClosedLoop | Load::Hold => None,
        Load::ConstantRate { per_second } => Some(ScheduleReport {
            rate_target_per_s: per_second,
            requests_queued: total.queued,
            lateness: Latency::of(&total.lateness),
        }),
    }
}

/// Shortens the example of a failure to one line; that of an unexpected status is `status body`.
fn shorten_example((kind, example): (FailureKind, String)) -> (FailureKind, String) {
    let shown = match example.split_once(' ') {
        Some((status, body)) if kind == FailureKind::BadStatus => format!("{status} {}", excerpt(body)),
        Some(_) | None => excerpt(&example),
    };
    (kind, shown)
}

fn by_status((status, times): (&u16, &Latency)) -> (String, Map<String, Value>) {
    let columns = times.columns().map(|(name, ms)| (format!("ms_{name}"), json!(ms)));
    (status.to_string(), Map::from_iter(columns))
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::client::Failure;
    use crate::plan::tests::plan;
    use crate::recorder::RequestTimes;
    use std::time::Instant;

    /// A run of two seconds: 100 expected responses after 1 to 100 ms, and one 503.
    pub(crate) fn report(load: Load) -> Report {
        let mut plan = plan();
        plan.load = load;
        let mut total = Recorder::new().unwrap();
        let due = Instant::now();
        for ms in 1..=100 {
            let done = due + Duration::from_millis(ms);
            total.record_lateness(due, due, due);
            total.record(RequestTimes { due, sent: due, done }, 200, Ok(()));
        }
        let failure = Failure::new(FailureKind::BadStatus, "503 {\"error\":\n}");
        total.record(RequestTimes { due, sent: due, done: due }, 503, Err(failure));
        total.cpu = Duration::from_millis(100);
        Report::new(&plan, total, Duration::from_secs(2), None)
    }

    #[test]
    fn percentiles_and_throughput_are_precise_to_a_thousandth() {
        let report = report(Load::ClosedLoop);
        assert_eq!(report.requests_per_s, 50.0);
        let latency = report.latency;
        assert_eq!((latency.count, report.requests_failed), (100, 1));
        for (found, expected) in [
            (latency.ms_mean, 50.5),
            (latency.ms_p50, 50.0),
            (latency.ms_p90, 90.0),
            (latency.ms_p95, 95.0),
            (latency.ms_p99, 99.0),
            (latency.ms_p999, 100.0),
            (latency.ms_max, 100.0),
        ] {
            assert!((found / expected - 1.0).abs() < 0.001, "{found} for {expected}");
        }
    }

    #[test]
    fn json_names_are_stable() {
        let keys = |load| {
            let json = report(load).to_json();
            json.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
        };
        let closed = "concurrency duration_s failure_examples failures generator_cores_mean generator_cpu_s \
            latency_count latency_ms_max latency_ms_mean latency_ms_p50 latency_ms_p90 latency_ms_p95 \
            latency_ms_p99 latency_ms_p999 mode received_bytes reconnects requests_failed requests_ok \
            requests_per_s requests_sent requests_warmup sent_bytes service_by_status service_count service_ms_max \
            service_ms_mean service_ms_p50 service_ms_p90 service_ms_p95 service_ms_p99 service_ms_p999 \
            statuses threads timeout_ms tool url version warnings";
        let mut sorted: Vec<String> = keys(Load::ClosedLoop).split(' ').map(str::to_owned).collect();
        sorted.sort();
        assert_eq!(sorted.join(" "), closed);
        for key in ["late_ms_p99", "rate_target_per_s", "requests_queued"] {
            assert!(keys(Load::ConstantRate { per_second: 50.0 }).contains(key), "{key}");
        }
    }

    #[test]
    fn error_statuses_that_count_as_success_cause_a_warning() {
        let mut report = report(Load::ClosedLoop);
        assert_eq!(report.find_warnings(), Vec::<String>::new());
        report.requests_ok += 1;
        assert!(
            report.find_warnings()[0].starts_with("error statuses count as success"),
            "{:?}",
            report.find_warnings()
        );
    }

    #[test]
    fn json_contains_the_latency_of_each_status() {
        let json = report(Load::ClosedLoop).to_json();
        assert_eq!(json["statuses"], json!({ "200": 100, "503": 1 }));
        let (right, refused) = (&json["service_by_status"]["200"], &json["service_by_status"]["503"]);
        assert!((right["ms_p99"].as_f64().unwrap() / 99.0 - 1.0).abs() < 0.001, "{right}");
        assert!(refused["ms_max"].as_f64().unwrap() < 0.001, "{refused}");
    }

    #[test]
    fn a_schedule_that_was_not_kept_causes_warnings() {
        let mut report = report(Load::ConstantRate { per_second: 50.0 });
        assert_eq!(report.find_warnings(), Vec::<String>::new());
        let schedule = report.schedule.as_mut().unwrap();
        schedule.lateness.ms_p99 = 1.5;
        schedule.requests_queued = 2;
        report.generator_cpu_s = 1.9;
        let starts: Vec<String> = report.find_warnings().iter().map(|w| w[..32].to_owned()).collect();
        assert_eq!(
            starts,
            [
                "the generator did not keep its s",
                "2.0 % of the requests found ever",
                "the generator used 0.95 of 1 core"
            ]
            .map(|w| w[..32].to_owned())
        );
    }
}
