//! The types of settings: parsing and rendering.

use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use weir_api::FusionMethod;
use weir_text::Language;

use crate::secret::ApiKey;

/// The role of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything.
    All,
    /// Embeddings and reranking alone: no collections.
    Embed,
    /// Everything but running models: those of other servers.
    Gateway,
}

/// Whether files are read where the child process cannot be isolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandboxing {
    /// They are not.
    Required,
    /// They are.
    BestEffort,
}

/// The API of a server that recognises the text of scans and pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recogniser {
    /// docling-serve: `POST {url}/v1/convert/file`.
    Docling,
    /// Apache Tika: `PUT {url}/tika`.
    Tika,
}

/// Where the request log is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestStore {
    /// In a file of the data folder.
    Sqlite,
    /// In PostgreSQL.
    Postgres,
    /// Nowhere.
    None,
}

/// The precision that a local model computes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit floats.
    F32,
    /// bfloat16.
    Bf16,
    /// Eight-bit integers.
    Int8,
}

impl Precision {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Bf16 => "bf16",
            Precision::Int8 => "int8",
        }
    }
}

/// A value before it is converted to the type of its setting.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A number with a fraction or exponent.
    Float(f64),
    /// A string.
    Text(String),
    /// A string from the environment or a flag, for a value of any type.
    Untyped(String),
}

impl fmt::Display for Scalar {
    /// As in a TOML file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(value) => write!(f, "{value}"),
            Scalar::Integer(value) => write!(f, "{value}"),
            Scalar::Float(value) => write!(f, "{value:?}"),
            Scalar::Text(value) | Scalar::Untyped(value) => write!(f, "{value:?}"),
        }
    }
}

impl Scalar {
    /// The value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Scalar::Bool(value) => (*value).into(),
            Scalar::Integer(value) => (*value).into(),
            Scalar::Float(value) => (*value).into(),
            Scalar::Text(value) | Scalar::Untyped(value) => value.as_str().into(),
        }
    }

    /// The string, if it is one.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Scalar::Text(value) | Scalar::Untyped(value) => Some(value),
            Scalar::Bool(_) | Scalar::Integer(_) | Scalar::Float(_) => None,
        }
    }
}

/// A type of settings. Error messages continue a sentence starting with the name of the setting.
pub(super) trait SettingValue: Sized {
    fn render(&self) -> Scalar;
    fn read(scalar: &Scalar, range: &RangeInclusive<f64>) -> Result<Self, String>;
}

impl SettingValue for bool {
    fn render(&self) -> Scalar {
        Scalar::Bool(*self)
    }

    fn read(scalar: &Scalar, _: &RangeInclusive<f64>) -> Result<bool, String> {
        match scalar {
            Scalar::Bool(value) => Ok(*value),
            Scalar::Untyped(text) => match text.trim() {
                "true" | "1" | "yes" | "on" => Ok(true),
                "false" | "0" | "no" | "off" => Ok(false),
                _ => Err(format!("must be true or false, not {scalar}")),
            },
            Scalar::Integer(_) | Scalar::Float(_) | Scalar::Text(_) => {
                Err(format!("must be true or false, not {scalar}"))
            }
        }
    }
}

fn read_number(scalar: &Scalar) -> Option<f64> {
    match scalar {
        Scalar::Integer(value) => Some(*value as f64),
        Scalar::Float(value) => Some(*value),
        Scalar::Untyped(text) => text.trim().replace('_', "").parse().ok(),
        Scalar::Bool(_) | Scalar::Text(_) => None,
    }
}

fn read_integer(scalar: &Scalar) -> Option<i64> {
    match scalar {
        Scalar::Integer(value) => Some(*value),
        Scalar::Untyped(text) => text.trim().replace('_', "").parse().ok(),
        Scalar::Bool(_) | Scalar::Float(_) | Scalar::Text(_) => None,
    }
}

fn describe(range: &RangeInclusive<f64>) -> String {
    if *range.end() == f64::MAX {
        format!("of {} or more", range.start())
    } else {
        format!("from {} to {}", range.start(), range.end())
    }
}

macro_rules! whole_number {
    ($($kind:ty),+) => { $(
        impl SettingValue for $kind {
            fn render(&self) -> Scalar {
                Scalar::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
            }

            fn read(scalar: &Scalar, range: &RangeInclusive<f64>) -> Result<$kind, String> {
                let in_range = read_integer(scalar).filter(|value| range.contains(&(*value as f64)));
                in_range
                    .and_then(|value| <$kind>::try_from(value).ok())
                    .ok_or_else(|| format!("must be a whole number {}, not {scalar}", describe(range)))
            }
        }
    )+ };
}

