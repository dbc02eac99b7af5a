//! The form of a chunk in Qdrant: one point, with the embedding, the terms and everything that a search returns of it.
//!
//! | field | what |
//! |---|---|
//! | `c`, `o` | the tenant: service, collection and generation; the collection alone |
//! | `d`, `k`, `v` | document, number of the chunk, version of the document |
//! | `p` | paths of the metadata |
//! | `f` | values of the metadata, each with its path, in a form in which equal values are equal |
//! | `x` | numbers and dates of the metadata, by path |
//! | `n` | of the first chunk: the document's names, and their leading words |
//! | `m`, `t`, `w`, `s`, `e`, `z` | metadata, title, text, first byte, end, chunks of the document |
//! | `g` | of the first chunk: pages |

use std::collections::{BTreeSet, HashMap};

use weir_filter::{Number, Value as Field, flatten};
use weir_qdrant::api::point_id::PointIdOptions;
use weir_qdrant::api::value::Kind;
use weir_qdrant::api::vector::Vector as VectorKind;
use weir_qdrant::api::vectors::VectorsOptions;
use weir_qdrant::api::{
    DenseVector, ListValue, NamedVectors, PointId, PointStruct, Struct, Value, Vector, Vectors,
};
pub(super) use weir_qdrant::{CHUNK, CHUNKS, DOCUMENT, METADATA, VERSION};
use weir_qdrant::{DENSE, SPARSE, TENANT, Uuid, digest, point_id, sparse_of};
use weir_text::Language;

use crate::field_values::metadata;
use crate::{IndexedChunk, IndexedDocument};

pub(super) const OWNER: &str = "o";
pub(super) const PATHS: &str = "p";
pub(super) const VALUES: &str = "f";
pub(super) const NUMBERS: &str = "x";
pub(super) const NAMES: &str = "n";
pub(super) const TITLE: &str = "t";
pub(super) const TEXT: &str = "w";
pub(super) const START: &str = "s";
pub(super) const END: &str = "e";
pub(super) const PAGES: &str = "g";

/// Texts that are compared are stored as they are up to this many bytes, and by a digest beyond.
const COMPARED_BYTES_MAX: usize = 128;
/// Leading words of a name under which its document is found.
const NAME_WORDS_MAX: usize = 16;

/// To whom points belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tenant {
    /// Service, collection and generation.
    pub(super) name: String,
    /// Service and collection.
    pub(super) owner: String,
}

/// A value with its path, equal for values that filters take as equal.
pub(super) fn value_key(path: &str, value: &Field) -> String {
    let spelled = match (value, value.timestamp()) {
        (_, Some(micros)) => format!("d{micros}"),
        (Field::String(text), None) => format!("s{text}"),
        (Field::Number(Number::Integer(integer)), None) => format!("n{integer}"),
        (Field::Number(Number::Float(float)), None) => format!("f{:016x}", float.to_bits()),
        (Field::Boolean(boolean), None) => format!("b{boolean}"),
    };
    bounded(format!("{path}\u{1f}{spelled}"))
}

/// The key of a path's values that are strings and no dates.
pub(super) fn text_key(path: &str) -> String {
    bounded(format!("{path}\u{1f}~"))
}

/// A path as it is stored.
pub(super) fn path_key(path: &str) -> String {
    bounded(path.to_owned())
}

/// The field of the numbers of a path, and of its dates.
pub(super) fn number_field(path: &str, is_date: bool) -> String {
    let kind = if is_date { 'd' } else { 'n' };
    format!("{NUMBERS}.{kind}{}", digest(path))
}

fn bounded(text: String) -> String {
    if text.len() <= COMPARED_BYTES_MAX { text } else { format!("\u{1e}{}", digest(&text)) }
}

/// The whole name, and names that begin with these words.
pub(super) fn name_keys(normalised: &str) -> [String; 2] {
    [bounded(format!("={normalised}")), bounded(format!(">{normalised}"))]
}

/// Under what a document is found by its title and its id.
fn names_of(document: &IndexedDocument) -> BTreeSet<String> {
    let names = [Some(document.id.as_str()), document.title.as_deref()];
    let mut keys = BTreeSet::new();
    for name in names.into_iter().flatten().filter_map(weir_lexical::normalised_name) {
        let spaces = name.match_indices(' ').map(|(place, _)| place).take(NAME_WORDS_MAX);
        for end in spaces {
            let [_, leading] = name_keys(&name[..end]);
            keys.insert(leading);
        }
        let [whole, _] = name_keys(&name);
        keys.insert(whole);
    }
    keys
}

