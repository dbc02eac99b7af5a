//! What is said of a cluster at the start: what stops it, and what does not.

use std::process::Command;

use serde_json::json;
use weir_qdrant_mock::Cluster;

use super::{Setup, create, ingest, start_in, variables};
use crate::http::startup::{check, serve};

fn command(folder: &std::path::Path, cluster: &Cluster, more: &[(&str, &str)]) -> Command {
    let mut command = serve(folder, &[]);
    command.envs(variables(cluster)).envs(more.iter().copied());
    command
}

#[test]
fn a_cluster_that_can_not_be_used_as_it_is_stops_the_start_with_the_remedy() {
    let (cluster, folder) = (Cluster::start(3, Some("sk-right")).unwrap(), tempfile::tempdir().unwrap());
    let start = |more: &[(&str, &str)]| command(folder.path(), &cluster, more);
    let key = ("WEIR_QDRANT_API_KEY", "env:CLUSTER_KEY");
    let refuses = "refuses the API key; correct what `qdrant.api_key` names";
    check(&mut start(&[]), &[&cluster.urls()[0], refuses]);
    let mut wrong = start(&[key, ("CLUSTER_KEY", "sk-wrong")]);
    check(&mut wrong, &[&cluster.urls()[0], refuses]);
    let shown = wrong.output().unwrap();
    assert!(!String::from_utf8_lossy(&shown.stderr).contains("sk-"), "the key is not shown");
    check(&mut start(&[key]), &["`qdrant.api_key` can't be used", "the variable CLUSTER_KEY is not set"]);
    let right = [key, ("CLUSTER_KEY", "sk-right")];
    cluster.nodes[1].set_version("1.18.2");
    check(&mut start(&right), &[&cluster.urls()[1], "has version 1.18.2", "use one of 1.19, 1.20, 1.21"]);
    cluster.nodes[1].set_version("1.20.1");
    for url in ["localhost:6334", "ftp://localhost:6334", "http://localhost"] {
        let mut command = start(&[right.as_slice(), &[("WEIR_QDRANT_URLS", url)]].concat());
        check(&mut command, &["is not the address of a node", "write http://HOST:6334"]);
    }
    let mut fragile = start(&[right.as_slice(), &[("WEIR_QDRANT_COPIES_WRITTEN", "2")]].concat());
    check(&mut fragile, &["qdrant.copies is 2 and qdrant.copies_written is 2", "1 of 2, or 2 of 3"]);
}

#[test]
fn a_qdrant_collection_that_does_not_fit_stops_the_start_and_names_it() {
    let setup = Setup::start();
    ingest(&setup.gateway, "far", &json!([{"id": "a", "text": "a note"}]));
    setup.gateway.weir.terminate();
    let folder = setup.folder.path();
    let mut without = serve(folder, &[]);
    check(
        &mut without,
        &["collection `far`", "is in a Qdrant cluster, and none is configured; set `qdrant.urls`"],
    );

    let (alias, name) = {
        let state = setup.cluster.state();
        let (alias, name) = state.aliases.iter().next().unwrap();
        (alias.clone(), name.clone())
    };
    setup.cluster.state().aliases.insert(alias.clone(), "foreign".to_owned());
    let elsewhere = [alias.as_str(), "points to the Qdrant collection `foreign`", "another `qdrant.prefix`"];
    check(&mut command(folder, &setup.cluster, &[]), &elsewhere);
    setup.cluster.state().aliases.insert(alias, name.clone());

    let change = |size: u64, distance: i32| {
        let state = &mut *setup.cluster.state();
        let config = &mut state.collection_mut(&name).unwrap().config;
        weir_qdrant_mock::set_dense(config, size, distance)
    };
    let (size, distance) = change(3, 3);
    check(
        &mut command(folder, &setup.cluster, &[]),
        &["collection `far`", &name, "embeddings of 3 values where weir needs"],
    );
    change(size, 2);
    check(
        &mut command(folder, &setup.cluster, &[]),
        &["collection `far`", &name, "the distance Euclid where weir needs Dot"],
    );
    change(size, distance);
    let gateway = start_in(folder, &setup.cluster);
    assert_eq!(super::found(&gateway, "far", &json!({"query": "note"})), ["a"]);
}

#[test]
fn a_missing_node_is_named_and_the_gateway_starts() {
    let (cluster, folder) = (Cluster::start(3, None).unwrap(), tempfile::tempdir().unwrap());
    cluster.nodes[2].kill();
    let gateway = start_in(folder.path(), &cluster);
    create(&gateway, "far", &json!({"engine": "qdrant"}));
    ingest(&gateway, "far", &json!([{"id": "a", "text": "a note"}]));
    let log = gateway.weir.log();
    assert!(
        log.contains("a node of `qdrant.urls` does not answer") && log.contains(&cluster.urls()[2]),
        "{log}"
    );
    cluster.nodes.iter().for_each(|node| node.kill());
    drop(gateway);
    let gateway = start_in(folder.path(), &cluster);
    assert!(gateway.weir.log().contains("unavailable until it answers"), "{}", gateway.weir.log());
}
