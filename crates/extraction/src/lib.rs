//! The text of files, extracted in child processes, and recognised by another server where they have none.

#![forbid(unsafe_code)]

mod description;
mod recognition;
mod section;

use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Semaphore;
use weir_api::{ErrorCode, FormatsReply, Invalid};
use weir_config::{Config, Sandboxing};
use weir_documents::{Archive, Extracted, Failure, Format, is_picture};
use weir_isolation::{ExtractError, Isolation, Protections, Sandbox};
use weir_telemetry::metrics::Metrics;

pub use description::{base_name, describe_losses, merged_metadata, title_of};
pub use section::Section;

use recognition::{Answer, Recognition, fill_in};

/// Bytes of a file by which its kind is known.
const HEAD_BYTES: u64 = 1 << 10;
/// Bytes of a file by which kinds are refused that are not read: more than any sample that is taken of a whole file.
pub const FIRST_BYTES: usize = 16 << 10;
/// The name under which the page of a recogniser is read.
const ANSWER_NAME: &str = "answer.xhtml";

/// Extracts text, from a limited number of files at one time.
#[derive(Clone)]
pub struct Extraction {
    isolation: Arc<Isolation>,
    permits: Arc<Semaphore>,
    recognition: Option<Arc<Recognition>>,
    metrics: Metrics,
}

/// The bytes of a file.
pub trait Content: Read + Seek + Send + 'static {}

impl<T: Read + Seek + Send + 'static> Content for T {}

/// The text of a file.
pub struct FileText {
    /// The extracted text.
    pub extracted: Extracted,
    /// The kind of the server that recognised it, or a part of it.
    pub recognised_by: Option<&'static str>,
    /// The file.
    pub content: Box<dyn Content>,
}

/// A file as a child process has read it.
struct ReadFile {
    outcome: Result<Extracted, ExtractError>,
    content: Box<dyn Content>,
    /// The beginning of the file.
    head: Vec<u8>,
}

impl Extraction {
    /// With the settings `[extract]`.
    pub fn new(config: &Config, metrics: Metrics) -> Extraction {
        let settings = &config.extract;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let parallel = match settings.parallel_max {
            0 => (cores / 2).max(1),
            most => most,
        };
        Extraction {
            isolation: Arc::new(isolation(config)),
            permits: Arc::new(Semaphore::new(parallel)),
            recognition: Recognition::new(config, &metrics).map(Arc::new),
            metrics,
        }
    }

    /// The text of the file `name`. Waits for a permit first. Scans, and with `may_be_picture` pictures, go to the server that recognises text, if
    /// there is one.
    ///
    /// # Errors
    /// The reason why the file has no text.
    pub async fn extract(
        &self,
        name: &str,
        content: Box<dyn Content>,
        may_be_picture: bool,
    ) -> Result<FileText, Invalid> {
        let ReadFile { outcome, content, head } = self.read(name, content).await?;
        let recognition = self.recognition.as_ref();
        let Some(recognition) = recognition.filter(|_| is_unread(&outcome, name, &head, may_be_picture))
        else {
            let extracted = outcome.map_err(|error| not_read(name, refusal(&error), &error))?;
            return Ok(FileText { extracted, recognised_by: None, content });
        };
        let (file, content) = whole(content).await?;
        let recognised = self.recognise(recognition, name, file).await;
        let recognised_by = Some(recognition.name());
        match (outcome, recognised) {
            (Ok(mut extracted), Ok(Some(recognised))) => {
                let is_filled = fill_in(&mut extracted, &recognised);
                Ok(FileText { extracted, recognised_by: recognised_by.filter(|_| is_filled), content })
            }
            // without its pictures, the file has some text
            (Ok(extracted), _) => Ok(FileText { extracted, recognised_by: None, content }),
            (Err(_), Ok(Some(extracted))) => Ok(FileText { extracted, recognised_by, content }),
            (Err(error), Ok(None)) => {
                let message = "the file has no text: none was recognised in its pictures";
                Err(not_read(name, Invalid::whole(ErrorCode::NoText, message), &error))
            }
            (Err(error), Err(invalid)) => Err(not_read(name, invalid, &error)),
        }
    }

