//! `weir plan` from outside, and the table of `docs/plan.md` that it makes. `UPDATE_DOCS=1` rewrites the table.

use std::path::Path;

use serde_json::Value;

use crate::cli_support::{Weir, folder_with};

/// A plan, with round prices. Its sums were computed by hand.
struct Plan(Value);

fn json(arguments: &[&str]) -> Value {
    let run = Weir::new().run(&[&["plan", "--json"], arguments].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    serde_json::from_str(&run.out).unwrap()
}

impl Plan {
    /// Of 100 searches a second and no chat; machines have four cores and 64 GiB and are half busy.
    fn of(arguments: &[&str]) -> Plan {
        let prices = r#"{"currency": "EUR", "core": 10, "memory_gib": 2, "disk_gib": 0.5}"#;
        let folder = folder_with(&[("prices.json", prices)]);
        let prices = folder.path().join("prices.json");
        let searches = if arguments.contains(&"--searches") { [].as_slice() } else { &["--searches", "100"] };
        Plan(json(&[&["--prices", prices.to_str().unwrap()], searches, arguments].concat()))
    }

    fn shape(&self) -> &str {
        self.0["shape"].as_str().unwrap()
    }

    fn counts(&self) -> String {
        let processes = self.0["processes"].as_array().unwrap().iter();
        let counts = processes.map(|of| format!("{} {}", of["count"], of["name"].as_str().unwrap()));
        counts.collect::<Vec<_>>().join(", ")
    }

    fn process(&self, name: &str, field: &str) -> f64 {
        let processes = self.0["processes"].as_array().unwrap();
        processes.iter().find(|of| of["name"] == name).unwrap()[field].as_f64().unwrap()
    }

    fn find(&self, name: &str) -> Option<f64> {
        let figures = self.0["figures"].as_array().unwrap();
        figures.iter().find(|of| of["name"] == name).map(|of| of["value"].as_f64().unwrap())
    }

    fn figure(&self, name: &str) -> f64 {
        self.find(name).unwrap_or_else(|| panic!("no {name}"))
    }

    fn notes(&self) -> String {
        self.0["notes"].to_string()
    }
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected.abs() * 1e-8, "{found} is not {expected}");
}

#[test]
fn one_gateway_carries_what_was_measured() {
    let plan = Plan::of(&["--chunks", "1000000"]);
    assert_eq!((plan.shape(), plan.counts().as_str()), ("one gateway", "1 gateway"));
    // 100 MiB + 1,000,000 × 745
    assert_near(plan.process("gateway", "memory_bytes_each"), 104_857_600.0 + 745_000_000.0);
    // twice: index 1,843.4 + store 1,536 + 1,761.5 a chunk; 100 × 86,400 × 30 rows of 141
    let disk = 2.0 * (1_843_400_000.0 + 3_297_500_000.0 + 36_547_200_000.0);
    assert_near(plan.process("gateway", "disk_bytes_each"), disk);
    assert_near(plan.figure("CPU of a search in the gateway"), 1.10 + 4.58);
    assert_near(plan.figure("busy cores"), 0.568);
    assert_near(plan.figure("p50 of a search on four cores"), 0.94 + 1.64);
    // 95,000,000 tokens by 4 × 28,785 a second
    assert_near(plan.figure("first embedding of all chunks"), 95_000_000.0 / 115_140.0 / 3_600.0);
    assert_eq!(plan.notes(), "[]");
}

#[test]
fn replicas_carry_the_load_with_copies_minus_one_lost() {
    let demand = ["--chunks", "10000000", "--searches", "1000", "--chat", "200", "--copies", "3"];
    let plan = Plan::of(&demand);
    // 1,000 × 46.9 ms + 200 × 2.0369 ms = 47.307 busy cores, by 2 a gateway: 24, and two more
    assert_eq!((plan.shape(), plan.counts().as_str()), ("replicas", "26 gateway, 3 postgresql, 1 redis"));
    assert_near(plan.figure("busy cores"), 46.9 + 0.407_38);
    // 2,000 open streams of 40 KiB over the 24 that are left
    let memory = 104_857_600.0 + 7_450_000_000.0 + 2_000.0 / 24.0 * 40_960.0;
    assert_near(plan.process("gateway", "memory_bytes_each"), memory);
    assert_near(plan.process("gateway", "disk_bytes_each"), 2.0 * 18_434_000_000.0);
    // 10,000,000 × 3,297.5 + 1,200 × 86,400 × 30 × 141
    assert_near(plan.figure("database"), 32_975_000_000.0 + 438_566_400_000.0);
    assert_near(plan.process("postgresql", "disk_bytes_each"), 2.0 * 471_541_400_000.0);
    // 26 × (40 + 14.078 + 17.168) + 3 × (20 + 8 + 439.157) + 12
    assert_eq!(plan.0["cost_a_month"], 3_265.88);
    assert!(plan.notes().contains("up to 1,000,000 chunks"), "{}", plan.notes());
}

