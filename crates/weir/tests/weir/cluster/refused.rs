//! Databases and Redis servers that a gateway refuses at its start: by name, with the remedy, and without showing a secret.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use super::certificates::Authority;
use super::{Cluster, Member, Postgres, wait};
use crate::http::redis_server::RedisServer;
use crate::llm::postgres::own;
use crate::support::client::Client;
use crate::support::process::Weir;

/// A part of each password, which no message shows.
const SECRET: &str = "S3cret";

/// What a start over this database says, which is refused.
fn refusal(url: &str, folder: &Path, more: &[(&str, &str)]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env_clear().args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder);
    command.env("WEIR_MODEL", "pseudo").env("STORE_URL", url).env("WEIR_STORE_URL", "env:STORE_URL");
    let Output { status, stdout, stderr } = command.envs(more.iter().copied()).output().unwrap();
    let shown = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(!status.success() && !shown.contains(SECRET), "{shown}");
    shown
}

fn check(url: &str, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let shown = refusal(url, folder.path(), &[]);
    assert!(shown.contains(expected), "{url}: {shown}");
}

/// Adds lines to the settings of a server that was not started yet.
pub(super) fn set(data: &Path, settings: &str) {
    let file = data.join("postgresql.conf");
    let written = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{written}\n{settings}\n")).unwrap();
}

/// Has a server that was not started yet use TLS.
pub(super) fn use_tls(data: &Path, authority: &Authority, name: &str) {
    let (certificate, key) = (data.join("server.crt"), data.join("server.key"));
    authority.issue(name, &certificate, &key);
    own(&certificate);
    own(&key);
    set(data, "ssl = on");
}

#[test]
fn roles_that_may_not_are_refused() {
    let server = Postgres::start_with(|data| {
        let rules = "host all weir 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
        fs::write(data.join("pg_hba.conf"), rules).unwrap();
    });
    server.execute(&format!("CREATE ROLE app LOGIN PASSWORD '{SECRET}'"));
    let at = |login: &str| format!("postgresql://{login}@127.0.0.1:{}/postgres", server.port);
    check(
        &at(&format!("app:not the {SECRET}").replace(' ', "%20")),
        "password authentication failed for user \"app\"; correct its URL",
    );
    check(&at("app"), "password missing; correct it");
    check(&at(&format!("app:{SECRET}")), "grant the role its rights on the schema `weir`");
    server.execute("GRANT CREATE ON DATABASE postgres TO app");
    let folder = tempfile::tempdir().unwrap();
    let member = Member::start(&at(&format!("app:{SECRET}")), folder, &[]);
    member.client.wait_until_ready();
    assert!(!member.weir.log().contains(SECRET));
}

#[test]
fn servers_that_do_not_fit_are_refused() {
    let mut server = Postgres::start();
    let url = server.url();
    {
        let weir = start_and_stop(&url);
        assert!(!weir.contains("computed again"), "{weir}");
    }
    let format = server.count("SELECT format FROM weir.format");
    server.execute("UPDATE weir.format SET format = 999");
    check(&url, "the store has format 999, this weir knows formats up to");
    server.execute(&format!("UPDATE weir.format SET format = {format}"));
    server.execute("ALTER DATABASE postgres SET default_transaction_read_only TO on");
    check(&url, "the PostgreSQL database is read-only; name the primary server, or make it writable");
    server.execute("BEGIN READ WRITE; ALTER DATABASE postgres RESET default_transaction_read_only; COMMIT");

    // no older server is installed: this one says that it is
    server.execute(
        "SET allow_system_table_mods TO on;
         ALTER FUNCTION pg_catalog.current_setting(text) RENAME TO true_setting;
         CREATE FUNCTION pg_catalog.current_setting(text) RETURNS text LANGUAGE sql STABLE AS
             $$ SELECT CASE $1 WHEN 'server_version_num' THEN '140011' ELSE pg_catalog.true_setting($1) END $$",
    );
    check(&url, "PostgreSQL 14 is too old; use version 15 or newer");
    server.execute(
        "SET allow_system_table_mods TO on;
         DROP FUNCTION pg_catalog.current_setting(text);
         ALTER FUNCTION pg_catalog.true_setting(text) RENAME TO current_setting",
    );
    start_and_stop(&url);

    server.shut_down();
    let standby = server.data().join("standby.signal");
    fs::write(&standby, "").unwrap();
    own(&standby);
    server.restart();
    check(&url, "the PostgreSQL database is read-only; name the primary server, or make it writable");
}

