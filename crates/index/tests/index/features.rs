//! The table of features by engine in `docs/architecture.md`. `UPDATE_DOCS=1` rewrites it.

use std::path::Path;

use weir_index::EngineKind;
use weir_index::features::{FEATURES, Feature, Support};

const BEGIN: &str = "<!-- features: begin -->\n";
const END: &str = "<!-- features: end -->\n";

fn table() -> String {
    let mut table =
        "| feature | fields of `POST /v1/search` | embedded | Qdrant |\n|---|---|---|---|\n".to_owned();
    for feature in FEATURES {
        let Feature { name, fields, .. } = feature;
        let fields = fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
        let support = |engine| match feature.support(engine) {
            Support::Engine => "engine, over all documents".to_owned(),
            Support::Pipeline => "pipeline, over the candidates".to_owned(),
            Support::Absent => "not done".to_owned(),
            Support::Refused(remedy) => format!("refused: {remedy}"),
        };
        let (embedded, qdrant) = (support(EngineKind::Embedded), support(EngineKind::Qdrant));
        table.push_str(&format!("| {name} | {fields} | {embedded} | {qdrant} |\n"));
    }
    table
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a switch of the test, not a setting of the gateway")]
fn the_table_of_features_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architecture.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{BEGIN}{}{END}{after}", table());
    if std::env::var("UPDATE_DOCS").is_ok() {
        std::fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(
        page == expected,
        "docs/architecture.md is not fresh; run `UPDATE_DOCS=1 cargo test -p weir-index --test index features`"
    );
}

#[test]
fn the_embedded_engine_has_every_feature() {
    let has = |feature: &Feature| {
        matches!(feature.support(EngineKind::Embedded), Support::Engine | Support::Pipeline)
    };
    assert!(FEATURES.iter().all(has));
}
