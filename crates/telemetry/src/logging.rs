//! The log: text on a terminal, one JSON object per line otherwise.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

use weir_config::table::Log;
use weir_config::{LogFormat, LogLevel};

/// Starts the log on the standard error stream. A second call does nothing.
pub fn start(settings: &Log) {
    let is_terminal = std::io::stderr().is_terminal();
    let json = match settings.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !is_terminal,
    };
    let level = match settings.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    // messages of libraries below the level of warnings do not help an operator
    let targets = tracing_subscriber::filter::Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("weir", level)
        .with_target("weir_server", level);
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let writer = std::io::stderr;
    let registry = tracing_subscriber::registry().with(targets);
    let started = if json {
        registry.with(fmt::layer().json().flatten_event(true).with_writer(writer)).try_init()
    } else {
        registry.with(fmt::layer().with_ansi(is_terminal).with_target(false).with_writer(writer)).try_init()
    };
    drop(started);
}
