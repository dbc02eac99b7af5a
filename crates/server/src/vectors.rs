//! Embeddings on the wire: numbers, base64, raw bytes.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_api::{EncodingFormat, Usage};

use super::error::ApiError;
use crate::Result;
use weir_inference::Reservation;

const RAW: &str = "application/octet-stream";

/// Most indices in one header, so that it stays below the limits of common clients.
const INDICES_MAX: usize = 100;

/// Whether the request accepts raw bytes.
pub(super) fn wants_raw(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accept.flat_map(|value| value.split(',')).any(|media| {
        let essence = media.split(';').next().unwrap_or_default();
        essence.trim().eq_ignore_ascii_case(RAW)
    })
}

/// The reply of OpenAI's API, written without a value for each float between.
pub(super) fn list(
    embeddings: &[Vec<f32>],
    format: EncodingFormat,
    model: &str,
    usage: Usage,
    place: Reservation,
) -> Result<Response> {
    let mut text = text_for(embeddings.iter().map(Vec::len).sum());
    text.extend_from_slice(b"{\"object\":\"list\",\"data\":[");
    for (index, embedding) in embeddings.iter().enumerate() {
        let separator = if index == 0 { "" } else { "," };
        text.extend_from_slice(
            format!("{separator}{{\"object\":\"embedding\",\"index\":{index},\"embedding\":").as_bytes(),
        );
        match format {
            EncodingFormat::Float => push_floats(&mut text, embedding),
            EncodingFormat::Base64 => {
                text.push(b'"');
                text.extend_from_slice(STANDARD.encode(bytes(std::slice::from_ref(embedding))).as_bytes());
                text.push(b'"');
            }
        }
        text.push(b'}');
    }
    text.extend_from_slice(b"],\"model\":");
    serde_json::to_writer(&mut text, model).map_err(|error| ApiError::internal(&error))?;
    text.extend_from_slice(b",\"usage\":");
    serde_json::to_writer(&mut text, &usage).map_err(|error| ApiError::internal(&error))?;
    text.push(b'}');
    Ok(json_response(text, place))
}

/// The reply of TEI's API: the embeddings alone.
pub(super) fn bare_list(embeddings: &[Vec<f32>], place: Reservation) -> Response {
    let mut text = text_for(embeddings.iter().map(Vec::len).sum());
    text.push(b'[');
    for (index, embedding) in embeddings.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        push_floats(&mut text, embedding);
    }
    text.push(b']');
    json_response(text, place)
}

/// Appends a list of floats in JSON, each with the fewest digits that parse to the same float; `null` for what is no number.
fn push_floats(text: &mut Vec<u8>, floats: &[f32]) {
    let mut digits = zmij::Buffer::new();
    text.push(b'[');
    for (index, float) in floats.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        let float = if float.is_finite() { digits.format_finite(*float) } else { "null" };
        text.extend_from_slice(float.as_bytes());
    }
    text.push(b']');
}

/// An empty buffer for a reply with this number of floats, most of which take at most 14 bytes with their comma.
fn text_for(floats: usize) -> Vec<u8> {
    Vec::with_capacity(256 + 14 * floats)
}

fn json_response(text: Vec<u8>, place: Reservation) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], held(text, place)).into_response()
}

/// A reply in JSON that holds about this many floats.
pub(super) fn json(reply: &impl serde::Serialize, floats: usize, place: Reservation) -> Result<Response> {
    let mut text = text_for(floats);
    serde_json::to_writer(&mut text, reply).map_err(|error| ApiError::internal(&error))?;
    Ok(json_response(text, place))
}

/// The reply as [raw bytes](wants_raw): the floats of all embeddings one after the other; count, dimension and type in headers.
pub(super) fn raw(embeddings: &[Vec<f32>], model: &str, usage: Usage, place: Reservation) -> Response {
    let dimension = embeddings.first().map_or(0, Vec::len);
    let mut response = held(bytes(embeddings), place).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(RAW));
    set(headers, "x-embedding-count", embeddings.len());
    set(headers, "x-embedding-dim", dimension);
    headers.insert("x-embedding-dtype", HeaderValue::from_static("float32"));
    set(headers, "x-usage-prompt-tokens", usage.prompt_tokens);
    if let Ok(name) = HeaderValue::from_bytes(model.as_bytes()) {
        headers.insert("x-embedding-model", name);
    }
    response
}

