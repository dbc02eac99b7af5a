//! A finished request as it is stored: owned, so that it can be read back from the spill file.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::RequestRecord;

/// Longest text of a model, an upstream or an id in a row. The client chooses some of them.
pub(super) const TEXT_BYTES_MAX: usize = 512;

/// Units of one class that were used, and what they cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// The class, by the name of its field in `[[prices]]`.
    pub class: Cow<'static, str>,
    /// Tokens or calls.
    pub units: u64,
    /// Cost in billionths of the currency.
    pub cost_nanos: u64,
}

impl Charge {
    pub(super) fn add(&mut self, other: &Charge) {
        self.units = self.units.saturating_add(other.units);
        self.cost_nanos = self.cost_nanos.saturating_add(other.cost_nanos);
    }
}

/// The charges of one request, as a column of a database: JSON; `None` for none.
pub(super) fn charges_column(charges: &[Charge]) -> Option<String> {
    let named = charges.iter().map(|charge| {
        let amounts = serde_json::json!({"units": charge.units, "cost_nanos": charge.cost_nanos});
        (charge.class.to_string(), amounts)
    });
    (!charges.is_empty())
        .then(|| serde_json::Map::from_iter(named))
        .map(|map| serde_json::Value::from(map).to_string())
}

/// A row of the request log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) at: f64,
    pub(super) request_id: String,
    pub(super) trace_id: Option<String>,
    pub(super) key: Option<i64>,
    pub(super) method: Cow<'static, str>,
    pub(super) route: Cow<'static, str>,
    pub(super) model: Option<String>,
    /// Not on disk: the form of files would change for what decides about failed requests alone.
    #[serde(skip)]
    pub(super) is_known_model: bool,
    pub(super) upstream: Option<String>,
    pub(super) status: u16,
    pub(super) error: Option<Cow<'static, str>>,
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: u64,
    pub(super) completion_tokens: u64,
    pub(super) cost_nanos: u64,
    pub(super) attempts: u32,
    pub(super) first_token_us: Option<u64>,
    pub(super) duration_us: u64,
    pub(super) is_stream: bool,
    pub(super) guardrails: Option<String>,
    pub(super) cache: Option<Cow<'static, str>>,
    pub(super) saved_nanos: u64,
}

impl Row {
    /// The row of a record.
    pub(super) fn new(record: &RequestRecord) -> Row {
        Row {
            at: record.at,
            request_id: bounded(&record.request_id),
            trace_id: record.trace.as_ref().map(|trace| format!("{:032x}", trace.trace_id)),
            key: record.key,
            method: record.method.into(),
            route: record.route.into(),
            model: record.model.as_deref().map(bounded),
            is_known_model: record.is_known_model,
            upstream: record.upstream.as_deref().map(bounded),
            status: record.status,
            error: record.error.map(Cow::Borrowed),
            prompt_tokens: record.prompt_tokens,
            cached_tokens: record.cached_tokens,
            completion_tokens: record.completion_tokens,
            cost_nanos: record.cost_nanos,
            attempts: record.attempts,
            first_token_us: record.first_token.map(micros),
            duration_us: micros(record.duration),
            is_stream: record.is_stream,
            guardrails: record.guardrails.as_deref().map(bounded),
            cache: record.cache.map(Cow::Borrowed),
            saved_nanos: record.saved_nanos,
        }
    }

    /// The model under which the request is summed. Callers invent names, and each would be a sum of its own: such a name counts when it has used
    /// something, or was answered.
    pub(super) fn summed_model(&self) -> Option<&str> {
        let used = (self.prompt_tokens, self.completion_tokens, self.cost_nanos);
        let is_failed = self.status >= 400 || self.error.is_some();
        let is_unknown = !self.is_known_model && is_failed && used == (0, 0, 0);
        self.model.as_deref().filter(|_| !is_unknown)
    }
}

