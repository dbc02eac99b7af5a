//! `weir export`: writes the documents of a collection to the output, to a file or to a folder.

mod folder;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use weir_client::{Export, RetryPolicy};

use super::context::Context;
use super::failure::{Failure, Result};
use super::missing::with_similar_name;
use folder::ExportFolder;

/// The arguments of `weir export`.
#[derive(Debug, Args)]
pub struct ExportArguments {
    /// The collection.
    #[arg(value_name = "NAME", default_value = weir_api::DEFAULT_COLLECTION)]
    pub collection: String,
    /// Write to this file instead of the output. It appears when it is complete, and replaces an earlier one.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a JSON file for each document to this folder, which must be empty or new; ids with slashes make folders.
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub folder: Option<PathBuf>,
    /// Begin with the first id after this one, in byte order.
    #[arg(long, value_name = "ID")]
    pub after: Option<String>,
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
}

/// Exports a collection.
///
/// # Errors
/// When the call fails or breaks off, and when the file or the folder cannot be written.
pub async fn run(arguments: &ExportArguments, context: Context<'_>) -> Result<()> {
    let (client, _) = context.connect(&arguments.url, RetryPolicy::LONG)?;
    let target = arguments.folder.as_ref().map(ExportFolder::create).transpose()?;
    let collection = &arguments.collection;
    let export = match client.export(collection, arguments.after.as_deref()).await {
        Ok(export) => export,
        Err(error) => return Err(with_similar_name(&client, collection, error).await),
    };
    match (target, &arguments.output) {
        (Some(folder), _) => report(to_folder(export, folder).await?, &arguments.folder),
        (None, Some(path)) => report(to_file(export, path).await?, &arguments.output),
        (None, None) => {
            to_output(export, context.out).await?;
        }
    }
    Ok(())
}

fn report(documents: u64, to: &Option<PathBuf>) {
    let to = to.as_ref().map_or_else(String::new, |path| path.display().to_string());
    let plural = if documents == 1 { "" } else { "s" };
    eprintln!("{documents} document{plural} went to {to}");
}

/// Copies the lines; returns their number.
async fn to_output(mut export: Export, out: &mut dyn Write) -> Result<u64> {
    let mut lines = 0;
    while let Some(part) = export.next().await? {
        lines += part.iter().filter(|byte| **byte == b'\n').count() as u64;
        out.write_all(&part)?;
    }
    out.flush()?;
    Ok(lines)
}

/// Writes beside the file and renames at the end, so that a broken export is never taken for a whole one.
async fn to_file(export: Export, path: &Path) -> Result<u64> {
    let failed = |source| Failure::Write { path: path.display().to_string(), source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut part = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    let lines = to_output(export, &mut BufWriter::new(part.as_file_mut())).await?;
    let is_synced = part.as_file().sync_all();
    is_synced.map_err(failed)?;
    let file: File = part.persist(path).map_err(|error| failed(error.error))?;
    drop(file);
    Ok(lines)
}

/// Writes each line as a file of its own.
async fn to_folder(mut export: Export, mut folder: ExportFolder) -> Result<u64> {
    let (mut rest, mut documents) = (Vec::new(), 0);
    while let Some(part) = export.next().await? {
        rest.extend_from_slice(&part);
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
        let after = rest.split_off(end + 1);
        for line in rest[..end].split(|byte| *byte == b'\n') {
            folder.write(line)?;
            documents += 1;
        }
        rest = after;
    }
    Ok(documents)
}
