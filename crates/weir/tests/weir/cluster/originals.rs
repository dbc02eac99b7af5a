//! Original files of documents: received by one gateway, found by all.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{Cluster, Member, Postgres, wait};
use crate::support::client::Reply;
use crate::support::process::Weir;

/// A page with a comment, so that the file has several parts and the document little text.
fn page(words: &str, mib: usize) -> Vec<u8> {
    format!("<title>{words}</title><!--{}--><p>{words} of a mill.", "0123456789abcdef".repeat(mib << 16))
        .into_bytes()
}

fn put(member: &Member, id: &str, content: &[u8]) -> Reply {
    let path =
        format!("/v1/collections/default/documents/{id}?wait=true&filename={id}.html&keep_original=true");
    member.client.try_send("PUT", &path, &[("content-type", "text/html")], Some(content)).unwrap()
}

fn original(member: &Member, id: &str) -> Reply {
    member.client.send("GET", &format!("/v1/collections/default/documents/{id}/original"), None)
}

fn weir(arguments: &[&str], url: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env_clear().args(arguments).env("STORE_URL", url).env("WEIR_STORE_URL", "env:STORE_URL");
    let output = command.output().unwrap();
    let shown =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{arguments:?}: {shown}");
    shown
}

/// The files in the folder of a data directory.
fn in_folder(data_dir: &Path) -> usize {
    let folders = std::fs::read_dir(data_dir.join("originals")).into_iter().flatten().flatten();
    folders.map(|entry| std::fs::read_dir(entry.path()).map_or(0, Iterator::count)).sum()
}

#[test]
fn a_kept_file_is_found_at_every_gateway() {
    let mut cluster = Cluster::start_with(2, &[("WEIR_EXTRACT_ORIGINALS_BYTES_MAX", "6000000")]);
    let url = cluster.server.url();
    let (large, small) = (page("large", 3), page("small", 1));
    {
        let [one, two] = cluster.gateways.as_slice() else { panic!("two gateways") };
        for (id, content) in [("a", &large), ("b", &small)] {
            assert_eq!(put(one, id, content).status, 202);
            let found = original(two, id);
            assert_eq!(found.status, 200, "{}", found.text);
            assert!(found.bytes == *content && found.header("content-type") == "text/html; charset=utf-8");
        }
        // the same file takes its space once, and all gateways have one limit
        assert_eq!(put(two, "c", &large).status, 202);
        let refused = put(two, "d", &page("other", 2));
        assert_eq!(
            (refused.status, &refused.json()["code"]),
            (507, &json!("insufficient_storage")),
            "{}",
            refused.text
        );
        assert_eq!(
            cluster.server.count("SELECT sum(bytes)::bigint FROM weir.kept_files") as usize,
            large.len() + small.len()
        );
        assert!(weir(&["doctor"], &url).contains("2 original files"), "three documents, two files");
        assert_eq!([one, two].map(|member| in_folder(member.folder.path())), [0, 0]);
        wait("the metric", || {
            two.client.send("GET", "/metrics", None).text.contains("\nweir_original_files 2\n")
        });
        assert_eq!(two.client.try_delete("b").unwrap().0, 200);
        assert_eq!(original(one, "b").status, 404);
    }
    // without the gateway that received it, and at one that is new
    cluster.gateways.remove(0).weir.kill();
    cluster.add(&[]);
    cluster.gateways[1].client.wait_until_ready();
    for member in &cluster.gateways {
        assert!(original(member, "a").bytes == large);
    }
    // the space of files that no document has is free again after an hour
    cluster.server.execute("UPDATE weir.kept_files SET kept_at = kept_at - 3601");
    wait("the removal", || cluster.server.count("SELECT count(*) FROM weir.kept_files") == 1);
    assert_eq!(cluster.server.count("SELECT count(DISTINCT sha256) FROM weir.kept_parts"), 1);
    assert_eq!(put(&cluster.gateways[0], "d", &page("other", 2)).status, 202);
}

#[test]
fn kept_files_move_with_the_store() {
    let server = Postgres::start();
    let (url, content) = (server.url(), page("moved", 2));
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, last] = folders.each_ref().map(|folder| folder.path().to_str().unwrap());
    let start = |folder: &str| {
        let weir = Weir::start(Path::new(folder));
        let client = crate::support::client::Client::new(&weir.url);
        client.wait_until_ready();
        (weir, client)
    };
    {
        let (weir, client) = start(first);
        let path = "/v1/collections/default/documents/a?wait=true&filename=a.html&keep_original=true";
        let stored = client.try_send("PUT", path, &[("content-type", "text/html")], Some(&content)).unwrap();
        assert_eq!(stored.status, 202, "{}", stored.text);
        weir.terminate();
    }
    let shown = weir(&["store", "copy", "--data-dir", first, "--to", "env:STORE_URL"], &url);
    assert!(shown.contains("1 original files copied"), "{shown}");
    {
        let member = Member::start(&url, tempfile::tempdir().unwrap(), &[]);
        member.client.wait_until_ready();
        assert!(original(&member, "a").bytes == content);
        member.weir.terminate();
    }
    let shown = weir(&["store", "copy", "--to", last], &url);
    assert!(shown.contains("1 original files copied"), "{shown}");
    let (weir_of_last, client) = start(last);
    let found = client.send("GET", "/v1/collections/default/documents/a/original", None);
    assert!(found.status == 200 && found.bytes == content);
    weir_of_last.terminate();

    // an earlier version has kept it in the data directory of a gateway
    server.execute("TRUNCATE weir.kept_files; TRUNCATE weir.kept_parts");
    let member = Member::start(&url, folders.into_iter().next().unwrap(), &[]);
    member.client.wait_until_ready();
    wait("the move into the store", || original(&member, "a").status == 200);
    assert!(original(&member, "a").bytes == content);
    wait("the end of the file", || in_folder(member.folder.path()) == 0);
}
