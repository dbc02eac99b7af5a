//! The fields of every type in the order of its struct.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use weir_api::*;

use super::order::{fields_of, set_order};

/// The name of a type in the description, and its fields.
type Type = (String, &'static [&'static str]);

fn type_of<'de, T: Deserialize<'de> + JsonSchema>() -> Type {
    (T::schema_name().into_owned(), fields_of::<T>())
}

/// Every type with several fields. A test finds those that are missing.
fn types() -> Vec<Type> {
    macro_rules! types {
        ($($name:ty),* $(,)?) => { vec![$(type_of::<$name>()),*] };
    }
    types![
        AnthropicError,
        AnthropicErrorBody,
        AnthropicMessage,
        AnthropicModel,
        AnthropicModelsReply,
        BatchReply,
        ChatCompletionMessage,
        ChatCompletionRequest,
        ChatRetrieval,
        Chunking,
        ChunksPreviewReply,
        ChunksPreviewRequest,
        Citation,
        CohereEmbedReply,
        CohereEmbedRequest,
        CohereError,
        CohereMeta,
        CollectionReply,
        CollectionSettings,
        CompletionRequest,
        ContextChunk,
        Correction,
        CountTokensRequest,
        DecodeRequest,
        DeletedReply,
        Document,
        DocumentPage,
        DocumentPatch,
        DocumentReply,
        DocumentsDeleteReply,
        DocumentsDeleteRequest,
        EmbedAllRequest,
        AuditReply,
        KeyLimitsRequest,
        List<AuditReply>,
        List<KeyReply>,
        KeyReply,
        KeyRequest,
        KeySpending,
        KeyUpdate,
        NewKeyReply,
        UsageReportReply,
        VectorSettings,
        UsageSumReply,
        UsageClassReply,
        EmbedRequest,
        EmbedderPrompts,
        EmbedderReply,
        EmbeddingItem,
        EmbeddingsByType,
        EmbeddingsReply,
        EmbeddingsRequest,
        Explain,
        ExplainLearned,
        ExplainFusion,
        ExplainRerank,
        Explanation,
        FacetCount,
        FeedbackDeleteReply,
        FileOptions,
        FeedbackReply,
        FeedbackRequest,
        FusedPosition,
        Fusion,
        FusionWeights,
        FormatsReply,
        HealthReply,
        InfoReply,
        IngestRequest<'static>,
        JobDocument,
        JobDocumentError,
        JobReply,
        JobWebhook,
        Label,
        LateInteraction,
        LexicalSettings,
        LineError,
        LinesFailure,
        LinesReply,
        List<CollectionReply>,
        List<DocumentReply>,
        List<FeedbackReply>,
        List<JobDocument>,
        List<JobReply>,
        List<QueryReply>,
        MessagesRequest,
        ModelReply,
        ModelsReply,
        OllamaChatRequest,
        OllamaGenerateRequest,
        OllamaProcess,
        OllamaShowReply,
        OllamaShowRequest,
        OllamaDetails,
        OllamaEmbedReply,
        OllamaEmbedRequest,
        OllamaModel,
        OllamaPromptRequest,
        OpenAiError,
        PredictRequest,
        PreviewedChunk,
        Problem,
        ProblemItem,
        QueryReading,
        QueryReply,
        Ranks,
        ReadyReply,
        ReconciliationReply,
        RerankError,
        RerankMeta,
        RerankOptions,
        ReconciliationReply,
        RerankReply,
        RerankRequest,
        RerankResult,
        ResponsesRequest,
        RetrieverCounts,
        RetrieverPosition,
        Scores,
        SearchReply,
        SearchRequest,
        SearchResult,
        SimilarityInputs,
        SimilarityParameters,
        SimilarityRequest,
        Snippet,
        TeiError,
        TeiRank,
        TeiToken,
        PhraseScore,
        TermScore,
        Timings,
        TokenizeRequest,
        Total,
        Usage,
        WhyNot,
    ]
}

/// Orders the fields of the types of a description.
pub(super) fn order_fields(schemas: &mut Map<String, Value>) {
    for (name, fields) in types() {
        let properties = schemas.get_mut(&name).and_then(|schema| schema["properties"].as_object_mut());
        if let Some(properties) = properties {
            set_order(properties, fields.iter().copied());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::schemas;
    use super::*;

    /// Their fields are declared in the order of the alphabet.
    const SORTED: [&str; 2] = ["FacetOptions", "SortOptions"];

    #[test]
    fn every_type_with_several_fields_is_ordered() {
        let known: BTreeSet<String> = types().into_iter().map(|(name, _)| name).collect();
        let schemas = schemas();
        for (name, schema) in &schemas {
            let fields = schema["properties"].as_object().map_or(0, Map::len);
            if fields > 1 && !SORTED.contains(&name.as_str()) {
                assert!(known.contains(name), "add `{name}` to `types`");
            }
        }
        for name in known {
            assert!(schemas.contains_key(&name), "`{name}` is in no request or reply");
        }
    }

    #[test]
    fn every_type_has_a_name_with_a_meaning() {
        for name in schemas().keys() {
            let is_numbered = name.ends_with(|last: char| last.is_ascii_digit());
            assert!(!is_numbered && name.chars().all(char::is_alphanumeric), "{name}");
        }
    }
}
