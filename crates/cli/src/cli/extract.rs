//! `weir extract`: prints the text of a file. `weir extract-child`: the process that reads a file for the gateway.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use weir_config::Flags;
use weir_documents::Extracted;
use weir_retrieval::isolation;

use super::context::Context;
use super::failure::{Failure, Result};
use super::terminal::one_line;

/// The arguments of `weir extract`.
#[derive(Debug, Args)]
pub struct ExtractArguments {
    /// The file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print text, title, metadata, pages and warnings as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Whether this process is the child of a gateway, which reads a file.
#[must_use]
pub fn is_child() -> bool {
    std::env::args_os().nth(1).is_some_and(|first| first == weir_isolation::COMMAND)
}

/// Reads a file as the child of a gateway.
#[must_use]
pub fn run_child() -> ExitCode {
    weir_isolation::run_child(weir_isolation::read)
}

/// Prints the text of a file.
///
/// # Errors
/// When the file can't be opened or has no text.
pub fn run(arguments: &ExtractArguments, context: Context<'_>) -> Result<()> {
    let config = context.load(Flags::default())?;
    let path = arguments.file.display().to_string();
    let mut file =
        File::open(&arguments.file).map_err(|source| Failure::File { path: path.clone(), source })?;
    let name = arguments.file.file_name().unwrap_or_default().to_string_lossy();
    let extracted = isolation(&config).extract(&name, &mut file);
    let extracted = extracted.map_err(|source| Failure::Extract { path, source })?;
    if arguments.json {
        writeln!(context.out, "{}", as_json(&extracted))?;
    } else {
        write_text(&extracted, context.out)?;
    }
    Ok(())
}

/// The text, with a line before each page.
fn write_text(extracted: &Extracted, out: &mut dyn Write) -> Result<()> {
    if let Some(title) = &extracted.title {
        writeln!(out, "title: {}", one_line(title).trim())?;
    }
    let whole = [(None, extracted.text.as_str())];
    let mut start = 0;
    let pages = (1..).zip(&extracted.pages).map(|(number, page)| {
        let text = extracted.text.get(start..page.end).unwrap_or_default();
        start = page.end;
        let label = page.label.as_deref().map_or_else(String::new, |label| format!(" ({})", one_line(label)));
        let about = if page.approximate { "about " } else { "" };
        (Some(format!("{about}page {number}{label}")), text)
    });
    let parts: Vec<(Option<String>, &str)> =
        if extracted.pages.is_empty() { whole.to_vec() } else { pages.collect() };
    for (head, text) in parts {
        if let Some(head) = head {
            writeln!(out, "--- {head}")?;
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    for warning in &extracted.warnings {
        writeln!(out, "warning: {} ({}, {} times)", one_line(&warning.message), warning.code, warning.count)?;
    }
    for attachment in &extracted.attachments {
        writeln!(out, "attachment: {} ({} bytes)", one_line(&attachment.name), attachment.bytes.len())?;
    }
    Ok(())
}

fn as_json(extracted: &Extracted) -> Value {
    let mut start = 0;
    let pages = (1..).zip(&extracted.pages).map(|(number, page): (u64, _)| {
        let begin = std::mem::replace(&mut start, page.end);
        json!({"page": number, "start": begin, "end": page.end, "label": page.label, "approximate": page.approximate})
    });
    let attachments = extracted.attachments.iter();
    json!({
        "title": extracted.title,
        "metadata": extracted.metadata,
        "pages": pages.collect::<Vec<_>>(),
        "warnings": extracted.warnings,
        "attachments": attachments.map(|one| json!({"name": one.name, "bytes": one.bytes.len()})).collect::<Vec<_>>(),
        "text": extracted.text,
    })
}
