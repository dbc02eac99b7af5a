//! Files in requests: as the whole body, and in forms.

use axum::extract::Request;
use axum::http::{HeaderMap, header};
use multer::{Constraints, Field, Multipart, SizeLimit};
use weir_api::{DEFAULT_COLLECTION, ErrorCode, FileOptions, Invalid};
use weir_retrieval::UploadedFile;

use super::body::{body_too_large, decoded, encoding_of};
use super::context;
use super::error::ApiError;
use super::gateway::Gateway;
use super::routes::BodyLimit;
use super::spool::Spool;
use crate::Result;

/// The media type of forms with files.
pub(super) const FORM: &str = "multipart/form-data";

/// Most bytes of a part of a form that is not a file, beside its metadata.
const FIELD_BYTES_MAX: usize = 4 << 10;

/// The name of a file that has none.
pub(super) const UNNAMED: &str = "upload";

/// A form that was received.
pub(super) struct Form {
    pub(super) collection: String,
    pub(super) files: Vec<UploadedFile>,
    pub(super) replace_if_equal: Vec<String>,
    pub(super) webhook_url: Option<String>,
}

impl Form {
    /// Identifies what the form asks for.
    pub(super) fn fingerprint(&self) -> Vec<u8> {
        let files: Vec<Vec<u8>> = self.files.iter().map(fingerprint).collect();
        let asked = (&self.collection, files, &self.replace_if_equal, &self.webhook_url);
        serde_json::to_vec(&asked).unwrap_or_default()
    }
}

/// Identifies a file and what is to be made of it.
pub(super) fn fingerprint(file: &UploadedFile) -> Vec<u8> {
    serde_json::to_vec(&(&file.sha256, &file.name, &file.options)).unwrap_or_default()
}

/// Whether the body is a form.
pub(super) fn is_form(headers: &HeaderMap) -> bool {
    media_type(headers).is_some_and(|media| media == FORM)
}

/// Whether the body is JSON, also by the lack of a media type.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    media_type(headers).is_none_or(|media| media == "application/json" || media.ends_with("+json"))
}

/// The media type without its parameters, in lower case.
pub(super) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or_default();
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// Receives a form: `collection`, `file` for each file, and after a file its `options`.
///
/// # Errors
/// `invalid_parameter` for a malformed form, `unknown_field`, `payload_too_large`, `batch_too_large`, `insufficient_storage`.
pub(super) async fn receive_form(gateway: &Gateway, request: Request) -> Result<Form> {
    let (limit, setting) = limit_of(gateway, &request);
    let (parts, body) = request.into_parts();
    let boundary = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let boundary = multer::parse_boundary(boundary.unwrap_or_default()).map_err(malformed)?;
    let whole = SizeLimit::new().whole_stream(limit as u64);
    let stream = decoded(body, encoding_of(&parts.headers)?);
    let mut form = Multipart::with_constraints(stream, boundary, Constraints::new().size_limit(whole));
    let mut found = Form {
        collection: DEFAULT_COLLECTION.to_owned(),
        files: Vec::new(),
        replace_if_equal: Vec::new(),
        webhook_url: None,
    };
    let mut spool = Spool::create(gateway).await?;
    let mut has_options = true;
    let failed = |error| match matches!(error, multer::Error::StreamSizeExceeded { .. }) {
        true => body_too_large(limit, setting),
        false => malformed(error),
    };
    while let Some(mut field) = form.next_field().await.map_err(failed)? {
        match field.name().unwrap_or_default().to_owned().as_str() {
            "file" => {
                check_count(gateway, found.files.len() + 1)?;
                let name = field.file_name().filter(|name| !name.is_empty()).unwrap_or(UNNAMED).to_owned();
                while let Some(part) = field.chunk().await.map_err(failed)? {
                    spool.write(&part).await?;
                }
                found.files.push(spool.end_file(name, FileOptions::default()));
                has_options = false;
            }
            "options" => {
                let most = FIELD_BYTES_MAX + gateway.config.limits.metadata_bytes_max;
                let text = text(&mut field, "options", most).await.map_err(|error| error.or(failed))?;
                let last = found.files.len().saturating_sub(1);
                let Some(file) = found.files.last_mut().filter(|_| !has_options) else {
                    let message = "`options` must follow the `file` that it belongs to, once";
                    return Err(Invalid::at(ErrorCode::InvalidParameter, &["options"], message).into());
                };
                file.options = weir_api::parse(text.as_bytes())
                    .map_err(|error: Invalid| error.in_item("options", last))?;
                has_options = true;
            }
            "collection" => {
                found.collection = text(&mut field, "collection", FIELD_BYTES_MAX)
                    .await
                    .map_err(|error| error.or(failed))?;
            }
            "replace_if_equal" => {
                let name = text(&mut field, "replace_if_equal", FIELD_BYTES_MAX)
                    .await
                    .map_err(|error| error.or(failed))?;
                found.replace_if_equal.push(name);
            }
            "webhook_url" => {
                let url = text(&mut field, "webhook_url", FIELD_BYTES_MAX);
                found.webhook_url = Some(url.await.map_err(|error| error.or(failed))?);
            }
            other => {
                let message = format!(
                    "unknown part `{}`, expected `collection`, `file`, `options`, `replace_if_equal` or `webhook_url`",
                    other.escape_debug()
                );
                return Err(Invalid::at(ErrorCode::UnknownField, &[other], message).into());
            }
        }
    }
    if found.files.is_empty() {
        let message = "the form has no part `file`; send at least one";
        return Err(Invalid::at(ErrorCode::InvalidParameter, &["file"], message).into());
    }
    spool.flush().await?;
    Ok(found)
}

