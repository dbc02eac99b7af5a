//! The name that was probably meant by an unknown one.

/// Names of fields in other APIs, by the field of ours.
const FOREIGN_NAMES: [(&str, &[&str]); 16] = [
    ("query", &["q", "search", "text", "question", "search_query"]),
    ("top_k", &["limit", "k", "n", "size", "count", "n_results", "num_results", "max_results", "per_page"]),
    ("filter", &["where", "must", "conditions", "query_filter"]),
    ("input", &["texts", "text", "sentences", "prompt", "content"]),
    ("inputs", &["texts", "text", "sentences", "prompt", "content"]),
    ("documents", &["docs", "points", "items", "records", "passages", "rows", "objects", "data", "texts"]),
    ("text", &["content", "body", "page_content", "chunk", "document", "passage"]),
    ("metadata", &["payload", "attributes", "properties", "fields"]),
    ("id", &["uid", "uuid", "document_id", "doc_id", "key"]),
    ("document_id", &["id", "doc_id"]),
    ("collection", &["index", "namespace", "table", "class"]),
    ("vector", &["embedding"]),
    ("cursor", &["offset", "page", "after", "page_token", "skip"]),
    ("sort", &["order_by", "order"]),
    ("min_relevance", &["threshold", "min_score", "score_threshold", "cutoff"]),
    ("dimensions", &["dim", "size"]),
];

/// Values of other APIs, by the value of ours.
const FOREIGN_VALUES: [(&str, &[&str]); 3] = [
    (
        "dense",
        &["semantic", "vector", "vectors", "embedding", "embeddings", "knn", "ann", "neural", "similarity"],
    ),
    ("lexical", &["keyword", "keywords", "bm25", "text", "fulltext", "full_text", "sparse", "words", "fts"]),
    ("hybrid", &["auto", "default", "both", "combined", "mixed"]),
];

/// Least similarity (Jaro-Winkler, 0 to 1) of a name that is suggested: `qeury`, `topk` and `filters` pass, unrelated words do not.
const SIMILARITY_MIN: f64 = 0.86;

/// Nothing is suggested for longer names: comparing takes time and memory in proportion to the length.
const NAME_BYTES_MAX: usize = 64;

/// The accepted field that was probably meant by `name`: another API's name for it, or else the one spelt most alike.
pub(crate) fn similar_field<'a>(name: &str, accepted: &[&'a str]) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let lower = name.to_lowercase();
    let lower = lower.trim_start_matches(['_', '$', '@']);
    let is_foreign =
        |field: &&str| FOREIGN_NAMES.iter().any(|(ours, foreign)| ours == field && foreign.contains(&lower));
    accepted.iter().copied().find(is_foreign).or_else(|| similar_names(lower, accepted).first().copied())
}

/// The accepted value that was probably meant by `value`, as [`similar_field`] does for names.
pub(crate) fn similar_value<'a>(value: &str, accepted: &[&'a str]) -> Option<&'a str> {
    if value.len() > NAME_BYTES_MAX {
        return None;
    }
    let lower = value.to_lowercase();
    let is_foreign = |ours: &&str| {
        FOREIGN_VALUES.iter().any(|(value, foreign)| value == ours && foreign.contains(&lower.as_str()))
    };
    accepted.iter().copied().find(is_foreign).or_else(|| similar_names(&lower, accepted).first().copied())
}

/// The names among `accepted` that are spelt like `name`, the most similar first.
pub fn similar_names<'a>(name: &str, accepted: &[&'a str]) -> Vec<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return Vec::new();
    }
    let mut similar: Vec<(f64, &str)> = accepted
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate))
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .collect();
    similar.sort_by(|a, b| b.0.total_cmp(&a.0));
    similar.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: [&str; 7] = ["query", "top_k", "filter", "sort", "collection", "cursor", "min_relevance"];

    #[test]
    fn a_field_is_suggested_that_is_spelt_alike_or_has_another_name_elsewhere() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(similar_field(name, &SEARCH), expected, "{name}");
        };
        for (name, field) in [
            ("q", "query"),
            ("qeury", "query"),
            ("limit", "top_k"),
            ("topK", "top_k"),
            ("filters", "filter"),
            ("must", "filter"),
            ("namespace", "collection"),
            ("offset", "cursor"),
            ("score_threshold", "min_relevance"),
            ("order_by", "sort"),
        ] {
            check(name, Some(field));
        }
        check("colour", None);
        check("", None);
        check(&"query".repeat(20), None);
        assert_eq!(similar_field("inputs", &["model", "input"]), Some("input"));
        assert_eq!(similar_field("texts", &["model", "input"]), Some("input"));
    }

    #[test]
    fn similar_names_come_in_order_of_similarity() {
        let accepted = ["limits.top_k_max", "limits.query_bytes_max", "server.listen"];
        assert_eq!(similar_names("limits.topk_max", &accepted)[0], "limits.top_k_max");
        assert!(similar_names("limits.topk_max", &accepted).len() < 3);
    }
}
