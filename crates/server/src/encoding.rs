//! How a request wants its embeddings: as JSON, base64, raw bytes or an Arrow stream.

use axum::http::{HeaderMap, header};
use weir_api::{EmbeddingDtype, EncodingFormat, ErrorCode, Invalid};

/// The media types of replies that are no JSON.
pub(super) const RAW: &str = "application/octet-stream";
pub(super) const ARROW: &str = "application/vnd.apache.arrow.stream";

/// How embeddings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Numbers in JSON.
    Json(EmbeddingDtype),
    /// Base64 in JSON.
    Base64(EmbeddingDtype),
    /// The bytes of all embeddings.
    Raw(EmbeddingDtype),
    /// A stream of Apache Arrow.
    Arrow,
}

/// The encoding that a request's fields ask for.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) format: Option<EncodingFormat>,
    pub(super) dtype: Option<EmbeddingDtype>,
}

impl Encoding {
    /// Whether a reply is another text or other bytes than the floats in memory.
    pub(super) fn is_rendered(self) -> bool {
        self != Encoding::Raw(EmbeddingDtype::Float32)
    }

    /// The encoding that `Accept` and the fields of a request ask for. `Accept` may name the type of the numbers:
    /// `application/octet-stream; dtype=float16`.
    ///
    /// # Errors
    /// `invalid_parameter` for an unknown type, and for one that the encoding does not have.
    pub(super) fn of(headers: &HeaderMap, wanted: &Wanted) -> Result<Encoding, Invalid> {
        let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        for media in accept.flat_map(|value| value.split(',')) {
            let mut parts = media.split(';').map(str::trim);
            let essence = parts.next().unwrap_or_default();
            if essence.eq_ignore_ascii_case(RAW) {
                let named =
                    parts.find_map(|part| part.strip_prefix("dtype=")).map(dtype_named).transpose()?;
                return Ok(Encoding::Raw(named.or(wanted.dtype).unwrap_or_default()));
            }
            if essence.eq_ignore_ascii_case(ARROW) {
                return match wanted.dtype {
                    None | Some(EmbeddingDtype::Float32) => Ok(Encoding::Arrow),
                    Some(other) => Err(unwritable(other, "an Arrow stream has `float32`")),
                };
            }
        }
        match wanted.format.unwrap_or_default() {
            EncodingFormat::Base64 => Ok(Encoding::Base64(wanted.dtype.unwrap_or_default())),
            EncodingFormat::Bytes => Ok(Encoding::Raw(wanted.dtype.unwrap_or_default())),
            EncodingFormat::Float if wanted.dtype == Some(EmbeddingDtype::Float16) => {
                Err(unwritable(EmbeddingDtype::Float16, "a list has `float32` or whole numbers"))
            }
            EncodingFormat::Float => Ok(Encoding::Json(wanted.dtype.unwrap_or_default())),
        }
    }
}

fn dtype_named(name: &str) -> Result<EmbeddingDtype, Invalid> {
    let name = name.trim_matches('"');
    EmbeddingDtype::ALL.into_iter().find(|dtype| dtype.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known = EmbeddingDtype::ALL.map(EmbeddingDtype::name).join(", ");
        let message = format!("`Accept` has the dtype `{}`; known: {known}", name.escape_debug());
        Invalid::at(ErrorCode::InvalidParameter, &["Accept"], message)
    })
}

fn unwritable(dtype: EmbeddingDtype, what: &str) -> Invalid {
    let message = format!(
        "`embed_dtype` is `{}`, and {what}; leave it out, or send `\"encoding_format\": \"base64\"` or `\"bytes\"`",
        dtype.name()
    );
    Invalid::at(ErrorCode::InvalidParameter, &["embed_dtype"], message)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(accept: &'static str, wanted: &Wanted, expected: Result<Encoding, &str>) {
        let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
        let encoding = Encoding::of(&headers, wanted).map_err(|invalid| invalid.param.unwrap_or_default());
        assert_eq!(encoding, expected.map_err(str::to_owned), "{accept}");
    }

    #[test]
    fn bytes_must_be_asked_for_by_name() {
        let none = Wanted::default();
        check("application/octet-stream", &none, Ok(Encoding::Raw(EmbeddingDtype::Float32)));
        check(
            "Application/Octet-Stream;q=0.9, application/json;q=0.1",
            &none,
            Ok(Encoding::Raw(EmbeddingDtype::Float32)),
        );
        check("application/octet-stream; dtype=int8", &none, Ok(Encoding::Raw(EmbeddingDtype::Int8)));
        check(
            "application/octet-stream;dtype=\"ubinary\"",
            &none,
            Ok(Encoding::Raw(EmbeddingDtype::Ubinary)),
        );
        check("application/octet-stream; dtype=float64", &none, Err("Accept"));
        check("application/vnd.apache.arrow.stream", &none, Ok(Encoding::Arrow));
        let floats = Ok(Encoding::Json(EmbeddingDtype::Float32));
        check("application/json", &none, floats);
        check("*/*", &none, floats);
        assert_eq!(Encoding::of(&HeaderMap::new(), &none).map_err(|_| ""), floats);
    }

    #[test]
    fn fields_choose_where_accept_does_not() {
        let wanted = |format, dtype| Wanted { format, dtype };
        let half = Some(EmbeddingDtype::Float16);
        check("*/*", &wanted(Some(EncodingFormat::Bytes), half), Ok(Encoding::Raw(EmbeddingDtype::Float16)));
        check(
            "*/*",
            &wanted(Some(EncodingFormat::Base64), half),
            Ok(Encoding::Base64(EmbeddingDtype::Float16)),
        );
        check("*/*", &wanted(None, half), Err("embed_dtype"));
        check(ARROW, &wanted(None, half), Err("embed_dtype"));
        check(RAW, &wanted(Some(EncodingFormat::Float), half), Ok(Encoding::Raw(EmbeddingDtype::Float16)));
        check(
            "*/*",
            &wanted(None, Some(EmbeddingDtype::Float32)),
            Ok(Encoding::Json(EmbeddingDtype::Float32)),
        );
        let bits = Some(EmbeddingDtype::Binary);
        check("*/*", &wanted(None, bits), Ok(Encoding::Json(EmbeddingDtype::Binary)));
        check(ARROW, &wanted(None, bits), Err("embed_dtype"));
    }
}
