//! `docs/cli.md` shows every help text; this keeps it fresh. `UPDATE_DOCS=1` rewrites it.

use std::path::Path;

use clap::{Command, CommandFactory};
use weir_cli::cli::Arguments;

const INTRO: &str = "\
# The command line

Made from the help texts of the binary (`UPDATE_DOCS=1 cargo test -p weir --test weir cli_docs` rewrites this page).

One binary, `weir`. `weir serve` runs the gateway; `ingest`, `sync`, `watch`, `delete`, `collections`, `move`, `search`, `chat`, `jobs`, `eval` and `selftest` call a running one over HTTP.

```console not run: the pages of these commands run them
weir serve                                    # 127.0.0.1:8000, data in ./weir-data, model in models/all-MiniLM-L6-v2
weir ingest docs/ notes.jsonl                 # folders and files
weir sync docs/ --dry-run                     # the same, and delete the documents whose files are gone
weir watch docs/                              # the same, for as long as it runs
weir collections                              # names, counts, models
weir delete old.md --collection default       # or --filter, or --all
weir search \"how do I rotate the keys\" --top-k 3
weir chat \"what does rotating a key do\" --collection default   # the answer of a language model, with citations: chat.md
weir move notes --to qdrant                   # the engine of a collection: qdrant.md
weir jobs
weir eval sets/scifact --min-ndcg 0.7         # how well it searches: quality.md
weir selftest --dialect openai,tei            # whether it replies as these APIs promise: operate.md
```

**Exit codes**: 0 done, 1 failed or incomplete (some documents were rejected, or replaced by others with their id; `weir selftest` found deviations; `weir move` moved back), 2 wrong usage, 3 `weir eval` measured and found it below what was asked for, 130 interrupted. Errors go to the error stream as `error: …` with `hint: …` lines
that say what to do. `--json` prints JSON on the output and nothing else.

## What `weir ingest` sends

| file | documents | title |
|---|---|---|
| `.txt`, `.log`, `.yaml`, `.yml`; files without an ending that begin with text, such as `README`, and usual names of texts with any ending, such as `README.Debian` | the file | file name without ending |
| `.md`, `.markdown` | the file without its front matter (YAML between lines of `---`, or TOML between `+++`), whose fields are metadata: `tags`, `author`, `date` | `title` of the front matter, or the first heading without its markup, or the file name |
| `.rst`, `.adoc`, `.asciidoc`, `.org` | the file | first heading without its markup, or the file name |
| source code and its configuration: `.py`, `.rs`, `.go`, `.ts`, `.java`, `.c`, `.sql`, `.toml`, `.ini` and some 70 more, if they begin with text | the file | the path |
| `.ipynb` | the cells, without outputs | the path |
| `.html`, `.htm`, `.xhtml` | what a browser shows, without navigation: the text of each `<main>`, or of the only `<article>`, or of the body, with the prose of headers and footers | `<title>`, or the first `<h1>`, or the file name |
| `.jsonl`, `.ndjson` | one per line: an object with `text` | the line's `title` |
| `.json` | an object with `text`, or a list of them; any other JSON is sent as text | `title`; of text, the file name |
| `.csv`, `.tsv` with a column `text` | one per row; columns other than `text`, `title`, `id` are metadata | the column `title` |
| `.csv`, `.tsv` without one | one per row, as lines `column: cell` | the file name |
| `.pdf`, `.docx`, `.pptx`, `.xlsx`, `.odt`, `.odp`, `.ods`, `.epub`, `.rtf`, `.eml`, `.mbox` | the file, of which the [gateway](documents.md) extracts the text; attachments of messages are documents too | the title that the file declares, or the file name |

All but the last can be compressed (`.txt.gz`). Files of other kinds are left out and counted by kind at the end.

**Tables**: the separator is a comma, a semicolon, a tab or a bar, whichever the header and the first rows agree on, or what a first line such as `sep=;`
says. A table that stays one column is said. A column is of numbers if all of its cells are numbers (`7`, `19.90`; not `007` or `1e3`), unless its name has `version` or `release` in it;
else all of its cells are texts. Empty cells are left out.

**Encodings**: UTF-8, with or without a byte order mark, and UTF-16. The encoding that a page declares (`<meta charset>`, `<?xml encoding?>`), or a comment in the first
two lines (`coding: latin-1`), is honoured. Other texts that are not UTF-8 are read as Latin-1 (Windows-1252) if they can be nothing else; where that is not certain, the file is refused and the
message has the command that converts it. JSON Lines are UTF-8 or UTF-16.

**The id** of a document is the path of its file below the folder that was named, with forward slashes. Documents of lines, rows and lists
have the `id` (or `_id`) that they bring, or the path with the number of their line (`notes.jsonl#3`); in a list of a `.json` file,
the number is the position. `weir ingest notes/sub` after `weir ingest notes` stores the same files again under other ids; `--prefix sub/ --replace`
gives them the ids of before.

**Two folders in one collection** need a prefix each if they have files with equal paths: `weir ingest repoA --prefix repoA/`, `weir ingest repoB --prefix repoB/`. `--prefix` precedes all ids, also
those that lines, rows and objects bring. Without it, a document of the second folder does not replace one of the first: it fails with `document_conflict`, the other folder's document stays, and
the exit code is 1. `--replace` replaces it. Folders are compared by their names, so that a folder can be moved, and sent from several machines. A file that is given by its own name
replaces a file of that name that was given so before; the summary says it.