    /// Why a file is refused without reading it: its first bytes, [`FIRST_BYTES`] of them, are those of a kind that is not read.
    pub fn refuses(&self, name: &str, head: &[u8]) -> Option<Invalid> {
        // what an archive is, its end says
        let is_zip = head.starts_with(b"PK");
        let is_unpacked = self.isolation.archives && Archive::of(head, name).is_some();
        if head.is_empty() || is_zip || is_unpacked || (self.recognition.is_some() && is_picture(head)) {
            return None;
        }
        match Format::of(head, name) {
            Err(failure @ Failure::UnsupportedFormat(_)) => {
                let error = ExtractError::Failure(failure);
                self.metrics.file_extracted(format_label(name), error.code(), Duration::ZERO);
                Some(not_read(name, refusal(&error), &error))
            }
            Ok(_) | Err(_) => None,
        }
    }

    /// Reads a file in a child process. Waits for a permit first.
    async fn read(&self, name: &str, mut content: Box<dyn Content>) -> Result<ReadFile, Invalid> {
        let closed = || Invalid::whole(ErrorCode::Internal, "the gateway is stopping");
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| closed())?;
        let (isolation, file_name, metrics) = (self.isolation.clone(), name.to_owned(), self.metrics.clone());
        let work = move || {
            let _permit = permit;
            let begun = Instant::now();
            let outcome = isolation.extract(&file_name, &mut *content);
            let result = match &outcome {
                Ok(extracted) if extracted.warnings.is_empty() && extracted.lost.is_empty() => "extracted",
                Ok(_) => "partial",
                Err(error) => error.code(),
            };
            metrics.file_extracted(format_label(&file_name), result, begun.elapsed());
            let head = head_of(&mut *content).unwrap_or_default();
            ReadFile { outcome, content, head }
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| closed())
    }

    /// The text that another server recognises in a file; `None` if there is none.
    async fn recognise(
        &self,
        recognition: &Recognition,
        name: &str,
        file: Bytes,
    ) -> Result<Option<Extracted>, Invalid> {
        let text = match recognition.ask(name, file).await? {
            Answer::Text(text) => text,
            Answer::Html(page) => {
                let read = self.read(ANSWER_NAME, Box::new(io::Cursor::new(page))).await?;
                match read.outcome {
                    Ok(extracted) => extracted.text,
                    Err(ExtractError::Failure(Failure::NoText(_))) => String::new(),
                    Err(error) => return Err(refusal(&error)),
                }
            }
        };
        Ok(recognition.pages_of(&text))
    }

    /// The kinds of files that are read.
    pub fn formats(&self) -> FormatsReply {
        FormatsReply {
            extensions: Format::ALL.iter().map(|format| format.extension().to_owned()).collect(),
            archives: self.isolation.archives,
            pictures: self.recognition.is_some(),
        }
    }

    /// The protections of a child process on this machine.
    pub fn probe(&self) -> Result<Protections, ExtractError> {
        self.isolation.probe()
    }
}

/// How files are read with these settings.
#[must_use]
pub fn isolation(config: &Config) -> Isolation {
    let settings = &config.extract;
    Isolation {
        sandbox: match settings.sandbox {
            Sandboxing::Required => Sandbox::Required,
            Sandboxing::BestEffort => Sandbox::BestEffort,
        },
        wall: Duration::from_millis(settings.timeout_ms),
        cpu_seconds: settings.cpu_seconds_max,
        memory_bytes: settings.memory_bytes_max,
        text_bytes_max: config.limits.document_text_bytes_max,
        pages_max: settings.pages_max,
        hidden_text: settings.hidden_text,
        comments: settings.comments,
        archives: settings.archives,
    }
}