/// The fields that a document's metadata adds to the payload of each of its chunks.
fn metadata_fields(json: &str) -> HashMap<String, Value> {
    let (mut paths, mut values) = (BTreeSet::new(), BTreeSet::new());
    let mut numbers: HashMap<String, Vec<Value>> = HashMap::new();
    flatten(&metadata(json), |path, value| {
        paths.insert(path_key(path));
        values.insert(value_key(path, &value));
        let (is_date, number) = match (&value, value.timestamp()) {
            (_, Some(micros)) => (true, Value::from(micros)),
            (Field::Number(number), None) => (false, Value::from(number.to_f64())),
            (Field::String(_), None) => {
                values.insert(text_key(path));
                return;
            }
            (Field::Boolean(_), None) => return,
        };
        let field = number_field(path, is_date);
        let field = field.split_once('.').map_or(field.as_str(), |(_, field)| field).to_owned();
        numbers.entry(field).or_default().push(number);
    });
    let numbers = numbers.into_iter().map(|(field, values)| (field, list(values)));
    let numbers = Value { kind: Some(Kind::StructValue(Struct { fields: numbers.collect() })) };
    HashMap::from([
        (PATHS.to_owned(), list(paths.into_iter().map(Value::from))),
        (VALUES.to_owned(), list(values.into_iter().map(Value::from))),
        (NUMBERS.to_owned(), numbers),
    ])
}

fn list(values: impl IntoIterator<Item = Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values: values.into_iter().collect() })) }
}

/// An id of a point.
pub(super) fn id(uuid: Uuid) -> PointId {
    PointId { point_id_options: Some(PointIdOptions::Uuid(uuid.to_string())) }
}

/// The points of a document.
pub(super) fn points_of(tenant: &Tenant, document: &IndexedDocument, language: Language) -> Vec<PointStruct> {
    let mut shared = metadata_fields(&document.metadata);
    let title = document.title.as_deref();
    let fields: [(&str, Value); 6] = [
        (TENANT, tenant.name.as_str().into()),
        (OWNER, tenant.owner.as_str().into()),
        (DOCUMENT, document.id.as_str().into()),
        (VERSION, integer(document.version)),
        (METADATA, document.metadata.as_str().into()),
        (CHUNKS, integer(document.chunks.len() as u64)),
    ];
    shared.extend(fields.map(|(field, value)| (field.to_owned(), value)));
    shared.extend(title.map(|title| (TITLE.to_owned(), title.into())));
    let point = |(number, chunk): (u32, &IndexedChunk)| {
        let mut payload = shared.clone();
        let fields: [(&str, Value); 4] = [
            (CHUNK, i64::from(number).into()),
            (TEXT, chunk.text.as_str().into()),
            (START, integer(chunk.start as u64)),
            (END, integer(chunk.end as u64)),
        ];
        payload.extend(fields.map(|(field, value)| (field.to_owned(), value)));
        if number == 0 {
            payload.insert(NAMES.to_owned(), list(names_of(document).into_iter().map(Value::from)));
            payload.extend(document.pages.as_deref().map(|pages| (PAGES.to_owned(), pages.into())));
        }
        PointStruct {
            id: Some(id(point_id(&tenant.name, &document.id, number))),
            payload,
            vectors: Some(vectors_of(title.unwrap_or_default(), chunk, language)),
        }
    };
    (0..).zip(&document.chunks).map(point).collect()
}

fn vectors_of(title: &str, chunk: &IndexedChunk, language: Language) -> Vectors {
    let vector = |kind| Vector { vector: Some(kind), ..Default::default() };
    let terms = VectorKind::Sparse(sparse_of(title, &chunk.text, language));
    let mut vectors = HashMap::from([(SPARSE.to_owned(), vector(terms))]);
    if let Some(embedding) = &chunk.embedding {
        let dense = VectorKind::Dense(DenseVector { data: embedding.clone() });
        vectors.insert(DENSE.to_owned(), vector(dense));
    }
    Vectors { vectors_options: Some(VectorsOptions::Vectors(NamedVectors { vectors })) }
}

/// Numbers of a store are far below 2^63.
pub(super) fn integer(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_filters_take_as_equal_have_one_key() {
        let key =
            |json: &str| value_key("a", &Field::from_json(&serde_json::from_str(json).unwrap()).unwrap());
        assert_eq!(key("1"), key("1.0"));
        assert_eq!(key("\"2024-01-01\""), key("\"2024-01-01T01:00:00+01:00\""));
        let different =
            ["1", "\"1\"", "true", "\"true\"", "1.5", "\"2024-01-01\"", "\"2024-01-02\"", "\"n1\""];
        let keys: BTreeSet<String> = different.iter().map(|json| key(json)).collect();
        assert_eq!(keys.len(), different.len());
        let long = format!("\"{}\"", "x".repeat(1000));
        assert!(key(&long).len() < 64 && key(&long) != key(&long.replacen('x', "y", 1)));
    }
}
