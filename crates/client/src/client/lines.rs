//! `POST /v1/ingest` with a document on each line, which is sent while the documents are made.

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use weir_api::{Document, LINES_MEDIA_TYPE, LinesReply};

use crate::call::{ApiCall, with_query};
use crate::transport::RequestBody;
use crate::{Client, ClientError, Result};

/// Bytes of lines that are sent together.
const PART_BYTES: usize = 64 << 10;
/// Bytes of a line of the reply, at most: it has up to 10,000 ids of jobs.
const REPLY_BYTES_MAX: usize = 4 << 20;

/// Where documents go, and how.
#[derive(Debug, Clone, Copy)]
pub struct LinesOptions<'a> {
    /// The collection.
    pub collection: &'a str,
    /// Fields of the metadata in which a stored document must equal the one that replaces it.
    pub replace_if_equal: &'a [&'a str],
    /// Whether all documents are searchable, or have failed, when the call returns. Otherwise they are on disk.
    pub wait: bool,
}

impl Default for LinesOptions<'_> {
    fn default() -> Self {
        LinesOptions { collection: weir_api::DEFAULT_COLLECTION, replace_if_equal: &[], wait: false }
    }
}

impl Client {
    /// Sends any number of documents in one request, at constant memory: each is made when the gateway takes it. A bad document fails alone.
    /// `progress` gets the counts so far, at most once a second; the reply that is returned has those of all documents.
    ///
    /// # Errors
    /// When the stream breaks off; what was acknowledged is stored, and the message says from which line on to send again. Repeating the call with
    /// all documents is safe: those that are stored are not changed.
    pub async fn ingest_lines<I>(
        &self,
        documents: I,
        options: LinesOptions<'_>,
        mut progress: impl FnMut(&LinesReply),
    ) -> Result<LinesReply>
    where
        I: IntoIterator<Item = Document>,
        I::IntoIter: Send + 'static,
    {
        let mut parameters = vec![("collection", Some(options.collection.to_owned()))];
        let compared = options.replace_if_equal.iter();
        parameters.extend(compared.map(|field| ("replace_if_equal", Some((*field).to_owned()))));
        parameters.push(("wait", Some(options.wait.to_string())));
        let call = ApiCall::post_nothing(with_query("/v1/ingest".to_owned(), &parameters))
            .with_header(CONTENT_TYPE, LINES_MEDIA_TYPE)
            .with_header(ACCEPT, LINES_MEDIA_TYPE);
        let response = self.open_stream(&call, body_of(documents.into_iter())).await?;
        let mut replies = Replies { body: response.into_body(), url: self.url(), received: BytesMut::new() };
        let mut all = LinesReply::default();
        while let Some(reply) = replies.next().await? {
            let (mut jobs, mut errors) = (std::mem::take(&mut all.jobs), std::mem::take(&mut all.errors));
            jobs.extend_from_slice(&reply.jobs);
            errors.extend_from_slice(&reply.errors);
            all = LinesReply { jobs, errors, ..reply };
            if let Some(error) = &all.error {
                return Err(ClientError::Refused { code: error.code, message: error.message.clone() });
            }
            if all.done {
                return Ok(all);
            }
            progress(&all);
        }
        let reason = format!(
            "broke off; the lines up to {} are stored, send those from {} on again",
            all.lines,
            all.lines + 1
        );
        Err(ClientError::Malformed { url: self.url().to_owned(), reason })
    }
}

/// The lines of documents, each made when it is sent.
fn body_of(documents: impl Iterator<Item = Document> + Send + 'static) -> RequestBody {
    let mut documents = documents.fuse();
    let parts = std::iter::from_fn(move || {
        let mut part = Vec::with_capacity(PART_BYTES);
        for document in documents.by_ref() {
            // texts and checked JSON always have a JSON form
            part.extend_from_slice(&serde_json::to_vec(&document).unwrap_or_default());
            part.push(b'\n');
            if part.len() >= PART_BYTES {
                break;
            }
        }
        (!part.is_empty()).then(|| Ok(Frame::data(Bytes::from(part))))
    });
    StreamBody::new(futures_util::stream::iter(parts)).boxed_unsync()
}

/// The lines of a reply.
struct Replies<'a> {
    body: Incoming,
    url: &'a str,
    received: BytesMut,
}

impl Replies<'_> {
    /// The next line; `None` when the reply ended or broke off.
    async fn next(&mut self) -> Result<Option<LinesReply>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line = self.received.split_to(end + 1);
                let reply = serde_json::from_slice(&line);
                return reply
                    .map(Some)
                    .map_err(|error| self.malformed(&format!("is not as expected: {error}")));
            }
            if self.received.len() > REPLY_BYTES_MAX {
                return Err(self.malformed(&format!("has a line of more than {REPLY_BYTES_MAX} bytes")));
            }
            let Some(Ok(frame)) = self.body.frame().await else { return Ok(None) };
            if let Ok(bytes) = frame.into_data() {
                self.received.extend_from_slice(&bytes);
            }
        }
    }

    fn malformed(&self, reason: &str) -> ClientError {
        ClientError::Malformed { url: self.url.to_owned(), reason: reason.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn documents_are_made_while_they_are_sent() {
        let made = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = made.clone();
        let documents = (0..).map(move |number: usize| {
            count.store(number + 1, std::sync::atomic::Ordering::Relaxed);
            Document { id: Some(number.to_string()), text: "a weir ".repeat(10), ..Document::default() }
        });
        let mut body = body_of(documents);
        let part = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let lines = part.split(|byte| *byte == b'\n').count() - 1;
        assert!(part.len() < PART_BYTES + 1_000, "{}", part.len());
        assert_eq!(made.load(std::sync::atomic::Ordering::Relaxed), lines);
    }
}
