//! `/v1/ingest` and `/v1/jobs`.

use std::time::Duration;

use serde::Serialize;
use weir_api::{Document, IngestRequest, JobReply, List};

use super::pages::{Listing, Pages};
use crate::call::{Call, encode};
use crate::{Client, Reply, Result};

/// The first and the longest delay between two looks at a job.
pub(crate) const POLL_FIRST: Duration = Duration::from_millis(10);
pub(crate) const POLL_MAX: Duration = Duration::from_millis(500);

/// Documents in one request.
#[derive(Serialize)]
struct DocumentsBody<'a> {
    collection: &'a str,
    documents: &'a [Document],
}

impl Client {
    /// Sends documents. `report` is called with the reason before each delay of a second or more.
    pub async fn ingest(&self, request: &IngestRequest<'_>, report: impl FnMut(&str)) -> Result<JobReply> {
        self.reply(Call::post("/v1/ingest", request), report).await?.parse()
    }

    /// Sends documents in one request. They are stored when this returns, and searchable when the job is finished:
    /// [`Client::wait_for_job`]. [`ingest`](crate::ingest) sends any number.
    pub async fn ingest_documents(&self, collection: &str, documents: &[Document]) -> Result<JobReply> {
        self.value(Call::post("/v1/ingest", &DocumentsBody { collection, documents })).await
    }

    /// The newest jobs, on one page.
    pub async fn jobs(&self) -> Result<Reply<List<JobReply>>> {
        self.reply(Call::get("/v1/jobs"), |_| {}).await
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
        self.reply(Call::get(format!("/v1/jobs/{}", encode(id))), |_| {}).await
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