whole_number!(u32, u64, usize);

impl SettingValue for f32 {
    fn render(&self) -> Scalar {
        // by the shortest decimal form, so that 0.1 stays 0.1
        Scalar::Float(self.to_string().parse().unwrap_or(f64::from(*self)))
    }

    fn read(scalar: &Scalar, range: &RangeInclusive<f64>) -> Result<f32, String> {
        read_number(scalar)
            .filter(|value| range.contains(value))
            .map(|value| value as f32)
            .ok_or_else(|| format!("must be a number {}, not {scalar}", describe(range)))
    }
}

impl SettingValue for String {
    fn render(&self) -> Scalar {
        Scalar::Text(self.clone())
    }

    fn read(scalar: &Scalar, _: &RangeInclusive<f64>) -> Result<String, String> {
        scalar.as_text().map(str::to_owned).ok_or_else(|| format!("must be a text in quotes, not {scalar}"))
    }
}

impl SettingValue for Option<ApiKey> {
    fn render(&self) -> Scalar {
        Scalar::Text(self.as_ref().map(ToString::to_string).unwrap_or_default())
    }

    fn read(scalar: &Scalar, _: &RangeInclusive<f64>) -> Result<Option<ApiKey>, String> {
        match scalar.as_text() {
            Some("") => Ok(None),
            text => ApiKey::parse(text.unwrap_or_default()).map(Some),
        }
    }
}

impl SettingValue for PathBuf {
    fn render(&self) -> Scalar {
        Scalar::Text(self.display().to_string())
    }

    fn read(scalar: &Scalar, _: &RangeInclusive<f64>) -> Result<PathBuf, String> {
        match scalar.as_text() {
            Some("") => Err("must name a folder, not be empty".to_owned()),
            Some(text) => Ok(PathBuf::from(text)),
            None => Err(format!("must be a path in quotes, not {scalar}")),
        }
    }
}

impl SettingValue for SocketAddr {
    fn render(&self) -> Scalar {
        Scalar::Text(self.to_string())
    }

    fn read(scalar: &Scalar, _: &RangeInclusive<f64>) -> Result<SocketAddr, String> {
        let text = scalar.as_text().unwrap_or_default();
        let numeric = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        numeric.parse().map_err(|_| {
            format!(
                "must be an IP address with a port such as \"127.0.0.1:8000\" or \"[::1]:8000\", not {scalar}"
            )
        })
    }
}

impl SettingValue for Language {
    fn render(&self) -> Scalar {
        Scalar::Text(self.name().to_owned())
    }

    fn read(scalar: &Scalar, _: &RangeInclusive<f64>) -> Result<Language, String> {
        scalar.as_text().and_then(Language::parse).ok_or_else(|| {
            let names: Vec<&str> = Language::all().iter().map(|language| language.name()).collect();
            format!("must be one of {}, not {scalar}", names.join(", "))
        })
    }
}

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// `Text` on a terminal, `Json` otherwise.
    Auto,
    /// Lines for humans.
    Text,
    /// One JSON object per line.
    Json,
}

/// The lowest level to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Failures.
    Error,
    /// Degraded operation and likely failures.
    Warn,
    /// Normal events.
    Info,
    /// Details of events.
    Debug,
    /// Everything.
    Trace,
}

/// Implements [`SettingValue`] for an enum.
macro_rules! choice {
    ($kind:ident: $($name:literal => $value:ident),+) => {
        impl SettingValue for $kind {
            fn render(&self) -> Scalar {
                Scalar::Text(match self { $( $kind::$value => $name, )+ }.to_owned())
            }

            fn read(scalar: &Scalar, _: &RangeInclusive<f64>) -> Result<$kind, String> {
                match scalar.as_text() {
                    $( Some($name) => Ok($kind::$value), )+
                    Some(_) | None => Err(format!("must be one of {}, not {scalar}", [$($name),+].join(", "))),
                }
            }
        }
    };
}

choice!(LogFormat: "auto" => Auto, "text" => Text, "json" => Json);
choice!(LogLevel: "error" => Error, "warn" => Warn, "info" => Info, "debug" => Debug, "trace" => Trace);
choice!(Precision: "f32" => F32, "bf16" => Bf16, "int8" => Int8);
choice!(RequestStore: "sqlite" => Sqlite, "postgres" => Postgres, "none" => None);
choice!(Recogniser: "docling" => Docling, "tika" => Tika);
choice!(Sandboxing: "required" => Required, "best_effort" => BestEffort);
choice!(Role: "all" => All, "embed" => Embed, "gateway" => Gateway);
choice!(FusionMethod: "convex" => Convex, "rrf" => Rrf);
