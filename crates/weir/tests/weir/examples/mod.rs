//! The examples of the pages are executed in order, each page against its own gateway over a copy of a folder with the sample documents, with a
//! mock of a language model; so is every example of `/openapi.json`. What is done with a block says `blocks.rs`.

#![allow(clippy::print_stdout, reason = "names the example that runs")]

mod blocks;
mod openapi;
mod runner;
mod scale;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::support::gateway::{Gateway, in_repository};
use blocks::{Rule, blocks, pages};
use runner::{Runner, language_model, working_folder};

/// Its blocks need a database: see `scale.rs`.
const PAGE_TO_SCALE: &str = "docs/scale.md";

/// Blocks that do not run, over all pages. One more needs a reason that holds for it alone: a program or data that no test has, or hours.
const NOT_RUN: usize = 41;

/// The data directory of a gateway that has the sample documents and has stopped.
static SAMPLE: LazyLock<PathBuf> = LazyLock::new(|| {
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sample");
    if data.exists() {
        std::fs::remove_dir_all(&data).unwrap();
    }
    let model = in_repository("models/all-MiniLM-L6-v2");
    let gateway = Gateway::start_in(&data, &[("WEIR_MODEL", model.to_str().unwrap())]);
    let ingested = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["ingest", "samples/xquad/documents", "--url", &gateway.weir.url])
        .current_dir(in_repository(""))
        .output()
        .unwrap();
    assert!(ingested.status.success(), "{}", String::from_utf8_lossy(&ingested.stderr));
    gateway.wait_until_searchable();
    gateway.weir.terminate();
    data
});

fn copy_sample(to: &Path) {
    let copied = Command::new("cp").arg("-a").args([&*SAMPLE, to]).status().unwrap();
    assert!(copied.success());
}

/// A gateway that has just started over a copy of the sample, with a configuration.
fn with_the_sample(folder: &Path, config: &str) -> Gateway {
    let model = in_repository("models/all-MiniLM-L6-v2");
    let data = folder.join("data");
    copy_sample(&data);
    Gateway::start_in(&data, &[("WEIR_MODEL", model.to_str().unwrap()), ("WEIR_CONFIG", config)])
}

fn check(page: &str) {
    let blocks = blocks(page);
    let folder = working_folder();
    let (mock, config) = language_model(folder.path());
    let needs_gateway = blocks.iter().any(|block| block.rule.needs_gateway());
    let gateway = needs_gateway.then(|| with_the_sample(folder.path(), &config));
    let mut runner = Runner::new(folder.path(), gateway.as_ref(), format!("http://{}", mock.addr()));
    for block in &blocks {
        println!("{}", block.place);
        runner.check(block, gateway.as_ref());
        // a reader takes longer to the next example than its documents to be searchable
        if let Some(gateway) = &gateway
            && gateway.send("GET", "/metrics", None).status == 200
        {
            gateway.wait_until_searchable();
        }
    }
}

/// A test for each page, and the list of all pages.
macro_rules! pages {
    ($($test:ident: $page:literal,)*) => {
        const PAGES: &[&str] = &[$($page),*];

        $(
            #[test]
            fn $test() {
                check($page);
            }
        )*
    };
}

pages! {
    examples_of_the_readme_run: "README.md",
    examples_of_the_page_to_get_started_run: "docs/get-started.md",
    examples_of_the_page_about_ingest_run: "docs/ingest.md",
    examples_of_the_page_about_jobs_run: "docs/jobs.md",
    examples_of_the_page_about_documents_run: "docs/documents.md",
    examples_of_the_page_about_search_run: "docs/search.md",
    examples_of_the_page_about_ranking_run: "docs/ranking.md",
    examples_of_the_page_about_relevance_run: "docs/relevance.md",
    examples_of_the_page_about_rerank_run: "docs/rerank.md",
    examples_of_the_page_about_chat_run: "docs/chat.md",
    examples_of_the_page_about_embeddings_run: "docs/embed.md",
    examples_of_the_page_about_clients_run: "docs/clients.md",
    examples_of_the_page_about_langchain_run: "docs/clients/langchain.md",
    examples_of_the_page_about_llamaindex_run: "docs/clients/llamaindex.md",
    examples_of_the_page_about_haystack_run: "docs/clients/haystack.md",
    examples_of_the_page_about_dspy_run: "docs/clients/dspy.md",
    examples_of_the_page_about_ollama_run: "docs/clients/ollama.md",
    examples_of_the_page_about_language_models_run: "docs/llm.md",
    examples_of_the_page_about_costs_run: "docs/costs.md",
    examples_of_the_page_about_python_run: "docs/python.md",
    examples_of_the_page_to_configure_run: "docs/configure.md",
    examples_of_the_page_about_models_run: "docs/models.md",
    examples_of_the_page_to_operate_run: "docs/operate.md",
    examples_of_the_page_about_quality_run: "docs/quality.md",
    examples_of_the_api_page_run: "docs/api.md",
    examples_of_the_page_about_load_run: "docs/bench.md",
    examples_of_the_page_of_settings_run: "docs/configuration.md",
    examples_of_the_page_to_deploy_run: "docs/deploy.md",
    examples_of_the_page_to_plan_run: "docs/plan.md",
    examples_of_the_page_about_qdrant_run: "docs/qdrant.md",
    examples_of_the_page_of_errors_run: "docs/errors.md",
    examples_of_the_page_about_guardrails_run: "docs/guardrails.md",
    examples_of_the_page_about_keys_run: "docs/keys.md",
    examples_of_the_page_about_shared_limits_run: "docs/shared-limits.md",
    examples_of_the_page_about_the_mock_run: "docs/mock.md",
    examples_of_the_page_about_telemetry_run: "docs/telemetry.md",
    examples_of_the_page_about_claude_code_run: "docs/clients/claude-code.md",
    examples_of_the_page_about_codex_run: "docs/clients/codex.md",
    examples_of_the_page_about_open_webui_run: "docs/clients/open-webui.md",
    examples_of_the_page_about_opencode_run: "docs/clients/opencode.md",
    examples_of_the_readme_of_the_python_client_run: "clients/python/README.md",
}

