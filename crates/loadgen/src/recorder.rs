//! Counters and histograms of one generator thread. Those of all threads are merged at the end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::{CreationError, Histogram};

use crate::client::{Failure, FailureKind, Traffic};
use crate::response_check::ResponseCheck;
use crate::stream::StreamTimes;

/// Largest value of a histogram; longer times count as this.
const TIME_MAX: Duration = Duration::from_secs(3600);
/// Significant digits of a recorded time: precision 0.1 %.
const DIGITS: u8 = 3;

/// The instants of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestTimes {
    /// The scheduled instant; in the closed loop, the same as `sent`.
    pub(crate) due: Instant,
    /// Start of sending.
    pub(crate) sent: Instant,
    /// End of the response, or the failure.
    pub(crate) done: Instant,
}

/// Counters and histograms of successful streams.
pub(crate) struct StreamRecorder {
    /// From the due instant to the head of the reply.
    pub(crate) first_byte: Histogram<u64>,
    /// From the due instant to the end of the first event.
    pub(crate) first_event: Histogram<u64>,
    /// Between the ends of two events of a reply.
    pub(crate) gap: Histogram<u64>,
    /// Events of a reply.
    pub(crate) events: Histogram<u64>,
    /// Events of all replies.
    pub(crate) events_total: u64,
}

impl StreamRecorder {
    fn new(empty: &Histogram<u64>) -> StreamRecorder {
        let histogram = || Histogram::new_from(empty);
        StreamRecorder {
            first_byte: histogram(),
            first_event: histogram(),
            gap: histogram(),
            events: histogram(),
            events_total: 0,
        }
    }

    fn record(&mut self, due: Instant, times: &StreamTimes) {
        let since_due = |at: Instant| nanos(at.saturating_duration_since(due));
        if let Some(at) = times.first_byte {
            self.first_byte.saturating_record(since_due(at));
        }
        if let Some(at) = times.first_event {
            self.first_event.saturating_record(since_due(at));
        }
        for gap in &times.gaps {
            self.gap.saturating_record(nanos(*gap));
        }
        self.events.saturating_record(times.events);
        self.events_total += times.events;
    }

    fn merge(&mut self, other: &StreamRecorder) {
        // Adding fails only for histograms of different bounds.
        let _ = self.first_byte.add(&other.first_byte);
        let _ = self.first_event.add(&other.first_event);
        let _ = self.gap.add(&other.gap);
        let _ = self.events.add(&other.events);
        self.events_total += other.events_total;
    }
}

/// Counters and histograms (nanoseconds) of one thread or of a whole run.
pub(crate) struct Recorder {
    /// From the due instant to the end: expected responses, timeouts and requests that were never sent.
    pub(crate) response: Histogram<u64>,
    /// From sending to the end: expected responses and timeouts.
    pub(crate) service: Histogram<u64>,
    /// Delay of sending caused by the generator itself, without the wait for a free connection. Constant rate only.
    pub(crate) lateness: Histogram<u64>,
    /// Requests that found every connection busy when they were due. Constant rate only.
    pub(crate) queued: u64,
    pub(crate) sent: u64,
    pub(crate) ok: u64,
    /// From sending to the end of complete responses, expected or not, by status.
    pub(crate) statuses: BTreeMap<u16, Histogram<u64>>,
    pub(crate) failures: BTreeMap<FailureKind, u64>,
    /// Description of the first failure of each kind.
    pub(crate) examples: BTreeMap<FailureKind, String>,
    pub(crate) streams: StreamRecorder,
    pub(crate) traffic: Traffic,
    pub(crate) last_done: Option<Instant>,
    /// User and system time of the generator's threads.
    pub(crate) cpu: Duration,
}

impl Recorder {
    pub(crate) fn new() -> Result<Recorder, CreationError> {
        let empty = Histogram::new_with_bounds(1, nanos(TIME_MAX), DIGITS)?;
        let histogram = || Histogram::new_from(&empty);
        Ok(Recorder {
            response: histogram(),
            service: histogram(),
            lateness: histogram(),
            streams: StreamRecorder::new(&empty),
            queued: 0,
            sent: 0,
            ok: 0,
            statuses: BTreeMap::new(),
            failures: BTreeMap::new(),
            examples: BTreeMap::new(),
            traffic: Traffic::default(),
            last_done: None,
            cpu: Duration::ZERO,
        })
    }

    /// Records a request that was sent and the response that `check` received; of streams that are as expected, their times.
    pub(crate) fn record_reply(
        &mut self,
        times: RequestTimes,
        check: &ResponseCheck<'_>,
        outcome: Result<(), Failure>,
    ) {
        if let (Some(stream), Ok(())) = (check.stream_times(), &outcome) {
            self.streams.record(times.due, stream);
        }
        self.record(times, check.status(), outcome);
    }

    /// Records a request that was sent, the status of its response and its outcome.
    pub(crate) fn record(&mut self, times: RequestTimes, status: u16, outcome: Result<(), Failure>) {
        self.sent += 1;
        self.last_done = self.last_done.max(Some(times.done));
        let kind = outcome.as_ref().err().map(|failure| failure.kind);
        if kind.is_none_or(FailureKind::is_of_complete_response) {
            self.status_histogram(status).saturating_record(nanos(times.done - times.sent));
        }
        // The true time of a timeout is unknown, but at least this; without it the percentiles would be too low.
        if matches!(kind, None | Some(FailureKind::Timeout)) {
            self.response.saturating_record(nanos(times.done - times.due));
            self.service.saturating_record(nanos(times.done - times.sent));
        }
        match outcome {
            Ok(()) => self.ok += 1,
            Err(failure) => self.record_failures(failure, 1),
        }
    }

