//! A typed client of a running gateway.
//!
//! [`Client`] has a method for every call of the native API. It pools connections, and repeats calls while the gateway
//! starts or is busy, after the delay that the reply asks for. [`Client::embed`] returns [`Embeddings`], rows of floats into
//! whose memory the reply was written; [`Client::embed_many`] embeds any number of texts in bounded memory. [`Client::chat`] streams the answer of a language model, with
//! citations. [`ingest`] sends
//! any number of documents in batches and waits until they are searchable. [`Transport`] is the HTTP below them.
//!
//! ```no_run
//! use weir_api::{Document, SearchRequest};
//! use weir_client::{Client, EmbedManyOptions, EmbeddingOptions, RetryPolicy};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> weir_client::Result<()> {
//! let client = Client::new("http://127.0.0.1:8000".to_owned(), RetryPolicy::LONG);
//!
//! let text = "A weir is a low dam across a river.".to_owned();
//! let document = Document { id: Some("weir".to_owned()), text, ..Document::default() };
//! let job = client.ingest_documents("default", &[document]).await?;
//! client.wait_for_job(&job.job_id).await?;
//!
//! let request = SearchRequest { query: Some("what holds back a river".to_owned()), ..SearchRequest::default() };
//! for result in client.search(&request).await?.parse()?.results {
//!     println!("{} {:.3}: {}", result.id, result.score, result.citation.quote);
//! }
//!
//! let embeddings = client.embed(&["a low dam", "bread"], &EmbeddingOptions::default()).await?;
//! let cosine: f32 = embeddings.row(0).iter().zip(embeddings.row(1)).map(|(a, b)| a * b).sum();
//! println!("{} dimensions, {cosine:.3}", embeddings.dimension());
//!
//! let texts = (0..1_000_000).map(|number| format!("text {number}"));
//! let mut batches = client.embed_many(texts, EmbedManyOptions::default());
//! while let Some(batch) = batches.next().await {
//!     println!("{} embeddings", batch?.len());
//! }
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod call;
mod chat;
mod client;
mod embed_many;
mod embeddings;
mod error;
mod events;
mod fields;
mod ingest;
mod json_lines;
mod seen_ids;
mod transport;
mod trust;

pub use call::{Reply, RetryPolicy};
pub use chat::{ChatEvent, ChatMessage, ChatRequest, ChatRole, ChatStream};
pub use client::{
    Client, Condition, DocumentsQuery, Export, FeedbackOptions, FileUpload, JobDocumentsQuery, JobStream,
    LinesOptions, Pages, QueryLogOptions, SearchPages, WriteOptions,
};
pub use embed_many::{EmbedMany, EmbedManyOptions};
pub use embeddings::{AffectedTexts, EmbeddingOptions, Embeddings};
pub use error::{ClientError, Result};
pub use fields::document_of_fields;
pub use ingest::{
    IngestError, IngestOptions, IngestProgress, IngestReport, ReadStep, Rejection, SourceFile, StepResult,
    ingest,
};
pub use json_lines::JsonLines;
pub use transport::{Transport, TransportError};
pub use trust::{Trust, TrustError};
