//! Documents from the fields of a JSON object.

use serde_json::{Map, Value};
use weir_api::{Document, DocumentPage, Metadata, Vector};

/// Makes a document of an object with `text`, and optionally `id` (or `_id`), `title`, `metadata`, and `pages` and `vector` as exports have
/// them. Its other fields are added to the metadata, and so is `path` unless there is one. An id of its own is put behind `prefix`; without one the
/// document gets `default_id`.
///
/// # Errors
/// The reason why the object is not a document, to follow its name.
pub fn document_of_fields(
    mut fields: Map<String, Value>,
    default_id: String,
    path: &str,
    prefix: &str,
) -> Result<Document, String> {
    let id = match fields.remove("id").or_else(|| fields.remove("_id")) {
        None | Some(Value::Null) => default_id,
        Some(Value::String(id)) => format!("{prefix}{id}"),
        Some(Value::Number(id)) => format!("{prefix}{id}"),
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
            return Err("`id` must be a text or a number".to_owned());
        }
    };
    let text = take_text(&mut fields, "text")?.ok_or("has no `text`")?;
    let title = take_text(&mut fields, "title")?.filter(|title| !title.is_empty());
    let mut metadata = match fields.remove("metadata") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(metadata)) => metadata,
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            return Err("`metadata` must be an object".to_owned());
        }
    };
    let pages = take_pages(&mut fields);
    let vector = take_vector(&mut fields);
    for (name, value) in fields {
        metadata.entry(name).or_insert(value);
    }
    metadata.entry("path").or_insert_with(|| path.into());
    Ok(Document { id: Some(id), title, text, metadata: Some(Metadata::from_map(&metadata)), pages, vector })
}

/// The pages of the text, if the field has that form: `pages` is also a number of pages, or their range in a journal.
fn take_pages(fields: &mut Map<String, Value>) -> Option<Vec<DocumentPage>> {
    let pages: Vec<DocumentPage> = serde_json::from_value(fields.get("pages")?.clone()).ok()?;
    fields.remove("pages");
    Some(pages)
}

/// The embedding of the document, if the field is a list of numbers.
fn take_vector(fields: &mut Map<String, Value>) -> Option<Vector> {
    let vector: Vector = serde_json::from_value(fields.get("vector")?.clone()).ok()?;
    fields.remove("vector");
    Some(vector)
}

fn take_text(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(format!("`{name}` must be a text"))
        }
    }
}