    /// Records how late a request was sent: it was due at `due`, and its connection became free at `free`.
    pub(crate) fn record_lateness(&mut self, due: Instant, free: Instant, sent: Instant) {
        self.queued += u64::from(free > due);
        self.lateness.saturating_record(nanos(sent.saturating_duration_since(due.max(free))));
    }

    /// Records a request that was due but never sent within `waited`.
    pub(crate) fn record_unsent(&mut self, waited: Duration) {
        self.response.saturating_record(nanos(waited));
        let detail = "no connection became free within the timeout after the end of the schedule";
        self.record_failures(Failure::new(FailureKind::Unsent, detail), 1);
    }

    pub(crate) fn add_traffic(&mut self, traffic: Traffic) {
        self.traffic.sent_bytes += traffic.sent_bytes;
        self.traffic.received_bytes += traffic.received_bytes;
        self.traffic.connects += traffic.connects;
    }

    /// Adds the counters of another thread.
    pub(crate) fn merge(&mut self, other: Recorder) {
        // Adding fails only for histograms of different bounds.
        let _ = self.response.add(&other.response);
        let _ = self.service.add(&other.service);
        let _ = self.lateness.add(&other.lateness);
        self.streams.merge(&other.streams);
        self.queued += other.queued;
        self.sent += other.sent;
        self.ok += other.ok;
        for (status, service) in other.statuses {
            let _ = self.status_histogram(status).add(&service);
        }
        for (kind, count) in other.failures {
            let detail = other.examples.get(&kind).cloned().unwrap_or_default();
            self.record_failures(Failure { kind, detail }, count);
        }
        self.add_traffic(other.traffic);
        self.last_done = self.last_done.max(other.last_done);
        self.cpu += other.cpu;
    }

    fn status_histogram(&mut self, status: u16) -> &mut Histogram<u64> {
        let empty = || Histogram::new_from(&self.service);
        self.statuses.entry(status).or_insert_with(empty)
    }

    fn record_failures(&mut self, failure: Failure, count: u64) {
        *self.failures.entry(failure.kind).or_default() += count;
        self.examples.entry(failure.kind).or_insert(failure.detail);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(recorder: &mut Recorder, response_ms: u64, service_ms: u64, outcome: Result<(), Failure>) {
        let due = Instant::now();
        let done = due + Duration::from_millis(response_ms);
        let times = RequestTimes { due, sent: done - Duration::from_millis(service_ms), done };
        recorder.record(times, 200, outcome);
    }

    fn failure(kind: FailureKind) -> Result<(), Failure> {
        Err(Failure::new(kind, <&str>::from(kind)))
    }

    #[test]
    fn expected_responses_and_timeouts_are_timed_and_other_failures_only_counted() {
        let mut recorder = Recorder::new().unwrap();
        record(&mut recorder, 30, 10, Ok(()));
        record(&mut recorder, 50, 40, failure(FailureKind::Timeout));
        record(&mut recorder, 1, 1, failure(FailureKind::BadStatus));
        record(&mut recorder, 1, 1, failure(FailureKind::Reset));
        recorder.record_unsent(Duration::from_millis(70));
        let counts = (recorder.sent, recorder.ok, recorder.response.len(), recorder.service.len());
        assert_eq!(counts, (4, 1, 3, 2));
        assert_eq!(recorder.statuses.keys().collect::<Vec<_>>(), [&200]);
        let completed = &recorder.statuses[&200];
        assert_eq!((completed.len(), completed.min() / 1_000_000), (2, 0)); // the unexpected response took 1 ms, to 0.1 %
        assert_eq!(recorder.response.max() / 1_000_000, 70);
        assert_eq!(recorder.service.min() / 1_000_000, 9); // 10 ms, to 0.1 %
        assert_eq!(recorder.failures[&FailureKind::Unsent], 1);
    }

    #[test]
    fn lateness_excludes_the_wait_for_a_free_connection() {
        let mut recorder = Recorder::new().unwrap();
        let due = Instant::now();
        let at = |ms| due + Duration::from_millis(ms);
        recorder.record_lateness(due, due, at(2));
        recorder.record_lateness(due, at(100), at(101));
        assert_eq!(recorder.queued, 1);
        assert_eq!((recorder.lateness.len(), recorder.lateness.max() / 1_000_000), (2, 2));
    }

    #[test]
    fn merging_adds_all_counters_and_keeps_the_first_example() {
        let (mut a, mut b) = (Recorder::new().unwrap(), Recorder::new().unwrap());
        record(&mut a, 1, 1, Ok(()));
        record(&mut b, 9, 9, Ok(()));
        record(&mut b, 1, 1, failure(FailureKind::Closed));
        b.add_traffic(Traffic { sent_bytes: 5, received_bytes: 7, connects: 1 });
        a.merge(b);
        assert_eq!((a.sent, a.ok, a.response.len(), a.traffic.received_bytes), (3, 2, 2, 7));
        assert_eq!(a.statuses[&200].len(), 2);
        assert_eq!(a.examples[&FailureKind::Closed], "closed");
    }
}
