//! What is refused before anything is searched, and what a new cluster gets.

use weir_qdrant::api::quantization_config::Quantization;
use weir_qdrant::api::vectors_config::Config;
use weir_qdrant::api::{CreateCollection, Distance, Modifier};
use weir_qdrant::{KEYWORDS, Layout, Qdrant, QdrantSettings, SPARSE, SetupError, TENANT, VERSIONS};
use weir_qdrant_mock::Cluster;

use crate::cluster::{ALIAS, cluster, layout, point, put, settings};

#[tokio::test]
async fn row_versions_another_minor_version_is_refused_by_name() {
    let (cluster, client) = cluster().await;
    assert_eq!(client.check().await.unwrap().nodes.len(), 3);
    for version in ["1.18.2", "1.22.0", "2.0.0", "dev"] {
        cluster.nodes[1].set_version(version);
        let error = client.check().await.unwrap_err();
        assert!(
            matches!(&error, SetupError::Version { url, version: found } if *url == cluster.nodes[1].url() && found == version)
        );
        assert!(error.to_string().contains("use one of 1.19, 1.20, 1.21"), "{error}");
    }
    for version in VERSIONS {
        cluster.nodes[1].set_version(&format!("{version}.4"));
        client.check().await.unwrap();
    }
}

#[tokio::test]
async fn a_missing_node_is_named_and_a_cluster_without_nodes_refused() {
    let (cluster, client) = cluster().await;
    cluster.nodes[0].kill();
    let checked = client.check().await.unwrap();
    assert_eq!((checked.nodes.len(), checked.missing.len()), (2, 1));
    assert_eq!(checked.missing[0].0, cluster.nodes[0].url());
    cluster.nodes.iter().for_each(|node| node.kill());
    let error = client.check().await.unwrap_err().to_string();
    assert!(cluster.urls().iter().all(|url| error.contains(url)) && error.contains("start them"), "{error}");
}

#[tokio::test]
async fn an_api_key_is_sent_and_a_wrong_one_named() {
    let cluster = Cluster::start(2, Some("secret")).unwrap();
    let with = |key: Option<&str>| QdrantSettings { api_key: key.map(str::to_owned), ..settings(&cluster) };
    let client = Qdrant::new(&with(Some("secret"))).unwrap();
    client.check().await.unwrap();
    client.ensure(&layout()).await.unwrap();
    put(&client, vec![point("a", 0, 1)]).await.unwrap();
    for key in [None, Some("wrong")] {
        let error = Qdrant::new(&with(key)).unwrap().check().await.unwrap_err();
        assert!(
            matches!(&error, SetupError::KeyRefused { url } if *url == cluster.nodes[0].url()),
            "{error}"
        );
        assert!(
            !error.to_string().contains("wrong") && error.to_string().contains("qdrant.api_key"),
            "{error}"
        );
    }
    assert!(matches!(Qdrant::new(&with(Some("a\nb"))), Err(SetupError::KeyForm)));
    assert!(!format!("{client:?}").contains("secret"));
}

#[tokio::test]
async fn addresses_are_checked() {
    let check = |url: &str| Qdrant::new(&QdrantSettings::new(vec![url.to_owned()])).map(drop);
    for unfit in ["", "localhost:6334", "ftp://localhost:6334", "http://localhost", "http://"] {
        assert!(matches!(check(unfit), Err(SetupError::Address { .. })), "{unfit}: {:?}", check(unfit));
    }
    check("http://localhost:6334").unwrap();
    check("https://qdrant.example:6334").unwrap();
    assert!(matches!(Qdrant::new(&QdrantSettings::new(Vec::new())), Err(SetupError::NoNodes)));
}

/// The collection that a client has created.
fn created(cluster: &Cluster) -> CreateCollection {
    cluster.state().collection(ALIAS).unwrap().config.clone()
}

#[tokio::test]
async fn row_tenants_one_collection_with_an_index_of_tenants() {
    let (cluster, _) = cluster().await;
    let state = cluster.state();
    let collection = state.collection(ALIAS).unwrap();
    let index = format!("{:?}", collection.indexes[TENANT]);
    assert!(index.contains("is_tenant: Some(true)"), "{index}");
    assert!(KEYWORDS.iter().all(|field| collection.indexes.contains_key(*field)));
    let hnsw = collection.config.hnsw_config.unwrap();
    assert_eq!((hnsw.m, hnsw.payload_m), (Some(0), Some(16)), "a graph for each tenant and none of all");
}

