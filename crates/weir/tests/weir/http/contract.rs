//! Generated requests to every route, whose replies must be as `/openapi.json` says: `clients/contract`, which runs Schemathesis.
//!
//! `make contract` sends more of them; `WEIR_CONTRACT_EXAMPLES` chooses their number.

use std::process::Command;

use super::{Gateway, in_repository};

/// Random requests for each route, beside its examples and those at the limits of its types.
#[allow(clippy::disallowed_methods, reason = "a setting of the test, none of the gateway")]
fn examples() -> String {
    std::env::var("WEIR_CONTRACT_EXAMPLES").unwrap_or_else(|_| "4".to_owned())
}

#[test]
fn generated_requests_get_the_replies_of_the_description() {
    let python = in_repository(".cache/contract/venv/bin/python");
    assert!(python.is_file(), "`scripts/setup.sh contract` installs Schemathesis");
    let file = tempfile::NamedTempFile::new().unwrap();
    // the model's name is that of the examples in the description
    let toml = format!(
        "[[models]]\nid = \"all-MiniLM-L6-v2\"\nfolder = {:?}\n[[models]]\nid = \"ce\"\nfolder = {:?}\n",
        in_repository("fixtures/tiny/bert"),
        in_repository("fixtures/tiny/bert-classifier")
    );
    std::fs::write(file.path(), toml).unwrap();
    let gateway = Gateway::start_with(&[
        ("WEIR_CONFIG", file.path().to_str().unwrap()),
        ("WEIR_MODEL", ""),
        ("WEIR_SEARCH_QUERY_LOG", "true"),
        // a busy machine is no reason to refuse a request
        ("WEIR_SERVER_REQUEST_DEADLINE_MS", "120000"),
        ("WEIR_INFERENCE_QUERY_WAIT_MS_MAX", "60000"),
    ]);
    let run = Command::new(&python)
        .args(["-B", "-m", "contract", "--url", &gateway.weir.url, "--examples", &examples()])
        .env("PYTHONPATH", in_repository("clients"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&run.stdout);
    println!("{printed}");
    assert!(run.status.success(), "{printed}{}", String::from_utf8_lossy(&run.stderr));
    let log = gateway.weir.log();
    assert!(!log.contains("\"level\":\"ERROR\""), "{log}");
    assert_eq!(gateway.get("/readyz").0, 200);
}
