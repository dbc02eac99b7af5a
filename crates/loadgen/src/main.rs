//! `weir-bench`: parses arguments, runs, reports. Exit codes: 0 success, 1 requests or the run failed, 2 usage error.

#![forbid(unsafe_code)]

mod args;
mod chat;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use weir_loadgen::{NullServer, Plan, Report, RunError, TargetError, run};

use crate::args::{CeilingArgs, Cli, Command, LoadArgs, NullArgs, OutputArgs};

const FAILED: u8 = 1;
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Load(args) => load(&args),
        Command::Null(args) => null(&args),
        Command::Ceiling(args) => ceiling(&args),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("weir-bench: {:#}", error.source);
            ExitCode::from(error.code)
        }
    }
}

/// An error and its exit code.
struct CommandError {
    code: u8,
    source: anyhow::Error,
}

impl CommandError {
    fn usage(source: anyhow::Error) -> CommandError {
        CommandError { code: USAGE, source }
    }
}

impl From<anyhow::Error> for CommandError {
    fn from(source: anyhow::Error) -> CommandError {
        CommandError { code: FAILED, source }
    }
}

impl From<RunError> for CommandError {
    fn from(error: RunError) -> CommandError {
        let is_usage = matches!(error, RunError::Plan(_) | RunError::Process(_));
        CommandError { code: if is_usage { USAGE } else { FAILED }, source: error.into() }
    }
}

fn load(args: &LoadArgs) -> Result<ExitCode, CommandError> {
    let plan = args.plan().map_err(CommandError::usage)?;
    measure(plan, &args.output)
}

fn null(args: &NullArgs) -> Result<ExitCode, CommandError> {
    if !args.allow_remote && !args.listen.ip().is_loopback() {
        return Err(CommandError::usage(TargetError::Remote(args.listen).into()));
    }
    let server = start_null(&args.config())?;
    print(&format!("http://{}\n", server.addr()))?;
    server.wait();
    Ok(ExitCode::SUCCESS)
}

fn ceiling(args: &CeilingArgs) -> Result<ExitCode, CommandError> {
    let server = start_null(&args.null_config())?;
    let plan = args.plan(server.addr()).map_err(CommandError::usage)?;
    measure(plan, &args.output)
}

fn start_null(config: &weir_loadgen::NullConfig) -> Result<NullServer, CommandError> {
    Ok(NullServer::start(config).with_context(|| format!("could not listen on {}", config.listen))?)
}

fn measure(plan: Plan, output: &OutputArgs) -> Result<ExitCode, CommandError> {
    let report = run(plan)?;
    write_report(&report, output.json.as_deref())?;
    let failed = report.has_failures() && !output.allow_errors;
    Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// Prints a table and writes JSON to the file `json`; `-` prints JSON instead of the table.
fn write_report(report: &Report, json: Option<&Path>) -> anyhow::Result<()> {
    let text = format!("{:#}\n", report.to_json());
    match json {
        Some(path) if path == Path::new("-") => print(&text),
        Some(path) => {
            print(&report.to_table())?;
            std::fs::write(path, text).with_context(|| format!("could not write --json {}", path.display()))
        }
        None => print(&report.to_table()),
    }
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("could not write to stdout")
}
