//! What is wrong with a configuration: all of it at once, each with its place.

use std::fmt;
use std::path::PathBuf;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A line of the file, from 1.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
    /// Nowhere: it follows from several values or from a missing one.
    Nowhere,
}

impl Place {
    /// The line of the file; those elsewhere come after all lines.
    pub(super) fn line(&self) -> usize {
        match self {
            Place::File { line, .. } => *line,
            Place::Variable(_) | Place::Flag(_) | Place::Nowhere => usize::MAX,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { path, line } => write!(f, "{}:{line}: ", path.display()),
            Place::Variable(name) => write!(f, "{name}: "),
            Place::Flag(name) => write!(f, "{name}: "),
            Place::Nowhere => Ok(()),
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What, in lower case.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Problem {
    pub(super) fn new(place: Place, message: impl Into<String>) -> Problem {
        Problem { place, message: message.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// A name that stands where one of `accepted` is expected.
    pub(super) fn unknown(place: Place, what: &str, name: &str, accepted: &[String]) -> Problem {
        let problem = Problem::new(place, format!("unknown {what} `{name}`"));
        let list = accepted.join(", ");
        match nearest(name, accepted) {
            Some(near) => problem.hint(format!("did you mean `{near}`? Accepted: {list}")),
            None => problem.hint(format!("accepted: {list}")),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.message)
    }
}

/// Everything that is wrong; never empty.
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

/// The name among `accepted` that is most like `name`, when one is like it: at most a third of its letters differ.
fn nearest<'a>(name: &str, accepted: &'a [String]) -> Option<&'a String> {
    let (distance, near) = accepted
        .iter()
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .min_by_key(|pair| pair.0)?;
    (distance * 3 <= name.chars().count().max(3)).then_some(near)
}

/// How many letters must be added, removed or changed to make `b` of `a` (Levenshtein).
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
    fn distances_count_the_letters_that_differ() {
        for (a, b, expected) in [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("flaw", "lawn", 2)] {
            assert_eq!(edit_distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_name_is_offered_only_when_it_is_near() {
        let accepted = ["listen".to_owned(), "data_dir".to_owned()];
        assert_eq!(nearest("lisen", &accepted).map(String::as_str), Some("listen"));
        assert_eq!(nearest("colour", &accepted), None);
    }
}
