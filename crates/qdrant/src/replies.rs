//! Points of replies, which are read where they lie.
//!
//! A search is given about a thousand points, and needs three or four short fields of most of them. The messages of `qdrant-client` make a map
//! of strings of each point. Here a point is the bytes that came, with the places of its fields: that is ten times cheaper.
//!
//! Source: [the wire format](https://protobuf.dev/programming-guides/encoding/), and `ScoredPoint`, `RetrievedPoint` and `Value` of Qdrant.

use std::ops::Range;

use bytes::Bytes;
use prost::Message;
use qdrant_client::qdrant::vector_output::Vector;
use qdrant_client::qdrant::vectors_output::VectorsOptions;
use qdrant_client::qdrant::{PointId, VectorsOutput};
use uuid::Uuid;

use crate::collection::{DENSE, SPARSE};

/// The reply to several queries.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct QueryBatchReply {
    #[prost(message, repeated, tag = "1")]
    pub(crate) results: Vec<QueryReply>,
}

/// The reply to one of them.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct QueryReply {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) points: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetReply {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) points: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScrollReply {
    #[prost(message, optional, tag = "1")]
    pub(crate) next_page_offset: Option<PointId>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) points: Vec<Bytes>,
}

/// Field numbers of a point.
const ID: u32 = 1;
const PAYLOAD: u32 = 2;
const SCORE: u32 = 3;
const VECTORS: u32 = 4;
const SCORED_VECTORS: u32 = 6;
/// Of its id.
const UUID: u32 = 2;
/// Of a field of the payload.
const NAME: u32 = 1;
const VALUE: u32 = 2;
/// Of a value.
const INTEGER: u32 = 3;
const TEXT: u32 = 4;

/// As many fields of a payload as most searches ask for.
const FIELDS_MOST: usize = 6;

/// A point that was found or read. It shares the memory of the reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FoundPoint {
    /// Its id; nil if it is a number, which none of ours is.
    pub id: Uuid,
    /// Of a search; otherwise 0.
    pub score: f32,
    /// The vector [`DENSE`], if it was asked for.
    pub dense: Option<Vec<f32>>,
    /// The vector [`SPARSE`], if it was asked for: numbers of terms and what the point has of them.
    pub sparse: Option<Vec<(u32, f32)>>,
    payload: Vec<Entry>,
    bytes: Bytes,
}

/// A field of a payload.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    name: Name,
    value: Value,
}

#[derive(Debug, Clone, PartialEq)]
enum Name {
    /// Of one letter, as are those that searches read.
    Letter(u8),
    /// Its range in the bytes of the point.
    Longer(Range<u32>),
}

#[derive(Debug, Clone, PartialEq)]
enum Value {
    Integer(i64),
    /// Where the text stands, which may not be UTF-8.
    Text(Range<u32>),
}

impl FoundPoint {
    /// A `ScoredPoint`; `None` if it can't be read.
    pub(crate) fn scored(bytes: Bytes) -> Option<FoundPoint> {
        FoundPoint::decode(bytes, SCORED_VECTORS)
    }

    /// A `RetrievedPoint`; `None` if it can't be read.
    pub(crate) fn read(bytes: Bytes) -> Option<FoundPoint> {
        FoundPoint::decode(bytes, VECTORS)
    }

    fn decode(bytes: Bytes, vectors: u32) -> Option<FoundPoint> {
        let mut point = FoundPoint { payload: Vec::with_capacity(FIELDS_MOST), ..FoundPoint::default() };
        let mut fields = Fields(&bytes);
        while !fields.0.is_empty() {
            match fields.next()? {
                (ID, Field::Bytes(id)) => {
                    let uuid = find(id, UUID).and_then(Field::bytes);
                    point.id = uuid.map_or(Some(Uuid::nil()), |uuid| Uuid::try_parse_ascii(uuid).ok())?;
                }
                (SCORE, Field::Fixed32(bits)) => point.score = f32::from_bits(bits),
                (PAYLOAD, Field::Bytes(entry)) => point.payload.extend(entry_of(entry, &bytes)),
                (field, Field::Bytes(vectors_of)) if field == vectors => point.take_vectors(vectors_of)?,
                _ => {}
            }
        }
        point.bytes = bytes;
        Some(point)
    }

    fn take_vectors(&mut self, bytes: &[u8]) -> Option<()> {
        let vectors = VectorsOutput::decode(bytes).ok()?;
        let Some(VectorsOptions::Vectors(mut named)) = vectors.vectors_options else { return Some(()) };
        // also from the fields of earlier versions
        let mut take = |name: &str| named.vectors.remove(name).map(|vector| vector.into_vector());
        if let Some(Vector::Dense(dense)) = take(DENSE) {
            self.dense = Some(dense.data);
        }
        if let Some(Vector::Sparse(sparse)) = take(SPARSE) {
            self.sparse = Some(sparse.indices.into_iter().zip(sparse.values).collect());
        }
        Some(())
    }

    /// A text of the payload.
    pub fn text(&self, field: &str) -> Option<&str> {
        std::str::from_utf8(self.text_bytes(field)?).ok()
    }

