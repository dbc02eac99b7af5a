//! The client of a gateway. Its calls are in a file for each subject.

mod collections;
mod documents;
mod export;
mod jobs;
mod keys;
mod lines;
mod models;
mod monitoring;
mod pages;
mod quality;
mod search;
mod upload;

pub use documents::{Condition, DocumentsQuery, WriteOptions};
pub use export::Export;
pub use jobs::{JobDocumentsQuery, JobStream};
pub(crate) use jobs::{POLL_FIRST, POLL_MAX};
pub use lines::LinesOptions;
pub use pages::{Pages, SearchPages};
pub use quality::{FeedbackOptions, QueryLogOptions};
pub use upload::FileUpload;

use std::time::Duration;

use http::HeaderValue;
use tokio::sync::OnceCell;

use crate::{ClientError, Result, RetryPolicy, Transport, Trust};

/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client of one gateway, with a pool of connections. Any number of tasks can share one.
///
/// Every method fails when the gateway can't be reached, refuses the call, or does not reply as the API says. Calls are
/// repeated as the [`RetryPolicy`] says, after the delay of the reply's `Retry-After`.
pub struct Client {
    url: String,
    transport: Transport,
    retries: RetryPolicy,
    authorization: Option<HeaderValue>,
    /// The model of embeddings for which none was named.
    default_model: OnceCell<String>,
}

impl Client {
    /// A client of the gateway at `url`, which has no slash at its end.
    pub fn new(url: String, retries: RetryPolicy) -> Client {
        let transport = Transport::new(CONNECT_TIMEOUT);
        Client { url, transport, retries, authorization: None, default_model: OnceCell::new() }
    }

    /// The same client, which trusts other certificates.
    ///
    /// # Errors
    /// [`ClientError::Trust`] when the file of certificates can't be used.
    pub fn with_trust(self, trust: &Trust) -> Result<Client> {
        Ok(Client { transport: Transport::with_trust(CONNECT_TIMEOUT, trust)?, ..self })
    }

    /// The same client, which sends an API key as `Authorization: Bearer`.
    ///
    /// # Errors
    /// [`ClientError::ApiKey`] for a key that no header can hold.
    pub fn with_api_key(mut self, key: &str) -> Result<Client> {
        let is_valid = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        let value = is_valid.then(|| HeaderValue::try_from(format!("Bearer {key}")).ok()).flatten();
        let mut value = value.ok_or(ClientError::ApiKey)?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(self)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    pub(crate) fn retries(&self) -> RetryPolicy {
        self.retries
    }

    pub(crate) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }
}
