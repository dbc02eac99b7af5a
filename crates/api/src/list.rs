//! The reply of every list route.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}List")]
pub struct List<T> {
    /// The items, in a stable order.
    pub data: Vec<T>,
    /// The `cursor` of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

impl<T> List<T> {
    /// A list on a single page.
    pub fn whole(data: Vec<T>) -> List<T> {
        List { data, next_cursor: None }
    }
}
