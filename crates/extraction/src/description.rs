//! Metadata and title of a document's file.

use serde_json::{Map, Value, json};
use weir_api::{ErrorCode, Invalid, Limits, Metadata};
use weir_documents::Extracted;

/// Most lost pages that a document lists.
const LOST_LISTED_MAX: usize = 100;

/// Most bytes of the title that a file declares, or of its name as a title.
const TITLE_BYTES_MAX: usize = 1_000;
/// Most bytes of a fact that a file declares, as JSON, and most facts.
const FACT_BYTES_MAX: usize = 2_000;
const FACTS_MAX: usize = 64;

/// The field of the metadata that describes the file.
const FILE_FIELD: &str = "file";

/// Adds to the description of a file what was left out of its text.
pub fn describe_losses(about: &mut Map<String, Value>, extracted: &Extracted) {
    if !extracted.warnings.is_empty() {
        let codes: Vec<&str> = extracted.warnings.iter().map(|warning| warning.code.as_str()).collect();
        about.insert("warnings".to_owned(), codes.into());
    }
    if extracted.lost.is_empty() {
        return;
    }
    let lost = extracted.lost.iter().take(LOST_LISTED_MAX);
    let lost: Vec<Value> = lost
        .map(|lost| json!({"pages": lost.part, "code": lost.code, "reason": cut(lost.message.clone(), FACT_BYTES_MAX)}))
        .collect();
    about.insert("state".to_owned(), "partial".into());
    about.insert("lost_pages".to_owned(), lost.into());
}

/// The metadata of a document: the fields that were sent, the facts that the file declares, and the description of the file. A field that was
/// sent is never replaced.
///
/// # Errors
/// `invalid_parameter` for sent fields that are no JSON object.
pub fn merged_metadata(
    sent: Option<&Metadata>,
    facts: Map<String, Value>,
    about: Map<String, Value>,
) -> Result<Metadata, Invalid> {
    let sent = sent.map(Metadata::to_map).transpose().map_err(|error| {
        let message = format!("metadata cannot be parsed: {error}");
        Invalid::at(ErrorCode::InvalidParameter, &["metadata"], message)
    })?;
    let mut fields = sent.unwrap_or_default();
    fields.entry(FILE_FIELD).or_insert(about.into());
    let is_small = |fact: &Value| fact.to_string().len() <= FACT_BYTES_MAX;
    for (name, fact) in facts.into_iter().filter(|(_, fact)| is_small(fact)).take(FACTS_MAX) {
        fields.entry(name).or_insert(fact);
    }
    Ok(Metadata::from_map(&fields))
}

/// The title of a file: that which it declares, or its name.
pub fn title_of(declared: Option<String>, name: &str, limits: &Limits) -> Option<String> {
    let bytes_max = TITLE_BYTES_MAX.min(limits.title_bytes_max);
    declared.or_else(|| stem(name)).map(|title| cut(title, bytes_max)).filter(|title| !title.is_empty())
}

/// The name of a file without its folders.
pub fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// A name without its ending.
fn stem(name: &str) -> Option<String> {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    Some(stem.to_owned()).filter(|stem| !stem.is_empty())
}

fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_that_was_sent_is_kept() {
        let object = |value: Value| value.as_object().cloned().unwrap_or_default();
        let sent = Metadata::from_map(&object(json!({"tenant": "a", "author": "sent"})));
        let facts = object(
            json!({"author": "declared", "tenant": "b", "created": "2026", "long": "x".repeat(2_000)}),
        );
        let found = merged_metadata(Some(&sent), facts, object(json!({"name": "a.pdf"}))).unwrap();
        let expected = json!({"tenant": "a", "author": "sent", "created": "2026", "file": {"name": "a.pdf"}});
        assert_eq!(found.to_map().unwrap(), object(expected));
    }

    #[test]
    fn names_lose_folders_and_endings() {
        assert_eq!(base_name("C:\\files\\a.b.pdf"), "a.b.pdf");
        assert_eq!(base_name("files/a.pdf"), "a.pdf");
        assert_eq!(stem("a.b.pdf").as_deref(), Some("a.b"));
        assert_eq!(stem(".pdf"), None);
        assert_eq!(cut("aé".to_owned(), 2), "a");
    }
}
