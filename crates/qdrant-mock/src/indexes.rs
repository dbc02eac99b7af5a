//! Indexes of points by field value and by sparse term: without them every call would compare every point.
//!
//! They only narrow the candidates: conditions without an index are evaluated on the points, and tests read and change the points alone.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::{Deref, DerefMut};

use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::{Condition, FieldCondition, Filter, Value};
use tonic::Status;

use crate::filter::{check, values_at};
use crate::state::{Stored, StoredVector};

/// Points by id, with their indexes.
#[derive(Debug, Default)]
pub struct Points {
    by_id: BTreeMap<String, Stored>,
    /// Made when they are needed first, and again after a change from outside.
    indexes: OnceCell<Indexes>,
}

impl Deref for Points {
    type Target = BTreeMap<String, Stored>;

    fn deref(&self) -> &BTreeMap<String, Stored> {
        &self.by_id
    }
}

impl DerefMut for Points {
    fn deref_mut(&mut self) -> &mut BTreeMap<String, Stored> {
        self.indexes.take();
        &mut self.by_id
    }
}

impl Points {
    /// Adds a point or replaces that of its id.
    pub(crate) fn put(&mut self, id: String, point: Stored) {
        if let Some(indexes) = self.indexes.get_mut() {
            if let Some(replaced) = self.by_id.get(&id) {
                indexes.change(&id, replaced, false);
            }
            indexes.change(&id, &point, true);
        }
        self.by_id.insert(id, point);
    }

    /// Removes the point of an id, if there is one.
    pub(crate) fn delete(&mut self, id: &str) {
        let removed = self.by_id.remove(id);
        if let (Some(indexes), Some(removed)) = (self.indexes.get_mut(), removed) {
            indexes.change(id, &removed, false);
        }
    }

    /// Has the indexes made again, of other fields.
    pub(crate) fn index_again(&mut self) {
        self.indexes.take();
    }

    /// The indexes of these fields of payloads.
    pub(crate) fn indexes<'f>(&self, fields: impl Iterator<Item = &'f String>) -> &Indexes {
        self.indexes.get_or_init(|| {
            let mut made = Indexes {
                fields: fields.map(|field| (field.clone(), HashMap::new())).collect(),
                ..Indexes::default()
            };
            self.by_id.iter().for_each(|(id, point)| made.change(id, point, true));
            made
        })
    }
}

/// The indexes of a collection. Points have numbers in it, from 0; that of a removed point is not given again.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    number_of: HashMap<String, u32>,
    ids: Vec<String>,
    all: Bits,
    /// The points with a value, by field.
    fields: HashMap<String, HashMap<Key, Bits>>,
    /// By the name of a sparse vector.
    sparse: HashMap<String, Sparse>,
}

/// A value of a payload.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Text(String),
    Integer(i64),
}

/// The sparse vectors of one name.
#[derive(Debug, Default)]
pub(crate) struct Sparse {
    /// The points that have one.
    pub(crate) points: Bits,
    /// The values of each term, by point.
    pub(crate) postings: HashMap<u32, BTreeMap<u32, f32>>,
}

/// Points that can pass a filter.
pub(crate) struct Candidates {
    pub(crate) points: Bits,
    /// Whether all of them pass.
    pub(crate) is_exact: bool,
}

impl Indexes {
    /// The id of a point.
    pub(crate) fn id(&self, number: u32) -> &String {
        &self.ids[number as usize]
    }

    /// How many numbers were given.
    pub(crate) fn numbers(&self) -> usize {
        self.ids.len()
    }

    /// The sparse vectors of a name; `None` if no point has one.
    pub(crate) fn sparse(&self, name: &str) -> Option<&Sparse> {
        self.sparse.get(name)
    }

    /// All points that can pass a filter.
    ///
    /// # Errors
    /// Those of [`check`].
    pub(crate) fn candidates(&self, filter: Option<&Filter>) -> Result<Candidates, Status> {
        let mut candidates = Candidates { points: self.all.clone(), is_exact: true };
        if let Some(filter) = filter {
            check(filter)?;
            self.narrow(filter, &mut candidates);
        }
        Ok(candidates)
    }

