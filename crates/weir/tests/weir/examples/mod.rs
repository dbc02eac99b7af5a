//! The examples of the pages are executed in order, each page against its own gateway over a copy of a folder with the sample documents, with a
//! mock of a language model.
//!
//! Blocks marked `sh`, `python` and `py` run and must succeed; a reply with an error status is a failure. `py` has the clients of other makers, `py older` those
//! releases that one of them needs. Blocks marked `toml` must be a valid configuration. Commands that build, measure or serve are marked `console` and do not run here.

#![allow(clippy::print_stdout, reason = "names the example that runs")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::support::gateway::{Gateway, in_repository};
use clap::Parser as _;
use weir_mock::{MockServer, Settings};

/// Before every `sh` block: a reply with an error status fails the block.
const PRELUDE: &str = "set -euo pipefail\ncurl() { command curl --fail-with-body \"$@\"; }\n";

/// Settings by which clients of other makers call nothing but the gateway.
const OFFLINE: [(&str, &str); 1] = [("HAYSTACK_TELEMETRY_ENABLED", "false")];

/// A fenced block of a page.
struct Example {
    language: String,
    /// The line of its first fence, from 1.
    line: usize,
    text: String,
}

fn examples(page: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut is_open = false;
    for (index, line) in page.lines().enumerate() {
        match line.trim_start().strip_prefix("```") {
            Some(_) if is_open => is_open = false,
            Some(language) => {
                is_open = true;
                found.push(Example { language: language.to_owned(), line: index + 1, text: String::new() });
            }
            None if is_open => {
                let example = found.last_mut().unwrap();
                example.text.push_str(line);
                example.text.push('\n');
            }
            None => {}
        }
    }
    found
}

/// A mock of language models that cites its sources, and the configuration in which it is the model `assistant` and the providers that pages name,
/// beside the reranker `ms-marco`, a tiny random model.
fn language_model(folder: &Path) -> (MockServer, String) {
    let mock = MockServer::start(Settings::parse_from(["weir-mock", "--echo", "cite"])).unwrap();
    let upstream = |id: &str, provider: &str| {
        let path = if provider == "anthropic" { "" } else { "/v1" };
        format!(
            "[[upstreams]]\nid = \"{id}\"\nprovider = \"{provider}\"\nurl = \"http://{}{path}\"\n",
            mock.addr()
        )
    };
    let tables = [
        upstream("local", "openai"),
        upstream("openai", "openai"),
        upstream("claude", "anthropic"),
        "[[routes]]\nmodel = \"assistant\"\ntargets = [{ upstream = \"local\" }]\n".to_owned(),
        format!(
            "[[models]]\nid = \"ms-marco\"\nfolder = {:?}\n",
            in_repository("fixtures/tiny/bert-classifier")
        ),
    ]
    .concat();
    let file = folder.join("gateway.toml");
    std::fs::write(&file, tables).unwrap();
    (mock, file.display().to_string())
}

/// A folder in which the examples run: `weir` and `python` are on its path, its home has a folder `notes`.
fn working_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(path("bin")).unwrap();
    std::fs::create_dir_all(path("notes")).unwrap();
    std::fs::write(path("notes/weirs.md"), "# Weirs\n\nA weir is a low dam across a river.\n").unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_weir"), path("bin/weir")).unwrap();
    std::os::unix::fs::symlink(in_repository("samples"), path("samples")).unwrap();
    folder
}

/// The data directory of a gateway that has the sample documents and has stopped.
static SAMPLE: LazyLock<PathBuf> = LazyLock::new(|| {
    let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sample");
    if data.exists() {
        std::fs::remove_dir_all(&data).unwrap();
    }
    let model = in_repository("models/all-MiniLM-L6-v2");
    let gateway = Gateway::start_in(&data, &[("WEIR_MODEL", model.to_str().unwrap())]);
    run("sh", "weir ingest samples/xquad/documents", working_folder().path(), &gateway.weir.url);
    gateway.wait_until_searchable();
    gateway.weir.terminate();
    data
});

