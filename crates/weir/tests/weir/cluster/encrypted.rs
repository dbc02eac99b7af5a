//! PostgreSQL and Redis over TLS, with the certificate of an authority that a file names.

use serde_json::json;

use super::certificates::Authority;
use super::refused::use_tls;
use super::{Member, Postgres, wait};
use crate::http::redis_server::RedisServer;
use crate::support::client::Client;

#[test]
fn gateways_use_postgres_and_redis_over_tls() {
    let authority = Authority::new();
    let server = Postgres::start_with(|data| use_tls(data, &authority, "127.0.0.1"));
    let redis = RedisServer::start_tls(|certificate, key| authority.issue("127.0.0.1", certificate, key));
    let file = authority.file();
    let url = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), file.display());
    let redis_url = format!("{}?ca_file={}", redis.url(), file.display());
    let variables = [("WEIR_REDIS_URL", "env:REDIS_URL"), ("REDIS_URL", redis_url.as_str())];
    let start = || Member::start(&url, tempfile::tempdir().unwrap(), &variables);
    let (one, two) = (start(), start());
    one.ingest("?wait=true", &json!([{"id": "a", "text": "the lighthouse of Bremen"}]));
    wait("the document at the other one", || two.found("lighthouse", "hybrid") == ["a"]);
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'weir'";
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND application_name = 'weir'";
    wait("connections that are encrypted, all of them", || {
        let (open, encrypted) = (server.count(open), server.count(encrypted));
        open == encrypted && encrypted >= 4
    });

    // limits and revocations go through Redis
    let key = |client: &Client, request: serde_json::Value| {
        let made = client.try_post("/v1/keys", &request).unwrap();
        assert_eq!(made.0, 201, "{}", made.1);
        (made.1["key"].as_str().unwrap().to_owned(), made.1["id"].to_string())
    };
    let (admin, _) = key(&one.client, json!({"name": "admin", "scopes": ["admin", "metrics"]}));
    let by_admin = Client::with_key(&one.weir.url, &admin);
    let request = json!({"name": "app", "scopes": ["search"], "limits": {"requests_per_minute": 6_000}});
    let (app, id) = key(&by_admin, request);
    let at_two = Client::with_key(&two.weir.url, &app);
    wait("the key", || at_two.send("GET", "/v1/models", None).status == 200);
    let metrics = || Client::with_key(&two.weir.url, &admin).send("GET", "/metrics", None).text;
    assert!(metrics().contains("\nweir_limits_shared 1"), "{}", metrics());
    assert!(!metrics().contains("\nweir_limits_asked_total 0\n"), "{}", metrics());
    assert_eq!(by_admin.send("DELETE", &format!("/v1/keys/{id}"), None).status, 200);
    wait("the revocation", || at_two.send("GET", "/v1/models", None).status == 401);
    for member in [&one, &two] {
        let log = member.weir.log();
        assert!(!log.contains("no connection to Redis") && !log.contains("can't be reached"), "{log}");
    }
}
