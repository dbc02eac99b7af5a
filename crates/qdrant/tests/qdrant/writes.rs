//! Changes of a cluster with faults.

use std::time::Duration;

use tonic::Code;
use weir_qdrant::api::{Filter, UpdateStatus, WriteOrderingType};
use weir_qdrant::{BATCH_POINTS_MAX, QdrantError};
use weir_qdrant_mock::{Calls, Cluster, Fault, Recorded, Rule};

use crate::cluster::{ALIAS, cluster, count, older_than, point, put};

fn on_all(cluster: &Cluster, rule: &Rule) {
    cluster.nodes.iter().for_each(|node| node.inject(rule.clone()));
}

#[tokio::test]
async fn row_wait_only_completed_is_success() {
    let (cluster, client) = cluster().await;
    for status in [UpdateStatus::Acknowledged, UpdateStatus::WaitTimeout, UpdateStatus::ClockRejected] {
        on_all(&cluster, &Rule::once(Calls::Writes, Fault::Status(status)));
        cluster.take_recorded();
        put(&client, vec![point("a", 0, 1)]).await.unwrap();
        let sent = cluster.take_recorded();
        assert_eq!(sent.len(), 4, "{status:?}: at each node once without success, then with");
        assert!(sent.iter().all(|one| *one == sent[0]), "the same change each time");
        assert!(matches!(&sent[0], Recorded::Upsert(upsert) if upsert.wait == Some(true)));
        on_all(&cluster, &Rule::always(Calls::Writes, Fault::Status(status)));
        let error = put(&client, vec![point("a", 0, 1)]).await.unwrap_err();
        assert!(error.to_string().contains(status.as_str_name()), "{error}");
        cluster.nodes.iter().for_each(|node| node.heal());
    }
    assert_eq!(count(&client).await.unwrap(), 1);
}

#[tokio::test]
async fn row_write_ack_a_change_is_repeated_until_enough_shards_took_it() {
    let (cluster, client) = cluster().await;
    on_all(&cluster, &Rule::once(Calls::Writes, Fault::shards_failed(4, 6)));
    put(&client, vec![point("a", 0, 1)]).await.unwrap();
    assert_eq!(count(&client).await.unwrap(), 1);
    on_all(&cluster, &Rule::always(Calls::Writes, Fault::shards_failed(4, 6)));
    let error = put(&client, vec![point("b", 0, 1)]).await.unwrap_err();
    assert!(
        matches!(&error, QdrantError::Unavailable { reason, .. } if reason.contains("4 out of 6 shards failed")),
        "{error}"
    );
    cluster.nodes.iter().for_each(|node| node.heal());
    assert_eq!(count(&client).await.unwrap(), 1);
}

#[tokio::test]
async fn row_ids_a_change_that_is_delivered_again_changes_nothing() {
    let (cluster, client) = cluster().await;
    // carried out, but the answer was lost
    on_all(
        &cluster,
        &Rule::once(Calls::Writes, Fault::DoneThenFail(Code::Unavailable, "connection reset".to_owned())),
    );
    put(&client, vec![point("a", 0, 1), point("a", 1, 1)]).await.unwrap();
    on_all(&cluster, &Rule::once(Calls::Writes, Fault::Again(Duration::from_millis(20))));
    put(&client, vec![point("b", 0, 1)]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(count(&client).await.unwrap(), 3);
    assert_eq!(point("a", 1, 1).id, point("a", 1, 2).id, "ids are of document and chunk, not of the version");
}

#[tokio::test]
async fn row_fencing_a_late_version_replaces_no_newer_one() {
    let (cluster, client) = cluster().await;
    let write = |version: i64| {
        client.upsert(
            ALIAS,
            vec![point("a", 0, version)],
            Some(older_than(version)),
            WriteOrderingType::Medium,
        )
    };
    write(5).await.unwrap();
    write(3).await.unwrap();
    let version = |cluster: &Cluster| {
        let state = cluster.state();
        let points = &state.collection(ALIAS).unwrap().points;
        points.values().next().unwrap().payload["v"].clone()
    };
    assert_eq!(version(&cluster), 5.into());
    on_all(&cluster, &Rule::once(Calls::Writes, Fault::Again(Duration::from_millis(30))));
    write(6).await.unwrap();
    write(7).await.unwrap();
    tokio::time::sleep(Duration::from_millis(80)).await;
    assert_eq!(version(&cluster), 7.into(), "version 6 was delivered again after 7");
}

#[tokio::test]
async fn row_ordering_is_sent_with_each_change() {
    let (cluster, client) = cluster().await;
    client.upsert(ALIAS, vec![point("a", 0, 1)], None, WriteOrderingType::Medium).await.unwrap();
    let of_document = Filter::must([weir_qdrant::has_text("d", "a")]);
    client.delete(ALIAS, of_document, WriteOrderingType::Strong).await.unwrap();
    let orderings: Vec<i32> = cluster
        .take_recorded()
        .into_iter()
        .map(|recorded| match recorded {
            Recorded::Upsert(upsert) => upsert.ordering.unwrap().r#type,
            Recorded::Delete(delete) => delete.ordering.unwrap().r#type,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(orderings, [WriteOrderingType::Medium as i32, WriteOrderingType::Strong as i32]);
    assert_eq!(count(&client).await.unwrap(), 0);
}

#[tokio::test]
async fn row_batching_batches_are_within_what_qdrant_recommends() {
    assert!((64..=256).contains(&BATCH_POINTS_MAX));
    let (_cluster, client) = cluster().await;
    let points = (0..BATCH_POINTS_MAX).map(|chunk| point("a", chunk as u32, 1)).collect();
    put(&client, points).await.unwrap();
    assert_eq!(count(&client).await.unwrap(), BATCH_POINTS_MAX as u64);
}

#[tokio::test]
async fn a_change_that_is_wrong_is_made_once() {
    let (cluster, client) = cluster().await;
    let mut wrong = point("a", 0, 1);
    wrong.vectors = Some(vec![1.0f32; 3].into());
    let error = put(&client, vec![wrong]).await.unwrap_err();
    assert!(matches!(error, QdrantError::Refused { code: Code::InvalidArgument, .. }), "{error}");
    assert_eq!(cluster.take_recorded().len(), 1);
}

#[tokio::test]
async fn a_node_that_is_killed_in_the_middle_of_a_change_is_no_loss() {
    let (cluster, client) = cluster().await;
    on_all(&cluster, &Rule::once(Calls::Writes, Fault::Slow(Duration::from_millis(200))));
    let change = put(&client, vec![point("a", 0, 1)]);
    let kill = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cluster.nodes.iter().for_each(|node| node.kill());
        cluster.nodes[2].restart().unwrap();
    };
    let (changed, ()) = tokio::join!(change, kill);
    changed.unwrap();
    assert_eq!(count(&client).await.unwrap(), 1);
}