fn check(page: &str) {
    let model = in_repository("models/all-MiniLM-L6-v2");
    let folder = working_folder();
    let (_mock, config) = language_model(folder.path());
    let data = folder.path().join("data");
    let copied = Command::new("cp").arg("-a").args([&*SAMPLE, &data]).status().unwrap();
    assert!(copied.success());
    let gateway =
        Gateway::start_in(&data, &[("WEIR_MODEL", model.to_str().unwrap()), ("WEIR_CONFIG", &config)]);
    let url = &gateway.weir.url;
    let text = std::fs::read_to_string(in_repository(page)).unwrap();
    let mut count = 0;
    for Example { language, line, text } in examples(&text) {
        let place = format!("{page}:{line}");
        match language.as_str() {
            "sh" | "python" | "py" | "py older" => {
                count += 1;
                println!("{place}");
                run(&language, &text, folder.path(), url);
                // a reader takes longer to the next example than its documents to be searchable
                gateway.wait_until_searchable();
            }
            "toml" => {
                std::fs::write(folder.path().join("weir.toml"), text).unwrap();
                run("sh", "weir config show --config weir.toml", folder.path(), url);
            }
            _ => {}
        }
    }
    assert!(count > 0, "{page} has no example");
}

/// Runs one block; panics with what it printed when it fails.
fn run(language: &str, text: &str, folder: &Path, url: &str) {
    let text = text.replace("http://127.0.0.1:8000", url).replace("target/release/weir", "weir");
    let mut command = match language {
        "sh" => {
            let mut command = Command::new("bash");
            command.args(["-c", &format!("{PRELUDE}{text}")]);
            command
        }
        "python" => {
            let mut command = Command::new(in_repository(".venv/bin/python"));
            command.args(["-c", &text]);
            command
        }
        _ => {
            let mut command = Command::new(in_repository(".cache/clients/venv/bin/python"));
            command.args(["-c", &text]).envs(OFFLINE);
            if language == "py older" {
                command.env("PYTHONPATH", in_repository(".cache/clients/older"));
            }
            command
        }
    };
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.join("bin").display());
    let output = command
        .current_dir(folder)
        .env("PATH", path)
        .env("HOME", folder)
        .env("WEIR_URL", url)
        .output()
        .unwrap();
    let printed = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&printed));
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
    examples_of_the_page_about_python_run: "docs/python.md",
    examples_of_the_page_to_configure_run: "docs/configure.md",
    examples_of_the_page_about_models_run: "docs/models.md",
    examples_of_the_page_to_operate_run: "docs/operate.md",
    examples_of_the_page_about_quality_run: "docs/quality.md",
    examples_of_the_api_page_run: "docs/api.md",
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
    let model = in_repository("models/all-MiniLM-L6-v2");
    let gateway = Gateway::start_with(&[("WEIR_MODEL", model.to_str().unwrap())]);
    let folder = working_folder();
    run("sh", &examples(&page)[0].text, folder.path(), &gateway.weir.url);
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

/// Pages whose examples need a program that is not installed here: their configurations of both sides are read.
#[test]
fn configurations_of_the_pages_about_other_programs_are_valid() {
    let folder = working_folder();
    for name in ["claude-code", "codex", "opencode", "open-webui"] {
        let page = format!("docs/clients/{name}.md");
        let text = std::fs::read_to_string(in_repository(&page)).unwrap();
        let mut count = 0;
        for Example { language, line, text } in examples(&text) {
            match language.as_str() {
                "toml" => {
                    count += 1;
                    std::fs::write(folder.path().join("weir.toml"), text).unwrap();
                    run("sh", "weir config show --config weir.toml", folder.path(), "http://127.0.0.1:9");
                }
                "json" => {
                    let value: Result<serde_json::Value, _> = serde_json::from_str(&text);
                    assert!(value.is_ok(), "{page}:{line}: {value:?}");
                }
                _ => {}
            }
        }
        assert!(count > 0, "{page} has no configuration of the gateway");
    }
}

#[test]
fn every_page_with_examples_is_listed() {
    let is_run = |example: &Example| matches!(example.language.as_str(), "sh" | "python" | "py" | "py older");
    let docs = in_repository("docs");
    for entry in walkdir::WalkDir::new(&docs) {
        let entry = entry.unwrap();
        let path = entry.path();
        let page = format!("docs/{}", path.strip_prefix(&docs).unwrap().display());
        if path.extension().is_some_and(|extension| extension == "md") && !PAGES.contains(&page.as_str()) {
            let text = std::fs::read_to_string(path).unwrap();
            let lines: Vec<usize> = examples(&text)
                .iter()
                .filter(|example| is_run(example))
                .map(|example| example.line)
                .collect();
            assert!(
                lines.is_empty(),
                "{page}: the examples of lines {lines:?} are not run; list the page, or mark them `console`"
            );
        }
    }
}
