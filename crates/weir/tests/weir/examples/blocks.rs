//! The fenced blocks of a page, and what is done with each: the words behind the three backquotes say it.

use std::path::Path;

use crate::support::gateway::in_repository;

/// A fenced block of a page.
pub(crate) struct Block {
    pub(crate) rule: Rule,
    /// The page and the line of its first fence, from 1.
    pub(crate) place: String,
    pub(crate) text: String,
}

/// What is done with a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rule {
    /// `sh`, `python`, `py`, `py older`, `js`: it runs and must succeed. `py` has the clients of other makers, `py older` those releases that one of
    /// them needs.
    Run(Language),
    /// `sh fails`: it runs and must fail.
    Fail,
    /// `toml`: a valid configuration of the gateway, and `weir.toml` of the blocks that follow.
    Configuration,
    /// `json filter`: a search accepts it as a filter.
    Filter,
    /// `json output`: the block before has printed these fields.
    JsonOutput,
    /// `text output`: the block before has printed this; `…` stands for anything.
    TextOutput,
    /// `LANGUAGE not run: REASON`.
    NotRun(String),
}

/// A language of blocks that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Shell,
    Python,
    PythonWithClients,
    PythonWithOlderClients,
    JavaScript,
}

/// A shorter reason says too little.
const REASON_BYTES_MIN: usize = 12;

impl Rule {
    /// The rule of a block by its info string.
    fn of(info: &str, place: &str) -> Rule {
        if let Some((_, reason)) = info.split_once(" not run: ") {
            assert!(reason.len() >= REASON_BYTES_MIN, "{place}: `{reason}` is no reason");
            return Rule::NotRun(reason.to_owned());
        }
        match info {
            "sh" => Rule::Run(Language::Shell),
            "sh fails" => Rule::Fail,
            "python" => Rule::Run(Language::Python),
            "py" => Rule::Run(Language::PythonWithClients),
            "py older" => Rule::Run(Language::PythonWithOlderClients),
            "js" => Rule::Run(Language::JavaScript),
            "toml" => Rule::Configuration,
            "json filter" => Rule::Filter,
            "json output" => Rule::JsonOutput,
            "text output" => Rule::TextOutput,
            _ => panic!(
                "{place}: nothing is done with a block marked `{info}`; mark it as one that runs, or `{info} not run: REASON` (CONTRIBUTING.md)"
            ),
        }
    }

    /// Whether it needs a gateway.
    pub(crate) fn needs_gateway(&self) -> bool {
        matches!(self, Rule::Run(_) | Rule::Fail | Rule::Filter)
    }
}

/// The page of commands is made from their help texts, its blocks `text` among it (`cli_docs.rs`).
const GENERATED: (&str, &str) = ("docs/cli.md", "text");

/// The blocks of a page of the repository.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let text = std::fs::read_to_string(in_repository(page)).unwrap();
    let mut found: Vec<Block> = Vec::new();
    let mut open: Option<(String, usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => {
                let (info, line, text) = open.take().unwrap();
                if (page, info.as_str()) != GENERATED {
                    let place = format!("{page}:{line}");
                    found.push(Block { rule: Rule::of(&info, &place), place, text });
                }
            }
            (Some(info), None) => open = Some((info.to_owned(), index + 1, String::new())),
            (None, Some((_, _, text))) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: the last block has no end");
    found
}

/// Every page that may have examples.
pub(crate) fn pages() -> Vec<String> {
    let root = in_repository("");
    let in_docs =
        walkdir::WalkDir::new(root.join("docs")).into_iter().map(|entry| entry.unwrap().into_path());
    let others = [
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "clients/python/README.md",
        "packaging/python/README.md",
    ];
    let in_docs = in_docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let named = |path: &Path| path.strip_prefix(&root).unwrap().display().to_string();
    others.map(str::to_owned).into_iter().chain(in_docs.map(|path| named(&path))).collect()
}
