//! `weir store`: moves a store into another database.

use std::path::Path;

use clap::{Args, Subcommand};
use serde_json::json;
use weir_config::{ApiKey, Flags};
use weir_retrieval::copy_originals;
use weir_store::{Error, Location, Store};

use super::context::Context;
use super::failure::{Failure, Result};
use crate::store_location::store_location;

/// The arguments of `weir store`.
#[derive(Debug, Args)]
pub struct StoreArguments {
    /// The command.
    #[command(subcommand)]
    pub command: StoreCommand,
}

/// The commands under `weir store`.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Copy the store into an empty one of another database, and compare both row by row.
    ///
    /// Stop all gateways of the store first. Copies collections, documents, embeddings, jobs, API keys and all else in the store, so that nothing is
    /// embedded again; the source stays as it is. Then set `store.url` to the database, or take it away, and start the gateway. Original files
    /// are copied too: a database has them itself, a data directory has them in its folder `originals`.
    Copy(CopyArguments),
}

/// The arguments of `weir store copy`.
#[derive(Debug, Args)]
pub struct CopyArguments {
    /// Where to: `env:NAME` or `file:PATH`, which have the URL of a PostgreSQL database, or a folder, which becomes a data directory.
    #[arg(long, value_name = "PLACE")]
    pub to: String,
    /// The data directory to copy; also WEIR_DATA_DIR [default: the database of `store.url`, or ./weir-data].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<String>,
    /// Print the result as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
/// Those of both stores.
pub async fn run(arguments: &StoreArguments, context: Context<'_>) -> Result<()> {
    let StoreCommand::Copy(arguments) = &arguments.command;
    // as `weir serve` makes files
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let flags = Flags { data_dir: arguments.data_dir.clone(), ..Flags::default() };
    let config = context.load(flags)?;
    let folder = &config.server.data_dir;
    let from = match config.store.url.is_some() && arguments.data_dir.is_none() {
        true => store_location(&config)?,
        false => Location::data_dir(folder),
    };
    if !Store::exists(&from).await? {
        return Err(Failure::NoStore);
    }
    let to = target(&arguments.to, &context)?;
    let source = Store::open(&from).await?;
    let target = Store::open(&to).await?;
    let copied = copy((&source, &from, folder), (&target, &to, Path::new(&arguments.to))).await;
    source.close().await;
    target.close().await;
    let (rows, originals) = copied?;
    match arguments.json {
        true => writeln!(context.out, "{}", json!({"rows": rows, "originals": originals}))?,
        false => writeln!(context.out, "{rows} rows copied to {} and compared", arguments.to)?,
    }
    if !arguments.json && originals > 0 {
        writeln!(context.out, "{originals} original files copied")?;
    }
    Ok(())
}

/// Copies the rows of a store, and its original files. With each its place and its data directory, if it is one.
async fn copy(
    (source, from, from_dir): (&Store, &Location, &Path),
    (target, to, to_dir): (&Store, &Location, &Path),
) -> Result<(u64, u64)> {
    let rows = source.copy_to(target).await?;
    let in_folder = |place: &Location, data_dir| (!place.is_shared()).then_some(data_dir);
    let from = (source, in_folder(from, from_dir));
    let originals = copy_originals(from, (target, in_folder(to, to_dir))).await;
    Ok((rows, originals.map_err(Failure::Originals)?))
}

/// The place that `--to` names.
fn target(to: &str, context: &Context<'_>) -> Result<Location> {
    if !to.starts_with("env:") && !to.starts_with("file:") && !to.contains("://") {
        return Ok(Location::data_dir(Path::new(to)));
    }
    let url = ApiKey::of_argument(to, context.environment).map_err(Failure::StoreUrl)?;
    let url =
        url.secret().map_err(|reason| Error::Unsupported(format!("there is no URL of it: {reason}")))?;
    Ok(Location::database(url.reveal())?)
}
