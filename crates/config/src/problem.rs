//! Problems of a configuration, each with its location.

use std::fmt;
use std::path::PathBuf;

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
    /// What is wrong, in lower case.
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

    /// A name that is not one of `accepted`.
    pub(super) fn unknown(location: Location, what: &str, name: &str, accepted: &[String]) -> Problem {
        let problem = Problem::new(location, format!("unknown {what} `{name}`"));
        let list = accepted.join(", ");
        match nearest(name, accepted) {
            Some(near) => problem.hint(format!("did you mean `{near}`? Accepted: {list}")),
            None => problem.hint(format!("accepted: {list}")),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.location, self.message)
    }
}

/// All problems; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => write!(f, "{only}"),
            several => {
                write!(f, "the configuration has {} problems", several.len())?;
                several.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

/// The most similar name among `accepted`, if at most a third of the letters of `name` differ.
fn nearest<'a>(name: &str, accepted: &'a [String]) -> Option<&'a String> {
    let (distance, near) = accepted
        .iter()
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .min_by_key(|pair| pair.0)?;
    (distance * 3 <= name.chars().count().max(3)).then_some(near)
}

/// The Levenshtein distance: letters to insert, delete or substitute to get from `a` to `b`.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let changed = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_letters_that_differ() {
        for (a, b, expected) in [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("flaw", "lawn", 2)] {
            assert_eq!(edit_distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn a_name_is_suggested_only_if_it_is_similar() {
        let accepted = ["listen".to_owned(), "data_dir".to_owned()];
        assert_eq!(nearest("lisen", &accepted).map(String::as_str), Some("listen"));
        assert_eq!(nearest("colour", &accepted), None);
    }
}
