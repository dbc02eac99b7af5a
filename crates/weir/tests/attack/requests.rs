//! Requests that cost much: queries, batches, feedback that shifts the results of others.
