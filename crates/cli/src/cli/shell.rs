//! `weir completions` and `weir man`: what packages install beside the binary.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use super::arguments::Arguments;
use super::failure::Result;

/// Prints the completions of a shell.
///
/// # Errors
/// When the output can't be written.
pub fn print_completions(shell: Shell, out: &mut dyn Write) -> Result<()> {
    // the generator panics when its output fails, as when its reader closes a pipe
    let mut completions = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "weir", &mut completions);
    Ok(out.write_all(&completions)?)
}

/// Writes a manual page for each command into `folder`, which is created.
///
/// # Errors
/// When a file can't be written.
pub fn write_manual_pages(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    // `help` describes what the other pages describe
    let command = Arguments::command().disable_help_subcommand(true);
    Ok(clap_mangen::generate_to(command, folder)?)
}
