//! The environment variables, read once.

use std::collections::BTreeMap;
use std::ffi::OsString;

/// The environment variables of a process; tests use their own.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// This process's environment.
    pub fn of_process() -> Environment {
        Environment { variables: std::env::vars_os().collect() }
    }

    /// An environment with these variables.
    pub fn of(variables: &[(&str, &str)]) -> Environment {
        Environment { variables: variables.iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }

    /// The value of a variable; an empty one counts as absent.
    pub fn get(&self, name: &str) -> Option<&OsString> {
        self.variables.get(&OsString::from(name)).filter(|value| !value.is_empty())
    }

    /// Whether the user disabled colours (<https://no-color.org>).
    pub fn is_colour_disabled(&self) -> bool {
        self.get("NO_COLOR").is_some() || self.get("TERM").is_some_and(|term| term == "dumb")
    }

    /// The variables whose names begin with `WEIR_`, in order.
    pub(super) fn weir_variables(&self) -> impl Iterator<Item = (&str, &OsString)> {
        self.variables.iter().filter_map(|(name, value)| {
            let name = name.to_str()?;
            (name.starts_with("WEIR_") && !value.is_empty()).then_some((name, value))
        })
    }
}
