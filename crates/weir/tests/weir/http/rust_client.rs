//! The Rust client against the real gateway: every call, so that both mean the same by every type.

use serde_json::json;
use weir_api::{
    Document, ErrorCode, FeedbackRequest, JobStatus, LinesReply, QueryReport, RawJson, RerankRequest,
    SearchRequest,
};
use weir_client::{
    Client, ClientError, DocumentsQuery, EmbedManyOptions, EmbeddingOptions, Embeddings, LinesOptions,
    QueryLogOptions, RetryPolicy,
};

use super::Gateway;

const COLLECTION: &str = "default";

fn documents() -> Vec<Document> {
    let document = |number: usize| Document {
        id: Some(format!("d{number}")),
        text: format!("The weir number {number} is a low dam across a river."),
        metadata: Some(serde_json::from_value(json!({ "number": number })).unwrap()),
        ..Document::default()
    };
    (0..5).map(document).collect()
}

fn search(query: &str) -> SearchRequest {
    SearchRequest { query: Some(query.to_owned()), top_k: Some(2_u64.into()), ..SearchRequest::default() }
}

/// Runs a test with a gateway that has five documents and a log of queries, and a client of it.
fn with_documents(test: impl AsyncFnOnce(Client)) -> Gateway {
    let gateway = Gateway::start_with(&[("WEIR_SEARCH_QUERY_LOG", "true")]);
    let client = Client::new(gateway.weir.url.clone(), RetryPolicy::LONG).with_api_key("any").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let job = client.ingest_documents(COLLECTION, &documents()).await.unwrap();
        let job = client.wait_for_job(&job.job_id).await.unwrap();
        assert_eq!((job.status, job.new_documents), (JobStatus::Completed, 5));
        test(client).await;
    });
    gateway
}

#[test]
fn documents_jobs_and_feedback_have_the_types_of_the_client() {
    with_documents(async |client| {
        let mut pages = client.search_pages(search("weir"));
        let mut found = Vec::new();
        while let Some(page) = pages.next_page().await.unwrap() {
            found.extend(page.results.into_iter().map(|result| result.id));
        }
        found.sort_unstable();
        assert_eq!(found, ["d0", "d1", "d2", "d3", "d4"]);

        let unknown = SearchRequest { collection: Some("none".to_owned()), ..search("weir") };
        let outcomes = client.search_many(&[search("river"), unknown]).await.unwrap();
        assert_eq!(outcomes[0].as_ref().unwrap().results.len(), 2);
        let refused = outcomes[1].as_ref().unwrap_err();
        assert!(
            matches!(refused, ClientError::Refused { code: ErrorCode::CollectionNotFound, .. }),
            "{refused}"
        );

        let query = DocumentsQuery {
            filter: Some(RawJson::of(&json!({"number": {"gte": 2}})).unwrap()),
            sort: Some("-number".to_owned()),
            limit: Some(2),
            after: None,
        };
        let (mut pages, mut listed) = (client.document_pages(COLLECTION, &query), Vec::new());
        while let Some(page) = pages.next_page().await.unwrap() {
            listed.extend(page.into_iter().map(|document| document.id));
        }
        assert_eq!(listed, ["d4", "d3", "d2"]);
        let after = DocumentsQuery { after: Some("d2".to_owned()), ..DocumentsQuery::default() };
        assert_eq!(client.documents_page(COLLECTION, &after, None).await.unwrap().data.len(), 2);

        let feedback = FeedbackRequest {
            query: "weir".to_owned(),
            document_id: "d1".to_owned(),
            collection: None,
            relevant: Some(true),
            grade: None,
            chunk: None,
        };
        assert_eq!(client.add_feedback(&feedback).await.unwrap().grade, 1);
        let stored = client.feedback_pages(COLLECTION, 10).next_page().await.unwrap().unwrap();
        assert_eq!(stored[0].document_id, "d1");
        assert_eq!(client.job_pages(1).next_page().await.unwrap().unwrap().len(), 1);
        assert_eq!(client.jobs_page(5, None).await.unwrap().data[0].collection, COLLECTION);
        let options =
            QueryLogOptions { report: Some(QueryReport::Popular), limit: Some(5), below: Some(0.5) };
        client.logged_queries(COLLECTION, options).await.unwrap();
    });
}