/// Starts a gateway over a database, and stops it; its log.
fn start_and_stop(url: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let member = Member::start(url, folder, &[]);
    member.client.wait_until_ready();
    member.weir.terminate();
    member.weir.log()
}

#[test]
fn certificates_that_are_not_trusted_are_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = Postgres::start_with(|data| use_tls(data, &authority, "127.0.0.1"));
    let elsewhere = Postgres::start_with(|data| use_tls(data, &authority, "db.example"));
    let at = |server: &Postgres, authority: &Authority| {
        let file = authority.file();
        format!(
            "postgresql://weir:{SECRET}@127.0.0.1:{}/postgres?sslmode=verify-full&sslrootcert={}",
            server.port,
            file.display()
        )
    };
    let remedy =
        "name the file of its authority as `sslrootcert` in the URL, and the host as the certificate does";
    check(&at(&server, &other), remedy);
    check(&at(&elsewhere, &authority), remedy);
    check(
        &format!("postgresql://weir:{SECRET}@127.0.0.1:{}/postgres?sslmode=verify-full", server.port),
        remedy,
    );
    check(
        &format!(
            "postgresql://weir:{SECRET}@127.0.0.1:{}/postgres?sslmode=verify-full&sslrootcert=/no/such/file",
            server.port
        ),
        "its `sslrootcert` has no certificates: /no/such/file",
    );
    let plain = Postgres::start();
    check(&at(&plain, &authority), "turn its `ssl` on, or correct `sslmode` in the URL");

    let redis = RedisServer::start_tls(|certificate, key| authority.issue("127.0.0.1", certificate, key));
    let folder = tempfile::tempdir().unwrap();
    for (redis_url, expected) in [
        (redis.url(), "name the file of its authority as `ca_file` in the URL"),
        (
            format!("{}?ca_file={}", redis.url(), other.file().display()),
            "name the file of its authority as `ca_file` in the URL",
        ),
        (format!("{}?ca_file=/no/such/file", redis.url()), "its `ca_file` has no certificates"),
        (format!("{}/two", redis.url()), "it is not a URL; write redis://"),
    ] {
        let redis_url = redis_url.replace("rediss://", &format!("rediss://user:{SECRET}@"));
        let more = [("WEIR_REDIS_URL", "env:REDIS_URL"), ("REDIS_URL", redis_url.as_str())];
        let shown = refusal(&at(&server, &authority), folder.path(), &more);
        assert!(shown.contains(expected), "{redis_url}: {shown}");
    }
}

#[test]
fn a_second_service_over_one_database_is_refused() {
    let one = Cluster::start(1);
    let two = Cluster::start(1);
    let [Member { weir, folder, .. }] = two.gateways.as_slice() else { panic!("one gateway") };
    weir.terminate();
    let refused = refusal(&one.server.url(), folder.path(), &[]);
    for part in ["belongs to the service", "name the database of this service, or choose another --data-dir"]
    {
        assert!(refused.contains(part), "{refused}");
    }
    // a data directory with a store of its own
    let folder = tempfile::tempdir().unwrap();
    {
        let own = Weir::start(folder.path());
        Client::new(&own.url).wait_until_ready();
        own.terminate();
    }
    let refused = refusal(&one.server.url(), folder.path(), &[]);
    for part in [
        "has a store of its own",
        "copy it by `weir store copy` into an empty database, or choose another --data-dir",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    // the running one has noticed nothing
    wait("the gateway", || one.gateways[0].client.send("GET", "/readyz", None).status == 200);
}
