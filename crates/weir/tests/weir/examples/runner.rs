//! Runs the blocks of a page in order, as one reader would, in a folder and with a shell of its own.

use std::path::Path;
use std::process::{Command, Output};

use clap::Parser as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use weir_mock::{MockServer, Settings};

use super::blocks::{Block, Language, Rule};
use crate::support::gateway::{Gateway, in_repository};

/// Before every `sh` block: a reply with an error status fails the block, and what earlier blocks have exported holds.
const PRELUDE: &str = "set -euo pipefail\n[ ! -f .exported ] || . ./.exported\ncurl() { command curl --fail-with-body \"$@\"; }\n";
/// Behind it.
const EPILOGUE: &str = "\nexport -p > .exported\n";

/// Programs as the blocks call them, in front of the real ones. A server that they start listens on a free port, and stops as soon as it serves;
/// loads are small.
const PROGRAMS: [(&str, &str); 4] = [
    (
        "weir",
        r#"[ "${1:-}" = serve ] && [ -z "${EXAMPLE_SERVES:-}" ] || exec "$EXAMPLE_BINARIES/weir" "$@"
export WEIR_SERVER_LISTEN=127.0.0.1:0
unset WEIR_URL
"$(dirname "$0")/served" "$EXAMPLE_BINARIES/weir" "$@"
"#,
    ),
    ("weir-mock", "\"$(dirname \"$0\")/served\" \"$EXAMPLE_BINARIES/weir-mock\" \"$@\"\n"),
    (
        "served",
        r#"arguments=() before=
for argument; do
  [ "$before" != --listen ] || argument="${argument%:*}:0"
  before=$argument arguments+=("$argument")
done
log=$(mktemp -p .)
"${arguments[@]}" > "$log" 2>&1 &
until grep -q '"address"' "$log"; do
  kill -0 $! 2> /dev/null || { cat "$log" >&2; exit 1; }
  sleep 0.1
done
kill -TERM $!
wait $!
"#,
    ),
    (
        "weir-bench",
        r#"arguments=() before=
for argument; do
  case $before in
    --requests | --warmup | --rate) argument=20 ;;
    --concurrency) argument=4 ;;
    --duration) argument=500ms ;;
  esac
  before=$argument arguments+=("$argument")
done
[ "$1" != ceiling ] || arguments+=(--duration 100ms)
exec "$EXAMPLE_BINARIES/weir-bench" "${arguments[@]}"
"#,
    ),
];

/// Settings by which clients of other makers call nothing but the gateway, and the keys and the address that configurations name.
const VARIABLES: [(&str, &str); 8] = [
    ("HAYSTACK_TELEMETRY_ENABLED", "false"),
    ("OPENAI_API_KEY", "unused"),
    ("STORE_URL", "postgresql://unused"),
    ("ANTHROPIC_API_KEY", "unused"),
    ("AZURE_API_KEY", "unused"),
    ("COHERE_API_KEY", "unused"),
    ("REDIS_URL", "redis://127.0.0.1:6379"),
    ("QDRANT_API_KEY", "unused"),
];

/// What a filter of a page may name.
const FILTERED: &str = r#"{"collection": "filtered", "documents": [{"id": "a", "text": "a weir", "metadata": {"year": 2020, "lang": "en", "author": {"name": "Ada"}}}]}"#;

