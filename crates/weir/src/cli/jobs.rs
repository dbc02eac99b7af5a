//! `weir jobs`.

use std::io::IsTerminal;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_api::{JobReply, JobStatus};

use super::arguments::JobsArguments;
use super::context::Context;
use super::failure::{Failure, Result};
use super::interrupt::cancelled_by_ctrl_c;
use super::terminal::one_line;
use weir_client::{Client, RetryPolicy};

/// The interval of `--watch`.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Errors of documents that are shown per job.
const ERRORS_SHOWN_MAX: usize = 20;

/// Shows one job or all.
///
/// # Errors
/// When a call fails, and when the job named by its id has failed.
pub async fn run(arguments: &JobsArguments, context: Context<'_>) -> Result<()> {
    let (client, _) = context.connect(&arguments.url, RetryPolicy::NONE)?;
    let out = context.out;
    let cancelled = arguments.watch.then(cancelled_by_ctrl_c);
    let is_redrawn = arguments.watch && !arguments.json && std::io::stdout().is_terminal();
    let mut shown_before = String::new();
    loop {
        let (jobs, text) = fetch(&client, arguments.id.as_deref()).await?;
        let shown = if arguments.json { format!("{}\n", text.trim_end()) } else { render(&jobs, now()) };
        if is_redrawn {
            write!(out, "\x1b[H\x1b[2J{shown}")?;
        } else if shown != shown_before {
            out.write_all(shown.as_bytes())?;
        }
        out.flush()?;
        let are_finished = jobs.iter().all(|job| job.status.is_finished());
        let Some(cancelled) = cancelled.as_ref().filter(|_| !are_finished) else {
            return check_success(arguments, &jobs);
        };
        shown_before = shown;
        if cancelled.run_until_cancelled(tokio::time::sleep(WATCH_INTERVAL)).await.is_none() {
            return Ok(());
        }
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

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A table of jobs, and below it their errors.
fn render(jobs: &[JobReply], now: f64) -> String {
    if jobs.is_empty() {
        return "no jobs\n".to_owned();
    }
    let width = jobs.iter().map(|job| job.job_id.len()).max().unwrap_or_default().max(3);
    let mut shown = format!(
        "{:<width$}  {:<9}  {:>15}  {:>6}  {:>8}  {:>8}\n",
        "JOB", "STATUS", "DONE", "FAILED", "AGE", "TIME"
    );
    for job in jobs {
        let done = format!("{}/{}", job.processed_documents, job.total_documents);
        let end = job.finished_at.unwrap_or(now);
        shown.push_str(&format!(
            "{:<width$}  {:<9}  {done:>15}  {:>6}  {:>8}  {:>8}\n",
            job.job_id,
            <&str>::from(job.status),
            job.failed_documents,
            render_seconds(now - job.started_at),
            render_seconds(end - job.started_at),
        ));
    }
    for job in jobs {
        shown.push_str(&render_errors(job));
    }
    shown
}

fn render_errors(job: &JobReply) -> String {
    let mut shown = String::new();
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

    #[test]
    fn jobs_are_shown_in_a_table_with_their_errors_below() {
        let finished = JobReply {
            job_id: "job_1".into(),
            status: JobStatus::Completed,
            total_documents: 200,
            processed_documents: 199,
            failed_documents: 1,
            new_documents: 199,
            changed_documents: 0,
            unchanged_documents: 0,
            chunks: 400,
            error: None,
            started_at: 1_000.0,
            finished_at: Some(1_001.5),
            errors: vec![JobDocumentError {
                document_id: "a".into(),
                code: ErrorCode::InvalidParameter,
                message: "the text is empty".into(),
            }],
        };
        assert_eq!(
            render(&[finished], 1_120.0),
            "JOB    STATUS                DONE  FAILED       AGE      TIME\n\
             job_1  completed          199/200       1     2 min     1.5 s\n\
             job_1: a: invalid_parameter (the text is empty)\n"
        );
        assert_eq!(render(&[], 0.0), "no jobs\n");
    }
}