#[test]
fn a_billion_chunks_are_divided_among_nodes() {
    let plan = Plan::of(&["--chunks", "1000000000", "--copies", "2"]);
    // 1.152 TB by 0.8 × 64 GiB: 20.95
    assert_eq!(plan.counts(), "2 gateway, 2 postgresql, 1 redis, 21 qdrant");
    assert_near(plan.figure("Qdrant in memory, all nodes"), 1_152_000_000_000.0);
    // 384 × (6 + 1.5) + 2,114 bytes, twice
    assert_near(plan.figure("Qdrant on disk, all nodes"), 9_988_000_000_000.0);
    assert_near(plan.figure("shards"), 84.0);
    assert_near(plan.process("qdrant", "memory_bytes_each"), 1_152_000_000_000.0 / 21.0 / 0.8);
    assert_near(plan.process("gateway", "memory_bytes_each"), 104_857_600.0);
    assert!(plan.notes().contains("does not search a Qdrant cluster"), "{}", plan.notes());
}

#[test]
fn vectors_in_qdrant_take_what_their_kind_takes() {
    let bytes = |kind| {
        let plan = Plan::of(&["--chunks", "1000000", "--engine", "qdrant", "--qdrant-vectors", kind]);
        plan.figure("Qdrant in memory, all nodes")
    };
    assert_near(bytes("f32"), 2_304_000_000.0);
    assert_near(bytes("int8"), 576_000_000.0);
    assert_near(bytes("binary"), 72_000_000.0);
}

#[test]
fn longer_chunks_and_wider_embeddings_take_more() {
    let plan = Plan::of(&["--chunks", "1000000", "--characters", "760", "--dimension", "1024"]);
    // 1,024 × 35/32 + 2 × 325; 1,024 × 99/32 + 2 × 655.4
    assert_near(plan.figure("index in memory, each gateway"), 1_770_000_000.0);
    assert_near(plan.figure("index on disk, each gateway"), 4_478_800_000.0);
    // the dense 1,472.04 of 2,865.01 µs take 8/3 of the time
    let wider = 1.0 + 5.0 / 3.0 * (1_472.04 / 2_865.01);
    assert_near(plan.figure("CPU of a search in the gateway"), 1.10 + 4.58 * wider);
    assert_eq!(plan.find("first embedding of all chunks"), None);
}

#[test]
fn embedded_is_proposed_up_to_fifty_milliseconds_and_the_memory_of_a_machine() {
    let shape = |chunks: &str, memory: &str| {
        Plan::of(&["--chunks", chunks, "--memory", memory, "--searches", "1"]).shape().to_owned()
    };
    // 0.94 + 1.64 × 29.9 = 49.98; × 30 = 50.14
    assert_eq!(shape("29900000", "64"), "one gateway");
    assert_eq!(shape("30000000", "64"), "qdrant");
    // 104,857,600 + 10,000,000 × 745 bytes are 7.04 GiB
    assert_eq!(shape("10000000", "7.1"), "one gateway");
    assert_eq!(shape("10000000", "7"), "qdrant");
    let forced = Plan::of(&["--chunks", "100000000", "--memory", "8", "--engine", "embedded"]);
    assert!(forced.notes().contains("does not fit"), "{}", forced.notes());
    assert!(forced.notes().contains("more than 50 ms"), "{}", forced.notes());
}

#[test]
fn a_figure_is_named_once_and_has_a_kind_and_a_source() {
    for chunks in ["1000", "1000000000"] {
        let plan = Plan::of(&["--chunks", chunks, "--chat", "1"]);
        let figures = plan.0["figures"].as_array().unwrap();
        let mut names: Vec<_> = figures.iter().map(|of| of["name"].as_str().unwrap()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), figures.len());
        for figure in figures {
            let kind = figure["kind"].as_str().unwrap();
            assert!(["given", "measured", "documented", "computed"].contains(&kind), "{figure}");
            assert!(
                !figure["source"].as_str().unwrap().is_empty() && figure["value"].is_number(),
                "{figure}"
            );
        }
    }
}

