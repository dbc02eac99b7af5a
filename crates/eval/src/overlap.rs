//! How much two rankings of the same queries have in common: before and after a change of a collection.

use std::collections::HashSet;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde::Serialize;
use weir_api::SearchRequest;
use weir_client::Client;

use crate::{EvalError, Result};

/// Results of a query that are compared.
const TOP_K: u64 = 10;
/// Searches that run at a time.
const SEARCHES_MAX: usize = 4;

/// The first documents of each query, best first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rankings(Vec<(String, Vec<String>)>);

/// The overlap of two rankings of the same queries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overlap {
    /// The mean over all queries, 0 to 1.
    pub mean: f64,
    /// Each query, the one with the least in common first.
    pub queries: Vec<QueryOverlap>,
}

/// The overlap of both rankings of a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueryOverlap {
    /// The query.
    pub query: String,
    /// The part of the first ten documents that both have, in whatever order, 0 to 1. 1 if both have none.
    pub overlap: f64,
}

impl Rankings {
    /// Asks the gateway for the first ten documents of each query, with its defaults.
    ///
    /// # Errors
    /// The first query that is not answered.
    pub async fn of(client: &Client, collection: &str, queries: &[String]) -> Result<Rankings> {
        let searches = queries.iter().map(|query| search(client, collection, query));
        stream::iter(searches).buffered(SEARCHES_MAX).try_collect().await.map(Rankings)
    }

    /// Their overlap with later ones of the same queries; `None` without queries.
    pub fn overlap(self, later: Rankings) -> Option<Overlap> {
        let pairs = self.0.into_iter().zip(later.0);
        let mut queries: Vec<QueryOverlap> = pairs
            .map(|((query, before), (_, after))| QueryOverlap { query, overlap: common(&before, &after) })
            .collect();
        if queries.is_empty() {
            return None;
        }
        let mean = queries.iter().map(|one| one.overlap).sum::<f64>() / queries.len() as f64;
        queries.sort_by(|a, b| a.overlap.total_cmp(&b.overlap));
        Some(Overlap { mean, queries })
    }
}

async fn search(client: &Client, collection: &str, query: &str) -> Result<(String, Vec<String>)> {
    let request = SearchRequest {
        query: Some(query.to_owned()),
        top_k: Some(TOP_K.into()),
        collection: Some(collection.to_owned()),
        log: Some(false),
        ..SearchRequest::default()
    };
    let reply = client.search(&request).await.and_then(|reply| reply.parse());
    let reply = reply.map_err(|source| EvalError::Query { name: format!("`{query}`"), source })?;
    Ok((query.to_owned(), reply.results.into_iter().map(|result| result.id).collect()))
}

fn common(before: &[String], after: &[String]) -> f64 {
    let (before, after): (HashSet<&String>, HashSet<&String>) =
        (before.iter().collect(), after.iter().collect());
    match before.len().max(after.len()) {
        0 => 1.0,
        most => before.intersection(&after).count() as f64 / most as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rankings`: of each query the ids before and after, a letter each. `expected`: the mean, and the queries by what is common.
    #[track_caller]
    fn check(rankings: &[(&str, &str)], expected: Option<(f64, &[&str])>) {
        let ranking = |(place, ids): (usize, &str)| {
            (format!("q{place}"), ids.chars().map(String::from).collect::<Vec<_>>())
        };
        let before = Rankings(rankings.iter().map(|(ids, _)| *ids).enumerate().map(ranking).collect());
        let after = Rankings(rankings.iter().map(|(_, ids)| *ids).enumerate().map(ranking).collect());
        let found = before.overlap(after).map(|found| {
            let shown = found.queries.iter().map(|one| format!("{} {}", one.query, one.overlap));
            (found.mean, shown.collect::<Vec<_>>())
        });
        let expected =
            expected.map(|(mean, queries)| (mean, queries.iter().map(|query| (*query).to_owned()).collect()));
        assert_eq!(found, expected);
    }

    #[test]
    fn the_overlap_is_the_part_that_both_rankings_have() {
        check(&[], None);
        check(&[("abcd", "dcba")], Some((1.0, &["q0 1"])));
        check(&[("abcd", "abef")], Some((0.5, &["q0 0.5"])));
        check(&[("ab", "abcd"), ("", ""), ("a", "")], Some((0.5, &["q2 0", "q0 0.5", "q1 1"])));
    }
}
