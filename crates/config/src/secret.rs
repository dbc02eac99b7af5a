//! Secrets: named in the configuration, read from the environment or a file, never shown.

use std::fmt;
use std::path::PathBuf;

use crate::environment::Environment;

/// A text that is never written anywhere but where it is meant to go.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub(super) fn new(text: &str) -> Secret {
        Secret(text.to_owned())
    }

    /// The text itself, for the one who has to send it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// The key for an upstream: where it stands, and what was found there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    source: KeySource,
    found: Result<Secret, String>,
}

/// Where a key stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum KeySource {
    Variable(String),
    File(PathBuf),
}

/// What a key may look like in the configuration. A message with it never repeats what was written, for that may be the key itself.
const FORMS: &str =
    "must be \"env:NAME\" or \"file:PATH\": a key itself has no place in a configuration file";

/// Bytes of a key, at most.
const KEY_BYTES_MAX: usize = 8 << 10;

impl ApiKey {
    /// Reads `env:NAME` or `file:PATH`. The key is read by [`ApiKey::read`].
    ///
    /// # Errors
    /// The end of a sentence that begins with the field's name.
    pub(super) fn parse(text: &str) -> Result<ApiKey, String> {
        let source = match text.split_once(':') {
            Some(("env", name)) if !name.is_empty() => KeySource::Variable(name.to_owned()),
            Some(("file", path)) if !path.is_empty() => KeySource::File(path.into()),
            Some(_) | None => return Err(FORMS.to_owned()),
        };
        Ok(ApiKey { source, found: Err("it was not read yet".to_owned()) })
    }

    /// Looks for the key.
    pub(super) fn read(&mut self, environment: &Environment) {
        let found = match &self.source {
            KeySource::Variable(name) => match environment.get(name) {
                Some(value) => {
                    value.to_str().map(str::to_owned).ok_or(format!("the variable {name} is not UTF-8"))
                }
                None => Err(format!("the variable {name} is not set")),
            },
            KeySource::File(path) => std::fs::read_to_string(path)
                .map_err(|error| format!("the file {} can't be read: {error}", path.display())),
        };
        self.found = found.and_then(|text| {
            let key = text.trim();
            let is_sound =
                !key.is_empty() && key.len() <= KEY_BYTES_MAX && key.bytes().all(|b| b.is_ascii_graphic());
            if is_sound {
                Ok(Secret::new(key))
            } else {
                Err(format!("{self} holds no key: it must be one word of ASCII"))
            }
        });
    }

    /// The name of the variable that it stands in.
    pub(super) fn variable(&self) -> Option<&str> {
        match &self.source {
            KeySource::Variable(name) => Some(name),
            KeySource::File(_) => None,
        }
    }

    /// The key, or why there is none.
    ///
    /// # Errors
    /// What is missing.
    pub fn secret(&self) -> Result<&Secret, &str> {
        self.found.as_ref().map_err(String::as_str)
    }
}

impl fmt::Display for ApiKey {
    /// As it is written in the configuration.
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
    fn a_key_is_read_from_where_the_configuration_says() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::fs::write(&file, "sk-2\n").unwrap();
        check("env:KEY", Ok("sk-1"));
        check(&format!("file:{}", file.display()), Ok("sk-2"));
        check("env:ABSENT", Err("the variable ABSENT is not set"));
        check("env:BLANK", Err("env:BLANK holds no key: it must be one word of ASCII"));
        check("env:TWO", Err("env:TWO holds no key: it must be one word of ASCII"));
    }

    #[test]
    fn a_key_in_the_configuration_itself_is_refused_without_repeating_it() {
        for written in ["sk-secret", "env:", "key:sk-secret", ""] {
            assert_eq!(ApiKey::parse(written), Err(FORMS.to_owned()));
        }
    }
}
