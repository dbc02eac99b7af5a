//! `/v1/ingest` and `/v1/jobs`.

use std::time::Duration;

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use weir_api::{Document, IngestRequest, JobDocument, JobDocumentState, JobReply, List};

use super::documents::{Condition, WriteOptions};
use super::pages::{Listing, Pages};
use crate::call::{ApiCall, Retries, encode, in_time, with_query};
use crate::events::EventReader;
use crate::{Client, Reply, Result};

/// The first and the longest delay between two looks at a job.
pub(crate) const POLL_FIRST: Duration = Duration::from_millis(10);
pub(crate) const POLL_MAX: Duration = Duration::from_millis(500);

/// Documents in one request.
#[derive(Serialize)]
struct DocumentsBody<'a> {
    collection: &'a str,
    documents: &'a [Document],
    #[serde(skip_serializing_if = "Option::is_none")]
    webhook_url: Option<&'a str>,
}

impl Client {
    /// Sends documents. `report` is called with the reason before each delay of a second or more.
    pub async fn ingest(&self, request: &IngestRequest<'_>, report: impl FnMut(&str)) -> Result<JobReply> {
        self.reply(ApiCall::post("/v1/ingest", request), report).await?.parse()
    }

    /// Sends documents in one request. They are stored when this returns, and searchable when the job is finished:
    /// [`Client::wait_for_job`]. [`ingest`](crate::ingest) sends any number.
    pub async fn ingest_documents(&self, collection: &str, documents: &[Document]) -> Result<JobReply> {
        self.ingest_documents_with(collection, documents, WriteOptions::default()).await
    }

    /// The same with a key, or a webhook. The condition of the options is not used.
    pub async fn ingest_documents_with(
        &self,
        collection: &str,
        documents: &[Document],
        options: WriteOptions<'_>,
    ) -> Result<JobReply> {
        let body = DocumentsBody { collection, documents, webhook_url: options.webhook_url };
        let options = WriteOptions { condition: Condition::Always, ..options };
        self.value(options.of(ApiCall::post("/v1/ingest", &body))?).await
    }

    /// The newest jobs, on one page.
    pub async fn jobs(&self) -> Result<Reply<List<JobReply>>> {
        self.reply(ApiCall::get("/v1/jobs"), |_| {}).await
    }

    /// A page of jobs, newest first. `cursor` is the `next_cursor` of the page before.
    pub async fn jobs_page(&self, limit: usize, cursor: Option<&str>) -> Result<List<JobReply>> {
        self.value(listing(limit).page(cursor)).await
    }

    /// All jobs, newest first, in pages of up to `limit`, 1 to 100.
    pub fn job_pages(&self, limit: usize) -> Pages<'_, JobReply> {
        Pages::new(self, listing(limit))
    }

    /// One job.
    pub async fn job(&self, id: &str) -> Result<Reply<JobReply>> {
        self.reply(ApiCall::get(format!("/v1/jobs/{}", encode(id))), |_| {}).await
    }

    /// A page of the documents of a job, each with its state.
    pub async fn job_documents(
        &self,
        id: &str,
        query: &JobDocumentsQuery,
        cursor: Option<&str>,
    ) -> Result<List<JobDocument>> {
        let state = query.state.map(|state| <&str>::from(state).to_owned());
        let parameters = vec![("state", state), ("limit", query.limit.map(|limit| limit.to_string()))];
        let path = format!("/v1/jobs/{}/documents", encode(id));
        self.value(Listing { path, parameters }.page(cursor)).await
    }

    /// Cancels a job: what is searchable by now stays, the rest is not embedded.
    pub async fn cancel_job(&self, id: &str) -> Result<Reply<JobReply>> {
        self.reply(ApiCall::post_nothing(format!("/v1/jobs/{}/cancel", encode(id))), |_| {}).await
    }

    /// Stores the failed and the cancelled documents of a job again, with the new job that is returned, whose end is reported to `webhook_url`.
    pub async fn retry_failed_documents(
        &self,
        id: &str,
        webhook_url: Option<&str>,
    ) -> Result<Reply<JobReply>> {
        let parameters = [("webhook_url", webhook_url.map(str::to_owned))];
        let path = with_query(format!("/v1/jobs/{}/retry-failed", encode(id)), &parameters);
        self.reply(ApiCall::post_nothing(path).once(), |_| {}).await
    }

    /// The states of a job as they change, from the present one to the last.
    pub async fn job_events(&self, id: &str) -> Result<JobStream> {
        let call = ApiCall::get(format!("/v1/jobs/{}/events", encode(id)));
        let mut retries = Retries::begin(self.retries(), &call);
        loop {
            match in_time(self.open(&call)).await {
                Ok(response) => {
                    let has_events = is_event_stream(response.headers());
                    let reader = EventReader::new(response, self.url());
                    return match has_events {
                        true => Ok(JobStream { reader, is_ended: false }),
                        false => Err(reader.malformed("is no stream of events")),
                    };
                }
                Err(failed) => retries.wait(failed, self.url(), |_| {}).await?,
            }
        }
    }

    /// Waits until a job is finished. Its `status` says whether it is completed, failed or cancelled.
    pub async fn wait_for_job(&self, id: &str) -> Result<JobReply> {
        let mut delay = POLL_FIRST;
        loop {
            let job = self.job(id).await?.parse()?;
            if job.status.is_finished() {
                return Ok(job);
            }
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(POLL_MAX);
        }
    }
}

fn listing(limit: usize) -> Listing {
    Listing { path: "/v1/jobs".to_owned(), parameters: vec![("limit", Some(limit.to_string()))] }
}

/// Which documents of a job are listed.
#[derive(Debug, Clone, Copy, Default)]
pub struct JobDocumentsQuery {
    /// Those of this state; all without it.
    pub state: Option<JobDocumentState>,
    /// Documents on a page, 1 to 1,000; 100 without it.
    pub limit: Option<usize>,
}

/// The states of a job.
#[derive(Debug)]
pub struct JobStream {
    reader: EventReader,
    is_ended: bool,
}

impl JobStream {
    /// The next state; those before the last one are without `errors`. `None` after the last state, and when the stream was interrupted: ask
    /// again then. Cancel safe.
    ///
    /// # Errors
    /// When an event is not what the API says.
    pub async fn next(&mut self) -> Option<Result<JobReply>> {
        if self.is_ended {
            return None;
        }
        let job = match self.reader.next().await {
            Ok(Some(event)) => {
                self.is_ended = event.name == "end";
                let not_a_job = |_| self.reader.malformed("has an event that is not of a job");
                serde_json::from_slice(&event.data).map_err(not_a_job)
            }
            Ok(None) => {
                self.is_ended = true;
                return None;
            }
            Err(error) => Err(error),
        };
        self.is_ended |= job.is_err();
        Some(job)
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|media| media.as_bytes().starts_with(b"text/event-stream"))
}
