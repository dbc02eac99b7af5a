//! Embeddings on the wire: numbers, base64, raw bytes.

mod decimal;

use std::io::Write as _;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_api::{EmbeddingDtype, Usage};
use weir_inference::{LoadedModel, Reservation, Rows};
use zerocopy::{Immutable, IntoBytes};

use super::encoding::{ARROW, Encoding, RAW};
use super::error::ApiError;
use super::{arrow, dtype};
use crate::Result;

/// Most indices in one header, so that it stays below the limits of common clients.
const INDICES_MAX: usize = 100;

/// The fields of a reply beside the embeddings.
pub(super) struct Described<'a> {
    /// The model, as named in the request.
    pub(super) name: &'a str,
    pub(super) model: &'a LoadedModel,
    pub(super) usage: Usage,
}

/// The reply in the encoding of the request; `json` writes it if that is JSON.
pub(super) fn reply(
    encoding: Encoding,
    embeddings: Rows,
    described: &Described<'_>,
    place: Reservation,
    json: impl FnOnce(Rows, Encoding, Reservation) -> Result<Response>,
) -> Result<Response> {
    let (count, dimension) = (embeddings.len(), embeddings.width());
    let (mut response, media, dtype) = match encoding {
        Encoding::Json(_) | Encoding::Base64(_) => return json(embeddings, encoding, place),
        Encoding::Raw(dtype) => (raw(embeddings, dtype, place), RAW, dtype),
        Encoding::Arrow => {
            let stream = arrow::stream(embeddings).map_err(|error| ApiError::internal(&error))?;
            (held(stream, place).into_response(), ARROW, EmbeddingDtype::Float32)
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    set(headers, "x-embedding-count", count);
    set(headers, "x-embedding-dim", dimension);
    headers.insert("x-embedding-dtype", HeaderValue::from_static(dtype.name()));
    set(headers, "x-usage-prompt-tokens", described.usage.prompt_tokens);
    let named = [
        ("x-embedding-model", described.name),
        ("x-embedding-fingerprint", &described.model.embedder_fingerprint()),
    ]
    .map(|(header, value)| Some((header, HeaderValue::from_bytes(value.as_bytes()).ok()?)));
    headers
        .extend(named.into_iter().flatten().map(|(header, value)| (HeaderName::from_static(header), value)));
    Ok(response)
}

/// The numbers of all embeddings one after the other. 32-bit floats are sent from where the model wrote them.
fn raw(embeddings: Rows, dtype: EmbeddingDtype, place: Reservation) -> Response {
    if dtype == EmbeddingDtype::Float32 && cfg!(target_endian = "little") {
        return held(embeddings.into_floats(), place).into_response();
    }
    let mut bytes = Vec::with_capacity(embeddings.len() * dtype::bytes_of(dtype, embeddings.width()));
    embeddings.iter().for_each(|embedding| dtype::push_bytes(dtype, embedding, &mut bytes));
    held(bytes, place).into_response()
}

/// The reply of OpenAI's API, written without a value for each float between; in base64, or as numbers.
pub(super) fn list(
    embeddings: &Rows,
    encoding: Encoding,
    model: &str,
    usage: Usage,
    place: Reservation,
) -> Result<Response> {
    let mut text = text_for(embeddings.floats().len());
    let mut bytes = Vec::new();
    text.extend_from_slice(b"{\"object\":\"list\",\"data\":[");
    for (index, embedding) in embeddings.iter().enumerate() {
        let separator = if index == 0 { "" } else { "," };
        // a vector takes all bytes
        _ = write!(text, "{separator}{{\"object\":\"embedding\",\"index\":{index},\"embedding\":");
        match encoding {
            Encoding::Json(EmbeddingDtype::Float32) | Encoding::Raw(_) | Encoding::Arrow => {
                decimal::push_list(&mut text, embedding);
            }
            Encoding::Base64(EmbeddingDtype::Float32) if cfg!(target_endian = "little") => {
                push_base64(&mut text, embedding.as_bytes());
            }
            Encoding::Json(dtype) => {
                bytes.clear();
                dtype::push_bytes(dtype, embedding, &mut bytes);
                let is_signed = matches!(dtype, EmbeddingDtype::Int8 | EmbeddingDtype::Binary);
                push_integers(&mut text, &bytes, is_signed);
            }
            Encoding::Base64(dtype) => {
                bytes.clear();
                dtype::push_bytes(dtype, embedding, &mut bytes);
                push_base64(&mut text, &bytes);
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
pub(super) fn bare_list(embeddings: &Rows, place: Reservation) -> Response {
    let mut text = text_for(embeddings.floats().len());
    push_rows(&mut text, embeddings);
    json_response(text, place)
}

/// The reply to `texts`.
pub(super) fn object(embeddings: &Rows, place: Reservation) -> Response {
    let mut text = text_for(embeddings.floats().len());
    text.extend_from_slice(b"{\"embeddings\":");
    push_rows(&mut text, embeddings);
    text.push(b'}');
    json_response(text, place)
}

fn push_rows(text: &mut Vec<u8>, embeddings: &Rows) {
    text.push(b'[');
    for (index, embedding) in embeddings.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        decimal::push_list(text, embedding);
    }
    text.push(b']');
}

/// Appends bytes as a list of whole numbers.
fn push_integers(text: &mut Vec<u8>, bytes: &[u8], is_signed: bool) {
    text.push(b'[');
    for (index, byte) in bytes.iter().enumerate() {
        let number = if is_signed { i16::from(byte.cast_signed()) } else { i16::from(*byte) };
        let separator = if index == 0 { "" } else { "," };
        // a vector takes all bytes
        _ = write!(text, "{separator}{number}");
    }
    text.push(b']');
}

/// Appends bytes in base64, in quotation marks.
fn push_base64(text: &mut Vec<u8>, bytes: &[u8]) {
    text.push(b'"');
    let start = text.len();
    text.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = STANDARD.encode_slice(bytes, &mut text[start..]).unwrap_or_default();
    text.truncate(start + written);
    text.push(b'"');
}

/// A list for each embedding, for replies that are no hot path.
pub(super) fn lists(embeddings: &Rows) -> Vec<Vec<f32>> {
    embeddings.iter().map(<[f32]>::to_vec).collect()
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
fn held<T: IntoBytes + Immutable + Send + 'static>(content: Vec<T>, place: Reservation) -> Body {
    struct Held<T>(Vec<T>, #[expect(dead_code, reason = "dropped with the content")] Reservation);
    impl<T: IntoBytes + Immutable> AsRef<[u8]> for Held<T> {
        fn as_ref(&self) -> &[u8] {
            self.0.as_bytes()
        }
    }
    Body::from(Bytes::from_owner(Held(content, place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_what_serde_would_write() {
        use weir_api::{EmbeddingItem, EmbeddingObject, EmbeddingsReply, EncodedEmbedding, ListObject};

        let rows = [vec![0.1f32, -1.0, 0.0, -0.0, 1e-30, 3.4e38, 1.0 / 3.0], vec![], vec![16_777_216.0, 0.3]];
        let embeddings: Rows = rows.iter().map(Vec::as_slice).collect();
        let usage = Usage { prompt_tokens: 3, total_tokens: 3, truncated: 1 };
        let items = embeddings.iter().enumerate().map(|(index, embedding)| EmbeddingItem {
            object: EmbeddingObject::Embedding,
            index,
            embedding: EncodedEmbedding::Float(embedding.to_vec()),
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
        let floats = Encoding::Json(EmbeddingDtype::Float32);
        let written = list(&embeddings, floats, "a\"b", usage, Reservation::default()).unwrap();
        assert_eq!(body(written), serde_json::to_string(&reply).unwrap());
        let bare = bare_list(&embeddings, Reservation::default());
        assert_eq!(body(bare), serde_json::to_string(&rows).unwrap());
        let none = Rows::from_iter([&[f32::NAN][..]]);
        assert_eq!(body(object(&none, Reservation::default())), r#"{"embeddings":[[null]]}"#);
        let ones = Rows::from_iter([&[1.0f32, -2.0][..]]);
        let written = |encoding| {
            let written = list(&ones, encoding, "m", usage, Reservation::default()).unwrap();
            let reply: EmbeddingsReply = serde_json::from_str(&body(written)).unwrap();
            reply.data[0].embedding.clone()
        };
        let encoded = |dtype, expected: &str| {
            assert_eq!(written(Encoding::Base64(dtype)), EncodedEmbedding::Base64(expected.to_owned()));
        };
        encoded(EmbeddingDtype::Float32, "AACAPwAAAMA=");
        encoded(EmbeddingDtype::Float16, "ADwAwA==");
        encoded(EmbeddingDtype::Int8, "QIE=");
        let listed = |dtype, expected: &[f32]| {
            assert_eq!(written(Encoding::Json(dtype)), EncodedEmbedding::Float(expected.to_vec()));
        };
        listed(EmbeddingDtype::Int8, &[64.0, -127.0]);
        listed(EmbeddingDtype::Uint8, &[192.0, 1.0]);
        listed(EmbeddingDtype::Binary, &[0.0]);
        listed(EmbeddingDtype::Ubinary, &[128.0]);
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
