//! Stores that earlier versions have written, and a schema that a later one has migrated while gateways run.

use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use weir_store::{Location, Store};

use super::{Cluster, Member, Postgres, wait};
use crate::support::client::Client;
use crate::support::gateway::in_repository;
use crate::support::process::Weir;

/// The texts of the keys in a fixture.
struct Keys {
    admin: &'static str,
    revoked: &'static str,
}

const OF_SQLITE: Keys = Keys {
    admin: "weir_fXtsHeQN6iX9X39pt2FxI4P5QDBZOjkI4Ipe6oqjCfulI1",
    revoked: "weir_6bXSAtglX33SEX8LHpS1N3Fi4yR3GV7ZcSrRV48Cx9WJe2",
};

const OF_POSTGRES: Keys = Keys {
    admin: "weir_1RkiSHi4GqgON3UYeB2gbj3katyeMd3qQ2UUKOteM5clY1",
    revoked: "weir_8jMVLtzjaVTdE4i8f7oYdaXLWJoE60clDtnWyUF7SXgjN2",
};

/// The gateway has everything that the fixtures have, and nothing was embedded again or built anew for no reason.
fn check_content(weir: &Weir, keys: &Keys) {
    let client = Client::with_key(&weir.url, keys.admin);
    client.wait_until_ready();
    let first = client.document("a").unwrap();
    assert_eq!(
        (&first["title"], &first["text"], &first["metadata"]),
        (&json!("First"), &json!("The lighthouse of Bremen warns ships."), &json!({"year": 2024}))
    );
    assert_eq!(
        client.document("b").unwrap()["text"],
        "A weir is a low dam that raises the water of a river."
    );
    assert_eq!(client.document("gone"), None);
    for mode in ["lexical", "dense", "hybrid"] {
        let found = client.search("a low dam that raises the water", mode);
        assert_eq!(found[0]["id"], "b", "{mode}: {found:?}");
        assert!(found.iter().all(|hit| hit["id"] != "gone"), "{mode}: {found:?}");
    }
    let body = json!({"collection": "words", "query": "note", "top_k": 3});
    let (status, reply) = client.try_post("/v1/search", &body).unwrap();
    assert_eq!((status, &reply["results"][0]["id"]), (200, &json!("w")), "{reply}");
    let judgments = client.get("/v1/feedback?collection=default").1;
    assert!(judgments.to_string().contains("\"dam\""), "{judgments}");
    let listed = client.get("/v1/keys").1;
    let budget = listed["data"].as_array().unwrap().iter().find(|key| key["name"] == "budget").unwrap();
    assert_eq!(budget["limits"]["budget_per_day"], 5.0);
    let status = |key: &str| Client::with_key(&weir.url, key).send("GET", "/v1/models", None).status;
    assert_eq!((status(keys.admin), status(keys.revoked), status("")), (200, 401, 401));
    let log = weir.log();
    assert!(!log.contains("computed again") && !log.contains("a new generation is embedded"), "{log}");
}

/// What is stored goes on behind what the fixture has.
fn check_changes(client: &Client, id: &str) {
    let body = json!({"documents": [{"id": id, "text": format!("The text of {id}, stored later.")}]});
    let (status, job) = client.try_post("/v1/ingest?wait=true", &body).unwrap();
    assert_eq!((status, &job["status"]), (202, &json!("completed")), "{job}");
    assert_eq!(client.search(&format!("{id} stored later"), "hybrid")[0]["id"], *id);
}

#[test]
fn a_data_directory_of_an_earlier_version_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = in_repository("fixtures/formats/sqlite-19.tar.gz");
    let unpacked =
        Command::new("tar").arg("-xzf").arg(fixture).arg("-C").arg(folder.path()).status().unwrap();
    assert!(unpacked.success());
    {
        let weir = Weir::start(folder.path());
        check_content(&weir, &OF_SQLITE);
        assert!(!weir.log().contains("rebuilt"), "{}", weir.log());
        check_changes(&Client::with_key(&weir.url, OF_SQLITE.admin), "new");
        weir.terminate();
    }
    let weir = Weir::start(folder.path());
    check_content(&weir, &OF_SQLITE);
    assert!(Client::with_key(&weir.url, OF_SQLITE.admin).document("new").is_some());
    weir.terminate();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let report = runtime.block_on(Store::verify_at(&Location::data_dir(folder.path()))).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

