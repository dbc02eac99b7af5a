//! `weir usage`: requests, tokens and cost of a running gateway.

use clap::Args;
use weir_api::{UsageReportReply, UsageSource, UsageSumReply};
use weir_client::RetryPolicy;
use weir_config::ChargeClass;

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
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print the sums as CSV, with a header. A text that a spreadsheet would compute (`=…`) has an apostrophe before it.
    #[arg(long)]
    pub csv: bool,
}

/// Shows what was used.
///
/// # Errors
/// When the call fails.
pub async fn run(arguments: &UsageArguments, context: Context<'_>) -> Result<()> {
    let (client, _) = context.connect(&arguments.url, RetryPolicy::NONE)?;
    let (from, to) = (arguments.from.as_deref(), arguments.to.as_deref());
    let reply = client.usage(from, to, Some(&arguments.by)).await?;
    let text = if arguments.json {
        reply.text().to_owned()
    } else {
        let report: UsageReportReply = reply.parse()?;
        if report.source == UsageSource::Gateway {
            eprintln!("{OF_ONE_GATEWAY}");
        }
        if arguments.csv { render_csv(&report) } else { render(&report) }
    };
    context.out.write_all(text.trim_end().as_bytes())?;
    writeln!(context.out)?;
    Ok(())
}

const OF_ONE_GATEWAY: &str = "note: PostgreSQL can't be read; these are the requests of this gateway alone, since it keeps sums of its own";

/// RFC 4180, with LF at the end of lines.
fn render_csv(report: &UsageReportReply) -> String {
    let mut csv = "day,key,key_name,model,requests,errors,prompt_tokens,cached_tokens,completion_tokens,cost"
        .to_owned();
    for class in ChargeClass::ALL {
        csv.push_str(&format!(",{name}_units,{name}_cost", name = class.name()));
    }
    csv.push('\n');
    for sum in &report.data {
        let fields = [
            csv_text(sum.day.as_deref()),
            sum.key.map(|key| key.to_string()).unwrap_or_default(),
            csv_text(sum.key_name.as_deref()),
            csv_text(sum.model.as_deref()),
            sum.requests.to_string(),
            sum.errors.to_string(),
            sum.prompt_tokens.to_string(),
            sum.cached_tokens.to_string(),
            sum.completion_tokens.to_string(),
            format!("{:.9}", sum.cost),
        ];
        csv.push_str(&fields.join(","));
        for class in ChargeClass::ALL {
            let used = sum.classes.iter().find(|of| of.name == class.name());
            let (units, cost) = used.map_or((0, 0.0), |of| (of.units, of.cost));
            csv.push_str(&format!(",{units},{cost:.9}"));
        }
        csv.push('\n');
    }
    csv
}

/// A text as a field. Clients choose names of models, and spreadsheets compute what looks like a formula.
fn csv_text(text: Option<&str>) -> String {
    let text = text.unwrap_or_default();
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
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

#[cfg(test)]
mod tests {
    use weir_api::UsageClassReply;

    use super::*;

    #[test]
    fn csv_has_a_header_and_quotes_what_clients_chose() {
        let sum = |key_name: &str, model: &str| UsageSumReply {
            day: Some("2026-01-31".to_owned()),
            key: Some(7),
            key_name: Some(key_name.to_owned()),
            model: Some(model.to_owned()),
            requests: 3,
            errors: 1,
            prompt_tokens: 20,
            cached_tokens: 0,
            completion_tokens: 5,
            cost: 0.000_000_125,
            classes: vec![UsageClassReply { name: "output".to_owned(), units: 5, cost: 0.000_000_125 }],
        };
        let report = UsageReportReply {
            first_day: "2026-01-01".to_owned(),
            last_day: "2026-01-31".to_owned(),
            source: UsageSource::Database,
            data: vec![sum("chat, \"site\"", "=HYPERLINK(\"x\")"), sum("app", "gpt-4o")],
        };
        let csv = render_csv(&report);
        let lines: Vec<&str> = csv.lines().collect();
        let header = "day,key,key_name,model,requests,errors,prompt_tokens,cached_tokens,completion_tokens,cost,input_units,input_cost,";
        assert!(lines[0].starts_with(header), "{csv}");
        let sums = [
            "2026-01-31,7,\"chat, \"\"site\"\"\",\"'=HYPERLINK(\"\"x\"\")\",3,1,20,0,5,0.000000125,0,0.000000000,",
            "2026-01-31,7,app,gpt-4o,3,1,20,0,5,0.000000125,0,0.000000000,",
        ];
        assert!(lines[1].starts_with(sums[0]) && lines[2].starts_with(sums[1]), "{csv}");
        let at = lines[0].split(',').position(|name| name == "output_units").unwrap();
        assert_eq!(lines[2].split(',').nth(at), Some("5"), "{csv}");
    }
}