#[test]
fn a_plan_is_printed_as_tables() {
    let run = Weir::new().run(&["plan", "--chunks", "10000000", "--searches", "1000", "--copies", "2"]);
    assert!(run.out.starts_with("Gateways that each hold the index, over PostgreSQL"), "{}", run.out);
    assert!(run.out.contains("\ngateway        25           4     7.04 GiB"), "{}", run.out);
    assert!(run.out.contains("\nPrices: documented: OpenCost's default prices"), "{}", run.out);
    assert!(run.out.contains("note: the index was measured up to 1,000,000 chunks"), "{}", run.out);
}

#[test]
fn costs_follow_the_price_table() {
    let table = r#"{"currency": "EUR", "source": "ours", "core": 1, "memory_gib": 0, "disk_gib": 0}"#;
    let folder = folder_with(&[
        ("prices.json", table),
        ("unknown.json", r#"{"currency": "EUR", "cores": 1}"#),
        ("negative.json", r#"{"currency": "EUR", "core": 1, "memory_gib": -1, "disk_gib": 0}"#),
    ]);
    let plan = |file: &str| Weir::new().in_folder(&folder).run(&["plan", "--prices", file, "--json"]);
    let found: Value = serde_json::from_str(&plan("prices.json").out).unwrap();
    assert_eq!(found["cost_a_month"], 4.0);
    assert_eq!(found["prices"]["source"], "ours");
    let unknown = plan("unknown.json");
    assert_eq!(unknown.code, 1);
    assert!(unknown.err.contains("unknown.json is no price table: unknown field `cores`"), "{}", unknown.err);
    assert!(unknown.err.contains("hint: write an object"), "{}", unknown.err);
    assert!(plan("negative.json").err.contains("`memory_gib` must be 0 or more"));
    assert!(plan("missing.json").err.contains("missing.json can't be read"));
}

#[test]
fn numbers_out_of_range_are_wrong_usage() {
    for option in [
        "--searches=-1",
        "--searches=NaN",
        "--busy=0",
        "--busy=1.1",
        "--copies=0",
        "--memory=0",
        "--chunks=0",
    ] {
        let run = Weir::new().run(&["plan", option]);
        assert_eq!(run.code, 2, "{option}: {}", run.err);
    }
}

const BEGIN: &str = "<!-- table of cli_plan.rs -->\n";
const END: &str = "<!-- end of table -->\n";

fn table() -> String {
    let mut table = "| chunks | built as | gateways, memory and disk each | p50 of a search | PostgreSQL, disk each | Qdrant nodes, memory and disk each | USD a month |\n\
        |---|---|---|---|---|---|---|\n"
        .to_owned();
    for exponent in 4..=9 {
        let chunks = 10_u64.pow(exponent).to_string();
        table.push_str(&row(&chunks, &[]));
    }
    table
}

fn row(chunks: &str, more: &[&str]) -> String {
    let plan = json(
        &[&["--chunks", chunks, "--searches", "100", "--copies", "2", "--days-kept", "0"], more].concat(),
    );
    let gib = |bytes: &Value| format!("{:.1} GiB", bytes.as_f64().unwrap() / 1_073_741_824.0);
    let of = |name: &str| {
        let found = plan["processes"].as_array().unwrap().iter().find(|of| of["name"] == name);
        found.map(|of| (of["count"].to_string(), gib(&of["memory_bytes_each"]), gib(&of["disk_bytes_each"])))
    };
    let all = |name: &str| {
        of(name)
            .map_or_else(|| "none".to_owned(), |(count, memory, disk)| format!("{count} × {memory}, {disk}"))
    };
    let p50 =
        plan["figures"].as_array().unwrap().iter().find(|of| of["name"] == "p50 of a search on four cores");
    let p50 =
        p50.map_or_else(|| "not known".to_owned(), |of| format!("{:.1} ms", of["value"].as_f64().unwrap()));
    let disk =
        of("postgresql").map_or_else(|| "none".to_owned(), |(count, _, disk)| format!("{count} × {disk}"));
    format!(
        "| {chunks} | {} | {} | {p50} | {disk} | {} | {:.0} |\n",
        plan["shape"].as_str().unwrap(),
        all("gateway"),
        all("qdrant"),
        plan["cost_a_month"].as_f64().unwrap()
    )
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a switch of the test, no setting of the gateway")]
fn the_page_has_the_table_that_the_command_makes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plan.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let made = table();
    if std::env::var("UPDATE_DOCS").is_ok() {
        std::fs::write(&path, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    assert!(
        found == made,
        "the table of docs/plan.md is stale; run `UPDATE_DOCS=1 cargo test -p weir --test weir cli_plan`\n{made}"
    );
}