#[test]
fn a_stream_of_documents_is_sent_while_it_is_made_and_a_bad_one_fails_alone() {
    let gateway = with_documents(async |client| {
        let documents = (0..2_500).map(|number| Document {
            id: (number != 1_200).then(|| format!("s{number}")).or_else(|| Some("x".repeat(600))),
            text: format!("The lock number {number} lifts boats."),
            ..Document::default()
        });
        let options = LinesOptions { wait: true, ..LinesOptions::default() };
        let mut counts = Vec::new();
        let progress = |reply: &LinesReply| counts.push(reply.lines);
        let reply = client.ingest_lines(documents.clone(), options, progress).await.unwrap();
        assert_eq!(
            (reply.lines, reply.new_documents, reply.failed_documents),
            (2_500, 2_499, 1),
            "{reply:?}"
        );
        assert_eq!((reply.errors[0].line, reply.errors[0].code), (1_201, ErrorCode::PayloadTooLarge));
        assert!(counts.is_sorted() && reply.jobs.len() >= 2, "{counts:?} {:?}", reply.jobs);
        assert_eq!(client.health().await.unwrap().document_count, Some(2_504));
        let again = client.ingest_lines(documents, LinesOptions::default(), |_| {}).await.unwrap();
        assert_eq!((again.unchanged_documents, again.failed_documents), (2_499, 1), "{again:?}");
        let options = LinesOptions { collection: "no such name", ..LinesOptions::default() };
        let error = client.ingest_lines([], options, |_| {}).await.unwrap_err();
        assert!(matches!(error, ClientError::Refused { code: ErrorCode::InvalidParameter, .. }), "{error}");
    });
    let metrics = gateway.send("GET", "/metrics", None).text;
    for line in
        ["weir_ingest_lines_total{result=\"stored\"} 4998", "weir_ingest_lines_total{result=\"failed\"} 2"]
    {
        assert!(metrics.contains(line), "{metrics}");
    }
}

#[test]
fn embeddings_are_those_of_the_same_route_in_json() {
    let texts: Vec<String> = (0..150).map(|number| format!("text {number}")).collect();
    let mut raw = Embeddings::default();
    let gateway = with_documents(async |client| {
        let embeddings = client.embed(&texts, &EmbeddingOptions::default()).await.unwrap();
        assert_eq!((embeddings.len(), embeddings.dimension(), embeddings.model()), (150, 384, "pseudo"));
        assert!(embeddings.prompt_tokens() >= 300);
        raw = embeddings.clone();

        let options = EmbedManyOptions { batch_texts_max: 40, ..EmbedManyOptions::default() };
        let (mut batches, mut floats) = (client.embed_many(&texts, options), Vec::new());
        while let Some(batch) = batches.next().await {
            floats.extend(batch.unwrap().into_vec());
        }
        assert_eq!(floats, embeddings.as_slice());

        let error = client.embed(&[""], &EmbeddingOptions::default()).await.unwrap_err();
        assert!(matches!(error, ClientError::Refused { code: ErrorCode::EmptyInput, .. }), "{error}");
        let query = "q".to_owned();
        let request =
            RerankRequest { query, documents: vec!["a".to_owned().into()], ..RerankRequest::default() };
        let error = client.rerank(request).await.unwrap_err();
        assert!(matches!(error, ClientError::Refused { code: ErrorCode::ModelNotFound, .. }), "{error}");
    });
    let request = json!({"model": "pseudo", "input": texts}).to_string();
    let reply = gateway.send("POST", "/v1/embeddings", Some(request.as_bytes())).json();
    let items = reply["data"].as_array().unwrap();
    assert_eq!(items.len(), raw.len());
    for (row, item) in raw.rows().zip(items) {
        assert_eq!(serde_json::from_value::<Vec<f32>>(item["embedding"].clone()).unwrap(), row);
    }
}

#[test]
fn the_state_of_the_gateway_has_the_types_of_the_client() {
    with_documents(async |client| {
        assert_eq!(client.health().await.unwrap().document_count, Some(5));
        assert!(client.readiness().await.unwrap().ready);
        assert!(!client.liveness().await.unwrap().is_empty());
        assert!(client.metrics().await.unwrap().contains("weir_documents"));
        assert!(client.openapi().await.unwrap()["openapi"].as_str().unwrap().starts_with("3.1"));
        let models = client.models().await.unwrap();
        assert_eq!(client.model(&models[0].id).await.unwrap(), models[0]);
        let error = client.model("no/such").await.unwrap_err();
        assert!(matches!(error, ClientError::Refused { code: ErrorCode::ModelNotFound, .. }), "{error}");
    });
}
