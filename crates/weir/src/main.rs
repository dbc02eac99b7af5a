//! The binary `weir`: parse, do the one thing that was asked for, answer with an exit code.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use weir::cli::{Arguments, Command, Failure, config, eval, ingest, jobs, model, search, serve};
use weir_config::Environment;

/// What a request allocates is often freed by another thread, over which the system's allocator has its threads wait for each other.
/// `.cargo/config.toml` sets it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let environment = Environment::of_process();
    let mut out = std::io::stdout().lock();
    match run(arguments, &environment, &mut out).and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(&mut std::io::stderr().lock());
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(arguments: Arguments, environment: &Environment, out: &mut dyn Write) -> Result<(), Failure> {
    let file = arguments.config;
    match arguments.command {
        Command::Serve(serve) => serve::run(&serve, file, environment),
        Command::Ingest(ingest) => ingest::run(&ingest, file, environment, out),
        Command::Search(search) => search::run(&search, file, environment, out),
        Command::Jobs(jobs) => jobs::run(&jobs, file, environment, out),
        Command::Eval(eval) => eval::run(&eval, file, environment, out),
        Command::Config(config) => config::run(&config, file, environment, out),
        Command::Model(model) => model::run(&model, file, environment, out),
    }
}
