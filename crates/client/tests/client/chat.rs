//! Streams of chat, cut anywhere, and what becomes of errors.

use crate::server::{Reply, Server};
use serde_json::json;
use weir_api::{ChatCitation, ChatRetrieval, Count, ErrorCode, RawJson};
use weir_client::{ChatEvent, ChatMessage, ChatRequest, ChatRole, Client, ClientError, RetryPolicy};

const STREAM: &str = "\
: ping\n\n\
event: message\r\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\r\n\r\n\
data: {\"choices\":[{\"delta\":{\"content\":\"a\u{e9} \"},\"finish_reason\":null}]}\n\n\
data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\n\
data: \"finish_reason\":null}]}\n\n\
data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
data: {\"choices\":[],\"usage\":{\"total_tokens\":3}}\n\n\
data: {\"choices\":[],\"citations\":[{\"n\":1,\"document_id\":\"d\",\"start\":2,\"end\":4,\"quote\":\"a\u{e9}\",\"verified\":true},\
{\"n\":9,\"document_id\":null,\"start\":null,\"end\":null,\"quote\":\"b\",\"verified\":false,\"reason\":\"no source 9\"}],\
\"sources\":[{\"n\":1,\"document_id\":\"d\",\"start\":0,\"end\":9,\"relevance\":0.5,\"flagged\":true}]}\n\n\
data: [DONE]\n\n";

fn request() -> ChatRequest {
    let messages = vec![ChatMessage { role: ChatRole::User, content: "why".to_owned() }];
    ChatRequest { model: "m".to_owned(), messages, retrieval: None }
}

/// The events of an answer, and the error that ended it.
async fn events(server: &Server) -> (Vec<ChatEvent>, Option<ClientError>) {
    let client = Client::new(server.url.clone(), RetryPolicy::NONE);
    let mut events = Vec::new();
    let mut stream = match client.chat(&request()).await {
        Ok(stream) => stream,
        Err(error) => return (events, Some(error)),
    };
    let mut failed = None;
    while let Some(event) = stream.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => failed = Some(error),
        }
    }
    (events, failed)
}

fn stream(text: &str, frame_bytes: usize) -> Server {
    let text = text.to_owned();
    Server::start(move |_| {
        Reply::json(200, &text).header("content-type", "text/event-stream").in_frames_of(frame_bytes)
    })
}

#[tokio::test]
async fn a_stream_has_the_same_events_however_its_bytes_arrive() {
    for frame_bytes in [1, 2, 3, 7, 64, 4096] {
        let (events, failed) = events(&stream(STREAM, frame_bytes)).await;
        assert!(failed.is_none(), "{failed:?}");
        let text = |text: &str| ChatEvent::Text(text.to_owned());
        assert_eq!(events[..3], [text("a\u{e9} "), text("b"), ChatEvent::Finish("stop".to_owned())]);
        let ChatEvent::Citations { citations, sources } = &events[3] else { panic!("{events:?}") };
        let unknown = ChatCitation {
            n: 9,
            document_id: None,
            start: None,
            end: None,
            pages: weir_api::CitedPages::default(),
            quote: "b".to_owned(),
            verified: false,
            reason: Some("no source 9".to_owned()),
        };
        assert_eq!((citations[0].start, citations[0].end, &citations[1]), (Some(2), Some(4), &unknown));
        assert_eq!((sources[0].relevance, sources[0].flagged, events.len()), (Some(0.5), true, 4));
    }
}

#[tokio::test]
async fn a_request_has_its_retrieval_in_the_field_of_the_gateway() {
    let server = stream("data: [DONE]\n\n", 64);
    let client = Client::new(server.url.clone(), RetryPolicy::NONE);
    client.chat(&request()).await.unwrap();
    let filter = Some(RawJson::from_text("{\"year\": 2020}".to_owned()).unwrap());
    let retrieval = ChatRetrieval {
        collection: "c".to_owned(),
        top_k: Some(Count::from(3_u64)),
        filter,
        min_relevance: None,
        tokens_max: None,
        on_empty: None,
        condense_model: None,
        sources_as: None,
    };
    client.chat(&ChatRequest { retrieval: Some(retrieval), ..request() }).await.unwrap();
    let plain = json!({"model": "m", "messages": [{"role": "user", "content": "why"}], "stream": true});
    let mut with = plain.clone();
    with["weir"] = json!({"collection": "c", "top_k": 3, "filter": {"year": 2020}});
    let sent: Vec<_> = server.requests().iter().map(|asked| asked.json()).collect();
    assert_eq!(sent, [plain, with]);
}

#[tokio::test]
async fn an_answer_without_its_end_is_an_error_after_its_text() {
    let begun = &STREAM[..STREAM.find("data: {\"choices\":[],\"usage").unwrap()];
    let (events, failed) = events(&stream(begun, 64)).await;
    assert_eq!(events.len(), 3);
    let failed = failed.unwrap();
    assert!(failed.to_string().ends_with(" ended before the answer was complete"), "{failed}");
}

#[tokio::test]
async fn errors_are_those_of_the_gateway_or_of_the_provider() {
    let own = r#"{"error":{"message":"the upstream's stream broke: x","type":"server_error","param":null,"code":"upstream_error"}}"#;
    let foreign =
        r#"{"error":{"message":"try pulling it first","type":"api_error","param":null,"code":null}}"#;
    for is_event in [true, false] {
        let failed = async |body: &str| {
            let server = match is_event {
                true => stream(&format!("data: {body}\n\n"), 64),
                false => {
                    let body = body.to_owned();
                    Server::start(move |_| Reply::json(404, &body))
                }
            };
            events(&server).await.1.unwrap()
        };
        let error = failed(own).await;
        assert!(matches!(error, ClientError::Refused { code: ErrorCode::UpstreamError, .. }), "{error}");
        let error = failed(foreign).await;
        assert_eq!(
            error.to_string(),
            "the provider of the model answered with an error: try pulling it first"
        );
        let hint = error.hint().unwrap();
        assert!(hint.contains("[[upstreams]]"), "{hint}");
    }
    let error = events(&stream("data: {\n\n", 64)).await.1.unwrap();
    assert!(error.to_string().ends_with(" has an event that is not of a chat"), "{error}");
}
