//! `POST /v1/ingest`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::collections::check_collection_name;
use crate::invalid::without_position;
use crate::limits::check_bytes;
use crate::pages::check_pages;
use crate::{
    DEFAULT_COLLECTION, DocumentPage, ErrorCode, Invalid, Limits, Result, Vector, parse_item, require,
};

/// Fields that can be compared before a document is replaced.
const COMPARED_FIELDS_MAX: usize = 16;

/// Deepest nesting that serde_json parses.
const METADATA_DEPTH_MAX: usize = 127;

/// Documents to ingest. Each document is unparsed JSON, so that an invalid document fails alone.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IngestRequest<'a> {
    /// The collection, which is created if it does not exist; default: `default`.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub collection: Option<Cow<'a, str>>,
    /// The documents.
    #[serde(borrow)]
    #[schemars(with = "Vec<Document>")]
    pub documents: Vec<&'a RawValue>,
    /// Fields of the metadata in which a stored document must equal the one that replaces it. Where it does not, the new
    /// document fails with `document_conflict`; default: documents are always replaced. With `["folder"]`, a file does not
    /// replace one of another folder.
    #[serde(default, borrow, skip_serializing_if = "Vec::is_empty")]
    pub replace_if_equal: Vec<Cow<'a, str>>,
    /// An address that is called, with a signature, when the job has ended; needs the settings in `[webhooks]`.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<Cow<'a, str>>,
}

/// A document to ingest. A document with the same id is replaced; identical content is a no-op.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The id in the collection, any text of 1 to 512 bytes; default: generated from the content.
    pub id: Option<String>,
    /// The title. It is searched and embedded together with the text.
    pub title: Option<String>,
    /// The text.
    pub text: String,
    /// Arbitrary data, returned with each result and available to filters, facets and sorting.
    pub metadata: Option<Metadata>,
    /// The pages of the text, in order, for citations by page; default: a text without pages.
    pub pages: Option<Vec<DocumentPage>>,
    /// The embedding of the document: required in a collection with `vectors`, refused in others.
    #[schemars(with = "Option<Vec<f32>>")]
    pub vector: Option<Vector>,
}

/// The part `options` of an upload: settings of the file before it, as JSON.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileOptions {
    /// The id of the document; default: the name of the file.
    pub id: Option<String>,
    /// The title; default: that which the file declares, or its name.
    pub title: Option<String>,
    /// The metadata. Facts that the file declares, such as `author`, are added, and `file` with its name, size and SHA-256.
    pub metadata: Option<Metadata>,
    /// Whether the file is kept, and returned by `GET …/documents/{id}/original`; default: the setting `extract.keep_originals`.
    pub keep_original: Option<bool>,
}

/// A JSON object, kept byte for byte as it was sent.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Metadata(#[schemars(with = "Map<String, Value>")] Box<RawValue>);

/// Why a text is not valid metadata.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// The text is not JSON.
    #[error("metadata is not valid JSON: {0}")]
    Syntax(#[from] serde_json::Error),
    /// The JSON value is not an object.
    #[error("metadata must be a JSON object, such as {{\"source\": \"a.txt\"}}")]
    NotAnObject,
}

impl Metadata {
    /// The metadata `{}`.
    pub fn empty() -> Metadata {
        Metadata::from_map(&Map::new())
    }

    /// Metadata from a map.
    #[allow(clippy::expect_used, reason = "a map with text keys always has a JSON text")]
    pub fn from_map(map: &Map<String, Value>) -> Metadata {
        Metadata(serde_json::value::to_raw_value(map).expect("a map is JSON"))
    }

    /// Metadata from its JSON text, which is kept except for surrounding white space.
    ///
    /// # Errors
    /// When the text is not one JSON object.
    pub fn from_json(json: String) -> Result<Metadata, MetadataError> {
        Metadata::from_raw(RawValue::from_string(json)?)
    }

    fn from_raw(raw: Box<RawValue>) -> Result<Metadata, MetadataError> {
        if raw.get().starts_with('{') { Ok(Metadata(raw)) } else { Err(MetadataError::NotAnObject) }
    }

    /// The JSON text.
    pub fn as_json(&self) -> &str {
        self.0.get()
    }

    /// The parsed object.
    ///
    /// # Errors
    /// When a string has a lone surrogate, a number is out of range, or the nesting exceeds 127 levels:
    /// deserialising [`Metadata`] checks none of these.
    pub fn to_map(&self) -> Result<Map<String, Value>, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    pub(crate) fn check(&self, limits: &Limits) -> Result<()> {
        let path = &["metadata"];
        check_bytes(path, "metadata", self.0.get().len(), limits.metadata_bytes_max, "metadata_bytes_max")?;
        let map = self.to_map().map_err(|error| {
            let message = match without_position(&error) {
                // serde_json has no error category for it
                reason if reason.starts_with("recursion limit exceeded") => {
                    format!("metadata is nested deeper than {METADATA_DEPTH_MAX} levels: reduce the nesting")
                }
                reason => format!("metadata cannot be parsed: {reason}"),
            };
            Invalid::at(ErrorCode::InvalidParameter, path, message)
        })?;
        let (keys, keys_max) = (map.len(), limits.metadata_keys_max);
        require(keys <= keys_max, path, || {
            format!("metadata has {keys} keys; the limit `limits.metadata_keys_max` is {keys_max}")
        })
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metadata, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Metadata::from_raw(raw).map_err(serde::de::Error::custom)
    }
}

