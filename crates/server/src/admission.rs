//! Admission: what is reserved for a request when its caller is known and before its body is read. A chat request without an announced length
//! reserves memory while its body is read. Limits of keys, lanes and documents are asked elsewhere: see `docs/architecture/request.md`.

use axum::http::HeaderMap;
use weir_api::ErrorCode;
use weir_inference::{BudgetError, Reservation};

use super::body::body_length;
use super::context::Admitted;
use super::error::ApiError;
use super::gateway::{Gateway, kib};
use super::ingest_lines;
use super::routes::{AdmissionClass, Route};
use crate::Result;

/// Admits a request of `route`, or refuses it.
///
/// # Errors
/// `overloaded`; `payload_too_large` for a body that never fits into memory.
pub(super) fn admit(gateway: &Gateway, route: &Route, headers: &HeaderMap) -> Result<Admitted> {
    // without an announced length, as much as the longest body
    let (most, _) = route.body.of(&gateway.config.limits);
    let announced = body_length(headers).and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = announced.unwrap_or(most).min(most);
    match route.admission {
        AdmissionClass::Light => Ok(Admitted::Light),
        AdmissionClass::Search => Ok(Admitted::Search(gateway.retrieval.admit_search()?)),
        AdmissionClass::Embedding => {
            Ok(Admitted::Embedding(gateway.scheduler.memory_budget().reserve_body(bytes)?))
        }
        AdmissionClass::Ingest => {
            let bytes = match ingest_lines::is_lines(headers) {
                true => announced.unwrap_or(most).min(ingest_lines::memory(&gateway.config.limits)).min(most),
                false => bytes,
            };
            let permits = gateway.ingest_kib.clone().try_acquire_many_owned(kib(bytes));
            permits.map(Admitted::Ingest).map_err(|_| {
                let message = "the bodies of other ingest requests take all memory for them";
                ApiError::new(ErrorCode::Overloaded, message)
            })
        }
        AdmissionClass::Chat => {
            let mut reservation = Reservation::default();
            // one without an announced length is reserved while it is read
            extend_chat(gateway, &mut reservation, announced.unwrap_or(0).min(most))?;
            Ok(Admitted::Chat(reservation))
        }
    }
}

/// Reserves memory for the body of a request for a language model, which has `bytes` bytes so far.
///
/// # Errors
/// `overloaded`, `payload_too_large`.
pub(super) fn extend_chat(gateway: &Gateway, reservation: &mut Reservation, bytes: usize) -> Result<()> {
    gateway.chat_memory.extend_body(reservation, bytes).map_err(|error| match error {
        BudgetError::Busy => {
            let message = "the bodies of other requests for language models take all the memory of `limits.chat_memory_bytes_max`; try again later, or send a shorter body";
            ApiError::new(ErrorCode::Overloaded, message)
        }
        BudgetError::TooLarge(limit) => {
            let message = format!(
                "the body needs more memory than the {limit} bytes of `limits.chat_memory_bytes_max`; send a shorter one"
            );
            ApiError::new(ErrorCode::PayloadTooLarge, message)
        }
    })
}
