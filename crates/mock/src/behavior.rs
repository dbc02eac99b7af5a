//! The options of a reply: one table, from which flags and headers follow.
//!
//! An option `tokens` is the flag `--tokens`, which applies to all requests, and the header `x-mock-tokens`, which applies to
//! one. Both are parsed by [`Behavior::set`].

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use http::HeaderMap;

use crate::chaos::{FAULTS, Fault, FaultRates};
use crate::echo::Echo;
use crate::quirks::QuirkSet;
use crate::reply::{RESPONSE_BYTES_MAX, TOKENS_MAX};
use crate::timing::{DELAY_MS_MAX, JITTER_MAX, Profile};

/// Prefix of an option's name in a header.
const HEADER_PREFIX: &str = "x-mock-";
/// The option that can be repeated.
const QUIRK: &str = "quirk";
/// Largest `--cut-bytes`.
const CUT_BYTES_MAX: u64 = 64 * 1024;
/// Largest `--retry-after-s`: a day.
const RETRY_AFTER_S_MAX: u64 = 86_400;

/// How a request is answered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Behavior {
    /// Tokens of a reply.
    pub tokens: u64,
    /// Length of a reply's text, instead of `tokens`.
    pub response_bytes: Option<u64>,
    /// The part of the prompt to repeat, instead of `tokens`.
    pub echo: Echo,
    /// Shapes of single providers.
    pub quirks: QuirkSet,
    /// Mean delay before the headers.
    pub latency_ms: f64,
    /// Mean delay from the headers to the first token.
    pub first_token_ms: f64,
    /// Mean delay between two tokens.
    pub token_ms: f64,
    /// Distribution of the three delays.
    pub profile: Profile,
    /// Its width.
    pub jitter: f64,
    /// Length of a stall.
    pub stall_ms: f64,
    /// Every request is answered with this error.
    pub status: Option<u16>,
    /// `Retry-After` of a 429.
    pub retry_after_s: u64,
    /// Most bytes per write to the socket; 0 is no limit.
    pub cut_bytes: u64,
    /// Pause between two such writes.
    pub cut_pause_ms: f64,
    /// Rates of the faults.
    pub faults: FaultRates,
}

/// One row of the table of options.
#[derive(Debug, Clone, Copy)]
pub struct BehaviorOption {
    /// Name without prefix: `tokens` is the flag `--tokens` and the header `x-mock-tokens`.
    pub name: &'static str,
    /// Unit or kind of the value.
    pub value: &'static str,
    /// The value without flag and header; `None`: not used.
    pub default: Option<&'static str>,
    /// Effect.
    pub help: &'static str,
}

const fn option(
    name: &'static str,
    value: &'static str,
    default: Option<&'static str>,
    help: &'static str,
) -> BehaviorOption {
    BehaviorOption { name, value, default, help }
}

/// The options that are no faults.
const OPTIONS: [BehaviorOption; 14] = [
    option("tokens", "N", Some("16"), "Tokens of a reply; the request's limit of tokens bounds them"),
    option("response-bytes", "BYTES", None, "Exact length of a reply's text, instead of --tokens"),
    option(
        "echo",
        "WHAT",
        Some("off"),
        "Repeat of the prompt, instead of --tokens: off, the last user message, all messages, or cite its sources (last, all, cite)",
    ),
    option(QUIRK, "NAME", Some("none"), "Shape of a single provider; repeatable, or separated by commas"),
    option("latency-ms", "MS", Some("0"), "Mean delay before the headers"),
    option("first-token-ms", "MS", Some("0"), "Mean delay from the headers to the first token"),
    option("token-ms", "MS", Some("0"), "Mean delay between two tokens"),
    option(
        "profile",
        "NAME",
        Some("constant"),
        "Distribution of these delays: constant, uniform or lognormal",
    ),
    option("jitter", "SHARE", Some("0.5"), "Width of uniform (share of the mean), sigma of lognormal"),
    option("stall-ms", "MS", Some("600000"), "Length of a stall, after which the reply continues"),
    option("status", "CODE", None, "Answer with this error, 400 to 599"),
    option("retry-after-s", "S", Some("1"), "Retry-After of a 429"),
    option(
        "cut-bytes",
        "BYTES",
        Some("0"),
        "Write at most this many bytes at once, heads included; 0 is no limit",
    ),
    option("cut-pause-ms", "MS", Some("0"), "Pause between two writes of --cut-bytes"),
];

