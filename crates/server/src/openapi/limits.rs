//! The limits of requests, in the description of a gateway that has them.

use serde_json::{Value, json};
use weir_config::Config;

/// A limit of a field: type, field, keyword of JSON Schema, and its value.
type Row = (&'static str, &'static str, &'static str, u64);

fn rows(config: &Config) -> Vec<Row> {
    let limits = &config.limits;
    let count = |limit: usize| limit as u64;
    let (query, id) = (count(limits.query_bytes_max), count(limits.document_id_bytes_max));
    vec![
        ("IngestRequest", "documents", "maxItems", count(limits.documents_per_request_max)),
        // a character has at least one byte
        ("Document", "id", "maxLength", id),
        ("Document", "text", "maxLength", count(limits.document_text_bytes_max)),
        ("Document", "metadata", "maxProperties", count(limits.metadata_keys_max)),
        ("SearchRequest", "query", "maxLength", query),
        ("SearchRequest", "top_k", "maximum", limits.top_k_max),
        ("SearchRequest", "sort", "maxItems", count(limits.sort_fields_max)),
        ("SearchRequest", "facets", "maxItems", count(limits.facets_per_request_max)),
        ("SearchRequest", "context", "maximum", limits.context_chunks_max),
        ("SearchRequest", "queries", "maxItems", count(limits.queries_per_request_max)),
        ("FeedbackRequest", "query", "maxLength", query),
        ("FeedbackRequest", "document_id", "maxLength", id),
        ("EmbeddingsRequest", "input", "maxItems", count(limits.embedding_inputs_max)),
        ("CohereEmbedRequest", "texts", "maxItems", count(limits.embedding_inputs_max)),
        ("RerankRequest", "query", "maxLength", query),
    ]
}

/// Writes the limits into the types of a description.
pub(super) fn add(config: &Config, description: &mut Value) {
    for (schema, field, keyword, limit) in rows(config) {
        let place = format!("/components/schemas/{schema}/properties/{field}");
        if let Some(found) = description.pointer_mut(&place) {
            found[keyword] = json!(limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::document;

    #[test]
    fn every_limit_is_one_of_a_field_that_there_is() {
        let mut config = Config::default();
        config.limits.top_k_max = 7;
        let mut description = document();
        add(&config, &mut description);
        for (schema, field, keyword, limit) in rows(&config) {
            let found = &description["components"]["schemas"][schema]["properties"][field];
            assert!(
                found["type"].is_array()
                    || found["type"].is_string()
                    || found["$ref"].is_string()
                    || found["anyOf"].is_array(),
                "{schema}.{field}"
            );
            assert_eq!(found[keyword], limit, "{schema}.{field}");
        }
        assert_eq!(
            description["components"]["schemas"]["SearchRequest"]["properties"]["top_k"]["maximum"],
            7
        );
    }
}
