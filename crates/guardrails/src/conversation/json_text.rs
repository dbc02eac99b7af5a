//! A text that is JSON, such as the arguments of a tool: checked as its reader takes it, without escapes and with the JSON within its strings, as one
//! text. What is found is replaced in the keys and values that have a part of it, so that the text stays JSON. What may be a file is read as one, and
//! as a text.

use std::borrow::Cow;
use std::ops::Range;

use weir_translate::json::{Edits, Kind, Tape, Value};

use super::file::{File, is_file_field};
use super::walk::{Check, Reading, check_one, looks_like_json, without_escapes};

/// JSON in a text, or an entry of an object, and its keys and values.
pub(super) struct JsonText<'t> {
    text: Cow<'t, str>,
    /// The range that is replaced where a bracket can't be.
    value: Range<usize>,
    leaves: Vec<Leaf>,
}

/// A key, or a value that is neither an array nor an object.
struct Leaf {
    range: Range<usize>,
    content: JsonContent,
}

/// The content of a key or value.
enum JsonContent {
    /// JSON.
    Json(JsonText<'static>),
    /// A part of what is checked.
    Part {
        /// Whether a file in it was changed before.
        is_changed: bool,
    },
}

/// A key or value, and what it becomes if it changes.
pub(super) type Change = (Range<usize>, Option<String>);

/// The checked parts of a JSON text: at odd places its keys and values, at even ones the text between them.
#[derive(Default)]
pub(super) struct Parts {
    text: String,
    /// Where each part ends, but the last.
    ends: Vec<usize>,
}

impl Parts {
    fn push(&mut self, value: &str) {
        self.ends.push(self.text.len());
        self.text.push_str(value);
        self.ends.push(self.text.len());
    }

    fn all(&self) -> Vec<&str> {
        let ends = self.ends.iter().copied().chain([self.text.len()]);
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(ends).map(|(start, end)| &self.text[start..end]).collect()
    }
}

impl<'t> JsonText<'t> {
    /// Reads a text, checks its files and appends its parts; `None` if it is no JSON.
    ///
    /// # Errors
    /// Those of the check.
    pub(super) fn read<E>(
        text: Cow<'t, str>,
        parts: &mut Parts,
        check: &mut Check<'_, E>,
    ) -> Result<Option<JsonText<'t>>, E> {
        let Ok(tape) = Tape::parse(text.as_bytes()) else { return Ok(None) };
        let mut values = Vec::new();
        let root = tape.root(text.as_bytes());
        collect_leaves(root, false, &mut values);
        let leaves = read_leaves(&values, &text, 0, parts, check)?;
        Ok(Some(JsonText { value: root.range(), text, leaves }))
    }

    /// Reads a value within a JSON text, and the key before it; of the changes to it, the places are those in that text.
    ///
    /// # Errors
    /// Those of the check.
    pub(super) fn of<E>(
        key: Option<Value<'t>>,
        value: Value<'t>,
        parts: &mut Parts,
        check: &mut Check<'_, E>,
    ) -> Result<JsonText<'t>, E> {
        let mut values: Vec<(Value<'t>, bool)> = key.map(|key| (key, false)).into_iter().collect();
        let is_of_files = key.is_some_and(|key| is_file_field(&key.string()));
        collect_leaves(value, is_of_files, &mut values);
        let start = key.unwrap_or(value).range().start;
        let text = String::from_utf8_lossy(&value.document()[start..value.range().end]);
        let leaves = read_leaves(&values, &text, start, parts, check)?;
        Ok(JsonText { text, value: value.range(), leaves })
    }

    /// Whether a key or value stands at one of these places.
    pub(super) fn has_any(&self, places: &[Range<usize>]) -> bool {
        let is_any = |start: usize| places.binary_search_by_key(&start, |place| place.start).is_ok();
        !places.is_empty() && self.leaves.iter().any(|leaf| is_any(leaf.range.start))
    }

    /// The text after the check. `parts`: those of it.
    ///
    /// # Errors
    /// Those of the check.
    pub(super) fn checked<E>(&self, parts: &Parts, check: &mut Check<'_, E>) -> Result<Option<String>, E> {
        Ok(self.edited(self.changes(parts, Reading::Json, check)?))
    }

