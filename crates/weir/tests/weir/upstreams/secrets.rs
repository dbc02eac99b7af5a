//! A key for an upstream goes to the upstream and nowhere else.

use std::process::Command;

use serde_json::json;

use super::scripted::{Answer, Upstream};
use super::{configuration, embed, gateway};

const KEY: &str = "sk-very-secret-7";

#[test]
fn a_key_is_in_no_log_and_no_reply_even_when_the_upstream_repeats_it() {
    let upstream = Upstream::start(|_, asked| {
        let said = json!({"error": {"message": format!("no such key: {}", asked.headers["authorization"])}});
        Answer::Other(401, Vec::new(), said.to_string())
    });
    let variables = [("UPSTREAM_KEY", KEY), ("WEIR_LOG_LEVEL", "trace")];
    let (gateway, _file) = gateway("openai", &upstream.url, "api_key = \"env:UPSTREAM_KEY\"", &variables);
    let reply = embed(&gateway, json!("a"));
    assert_eq!(upstream.asked()[0].headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(reply.status, 502);
    assert!(reply.text.contains("no such key: Bearer [secret]; check its `api_key`"), "{}", reply.text);
    gateway.wait("the log", || gateway.weir.log().contains("a request to an upstream failed"));
    for text in [reply.text, gateway.weir.log(), gateway.send("GET", "/metrics", None).text] {
        assert!(!text.contains(KEY), "{text}");
    }
}

#[test]
fn the_configuration_shows_where_a_key_stands_and_not_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, KEY).unwrap();
    let named = format!("file:{}", key.display());
    let file = configuration("openai", "http://127.0.0.1:1", &format!("api_key = {named:?}"));
    for arguments in [&["config", "show"][..], &["config", "show", "--json"], &["config", "check"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let out = command.env_clear().args(arguments).env("WEIR_CONFIG", file.path()).output().unwrap();
        let shown = String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap();
        assert!(out.status.success(), "{shown}");
        assert!(!shown.contains(KEY), "{shown}");
        assert_eq!(shown.contains(&named), arguments[1] == "show", "{shown}");
    }
}

#[test]
fn a_missing_key_keeps_the_gateway_from_starting_and_is_named() {
    let file = configuration("openai", "http://127.0.0.1:1", "api_key = \"env:NO_SUCH_KEY\"");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let out = command.env_clear().args(["config", "check"]).env("WEIR_CONFIG", file.path()).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(!out.status.success());
    assert!(said.contains("the model `m` has no `api_key`: the variable NO_SUCH_KEY is not set"), "{said}");
}