**Two folders of one name** (`a/docs`, `b/docs`) are told apart by their paths. `weir ingest` and `weir sync` record which folder was sent to which collection with which prefix, in
`~/.local/state/weir/folders.json` (or `weir/folders.json` in `$XDG_STATE_HOME`; without a home folder only names are compared). If the collection has documents of another folder of the name that still exists, the command sends and deletes nothing, and the
exit code is 1. A `--prefix` keeps both, and `weir sync` without it leaves alone what was sent from here with it; `--replace` has the new folder take the other's place. Where there is no record, as on another machine, up to 50 documents of the folder are compared with the stored ones:
if the texts of more than half of those with equal ids differ, or `weir sync` finds no id in common, the command stops too; else a note says that the collection has documents that were not sent from here.

A document replaces the one of its folder that has its id. Where that happens within a run, the first ten are named (`replaced: …`), they are counted in the
summary and as `replaced` in the output of `--json`, and the exit code is 1. The first 3.5 million ids of a run are compared.

**The metadata** has the `path` of the file, and as `folder` the name of the folder in which it was found. Lines and
objects add their `metadata` and their other fields, front matter its fields, rows their other cells.

Hidden files and folders are left out, and links are not followed. What can't be read (a missing file, a socket, a text with zero bytes, invalid UTF-8, a bad line) or is
refused by the gateway is named at the end with the reason, and the exit code is 1; everything else goes in.

The bar and the remaining time follow what the gateway has processed, not what was sent, and move within a large document. No time is shown while the speed is unknown. Where the error stream is
no terminal, a line is printed every five seconds. The summary counts new, changed, unchanged and failed documents and the chunks of the new and changed ones.

**To continue after an interruption, run the same command again.** The gateway recognises a document whose content didn't change and
leaves it as it is, without embedding it again; so a repeated run costs little more than reading the files. While the gateway is busy
(503 or 429) the command waits as long as the gateway asks for, up to ten minutes; while it can't be reached, about fifteen seconds.

## What `weir sync` deletes

`weir ingest` deletes nothing. `weir sync DIR` sends the folder in the same way, and then deletes the documents of the collection whose metadata
has a `path` and the name of this folder as `folder`, and that the folder no longer has. Documents of other folders and those that were stored
through the API stay, and so do all documents of a file with a bad line (`kept: …` names the file). If a part of the folder can't be read, nothing is
deleted. If more than half of the folder's documents (and more than ten) are gone, or the folder has no file that is read, the command asks, or
needs `--yes`: the disk may not be mounted.

Folders of one collection that have equal names, or files with equal paths, or lines with equal ids, need a prefix each: `weir sync notes --prefix notes/` deletes only
documents whose id begins with `notes/`.

**A renamed file keeps its id** in `weir sync` and `weir watch`: the new `path` is in the metadata of the document. A file counts as renamed if it is new, a file of the folder is gone, and both have
the same content: the same text, or for PDF, Office and mail files the same bytes. A further file under the old path gets the id `PATH~2`. Files with several documents keep no ids, except those that lines, rows
and objects bring. `weir ingest` sends each file under its path.

## What `weir watch` does

`weir watch DIR` begins as `weir sync DIR`, and then sends and deletes what changes, with the same ids and the same files left out, until Ctrl-C or SIGTERM (exit code 0). It keeps no record of its own:
what changed while it was stopped is found at the start.

- **Changes are noticed by the system** (inotify) and are in the collection within about two seconds. Where the system does not notify, or its limit of watches is reached, a note says so and the folder is looked at
  every five seconds. `--poll SECONDS` does that too: for network folders, of which other machines change files. The folder is also looked at each minute, in case that a notification was lost.
- **A file is sent when it rests**: half a second after it was closed; ten seconds after the last change of a file that a program keeps open. A file that is written to without pause is not sent.
- **A file that can't be read or is refused is named with its reason**, and sent again when it changes.
- **While the gateway is down or busy** the command waits, at most a minute between two attempts, and then sends what differs. It ends with exit code 1 if the gateway refuses the key or the folder.
- **Files that are gone are deleted by the rules of `weir sync`**, half a second later. Nobody is asked: if more than half of the documents (and more than ten) are gone at once, or the folder has no file that is read,
  they stay, and a note says so. `--yes` deletes them.
- `--json` prints a line for each time that something was sent or deleted, with `new`, `changed`, `renamed`, `failed` and `deleted`.

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

/// The kinds of files that are read, in the words of every page.
const KINDS: &str =
    "text, Markdown, reStructuredText, AsciiDoc, Org, HTML, JSON, JSON Lines, YAML, CSV, TSV and log files";

#[test]
fn every_page_names_the_same_kinds_of_files() {
    for page in ["README.md", "docs/get-started.md", "docs/cli.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
        let text = std::fs::read_to_string(path).unwrap();
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains(KINDS), "{page}");
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
        "docs/cli.md is not fresh; run `UPDATE_DOCS=1 cargo test -p weir --test weir cli_docs`"
    );
}
