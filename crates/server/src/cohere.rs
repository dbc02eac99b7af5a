//! `POST /v1/embed` and `/v2/embed`, as clients of Cohere know them.

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_api::{
    CohereEmbedReply, CohereEmbedRequest, CohereEmbeddings, CohereMeta, CohereUnits, CohereVersion, Count,
    EmbeddingType, EmbeddingsByType,
};
use weir_retrieval::{maybe_spawn_blocking, models};

use super::body::{self, Call};
use super::embeddings::{
    EmbedJob, EmbedOutput, check_dimensions, embed as embed_texts, is_long_reply, read_body,
};
use super::{quantised, vectors};
use crate::Result;

/// Embeds texts.
pub(super) async fn embed(call: Call, path: MatchedPath, request: Request) -> Result<Response> {
    let (caching, until) = (body::caching(request.headers()), body::until(&request));
    let (bytes, place) = read_body(&call, request).await?;
    let request: CohereEmbedRequest = weir_api::parse(&bytes)?;
    drop(bytes);
    request.check(&call.config.request_limits())?;
    let model = models::embedder(&call.models, &call.caller, &request.model)?.clone();
    check_dimensions(&model, request.output_dimension).await?;
    let is_first_version = path.as_str().starts_with("/v1/");
    let job = EmbedJob {
        role: request.role(),
        truncate: request.truncate.unwrap_or_default(),
        texts: request.texts.clone(),
        field: "texts",
        model,
        caching,
        until,
        dimensions: request.output_dimension.map(Count::get),
        place,
    };
    let EmbedOutput { embeddings, usage, truncated, place, .. } = embed_texts(&call, job).await?;
    let floats = embeddings.iter().map(Vec::len).sum();
    let mut response = maybe_spawn_blocking(is_long_reply(&embeddings), move || {
        let is_list = is_first_version && request.embedding_types.is_empty();
        let reply = CohereEmbedReply {
            id: super::layers::new_uuid(),
            response_type: is_first_version
                .then(|| if is_list { "embeddings_floats" } else { "embeddings_by_type" }.to_owned()),
            embeddings: match is_list {
                true => CohereEmbeddings::Floats(embeddings),
                false => CohereEmbeddings::ByType(Box::new(by_type(embeddings, &request.embedding_types))),
            },
            texts: request.texts.into_vec(),
            meta: CohereMeta {
                api_version: CohereVersion { version: if is_first_version { "1" } else { "2" }.to_owned() },
                billed_units: CohereUnits { input_tokens: usage.prompt_tokens },
            },
        };
        vectors::json(&reply, floats, place)
    })
    .await??;
    vectors::set_truncated(response.headers_mut(), &truncated);
    Ok(response)
}

/// The embeddings in each of the types; floats without any.
fn by_type(embeddings: Vec<Vec<f32>>, types: &[EmbeddingType]) -> EmbeddingsByType {
    let mut all = EmbeddingsByType::default();
    for kind in types {
        match kind {
            EmbeddingType::Float => {}
            EmbeddingType::Int8 => {
                all.int8 = Some(embeddings.iter().map(|row| quantised::int8(row)).collect())
            }
            EmbeddingType::Uint8 => {
                let unsigned = |row: &Vec<f32>| {
                    quantised::int8(row).into_iter().map(|x| x.cast_unsigned() ^ 0x80).collect()
                };
                all.uint8 = Some(embeddings.iter().map(unsigned).collect());
            }
            EmbeddingType::Binary => {
                let signed = |row: &Vec<f32>| {
                    quantised::bits(row).into_iter().map(|x| (x ^ 0x80).cast_signed()).collect()
                };
                all.binary = Some(embeddings.iter().map(signed).collect());
            }
            EmbeddingType::Ubinary => {
                all.ubinary = Some(embeddings.iter().map(|row| quantised::bits(row)).collect());
            }
            EmbeddingType::Base64 => {
                let encoded = |row: &Vec<f32>| STANDARD.encode(vectors::bytes(std::slice::from_ref(row)));
                all.base64 = Some(embeddings.iter().map(encoded).collect());
            }
        }
    }
    if types.is_empty() || types.contains(&EmbeddingType::Float) {
        all.float = Some(embeddings);
    }
    all
}
