//! The contract that every store implementation fulfils. Each function in the modules is one test; it gets a function that opens the
//! same store, empty at first, any number of times (one at a time).

#![allow(unreachable_pub, reason = "the suite is a module of the test program of each store implementation")]

pub mod budgets;
pub mod changes;
pub mod collections;
pub mod conditions;
pub mod documents;
pub mod feedback;
pub mod idempotency;
pub mod jobs;
pub mod kept;
pub mod keys;
pub mod leases;
pub mod prepared;
pub mod unread;
pub mod upkeep;
pub mod visibility;
pub mod webhooks;

pub use weir_policy::{Allowlist, Caller};
pub use weir_store::{
    ChunkSpan, Collection, Job, NewDocument, Retention, Store, StoreView, Submission, TextHash,
};

/// Opens the store of one test.
pub type Open<'a> = &'a dyn Fn() -> Store;

/// Defines a `#[tokio::test]` for each function of the contract, with stores that `$open` (a function of a folder) opens.
#[macro_export]
macro_rules! contract_tests {
    ($open:path: $($module:ident::{$($name:ident),* $(,)?})*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let folder = tempfile::tempdir().unwrap();
                $crate::contract::$module::$name(&|| $open(folder.path()).unwrap()).await;
            }
        )*)*
    };
}

/// Defines one `#[tokio::test]` that runs all functions of the contract in turn. `$databases` starts a server and returns a function of a test's name,
/// which makes a database and returns a function that opens its store.
#[macro_export]
macro_rules! contract_in_turn {
    ($databases:path: $($module:ident::{$($name:ident),* $(,)?})*) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn the_contract() {
            let database = $databases();
            $($(
                println!("{}", stringify!($name));
                $crate::contract::$module::$name(&*database(stringify!($name))).await;
            )*)*
        }
    };
}

/// Defines all tests of the contract by another macro, which is given `$open` and their names.
#[macro_export]
macro_rules! contract {
    ($tests:ident!, $open:path) => {
        $crate::$tests! { $open:
            budgets::{
                gateways_lease_no_more_than_a_budget,
                a_lease_that_has_ended_is_charged,
                a_write_that_is_repeated_is_counted_once,
                concurrent_gateways_lease_no_more_than_a_budget,
            }
            changes::{
                committed_changes_are_told,
            }
            collections::{
                creating_an_existing_collection_returns_it_unchanged,
                deleting_a_collection_deletes_everything_except_its_jobs,
                ids_of_deleted_collections_are_not_reused,
                a_new_generation_has_no_chunks,
            }
            conditions::{
                a_document_is_stored_only_if_its_condition_is_met,
                a_file_is_known_while_all_of_its_documents_are_stored,
            }
            documents::{
                accepted_documents_are_stored_after_reopening,
                identical_content_makes_no_operation,
                a_change_of_title_text_or_metadata_makes_an_operation,
                of_two_documents_with_one_id_the_last_is_stored,
                a_deleted_document_can_be_stored_again,
                documents_are_deleted_only_in_the_version_that_is_named,
                every_operation_has_a_number_of_its_own_that_stays,
                ids_and_texts_are_any_unicode,
                a_text_of_16_mib_is_read_back_unchanged,
                operation_numbers_have_no_gaps_under_concurrent_submissions,
                a_failed_request_is_rolled_back_alone,
                operations_are_read_in_pages,
                documents_are_read_in_the_order_asked_for,
                documents_are_listed_by_id_in_pages,
                calls_about_missing_collections_return_none,
            }
            feedback::{
                feedback_is_listed_newest_first_after_reopening,
                feedback_is_listed_in_pages,
                the_oldest_feedback_is_deleted_beyond_the_maximum,
                the_last_judgment_of_each_query_and_document_counts,
                feedback_counts_and_is_deleted_by_caller_and_time,
                feedback_on_missing_documents_is_not_stored,
                the_query_log_is_summed_up_by_query,
                the_oldest_logged_queries_are_deleted_beyond_the_maximum,
            }
            idempotency::{
                a_submission_with_the_same_key_is_stored_once,
                of_concurrent_submissions_with_one_key_one_is_stored,
                a_refused_submission_leaves_no_key,
                idempotency_keys_are_bounded_in_number_and_time,
            }
            jobs::{
                a_job_progresses_with_the_applied_sequence,
                a_job_lists_refused_documents,
                a_document_that_differs_in_a_compared_field_is_not_replaced,
                a_job_without_operations_is_completed_at_once,
                a_completed_job_has_the_counts_of_its_documents_and_chunks,
                a_superseded_generation_does_not_update_jobs,
                a_job_that_is_cancelled_while_an_index_is_made_keeps_what_that_of_before_has,
                a_document_that_fails_in_preparation_is_listed_once,
                a_job_whose_model_failed_ends_as_failed_with_the_reason,
                the_oldest_finished_jobs_are_pruned,
                pruning_keeps_operations_that_are_document_versions,
                jobs_are_listed_newest_first_in_pages,
            }
            keys::{
                keys_and_what_was_done_with_them_are_stored,
            }
            kept::{
                a_kept_file_is_read_in_parts_when_it_is_complete,
                kept_files_together_have_a_limit,
                files_that_no_document_has_are_removed,
            }
            leases::{
                a_lease_is_one_gateways_until_it_ends,
                a_lease_is_prolonged_and_released_by_its_gateway,
                a_late_worker_changes_nothing,
                the_work_of_a_generation_is_told,
                a_store_that_ends_before_what_is_known_takes_no_changes,
                a_cancellation_that_was_asked_for_is_carried_out_once,
                a_store_is_of_one_service,
            }
            prepared::{
                chunks_are_read_only_with_their_document_version,
                chunks_of_an_outdated_version_are_not_saved,
                embeddings_are_deleted_with_their_last_chunk,
                deleting_a_document_deletes_its_chunks_and_embeddings,
                embeddings_of_two_models_are_separate,
                an_embedding_is_shared_between_collections,
                switching_back_before_completion_keeps_the_embeddings,
                chunks_are_saved_for_the_current_generation_only,
            }
            upkeep::{
                work_on_an_index_is_changed_by_whoever_knows_it,
                searchable_documents_are_listed_with_their_chunks,
            }
            unread::{
                a_job_with_files_has_operations_when_they_are_read,
                a_job_of_which_no_file_can_be_read_is_completed,
                a_cancelled_job_takes_no_documents,
            }
            visibility::{
                collections_outside_the_allow_list_do_not_exist,
                jobs_of_collections_outside_the_allow_list_do_not_exist,
                hidden_documents_do_not_exist_for_reads,
                metadata_that_is_not_an_object_passes_no_filter,
                hidden_documents_are_not_deleted,
                a_caller_with_a_filter_does_not_delete_the_collection,
                hidden_documents_are_not_replaced,
                documents_that_would_be_hidden_from_their_submitter_are_refused,
                feedback_on_hidden_documents_does_not_exist,
                the_query_log_operations_and_embeddings_are_empty_with_a_filter,
                jobs_exist_for_callers_with_the_filter_of_their_submitter,
                deleted_documents_are_hidden_with_their_feedback,
            }
            webhooks::{
                a_webhook_is_due_when_its_job_ends,
                an_attempt_that_is_not_finished_is_repeated,
                a_webhook_is_tried_again_until_it_is_delivered_or_given_up,
                open_webhooks_are_bounded_and_kept_with_their_jobs,
            }
        }
    };
}

