//! `docs/configuration.md`, made from the table. `UPDATE_DOCS=1` rewrites it.

use std::path::Path;

use crate::models::FIELDS;
use crate::table::{Config, SECTIONS, SETTINGS};

const INTRO: &str = "\
# Configuration

Made from the table in `crates/config/src/table.rs` (`UPDATE_DOCS=1 cargo test -p weir-config` rewrites this page).

The gateway runs without any configuration. What you set is put together in this order; later wins:

1. the defaults below,
2. one TOML file: `--config FILE`, or the variable `WEIR_CONFIG`,
3. environment variables: `limits.top_k_max` is `WEIR_LIMITS_TOP_K_MAX`; an empty variable counts as absent,
4. flags of the command line.

A name that doesn't exist is an error, in the file and in the environment, and so is a value of the wrong type; all problems are
reported at once, by line. What only several values together make wrong is among them when each is right by itself and none is a default
that a misspelt name may have been meant for.
`weir config check` tells whether the values are good (not whether the address is free or the folder writable), and
`weir config show` prints every value in force with where it came from, as a file that can be used.
Relative paths start at the folder in which `weir` is started.

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

The models, one table each; the first that embeds is the default. `--model DIR` or `WEIR_MODEL=DIR` puts the model in that folder first, under the
folder's name; `--model pseudo` puts a pseudo embedder there. Without any model that embeds, the folder `models/all-MiniLM-L6-v2` is used when it exists.

| field | type | default | meaning |
|---|---|---|---|
";

const OTHERS: &str = "
## Other variables

| variable | meaning |
|---|---|
| `WEIR_CONFIG` | The configuration file, when there is no `--config`. |
| `WEIR_MODEL` | The default model: a folder, or `pseudo`. |
| `WEIR_ISA` | Forces the instruction set of the kernels (`scalar`, `avx2`, …); for tests and measurements. |
| `NO_COLOR` | When set, nothing is printed bold or coloured. |
";

fn render() -> String {
    let defaults = Config::default();
    let mut page = INTRO.to_owned();
    for (section, about) in SECTIONS {
        page.push_str(&format!("## `[{section}]`\n\n{}\n\n", about.trim()));
        page.push_str("| setting | variable | default | unit | meaning |\n|---|---|---|---|---|\n");
        for setting in SETTINGS.iter().filter(|setting| setting.name.split('.').next() == Some(*section)) {
            let short = setting.short_variable.map(|name| format!("`{name}` or ")).unwrap_or_default();
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
    page.push_str(OTHERS);
    page
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a switch of the test, no setting of the gateway")]
fn the_page_of_settings_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let page = render();
    if std::env::var("UPDATE_DOCS").is_ok() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/configuration.md is not fresh; run `UPDATE_DOCS=1 cargo test -p weir-config`"
    );
}
