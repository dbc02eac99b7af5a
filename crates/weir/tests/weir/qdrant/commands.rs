//! The command line beside a cluster.

use serde_json::{Value, json};

use super::{Setup, variables};
use crate::cli_support::Weir;

#[test]
fn doctor_names_the_nodes_and_what_is_wrong_with_them() {
    let setup = Setup::start();
    let weir =
        variables(&setup.cluster).iter().fold(Weir::new(), |weir, (name, value)| weir.env(name, value));
    let folder = setup.folder.path().to_str().unwrap().to_owned();
    let doctor = |more: &[&str]| weir.run(&[&["doctor", "--data-dir", &folder], more].concat());
    let sound = doctor(&[]);
    assert_eq!(sound.code, 0, "{}", sound.err);
    assert!(
        sound.out.contains(&format!("Qdrant: 3 nodes answer: {} (1.20.0)", setup.cluster.urls()[0])),
        "{}",
        sound.out
    );
    setup.cluster.nodes[1].kill();
    let report = doctor(&["--json"]);
    let json: Value = serde_json::from_str(&report.out).unwrap();
    assert_eq!((report.code, json["qdrant"].as_array().unwrap().len()), (1, 2), "{json}");
    let problem = json["problems"][0].as_str().unwrap();
    assert!(problem.contains(&setup.cluster.urls()[1]) && problem.contains("start it"), "{problem}");
    setup.cluster.nodes[0].set_version("1.17.0");
    assert!(doctor(&[]).out.contains("has version 1.17.0"), "{}", doctor(&[]).out);
}

#[test]
fn a_collection_is_created_and_shown_with_its_engine() {
    let setup = Setup::start();
    let weir = Weir::new().env("WEIR_URL", &setup.gateway.weir.url);
    let created = weir.run(&["collections", "create", "notes", "--engine", "qdrant"]);
    assert_eq!(created.code, 0, "{}", created.err);
    assert!(created.out.contains("engine             qdrant"), "{}", created.out);
    setup.kill_nodes();
    let listed = weir.run(&["collections"]);
    assert!(listed.out.contains("unavailable"), "{}", listed.out);
    let refused = weir.run(&["search", "dam", "--collection", "notes"]);
    assert_ne!(refused.code, 0);
    assert!(
        refused.err.contains("does not answer") && refused.err.contains("qdrant.urls"),
        "{}",
        refused.err
    );
    let body = json!({"collection": "notes", "query": "dam"});
    assert_eq!(setup.gateway.try_post("/v1/search", &body).unwrap().0, 503);
}
