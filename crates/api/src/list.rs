//! How every list answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of things.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct List<T> {
    /// The things, in a stable order.
    pub data: Vec<T>,
    /// What to send as `cursor` to get the next page; null on the last one.
    pub next_cursor: Option<String>,
}

impl<T> List<T> {
    /// A list that fits on one page.
    pub fn whole(data: Vec<T>) -> List<T> {
        List { data, next_cursor: None }
    }
}
