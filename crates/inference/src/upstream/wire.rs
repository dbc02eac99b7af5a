//! The bodies of requests and replies, for each protocol.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::json;

use super::RemoteRequest;
use crate::{Rows, Truncation, l2_normalise};
use weir_config::{Protocol, UpstreamConfig};

/// The path that is appended to the upstream's address.
pub(super) fn path(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::OpenAi => "/embeddings",
        Protocol::Weir => "/v1/embeddings",
        Protocol::Tei | Protocol::Texts => "/embed",
        Protocol::TeiRerank | Protocol::Cohere => "/rerank",
    }
}

/// The header of a gateway's raw embeddings that names their model.
pub(super) const FINGERPRINT_HEADER: &str = "x-embedding-fingerprint";

/// The path at which a gateway describes a model; its default one without a name.
pub(super) fn description_path(model: &str) -> String {
    match model {
        "" => "/v1/embedder".to_owned(),
        name => format!("/v1/embedder?model={}", utf8_percent_encode(name, NON_ALPHANUMERIC)),
    }
}

/// The body of a request to `model`. Its texts have the same truncation.
pub(super) fn request(settings: &UpstreamConfig, model: &str, request: &RemoteRequest) -> String {
    let inputs: Vec<&str> = request.texts.iter().map(|text| text.text.as_str()).collect();
    let body = match settings.protocol {
        Protocol::Weir => {
            let truncate = match request.texts.first().map_or(Truncation::End, |text| text.truncation) {
                Truncation::End => "end",
                Truncation::Start => "start",
                Truncation::Never => "error",
            };
            json!({"model": model, "input": inputs, "truncate": truncate})
        }
        Protocol::Texts => json!({"texts": inputs}),
        Protocol::OpenAi => json!({"model": settings.model, "input": inputs, "encoding_format": "base64"}),
        Protocol::Tei => {
            let truncation = request.texts.first().map_or(Truncation::End, |text| text.truncation);
            let direction = if truncation == Truncation::Start { "Left" } else { "Right" };
            json!({
                "inputs": inputs,
                "normalize": settings.normalize,
                "truncate": truncation != Truncation::Never,
                "truncation_direction": direction,
            })
        }
        Protocol::TeiRerank => {
            json!({"query": request.query, "texts": inputs, "raw_scores": false, "truncate": true})
        }
        // `top_n`: return all scores
        Protocol::Cohere => {
            json!({"model": settings.model, "query": request.query, "documents": inputs, "top_n": inputs.len()})
        }
    };
    body.to_string()
}

/// The embeddings or scores in a reply to a request for `count` texts, a row of finite numbers for each text, in their order. With
/// `normalize`, embeddings are scaled to length one.
///
/// # Errors
/// A message about the defect of the reply.
pub(super) fn rows(protocol: Protocol, body: &[u8], count: usize, normalize: bool) -> Result<Rows, String> {
    let unreadable = |error: serde_json::Error| format!("its reply can't be read: {error}");
    let kind = if protocol.is_reranking() { "scores" } else { "embeddings" };
    let mut rows: Rows = match protocol {
        Protocol::Weir => raw_rows(body, count)?,
        Protocol::Texts => {
            let reply: TextsReply = serde_json::from_slice(body).map_err(unreadable)?;
            reply.embeddings.iter().map(Vec::as_slice).collect()
        }
        Protocol::Tei => {
            let rows: Vec<Vec<f32>> = serde_json::from_slice(body).map_err(unreadable)?;
            rows.iter().map(Vec::as_slice).collect()
        }
        Protocol::OpenAi => {
            let reply: OpenAiReply = serde_json::from_slice(body).map_err(unreadable)?;
            in_order(reply.data.into_iter().map(|item| (item.index, item.embedding.0)))?
        }
        Protocol::TeiRerank => {
            let scores: Vec<TeiScore> = serde_json::from_slice(body).map_err(unreadable)?;
            in_order(scores.into_iter().map(|item| (Some(item.index), vec![item.score])))?
        }
        Protocol::Cohere => {
            let reply: CohereReply = serde_json::from_slice(body).map_err(unreadable)?;
            in_order(reply.results.into_iter().map(|item| (Some(item.index), vec![item.relevance_score])))?
        }
    };
    if rows.len() != count {
        return Err(format!("{} {kind} for {count} texts", rows.len()));
    }
    for row in rows.iter_mut() {
        if row.is_empty() || !row.iter().all(|x| x.is_finite()) {
            return Err(format!("{kind} that are empty or not finite numbers"));
        }
        if normalize && !protocol.is_reranking() {
            l2_normalise(row);
        }
    }
    Ok(rows)
}