/// Every option of a reply: lengths, delays, then faults.
pub fn options() -> impl Iterator<Item = BehaviorOption> {
    let faults = FAULTS.iter().map(|(_, name, help)| option(name, "RATE", Some("0"), help));
    OPTIONS.into_iter().chain(faults)
}

/// Headers of other mocks: name, option, divisor of the value.
///
/// `X-Vidai-…` as in VidaiMock 0.3: its "drop" is an error 500, its "disconnect" a closed connection.
const PUBLISHED: [(&str, &str, f64); 6] = [
    ("x-response-size", "response-bytes", 1.0),
    ("x-vidai-latency", "latency-ms", 1.0),
    ("x-vidai-chaos-drop", "status-500", 100.0),
    ("x-vidai-chaos-malformed", "malformed", 100.0),
    ("x-vidai-chaos-disconnect", "drop-midstream", 100.0),
    ("x-vidai-chaos-trickle", "token-ms", 1.0),
];

/// Headers of other mocks that are understood, each with the option that it sets.
pub fn published_headers() -> impl Iterator<Item = (&'static str, &'static str)> {
    PUBLISHED.iter().map(|(header, name, _)| (*header, *name))
}

/// A flag or a header that is not understood.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OptionError {
    /// A header `x-mock-…` that isn't in the table.
    #[error("`{name}` is not an option of weir-mock; the options are {}", names())]
    Unknown {
        /// As sent.
        name: String,
    },
    /// A value out of range.
    #[error("`{name}` is `{value}`, but must be {expected}")]
    Value {
        /// The option or header.
        name: String,
        /// As sent.
        value: String,
        /// The range.
        expected: String,
    },
}

fn names() -> String {
    options().map(|option| option.name).collect::<Vec<_>>().join(", ")
}

impl Default for Behavior {
    fn default() -> Behavior {
        Behavior {
            tokens: 16,
            response_bytes: None,
            echo: Echo::Off,
            quirks: QuirkSet::default(),
            latency_ms: 0.0,
            first_token_ms: 0.0,
            token_ms: 0.0,
            profile: Profile::Constant,
            jitter: 0.5,
            stall_ms: DELAY_MS_MAX,
            status: None,
            retry_after_s: 1,
            cut_bytes: 0,
            cut_pause_ms: 0.0,
            faults: FaultRates::NONE,
        }
    }
}

