//! What every store must do, whatever the database behind it. Each function below the modules is one sentence of the
//! contract; it is handed a way to open the same, at first empty, store again and again (one at a time).

#![allow(unreachable_pub, reason = "the suite is a module of each test program that holds a store to it")]

pub mod collections;
pub mod documents;
pub mod feedback;
pub mod jobs;
pub mod prepared;

use weir_policy::{Caller, Collections};
use weir_store::{ChunkSpan, Collection, Job, NewDocument, Store, Submission, TextHash};

/// Opens the store of one test.
pub type Open<'a> = &'a dyn Fn() -> Store;

/// Makes one test of each sentence of the contract, for stores that `$open` (a function from a folder) opens.
#[macro_export]
macro_rules! hold_to_contract {
    ($open:path: $($module:ident::{$($name:ident),* $(,)?})*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let folder = tempfile::tempdir().unwrap();
                contract::$module::$name(&|| $open(folder.path()).unwrap()).await;
            }
        )*)*
    };
}

/// Every sentence of the contract.
#[macro_export]
macro_rules! contract {
    ($open:path) => {
        hold_to_contract! { $open:
            collections::{
                a_collection_is_created_once_and_then_found_as_it_is,
                settings_are_replaced_and_nothing_else,
                what_a_caller_does_not_see_is_not_there,
                deleting_a_collection_takes_everything_but_its_jobs,
                ids_of_what_is_gone_are_not_given_out_again,
                a_new_generation_starts_with_nothing_prepared,
            }
            documents::{
                what_was_accepted_is_there_after_reopening,
                identical_content_makes_no_operation,
                every_part_of_the_content_counts_as_a_change,
                the_last_of_two_documents_with_one_id_wins,
                a_deleted_document_can_be_stored_again,
                any_unicode_is_an_id_and_a_text,
                a_text_of_16_mib_comes_back_whole,
                operation_numbers_have_no_gaps_when_many_submit_at_once,
                a_request_that_fails_takes_back_only_itself,
                operations_are_read_in_pages,
                documents_are_read_in_the_order_asked_for,
                documents_are_listed_by_id_in_pages,
                what_is_gone_is_none,
            }
            feedback::{
                feedback_is_there_after_reopening_the_newest_first,
                feedback_is_listed_in_pages,
                the_oldest_feedback_goes,
                the_last_voice_on_each_query_and_document_counts_with_the_features_of_its_model,
                feedback_to_what_is_not_there_is_none,
                the_query_log_is_counted_by_query_after_reopening,
                the_oldest_logged_queries_go,
            }
            jobs::{
                a_job_moves_on_with_the_index,
                a_job_names_the_documents_that_failed,
                a_job_without_operations_is_completed_at_once,
                an_old_generation_does_not_move_jobs,
                a_document_that_fails_later_is_named_once_and_can_be_sent_again,
                the_oldest_finished_jobs_go,
                of_old_operations_those_that_documents_stand_for_are_left,
                jobs_are_listed_newest_first_in_pages,
            }
            prepared::{
                chunks_are_read_with_the_version_they_were_made_from,
                a_document_that_changed_meanwhile_is_skipped,
                embeddings_go_with_their_last_chunk,
                a_deleted_document_takes_its_chunks_and_embeddings,
                embeddings_of_two_models_do_not_meet,
                an_embedding_is_shared_between_collections,
                who_goes_back_to_a_model_before_the_other_is_complete_finds_its_embeddings,
                only_the_current_generation_is_prepared,
            }
        }
    };
}

pub const ID_OF_NOBODY: &str = "nobody";

pub fn everyone() -> Caller {
    Caller::all_powerful()
}

pub fn only(name: &str) -> Caller {
    Caller { collections: Collections::Only([name.to_owned()].into()), ..Caller::all_powerful() }
}

pub fn document(id: &str, text: &str) -> NewDocument {
    NewDocument { id: id.to_owned(), title: None, text: text.to_owned(), metadata: "{}".to_owned() }
}

pub fn submission(job: &str, documents: &[NewDocument]) -> Submission {
    Submission { job_id: job.to_owned(), documents: documents.to_vec(), rejected: Vec::new() }
}

/// A collection with model `m`, made at second 1.
pub async fn collection(store: &Store, name: &str) -> Collection {
    store.create_collection(name, "{}", "m", 1.0).await.unwrap().0
}

/// Accepts documents at second 2.
pub async fn accept(store: &Store, collection: &Collection, job: &str, documents: &[NewDocument]) -> Job {
    store.accept(collection.id, submission(job, documents), 2.0).await.unwrap().unwrap()
}

pub fn hash(seed: u8) -> TextHash {
    [seed; 32]
}

pub fn span(start: u64, end: u64, seed: u8) -> ChunkSpan {
    ChunkSpan { start, end, text_hash: hash(seed) }
}

/// Closes the store after a full check.
pub async fn close_sound(store: Store) {
    let report = store.verify().await.unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    store.close().await;
}
