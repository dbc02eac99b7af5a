//! `POST /v1/embed` and `/v2/embed`, as clients of Cohere know them.

use axum::extract::Request;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_api::{
    CohereEmbedReply, CohereEmbedRequest, CohereEmbeddings, CohereMeta, CohereUnits, CohereVersion, Count,
    EmbeddingDtype, EmbeddingType, EmbeddingsByType,
};
use weir_inference::Rows;
use weir_retrieval::{EmbedJob, EmbedOutput, check_dimensions, models};

use super::body::{self, CallContext};
use super::context;
use super::embeddings::{embed as embed_texts, is_long_reply, read_body};
use super::{dtype, vectors};
use crate::Result;

/// Embeds texts.
pub(super) async fn embed(call: CallContext, request: Request) -> Result<Response> {
    let is_first_version = context::path(&request).starts_with("/v1/");
    let (caching, until) = (body::caching(request.headers()), context::deadline(&request));
    let (bytes, place) = read_body(&call, request).await?;
    let request: CohereEmbedRequest = weir_api::parse(&bytes)?;
    drop(bytes);
    request.check(&call.config.request_limits())?;
    let model = models::embedder(&call.models, &call.caller, &request.model)?.clone();
    check_dimensions(&model, request.output_dimension).await?;
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
    let floats = embeddings.floats().len();
    let response = call.retrieval.maybe_in_background(is_long_reply(&embeddings), move || {
        let is_list = is_first_version && request.embedding_types.is_empty();
        let reply = CohereEmbedReply {
            id: super::request_id::new_uuid(),
            response_type: is_first_version
                .then(|| if is_list { "embeddings_floats" } else { "embeddings_by_type" }.to_owned()),
            embeddings: match is_list {
                true => CohereEmbeddings::Floats(vectors::lists(&embeddings)),
                false => CohereEmbeddings::ByType(Box::new(by_type(&embeddings, &request.embedding_types))),
            },
            texts: request.texts.into_vec(),
            meta: CohereMeta {
                api_version: CohereVersion { version: if is_first_version { "1" } else { "2" }.to_owned() },
                billed_units: CohereUnits { input_tokens: usage.prompt_tokens },
            },
        };
        vectors::json(&reply, floats, place)
    });
    let mut response = response.await??;
    vectors::set_truncated(response.headers_mut(), &truncated);
    Ok(response)
}

/// The embeddings in each of the types; floats without any.
fn by_type(embeddings: &Rows, types: &[EmbeddingType]) -> EmbeddingsByType {
    let mut all = EmbeddingsByType::default();
    for kind in types {
        match kind {
            EmbeddingType::Float => {}
            EmbeddingType::Int8 => {
                all.int8 = Some(embeddings.iter().map(|row| dtype::int8(row).collect()).collect())
            }
            EmbeddingType::Uint8 => {
                all.uint8 = Some(embeddings.iter().map(|row| dtype::uint8(row).collect()).collect());
            }
            EmbeddingType::Binary => {
                all.binary = Some(embeddings.iter().map(|row| dtype::binary(row).collect()).collect());
            }
            EmbeddingType::Ubinary => {
                all.ubinary = Some(embeddings.iter().map(|row| dtype::bits(row).collect()).collect());
            }
            EmbeddingType::Base64 => {
                let encoded = |row| {
                    let mut bytes = Vec::new();
                    dtype::push_bytes(EmbeddingDtype::Float32, row, &mut bytes);
                    STANDARD.encode(bytes)
                };
                all.base64 = Some(embeddings.iter().map(encoded).collect());
            }
        }
    }
    if types.is_empty() || types.contains(&EmbeddingType::Float) {
        all.float = Some(vectors::lists(embeddings));
    }
    all
}
