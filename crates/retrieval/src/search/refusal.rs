//! Refusals of the index, in terms of the request that caused them.

use weir_api::{ErrorCode, GroupBy, Invalid, SearchRequest};
use weir_index::IndexError;
use weir_index::filter::Filter;

use weir_refusal::RequestError;

/// The message while an index is rebuilt.
pub(crate) const REBUILT: &str = "the index of the collection was lost and is being rebuilt";

/// The reply to what the index said about a search.
pub(crate) fn refusal(error: IndexError, request: &SearchRequest) -> RequestError {
    let message = error.to_string();
    let refuse = |code, path| Invalid::at(code, &[path], message.as_str()).into();
    match &error {
        IndexError::Closed => RequestError::new(ErrorCode::Overloaded, "the collection is closing"),
        IndexError::Lost { .. } => RequestError::new(ErrorCode::CollectionNotReady, REBUILT),
        IndexError::SnapshotExpired(_) => refuse(ErrorCode::CursorExpired, "cursor"),
        IndexError::UnknownField { field, .. } => match place_of(field, request) {
            Place::InFilter(pointer) => unknown_in_filter(&pointer, &message).into(),
            Place::At(path) => refuse(ErrorCode::UnknownField, path),
            Place::In(list, index) => {
                Invalid::whole(ErrorCode::UnknownField, message).in_item(list, index).into()
            }
        },
        IndexError::EmbeddingLength { .. } | IndexError::EmbeddingNotFinite => {
            refuse(ErrorCode::InvalidParameter, "vector")
        }
        IndexError::NoEmbeddings | IndexError::EmbeddingMissing(_) => {
            refuse(ErrorCode::InvalidParameter, "mode")
        }
        IndexError::InvalidParameter { name: "diversity", .. } => {
            refuse(ErrorCode::InvalidParameter, "diversity")
        }
        IndexError::InvalidParameter { .. } => refuse(ErrorCode::InvalidParameter, "fusion"),
        IndexError::NotSupported { .. } => Invalid::whole(ErrorCode::InvalidParameter, message).into(),
        IndexError::AheadOfStore { .. }
        | IndexError::OutOfOrder { .. }
        | IndexError::Locked(_)
        | IndexError::Panicked
        | IndexError::Interrupted
        | IndexError::File { .. }
        | IndexError::Mapped(_)
        | IndexError::Damaged { .. }
        | IndexError::Lexical(_)
        | IndexError::Unavailable { .. }
        | IndexError::Engine { .. }
        | IndexError::TooLarge { .. } => RequestError::of_index(&error),
    }
}

/// The refusal of a field that a filter names at `pointer`, a JSON pointer from there.
pub(crate) fn unknown_in_filter(pointer: &str, message: &str) -> Invalid {
    Invalid::at_pointer(ErrorCode::UnknownField, "filter", pointer, message)
}

enum Place {
    InFilter(String),
    At(&'static str),
    In(&'static str, usize),
}

/// Where the request names the field, in the order in which the index looks.
fn place_of(field: &str, request: &SearchRequest) -> Place {
    let in_filter = request.filter.as_ref().and_then(|filter| Filter::pointer_to(field, filter.text()));
    if let Some(pointer) = in_filter {
        return Place::InFilter(pointer);
    }
    let facets = request.facets.as_deref().unwrap_or_default();
    if let Some(index) = facets.iter().position(|facet| facet.field == field) {
        return Place::In("facets", index);
    }
    let sort = request.sort.as_deref().unwrap_or_default();
    if let Some(index) = sort.iter().position(|sort| sort.field == field) {
        return Place::In("sort", index);
    }
    match &request.group_by {
        Some(GroupBy::Field(name)) if name == field => Place::At("group_by"),
        Some(_) | None => Place::At("query"),
    }
}
