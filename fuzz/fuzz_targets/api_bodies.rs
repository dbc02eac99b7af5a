//! The bodies of every route are read and checked without a panic, and an error is not longer than what a reply may quote. Each input is read as
//! the body of every route.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use serde_json::value::RawValue;
use weir_api::{
    CohereEmbedRequest, CollectionSettings, DecodeRequest, Document, DocumentsDeleteRequest, EmbedAllRequest,
    EmbedRequest, EmbeddingsRequest, FeedbackRequest, IngestRequest, Invalid, KeyRequest, Limits,
    OllamaEmbedRequest, OllamaPromptRequest, PredictRequest, Problem, RerankRequest, Result, SearchRequest,
    SimilarityRequest, Texts, TokenizeRequest, document_id_of,
};

/// Small, so that values beyond a limit are found too.
const LIMITS: Limits = Limits {
    documents_per_request_max: 3,
    document_text_bytes_max: 40,
    document_id_bytes_max: 8,
    metadata_bytes_max: 64,
    metadata_keys_max: 3,
    query_bytes_max: 40,
    queries_per_request_max: 3,
    embedding_inputs_max: 3,
    embedding_input_bytes_max: 40,
    ..Limits::DEFAULT
};

/// Most bytes of a message: what it quotes of the request, each character escaped, and the names that are accepted.
const MESSAGE_BYTES_MAX: usize = 16_000;

fn check_error(invalid: &Invalid) {
    assert!(
        invalid.message.len() <= MESSAGE_BYTES_MAX,
        "{} bytes: {}",
        invalid.message.len(),
        invalid.message
    );
    assert_eq!(invalid.param.is_some(), invalid.pointer.is_some());
    assert!(invalid.pointer.as_ref().is_none_or(|pointer| pointer.starts_with("#/")));
    serde_json::to_string(&Problem::from_invalid(invalid, None)).expect("a problem is JSON");
}

/// Reads the body as one type of request and checks it as its route does.
fn read<'a, T: Deserialize<'a>>(body: &'a [u8], check: impl FnOnce(T) -> Result<()>) {
    if let Err(invalid) = weir_api::parse(body).and_then(check) {
        check_error(&invalid);
    }
}

fn check_texts(mut texts: Texts, field: &str) -> Result<()> {
    texts.decode(
        field,
        |ids| if ids.len() > 4 { Err("too many".to_owned()) } else { Ok(format!("{ids:?}")) },
    )?;
    texts.check(field, &LIMITS)?;
    assert!((1..=LIMITS.embedding_inputs_max).contains(&texts.as_slice().len()));
    assert!(texts.as_slice().iter().all(|text| (1..=LIMITS.embedding_input_bytes_max).contains(&text.len())));
    Ok(())
}

fn check_documents(request: &IngestRequest<'_>) -> Result<()> {
    request.check(&LIMITS)?;
    for (index, raw) in request.documents.iter().enumerate() {
        match Document::parse(raw, &LIMITS) {
            Ok(document) => assert!(document.text.len() <= LIMITS.document_text_bytes_max),
            Err(invalid) => {
                document_id_of(raw);
                check_error(&invalid.in_document(index));
            }
        }
    }
    Ok(())
}

fn check_searches(mut request: SearchRequest) -> Result<()> {
    let Some(queries) = request.queries.take() else { return request.check(&LIMITS) };
    request.check_batch(&queries, &LIMITS)?;
    for (index, query) in queries.iter().enumerate() {
        let read = weir_api::parse_item::<SearchRequest>(query.text(), "query");
        if let Err(invalid) = read.and_then(|query| query.check(&LIMITS)) {
            check_error(&invalid.in_item("queries", index));
        }
    }
    Ok(())
}

fuzz_target!(|body: &[u8]| {
    // native
    read(body, check_searches);
    read(body, |request: IngestRequest<'_>| check_documents(&request));
    read(body, |request: DocumentsDeleteRequest| request.check(&LIMITS));
    read(body, |request: FeedbackRequest| request.check(&LIMITS).map(|_| ()));
    read(body, |settings: CollectionSettings| settings.check(200, 32));
    read(body, |request: KeyRequest| request.check(1_700_000_000.0));
    // OpenAI's
    read(body, |mut request: EmbeddingsRequest| {
        request.input.decode("input", |ids| Ok(format!("{ids:?}")))?;
        request.check(&LIMITS)
    });
    // Cohere's
    read(body, |request: CohereEmbedRequest| {
        request.role();
        check_texts(request.texts, "texts")
    });
    // Cohere's of both versions, Jina's, and that of text-embeddings-inference
    read(body, |mut request: RerankRequest| {
        request.check(&LIMITS)?;
        assert!(request.take_texts().iter().all(|text| text.len() <= LIMITS.embedding_input_bytes_max));
        Ok(())
    });
    // text-embeddings-inference's
    read(body, |mut request: EmbedRequest| {
        request.truncate();
        let (texts, field) = request.take_texts(&LIMITS)?;
        check_texts(texts, field)
    });
    read(body, |request: EmbedAllRequest| check_texts(request.inputs, "inputs"));
    read(body, |request: SimilarityRequest| {
        request.parameters.unwrap_or_default().truncate();
        check_texts(request.inputs.sentences, "inputs.sentences")
    });
    read(body, |request: TokenizeRequest| check_texts(request.inputs, "inputs"));
    read(body, |_: DecodeRequest| Ok(()));
    read(body, |_: PredictRequest| Ok(()));
    // Ollama's
    read(body, |request: OllamaEmbedRequest| check_texts(request.input, "input"));
    read(body, |request: OllamaPromptRequest| check_texts(request.prompt, "prompt"));
    // a part of a body that is read later
    if let Ok(raw) = serde_json::from_slice::<&RawValue>(body)
        && let Err(invalid) = Document::parse(raw, &LIMITS)
    {
        check_error(&invalid);
    }
});