impl PartialEq for Metadata {
    fn eq(&self, other: &Metadata) -> bool {
        self.as_json() == other.as_json()
    }
}

impl Eq for Metadata {}

impl IngestRequest<'_> {
    /// The collection, or the default one.
    pub fn collection(&self) -> &str {
        self.collection.as_deref().unwrap_or(DEFAULT_COLLECTION)
    }

    /// Validates the request, except its documents.
    ///
    /// # Errors
    /// An invalid collection name; no documents, or too many.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        check_collection_name(self.collection())?;
        let fields = self.replace_if_equal.len();
        require(fields <= COMPARED_FIELDS_MAX, &["replace_if_equal"], || {
            format!("`replace_if_equal` has {fields} fields; at most {COMPARED_FIELDS_MAX} are compared")
        })?;
        let (count, count_max) = (self.documents.len(), limits.documents_per_request_max);
        require(count > 0, &["documents"], || "`documents` is empty; send at least one document")?;
        if count > count_max {
            let message = format!(
                "the request has {count} documents; the limit `limits.documents_per_request_max` is {count_max}"
            );
            return Err(Invalid::at(ErrorCode::BatchTooLarge, &["documents"], message));
        }
        Ok(())
    }
}

impl Document {
    /// Parses and validates one document of an [`IngestRequest`].
    ///
    /// # Errors
    /// The first error of the document; [`Invalid::in_document`] adds its position in the request.
    pub fn parse(json: &RawValue, limits: &Limits) -> Result<Document> {
        let document: Document = parse_item(json.get(), "document")?;
        document.check(limits)?;
        Ok(document)
    }

    /// Validates the document against the limits.
    ///
    /// # Errors
    /// The first error: an empty or too long id, neither text nor title, a text or a title longer than its
    /// limit, metadata with too many bytes or keys.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        if let Some(id) = &self.id {
            check_document_id(id, limits)?;
        }
        let has_title = self.title.as_ref().is_some_and(|title| !title.trim().is_empty());
        require(
            has_title || self.vector.is_some() || !self.text.trim().is_empty(),
            &["text"],
            || "text and title are empty; omit the document, or delete it by its id",
        )?;
        let (text_max, setting) = (limits.document_text_bytes_max, "document_text_bytes_max");
        check_bytes(&["text"], "the text", self.text.len(), text_max, setting)?;
        if let Some(title) = &self.title {
            check_title(title, limits)?;
        }
        if let Some(pages) = &self.pages {
            check_pages(pages, &self.text)?;
        }
        self.metadata.as_ref().map_or(Ok(()), |metadata| metadata.check(limits))
    }
}

/// The title is embedded with every chunk: a long one leaves no room for the text.
pub(crate) fn check_title(title: &str, limits: &Limits) -> Result<()> {
    let (bytes, bytes_max) = (title.len(), limits.title_bytes_max);
    if bytes <= bytes_max {
        return Ok(());
    }
    let message = format!(
        "the title has {bytes} bytes; the limit `limits.title_bytes_max` is {bytes_max}. Move what is more than a title into the text"
    );
    Err(Invalid::at(ErrorCode::PayloadTooLarge, &["title"], message))
}

fn check_document_id(id: &str, limits: &Limits) -> Result<()> {
    require(!id.is_empty(), &["id"], || "the id is empty; omit it to have one generated")?;
    check_bytes(&["id"], "the id", id.len(), limits.document_id_bytes_max, "document_id_bytes_max")
}

