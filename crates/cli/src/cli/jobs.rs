//! `weir jobs`.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use weir_api::{JobDocument, JobReply, JobStatus, JobWebhook};

use super::arguments::JobsArguments;
use super::context::Context;
use super::failure::{Failure, Result};
use super::interrupt::cancelled_by_ctrl_c;
use super::terminal::{Align, one_line, render_table};
use weir_access::unix_now;
use weir_client::{Client, JobDocumentsQuery, RetryPolicy};

/// The interval of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Documents of a job in one request.
const DOCUMENTS_PAGE: usize = 1_000;

/// Errors of documents that are shown per job.
const ERRORS_SHOWN_MAX: usize = 20;

/// Shows one job or all.
///
/// # Errors
/// When a call fails, and when the job named by its id has failed.
pub async fn run(arguments: &JobsArguments, context: Context<'_>) -> Result<()> {
    let (client, _) = context.connect(&arguments.url, RetryPolicy::NONE)?;
    let out = context.out;
    if let Some(id) = arguments.id.as_deref().filter(|_| arguments.documents) {
        return list_documents(&client, id, arguments, out).await;
    }
    let id = steer(&client, arguments).await?;
    let cancelled = arguments.watch.then(cancelled_by_ctrl_c);
    let is_redrawn = arguments.watch && !arguments.json && std::io::stdout().is_terminal();
    let (mut text_before, mut seen, mut has_events) = (String::new(), Seen::default(), true);
    loop {
        let (jobs, text) = fetch(&client, id.as_deref()).await?;
        if is_redrawn {
            write!(out, "\x1b[H\x1b[2J{}", render(&jobs, unix_now()))?;
        } else if !arguments.json {
            out.write_all(seen.render_news(&jobs, unix_now()).as_bytes())?;
        } else if text != text_before {
            writeln!(out, "{}", text.trim_end())?;
        }
        out.flush()?;
        let are_finished = jobs.iter().all(|job| job.status.is_finished());
        let Some(cancelled) = cancelled.as_ref().filter(|_| !are_finished) else {
            return check_success(arguments, &jobs);
        };
        text_before = text;
        match cancelled.run_until_cancelled(wait_for_change(&client, &jobs, has_events)).await {
            Some(is_event) => has_events = is_event,
            None => return Ok(()),
        }
    }
}

/// Cancels a job or tries its failed documents again, as the arguments say. Returns the id of the job to show; `None`: all.
async fn steer(client: &Client, arguments: &JobsArguments) -> Result<Option<String>> {
    let Some(id) = arguments.id.as_deref() else { return Ok(None) };
    if arguments.cancel {
        client.cancel_job(id).await?;
    }
    if arguments.retry_failed {
        return Ok(Some(client.retry_failed_documents(id, None).await?.parse()?.job_id));
    }
    Ok(Some(id.to_owned()))
}

/// Waits until one job changes, by its events; among several jobs, or where the gateway sends no events, for a while. Returns whether it
/// sends events.
async fn wait_for_change(client: &Client, jobs: &[JobReply], has_events: bool) -> bool {
    let (until, mut is_event) = (tokio::time::Instant::now() + WATCH_INTERVAL, false);
    if let [job] = jobs
        && has_events
        && let Ok(mut events) = client.job_events(&job.job_id).await
    {
        let known = JobReply { errors: Vec::new(), ..job.clone() };
        while let Some(Ok(state)) = events.next().await {
            is_event = true;
            if state.status.is_finished() {
                return true;
            }
            if state != known && tokio::time::Instant::now() >= until {
                break;
            }
        }
    }
    tokio::time::sleep_until(until).await;
    is_event
}