/// The reply of the contract of `texts`.
#[derive(Deserialize)]
struct TextsReply {
    embeddings: Vec<Vec<f32>>,
}

/// Little-endian floats, the same number for each text.
fn raw_rows(body: &[u8], count: usize) -> Result<Rows, String> {
    let (floats, remainder) = body.as_chunks::<4>();
    if !remainder.is_empty() || count == 0 || !floats.len().is_multiple_of(count) {
        return Err(format!("{} bytes, which are not embeddings of {count} texts", body.len()));
    }
    let width = floats.len() / count;
    let floats = floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    Ok(Rows::of_lengths(floats, std::iter::repeat_n(width, count)))
}

/// The used fields of OpenAI's reply.
#[derive(Deserialize)]
struct OpenAiReply {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Floats,
}

/// The used fields of a score in TEI's reply.
#[derive(Deserialize)]
struct TeiScore {
    index: usize,
    score: f32,
}

/// The used fields of Cohere's reply.
#[derive(Deserialize)]
struct CohereReply {
    results: Vec<CohereScore>,
}

#[derive(Deserialize)]
struct CohereScore {
    index: usize,
    relevance_score: f32,
}

/// Numbers, or base64 of little-endian floats: some servers ignore `encoding_format`.
struct Floats(Vec<f32>);

impl<'de> Deserialize<'de> for Floats {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Floats, D::Error> {
        deserializer.deserialize_any(FloatsVisitor)
    }
}

struct FloatsVisitor;

