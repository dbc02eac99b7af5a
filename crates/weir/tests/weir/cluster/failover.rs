//! A failover to a standby that does not have the last commits, which the files of the server from before stand for.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Cluster, Member, Postgres, wait};
use crate::support::client::{Client, Reply};

fn document(id: &str) -> Value {
    json!([{"id": id, "text": format!("the text of {id}")}])
}

fn send(member: &Member, id: &str) -> Reply {
    let body = json!({ "documents": document(id) }).to_string();
    member.client.send("POST", "/v1/ingest", Some(body.as_bytes()))
}

/// What a gateway says that is not ready.
fn failing(client: &Client) -> Option<String> {
    let reply = client.send("GET", "/readyz", None);
    (reply.status == 503).then(|| reply.json()["failing"].to_string())
}

/// Two gateways with four documents, of which the database has lost the last two.
fn after_failover() -> Cluster {
    let mut cluster = Cluster::start(2);
    let ingest = |cluster: &Cluster, id: &str| {
        cluster.gateways[0].ingest("?wait=true", &document(id));
    };
    ingest(&cluster, "a");
    ingest(&cluster, "b");
    cluster.server.shut_down();
    let kept = cluster.server.keep();
    cluster.server.restart();
    wait("the database", || send(&cluster.gateways[0], "c").status == 202);
    ingest(&cluster, "d");
    wait("all documents", || cluster.gateways.iter().all(|one| one.document_count() == 4));
    cluster.server.shut_down();
    cluster.server.put_back(kept);
    cluster.server.restart();
    cluster
}

const LOST: &str = "the database has lost operation 4, which was acknowledged";

#[test]
fn a_database_that_lost_commits_is_noticed_and_takes_nothing_more() {
    let cluster = after_failover();
    for gateway in &cluster.gateways {
        let refused = loop {
            let reply = send(gateway, "e");
            // the connections to the server before are found broken
            if !reply.text.contains("the store is not available") {
                break reply;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("store_unavailable")));
        assert!(
            refused.text.contains(LOST) && refused.text.contains("restore them, or stop all gateways"),
            "{}",
            refused.text
        );
        let (status, reply) = gateway.client.try_delete("a").unwrap();
        assert!(status == 503 && reply.to_string().contains(LOST), "{status} {reply}");
        wait("readiness", || failing(&gateway.client).is_some_and(|failing| failing.contains(LOST)));
        // what was found before is found
        assert_eq!(gateway.found("text", "lexical").len(), 4);
    }
    assert_eq!(cluster.server.count("SELECT max(number) FROM weir.operations"), 2);

    // the index of a gateway that starts again is ahead
    let Cluster { server, gateways } = cluster;
    for Member { weir, folder, .. } in gateways {
        weir.terminate();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weir"));
        command.env_clear().args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path());
        command
            .env("WEIR_MODEL", "pseudo")
            .env("STORE_URL", server.url())
            .env("WEIR_STORE_URL", "env:STORE_URL");
        let refused = command.output().unwrap();
        let shown = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && shown.contains("index"), "{shown}");
        // the remedy
        std::fs::remove_dir_all(folder.path().join("index")).unwrap();
        let again = Member::start(&server.url(), folder, &[]);
        again.client.wait_until_ready();
        assert_eq!(again.found("text", "lexical"), ["a", "b"]);
        again.weir.terminate();
    }
}

#[test]
fn another_history_is_noticed_when_its_operations_have_the_same_numbers() {
    let mut cluster = after_failover();
    // a gateway that knows nothing of the lost operations writes others
    cluster.add(&[]);
    let [one, two, new] = cluster.gateways.as_slice() else { panic!("three gateways") };
    for id in ["x", "y", "z"] {
        let job = new.ingest("?wait=true", &document(id));
        assert_eq!(job["status"], "completed", "the others keep no lease: {job}");
    }
    for gateway in [one, two] {
        wait("readiness", || failing(&gateway.client).is_some_and(|failing| failing.contains(LOST)));
        let refused = send(gateway, "e");
        assert!(refused.status == 503 && refused.text.contains(LOST), "{}", refused.text);
        assert_eq!(gateway.found("text", "lexical").len(), 4, "nothing of another history is mixed in");
        assert_eq!(gateway.document_count(), 4);
    }
    // a start builds the index again
    let Cluster { server, mut gateways } = cluster;
    let Member { weir, folder, .. } = gateways.remove(0);
    weir.terminate();
    let again = Member::start(&server.url(), folder, &[]);
    again.client.wait_until_ready();
    assert_eq!(again.document_count(), 5);
    assert!(again.weir.log().contains("another history of the store"), "{}", again.weir.log());
}

#[test]
fn a_revocation_that_was_lost_stays_in_force() {
    let mut cluster = Cluster::start(1);
    let create = |member: &Member, key: &str, name: &str| {
        let body = json!({"name": name, "scopes": ["admin", "search"]}).to_string();
        let bearer = format!("Bearer {key}");
        let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
        member.client.try_send("POST", "/v1/keys", &headers, Some(body.as_bytes())).unwrap()
    };
    let admin = create(&cluster.gateways[0], "", "admin").json()["key"].as_str().unwrap().to_owned();
    let leaked = create(&cluster.gateways[0], &admin, "leaked").json();
    let (leaked, id) = (leaked["key"].as_str().unwrap().to_owned(), leaked["id"].to_string());
    let url = cluster.gateways[0].weir.url.clone();
    let status = |key: &str| Client::with_key(&url, key).send("GET", "/v1/collections", None).status;
    assert_eq!(status(&leaked), 200);
    cluster.server.shut_down();
    let kept = cluster.server.keep();
    cluster.server.restart();
    let by_admin = Client::with_key(&url, &admin);
    wait("the revocation", || by_admin.send("DELETE", &format!("/v1/keys/{id}"), None).status == 200);
    // each gateway reads the version of the keys a few times a second
    std::thread::sleep(Duration::from_secs(2));
    cluster.server.shut_down();
    cluster.server.put_back(kept);
    cluster.server.restart();
    wait("readiness", || {
        failing(&by_admin)
            .is_some_and(|failing| failing.contains("the database has lost changes of API keys"))
    });
    assert_eq!((status(&leaked), status(&admin)), (401, 200));
    let refused = create(&cluster.gateways[0], &admin, "another");
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (503, &json!("store_unavailable")),
        "{}",
        refused.text
    );
    assert_eq!(status(&leaked), 401);
}

impl Postgres {
    /// A copy of the files of a server that is shut down.
    fn keep(&self) -> tempfile::TempDir {
        let kept = tempfile::tempdir().unwrap();
        copy(&self.data(), &kept.path().join("data"));
        kept
    }

    /// Replaces its files by a copy.
    fn put_back(&self, kept: tempfile::TempDir) {
        std::fs::remove_dir_all(self.data()).unwrap();
        copy(&kept.path().join("data"), &self.data());
    }
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let done = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}