/// The id of a document that may otherwise be invalid, to name the document in its error.
pub fn document_id_of(json: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Id {
        id: String,
    }
    serde_json::from_str::<Id>(json.get()).ok().map(|found| found.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    const LIMITS: Limits = Limits {
        documents_per_request_max: 2,
        document_text_bytes_max: 20,
        title_bytes_max: 10,
        document_id_bytes_max: 8,
        metadata_bytes_max: 40,
        metadata_keys_max: 3,
        ..Limits::DEFAULT
    };

    /// Parses and validates one document; `expected` is `code param`, or `ok`.
    fn check(document: &str, expected: &str) {
        let body = format!("{{\"documents\":[{document}]}}");
        let request: IngestRequest<'_> = parse(body.as_bytes()).unwrap();
        request.check(&LIMITS).unwrap();
        let seen = match Document::parse(request.documents[0], &LIMITS) {
            Ok(_) => "ok".to_owned(),
            Err(invalid) => format!("{} {}", invalid.code, invalid.param.unwrap_or_default()),
        };
        assert_eq!(seen, expected, "{document}");
    }

    #[test]
    fn an_invalid_document_is_refused_with_its_parameter() {
        check(r#"{"text":"a"}"#, "ok");
        check(r#"{"id":"a/ 🦀","text":"a\u0000b","title":null,"metadata":{}}"#, "ok");
        check(r#"{}"#, "invalid_parameter text");
        check(r#"{"text":""}"#, "invalid_parameter text");
        check(r#"{"text":" \n"}"#, "invalid_parameter text");
        check(r#"{"text":"","title":" "}"#, "invalid_parameter text");
        check(r#"{"text":"","title":"a"}"#, "ok");
        check(r#"{"text":7}"#, "invalid_parameter text");
        check(r#"7"#, "invalid_parameter ");
        check(r#"{"text":"a","body":"b"}"#, "unknown_field body");
        check(r#"{"text":"\ud800"}"#, "invalid_json ");
        check(r#"{"text":"123456789012345678901"}"#, "payload_too_large text");
        check(r#"{"text":"a","title":"12345678901"}"#, "payload_too_large title");
        check(r#"{"id":"","text":"a"}"#, "invalid_parameter id");
        check(r#"{"id":"12345678","text":"a"}"#, "ok");
        check(r#"{"id":"123456789","text":"a"}"#, "payload_too_large id");
        check(r#"{"text":"a","metadata":[]}"#, "invalid_parameter metadata");
        check(r#"{"text":"a","metadata":{"a":"\ud800"}}"#, "invalid_parameter metadata");
        check(r#"{"text":"a","metadata":{"a":1,"b":2,"c":3}}"#, "ok");
        check(r#"{"text":"a","metadata":{"a":1,"b":2,"c":3,"d":4}}"#, "invalid_parameter metadata");
        check(
            r#"{"text":"a","metadata":{"a":"1234567890123456789012345678901234567890"}}"#,
            "payload_too_large metadata",
        );
    }

    #[test]
    fn a_request_with_no_or_too_many_documents_is_refused() {
        let refusal = |body: &'static str| {
            let request: IngestRequest<'_> = parse(body.as_bytes()).unwrap();
            request.check(&LIMITS).map_err(|invalid| (invalid.code, invalid.param.unwrap_or_default()))
        };
        assert_eq!(refusal(r#"{"documents":[]}"#), Err((ErrorCode::InvalidParameter, "documents".into())));
        assert_eq!(refusal(r#"{"documents":[1,2]}"#), Ok(()));
        assert_eq!(refusal(r#"{"documents":[1,2,3]}"#), Err((ErrorCode::BatchTooLarge, "documents".into())));
        assert_eq!(
            refusal(r#"{"collection":"a b","documents":[1]}"#),
            Err((ErrorCode::InvalidParameter, "collection".into()))
        );
    }

    #[test]
    fn a_request_of_the_wrong_structure_is_refused_with_the_parameter() {
        let refusal = |body: &'static str| {
            let invalid = parse::<IngestRequest<'_>>(body.as_bytes()).unwrap_err();
            (invalid.code, invalid.param.unwrap_or_default())
        };
        assert_eq!(refusal("{}"), (ErrorCode::InvalidParameter, "documents".into()));
        assert_eq!(refusal(r#"{"documents":{}}"#), (ErrorCode::InvalidParameter, "documents".into()));
        assert_eq!(refusal(r#"{"documents":[{"text":}]}"#), (ErrorCode::InvalidJson, String::new()));
        assert_eq!(refusal(r#"{"documents":[],"wait":true}"#), (ErrorCode::UnknownField, "wait".into()));
    }

    #[test]
    fn metadata_keeps_every_byte() {
        let sent = r#"{"b":1.10, "a":123456789012345678901234567890,"a":"\u00e9"}"#;
        let body = format!("{{\"text\":\"a\",\"metadata\": {sent} }}");
        let document: Document = parse(body.as_bytes()).unwrap();
        assert_eq!(document.metadata.as_ref().unwrap().as_json(), sent);
        assert_eq!(
            serde_json::to_string(&document).unwrap(),
            format!("{{\"text\":\"a\",\"metadata\":{sent}}}")
        );
    }

    #[test]
    fn deeply_nested_metadata_is_refused() {
        let nested = format!("{{\"a\":{}{}}}", "[".repeat(200), "]".repeat(200));
        let metadata = Metadata::from_json(nested).unwrap();
        assert!(metadata.to_map().is_err());
        let document = Document { text: "a".into(), metadata: Some(metadata), ..Document::default() };
        assert_eq!(document.check(&Limits::default()).unwrap_err().param.as_deref(), Some("metadata"));
    }

    #[test]
    fn an_invalid_document_is_named_by_its_id_if_that_can_be_parsed() {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        assert_eq!(document_id_of(&raw(r#"{"id":"a","text":7}"#)), Some("a".to_owned()));
        assert_eq!(document_id_of(&raw(r#"{"id":7,"text":7}"#)), None);
        assert_eq!(document_id_of(&raw("7")), None);
    }
}