impl Behavior {
    /// Sets the option `name` from text.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), OptionError> {
        let given = Given { name, value };
        match name {
            "tokens" => self.tokens = given.count(1, TOKENS_MAX)?,
            "response-bytes" => self.response_bytes = Some(given.count(1, RESPONSE_BYTES_MAX)?),
            "echo" => self.echo = given.echo()?,
            QUIRK => self.quirks = QuirkSet::parse(value)?,
            "latency-ms" => self.latency_ms = given.number(DELAY_MS_MAX)?,
            "first-token-ms" => self.first_token_ms = given.number(DELAY_MS_MAX)?,
            "token-ms" => self.token_ms = given.number(DELAY_MS_MAX)?,
            "profile" => self.profile = given.profile()?,
            "jitter" => self.jitter = given.number(JITTER_MAX)?,
            "stall-ms" => self.stall_ms = given.number(DELAY_MS_MAX)?,
            "status" => self.status = Some(given.count(400, 599)? as u16),
            "retry-after-s" => self.retry_after_s = given.count(0, RETRY_AFTER_S_MAX)?,
            "cut-bytes" => self.cut_bytes = given.count(0, CUT_BYTES_MAX)?,
            "cut-pause-ms" => self.cut_pause_ms = given.number(DELAY_MS_MAX)?,
            _ => self.faults.set(given.fault()?, given.number(1.0)?),
        }
        Ok(())
    }

    /// This behavior, changed by the headers of a request.
    pub(crate) fn with_headers(mut self, headers: &HeaderMap) -> Result<Behavior, OptionError> {
        for (header, value) in headers {
            let Some(rest) = header.as_str().strip_prefix("x-") else { continue };
            let value = value.to_str().unwrap_or("not ASCII").trim();
            if rest.starts_with("mock-") {
                self.set(&header.as_str()[HEADER_PREFIX.len()..], value)?;
            } else if let Some((_, name, divisor)) = PUBLISHED.iter().find(|row| row.0 == header.as_str()) {
                self.set_published(header.as_str(), value, name, *divisor)?;
            }
        }
        Ok(self)
    }

    /// Sets an option from the header of another mock. Errors name that header.
    fn set_published(
        &mut self,
        header: &str,
        value: &str,
        name: &str,
        divisor: f64,
    ) -> Result<(), OptionError> {
        let wrong = |expected: String| OptionError::Value {
            name: header.to_owned(),
            value: value.to_owned(),
            expected,
        };
        let number: f64 = value.parse().map_err(|_| wrong("a number".to_owned()))?;
        self.set(name, &(number / divisor).to_string()).map_err(|error| match error {
            OptionError::Value { expected, .. } if divisor == 1.0 => wrong(expected),
            OptionError::Value { .. } | OptionError::Unknown { .. } => wrong(format!("0 to {divisor}")),
        })
    }
}

/// An option's name and its text.
struct Given<'a> {
    name: &'a str,
    value: &'a str,
}

impl Given<'_> {
    fn wrong(&self, expected: String) -> OptionError {
        OptionError::Value { name: self.name.to_owned(), value: self.value.to_owned(), expected }
    }

    fn count(&self, min: u64, max: u64) -> Result<u64, OptionError> {
        let parsed = self.value.parse().ok().filter(|number| (min..=max).contains(number));
        parsed.ok_or_else(|| self.wrong(format!("a whole number from {min} to {max}")))
    }

    fn number(&self, max: f64) -> Result<f64, OptionError> {
        let parsed = self.value.parse().ok().filter(|number| (0.0..=max).contains(number));
        parsed.ok_or_else(|| self.wrong(format!("a number from 0 to {max}")))
    }

    fn profile(&self) -> Result<Profile, OptionError> {
        match self.value {
            "constant" => Ok(Profile::Constant),
            "uniform" => Ok(Profile::Uniform),
            "lognormal" => Ok(Profile::Lognormal),
            _ => Err(self.wrong("constant, uniform or lognormal".to_owned())),
        }
    }

    fn echo(&self) -> Result<Echo, OptionError> {
        match self.value {
            "off" => Ok(Echo::Off),
            "last" => Ok(Echo::Last),
            "all" => Ok(Echo::All),
            "cite" => Ok(Echo::Cite),
            _ => Err(self.wrong("off, last, all or cite".to_owned())),
        }
    }

    fn fault(&self) -> Result<Fault, OptionError> {
        let found = FAULTS.iter().find(|(_, name, _)| *name == self.name);
        found.map(|row| row.0).ok_or_else(|| OptionError::Unknown { name: self.name.to_owned() })
    }
}

impl clap::FromArgMatches for Behavior {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Behavior, clap::Error> {
        let mut behavior = Behavior::default();
        behavior.update_from_arg_matches(matches)?;
        Ok(behavior)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in options() {
            if let Some(values) = matches.get_many::<String>(option.name) {
                let value = values.map(String::as_str).collect::<Vec<_>>().join(",");
                self.set(option.name, &value)
                    .map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, error))?;
            }
        }
        Ok(())
    }
}

