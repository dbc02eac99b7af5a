//! The development sets, with the real model and default settings. They are for measurement only and not in the project:
//! `WEIR_EVAL_DATA` names the folder that has them.

use std::path::PathBuf;

use serde_json::Value;

use super::{Gateway, eval, in_repository};

#[test]
fn the_default_settings_reach_their_targets() {
    #[allow(
        clippy::disallowed_methods,
        reason = "where the measurement data lies; no setting of the product"
    )]
    let data = std::env::var_os("WEIR_EVAL_DATA").filter(|name| !name.is_empty()).map(PathBuf::from);
    let Some(data) = data else {
        println!("NOT MEASURED: set WEIR_EVAL_DATA to the folder that has scifact, cranfield, …");
        return;
    };
    let targets = std::fs::read_to_string(in_repository("fixtures/eval/targets.json")).unwrap();
    let targets: serde_json::Map<String, Value> = serde_json::from_str(&targets).unwrap();
    let (mut arguments, mut missing) = (Vec::new(), Vec::new());
    for (set, configurations) in &targets {
        if set != "mean" && !data.join(set).is_dir() {
            missing.push(set.as_str());
            continue;
        }
        for (configuration, ndcg) in configurations.as_object().unwrap() {
            let set = if set == "mean" { "" } else { set };
            arguments.push(format!("--min-ndcg={set}/{configuration}={ndcg}"));
        }
        if set != "mean" {
            arguments.push(data.join(set).display().to_string());
        }
    }
    assert!(missing.is_empty(), "WEIR_EVAL_DATA does not have {}", missing.join(", "));
    let model = in_repository("models/all-MiniLM-L6-v2").display().to_string();
    let gateway = Gateway::start_with(&[
        ("WEIR_MODEL", model.as_str()),
        ("WEIR_CHUNKING_MAX_TOKENS", "200"),
        ("WEIR_CHUNKING_OVERLAP_TOKENS", "32"),
        ("WEIR_INGEST_BATCH_DOCUMENTS_MAX", "256"),
    ]);
    let seen = eval(&gateway, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    println!("{}{}", seen.err, seen.out);
    assert_eq!(seen.code, 0);
}