/// Sets the headers with the indices of truncated texts: the first hundred, and their number.
pub(super) fn set_truncated(headers: &mut HeaderMap, truncated: &[usize]) {
    set_indices(headers, ["x-truncated-inputs", "x-truncated-inputs-count"], truncated);
}

/// The same for texts that were embedded in parts.
pub(super) fn set_split(headers: &mut HeaderMap, split: &[usize]) {
    set_indices(headers, ["x-split-inputs", "x-split-inputs-count"], split);
}

fn set_indices(headers: &mut HeaderMap, [indices, count]: [&'static str; 2], texts: &[usize]) {
    if texts.is_empty() {
        return;
    }
    let named: Vec<String> = texts.iter().take(INDICES_MAX).map(usize::to_string).collect();
    if let Ok(value) = HeaderValue::from_str(&named.join(",")) {
        headers.insert(indices, value);
    }
    set(headers, count, texts.len());
}

/// Sets a header to a number.
pub(super) fn set(headers: &mut HeaderMap, name: &'static str, value: usize) {
    headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
}

/// A body that keeps its memory reserved until it is sent.
fn held(content: Vec<u8>, place: Reservation) -> Body {
    struct Held(Vec<u8>, #[expect(dead_code, reason = "dropped with the content")] Reservation);
    impl AsRef<[u8]> for Held {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Body::from(Bytes::from_owner(Held(content, place)))
}

/// The floats of all embeddings as bytes, little-endian.
pub(super) fn bytes(embeddings: &[Vec<f32>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(embeddings.iter().map(|embedding| 4 * embedding.len()).sum());
    for embedding in embeddings {
        bytes.extend(embedding.iter().flat_map(|x| x.to_le_bytes()));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_what_serde_would_write() {
        use weir_api::{EmbeddingItem, EmbeddingObject, EmbeddingsReply, EncodedEmbedding, ListObject};

        let embeddings =
            [vec![0.1f32, -1.0, 0.0, -0.0, 1e-30, 3.4e38, 1.0 / 3.0], vec![], vec![16_777_216.0, 0.3]];
        let usage = Usage { prompt_tokens: 3, total_tokens: 3, truncated: 1 };
        let items = embeddings.iter().enumerate().map(|(index, embedding)| EmbeddingItem {
            object: EmbeddingObject::Embedding,
            index,
            embedding: EncodedEmbedding::Float(embedding.clone()),
        });
        let reply = EmbeddingsReply {
            object: ListObject::List,
            data: items.collect(),
            model: "a\"b".to_owned(),
            usage,
        };
        let body = |response: Response| {
            let bytes = axum::body::to_bytes(response.into_body(), 10_000);
            String::from_utf8(futures_util::FutureExt::now_or_never(bytes).unwrap().unwrap().to_vec())
                .unwrap()
        };
        let written =
            list(&embeddings, EncodingFormat::Float, "a\"b", usage, Reservation::default()).unwrap();
        assert_eq!(body(written), serde_json::to_string(&reply).unwrap());
        let bare = bare_list(&embeddings, Reservation::default());
        assert_eq!(body(bare), serde_json::to_string(&embeddings).unwrap());
        assert_eq!(body(bare_list(&[vec![f32::NAN]], Reservation::default())), "[[null]]");
    }

    #[test]
    fn raw_bytes_must_be_asked_for_by_name() {
        let check = |accept: &'static str, expected| {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(wants_raw(&headers), expected, "{accept}");
        };
        check("application/octet-stream", true);
        check("Application/Octet-Stream;q=0.9, application/json;q=0.1", true);
        check("application/json", false);
        check("*/*", false);
        assert!(!wants_raw(&HeaderMap::new()));
    }

    #[test]
    fn a_header_lists_a_hundred_truncated_texts_and_counts_all() {
        let mut headers = HeaderMap::new();
        set_truncated(&mut headers, &[]);
        assert!(headers.is_empty());
        set_truncated(&mut headers, &[0, 3]);
        assert_eq!(headers["x-truncated-inputs"], "0,3");
        assert_eq!(headers["x-truncated-inputs-count"], "2");
        set_truncated(&mut headers, &(0..2_048).collect::<Vec<_>>());
        assert!(headers["x-truncated-inputs"].to_str().unwrap().ends_with(",98,99"));
        assert_eq!(headers["x-truncated-inputs-count"], "2048");
    }
}
