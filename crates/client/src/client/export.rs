//! `GET /v1/collections/{name}/export`, received while it is sent.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use super::collections::collection_path;
use crate::call::{ApiCall, CALL_TIMEOUT, Retries, in_time, with_query};
use crate::{Client, ClientError, Result, TransportError};

/// The documents of a collection as lines of JSON.
#[derive(Debug)]
pub struct Export {
    body: Incoming,
    url: String,
    /// Whether the last byte that was received ends a line.
    is_whole_line: bool,
    is_ended: bool,
}

impl Client {
    /// Exports the documents of a collection in the order of their ids, from the first one after the id `after`.
    pub async fn export(&self, collection: &str, after: Option<&str>) -> Result<Export> {
        let path = format!("{}/export", collection_path(collection));
        let call = ApiCall::get(with_query(path, &[("after", after.map(str::to_owned))]));
        let mut retries = Retries::begin(self.retries(), &call);
        loop {
            match in_time(self.open(&call)).await {
                Ok(response) => {
                    let (body, url) = (response.into_body(), self.url().to_owned());
                    return Ok(Export { body, url, is_whole_line: true, is_ended: false });
                }
                Err(failed) => retries.wait(failed, self.url(), |_| {}).await?,
            }
        }
    }
}

impl Export {
    /// The next bytes; `None` after the last ones.
    ///
    /// # Errors
    /// When the connection breaks, or the export fails at the gateway: what was received is not the whole.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        while !self.is_ended {
            let unreachable = |source| ClientError::Unreachable { url: self.url.clone(), source };
            let frame = tokio::time::timeout(CALL_TIMEOUT, self.body.frame()).await;
            let frame = frame.map_err(|_| unreachable(TransportError::Timeout(CALL_TIMEOUT)))?;
            match frame {
                None => self.is_ended = true,
                Some(Err(_)) => return Err(self.broken()),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data()
                        && let Some(last) = bytes.last()
                    {
                        self.is_whole_line = *last == b'\n';
                        return Ok(Some(bytes));
                    }
                }
            }
        }
        if self.is_whole_line { Ok(None) } else { Err(self.broken()) }
    }

    fn broken(&self) -> ClientError {
        let reason = "broke off before the export was complete; the log of the gateway has the reason";
        ClientError::Malformed { url: self.url.clone(), reason: reason.to_owned() }
    }
}
