//! Errors of providers: what caused one, by its status and body.
//!
//! Providers report a spent account, a refused key or a refused region by statuses that elsewhere blame the request. [`RULES`] names
//! each form; a row of it is also a row of `docs/provider-errors.md`.

use crate::json::{Tape, Value};

/// The cause of an error, which decides the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The request: its caller has to change it.
    Request,
    /// The gateway's account at the provider: its operator has to mend it, another provider can answer.
    Account(Account),
    /// A limit on the use: it helps to wait, or to ask another provider.
    Limit,
    /// A failure of the provider: it can help to try again, or to ask another one.
    Outage,
}

/// The problem of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// The key is refused, or lacks a right.
    Key,
    /// No credit is left, or the account is suspended.
    Credit,
    /// The provider does not serve the region of the gateway.
    Region,
}

/// How a rule recognises an error.
#[derive(Debug, Clone, Copy)]
enum Sign {
    /// By the status alone.
    Status,
    /// By the error's `code`, `type`, `status` or `reason`.
    Code(&'static str),
    /// By words of its message, in lower case.
    Words(&'static str),
    /// By a field of the error.
    Field(&'static [&'static str]),
}

/// A form of an error. The first that fits decides.
struct Rule {
    /// The statuses, both included.
    status: (u16, u16),
    sign: Sign,
    cause: Cause,
    /// The providers that have it.
    #[cfg_attr(not(test), expect(dead_code, reason = "a column of the page that a test writes"))]
    seen: &'static str,
}

const CLIENT: (u16, u16) = (400, 499);
const CREDIT: Cause = Cause::Account(Account::Credit);
const KEY: Cause = Cause::Account(Account::Key);
const REGION: Cause = Cause::Account(Account::Region);

const fn rule(status: (u16, u16), sign: Sign, cause: Cause, seen: &'static str) -> Rule {
    Rule { status, sign, cause, seen }
}

const RULES: &[Rule] = &[
    rule(
        (403, 403),
        Sign::Field(&["metadata", "reasons"]),
        Cause::Request,
        "OpenRouter: the input was moderated",
    ),
    rule(CLIENT, Sign::Code("content_filter"), Cause::Request, "Azure: the input was filtered"),
    rule(CLIENT, Sign::Code("content_policy_violation"), Cause::Request, "OpenAI: the input was moderated"),
    rule((402, 402), Sign::Status, CREDIT, "DeepSeek, OpenRouter, Together, xAI"),
    rule(CLIENT, Sign::Words("credit balance"), CREDIT, "Anthropic (400)"),
    rule(CLIENT, Sign::Words("api usage limits"), CREDIT, "Anthropic (400): a limit of spending"),
    rule(CLIENT, Sign::Words("organization has been disabled"), CREDIT, "Anthropic (400)"),
    rule(CLIENT, Sign::Code("insufficient_quota"), CREDIT, "OpenAI (429), Alibaba (403)"),
    rule(CLIENT, Sign::Code("exceeded_current_quota_error"), CREDIT, "Moonshot (429)"),
    rule(CLIENT, Sign::Code("billing_hard_limit_reached"), CREDIT, "OpenAI (400)"),
    rule(CLIENT, Sign::Code("billing_not_active"), CREDIT, "OpenAI (429)"),
    rule(CLIENT, Sign::Code("billing_error"), CREDIT, "Anthropic (402, 400)"),
    rule(CLIENT, Sign::Code("access_terminated"), CREDIT, "OpenAI (401, 403)"),
    rule(CLIENT, Sign::Code("account_deactivated"), CREDIT, "OpenAI (401)"),
    rule(CLIENT, Sign::Code("arrearage"), CREDIT, "Alibaba (400)"),
    rule(CLIENT, Sign::Code("organization_restricted"), CREDIT, "Groq (400)"),
    rule(CLIENT, Sign::Code("blocked_api_access"), CREDIT, "Groq (400): a limit of spending"),
    rule(CLIENT, Sign::Code("1113"), CREDIT, "Zhipu (429)"),
    rule(CLIENT, Sign::Words("credits are depleted"), CREDIT, "Gemini (429)"),
    rule(CLIENT, Sign::Words("insufficient balance"), CREDIT, "DeepSeek, Zhipu (429)"),
    rule(CLIENT, Sign::Words("insufficient credits"), CREDIT, "OpenRouter, Replicate"),
    rule(CLIENT, Sign::Words("spending limit"), CREDIT, "xAI (403), Fireworks (412)"),
    rule(CLIENT, Sign::Words("requires billing"), CREDIT, "Gemini (400, 403)"),
    rule(CLIENT, Sign::Words("please enable billing"), CREDIT, "Gemini (400, 403)"),
    rule(CLIENT, Sign::Code("unsupported_country_region_territory"), REGION, "OpenAI (403)"),
    rule(CLIENT, Sign::Words("user location is not supported"), REGION, "Gemini (400)"),
    rule(CLIENT, Sign::Words("not available in your country"), REGION, "Gemini (400)"),
    rule(CLIENT, Sign::Code("api_key_invalid"), KEY, "Gemini (400)"),
    rule(CLIENT, Sign::Words("api key not valid"), KEY, "Gemini (400)"),
    rule(CLIENT, Sign::Words("api key expired"), KEY, "Gemini (400)"),
    rule(CLIENT, Sign::Words("incorrect api key"), KEY, "OpenAI (401), xAI (400)"),
    rule(CLIENT, Sign::Words("invalid api key"), KEY, "xAI, Groq, Fireworks (400, 401)"),
    rule(CLIENT, Sign::Code("invalid_api_key"), KEY, "OpenAI, Groq, Alibaba (401)"),
    rule(CLIENT, Sign::Words("organization must be verified"), KEY, "OpenAI (400, 403, 404)"),
    rule((401, 401), Sign::Status, KEY, "all"),
    rule((403, 403), Sign::Status, KEY, "all"),
    rule((407, 407), Sign::Status, KEY, "a proxy before the provider"),
    rule(CLIENT, Sign::Code("rate_limit_exceeded"), Cause::Limit, "OpenAI (429), Groq (413)"),
    rule(CLIENT, Sign::Code("resource_exhausted"), Cause::Limit, "Gemini (429)"),
    rule((429, 429), Sign::Status, Cause::Limit, "all"),
    rule((408, 408), Sign::Status, Cause::Outage, "all"),
    rule((425, 425), Sign::Status, Cause::Outage, "all"),
    rule((498, 499), Sign::Status, Cause::Outage, "Groq: capacity (498), a cancelled request (499)"),
    rule(CLIENT, Sign::Status, Cause::Request, "all"),
];

/// Types of errors that come with status 200, and the status that they have elsewhere.
const TYPES: &[(&str, u16)] = &[
    ("authentication_error", 401),
    ("permission_error", 403),
    ("permission_denied", 403),
    ("unauthenticated", 401),
    ("rate_limit_error", 429),
    ("resource_exhausted", 429),
    ("rate_limit_exceeded", 429),
    ("tokens", 429),
    ("requests", 429),
    ("insufficient_quota", 429),
    ("invalid_request_error", 400),
    ("invalid_prompt", 400),
    ("invalid_argument", 400),
    ("failed_precondition", 400),
    ("context_length_exceeded", 400),
    ("not_found_error", 404),
    ("model_not_found", 404),
    ("not_found", 404),
    ("request_too_large", 413),
    ("overloaded_error", 529),
    ("unavailable", 503),
];

impl Cause {
    /// The cause of an error reply. `status`: that of HTTP; one of success where the body alone says that it is an error.
    pub fn of(status: u16, body: &[u8]) -> Cause {
        let facts = Facts::of(body);
        // without one, what the body says decides alone
        let status = if status < 400 { facts.status() } else { Some(status) };
        let fits = |rule: &&Rule| {
            status.is_none_or(|status| (rule.status.0..=rule.status.1).contains(&status))
                && match rule.sign {
                    Sign::Status => status.is_some(),
                    Sign::Code(code) => facts.codes.iter().any(|one| one == code),
                    Sign::Words(words) => facts.message.contains(words),
                    Sign::Field(path) => facts.fields.contains(&path),
                }
        };
        RULES.iter().find(fits).map_or(Cause::Outage, |rule| rule.cause)
    }
}

/// The parts of an error body that rules look at, in lower case.
#[derive(Default)]
struct Facts {
    codes: Vec<String>,
    message: String,
    /// The fields of rules that the error has.
    fields: Vec<&'static [&'static str]>,
}

