//! `weir health`: whether a gateway takes requests, for containers and scripts.

use clap::Args;
use serde_json::json;

use super::context::Context;
use super::failure::{Failure, Result};

/// The arguments of `weir health`.
#[derive(Debug, Args)]
pub struct HealthArguments {
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Print the reply as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Asks `/readyz`, which needs no key.
///
/// # Errors
/// When no gateway answers, and when it is not ready.
pub async fn run(arguments: &HealthArguments, context: Context<'_>) -> Result<()> {
    // a gateway that runs stays as it is when its file becomes wrong
    let client = context.connect_despite_problems(&arguments.url)?;
    let reply = client.readiness().await?;
    match (arguments.json, reply.ready) {
        (true, _) => writeln!(context.out, "{}", json!(reply))?,
        (false, true) => writeln!(context.out, "ready")?,
        (false, false) => {}
    }
    if reply.ready { Ok(()) } else { Err(Failure::NotReady(reply.failing.join("; "))) }
}
