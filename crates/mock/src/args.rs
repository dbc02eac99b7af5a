//! The command line.

use std::net::SocketAddr;

use clap::Parser;

use crate::behavior::Behavior;

/// Mock of LLM providers (OpenAI, Anthropic, Gemini) for tests and load tests, with delays and faults.
///
/// Prints one line of JSON with its address and serves until SIGTERM. Every option of "Replies" and "Faults" is also a
/// header of a request, for that request alone: '--tokens 5' is 'x-mock-tokens: 5', '--no-done 1' is 'x-mock-no-done: 1'.
///
/// Headers of other mocks: X-Response-Size (--response-bytes), X-Vidai-Latency (--latency-ms), X-Vidai-Chaos-Drop
/// (--status-500, in percent), X-Vidai-Chaos-Malformed (--malformed, in percent), X-Vidai-Chaos-Disconnect
/// (--drop-midstream, in percent), X-Vidai-Chaos-Trickle (--token-ms).
///
/// GET /mock/stats has counters, GET /mock/last the last requests; POST /mock/reset resets both.
#[derive(Debug, Clone, Parser)]
#[command(name = "weir-mock", version, max_term_width = 110)]
pub struct Settings {
    /// Address to listen on; port 0 chooses a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// Allow an address that other machines can reach
    #[arg(long)]
    pub allow_remote: bool,
    /// Server threads
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub threads: u64,
    /// Seed of delays and faults
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Model in GET /v1/models; repeatable. Requests may name any model
    #[arg(long = "model", value_name = "NAME", default_value = "mock-model")]
    pub models: Vec<String>,
    /// Most open connections; further ones wait to be accepted
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub connections_max: u64,
    /// Most open streams; further ones are answered 503
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub streams_max: u64,
    /// Largest body of a request; larger ones are answered 413
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub body_bytes_max: u64,
    /// Requests that GET /mock/last shows
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(0..=1000))]
    pub last_max: u64,
    /// Bytes of each body that GET /mock/last shows
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 10, value_parser = clap::value_parser!(u64).range(0..=16 << 20))]
    pub last_body_bytes_max: u64,
    /// How requests are answered
    #[command(flatten)]
    pub behavior: Behavior,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_command_line_is_valid() {
        Settings::command().debug_assert();
    }

    #[test]
    fn options_of_replies_are_flags() {
        let settings =
            Settings::parse_from(["weir-mock", "--tokens", "5", "--gzip", "0.5", "--status", "503"]);
        assert_eq!((settings.behavior.tokens, settings.behavior.status), (5, Some(503)));
        let mut faults = crate::FaultRates::NONE;
        faults.set(crate::Fault::Gzip, 0.5);
        assert_eq!(settings.behavior.faults, faults);
        let error = Settings::try_parse_from(["weir-mock", "--gzip", "2"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let message = error.to_string();
        assert!(
            message.starts_with("error: `gzip` is `2`, but must be a number from 0 to 1\n\nUsage:"),
            "{message}"
        );
    }
}
