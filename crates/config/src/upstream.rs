//! The fields of models on other servers.

use crate::secret::ApiKey;
use crate::value::Scalar;

/// The API of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI's, which many servers implement: `POST {url}/embeddings`.
    OpenAi,
    /// Hugging Face's text-embeddings-inference: `POST {url}/embed`.
    Tei,
    /// The same server with a reranker: `POST {url}/rerank`.
    TeiRerank,
    /// Weir's own: raw floats of `POST {url}/v1/embeddings`, and the tokenizer of the model at `GET {url}/v1/embedder`.
    Weir,
    /// A list of texts for a list of embeddings: `POST {url}/embed` with `{"texts": […]}`, answered by `{"embeddings": […]}`.
    Texts,
    /// Cohere's, which Jina and many servers implement: `POST {url}/rerank`.
    Cohere,
}

impl Protocol {
    /// The `kind` of a model.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::OpenAi => "openai",
            Protocol::Tei | Protocol::TeiRerank => "tei",
            Protocol::Weir => "weir",
            Protocol::Texts => "texts",
            Protocol::Cohere => "cohere",
        }
    }

    /// Whether its models are rerankers.
    pub fn is_reranking(self) -> bool {
        match self {
            Protocol::OpenAi | Protocol::Tei | Protocol::Weir | Protocol::Texts => false,
            Protocol::TeiRerank | Protocol::Cohere => true,
        }
    }

    /// Whether a request must name one of several models.
    fn has_model_names(self) -> bool {
        match self {
            Protocol::OpenAi | Protocol::Cohere => true,
            Protocol::Tei | Protocol::TeiRerank | Protocol::Weir | Protocol::Texts => false,
        }
    }

    /// The default of `concurrent_requests_max`: another gateway queues requests by itself.
    fn concurrent_requests_max(self) -> i64 {
        match self {
            Protocol::Weir => 64,
            Protocol::OpenAi | Protocol::Cohere | Protocol::Tei | Protocol::TeiRerank | Protocol::Texts => 8,
        }
    }

    /// The default of `texts_per_request_max`: that of TEI is 32.
    fn texts_per_request_max(self) -> usize {
        match self {
            Protocol::OpenAi | Protocol::Cohere | Protocol::Weir => 128,
            Protocol::Tei | Protocol::TeiRerank | Protocol::Texts => 32,
        }
    }
}

/// A model on another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// The API of the server.
    pub protocol: Protocol,
    /// The base URL, without a slash at the end.
    pub url: String,
    /// The server's name of the model; empty where it has only one.
    pub model: String,
    /// The API key, if the server requires one.
    pub api_key: Option<ApiKey>,
    /// A PEM file with certificates that are trusted beside public ones; empty: none.
    pub ca_file: String,
    /// The length of an embedding; `None`: the server is asked.
    pub dimension: Option<usize>,
    /// Dimensions that embeddings may be truncated to.
    pub dimensions: Vec<usize>,
    /// Whether embeddings are normalised to length one.
    pub normalize: bool,
    /// Maximum texts in a request.
    pub texts_per_request_max: usize,
    /// Maximum bytes of all texts in a request; a longer text is sent alone.
    pub bytes_per_request_max: usize,
    /// Maximum requests at the same time.
    pub concurrent_requests_max: usize,
    /// Time limit of a request.
    pub timeout_ms: u64,
    /// Maximum retries of a request.
    pub retries_max: u32,
}

/// The fields before validation.
#[derive(Debug, Default)]
pub(super) struct RawUpstream {
    pub(super) url: Option<String>,
    pub(super) model: Option<String>,
    pub(super) api_key: Option<String>,
    pub(super) ca_file: Option<String>,
    pub(super) normalize: Option<bool>,
    pub(super) texts_per_request_max: Option<i64>,
    pub(super) bytes_per_request_max: Option<i64>,
    pub(super) concurrent_requests_max: Option<i64>,
    pub(super) timeout_ms: Option<i64>,
    pub(super) retries_max: Option<i64>,
}

