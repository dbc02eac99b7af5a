//! Clients of other makers, unmodified, against the gateway; `docs/clients.md` has the table of what they get. `UPDATE_DOCS=1` rewrites it.

use std::path::Path;
use std::process::Command;

use super::dialects::with_a_reranker;
use super::in_repository;

/// Rows with the version of an installed program, which differs between systems.
const UNPINNED: &str = "| curl |";

/// Demand 8: compatible means that each client gets what a plain request gets; the table of the results is published.
#[test]
#[allow(clippy::disallowed_methods, reason = "a switch of the test, no setting of the gateway")]
fn unmodified_clients_get_what_plain_requests_get() {
    let python = in_repository(".cache/clients/venv/bin/python");
    assert!(python.is_file(), "`make setup` installs the clients");
    let (gateway, _file) = with_a_reranker();
    let page = in_repository("docs/clients.md");
    let folder = tempfile::tempdir().unwrap();
    let fresh = folder.path().join("clients.md");
    std::fs::copy(&page, &fresh).unwrap();
    let run = Command::new(&python)
        .args(["-m", "conformance", "--url", &gateway.weir.url, "--markdown"])
        .arg(&fresh)
        .env("PYTHONPATH", in_repository("clients"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{printed}{}", String::from_utf8_lossy(&run.stderr));

    if std::env::var("UPDATE_DOCS").is_ok() {
        std::fs::copy(&fresh, &page).unwrap();
    }
    let pinned = |path: &Path| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().filter(|line| !line.starts_with(UNPINNED)).map(str::to_owned).collect::<Vec<String>>()
    };
    assert!(
        pinned(&page) == pinned(&fresh),
        "docs/clients.md is not fresh; run `UPDATE_DOCS=1 cargo test -p weir --test weir embeddings_api::clients`\n{printed}"
    );
}
