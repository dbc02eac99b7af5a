//! `weir-mock`: parses arguments, prints its address, serves until SIGTERM. Exit codes: 0 success, 1 failure, 2 usage error.

#![forbid(unsafe_code)]

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use tokio::signal::unix::{SignalKind, signal};
use weir_mock::{MockServer, Settings};

const FAILED: u8 = 1;
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let settings = Settings::parse();
    if !settings.allow_remote && !settings.listen.ip().is_loopback() {
        eprintln!(
            "weir-mock: {} is not a loopback address; pass --allow-remote if other machines may send requests",
            settings.listen
        );
        return ExitCode::from(USAGE);
    }
    match serve(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir-mock: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

fn serve(settings: Settings) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // The handler is installed before the address is printed, because a program that reads the address may send the signal immediately.
    let stopped = runtime.block_on(async { stop_signal() })?;
    let listen = settings.listen;
    let server = MockServer::start(settings).with_context(|| format!("could not listen on {listen}"))?;
    let addr = server.addr();
    let line = serde_json::json!({"address": addr.to_string(), "url": format!("http://{addr}")});
    writeln!(std::io::stdout(), "{line}").context("could not write to stdout")?;
    runtime.block_on(stopped);
    Ok(())
}

/// Waits for SIGTERM or SIGINT.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