/// Where the blocks of a page run. `make test` has built the programs beside the binary.
pub(crate) struct Runner<'a> {
    folder: &'a Path,
    url: &'a str,
    mock: String,
    /// The id of the gateway's process.
    process: String,
    /// What is written in blocks in place of a port or an address of the page.
    replaced: Vec<(&'static str, String)>,
    /// Variables of blocks beside those of all pages.
    variables: Vec<(&'static str, String)>,
    /// What the last block has printed.
    printed: String,
}

impl<'a> Runner<'a> {
    /// `gateway`: that of the page, if its blocks need one; `mock`: the URL of the mock of language models.
    pub(crate) fn new(folder: &'a Path, gateway: Option<&'a Gateway>, mock: String) -> Runner<'a> {
        let process = gateway.map_or_else(String::new, |gateway| gateway.weir.id().to_string());
        let url = gateway.map_or("http://127.0.0.1:9", |gateway| &gateway.weir.url);
        Runner {
            folder,
            url,
            mock,
            process,
            replaced: Vec::new(),
            variables: Vec::new(),
            printed: String::new(),
        }
    }

    /// The same on a page whose blocks start servers that go on: `replaced` are their ports, `variables` what they need.
    pub(crate) fn with_servers(
        mut self,
        replaced: Vec<(&'static str, String)>,
        variables: Vec<(&'static str, String)>,
    ) -> Runner<'a> {
        self.replaced = replaced;
        self.variables = variables;
        self.variables.push(("EXAMPLE_SERVES", "yes".to_owned()));
        self
    }

    /// Does with a block what its rule says; panics with what it printed when that fails.
    pub(crate) fn check(&mut self, block: &Block, gateway: Option<&Gateway>) {
        let Block { rule, place, text } = block;
        match rule {
            Rule::Run(language) => {
                let output = self.run(*language, text);
                self.printed =
                    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
                assert!(output.status.success(), "{place}\n{text}\n{}", self.printed);
            }
            Rule::Fail => {
                let output = self.run(Language::Shell, text);
                self.printed =
                    [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
                assert!(!output.status.success(), "{place}\n{text}\n{}", self.printed);
            }
            Rule::Configuration => {
                std::fs::write(self.folder.join("weir.toml"), text).unwrap();
                let output = self.run(Language::Shell, "weir config show --config weir.toml");
                assert!(output.status.success(), "{place}\n{}", String::from_utf8_lossy(&output.stderr));
            }
            Rule::Filter => {
                let filter: Value =
                    serde_json::from_str(text).unwrap_or_else(|error| panic!("{place}: {error}"));
                let gateway = gateway.unwrap();
                let stored = gateway.send("POST", "/v1/ingest?wait=true", Some(FILTERED.as_bytes()));
                assert_eq!(stored.status, 202, "{}", stored.text);
                let body = json!({"query": "a weir", "collection": "filtered", "filter": filter}).to_string();
                let reply = gateway.send("POST", "/v1/search", Some(body.as_bytes()));
                assert_eq!(
                    (reply.status, &reply.json()["results"][0]["id"]),
                    (200, &json!("a")),
                    "{place}: {}",
                    reply.text
                );
            }
            Rule::JsonOutput => {
                let expected: Value =
                    serde_json::from_str(text).unwrap_or_else(|error| panic!("{place}: {error}"));
                let printed = json_in(&self.printed);
                assert!(is_in(&printed, &expected), "{place}: printed was {printed:#}");
            }
            Rule::TextOutput => {
                assert!(matches(&self.printed, text), "{place}: printed was\n{}", self.printed)
            }
            Rule::NotRun(_) => {}
        }
    }

    fn run(&self, language: Language, text: &str) -> Output {
        let replaced = self.replaced.iter();
        let text = replaced.fold(text.to_owned(), |text, (shown, used)| text.replace(shown, used));
        let text = text
            .replace("http://127.0.0.1:8000", self.url)
            // an embedder: the gateway has an embedding model
            .replace("http://127.0.0.1:8001", self.url)
            .replace("http://127.0.0.1:9000", &self.mock)
            .replace("target/release/weir", "weir")
            .replace("weir-data/store.sqlite3", "data/store.sqlite3")
            .replace("$(pidof weir)", &self.process);
        let mut command = match language {
            Language::Shell => {
                let mut command = Command::new("bash");
                command.args(["-c", &format!("{PRELUDE}{text}{EPILOGUE}")]);
                command
            }
            Language::Python => {
                let mut command = Command::new(in_repository(".venv/bin/python"));
                command.args(["-c", &text]);
                command
            }
            Language::JavaScript => {
                // beside it are the packages that it imports
                std::fs::write(self.folder.join("example.mjs"), &text).unwrap();
                let mut command = Command::new("node");
                command.arg("example.mjs");
                command
            }
            Language::PythonWithClients | Language::PythonWithOlderClients => {
                let mut command = Command::new(in_repository(".cache/clients/venv/bin/python"));
                command.args(["-c", &text]);
                if language == Language::PythonWithOlderClients {
                    command.env("PYTHONPATH", in_repository(".cache/clients/older"));
                }
                command
            }
        };
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.folder.join("bin").display());
        command
            .current_dir(self.folder)
            .env("PATH", path)
            .env("HOME", self.folder)
            .env("WEIR_URL", self.url)
            .env("EXAMPLE_BINARIES", Path::new(env!("CARGO_BIN_EXE_weir")).parent().unwrap())
            .envs(VARIABLES)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .unwrap()
    }
}

/// The JSON in what was printed: the whole, or the first line of it.
fn json_in(printed: &str) -> Value {
    let whole = serde_json::from_str(printed);
    let start = printed.find(['{', '[']).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_str(&printed[start..]).into_iter::<Value>();
    whole.ok().or_else(|| values.next()?.ok()).unwrap_or_else(|| panic!("no JSON was printed:\n{printed}"))
}

/// Whether a value in `printed` contains `expected`.
fn is_in(printed: &Value, expected: &Value) -> bool {
    let is_within = match printed {
        Value::Object(fields) => fields.values().any(|field| is_in(field, expected)),
        Value::Array(items) => items.iter().any(|item| is_in(item, expected)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    is_within || contains(printed, expected)
}

/// Whether `printed` has the fields of `expected`. Numbers may differ by what a page rounds, `…` in a text stands for anything, a list may go on.
fn contains(printed: &Value, expected: &Value) -> bool {
    match (printed, expected) {
        (Value::Object(printed), Value::Object(expected)) => expected
            .iter()
            .all(|(name, expected)| printed.get(name).is_some_and(|printed| contains(printed, expected))),
        (Value::Array(printed), Value::Array(expected)) => {
            printed.len() >= expected.len()
                && printed.iter().zip(expected).all(|(printed, expected)| contains(printed, expected))
        }
        (Value::Number(printed), Value::Number(expected)) => {
            (printed.as_f64().unwrap() - expected.as_f64().unwrap()).abs() < 0.0051
        }
        (Value::String(printed), Value::String(expected)) => matches(printed, expected),
        _ => printed == expected,
    }
}

/// Whether `printed` contains `expected`, in which `…` stands for anything and white space for other white space.
fn matches(printed: &str, expected: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let printed = words(printed);
    let mut rest = printed.as_str();
    expected.split('…').map(words).all(|piece| match rest.find(&piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

/// A mock of language models that cites its sources, and the configuration in which it is the model `assistant` and the providers that pages name,
/// beside the reranker `ms-marco`, a tiny random model.
pub(crate) fn language_model(folder: &Path) -> (MockServer, String) {
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
        "[[routes]]\nmodel = \"assistant\"\ntargets = [{ upstream = \"local\" }, { upstream = \"claude\", priority = 1 }]\n".to_owned(),
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

/// A folder in which the examples run: `weir` is on its path, its home has a folder `notes`, and it has the samples and models of the repository.
pub(crate) fn working_folder() -> TempDir {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(path("bin")).unwrap();
    std::fs::create_dir_all(path("notes")).unwrap();
    std::fs::write(path("notes/weirs.md"), "# Weirs\n\nA weir is a low dam across a river.\n").unwrap();
    std::fs::write(path("queries.jsonl"), "{\"query\": \"who wrote the first law\"}\n").unwrap();
    for (name, script) in PROGRAMS {
        let program = path("bin").join(name);
        std::fs::write(&program, format!("#!/bin/bash\nset -euo pipefail\n{script}")).unwrap();
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    symlink(in_repository(".cache/clients/node_modules"), path("node_modules")).unwrap();
    for name in ["samples", "models", "fixtures"] {
        symlink(in_repository(name), path(name)).unwrap();
    }
    folder
}
