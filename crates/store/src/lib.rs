//! The truth: collections, documents, numbered operations, jobs, embeddings.
