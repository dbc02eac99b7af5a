//! `GET /v1/formats`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reply of `GET /v1/formats`: the kinds of files that the gateway reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Formats")]
pub struct FormatsReply {
    /// The usual endings of names of the document files that are read, without a dot. Texts and web pages are read too.
    pub extensions: Vec<String>,
    /// Whether archives (.zip, .tar.gz) are unpacked.
    pub archives: bool,
    /// Whether the text of pictures and scans is recognised.
    pub pictures: bool,
}
