//! The contract on chunks and embeddings.

use weir_store::{DeletedDocument, GenerationId, PreparedDocument};

use super::*;

async fn prepare(
    store: &Store,
    generation: GenerationId,
    document_id: &str,
    version: u64,
    seeds: &[u8],
    new: &[u8],
) {
    let chunks = (0..).zip(seeds).map(|(place, &seed)| span(place, place + 1, seed)).collect();
    let prepared = PreparedDocument { document_id: document_id.to_owned(), version, chunks };
    let new = new.iter().map(|&seed| (hash(seed), vec![f32::from(seed), 0.5])).collect();
    store.save_prepared(generation, vec![prepared], new).await.unwrap();
}

/// The seeds of 1 to 5 that have an embedding by `model`; checks the embeddings.
async fn kept(store: &Store, model: &str) -> String {
    let seeds = [1, 2, 3, 4, 5];
    let found = embeddings(store, model, seeds.map(hash).to_vec()).await;
    let mut kept = Vec::new();
    for (seed, embedding) in seeds.into_iter().zip(found) {
        if let Some(embedding) = embedding {
            assert_eq!(embedding, [f32::from(seed), 0.5]);
            kept.push(seed.to_string());
        }
    }
    kept.join(" ")
}

pub async fn chunks_are_read_only_with_their_document_version(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "text"), document("b", "text")]).await;
    prepare(&store, made.generation.id, "a", 1, &[1, 2, 1], &[1, 2]).await;
    prepare(&store, made.generation.id, "b", 2, &[3], &[3]).await;
    store.close().await;

    let store = open();
    let spans = [span(0, 1, 1), span(1, 2, 2), span(2, 3, 1)];
    assert_eq!(view(&store, &made).document("a").await.unwrap().unwrap().chunks, spans);
    assert_eq!(counts(&view(&store, &made)).await, Counts { documents: 2, chunks: 4 });
    accept(&store, &made, "k", &[document("a", "new text")]).await;
    assert_eq!(view(&store, &made).document("a").await.unwrap().unwrap().chunks, []);
    assert_eq!(kept(&store, "m").await, "1 2 3");
    prepare(&store, made.generation.id, "a", 3, &[2, 4], &[4]).await;
    let spans = [span(0, 1, 2), span(1, 2, 4)];
    assert_eq!(view(&store, &made).document("a").await.unwrap().unwrap().chunks, spans);
    assert_eq!(kept(&store, "m").await, "2 3 4");
    close_sound(store).await;
}

pub async fn chunks_of_an_outdated_version_are_not_saved(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "old"), document("b", "gone")]).await;
    accept(&store, &made, "k", &[document("a", "new")]).await;
    view(&store, &made).delete_document("b").await.unwrap();
    prepare(&store, made.generation.id, "a", 1, &[1], &[1]).await;
    prepare(&store, made.generation.id, "b", 2, &[2], &[2]).await;
    assert_eq!(counts(&view(&store, &made)).await, Counts { documents: 1, chunks: 0 });
    assert_eq!(kept(&store, "m").await, "");
    close_sound(store).await;
}

pub async fn embeddings_are_deleted_with_their_last_chunk(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "1"), document("b", "2")]).await;
    prepare(&store, made.generation.id, "a", 1, &[1, 2], &[1, 2]).await;
    prepare(&store, made.generation.id, "b", 2, &[2, 3], &[3]).await;
    assert_eq!(kept(&store, "m").await, "1 2 3");
    prepare(&store, made.generation.id, "a", 1, &[4], &[4, 5]).await;
    assert_eq!(kept(&store, "m").await, "2 3 4");
    prepare(&store, made.generation.id, "b", 2, &[], &[]).await;
    assert_eq!(kept(&store, "m").await, "4");
    close_sound(store).await;
}

pub async fn deleting_a_document_deletes_its_chunks_and_embeddings(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "1"), document("b", "2")]).await;
    prepare(&store, made.generation.id, "a", 1, &[1, 2, 1], &[1, 2]).await;
    prepare(&store, made.generation.id, "b", 2, &[2, 3], &[3]).await;
    let deleted = view(&store, &made).delete_document("a").await.unwrap();
    assert_eq!(deleted, Some(DeletedDocument { operation: 3, chunks: 3 }));
    assert_eq!(kept(&store, "m").await, "2 3");
    assert_eq!(counts(&view(&store, &made)).await, Counts { documents: 1, chunks: 2 });
    close_sound(store).await;
}

