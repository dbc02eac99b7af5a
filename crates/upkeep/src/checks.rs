//! Whether an index is of the store, and what it must not show before it has caught up.

use weir_index::{Engine, IndexError};
use weir_refusal::CollectionError;
use weir_store::{Collection, OperationKind, StoreView};

/// Why an index can't be brought to the state of the store by the operations after its applied sequence. `others_apply`: whether other gateways apply
/// changes to it too.
///
/// # Errors
/// Errors of the store and the engine; `AheadOfStore` if the index has applied operations that the store does not have.
pub async fn unusable(
    stored: &Collection,
    documents: &StoreView,
    engine: &Engine,
    others_apply: bool,
    index_error: impl Fn(IndexError) -> CollectionError,
) -> Result<Option<&'static str>, CollectionError> {
    let applied_seq = engine.applied_seq();
    if engine.is_empty().await.map_err(&index_error)? {
        return Ok(None);
    }
    if others_apply {
        let store = documents.last_operation().await?.map_or(0, |(number, _)| number);
        if applied_seq > store {
            return Err(index_error(IndexError::AheadOfStore { applied_seq, store }));
        }
    }
    // another gateway may be filling it; the one that applies changes decides. What was deleted before the generation began is in none of its indexes
    let missed_from = stored.generation.complete_from.max(applied_seq);
    if missed_from < stored.pruned_to && !others_apply {
        return Ok(Some("the index is older than what it has missed"));
    }
    let recorded = engine.read_to().await.map_err(index_error)?;
    let operation = recorded.map_or(applied_seq, |point| point.operation);
    // an index without a number is of a store that had none: both are of an earlier version
    let is_of_store = documents.operation_identity(operation).await? == recorded.map(|point| point.identity);
    Ok((!is_of_store)
        .then_some("the index was made from another history of the store, which was restored or replaced"))
}

/// Hides the documents that were deleted by operations after `after`: an acknowledged deletion must hold for the first search. Returns the last
/// operation.
///
/// # Errors
/// Errors of the store and the engine.
pub async fn hide_deleted(
    documents: &StoreView,
    engine: &Engine,
    mut after: u64,
    index_error: impl Fn(IndexError) -> CollectionError,
) -> Result<u64, CollectionError> {
    // an empty index has nothing to hide
    while !engine.is_empty().await.map_err(&index_error)? {
        let operations = documents.operations_after(after, 1000).await?;
        let Some(last) = operations.last() else { break };
        after = last.number;
        for operation in operations.iter().filter(|operation| operation.kind == OperationKind::Delete) {
            engine.remove_now(&operation.document_id, operation.number).await.map_err(&index_error)?;
        }
    }
    Ok(after)
}