    /// The same, which may not be UTF-8: cheaper to compare.
    pub fn text_bytes(&self, field: &str) -> Option<&[u8]> {
        match self.value(field)? {
            Value::Text(place) => self.at(place),
            Value::Integer(_) => None,
        }
    }

    /// An integer of the payload.
    pub fn integer(&self, field: &str) -> Option<i64> {
        match self.value(field)? {
            Value::Integer(integer) => Some(*integer),
            Value::Text(_) => None,
        }
    }

    /// The weight of a term in the point, if [`FoundPoint::sparse`] was asked for.
    pub fn share_of(&self, term: u32) -> Option<f32> {
        let sparse = self.sparse.as_ref()?;
        sparse.iter().find(|(index, _)| *index == term).map(|(_, share)| *share)
    }

    /// The value of a field of the payload.
    fn value(&self, field: &str) -> Option<&Value> {
        let is_named = |entry: &&Entry| match (&entry.name, field.as_bytes()) {
            (Name::Letter(letter), [one]) => letter == one,
            (Name::Longer(place), wanted @ [_, _, ..]) => self.at(place) == Some(wanted),
            (Name::Letter(_) | Name::Longer(_), _) => false,
        };
        self.payload.iter().find(is_named).map(|entry| &entry.value)
    }

    fn at(&self, place: &Range<u32>) -> Option<&[u8]> {
        self.bytes.get(place.start as usize..place.end as usize)
    }
}

/// An entry of the payload, in which the name comes first; `None` if it is neither a text nor an integer.
fn entry_of(entry: &[u8], point: &[u8]) -> Option<Entry> {
    short_entry(entry, point).or_else(|| any_entry(entry, point))
}

/// An entry as most are: a name of one letter, and a number or a short text. The bytes before them are the keys of their fields.
fn short_entry(entry: &[u8], point: &[u8]) -> Option<Entry> {
    let [0x0a, 1, letter, 0x12, length, value @ ..] = entry else { return None };
    if usize::from(*length) != value.len() {
        return None;
    }
    let value = match value {
        [0x18, number @ ..] => {
            let mut rest = Fields(number);
            // negative ones are in two's complement
            let number = rest.varint()? as i64;
            rest.0.is_empty().then_some(Value::Integer(number))?
        }
        [0x22, length, text @ ..] if usize::from(*length) == text.len() && *length < 0x80 => {
            Value::Text(place_in(text, point)?)
        }
        _ => return None,
    };
    (*length < 0x80).then_some(Entry { name: Name::Letter(*letter), value })
}

fn any_entry(entry: &[u8], point: &[u8]) -> Option<Entry> {
    let mut fields = Fields(entry);
    let (NAME, Field::Bytes(name)) = fields.next()? else { return None };
    let value = find(fields.0, VALUE)?.bytes()?;
    let value = match Fields(value).last()? {
        // negative ones are in two's complement
        (INTEGER, Field::Varint(integer)) => Value::Integer(integer as i64),
        (TEXT, Field::Bytes(text)) => Value::Text(place_in(text, point)?),
        _ => return None,
    };
    let name = match name {
        [letter] => Name::Letter(*letter),
        longer => Name::Longer(place_in(longer, point)?),
    };
    Some(Entry { name, value })
}

/// The range of a part of a point.
fn place_in(part: &[u8], point: &[u8]) -> Option<Range<u32>> {
    let start = part.as_ptr().addr().checked_sub(point.as_ptr().addr())?;
    Some(u32::try_from(start).ok()?..u32::try_from(start + part.len()).ok()?)
}

/// The last field of this number, which is the one that counts.
fn find(message: &[u8], number: u32) -> Option<Field<'_>> {
    Fields(message).filter(|(field, _)| *field == number).last().map(|(_, field)| field)
}

/// A field of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Field<'a> {
    Varint(u64),
    Fixed64,
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> Field<'a> {
    fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Field::Bytes(bytes) => Some(bytes),
            Field::Varint(_) | Field::Fixed64 | Field::Fixed32(_) => None,
        }
    }
}

