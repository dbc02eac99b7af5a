//! The binary `weir`: parses the arguments, runs the command, returns an exit code.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use weir_cli::cli::{
    Arguments, Command, Context, Result, block_on, chat, collections, config, delete, demo, doctor, eval,
    export, extract, feedback, health, ingest, jobs, keys, model, moves, plan, prices, search, selftest,
    serve, shell, store, sync, usage, watch,
};
use weir_config::Environment;

/// Memory of a request is often freed by another thread than the one that allocated it, which causes lock contention in the
/// system's allocator. `.cargo/config.toml` configures jemalloc.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    if extract::is_child() {
        return extract::run_child();
    }
    let arguments = Arguments::parse_process();
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

fn run(arguments: Arguments, environment: &Environment, out: &mut dyn Write) -> Result<()> {
    let context = Context { file: arguments.config, environment, out };
    match arguments.command {
        Command::Serve(serve) => serve::run(&serve, context),
        Command::Ingest(ingest) => block_on(ingest::run(&ingest, context)),
        Command::Extract(extract) => extract::run(&extract, context),
        Command::Sync(sync) => block_on(sync::run(&sync, context)),
        Command::Watch(watch) => block_on(watch::run(&watch, context)),
        Command::Delete(delete) => block_on(delete::run(&delete, context)),
        Command::Collections(collections) => block_on(collections::run(&collections, context)),
        Command::Move(arguments) => block_on(moves::run(&arguments, context)),
        Command::Export(export) => block_on(export::run(&export, context)),
        Command::Search(search) => block_on(search::run(&search, context)),
        Command::Chat(chat) => block_on(chat::run(&chat, context)),
        Command::Jobs(jobs) => block_on(jobs::run(&jobs, context)),
        Command::Health(health) => block_on(health::run(&health, context)),
        Command::Feedback(feedback) => block_on(feedback::run(&feedback, context)),
        Command::Keys(keys) => block_on(keys::run(&keys, context)),
        Command::Plan(arguments) => plan::run(&arguments, context),
        Command::Prices(prices) => prices::run(&prices, context),
        Command::Usage(usage) => block_on(usage::run(&usage, context)),
        Command::Eval(eval) => block_on(eval::run(&eval, context)),
        Command::Selftest(selftest) => block_on(selftest::run(&selftest, context)),
        Command::Store(store) => block_on(store::run(&store, context)),
        Command::Doctor(doctor) => block_on(doctor::run(&doctor, context)),
        Command::Config(config) => config::run(&config, context),
        Command::Model(model) => block_on(model::run(&model, context)),
        Command::Demo(demo) => demo::run(&demo, context),
        Command::Completions { shell } => shell::print_completions(shell, context.out),
        Command::Man { folder } => shell::write_manual_pages(&folder),
    }
}
