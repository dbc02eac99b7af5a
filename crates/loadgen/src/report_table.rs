//! The report as a table, for a terminal.

use crate::client::FailureKind;
use crate::process_usage::ServerUsage;
use crate::report::{Latency, Report};
use crate::stream_report::StreamReport;

impl Report {
    /// A few lines of text, warnings last.
    pub fn to_table(&self) -> String {
        let mut lines = vec![self.render_head(), String::new()];
        lines.push(format!("  {:<11}{}", "ms", Latency::render_names(&self.latency)));
        if let Some(schedule) = &self.schedule {
            lines.push(format!("  {:<11}{}", "response", self.latency.render()));
            lines.push(format!("  {:<11}{}", "service", self.service.render()));
            lines.extend(self.render_statuses());
            lines.push(format!("  {:<11}{}", "lateness", schedule.lateness.render()));
        } else {
            lines.push(format!("  {:<11}{}", "latency", self.latency.render()));
            lines.extend(self.render_statuses());
        }
        lines.extend(self.stream.iter().flat_map(StreamReport::render_times));
        lines.push(String::new());
        lines.push(self.render_requests());
        lines.extend(self.stream.iter().map(|stream| self.render_events(stream)));
        lines.extend(self.failures.iter().map(|(kind, count)| self.render_failure(*kind, *count)));
        lines.push(format!(
            "  bytes      {} sent, {} received, {} reconnects",
            format_bytes(self.sent_bytes),
            format_bytes(self.received_bytes),
            self.reconnects
        ));
        lines.push(format!(
            "  generator  {:.2} s CPU, {:.2} cores",
            self.generator_cpu_s,
            self.generator_cores_mean()
        ));
        lines.extend(self.server.iter().flat_map(|server| self.render_server(server)));
        lines.extend(self.warnings.iter().map(|warning| format!("  WARNING    {warning}")));
        lines.join("\n") + "\n"
    }

    fn render_head(&self) -> String {
        let mode = match &self.schedule {
            None if self.is_hold => "streams held open".to_owned(),
            None => "closed loop".to_owned(),
            Some(schedule) => format!("constant {}/s", schedule.rate_target_per_s),
        };
        format!(
            "{}\n  {mode}, {} connections, {:.2} s: {:.1} requests/s",
            self.url, self.concurrency, self.duration_s, self.requests_per_s
        )
    }

    /// The service time of each status, unless all responses were successful with one status.
    fn render_statuses(&self) -> impl Iterator<Item = String> {
        let differs = self.statuses.len() > 1 || self.has_failures();
        let row = |(status, times): (&u16, &Latency)| {
            format!("  {:<11}{}", format!("  of {status}"), times.render())
        };
        self.statuses.iter().filter(move |_| differs).map(row)
    }

    fn render_requests(&self) -> String {
        let statuses: Vec<_> =
            self.statuses.iter().map(|(status, times)| format!("{status}: {}", times.count)).collect();
        let queued = self.schedule.as_ref().map_or(String::new(), |schedule| {
            format!(", {} found every connection busy when due", schedule.requests_queued)
        });
        format!(
            "  requests   {} sent, {} ok, {} failed{queued}; status {}",
            self.requests_sent,
            self.requests_ok,
            self.requests_failed,
            if statuses.is_empty() { "none".to_owned() } else { statuses.join(", ") }
        )
    }

    fn render_events(&self, stream: &StreamReport) -> String {
        let cpu = self.cpu_us_per_event().map_or(String::new(), |us| format!(", {us:.1} us CPU per event"));
        format!(
            "  events     {} received; {} to {} per reply, {:.1} on average{cpu}",
            stream.events,
            stream.events_per_reply_min,
            stream.events_per_reply_max,
            stream.events_per_reply_mean
        )
    }

    fn render_failure(&self, kind: FailureKind, count: u64) -> String {
        let example = self.failure_examples.get(&kind).map_or("", String::as_str);
        format!("  FAILED     {count} {}, first: {example}", <&str>::from(kind))
    }

    fn render_server(&self, server: &ServerUsage) -> Vec<String> {
        let per_cpu_s = self.requests_per_cpu_s().map_or("-".to_owned(), |n| format!("{n:.0}"));
        let total = format!(
            "  server     {:.2} s CPU, {:.2} cores, {per_cpu_s} requests per CPU second; \
             RSS {} at start, {} mean, {} max, {} at end",
            server.cpu_s,
            server.cores_mean,
            format_bytes(server.rss_bytes_start),
            format_bytes(server.rss_bytes_mean),
            format_bytes(server.rss_bytes_max),
            format_bytes(server.rss_bytes_end)
        );
        let each = server.processes.iter().map(|p| {
            format!(
                "    {:<9}{}: {:.2} s CPU, RSS {} max",
                p.pid,
                p.name,
                p.cpu_s,
                format_bytes(p.rss_bytes_max)
            )
        });
        std::iter::once(total).chain(each).collect()
    }
}

impl StreamReport {
    fn render_times(&self) -> [String; 3] {
        [("1st byte", &self.first_byte), ("1st event", &self.first_event), ("gaps", &self.gap)]
            .map(|(name, times)| format!("  {name:<11}{}", times.render()))
    }
}

impl Latency {
    fn render_names(&self) -> String {
        self.columns().iter().map(|(name, _)| format!("{name:>10}")).collect()
    }

    fn render(&self) -> String {
        self.columns().iter().map(|(_, ms)| format!("{ms:>10.3}")).collect()
    }
}

fn format_bytes(count: u64) -> String {
    const MIB: f64 = 1024.0 * 1024.0;
    match count {
        0..10_240 => format!("{count} B"),
        10_240..10_485_760 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / MIB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Load;
    use crate::report::tests::report;

    #[test]
    fn each_kind_of_failure_has_one_line() {
        let table = report(Load::ClosedLoop).to_table();
        assert!(table.contains("101 sent, 100 ok, 1 failed; status 200: 100, 503: 1\n"), "{table}");
        assert!(table.contains("FAILED     1 bad_status, first: 503 {\"error\": }\n"), "{table}");
    }

    #[test]
    fn bytes_are_printed_in_the_unit_that_keeps_them_short() {
        let shown = [0, 10_239, 10_240, 10_485_759, 10_485_760].map(format_bytes);
        assert_eq!(shown, ["0 B", "10239 B", "10.0 KiB", "10240.0 KiB", "10.0 MiB"]);
    }
}