    fn narrow(&self, filter: &Filter, candidates: &mut Candidates) {
        let Filter { should, must, must_not, min_should } = filter;
        candidates.is_exact &= should.is_empty() && must_not.is_empty() && min_should.is_none();
        for condition in must {
            match &condition.condition_one_of {
                Some(ConditionOneOf::Filter(inner)) => self.narrow(inner, candidates),
                _ => match self.holding(condition) {
                    Some(points) => candidates.points.keep(&points),
                    None => candidates.is_exact = false,
                },
            }
        }
    }

    /// The points for which a condition holds; `None` if no index covers it.
    fn holding(&self, condition: &Condition) -> Option<Bits> {
        let Some(ConditionOneOf::Field(field)) = &condition.condition_one_of else { return None };
        let FieldCondition { key, r#match: Some(wanted), range: None, .. } = field else { return None };
        let by_value = self.fields.get(key)?;
        let text = |text: &String| Key::Text(text.clone());
        let keys: Vec<Key> = match wanted.match_value.as_ref()? {
            MatchValue::Keyword(keyword) => vec![text(keyword)],
            MatchValue::Keywords(keywords) => keywords.strings.iter().map(text).collect(),
            MatchValue::Integer(integer) => vec![Key::Integer(*integer)],
            MatchValue::Integers(integers) => integers.integers.iter().copied().map(Key::Integer).collect(),
            MatchValue::Boolean(_)
            | MatchValue::Text(_)
            | MatchValue::ExceptIntegers(_)
            | MatchValue::ExceptKeywords(_)
            | MatchValue::Phrase(_)
            | MatchValue::TextAny(_)
            | MatchValue::Prefix(_)
            | MatchValue::Substring(_) => return None,
        };
        let mut points = Bits::default();
        keys.iter().filter_map(|key| by_value.get(key)).for_each(|one| points.add_all(one));
        Some(points)
    }

    /// Adds a point or removes it.
    fn change(&mut self, id: &str, point: &Stored, is_added: bool) {
        let number = match self.number_of.get(id) {
            Some(number) => *number,
            None => {
                let number = self.ids.len() as u32;
                self.number_of.insert(id.to_owned(), number);
                self.ids.push(id.to_owned());
                number
            }
        };
        self.all.set(number, is_added);
        for (field, by_value) in &mut self.fields {
            for key in values_at(&point.payload, field).into_iter().filter_map(key_of) {
                by_value.entry(key).or_default().set(number, is_added);
            }
        }
        for (name, vector) in &point.vectors {
            let StoredVector::Sparse(values) = vector else { continue };
            let sparse = self.sparse.entry(name.clone()).or_default();
            sparse.points.set(number, is_added);
            for (term, value) in values {
                let posting = sparse.postings.entry(*term).or_default();
                match is_added {
                    true => drop(posting.insert(number, *value)),
                    false => drop(posting.remove(&number)),
                }
            }
        }
    }
}

fn key_of(value: &Value) -> Option<Key> {
    match &value.kind {
        Some(Kind::StringValue(text)) => Some(Key::Text(text.clone())),
        Some(Kind::IntegerValue(integer)) => Some(Key::Integer(*integer)),
        _ => None,
    }
}

/// A set of numbers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn contains(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The numbers, in order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        let of_word = |(place, word): (usize, &u64)| {
            let word = *word;
            (0..64u32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| place as u32 * 64 + bit)
        };
        self.0.iter().enumerate().flat_map(of_word)
    }

    /// Keeps what `other` has too.
    pub(crate) fn keep(&mut self, other: &Bits) {
        self.0.truncate(other.0.len());
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }

    fn add_all(&mut self, other: &Bits) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn set(&mut self, number: u32, is_set: bool) {
        let (place, bit) = (number as usize / 64, 1 << (number % 64));
        self.0.resize(self.0.len().max(place + 1), 0);
        match is_set {
            true => self.0[place] |= bit,
            false => self.0[place] &= !bit,
        }
    }
}