impl clap::Args for Behavior {
    fn augment_args(command: Command) -> Command {
        command.args(options().map(|option| {
            let is_fault = FAULTS.iter().any(|(_, name, _)| *name == option.name);
            let heading = if is_fault { "Faults (share of requests, 0 to 1)" } else { "Replies" };
            let arg = Arg::new(option.name)
                .long(option.name)
                .value_name(option.value)
                .help(option.help)
                .help_heading(heading)
                .action(if option.name == QUIRK { ArgAction::Append } else { ArgAction::Set });
            match option.default {
                Some(default) => arg.default_value(default).hide_default_value(is_fault),
                None => arg,
            }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Behavior::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_the_table_are_those_of_the_code() {
        let mut from_table = Behavior::default();
        for option in options() {
            if let Some(default) = option.default {
                from_table.set(option.name, default).unwrap();
            }
        }
        assert_eq!(from_table, Behavior::default());
    }

    #[track_caller]
    fn check(header: &str, value: &str, expected: Result<Behavior, &str>) {
        let mut headers = HeaderMap::new();
        let name: http::HeaderName = header.parse().unwrap();
        headers.insert(name, value.parse().unwrap());
        let found = Behavior::default().with_headers(&headers).map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{header}: {value}");
    }

    fn with_fault(fault: Fault, rate: f64) -> Behavior {
        let mut behavior = Behavior::default();
        behavior.faults.set(fault, rate);
        behavior
    }

    #[test]
    fn headers_change_the_options_that_they_name() {
        check("x-mock-tokens", "3", Ok(Behavior { tokens: 3, ..Behavior::default() }));
        check("x-mock-profile", "uniform", Ok(Behavior { profile: Profile::Uniform, ..Behavior::default() }));
        check("x-mock-echo", "cite", Ok(Behavior { echo: Echo::Cite, ..Behavior::default() }));
        check("x-mock-no-done", "1", Ok(with_fault(Fault::NoDone, 1.0)));
        check("x-mock-status", "529", Ok(Behavior { status: Some(529), ..Behavior::default() }));
        check("x-request-id", "tokens", Ok(Behavior::default()));
        check("tokens", "3", Ok(Behavior::default()));
    }

    #[test]
    fn headers_of_other_mocks_are_understood() {
        check("x-response-size", "1024", Ok(Behavior { response_bytes: Some(1024), ..Behavior::default() }));
        check("x-vidai-latency", "250", Ok(Behavior { latency_ms: 250.0, ..Behavior::default() }));
        check("x-vidai-chaos-drop", "25", Ok(with_fault(Fault::Status500, 0.25)));
        check("x-vidai-chaos-disconnect", "100", Ok(with_fault(Fault::DropMidstream, 1.0)));
    }

    #[test]
    fn errors_name_the_header_and_the_range() {
        check("x-mock-tokens", "0", Err("`tokens` is `0`, but must be a whole number from 1 to 500000"));
        check("x-mock-gzip", "1.5", Err("`gzip` is `1.5`, but must be a number from 0 to 1"));
        check("x-mock-jitter", "NaN", Err("`jitter` is `NaN`, but must be a number from 0 to 3"));
        check("x-mock-status", "200", Err("`status` is `200`, but must be a whole number from 400 to 599"));
        check(
            "x-mock-profile",
            "normal",
            Err("`profile` is `normal`, but must be constant, uniform or lognormal"),
        );
        check("x-mock-echo", "on", Err("`echo` is `on`, but must be off, last, all or cite"));
        check("x-vidai-chaos-drop", "101", Err("`x-vidai-chaos-drop` is `101`, but must be 0 to 100"));
        check(
            "x-vidai-latency",
            "-1",
            Err("`x-vidai-latency` is `-1`, but must be a number from 0 to 600000"),
        );
        let error = OptionError::Unknown { name: "token".to_owned() }.to_string();
        check("x-mock-token", "3", Err(&error));
        assert!(
            error.starts_with("`token` is not an option of weir-mock; the options are tokens, "),
            "{error}"
        );
    }
}