/// A field and a message, which continues a sentence starting with the name of the field.
pub(super) type FieldError = (&'static str, String);

/// The values of `task`.
pub(super) const EMBED: &str = "embed";
pub(super) const RERANK: &str = "rerank";

/// Far below the limits of servers, and enough to saturate one.
const BYTES_PER_REQUEST_MAX: i64 = 256 << 10;
const TIMEOUT_MS: i64 = 10_000;
const RETRIES_MAX: i64 = 3;

impl RawUpstream {
    /// Validates the fields.
    pub(super) fn resolve(
        self,
        protocol: Protocol,
        dimension: Option<usize>,
        dimensions: Vec<usize>,
        errors: &mut Vec<FieldError>,
    ) -> UpstreamConfig {
        let url = self.url.unwrap_or_default();
        if let Err(message) = check_url(&url) {
            errors.push(("url", message));
        }
        let model = self.model.unwrap_or_default();
        if model.is_empty() && protocol.has_model_names() {
            errors.push(("model", "is missing: give the upstream's name for the model".to_owned()));
        }
        let api_key = self.api_key.as_deref().map(ApiKey::parse).transpose().unwrap_or_else(|message| {
            errors.push(("api_key", message));
            None
        });
        let mut number = |field, raw: Option<i64>, default: i64, range: std::ops::RangeInclusive<i64>| {
            let value = raw.unwrap_or(default);
            if !range.contains(&value) {
                let (min, max) = (range.start(), range.end());
                errors.push((field, format!("must be a whole number from {min} to {max}, not {value}")));
            }
            usize::try_from(value).unwrap_or(0)
        };
        let texts = i64::try_from(protocol.texts_per_request_max()).unwrap_or(1);
        UpstreamConfig {
            protocol,
            url: url.trim_end_matches('/').to_owned(),
            model,
            api_key,
            ca_file: self.ca_file.unwrap_or_default(),
            dimension,
            dimensions,
            // the other gateway does what its model needs
            normalize: self.normalize.unwrap_or(protocol != Protocol::Weir),
            texts_per_request_max: number(
                "texts_per_request_max",
                self.texts_per_request_max,
                texts,
                1..=100_000,
            ),
            bytes_per_request_max: number(
                "bytes_per_request_max",
                self.bytes_per_request_max,
                BYTES_PER_REQUEST_MAX,
                1..=1 << 30,
            ),
            concurrent_requests_max: number(
                "concurrent_requests_max",
                self.concurrent_requests_max,
                protocol.concurrent_requests_max(),
                1..=256,
            ),
            timeout_ms: number("timeout_ms", self.timeout_ms, TIMEOUT_MS, 1..=600_000) as u64,
            retries_max: number("retries_max", self.retries_max, RETRIES_MAX, 0..=20) as u32,
        }
    }
}

/// Checks the URL of a server. The message does not repeat the URL: it may hold a password.
pub(super) fn check_url(url: &str) -> Result<(), String> {
    let form = "must be a URL such as \"https://api.openai.com/v1\" or \"http://127.0.0.1:8080\"";
    if url.is_empty() {
        return Err(format!("is missing: it {form}"));
    }
    let parsed: http::Uri = url.parse().map_err(|_| form.to_owned())?;
    let is_http = matches!(parsed.scheme_str(), Some("http" | "https"));
    if !is_http || parsed.host().is_none_or(str::is_empty) {
        return Err(form.to_owned());
    }
    if parsed.query().is_some() {
        return Err("must not have a query (`?…`)".to_owned());
    }
    if parsed.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("must not hold a name or password; use `api_key`".to_owned());
    }
    Ok(())
}

impl UpstreamConfig {
    /// The fields with a single value, as in a file.
    pub(super) fn fields(&self) -> Vec<(&'static str, Scalar)> {
        let text = |value: &str| Scalar::Text(value.to_owned());
        let number = |value: usize| Scalar::Integer(i64::try_from(value).unwrap_or(i64::MAX));
        let mut fields = vec![("kind", text(self.protocol.name())), ("url", text(&self.url))];
        if !self.model.is_empty() {
            fields.push(("model", text(&self.model)));
        }
        fields.extend(self.api_key.as_ref().map(|key| ("api_key", Scalar::Text(key.to_string()))));
        if !self.ca_file.is_empty() {
            fields.push(("ca_file", text(&self.ca_file)));
        }
        match self.protocol {
            Protocol::TeiRerank => fields.push(("task", text(RERANK))),
            Protocol::Cohere | Protocol::Weir => {}
            Protocol::OpenAi | Protocol::Tei | Protocol::Texts => {
                fields.extend(self.dimension.map(|dimension| ("dimension", number(dimension))));
                fields.push(("normalize", Scalar::Bool(self.normalize)));
            }
        }
        fields.extend([
            ("texts_per_request_max", number(self.texts_per_request_max)),
            ("bytes_per_request_max", number(self.bytes_per_request_max)),
            ("concurrent_requests_max", number(self.concurrent_requests_max)),
            ("timeout_ms", number(self.timeout_ms as usize)),
            ("retries_max", number(self.retries_max as usize)),
        ]);
        fields
    }
}