/// Rows that are stored in one transaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Batch {
    /// The process that made it: larger for later starts.
    pub(super) writer: i64,
    /// Counts the batches of its writer, from 1. The sink stores it with the rows and skips a batch that it has already.
    pub(super) number: i64,
    pub(super) rows: Vec<Row>,
    /// The names of the keys of the rows. Files of earlier versions end before it or behind it.
    pub(super) key_names: BTreeMap<i64, String>,
    /// The charges of the rows that have any, by their index. Last.
    pub(super) charges: BTreeMap<usize, Vec<Charge>>,
}

impl Batch {
    /// A batch without rows.
    pub(super) fn new(writer: i64, number: i64) -> Batch {
        Batch { writer, number, rows: Vec::new(), key_names: BTreeMap::new(), charges: BTreeMap::new() }
    }

    /// Adds the row of a record.
    pub(super) fn push(&mut self, record: &RequestRecord) {
        if let (Some(key), Some(name)) = (record.key, &record.key_name)
            && !self.key_names.contains_key(&key)
        {
            self.key_names.insert(key, bounded(name));
        }
        if !record.charges.is_empty() {
            self.charges.insert(self.rows.len(), record.charges.clone());
        }
        self.rows.push(Row::new(record));
    }

    /// The charges of the row at this index.
    pub(super) fn charges(&self, index: usize) -> &[Charge] {
        self.charges.get(&index).map_or(&[], Vec::as_slice)
    }

    /// Reads a batch that was put aside, also by an earlier version, which wrote no names of keys or no charges.
    pub(super) fn from_bytes(bytes: &[u8]) -> postcard::Result<Batch> {
        let ((writer, number, rows), rest) = postcard::take_from_bytes(bytes)?;
        let (key_names, rest) =
            if rest.is_empty() { (BTreeMap::new(), rest) } else { postcard::take_from_bytes(rest)? };
        let charges = if rest.is_empty() { BTreeMap::new() } else { postcard::from_bytes(rest)? };
        Ok(Batch { writer, number, rows, key_names, charges })
    }

    /// The name of the key with this number.
    pub(super) fn key_name(&self, key: i64) -> Option<&str> {
        self.key_names.get(&key).map(String::as_str)
    }
}

/// At most [`TEXT_BYTES_MAX`] bytes, without NUL, which PostgreSQL refuses.
pub(super) fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(TEXT_BYTES_MAX);
    text[..end].replace('\0', "")
}

fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// For a signed column.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_earlier_versions_are_read() {
        let named = RequestRecord { key: Some(7), key_name: Some("app".into()), ..RequestRecord::default() };
        let mut batch = Batch::new(1, 2);
        batch.push(&named);
        let charges = vec![Charge { class: "output".into(), units: 2, cost_nanos: 3 }];
        batch.push(&RequestRecord { key: Some(8), charges, ..RequestRecord::default() });
        assert_eq!((batch.charges(0).len(), batch.charges(1).len()), (0, 1));
        let column: serde_json::Value =
            serde_json::from_str(&charges_column(batch.charges(1)).unwrap()).unwrap();
        assert_eq!(column, serde_json::json!({"output": {"units": 2, "cost_nanos": 3}}));
        assert_eq!(Batch::from_bytes(&postcard::to_stdvec(&batch).unwrap()).unwrap(), batch);
        assert_eq!((batch.key_name(7), batch.key_name(8)), (Some("app"), None));
        let named = (batch.writer, batch.number, &batch.rows, &batch.key_names);
        let read = Batch::from_bytes(&postcard::to_stdvec(&named).unwrap()).unwrap();
        assert_eq!((&read.rows, &read.key_names, read.charges.len()), (&batch.rows, &batch.key_names, 0));
        let earlier = postcard::to_stdvec(&(batch.writer, batch.number, &batch.rows)).unwrap();
        let read = Batch::from_bytes(&earlier).unwrap();
        assert_eq!((read.rows, read.key_names.len()), (batch.rows, 0));
    }

    #[test]
    fn texts_of_clients_are_bounded_and_storable() {
        assert_eq!(bounded("a\0b"), "ab");
        assert_eq!(bounded(&"é".repeat(400)).len(), 512);
        assert_eq!(bounded(&format!("a{}", "é".repeat(400))).len(), 511);
    }
}