/// The rows of the tables in a page whose first cell is a document in backquotes, with their numbers, table by table.
fn tables(page: &str) -> Vec<Vec<(String, Vec<Option<f64>>)>> {
    let mut tables = Vec::new();
    for line in page.lines() {
        if line.starts_with("|---") {
            tables.push(Vec::new());
            continue;
        }
        let Some(row) = line.strip_prefix("| `") else { continue };
        let mut cells = row.trim_end_matches('|').split('|').map(str::trim);
        let document = cells.next().unwrap().trim_end_matches('`').to_owned();
        let numbers = cells.map(|cell| cell.parse().ok()).collect();
        tables.last_mut().unwrap().push((document, numbers));
    }
    tables
}

#[test]
fn the_numbers_of_the_page_about_ranking_are_those_of_the_gateway() {
    let page = std::fs::read_to_string(in_repository("docs/ranking.md")).unwrap();
    let first = &blocks("docs/ranking.md")[0];
    let model = in_repository("models/all-MiniLM-L6-v2");
    let gateway = Gateway::start_with(&[("WEIR_MODEL", model.to_str().unwrap())]);
    let folder = working_folder();
    Runner::new(folder.path(), Some(&gateway), String::new()).check(first, Some(&gateway));
    let results = |more: &str| {
        let body = format!(
            r#"{{"collection": "ranking-example", "query": "river barrier", "explain": true{more}}}"#
        );
        let reply = gateway.send("POST", "/v1/search", Some(body.as_bytes()));
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()["results"].as_array().unwrap().clone()
    };
    let (smoothed, plain) = (results(""), results(r#", "smoothing": false"#));
    let columns: [(&[serde_json::Value], &[&str]); 3] = [
        (&plain, &["/scores/lexical", "/scores/dense"]),
        (&plain, &["/explanation/lexical", "/explanation/dense", "/score"]),
        (&smoothed, &["/explanation/lexical", "/explanation/dense", "/explanation/neighbours", "/score"]),
    ];
    let tables = tables(&page);
    for (table, (results, pointers)) in tables.iter().zip(columns) {
        assert_eq!(table.len(), 5, "{table:?}");
        for (document, printed) in table {
            let result = results.iter().find(|result| result["id"] == document.as_str()).unwrap();
            for (printed, pointer) in printed.iter().zip(pointers) {
                let seen = result.pointer(pointer).unwrap().as_f64();
                let is_near = match (printed, seen) {
                    (Some(printed), Some(seen)) => (printed - seen).abs() < 0.011,
                    (None, None) => true,
                    _ => false,
                };
                assert!(is_near, "{document} {pointer}: {printed:?} on the page, {seen:?} by the gateway");
            }
        }
    }
    assert_eq!(tables.len(), 4, "three tables with numbers, and that of what can be changed");
}

#[test]
fn every_page_with_examples_is_listed() {
    for page in pages() {
        let is_read = |block: &blocks::Block| !matches!(block.rule, Rule::NotRun(_));
        let count = blocks(&page).iter().filter(|block| is_read(block)).count();
        let has_test = page == PAGE_TO_SCALE || PAGES.contains(&page.as_str());
        assert_eq!(has_test, count > 0, "{page}: {count} examples");
    }
}

#[test]
fn no_further_block_is_left_out() {
    let mut left_out = Vec::new();
    for block in pages().iter().flat_map(|page| blocks(page)) {
        if let Rule::NotRun(reason) = &block.rule {
            left_out.push(format!("{}: {reason}", block.place));
        }
    }
    assert_eq!(left_out.len(), NOT_RUN, "{left_out:#?}");
}