/// Receives a file that is the whole body.
///
/// # Errors
/// `payload_too_large`, `insufficient_storage`; `invalid_parameter` when the connection broke.
pub(super) async fn receive_file(
    gateway: &Gateway,
    request: Request,
    name: String,
    options: FileOptions,
) -> Result<UploadedFile> {
    let (limit, setting) = limit_of(gateway, &request);
    let (parts, body) = request.into_parts();
    let stream = decoded(body, encoding_of(&parts.headers)?);
    let mut spool = Spool::create(gateway).await?;
    spool.write_all(stream, limit, setting).await?;
    spool.flush().await?;
    Ok(spool.end_file(name, options))
}

fn limit_of(gateway: &Gateway, request: &Request) -> (usize, &'static str) {
    let route = context::of(request.extensions()).map(|context| context.route);
    route.map_or(BodyLimit::Ingest, |route| route.body).of(&gateway.config.limits)
}

fn check_count(gateway: &Gateway, count: usize) -> Result<()> {
    let most = gateway.config.limits.documents_per_request_max;
    if count <= most {
        return Ok(());
    }
    let message =
        format!("the form has more files than the limit `limits.documents_per_request_max`, which is {most}");
    Err(Invalid::at(ErrorCode::BatchTooLarge, &["file"], message).into())
}

fn malformed(error: multer::Error) -> ApiError {
    ApiError::new(ErrorCode::InvalidParameter, format!("the form cannot be read: {error}"))
}

/// Why a part of text was not read.
enum FieldError {
    Form(multer::Error),
    Invalid(ApiError),
}

impl FieldError {
    fn or(self, form: impl FnOnce(multer::Error) -> ApiError) -> ApiError {
        match self {
            FieldError::Form(error) => form(error),
            FieldError::Invalid(error) => error,
        }
    }
}

/// The text of a part that is not a file.
async fn text(field: &mut Field<'_>, name: &str, bytes_max: usize) -> Result<String, FieldError> {
    let mut bytes = Vec::new();
    while let Some(part) = field.chunk().await.map_err(FieldError::Form)? {
        if bytes.len() + part.len() > bytes_max {
            let message = format!("the part `{name}` has more than {bytes_max} bytes");
            let invalid = Invalid::at(ErrorCode::PayloadTooLarge, &[name], message);
            return Err(FieldError::Invalid(invalid.into()));
        }
        bytes.extend_from_slice(&part);
    }
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("the part `{name}` is not UTF-8");
        FieldError::Invalid(Invalid::at(ErrorCode::InvalidUtf8, &[name], message).into())
    })
}
