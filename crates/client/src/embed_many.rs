//! Embeddings of any number of texts: several requests at a time, in bounded memory, in the order of the texts.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, Stream, StreamExt};

use crate::{Client, EmbeddingOptions, Embeddings, Result};

/// Bytes of the texts in one request, about: far below the gateway's limit.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// How many texts are embedded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedManyOptions {
    /// How each text is embedded.
    pub embedding: EmbeddingOptions,
    /// Texts in one request, at most; at least 1.
    pub batch_texts_max: usize,
    /// Requests whose embeddings were not yet taken from the stream, at most; at least 1.
    pub requests_max: usize,
}

impl Default for EmbedManyOptions {
    /// The default model, and what keeps a gateway busy.
    fn default() -> EmbedManyOptions {
        EmbedManyOptions { embedding: EmbeddingOptions::default(), batch_texts_max: 64, requests_max: 4 }
    }
}

/// The embeddings of many texts: a stream of [`Embeddings`], one for each request, in the order of the texts.
///
/// At most `batch_texts_max * requests_max` texts are read ahead. Requests make progress while an item is waited for. After
/// an error the stream ends, and the unfinished requests are dropped.
pub struct EmbedMany<'a, I: Iterator> {
    client: &'a Client,
    options: EmbedManyOptions,
    /// `None` after the last text.
    texts: Option<I>,
    requests: FuturesOrdered<BoxFuture<'a, Result<Embeddings>>>,
}

/// Nothing is pinned in place.
impl<I: Iterator> Unpin for EmbedMany<'_, I> {}

impl Client {
    /// Embeds any number of texts. Nothing is sent before the stream is polled.
    ///
    /// `texts` is read on the thread that polls: it should not block for long.
    pub fn embed_many<'a, T>(
        &'a self,
        texts: T,
        options: EmbedManyOptions,
    ) -> EmbedMany<'a, <T as IntoIterator>::IntoIter>
    where
        T: IntoIterator,
        T::Item: AsRef<str> + Send + Sync + 'a,
    {
        EmbedMany { client: self, options, texts: Some(texts.into_iter()), requests: FuturesOrdered::new() }
    }
}

impl<'a, I> EmbedMany<'a, I>
where
    I: Iterator,
    I::Item: AsRef<str> + Send + Sync + 'a,
{
    /// The embeddings of the next request; `None` after the last one, and after an error.
    pub async fn next(&mut self) -> Option<Result<Embeddings>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// The texts of the next request; none after the last one.
    fn next_batch(&mut self) -> Vec<I::Item> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(texts) = &mut self.texts
            && batch.len() < self.options.batch_texts_max.max(1)
            && bytes < BATCH_BYTES_MAX
        {
            match texts.next() {
                Some(text) => {
                    bytes += text.as_ref().len();
                    batch.push(text);
                }
                None => self.texts = None,
            }
        }
        batch
    }

    fn send_batches(&mut self) {
        while self.requests.len() < self.options.requests_max.max(1) {
            let batch = self.next_batch();
            if batch.is_empty() {
                break;
            }
            let (client, options) = (self.client, self.options.embedding.clone());
            self.requests.push_back(Box::pin(async move { client.embed(&batch, &options).await }));
        }
    }
}

impl<'a, I> Stream for EmbedMany<'a, I>
where
    I: Iterator,
    I::Item: AsRef<str> + Send + Sync + 'a,
{
    type Item = Result<Embeddings>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Embeddings>>> {
        let this = self.get_mut();
        this.send_batches();
        let next = ready!(this.requests.poll_next_unpin(context));
        if let Some(Err(_)) = &next {
            this.texts = None;
            this.requests = FuturesOrdered::new();
        }
        Poll::Ready(next)
    }
}
