//! `weir store copy`, and what is refused at the start.

use std::process::{Command, Output};

use serde_json::json;

use super::{Cluster, Member, Postgres, start_weir, wait};
use crate::support::client::Client;
use crate::support::process::Weir;

fn weir(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env_clear().args(arguments).env("WEIR_MODEL", "pseudo").envs(variables.iter().copied());
    command.output().unwrap()
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_data_directory_moves_into_a_database_and_back() {
    let server = Postgres::start();
    let url = server.url();
    let database = [("STORE_URL", url.as_str()), ("WEIR_STORE_URL", "env:STORE_URL")];
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().to_str().unwrap();
    {
        let weir = Weir::start(folder.path());
        let body = json!({"documents": [{"id": "a", "text": "the first note"}, {"id": "b", "text": "another note"}]});
        assert_eq!(Client::new(&weir.url).try_post("/v1/ingest?wait=true", &body).unwrap().0, 202);
        let copied = weir_copy(data_dir, "env:STORE_URL", &database);
        assert!(!copied.status.success() && shown(&copied).contains("is in use"), "{}", shown(&copied));
        weir.terminate();
    }
    let refused = weir(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data_dir], &database);
    assert!(shown(&refused).contains("has a store of its own"), "{}", shown(&refused));
    // the refused start has made an empty store
    server.execute("DROP SCHEMA weir CASCADE");
    let copied = weir_copy(data_dir, "env:STORE_URL", &database);
    assert!(
        copied.status.success() && shown(&copied).contains("rows copied to env:STORE_URL"),
        "{}",
        shown(&copied)
    );
    {
        let weir = start_weir(&url, folder.path(), &[]);
        let client = Client::new(&weir.url);
        client.wait_until_ready();
        assert_eq!(client.search("first", "hybrid").len(), 2);
        assert!(!weir.log().contains("rebuilt"), "{}", weir.log());
        let body = json!({"documents": [{"id": "c", "text": "a third note"}]});
        assert_eq!(client.try_post("/v1/ingest?wait=true", &body).unwrap().0, 202);
        weir.terminate();
    }
    let without = weir(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data_dir], &[]);
    assert!(shown(&without).contains("name it in `store.url`"), "{}", shown(&without));
    let back = tempfile::tempdir().unwrap();
    let copied = weir(&["store", "copy", "--to", back.path().to_str().unwrap()], &database);
    assert!(copied.status.success(), "{}", shown(&copied));
    let weir = Weir::start(back.path());
    let client = Client::new(&weir.url);
    client.wait_until_ready();
    wait("the documents", || client.search("note", "hybrid").len() == 3);
}

fn weir_copy(data_dir: &str, to: &str, variables: &[(&str, &str)]) -> Output {
    weir(&["store", "copy", "--data-dir", data_dir, "--to", to], variables)
}

#[test]
fn commands_use_the_database() {
    let cluster = Cluster::start(1);
    let url = cluster.server.url();
    let database = [("STORE_URL", url.as_str()), ("WEIR_STORE_URL", "env:STORE_URL")];
    let [one] = cluster.gateways.as_slice() else { panic!("one gateway") };
    one.ingest("?wait=true", &json!([{"id": "a", "text": "the first note"}]));
    let checked = weir(&["doctor"], &database);
    assert!(
        checked.status.success() && shown(&checked).contains("the PostgreSQL database: "),
        "{}",
        shown(&checked)
    );
    // the data directory that a gateway will have: it has no keys
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("data");
    let made = weir(&["keys", "create", "app", "--json", "--data-dir", folder.to_str().unwrap()], &database);
    assert!(made.status.success(), "{}", shown(&made));
    assert!(!folder.exists());
    wait("the key", || one.client.send("GET", "/v1/collections", None).status == 401);
}

#[test]
fn what_cannot_be_a_store_is_refused_at_the_start() {
    let cluster = Cluster::start(1);
    let port = cluster.server.port;
    let start = |url: &str, folder: &std::path::Path| {
        let variables = [("STORE_URL", url), ("WEIR_STORE_URL", "env:STORE_URL")];
        let output =
            weir(&["serve", "--listen", "127.0.0.1:0", "--data-dir", folder.to_str().unwrap()], &variables);
        assert!(!output.status.success() && !shown(&output).contains("S3cret"), "{}", shown(&output));
        shown(&output)
    };
    let folder = tempfile::tempdir().unwrap();
    for (url, expected) in [
        ("postgresql://weir:S3cret@127.0.0.1:x/".to_owned(), "it is not a URL; write postgresql://"),
        (
            format!("postgresql://weir:S3cret@127.0.0.1:{port}/missing"),
            "database \"missing\" does not exist; correct its URL",
        ),
        (
            format!("postgresql://nobody:S3cret@127.0.0.1:{port}/postgres"),
            "role \"nobody\" does not exist; correct its URL",
        ),
        (
            format!("postgresql://weir:S3cret@127.0.0.1:{port}/postgres?sslmode=require"),
            "server does not support TLS",
        ),
        ("postgresql://weir:S3cret@127.0.0.1:9/postgres".to_owned(), "the store is not available"),
    ] {
        let refused = start(&url, folder.path());
        assert!(refused.contains(expected), "{url}: {refused}");
    }
    let Member { folder, .. } = &cluster.gateways[0];
    let url = cluster.server.url();
    assert!(start(&url, folder.path()).contains("in use by another weir"));
    cluster.server.execute("CREATE DATABASE other");
    cluster.gateways[0].weir.terminate();
    let other = format!("postgresql://weir:S3cret@127.0.0.1:{port}/other");
    assert!(start(&other, folder.path()).contains("belongs to the service"));
}
