//! Reads of a cluster with faults.

use std::time::{Duration, Instant};

use tonic::Code;
use weir_qdrant::api::{Query, QueryPoints, UpdateStatus};
use weir_qdrant::{Qdrant, QdrantError, QdrantSettings};
use weir_qdrant_mock::{Calls, Cluster, Fault, Recorded, Rule};

use crate::cluster::{ALIAS, cluster, count, point, put, settings};

/// The calls that each node got.
fn calls(cluster: &Cluster) -> Vec<usize> {
    cluster.nodes.iter().map(|node| node.calls()).collect()
}

#[tokio::test]
async fn row_timeouts_a_read_that_fails_at_a_node_is_made_at_another() {
    let faults = [
        Fault::unavailable(),
        Fault::shards_failed(2, 6),
        Fault::Refuse(Code::DeadlineExceeded, "too slow".to_owned()),
        Fault::Hang,
    ];
    for fault in faults {
        let (cluster, client) = cluster().await;
        put(&client, vec![point("a", 0, 1)]).await.unwrap();
        let before: usize = calls(&cluster).iter().sum();
        cluster.nodes[0].inject(Rule::once(Calls::Reads, fault.clone()));
        for _ in 0..3 {
            assert_eq!(count(&client).await.unwrap(), 1, "{fault:?}");
        }
        let more = calls(&cluster).iter().sum::<usize>() - before;
        assert_eq!(more, 4, "{fault:?}: three reads, one of them twice");
    }
}

#[tokio::test]
async fn row_timeouts_an_attempt_ends_at_its_deadline_and_a_read_after_the_attempts() {
    let (cluster, client) = cluster().await;
    cluster.nodes.iter().for_each(|node| node.inject(Rule::always(Calls::Reads, Fault::Hang)));
    let started = Instant::now();
    let error = count(&client).await.unwrap_err();
    let took = started.elapsed();
    assert!(
        matches!(&error, QdrantError::Unavailable { retry_after, .. } if *retry_after == Duration::from_secs(1)),
        "{error}"
    );
    assert!(
        (Duration::from_millis(850)..Duration::from_secs(3)).contains(&took),
        "three of 300 ms: {took:?}"
    );
    let usual = QdrantSettings::new(cluster.urls());
    assert_eq!((usual.read_timeout, usual.write_timeout), (Duration::from_secs(1), Duration::from_secs(35)));
}

#[tokio::test]
async fn row_timeouts_a_call_that_is_wrong_is_made_once() {
    let (cluster, client) = cluster().await;
    let before: usize = calls(&cluster).iter().sum();
    let query = QueryPoints {
        using: Some("nothing".to_owned()),
        query: Some(Query::new_nearest(vec![1.0f32, 0.0])),
        ..Default::default()
    };
    let error = client.query(ALIAS, vec![query]).await.unwrap_err();
    assert!(
        matches!(&error, QdrantError::Refused { code: Code::InvalidArgument, message, .. } if message.contains("nothing")),
        "{error}"
    );
    assert_eq!(calls(&cluster).iter().sum::<usize>() - before, 1);
}

#[tokio::test]
async fn row_timeouts_a_busy_server_is_given_the_time_that_it_asks_for() {
    let (cluster, _) = cluster().await;
    let patient = QdrantSettings { read_timeout: Duration::from_secs(2), ..settings(&cluster) };
    let client = Qdrant::new(&patient).unwrap();
    cluster.nodes[0].inject(Rule::once(Calls::Reads, Fault::Exhausted(1)));
    let started = Instant::now();
    assert_eq!(count(&client).await.unwrap(), 0);
    assert!(started.elapsed() >= Duration::from_secs(1));
    // longer than a read may take: the caller is told
    cluster.nodes.iter().for_each(|node| node.inject(Rule::once(Calls::Reads, Fault::Exhausted(7))));
    let error = count(&client).await.unwrap_err();
    assert!(
        matches!(&error, QdrantError::Unavailable { retry_after, .. } if *retry_after == Duration::from_secs(7)),
        "{error}"
    );
}

#[tokio::test]
async fn row_quorum_reads_and_changes_go_on_while_a_node_is_dead_and_it_is_used_again() {
    let (cluster, client) = cluster().await;
    for dead in 0..3 {
        cluster.nodes[dead].kill();
        for number in 0..6 {
            put(&client, vec![point(&format!("{dead}-{number}"), 0, 1)]).await.unwrap();
            assert_eq!(count(&client).await.unwrap(), (dead * 6 + number + 1) as u64);
        }
        cluster.nodes[dead].restart().unwrap();
    }
    let before = calls(&cluster);
    tokio::time::sleep(Duration::from_millis(2100)).await;
    for _ in 0..6 {
        count(&client).await.unwrap();
    }
    let after = calls(&cluster);
    assert!(before.iter().zip(&after).all(|(before, after)| after >= &(before + 2)), "{before:?} {after:?}");
}

#[tokio::test]
async fn row_reads_of_a_search_ask_one_replica_as_is_the_default() {
    let (cluster, client) = cluster().await;
    count(&client).await.unwrap();
    client.query(ALIAS, vec![QueryPoints::default()]).await.unwrap();
    for recorded in cluster.take_recorded() {
        match recorded {
            Recorded::Count(count) => assert_eq!((count.read_consistency, count.exact), (None, Some(true))),
            Recorded::QueryBatch(batch) => assert_eq!(batch.read_consistency, None),
            other => panic!("{other:?}"),
        }
    }
    // a status of a change is none of a read
    cluster.nodes[0].inject(Rule::once(Calls::Reads, Fault::Status(UpdateStatus::WaitTimeout)));
    assert_eq!(count(&client).await.unwrap(), 0);
}

#[tokio::test]
async fn all_nodes_gone_is_said_at_once_and_forgotten_when_one_is_back() {
    let (cluster, client) = cluster().await;
    cluster.nodes.iter().for_each(|node| node.kill());
    let started = Instant::now();
    assert!(matches!(count(&client).await, Err(QdrantError::Unavailable { .. })));
    assert!(started.elapsed() < Duration::from_secs(1), "refused connections need no deadline");
    cluster.nodes[1].restart().unwrap();
    let found = count(&client).await;
    assert!(matches!(found, Ok(0)), "{} {found:?}", cluster.nodes[1].url());
}
