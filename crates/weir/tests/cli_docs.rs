//! `docs/cli.md` shows every help text; this keeps it fresh. `UPDATE_DOCS=1` rewrites it.

use std::path::Path;

use clap::{Command, CommandFactory};
use weir::cli::Arguments;

const INTRO: &str = "\
# The command line

Made from the help texts of the binary (`UPDATE_DOCS=1 cargo test -p weir --test cli_docs` rewrites this page).

One binary, `weir`. `weir serve` runs the gateway; `ingest`, `search`, `jobs` and `eval` talk to a running one over HTTP.

```sh
weir serve                                    # 127.0.0.1:8000, data in ./weir-data, model in models/all-MiniLM-L6-v2
weir ingest docs/ notes.jsonl                 # folders and files
weir search \"how do I rotate the keys\" --top-k 3
weir jobs
weir eval sets/scifact --min-ndcg 0.7         # how well it searches: quality.md
```

**Exit codes**: 0 done, 1 failed, 2 wrong usage, 3 `weir eval` measured and found it below what was asked for, 130 interrupted. Errors go to the error stream as `error: …` with `hint: …` lines
that say what to do. `--json` prints JSON on the output and nothing else.

## What `weir ingest` sends

| file | id | title | text |
|---|---|---|---|
| `.txt` | path below the given folder, with forward slashes | file name without ending | the file |
| `.md` | the same | first heading, or the file name | the file |
| `.html`, `.htm` | the same | `<title>`, or the first `<h1>`, or the file name | what a browser shows, without navigation: the text of `<main>`, or of the only `<article>`, or of the body; code as it is, cells of tables separated by tabs |
| `.jsonl` | the line's `id` or `_id`, or `path#line` | the line's `title` | the line's `text`; one document per line |

The metadata of a document has its `path`; a `.jsonl` line adds its `metadata` and its other fields. Hidden files and folders are left
out, links are not followed, empty files and files of other kinds are counted at the end. What can't be read (a missing file, invalid
UTF-8, a bad line) or is refused by the gateway is named at the end, and the exit code is 1; everything else goes in.

**To continue after an interruption, run the same command again.** The gateway recognises a document whose content didn't change and
leaves it as it is, without embedding it again; so a repeated run costs little more than reading the files. While the gateway is busy
(503 or 429) the command waits as long as the gateway asks for, up to ten minutes; while it can't be reached, about fifteen seconds.

The id of a document from a folder is its path below the folder that was named: `weir ingest notes/sub` after `weir ingest notes` stores the same
files again under other ids. What was removed from the folder stays in the collection until `DELETE /v1/collections/{name}/documents/{id}`.

";

fn render() -> String {
    let mut page = INTRO.to_owned();
    let mut root = Arguments::command().term_width(100);
    root.build();
    render_command(&root, &mut page);
    page
}

fn render_command(command: &Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or("weir");
    let help = command.clone().term_width(100).render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    page.push_str(&format!("## `{name}`\n\n```text\n{}\n```\n\n", lines.join("\n").trim_end()));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        render_command(inner, page);
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a switch of the test, no setting of the gateway")]
fn the_page_of_commands_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = format!("{}\n", render().trim_end());
    if std::env::var("UPDATE_DOCS").is_ok() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/cli.md is not fresh; run `UPDATE_DOCS=1 cargo test -p weir --test cli_docs`"
    );
}