#[tokio::test]
#[allow(deprecated, reason = "fields that 1.19 knows")]
async fn row_quantization_int8_in_memory_and_the_embeddings_on_disk() {
    let (cluster, _) = cluster().await;
    let config = created(&cluster);
    let Some(Config::ParamsMap(map)) = config.vectors_config.unwrap().config else { panic!() };
    let dense = map.map["dense"];
    assert_eq!((dense.size, dense.distance, dense.on_disk), (2, Distance::Dot as i32, Some(true)));
    let Some(Quantization::Scalar(int8)) = dense.quantization_config.unwrap().quantization else { panic!() };
    assert_eq!(int8.always_ram, Some(true));
    let sparse = &config.sparse_vectors_config.unwrap().map[SPARSE];
    assert_eq!(sparse.modifier, Some(Modifier::Idf as i32));
}

#[tokio::test]
async fn row_shards_and_copies_are_set_when_a_collection_is_created() {
    let (cluster, _) = cluster().await;
    let config = created(&cluster);
    let numbers = (config.shard_number, config.replication_factor, config.write_consistency_factor);
    assert_eq!(numbers, (Some(12), Some(3), Some(2)));
}

#[tokio::test]
async fn row_aliases_a_collection_is_used_by_its_alias_which_can_be_pointed_elsewhere() {
    let (cluster, client) = cluster().await;
    assert_eq!(cluster.state().aliases[ALIAS], layout().first_name());
    client.ensure(&layout()).await.unwrap();
    // a second collection of the same form, as after a change of its shards
    {
        let state = &mut *cluster.state();
        let first = state.collections.remove(&layout().first_name()).unwrap();
        state.collections.insert(format!("{ALIAS}_2"), first);
        state.aliases.insert(ALIAS.to_owned(), format!("{ALIAS}_2"));
    }
    client.ensure(&layout()).await.unwrap();
    put(&client, vec![point("a", 0, 1)]).await.unwrap();
    cluster.state().aliases.insert(ALIAS.to_owned(), "other".to_owned());
    let error = client.ensure(&layout()).await.unwrap_err();
    assert!(
        matches!(&error, SetupError::AliasElsewhere { collection, .. } if collection == "other"),
        "{error}"
    );
    assert!(error.to_string().contains("qdrant.prefix"), "{error}");
}

#[tokio::test]
async fn row_snapshots_a_collection_that_was_restored_without_its_alias_gets_it_again() {
    let (cluster, client) = cluster().await;
    put(&client, vec![point("a", 0, 1)]).await.unwrap();
    cluster.state().aliases.clear();
    client.ensure(&layout()).await.unwrap();
    assert_eq!(crate::cluster::count(&client).await.unwrap(), 1);
}

#[tokio::test]
async fn a_collection_of_another_form_is_refused_by_name() {
    let (cluster, client) = cluster().await;
    let check = async |layout: Layout, actual: &str| {
        let error = client.ensure(&layout).await.unwrap_err().to_string();
        assert!(error.contains(&layout.first_name()) && error.contains(actual), "{error}");
    };
    check(Layout { dimension: 3, ..layout() }, "embeddings of 2 values where weir needs 3").await;
    check(Layout { dimension: 0, ..layout() }, "embeddings of 2 values where weir needs none").await;
    let text_only = Layout { alias: "weir-0-test".to_owned(), dimension: 0, ..layout() };
    client.ensure(&text_only).await.unwrap();
    check(Layout { dimension: 2, ..text_only }, "no vectors of the name `dense`").await;
    let change = |change: fn(&mut CreateCollection)| {
        change(&mut cluster.state().collection_mut(ALIAS).unwrap().config);
    };
    change(|config| {
        let Some(Config::ParamsMap(map)) = &mut config.vectors_config.as_mut().unwrap().config else {
            panic!()
        };
        map.map.get_mut("dense").unwrap().distance = Distance::Euclid.into();
    });
    check(layout(), "the distance Euclid where weir needs Dot").await;
    change(|config| {
        let Some(Config::ParamsMap(map)) = &mut config.vectors_config.as_mut().unwrap().config else {
            panic!()
        };
        map.map.get_mut("dense").unwrap().distance = Distance::Dot.into();
        config.sparse_vectors_config.as_mut().unwrap().map.get_mut(SPARSE).unwrap().modifier = None;
    });
    check(layout(), "no modifier of terms").await;
    change(|config| config.sparse_vectors_config = None);
    check(layout(), "no sparse vectors of the name `terms`").await;
}

#[tokio::test]
async fn gateways_that_start_together_create_one_collection() {
    let cluster = Cluster::start(3, None).unwrap();
    let ensure = |number: usize| {
        let client = Qdrant::new(&settings(&cluster)).unwrap();
        async move {
            client.ensure(&layout()).await.unwrap_or_else(|error| panic!("gateway {number}: {error}"));
        }
    };
    tokio::join!(ensure(0), ensure(1), ensure(2), ensure(3));
    let state = cluster.state();
    assert_eq!((state.collections.len(), state.aliases.len()), (1, 1));
}