impl<'de> Visitor<'de> for FloatsVisitor {
    type Value = Floats;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers or floats in base64")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Floats, E> {
        let bytes = STANDARD.decode(text).map_err(|_| E::custom("an embedding is not in base64"))?;
        let (floats, remainder) = bytes.as_chunks::<4>();
        if !remainder.is_empty() {
            return Err(E::custom("an embedding in base64 is not a whole number of floats"));
        }
        Ok(Floats(floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Floats, A::Error> {
        let mut floats = Vec::with_capacity(items.size_hint().unwrap_or(1024));
        while let Some(float) = items.next_element()? {
            floats.push(float);
        }
        Ok(Floats(floats))
    }
}

/// Sorts rows by their `index`; rows without one keep their position.
fn in_order(items: impl ExactSizeIterator<Item = (Option<usize>, Vec<f32>)>) -> Result<Rows, String> {
    let mut ordered: Vec<Option<Vec<f32>>> = vec![None; items.len()];
    for (position, (index, row)) in items.enumerate() {
        let index = index.unwrap_or(position);
        match ordered.get_mut(index) {
            Some(slot @ None) => *slot = Some(row),
            Some(Some(_)) | None => return Err(format!("its `index` {index} is a duplicate or too large")),
        }
    }
    Ok(ordered.iter().flatten().map(Vec::as_slice).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(protocol: Protocol, body: &str, count: usize, expected: Result<&[&[f32]], &str>) {
        let read = rows(protocol, body.as_bytes(), count, false);
        let expected = expected.map(|rows| rows.iter().copied().collect());
        assert_eq!(read, expected.map_err(str::to_owned), "{body}");
    }

    #[test]
    fn replies_are_put_in_order_whether_numbers_or_base64() {
        let both = r#"{"data":[{"index":1,"embedding":[3,-0.5]},{"index":0,"embedding":"AACAPwAAAEA="}],"usage":{}}"#;
        check(Protocol::OpenAi, both, 2, Ok(&[&[1.0, 2.0], &[3.0, -0.5]]));
        check(
            Protocol::OpenAi,
            r#"{"data":[{"embedding":[1]},{"embedding":[2]}]}"#,
            2,
            Ok(&[&[1.0], &[2.0]]),
        );
        check(Protocol::Tei, "[[1,2],[3,4]]", 2, Ok(&[&[1.0, 2.0], &[3.0, 4.0]]));
        check(Protocol::Texts, r#"{"embeddings":[[1,2],[3,4]]}"#, 2, Ok(&[&[1.0, 2.0], &[3.0, 4.0]]));
        let raw: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let floats =
            |count| rows(Protocol::Weir, &raw, count, false).map(|rows| rows.get(1).map(<[f32]>::to_vec));
        assert_eq!(floats(2), Ok(Some(vec![3.0, 4.0])));
        assert_eq!(floats(3), Err("16 bytes, which are not embeddings of 3 texts".to_owned()));
    }

    #[test]
    fn replies_that_do_not_fit_are_refused() {
        check(Protocol::Tei, "[[1,2]]", 2, Err("1 embeddings for 2 texts"));
        check(Protocol::OpenAi, r#"{"data":[]}"#, 1, Err("0 embeddings for 1 texts"));
        let twice = r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[2]}]}"#;
        check(Protocol::OpenAi, twice, 2, Err("its `index` 0 is a duplicate or too large"));
        let odd = rows(Protocol::OpenAi, br#"{"data":[{"embedding":"AACA"}]}"#, 1, false).unwrap_err();
        assert!(odd.contains("not a whole number of floats"), "{odd}");
        assert!(
            rows(Protocol::Tei, b"<html>", 1, false).unwrap_err().starts_with("its reply can't be read: ")
        );
    }

    #[test]
    fn embeddings_are_finite_and_scaled_where_that_is_configured() {
        assert_eq!(rows(Protocol::Tei, b"[[3,4]]", 1, true).unwrap().floats(), [0.6, 0.8]);
        assert_eq!(
            rows(Protocol::TeiRerank, br#"[{"index":0,"score":3}]"#, 1, true).unwrap().floats(),
            [3.0]
        );
        for body in ["[[]]", "[[1,1e300]]"] {
            let wrong = rows(Protocol::Tei, body.as_bytes(), 1, true).unwrap_err();
            assert!(wrong.contains("finite") || wrong.contains("can't be read"), "{wrong}");
        }
    }

    #[test]
    fn scores_are_put_in_order_and_each_text_has_one() {
        let tei = r#"[{"index":1,"score":0.75,"text":"b"},{"index":0,"score":0.25}]"#;
        check(Protocol::TeiRerank, tei, 2, Ok(&[&[0.25], &[0.75]]));
        check(Protocol::TeiRerank, tei, 3, Err("2 scores for 3 texts"));
        let cohere = r#"{"id":"x","results":[{"index":1,"relevance_score":0.5,"document":{"text":"b"}},
            {"index":0,"relevance_score":-2}],"meta":{}}"#;
        check(Protocol::Cohere, cohere, 2, Ok(&[&[-2.0], &[0.5]]));
        let twice = r#"{"results":[{"index":0,"relevance_score":1},{"index":0,"relevance_score":2}]}"#;
        check(Protocol::Cohere, twice, 2, Err("its `index` 0 is a duplicate or too large"));
        let large = r#"{"results":[{"index":2,"relevance_score":1},{"index":0,"relevance_score":2}]}"#;
        check(Protocol::Cohere, large, 2, Err("its `index` 2 is a duplicate or too large"));
        assert!(rows(Protocol::Cohere, b"{}", 0, false).unwrap_err().contains("missing field `results`"));
    }
}