impl Facts {
    fn of(body: &[u8]) -> Facts {
        let Ok(tape) = Tape::parse(body) else {
            return Facts { message: String::from_utf8_lossy(body).to_lowercase(), ..Facts::default() };
        };
        let root = tape.root(body);
        // Gemini answers a stream's request with a list
        let root = if root.is_array() { root.items().next().unwrap_or(root) } else { root };
        let response = root.get("response").unwrap_or(root);
        let error = response.get("error").filter(|error| !error.is_null()).unwrap_or(root);
        let mut facts = Facts::default();
        for object in [root, error] {
            for name in ["code", "type", "status", "error_code"] {
                facts.codes.extend(object.get(name).map(text_of));
            }
        }
        for detail in error.get("details").into_iter().flat_map(Value::items) {
            facts.codes.extend(detail.get("reason").map(text_of));
        }
        let message = error.get("message").or_else(|| root.get("message")).or_else(|| root.get("detail"));
        facts.message = words_of(message.unwrap_or(error));
        let fields = RULES.iter().filter_map(|rule| match rule.sign {
            Sign::Field(path) => Some(path),
            Sign::Status | Sign::Code(_) | Sign::Words(_) => None,
        });
        facts.fields = fields.filter(|path| error.at(path).is_some()).collect();
        facts
    }