/// The fields of a message with their numbers, in their order. Ends where it can't be read, before which it was not empty.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        match self.0.split_first()? {
            // as most are
            (&byte, rest) if byte < 0x80 => {
                self.0 = rest;
                Some(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for place in 0..10 {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Field<'a>);

    #[inline]
    fn next(&mut self) -> Option<(u32, Field<'a>)> {
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => self.take(8).map(|_| Field::Fixed64)?,
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(self.take(4)?.try_into().ok()?)),
            // groups, which no message of Qdrant has
            _ => return None,
        };
        Some((u32::try_from(key >> 3).ok()?, field))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use qdrant_client::qdrant::{
        self, DenseVector, NamedVectorsOutput, RetrievedPoint, ScoredPoint, SparseVector, VectorOutput,
    };

    use super::*;

    fn vectors() -> VectorsOutput {
        let output = |vector| VectorOutput { vector: Some(vector), ..Default::default() };
        let dense = output(Vector::Dense(DenseVector { data: vec![0.5, -1.0] }));
        let sparse =
            output(Vector::Sparse(SparseVector { indices: vec![7, 900_000], values: vec![0.25, 2.0] }));
        let vectors = HashMap::from([(DENSE.to_owned(), dense), (SPARSE.to_owned(), sparse)]);
        VectorsOutput { vectors_options: Some(VectorsOptions::Vectors(NamedVectorsOutput { vectors })) }
    }

    fn payload() -> HashMap<String, qdrant::Value> {
        let fields: [(&str, qdrant::Value); 6] = [
            ("t", "größer".into()),
            ("empty", "".into()),
            ("v", 1_i64.into()),
            ("min", i64::MIN.into()),
            ("zero", 0_i64.into()),
            ("f", 1.5.into()),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn check(point: &FoundPoint, uuid: &str) {
        assert_eq!(point.id.to_string(), uuid);
        let texts = ["t", "empty", "v", "none"].map(|field| point.text(field));
        assert_eq!(texts, [Some("größer"), Some(""), None, None]);
        let integers = ["v", "min", "zero", "t", "f"].map(|field| point.integer(field));
        assert_eq!(integers, [Some(1), Some(i64::MIN), Some(0), None, None]);
        assert_eq!(point.dense.as_deref(), Some(&[0.5, -1.0][..]));
        assert_eq!([7, 8, 900_000].map(|term| point.share_of(term)), [Some(0.25), None, Some(2.0)]);
    }

    #[test]
    fn points_are_read_as_the_messages_of_the_client_are_written() {
        let uuid = "6f2d51f4-4c0e-5b0b-9a55-7d1c2b3e8f10";
        let scored = ScoredPoint {
            id: Some(uuid.into()),
            payload: payload(),
            score: -0.75,
            version: 3,
            vectors: Some(vectors()),
            ..Default::default()
        };
        let point = FoundPoint::scored(scored.encode_to_vec().into()).unwrap();
        check(&point, uuid);
        assert_eq!(point.score, -0.75);
        let read = RetrievedPoint {
            id: Some(uuid.into()),
            payload: payload(),
            vectors: Some(vectors()),
            ..Default::default()
        };
        check(&FoundPoint::read(read.encode_to_vec().into()).unwrap(), uuid);
        let numbered = ScoredPoint { id: Some(7.into()), ..Default::default() };
        assert_eq!(FoundPoint::scored(numbered.encode_to_vec().into()).unwrap().id, Uuid::nil());
    }

    #[test]
    fn short_entries_are_read_as_all_entries_are() {
        for text in [0, 1, 122, 123, 124, 125, 126, 127, 128, 300].map(|length| "a".repeat(length)) {
            let payload = HashMap::from([("t".to_owned(), qdrant::Value::from(text.as_str()))]);
            let point = ScoredPoint { payload, ..Default::default() }.encode_to_vec();
            let entry = find(&point, PAYLOAD).unwrap().bytes().unwrap();
            assert_eq!(entry_of(entry, &point), any_entry(entry, &point), "{}", text.len());
            assert_eq!(short_entry(entry, &point).is_some(), text.len() < 126, "{}", text.len());
        }
        for number in [0, 1, 127, 128, 1 << 40, -1] {
            let payload = HashMap::from([("v".to_owned(), qdrant::Value::from(number))]);
            let point = ScoredPoint { payload, ..Default::default() }.encode_to_vec();
            let entry = find(&point, PAYLOAD).unwrap().bytes().unwrap();
            assert_eq!(entry_of(entry, &point), any_entry(entry, &point), "{number}");
            assert!(short_entry(entry, &point).is_some(), "{number}");
        }
        // the last of several values counts
        assert_eq!(short_entry(b"\x0a\x01v\x12\x02\x18\x01\x12\x02\x18\x02", b""), None);
    }

    #[test]
    fn a_point_that_is_cut_is_refused_or_lacks_the_fields_that_were_cut() {
        let scored = ScoredPoint {
            id: Some("6f2d51f4-4c0e-5b0b-9a55-7d1c2b3e8f10".into()),
            payload: payload(),
            score: 2.0,
            vectors: Some(vectors()),
            ..Default::default()
        };
        let bytes = Bytes::from(scored.encode_to_vec());
        let whole = FoundPoint::scored(bytes.clone()).unwrap();
        for end in 0..bytes.len() {
            let Some(point) = FoundPoint::scored(bytes.slice(..end)) else { continue };
            for field in ["t", "empty", "none"] {
                assert!(point.text(field).is_none_or(|text| Some(text) == whole.text(field)), "{end}");
            }
            for field in ["v", "min", "zero"] {
                assert!(
                    point.integer(field).is_none_or(|number| Some(number) == whole.integer(field)),
                    "{end}"
                );
            }
        }
        for broken in [&b"\x0a\x04\x12\x02no"[..], b"\x12", b"\x12\x05ab", b"\x0b", b"\x1d\0\0"] {
            assert_eq!(FoundPoint::scored(Bytes::copy_from_slice(broken)), None, "{broken:?}");
        }
    }
}