pub async fn embeddings_of_two_models_are_separate(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    let other = store.create_collection("other", "{}", "m2", 1.0).await.unwrap().0;
    accept(&store, &made, "j", &[document("a", "1")]).await;
    accept(&store, &other, "k", &[document("a", "1")]).await;
    prepare(&store, made.generation.id, "a", 1, &[1], &[1]).await;
    assert_eq!(kept(&store, "m").await, "1");
    assert_eq!(kept(&store, "m2").await, "");
    prepare(&store, other.generation.id, "a", 1, &[1], &[1]).await;
    view(&store, &made).delete_document("a").await.unwrap();
    assert_eq!(kept(&store, "m").await, "");
    assert_eq!(kept(&store, "m2").await, "1");
    close_sound(store).await;
}

pub async fn an_embedding_is_shared_between_collections(open: Open<'_>) {
    let store = open();
    let (one, two) = (collection(&store, "one").await, collection(&store, "two").await);
    for made in [&one, &two] {
        accept(&store, made, &made.name, &[document("a", "1")]).await;
    }
    prepare(&store, one.generation.id, "a", 1, &[1, 2], &[1, 2]).await;
    prepare(&store, two.generation.id, "a", 1, &[1], &[]).await;
    assert_eq!(store.verify().await.unwrap().embeddings, 2);
    let next = store.start_generation(one.id, "m", 2.0).await.unwrap().unwrap();
    store.record_applied(next.generation.id, 1, 2.5).await.unwrap();
    assert_eq!(kept(&store, "m").await, "1");
    view(&store, &two).delete_collection(3.0).await.unwrap();
    assert_eq!(kept(&store, "m").await, "");
    close_sound(store).await;
}

pub async fn switching_back_before_completion_keeps_the_embeddings(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "1"), document("b", "2")]).await;
    prepare(&store, made.generation.id, "a", 1, &[1, 2], &[1, 2]).await;
    prepare(&store, made.generation.id, "b", 2, &[3], &[3]).await;
    let mistaken = store.start_generation(made.id, "m2", 2.0).await.unwrap().unwrap();
    prepare(&store, mistaken.generation.id, "a", 1, &[1], &[1]).await;
    store.record_applied(mistaken.generation.id, 1, 2.5).await.unwrap();
    assert_eq!(kept(&store, "m").await, "1 2 3", "the other generation has not applied the second operation");

    let back = store.start_generation(made.id, "m", 3.0).await.unwrap().unwrap();
    assert_eq!(kept(&store, "m").await, "1 2 3");
    prepare(&store, back.generation.id, "a", 1, &[1, 2], &[]).await;
    prepare(&store, back.generation.id, "b", 2, &[], &[]).await;
    store.record_applied(back.generation.id, 2, 4.0).await.unwrap();
    assert_eq!((kept(&store, "m").await, kept(&store, "m2").await), ("1 2".to_owned(), String::new()));
    assert_eq!(counts(&view(&store, &made)).await, Counts { documents: 2, chunks: 2 });
    close_sound(store).await;
}

pub async fn chunks_are_saved_for_the_current_generation_only(open: Open<'_>) {
    let store = open();
    let made = collection(&store, "c").await;
    accept(&store, &made, "j", &[document("a", "1")]).await;
    let next = store.start_generation(made.id, "m2", 2.0).await.unwrap().unwrap();
    prepare(&store, made.generation.id, "a", 1, &[1], &[1]).await;
    assert_eq!(counts(&view(&store, &made)).await.chunks, 0);
    assert_eq!(kept(&store, "m").await, "");
    prepare(&store, next.generation.id, "a", 1, &[1], &[1]).await;
    assert_eq!(counts(&view(&store, &made)).await.chunks, 1);
    assert_eq!(kept(&store, "m2").await, "1");
    close_sound(store).await;
}
