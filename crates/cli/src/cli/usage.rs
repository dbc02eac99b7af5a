//! `weir usage`: requests, tokens and cost of a running gateway.

use clap::Args;
use weir_api::{UsageReportReply, UsageSumReply};
use weir_client::RetryPolicy;

use super::context::Context;
use super::failure::Result;
use super::terminal::{Align, render_table};

/// The arguments of `weir usage`.
#[derive(Debug, Args)]
pub struct UsageArguments {
    /// The first day, such as 2026-01-31, or a time in unix seconds [default: 30 days ago].
    #[arg(long, value_name = "DAY")]
    pub from: Option<String>,
    /// The last day [default: today, in UTC].
    #[arg(long, value_name = "DAY")]
    pub to: Option<String>,
    /// Sums by key, model and day, separated by commas.
    #[arg(long, value_name = "COLUMNS", default_value = "key,model")]
    pub by: String,
    /// The URL of the gateway; also WEIR_URL [default: the address of server.listen].
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Print the reply as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Shows what was used.
///
/// # Errors
/// When the call fails.
pub async fn run(arguments: &UsageArguments, context: Context<'_>) -> Result<()> {
    let (client, _) = context.connect(&arguments.url, RetryPolicy::NONE)?;
    let (from, to) = (arguments.from.as_deref(), arguments.to.as_deref());
    let reply = client.usage(from, to, Some(&arguments.by)).await?;
    let text = if arguments.json { reply.text().to_owned() } else { render(&reply.parse()?) };
    context.out.write_all(text.trim_end().as_bytes())?;
    writeln!(context.out)?;
    Ok(())
}

fn render(report: &UsageReportReply) -> String {
    if report.data.is_empty() {
        return format!("no requests from {} to {}\n", report.first_day, report.last_day);
    }
    let header = [
        ("DAY", Align::Left),
        ("KEY", Align::Left),
        ("MODEL", Align::Left),
        ("REQUESTS", Align::Right),
        ("ERRORS", Align::Right),
        ("PROMPT", Align::Right),
        ("CACHED", Align::Right),
        ("COMPLETION", Align::Right),
        ("COST", Align::Right),
    ];
    let row = |sum: &UsageSumReply| {
        [
            sum.day.clone().unwrap_or_default(),
            key(sum),
            sum.model.clone().unwrap_or_default(),
            sum.requests.to_string(),
            sum.errors.to_string(),
            sum.prompt_tokens.to_string(),
            sum.cached_tokens.to_string(),
            sum.completion_tokens.to_string(),
            format!("{:.6}", sum.cost),
        ]
    };
    render_table(header, &report.data.iter().map(row).collect::<Vec<_>>())
}

/// The number of the key, and its name.
fn key(sum: &UsageSumReply) -> String {
    match (sum.key, &sum.key_name) {
        (Some(key), Some(name)) => format!("{key} {name}"),
        (Some(key), None) => key.to_string(),
        (None, _) => String::new(),
    }
}
