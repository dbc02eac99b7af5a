//! `docs/configuration.md` is generated from the table. `UPDATE_DOCS=1` rewrites it.

use std::path::Path;

use crate::llm::LLM_FIELDS;
use crate::models::FIELDS;
use crate::table::{Config, SECTIONS, SETTINGS};

const INTRO: &str = "\
# Configuration

Generated from the table in `crates/config/src/table.rs` (`UPDATE_DOCS=1 cargo test -p weir-config` rewrites this page).

The gateway runs without any configuration. Values are merged in this order; later ones win:

1. the defaults below,
2. one TOML file: `--config FILE`, or the variable `WEIR_CONFIG`,
3. environment variables: `limits.top_k_max` is `WEIR_LIMITS_TOP_K_MAX`; an empty variable counts as absent,
4. command-line flags.

An unknown name, in the file or in the environment, is an error, and so is a value of the wrong type. The variables that Kubernetes sets for a service
`weir` (`WEIR_SERVICE_HOST`, `WEIR_SERVICE_PORT`, `WEIR_PORT=tcp://HOST:PORT`, `WEIR_PORT_8000_TCP`, …) are ignored. All errors of names and types are reported at once, with
their line, then those of `[[upstreams]]`, `[[routes]]` and other tables. Contradictions are reported once all names and types are valid.
`weir config check` validates the configuration (but not whether the address is free or the folder writable). `weir config show` prints every
value in force and its source, as a valid configuration file.
Relative paths are resolved from the working directory of `weir`.

```toml
[server]
listen = \"127.0.0.1:9000\"

[limits]
top_k_max = 100

[[models]]
id = \"minilm\"
alias = [\"text-embedding-3-small\"]
folder = \"models/all-MiniLM-L6-v2\"
```

";

const MODELS: &str = "\
## `[[models]]`

The models, one table each; the first embedding model is the default. `--model DIR` or `WEIR_MODEL=DIR` puts the model in that folder first, under the
folder's name; `--model pseudo` puts the pseudo model first. Without any embedding model, the folder `models/all-MiniLM-L6-v2` is used if it exists.

| field | type | default | meaning |
|---|---|---|---|
";

const LLM: [(&str, &str); 4] = [
    (
        "upstreams",
        "The servers that answer chat requests ([docs/llm.md](llm.md)). These four tables are read again when the file changes, and at SIGHUP; a file with an error is refused whole, and the gateway goes on with what it has.",
    ),
    (
        "routes",
        "What the names of models lead to. Without a route, the only upstream takes all names, and `ID/NAME` leads to the upstream `ID`.",
    ),
    ("prices", "What tokens cost, for budgets and usage."),
    ("guardrails", "What prompts and answers must not contain ([docs/guardrails.md](guardrails.md))."),
];

const OTHERS: &str = "
## Other variables

| variable | meaning |
|---|---|
| `WEIR_CONFIG` | The configuration file, without `--config`. |
| `WEIR_MODEL` | The default model: a folder, or `pseudo`. |
| `WEIR_ISA` | Forces the instruction set of the kernels (`scalar`, `avx2`, …), for tests and benchmarks. |
| `NO_COLOR` | Disables bold and coloured output. |
";

fn render() -> String {
    let defaults = Config::default();
    let mut page = INTRO.to_owned();
    for (section, about) in SECTIONS {
        page.push_str(&format!("## `[{section}]`\n\n{}\n\n", about.trim()));
        page.push_str("| setting | variable | default | unit | meaning |\n|---|---|---|---|---|\n");
        for setting in SETTINGS.iter().filter(|setting| setting.name.split('.').next() == Some(*section)) {
            let short = setting.short_variable().map(|name| format!("`{name}` or ")).unwrap_or_default();
            page.push_str(&format!(
                "| `{}` | {short}`{}` | `{}` | {} | {} |\n",
                setting.name,
                setting.variable(),
                setting.value(&defaults),
                setting.unit,
                setting.doc.trim()
            ));
        }
        page.push('\n');
    }
    page.push_str(MODELS);
    for (name, kind, default, meaning) in FIELDS {
        page.push_str(&format!("| `{name}` | {kind} | {default} | {meaning} |\n"));
    }
    for (table, about) in LLM {
        page.push_str(&format!(
            "\n## `[[{table}]]`\n\n{about}\n\n| field | type | default | meaning |\n|---|---|---|---|\n"
        ));
        for (_, name, kind, default, meaning) in LLM_FIELDS.iter().filter(|(of, ..)| *of == table) {
            page.push_str(&format!("| `{name}` | {kind} | {default} | {meaning} |\n"));
        }
    }
    page.push_str(OTHERS);
    page
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a switch of the test, not a setting of the gateway")]
fn the_configuration_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = render();
    if std::env::var("UPDATE_DOCS").is_ok() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/configuration.md is out of date; run `UPDATE_DOCS=1 cargo test -p weir-config`"
    );
}

#[test]
fn every_field_of_the_llm_gateway_is_documented() {
    let fields = |table: &str| -> Vec<String> {
        let unknown = format!("[[{table}]]\nunknown = 1\n");
        let found = crate::file::read(Path::new("weir.toml"), &unknown);
        let hint = found.problems[0].hint.as_deref().unwrap();
        let (_, accepted) = hint.split_once("accepted: ").unwrap();
        accepted.trim_end_matches(')').split(", ").map(str::to_owned).collect()
    };
    for (table, _) in LLM {
        let documented = LLM_FIELDS.iter().filter(|(of, name, ..)| *of == table && !name.contains('.'));
        assert_eq!(fields(table), documented.map(|(_, name, ..)| (*name).to_owned()).collect::<Vec<_>>());
    }
}