pub const UNKNOWN_ID: &str = "unknown";

/// A caller with an allow list of one collection.
pub fn only(collection: &str) -> Caller {
    Caller { collections: Allowlist::Only([collection.to_owned()].into()), ..Caller::system() }
}

/// The system caller's view.
pub fn view(store: &Store, collection: &Collection) -> StoreView {
    store.view(&Caller::system(), collection).unwrap()
}

/// How much of a collection a caller sees.
#[derive(Debug, Default, PartialEq)]
pub struct Counts {
    pub documents: usize,
    pub chunks: usize,
}

pub async fn counts(view: &StoreView) -> Counts {
    let (documents, _) = view.documents_after("", usize::MAX, usize::MAX).await.unwrap();
    let chunks = documents.iter().map(|document| document.chunks.len()).sum();
    Counts { documents: documents.len(), chunks }
}

pub fn document(id: &str, text: &str) -> NewDocument {
    NewDocument {
        id: id.to_owned(),
        text: text.to_owned(),
        metadata: "{}".to_owned(),
        ..NewDocument::default()
    }
}

pub fn submission(job: &str, documents: &[NewDocument]) -> Submission {
    Submission { job_id: job.to_owned(), documents: documents.to_vec(), ..Submission::default() }
}

pub fn kept(operations_max: u64, jobs_max: u64) -> Retention {
    Retention { operations_max, jobs_max, idempotency_since: 0.0 }
}

/// A collection with model `m`, created at second 1.
pub async fn collection(store: &Store, name: &str) -> Collection {
    store.create_collection(name, "{}", "m", 1.0).await.unwrap().0
}

/// Accepts documents at second 2.
pub async fn accept(store: &Store, collection: &Collection, job: &str, documents: &[NewDocument]) -> Job {
    view(store, collection).accept(submission(job, documents), 2.0).await.unwrap().unwrap()
}

pub fn hash(seed: u8) -> TextHash {
    [seed; 32]
}

pub fn span(start: u64, end: u64, seed: u8) -> ChunkSpan {
    ChunkSpan { start, end, text_hash: hash(seed) }
}

/// The system caller's embeddings, which are shared by all collections.
pub async fn embeddings(store: &Store, model: &str, hashes: Vec<TextHash>) -> Vec<Option<Vec<f32>>> {
    let any = store.collections(&Caller::system()).await.unwrap().remove(0);
    view(store, &any).embeddings(model, hashes).await.unwrap()
}

/// Closes the store after a full check.
pub async fn close_sound(store: Store) {
    let report = store.verify().await.unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    store.close().await;
}
