//! `weir selftest`: whether a server replies as the APIs promise that it serves.
//!
//! Requests only embed, rerank, list and search a collection that does not exist, so that they change nothing.

use clap::Args;
use http::HeaderValue;
use serde_json::json;

use super::context::{Context, trust};
use super::failure::{Failure, Result};
use super::terminal::{Align, Style, one_line, render_table};
use weir_config::{ApiKey, Environment, Flags};
use weir_selftest::{Check, CheckResult, Dialect, Report, Server};

/// Characters of a finding in the table.
const FINDING_CHARS_MAX: usize = 60;

/// The arguments of `weir selftest`.
#[derive(Debug, Args)]
pub struct SelftestArguments {
    /// The URL of the server; also WEIR_URL [default: the address of server.listen].
    #[arg(long)]
    pub url: Option<String>,
    /// The APIs to check, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Dialect::ALL)]
    pub dialect: Vec<Dialect>,
    /// The model that embeds [default: the first one that the server lists].
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// The model that reranks [default: the first one that the server lists].
    #[arg(long, value_name = "MODEL")]
    pub rerank_model: Option<String>,
    /// Where the server's API key is: env:NAME or file:PATH [default: none is sent].
    #[arg(long, value_name = "SOURCE")]
    pub api_key: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Checks a server and prints what deviates.
///
/// # Errors
/// When the server can't be reached, and [`Failure::Deviates`] when a reply is not as it should be.
pub async fn run(arguments: &SelftestArguments, context: Context<'_>) -> Result<()> {
    let config = context.load(Flags { url: arguments.url.clone(), ..Flags::default() })?;
    let key = arguments.api_key.as_deref().map(|key| authorization(key, context.environment)).transpose()?;
    let url = config.client_url();
    let server = Server {
        url: url.clone(),
        trust: &trust(&config),
        authorization: key,
        model: arguments.model.clone(),
        reranker: arguments.rerank_model.clone(),
        dialects: &arguments.dialect,
    };
    let Report { model, reranker, checks } = weir_selftest::check(server).await?;
    let counts = Counts::of(&checks);
    if arguments.json {
        let report = json!({
            "url": url, "model": model, "rerank_model": reranker, "checks": checks,
            "passed": counts.passed, "deviates": counts.deviates, "skipped": counts.skipped,
        });
        writeln!(context.out, "{report}")?;
    } else {
        context.out.write_all(render(&checks, Style::of_output(context.environment)).as_bytes())?;
    }
    context.out.flush()?;
    match counts.deviates {
        0 => Ok(()),
        count => Err(Failure::Deviates(count)),
    }
}

/// The header for the key that `env:NAME` or `file:PATH` names.
fn authorization(source: &str, environment: &Environment) -> Result<HeaderValue> {
    let key = ApiKey::of_argument(source, environment)
        .and_then(|key| key.secret().cloned().map_err(str::to_owned))
        .map_err(Failure::ApiKey)?;
    let value = HeaderValue::try_from(format!("Bearer {}", key.reveal()));
    let mut value = value.map_err(|_| Failure::ApiKey("it is no word of ASCII".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// How many checks ended how.
#[derive(Debug, Default)]
struct Counts {
    passed: usize,
    deviates: usize,
    skipped: usize,
}

impl Counts {
    fn of(checks: &[Check]) -> Counts {
        let count = |result| checks.iter().filter(|check| check.result == result).count();
        Counts {
            passed: count(CheckResult::Passed),
            deviates: count(CheckResult::Deviates),
            skipped: count(CheckResult::Skipped),
        }
    }
}

/// A table of all checks, then each deviation with its request, and the numbers.
fn render(checks: &[Check], style: Style) -> String {
    let header =
        [("RESULT", Align::Left), ("API", Align::Left), ("CHECK", Align::Left), ("FOUND", Align::Left)];
    let rows: Vec<[String; 4]> = checks.iter().map(render_row).collect();
    let mut shown = render_table(header, &rows);
    for check in checks.iter().filter(|check| check.result == CheckResult::Deviates) {
        shown.push_str(&format!(
            "\n{}\n  sent:      {}\n  expected:  {}\n  got:       {}\n",
            style.bold(&format!("{}: {}", check.dialect, check.name)),
            one_line(&check.sent),
            check.expected,
            one_line(&check.got),
        ));
    }
    let Counts { passed, deviates, skipped } = Counts::of(checks);
    shown.push_str(&format!("\n{passed} passed, {deviates} deviating, {skipped} skipped\n"));
    shown
}

fn render_row(check: &Check) -> [String; 4] {
    let result = match check.result {
        CheckResult::Passed => "ok",
        CheckResult::Deviates => "DEVIATES",
        CheckResult::Skipped => "skipped",
    };
    let found = match check.result {
        CheckResult::Deviates => "see below".to_owned(),
        CheckResult::Passed => shortened(&one_line(&check.got)),
        CheckResult::Skipped => one_line(&check.got),
    };
    [result.to_owned(), check.dialect.to_owned(), check.name.to_owned(), found]
}

fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(FINDING_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, result: CheckResult, got: &str) -> Check {
        Check {
            dialect: "tei",
            name,
            result,
            sent: "GET /info".to_owned(),
            expected: "200: a model",
            got: got.to_owned(),
        }
    }

    #[test]
    fn deviations_follow_the_table_with_what_was_sent() {
        let long = "a".repeat(70);
        let checks = [
            check("health", CheckResult::Passed, "200"),
            check("info", CheckResult::Deviates, "the status is 404\ninstead of 200"),
            check("embed", CheckResult::Passed, &long),
            check("rerank", CheckResult::Skipped, "no model"),
        ];
        let expected = format!(
            "RESULT    API  CHECK   FOUND\n\
             ok        tei  health  200\n\
             DEVIATES  tei  info    see below\n\
             ok        tei  embed   {}…\n\
             skipped   tei  rerank  no model\n\
             \ntei: info\n  sent:      GET /info\n  expected:  200: a model\n  got:       the status is 404 instead of 200\n\
             \n2 passed, 1 deviating, 1 skipped\n",
            "a".repeat(60)
        );
        assert_eq!(render(&checks, Style::PLAIN), expected);
    }
}
