//! Secrets: the configuration names an environment variable or a file, and the value is never shown.

use std::fmt;
use std::path::PathBuf;

use crate::environment::Environment;

/// A value that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(super) fn new(text: &str) -> Secret {
        Secret(text.to_owned())
    }

    /// The value.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// The API key for an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    source: KeySource,
    value: Result<Secret, String>,
}

/// Where a key is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
enum KeySource {
    Variable(String),
    File(PathBuf),
}

/// The message for an invalid `api_key`. It does not repeat the invalid value, which may be the key itself.
const FORMAT: &str =
    "must be \"env:NAME\" or \"file:PATH\": do not write the key itself into the configuration file";
/// The same for an argument of the command line.
const ARGUMENT_FORMAT: &str =
    "it must be env:NAME or file:PATH: arguments can be read by other users of the machine";

/// Upper bound of the bytes of a key.
const KEY_BYTES_MAX: usize = 8 << 10;

impl ApiKey {
    /// Parses `env:NAME` or `file:PATH`. [`ApiKey::read`] reads the key.
    ///
    /// # Errors
    /// A message that continues a sentence starting with the name of the field.
    pub(super) fn parse(text: &str) -> Result<ApiKey, String> {
        let source = match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() => KeySource::Variable(name.to_owned()),
            Some(("file", path)) if !path.is_empty() => KeySource::File(path.into()),
            Some(_) | None => return Err(FORMAT.to_owned()),
        };
        Ok(ApiKey { source, value: Err("it was not read yet".to_owned()) })
    }

    /// The key that an argument of the command line names as `env:NAME` or `file:PATH`, already read.
    ///
    /// # Errors
    /// The reason, if it names neither.
    pub fn of_argument(text: &str, environment: &Environment) -> Result<ApiKey, String> {
        let mut key = ApiKey::parse(text).map_err(|_| ARGUMENT_FORMAT.to_owned())?;
        key.read(environment);
        Ok(key)
    }

    /// Reads the key.
    pub(super) fn read(&mut self, environment: &Environment) {
        let text = match &self.source {
            KeySource::Variable(name) => match environment.get(name) {
                Some(value) => {
                    value.to_str().map(str::to_owned).ok_or(format!("the variable {name} is not UTF-8"))
                }
                None => Err(format!("the variable {name} is not set")),
            },
            KeySource::File(path) => std::fs::read_to_string(path)
                .map_err(|error| format!("the file {} can't be read: {error}", path.display())),
        };
        self.value = text.and_then(|text| {
            let key = text.trim();
            let is_valid =
                !key.is_empty() && key.len() <= KEY_BYTES_MAX && key.bytes().all(|b| b.is_ascii_graphic());
            if is_valid {
                Ok(Secret::new(key))
            } else {
                Err(format!("{self} is not a key: it must be one word of ASCII"))
            }
        });
    }

    /// The name of its environment variable.
    pub(super) fn variable(&self) -> Option<&str> {
        match &self.source {
            KeySource::Variable(name) => Some(name),
            KeySource::File(_) => None,
        }
    }

    /// The key.
    ///
    /// # Errors
    /// The reason why it can't be read.
    pub fn secret(&self) -> Result<&Secret, &str> {
        self.value.as_ref().map_err(String::as_str)
    }
}

impl fmt::Display for ApiKey {
    /// As in the configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            KeySource::Variable(name) => write!(f, "env:{name}"),
            KeySource::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(written: &str, expected: Result<&str, &str>) {
        let environment = Environment::of(&[("KEY", "sk-1"), ("BLANK", " "), ("TWO", "a b")]);
        let mut key = ApiKey::parse(written).unwrap();
        key.read(&environment);
        assert_eq!(key.secret().map(Secret::reveal), expected, "{written}");
        assert_eq!(key.to_string(), written);
        assert!(!format!("{key:?}").contains("sk-1"), "{key:?}");
    }

    #[test]
    fn a_key_is_read_from_a_variable_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "sk-2\n").unwrap();
        check("env:KEY", Ok("sk-1"));
        check(&format!("file:{}", file.display()), Ok("sk-2"));
        check("env:ABSENT", Err("the variable ABSENT is not set"));
        check("env:BLANK", Err("env:BLANK is not a key: it must be one word of ASCII"));
        check("env:TWO", Err("env:TWO is not a key: it must be one word of ASCII"));
    }

    #[test]
    fn a_key_in_the_configuration_is_refused_without_repeating_it() {
        for written in ["sk-secret", "env:", "key:sk-secret", ""] {
            assert_eq!(ApiKey::parse(written), Err(FORMAT.to_owned()));
        }
    }
}
