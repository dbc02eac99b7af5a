//! Problems of a configuration, each with its location.

use std::fmt;
use std::path::PathBuf;

use weir_api::similar_names;

/// Names that a hint suggests at most.
const SUGGESTED_MAX: usize = 3;
/// All accepted names are in the hint if there are no more than these.
const LISTED_MAX: usize = 24;

/// Where a value is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A line of the file, from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A command-line flag.
    Flag(&'static str),
    /// Several values together, or a missing value.
    General,
}

impl Location {
    /// The line of the file; other locations sort after all lines.
    pub(super) fn line(&self) -> usize {
        match self {
            Location::File { line, .. } => *line,
            Location::Variable(_) | Location::Flag(_) | Location::General => usize::MAX,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File { path, line } => write!(f, "{}:{line}: ", path.display()),
            Location::Variable(name) => write!(f, "{name}: "),
            Location::Flag(name) => write!(f, "{name}: "),
            Location::General => Ok(()),
        }
    }
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it is.
    pub location: Location,
    /// The problem, in lower case.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
}

impl Problem {
    pub(super) fn new(location: Location, message: impl Into<String>) -> Problem {
        Problem { location, message: message.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// A name that is not one of `accepted`. The hint has the most similar names, and all of them if they are few.
    pub(super) fn unknown(location: Location, what: &str, name: &str, accepted: &[String]) -> Problem {
        let problem = Problem::new(location, format!("unknown {what} `{name}`"));
        let names: Vec<&str> = accepted.iter().map(String::as_str).collect();
        let all = match names.len() {
            0..=LISTED_MAX => format!("accepted: {}", names.join(", ")),
            _ => "`weir config show` lists all".to_owned(),
        };
        let similar: Vec<String> =
            similar_names(name, &names).iter().take(SUGGESTED_MAX).map(|name| format!("`{name}`")).collect();
        match similar.as_slice() {
            [] => problem.hint(all),
            _ => problem.hint(format!("did you mean {}? ({all})", similar.join(" or "))),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.location, self.message)
    }
}

/// All problems; never empty. Of several, each is shown with its hint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => write!(f, "{only}"),
            several => {
                write!(f, "the configuration has {} problems", several.len())?;
                several.iter().try_for_each(|problem| {
                    write!(f, "\n  {problem}")?;
                    problem.hint.iter().try_for_each(|hint| write!(f, "\n    hint: {hint}"))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_similar_ones() {
        let hint = |name: &str, accepted: &[String]| {
            Problem::unknown(Location::General, "setting", name, accepted).hint.unwrap()
        };
        let few = ["listen", "data_dir"].map(str::to_owned);
        assert_eq!(hint("lisen", &few), "did you mean `listen`? (accepted: listen, data_dir)");
        assert_eq!(hint("colour", &few), "accepted: listen, data_dir");
        let many: Vec<String> = (0..30).map(|number| format!("limits.value_{number}")).collect();
        let similar = hint("limits.valeu_1", &many);
        assert!(similar.starts_with("did you mean `limits.value_1` or `limits."), "{similar}");
        assert!(similar.ends_with("? (`weir config show` lists all)"), "{similar}");
        assert_eq!(similar.matches(" or ").count(), 2, "{similar}");
    }
}