/// Lists the documents of a job, page by page.
async fn list_documents(
    client: &Client,
    id: &str,
    arguments: &JobsArguments,
    out: &mut dyn Write,
) -> Result<()> {
    let state = arguments.state.as_deref().and_then(|state| state.parse().ok());
    let query = JobDocumentsQuery { state, limit: Some(DOCUMENTS_PAGE) };
    let mut cursor = None;
    loop {
        let page = client.job_documents(id, &query, cursor.as_deref()).await?;
        for document in &page.data {
            match arguments.json {
                true => writeln!(out, "{}", serde_json::json!(document))?,
                false => writeln!(out, "{}", document_line(document))?,
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(out.flush()?);
        }
    }
}

fn document_line(document: &JobDocument) -> String {
    let (state, id) = (<&str>::from(document.state), one_line(&document.document_id));
    match (&document.code, &document.message) {
        (Some(code), Some(message)) => format!("{state:<10}  {id}: {code} ({})", one_line(message)),
        _ => format!("{state:<10}  {id}"),
    }
}

/// The jobs, and the reply's body.
async fn fetch(client: &Client, id: Option<&str>) -> Result<(Vec<JobReply>, String)> {
    match id {
        Some(id) => {
            let reply = client.job(id).await?;
            Ok((vec![reply.parse()?], reply.text().to_owned()))
        }
        None => {
            let reply = client.jobs().await?;
            Ok((reply.parse()?.data, reply.text().to_owned()))
        }
    }
}

fn check_success(arguments: &JobsArguments, jobs: &[JobReply]) -> Result<()> {
    match jobs {
        [job] if arguments.id.is_some() && job.status == JobStatus::Failed => {
            Err(Failure::Job(job.job_id.clone()))
        }
        _ => Ok(()),
    }
}

/// The jobs that were shown, with their states then.
#[derive(Default)]
struct Seen(HashMap<String, (JobStatus, u64, u64, u64)>);

impl Seen {
    /// The table the first time; later a line for each job that advanced since, and nothing when none did.
    fn render_news(&mut self, jobs: &[JobReply], now: f64) -> String {
        if jobs.is_empty() {
            return "no jobs\n".to_owned();
        }
        let is_first = self.0.is_empty();
        let news: Vec<JobReply> = jobs.iter().filter(|job| self.is_news(job)).cloned().collect();
        match (is_first, news.is_empty()) {
            (true, _) => render(&news, now),
            (false, true) => String::new(),
            (false, false) => {
                let table = render(&news, now);
                table.split_once('\n').map(|(_, rows)| rows.to_owned()).unwrap_or_default()
            }
        }
    }

    fn is_news(&mut self, job: &JobReply) -> bool {
        let state = (job.status, job.processed_documents, job.failed_documents, percent(job));
        self.0.insert(job.job_id.clone(), state) != Some(state)
    }
}

/// A table of jobs, and below it their errors.
fn render(jobs: &[JobReply], now: f64) -> String {
    if jobs.is_empty() {
        return "no jobs\n".to_owned();
    }
    let header = [
        ("JOB", Align::Left),
        ("COLLECTION", Align::Left),
        ("STATUS", Align::Left),
        ("DONE", Align::Right),
        ("FAILED", Align::Right),
        ("AGE", Align::Right),
        ("TIME", Align::Right),
    ];
    let rows: Vec<_> = jobs.iter().map(|job| row_of(job, now)).collect();
    let errors = jobs.iter().map(|job| render_errors(job, now));
    std::iter::once(render_table(header, &rows)).chain(errors).collect()
}

fn row_of(job: &JobReply, now: f64) -> [String; 7] {
    let end = job.finished_at.unwrap_or(now);
    [
        job.job_id.clone(),
        job.collection.clone(),
        <&str>::from(job.status).to_owned(),
        match job.status.is_finished() {
            false if job.eta_seconds.is_some() => format!(
                "{}/{} {}% {} left",
                job.processed_documents,
                job.total_documents,
                percent(job),
                render_seconds(job.eta_seconds.unwrap_or_default())
            ),
            true => format!("{}/{}", job.processed_documents, job.total_documents),
            false => format!("{}/{} {}%", job.processed_documents, job.total_documents, percent(job)),
        },
        job.failed_documents.to_string(),
        render_seconds(now - job.started_at),
        render_seconds(end - job.started_at),
    ]
}

fn percent(job: &JobReply) -> u64 {
    (job.progress * 100.0) as u64
}

fn render_errors(job: &JobReply, now: f64) -> String {
    let mut shown = String::new();
    if let Some(reason) = &job.waiting_for {
        let since = job.waiting_since.map(|since| format!(" for {}", render_seconds(now - since)));
        let since = since.unwrap_or_default();
        shown.push_str(&format!("{}: waits{since}: {}\n", job.job_id, one_line(reason)));
    }
    if let Some(JobWebhook { status, attempts, error: Some(error), .. }) = &job.webhook {
        let status: &str = status.into();
        shown.push_str(&format!(
            "{}: webhook {status} after {attempts} attempts: {}\n",
            job.job_id,
            one_line(error)
        ));
    }
    if let Some(error) = &job.error {
        shown.push_str(&format!("{}: {}\n", job.job_id, one_line(error)));
    }
    for error in job.errors.iter().take(ERRORS_SHOWN_MAX) {
        let (id, message) = (one_line(&error.document_id), one_line(&error.message));
        shown.push_str(&format!("{}: {id}: {} ({message})\n", job.job_id, error.code));
    }
    if job.errors.len() > ERRORS_SHOWN_MAX {
        shown.push_str(&format!("{}: and {} more\n", job.job_id, job.errors.len() - ERRORS_SHOWN_MAX));
    }
    shown
}

fn render_seconds(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else if seconds < 3600.0 {
        format!("{:.0} min", seconds / 60.0)
    } else if seconds < 86_400.0 {
        format!("{:.0} h", seconds / 3600.0)
    } else {
        format!("{:.0} d", seconds / 86_400.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::{ErrorCode, JobDocumentError};

    fn job(id: &str, processed: u64, finished_at: Option<f64>) -> JobReply {
        JobReply {
            job_id: id.into(),
            collection: "notes".into(),
            status: if finished_at.is_some() { JobStatus::Completed } else { JobStatus::Running },
            total_documents: 200,
            processed_documents: processed,
            failed_documents: 0,
            new_documents: processed,
            changed_documents: 0,
            unchanged_documents: 0,
            unread_files: 0,
            chunks: 400,
            progress: 0.0,
            cancelled_documents: 0,
            chunks_per_second: None,
            eta_seconds: None,
            waiting_for: None,
            waiting_since: None,
            error: None,
            started_at: 1_000.0,
            finished_at,
            operation: None,
            version: None,
            webhook: None,
            errors: Vec::new(),
        }
    }

    #[test]
    fn jobs_are_shown_in_a_table_with_their_errors_below() {
        let finished = JobReply {
            failed_documents: 1,
            errors: vec![JobDocumentError {
                document_id: "a".into(),
                code: ErrorCode::InvalidParameter,
                message: "the text is empty".into(),
            }],
            ..job("job_1", 199, Some(1_001.5))
        };
        assert_eq!(
            render(&[finished], 1_120.0),
            "JOB    COLLECTION  STATUS        DONE  FAILED    AGE   TIME\n\
             job_1  notes       completed  199/200       1  2 min  1.5 s\n\
             job_1: a: invalid_parameter (the text is empty)\n"
        );
        assert_eq!(render(&[], 0.0), "no jobs\n");
    }

    #[test]
    fn only_jobs_that_advanced_are_shown_again() {
        let mut jobs = [job("a", 0, None), job("b", 0, Some(9.0))];
        let mut seen = Seen::default();
        assert_eq!(seen.render_news(&jobs, 10.0).lines().count(), 3, "the header and both");
        assert_eq!(seen.render_news(&jobs, 70.0), "", "only their age changed");
        jobs[0].processed_documents = 1;
        let news = seen.render_news(&jobs, 80.0);
        assert!(news.starts_with("a  ") && news.lines().count() == 1, "{news}");
        jobs[0].progress = 0.375;
        assert!(seen.render_news(&jobs, 80.0).contains(" 1/200 37% "), "it advances within a document");
    }
}