    /// The replacement of each key and value, or of the value as a whole. `parts`: those of the text.
    ///
    /// # Errors
    /// Those of the check.
    pub(super) fn changes<E>(
        &self,
        parts: &Parts,
        reading: Reading,
        check: &mut Check<'_, E>,
    ) -> Result<Vec<Change>, E> {
        let before = parts.all();
        let changed = check(&before, reading)?;
        if parts.text != self.text {
            check_one(&self.text, Reading::Again, check)?;
        }
        let after: Vec<&str> = match &changed {
            Some(changed) => changed.iter().map(String::as_str).collect(),
            None => before.clone(),
        };
        if before.iter().zip(&after).step_by(2).any(|(before, after)| before != after) {
            // a bracket can't be replaced: unless this is refused, the whole becomes a string
            let whole = check_one(&parts.text, Reading::Fixed, check)?.unwrap_or_else(|| after.concat());
            return Ok(vec![(self.value.clone(), Some(whole))]);
        }
        let mut values = before.into_iter().zip(after).skip(1).step_by(2);
        self.changes_of(&mut values, check)
    }

    /// The replacement of each key and value. `values`: those of the text and of later texts, before and after the check.
    fn changes_of<'p, E>(
        &self,
        values: &mut impl Iterator<Item = (&'p str, &'p str)>,
        check: &mut Check<'_, E>,
    ) -> Result<Vec<Change>, E> {
        let mut changes = Vec::with_capacity(self.leaves.len());
        for leaf in &self.leaves {
            let changed = match &leaf.content {
                JsonContent::Json(json) => json.edited(json.changes_of(values, check)?),
                JsonContent::Part { is_changed } => {
                    let Some((before, after)) = values.next() else { break };
                    // JSON that was cut off, or that is within prose
                    let plain = without_escapes(after);
                    let found = plain.map_or(Ok(None), |plain| check_one(&plain, Reading::Text, check))?;
                    found.or_else(|| (*is_changed || before != after).then(|| after.to_owned()))
                }
            };
            changes.push((leaf.range.clone(), changed));
        }
        Ok(changes)
    }

    /// The text with changes to it; `None` without any.
    fn edited(&self, changes: Vec<Change>) -> Option<String> {
        let mut edits = Edits::default();
        for (range, changed) in changes {
            changed.into_iter().for_each(|text| edits.replace_by_string(range.clone(), &text));
        }
        let edited = || String::from_utf8_lossy(&edits.apply(self.text.as_bytes())).into_owned();
        (!edits.is_empty()).then(edited)
    }
}

/// Appends the parts of keys and values. `text`: what they and all between them are. `start`: where it begins in what their places count from.
fn read_leaves<E>(
    values: &[(Value<'_>, bool)],
    text: &str,
    start: usize,
    parts: &mut Parts,
    check: &mut Check<'_, E>,
) -> Result<Vec<Leaf>, E> {
    let mut leaves = Vec::with_capacity(values.len());
    let mut at = 0;
    for (value, is_of_files) in values {
        let range = value.range();
        parts.text.push_str(&text[at..range.start - start]);
        at = range.end - start;
        let content = if value.is_string() {
            parts.text.push('"');
            let content = read_string(&value.string(), *is_of_files, parts, check)?;
            parts.text.push('"');
            content
        } else {
            parts.push(&value.string());
            JsonContent::Part { is_changed: false }
        };
        leaves.push(Leaf { range, content });
    }
    parts.text.push_str(&text[at..]);
    Ok(leaves)
}

/// Appends the parts of a string.
fn read_string<E>(
    text: &str,
    is_of_files: bool,
    parts: &mut Parts,
    check: &mut Check<'_, E>,
) -> Result<JsonContent, E> {
    // each level doubles the backslashes of the next, so that the depth is the logarithm of the length
    if looks_like_json(text)
        && let Some(json) = JsonText::read(Cow::Owned(text.to_owned()), parts, check)?
    {
        return Ok(JsonContent::Json(json));
    }
    let file = File::of(is_of_files, text);
    let changed = file.map_or(Ok(None), |file| file.checked(check))?;
    parts.push(changed.as_deref().unwrap_or(text));
    Ok(JsonContent::Part { is_changed: changed.is_some() })
}

/// Appends the keys and values of a value, but its arrays and objects, in their order, and whether their field has files.
fn collect_leaves<'v>(value: Value<'v>, is_of_files: bool, leaves: &mut Vec<(Value<'v>, bool)>) {
    match value.kind() {
        Kind::Array => value.items().for_each(|item| collect_leaves(item, is_of_files, leaves)),
        Kind::Object => value.entries().for_each(|(key, value)| {
            leaves.push((key, false));
            collect_leaves(value, is_file_field(&key.string()), leaves);
        }),
        Kind::Null | Kind::True | Kind::False | Kind::Number | Kind::Plain | Kind::Escaped => {
            leaves.push((value, is_of_files));
        }
    }
}