    /// The status that an error within a reply of success has elsewhere.
    fn status(&self) -> Option<u16> {
        let number =
            self.codes.iter().find_map(|code| code.parse().ok().filter(|code| (400..600).contains(code)));
        let of_type = || {
            let known = |code: &String| TYPES.iter().find(|(name, _)| name == code);
            self.codes.iter().find_map(known).map(|(_, status)| *status)
        };
        number.or_else(of_type)
    }
}

/// The words of a provider's message, in lower case: a text, or the `msg` of each fault that it lists. Other fields may repeat the request.
fn words_of(message: Value<'_>) -> String {
    match message.as_str() {
        Some(text) => text.to_lowercase(),
        None => {
            let faults = message.items().chain([message]).filter_map(|fault| fault.get("msg"));
            faults.map(text_of).collect::<Vec<_>>().join("\n")
        }
    }
}

/// A string, or the JSON of another value, in lower case.
fn text_of(value: Value<'_>) -> String {
    let text = value.as_str().map_or_else(|| String::from_utf8_lossy(value.raw()).into_owned(), Into::into);
    text.to_lowercase()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "`UPDATE_DOCS` is read by a test")]

    use std::fmt::Write as _;

    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/provider-errors.md");

    #[test]
    fn the_cause_of_an_error_is_seen_in_the_form_of_each_provider() {
        for (status, body, expected) in [
            (
                400,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
                CREDIT,
            ),
            (
                402,
                r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
                CREDIT,
            ),
            (
                400,
                r#"{"error":{"message":"Organization has been restricted.","type":"invalid_request_error","code":"organization_restricted"}}"#,
                CREDIT,
            ),
            (
                429,
                r#"{"error":{"code":429,"message":"Your prepayment credits are depleted.","status":"RESOURCE_EXHAUSTED"}}"#,
                CREDIT,
            ),
            (429, r#"{"error":{"code":"1113","message":"余额不足或无可用资源包,请充值。"}}"#, CREDIT),
            (
                400,
                r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}"#,
                KEY,
            ),
            (
                400,
                r#"[{"error":{"code":400,"message":"Bad key","details":[{"reason":"API_KEY_INVALID"}]}}]"#,
                KEY,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}"#,
                REGION,
            ),
            (
                429,
                r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
                CREDIT,
            ),
            (
                429,
                r#"{"error":{"message":"Rate limit reached","type":"tokens","code":"rate_limit_exceeded"}}"#,
                Cause::Limit,
            ),
            (
                413,
                r#"{"error":{"message":"Request too large","type":"tokens","code":"rate_limit_exceeded"}}"#,
                Cause::Limit,
            ),
            (
                403,
                r#"{"error":{"code":403,"message":"flagged","metadata":{"reasons":["violence"]}}}"#,
                Cause::Request,
            ),
            (403, "<html>forbidden</html>", KEY),
            (400, r#"{"error":{"message":"messages: at least one message is required"}}"#, Cause::Request),
            (422, "", Cause::Request),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Cause::Outage,
            ),
            (500, "", Cause::Outage),
            (200, r#"{"error":{"message":"Rate limited","code":429}}"#, Cause::Limit),
            (200, r#"{"error":{"message":"No credits","code":402}}"#, CREDIT),
            (
                200,
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
                Cause::Outage,
            ),
            (
                200,
                r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"m"}}}"#,
                Cause::Limit,
            ),
            (200, r#"{"error":{"message":"m"}}"#, Cause::Outage),
            (
                200,
                r#"{"type":"response.failed","response":{"error":{"code":"invalid_prompt","message":"m"}}}"#,
                Cause::Request,
            ),
            (
                200,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}"#,
                Cause::Request,
            ),
            (
                200,
                r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}"#,
                CREDIT,
            ),
            (200, r#"{"error":{"code":"content_filter","message":"m"}}"#, Cause::Request),
            (200, r#"{"error":{"message":"Insufficient Balance"}}"#, CREDIT),
            (200, r#"{"error":"Invalid API key"}"#, KEY),
            (
                422,
                r#"{"detail":[{"type":"missing","loc":["body","x"],"msg":"Field required","input":{"prompt":"my credit balance"}}]}"#,
                Cause::Request,
            ),
            (422, r#"{"detail":[{"msg":"Insufficient balance"}]}"#, CREDIT),
            (400, r#"{"detail":"Insufficient balance"}"#, CREDIT),
        ] {
            assert_eq!(Cause::of(status, body.as_bytes()), expected, "{status} {body}");
        }
    }

    /// A body that has exactly the sign of a rule.
    fn example(rule: &Rule) -> String {
        match rule.sign {
            Sign::Status => "{}".to_owned(),
            Sign::Code(code) => format!(r#"{{"error":{{"code":"{code}","message":"m"}}}}"#),
            Sign::Words(words) => format!(r#"{{"error":{{"message":"so: {}."}}}}"#, words.to_uppercase()),
            Sign::Field(_) => r#"{"error":{"metadata":{"reasons":[]}}}"#.to_owned(),
        }
    }

    #[test]
    fn the_page_has_every_rule_and_every_rule_decides_its_example() {
        let mut page = String::from(HEAD);
        for rule in RULES {
            assert_eq!(Cause::of(rule.status.0, example(rule).as_bytes()), rule.cause, "{}", example(rule));
            let status = match rule.status {
                CLIENT => "4xx".to_owned(),
                (from, to) if from == to => from.to_string(),
                (from, to) => format!("{from}, {to}"),
            };
            let sign = match rule.sign {
                Sign::Status => "any".to_owned(),
                Sign::Code(code) => format!("code, type, status or reason `{code}`"),
                Sign::Words(words) => format!("a message with “{words}”"),
                Sign::Field(path) => format!("a field `error.{}`", path.join(".")),
            };
            let cause = match rule.cause {
                Cause::Request => "request",
                CREDIT => "account: credit",
                KEY => "account: key",
                Cause::Account(_) => "account: region",
                Cause::Limit => "limit",
                Cause::Outage => "outage",
            };
            writeln!(page, "| {status} | {sign} | {cause} | {} |", rule.seen).unwrap();
        }
        page.push_str("| 5xx | any | outage | all |\n");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(PAGE, &page).unwrap();
        }
        let written = std::fs::read_to_string(PAGE).unwrap_or_default();
        assert_eq!(written, page, "run the tests of this crate with UPDATE_DOCS=1");
    }

    const HEAD: &str = "# Errors of providers

Generated from the table in `crates/translate/src/refusal.rs` (`UPDATE_DOCS=1 cargo test -p weir-translate` rewrites this page), whose test checks an example of each row.

An error of a provider has one of these causes:

| cause | next target | tried again | the caller gets, if nothing helps |
|---|---|---|---|
| request | no | no | the provider's status and error, in the form of the route's API |
| account (credit, key, region) | yes | no | 502 `upstream_credentials`; the log says which |
| limit | yes | yes, if it asks for at most 5 s | 503 `overloaded` with the `Retry-After` of the provider |
| outage | yes | yes, but for status 501 | 502 `upstream_error` |

The delay that a limit asks for is read from `retry-after-ms`, `Retry-After`, and `retryDelay` in the details of Gemini's errors. A reply with status 200 that is an error has the cause of the status or the type that it names; without one, the rows that ask for more than a status decide, and else it is an outage. One that lays it to the request is answered with 400 and the provider's message.
Errors are neither kept in the cache nor logged as a success. The key of an upstream is removed from everything that its provider sends.

The first row that fits decides. Letter case does not count.

| status | sign | cause | seen at |
|---|---|---|---|
";
}