#[test]
fn a_schema_of_an_earlier_version_is_migrated_by_gateways_that_start_together() {
    let server = Postgres::start();
    server.execute(&std::fs::read_to_string(in_repository("fixtures/formats/postgres-3.sql")).unwrap());
    assert_eq!(server.count("SELECT format FROM weir.format"), 3);
    let url = server.url();
    let start = || Member::start(&url, tempfile::tempdir().unwrap(), &[]);
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(start);
        (start(), one.join().unwrap())
    });
    for member in [&one, &two] {
        check_content(&member.weir, &OF_POSTGRES);
    }
    check_changes(&Client::with_key(&one.weir.url, OF_POSTGRES.admin), "new");
    let at_two = Client::with_key(&two.weir.url, OF_POSTGRES.admin);
    wait("the new document", || at_two.search("new stored later", "hybrid")[0]["id"] == "new");
    assert!(server.count("SELECT format FROM weir.format") > 3);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let report = runtime.block_on(Store::verify_at(&Location::database(&url).unwrap())).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
}

/// What the next version may do to the schema: tables, and columns that may be missing or have a default.
const NEXT_FORMAT: &str = "
    DO $$ DECLARE name text; BEGIN
        FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'weir' AND tablename <> 'format' LOOP
            EXECUTE format('ALTER TABLE weir.%I ADD COLUMN next_text text, ADD COLUMN next_number bigint NOT NULL DEFAULT 7', name);
        END LOOP;
    END $$;
    CREATE TABLE weir.next_table (id bigint PRIMARY KEY);
    UPDATE weir.format SET format = format + 1;";

#[test]
fn gateways_that_run_go_on_over_the_schema_of_the_next_version() {
    let cluster = Cluster::start(2);
    let [one, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
    let key = |request: Value| {
        one.client.try_post("/v1/keys", &request).unwrap().1["key"].as_str().unwrap().to_owned()
    };
    let admin = key(json!({"name": "admin", "scopes": ["admin", "search", "ingest"]}));
    let clients = [one, two].map(|member| Client::with_key(&member.weir.url, &admin));
    wait("the key", || {
        clients.iter().all(|client| client.send("GET", "/v1/collections", None).status == 200)
    });
    // statements of all connections are prepared
    for (number, client) in clients.iter().enumerate() {
        check_changes(client, &format!("before{number}"));
    }
    cluster.server.execute(NEXT_FORMAT);
    for (number, client) in clients.iter().enumerate() {
        check_changes(client, &format!("after{number}"));
        let documents: Vec<Value> = (0..20)
            .map(|n| json!({"id": format!("many{number}-{n}"), "text": format!("note {n}")}))
            .collect();
        let (status, job) =
            client.try_post("/v1/ingest?wait=true", &json!({"documents": documents})).unwrap();
        assert_eq!((status, &job["status"]), (202, &json!("completed")), "{job}");
        assert_eq!(client.try_delete(&format!("before{number}")).unwrap().0, 200);
        let judged = json!({"query": "note", "document_id": format!("after{number}"), "grade": 2});
        assert!(client.try_post("/v1/feedback", &judged).unwrap().0 < 300);
        let made = json!({"name": "chat", "scopes": ["chat"], "limits": {"budget_per_day": 1}});
        assert_eq!(client.try_post("/v1/keys", &made).unwrap().0, 201);
    }
    wait("equal counts", || {
        let count = |client: &Client| client.get("/v1/collections/default").1["document_count"].clone();
        count(&clients[0]) == 42 && count(&clients[1]) == 42
    });
    // the work of a gateway that is gone goes on at the other one
    one.signal(Signal::KILL);
    check_changes(&clients[1], "last");
    let log = two.weir.log();
    assert!(!log.contains("ERROR") && !log.contains("cached plan"), "{log}");
    // a start of this version comes too late
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env_clear().args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path());
    command
        .env("WEIR_MODEL", "pseudo")
        .env("STORE_URL", cluster.server.url())
        .env("WEIR_STORE_URL", "env:STORE_URL");
    let refused = command.output().unwrap();
    let shown = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && shown.contains("start the newer weir that wrote it"), "{shown}");
}
