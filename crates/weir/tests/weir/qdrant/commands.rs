//! The command line beside a cluster.

use serde_json::{Value, json};

use super::moves::documents;
use super::{Setup, create, found, ingest, shown, variables};
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

#[test]
fn a_collection_is_moved_by_a_command_that_compares_what_is_found() {
    let setup = Setup::start();
    let gateway = &setup.gateway;
    create(gateway, "notes", &json!({}));
    ingest(gateway, "notes", &documents(0, 60));
    let queries = setup.folder.path().join("queries.txt");
    std::fs::write(&queries, "note river\n\nweir\n17\n").unwrap();
    let queries = queries.to_str().unwrap();
    let weir = Weir::new().env("WEIR_URL", &gateway.weir.url);
    let engine = || shown(gateway, "notes")["settings"]["engine"].clone();

    let unknown = weir.run(&["move", "note", "--to", "qdrant"]);
    assert!(unknown.code == 1 && unknown.err.contains("did you mean `notes`"), "{}", unknown.err);
    let without = weir.run(&["move", "notes", "--to", "qdrant", "--overlap-min", "0.5"]);
    assert!(without.code == 1 && without.err.contains("--queries"), "{}", without.err);
    assert_eq!(engine(), Value::Null, "nothing is moved");

    let moved = weir.run(&["move", "notes", "--to", "qdrant", "--queries", queries, "--json"]);
    assert_eq!(moved.code, 0, "{}", moved.err);
    let json: Value = serde_json::from_str(&moved.out).unwrap();
    let compared = json["overlap"]["queries"].as_array().unwrap();
    let overlaps: Vec<f64> = compared.iter().map(|one| one["overlap"].as_f64().unwrap()).collect();
    assert!(overlaps.len() == 3 && overlaps.is_sorted() && overlaps[2] > 0.0, "{json}");
    let mean = overlaps.iter().sum::<f64>() / 3.0;
    assert!(mean < 1.0 && (json["overlap"]["mean"].as_f64().unwrap() - mean).abs() < 1e-9, "{json}");
    assert_eq!(
        (&json["from"], &json["to"], engine()),
        (&json!("embedded"), &json!("qdrant"), json!("qdrant"))
    );

    // too little in common: back again
    let arguments = ["move", "notes", "--to", "embedded", "--queries", queries, "--overlap-min", "1"];
    let refused = weir.run(&arguments);
    assert_eq!(refused.code, 1, "{} {}", refused.out, refused.err);
    assert!(refused.out.contains("overlap@10 of 3 queries: 0."), "{}", refused.out);
    assert!(refused.err.contains("was moved back to qdrant"), "{}", refused.err);
    assert_eq!((engine(), &shown(gateway, "notes")["status"]), (json!("qdrant"), &json!("ready")));
    let notes = json!({"query": "note", "mode": "lexical", "top_k": 100});
    assert_eq!(found(gateway, "notes", &notes).len(), 60);

    let judged = setup.folder.path().join("judged");
    std::fs::create_dir(&judged).unwrap();
    std::fs::write(judged.join("corpus.jsonl"), "").unwrap();
    std::fs::write(judged.join("queries.jsonl"), "{\"_id\": \"q\", \"text\": \"17\"}\n").unwrap();
    std::fs::write(judged.join("qrels.tsv"), "query-id\tcorpus-id\tscore\nq\td17\t1\n").unwrap();
    let judged = weir.run(&["move", "notes", "--to", "embedded", "--judged", judged.to_str().unwrap()]);
    assert_eq!(judged.code, 0, "{}", judged.err);
    let line = judged.out.lines().nth(1).unwrap();
    assert!(
        line.starts_with("nDCG@10 of the judged queries: ") && line.ends_with(" after"),
        "{}",
        judged.out
    );
    assert!(!line.contains("0.0000"), "{}", judged.out);
    assert_eq!(weir.run(&["move", "notes", "--to", "qdrant", "--queries", queries]).code, 0);

    let plain = weir.run(&["move", "notes", "--to", "embedded"]);
    assert_eq!(plain.code, 0, "{}", plain.err);
    assert!(plain.out.starts_with("moved the index of `notes` from qdrant to embedded in "), "{}", plain.out);
    assert!(plain.err.contains("no results are compared"), "{}", plain.err);
    let again = weir.run(&["move", "notes", "--to", "embedded"]);
    assert_eq!((again.code, again.out.as_str()), (0, "the index of `notes` is in the engine embedded\n"));
}

#[test]
fn the_command_moves_a_collection_out_of_a_cluster_that_is_gone_without_a_comparison() {
    let setup = Setup::start();
    let gateway = &setup.gateway;
    create(gateway, "notes", &json!({"engine": "qdrant"}));
    ingest(gateway, "notes", &documents(0, 60));
    let queries = setup.folder.path().join("queries.txt");
    std::fs::write(&queries, "note river\n").unwrap();
    setup.kill_nodes();
    gateway.wait("the cluster to be away", || shown(gateway, "notes")["status"] == "unavailable");
    let weir = Weir::new().env("WEIR_URL", &gateway.weir.url);
    let moved = weir.run(&["move", "notes", "--to", "embedded", "--queries", queries.to_str().unwrap()]);
    assert_eq!(moved.code, 0, "{}", moved.err);
    assert!(moved.err.contains("the engine of now does not answer"), "{}", moved.err);
    let notes = json!({"query": "note", "mode": "lexical", "top_k": 100});
    assert_eq!(found(gateway, "notes", &notes).len(), 60);
}