/// The kind of a file in metrics, by its name.
pub fn format_label(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    if let Some(format) = Format::of_extension(&ending) {
        return format.extension();
    }
    match ending.as_str() {
        "txt" | "text" | "log" | "md" | "markdown" | "rst" | "csv" | "tsv" | "json" | "jsonl" | "xml" => {
            "text"
        }
        "html" | "htm" | "xhtml" => "html",
        "zip" | "gz" | "tgz" => "archive",
        "png" | "jpg" | "jpeg" | "gif" | "tif" | "tiff" | "webp" | "heic" | "avif" | "bmp" => "picture",
        _ => "other",
    }
}

/// Whether the file, or some of its pages, are pictures without text.
fn is_unread(
    outcome: &Result<Extracted, ExtractError>,
    name: &str,
    head: &[u8],
    may_be_picture: bool,
) -> bool {
    match outcome {
        Ok(extracted) => !extracted.is_archive && extracted.lost.iter().any(|lost| lost.code == "no_text"),
        Err(ExtractError::Failure(Failure::NoText(_))) => {
            let has_pages = [Format::Pdf, Format::Docx, Format::Pptx, Format::Odt, Format::Odp];
            let format =
                name.rsplit_once('.').and_then(|(_, ending)| Format::of_extension(&ending.to_lowercase()));
            head.starts_with(b"%PDF-") || format.is_some_and(|format| has_pages.contains(&format))
        }
        Err(ExtractError::Failure(Failure::UnsupportedFormat(_))) => may_be_picture && is_picture(head),
        Err(_) => false,
    }
}

/// Takes note of a file that has no text.
fn not_read(name: &str, refused: Invalid, error: &ExtractError) -> Invalid {
    tracing::warn!(file = name, code = refused.code.as_str(), %error, "a file was not read");
    refused
}

/// The beginning of a file.
fn head_of(content: &mut dyn Content) -> io::Result<Vec<u8>> {
    content.rewind()?;
    let mut head = Vec::new();
    content.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// All bytes of a file.
async fn whole(mut content: Box<dyn Content>) -> Result<(Bytes, Box<dyn Content>), Invalid> {
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        content.rewind()?;
        content.read_to_end(&mut bytes)?;
        io::Result::Ok((Bytes::from(bytes), content))
    });
    let read = read.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    read.map_err(|error| {
        Invalid::whole(ErrorCode::StoreUnavailable, format!("the file can't be read: {error}"))
    })
}

/// The error of a file in the API.
fn refusal(error: &ExtractError) -> Invalid {
    let code = match error {
        ExtractError::Failure(Failure::UnsupportedFormat(_)) => ErrorCode::UnsupportedFormat,
        ExtractError::Failure(Failure::Encrypted) => ErrorCode::Encrypted,
        ExtractError::Failure(Failure::DamagedFile(_)) => ErrorCode::DamagedFile,
        ExtractError::Failure(Failure::NoText(_)) => ErrorCode::NoText,
        ExtractError::Failure(Failure::FileLimit(_)) => ErrorCode::FileLimit,
        ExtractError::Timeout { .. } => ErrorCode::ExtractionTimeout,
        ExtractError::Memory { .. } => ErrorCode::ExtractionMemory,
        // the message of a panic can have parts of the file: the log has it
        ExtractError::Crashed(_) => {
            return Invalid::whole(ErrorCode::ExtractionCrashed, "the process that read the file crashed");
        }
        ExtractError::NoSandbox(_) | ExtractError::Start(_) => ErrorCode::ExtractionUnavailable,
    };
    Invalid::whole(code, error.to_string())
}

/// The media type of a file by its name.
pub fn media_type_of(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    if let Some(format) = weir_documents::Format::of_extension(&ending) {
        return format.media_type();
    }
    match ending.as_str() {
        "txt" | "text" | "log" | "md" | "markdown" => "text/plain; charset=utf-8",
        "html" | "htm" | "xhtml" => "text/html; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "json" => "application/json",
        _ => "application/octet-stream",
    }
}
