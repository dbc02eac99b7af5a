//! `PATCH` of a document: a JSON merge patch (RFC 7396) of its title and metadata.

use std::collections::HashMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::ingest::check_title;
use crate::{ErrorCode, Invalid, Limits, Metadata, Result, require};

/// Changes of a document: a JSON merge patch (RFC 7396). Fields that are left out stay; null removes a field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentPatch {
    /// The new title; null removes it. It is searched by its words at once; the embeddings of the text keep the earlier title.
    #[serde(default, with = "serde_with::rust::double_option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub title: Option<Option<String>>,
    /// Changes of the metadata, merged key by key; null removes a key, and as the whole value removes all of them.
    #[serde(default, with = "serde_with::rust::double_option", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub metadata: Option<Option<Metadata>>,
    /// Never valid: present for its message.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    text: Option<Refused>,
}

/// A value of any type, which is refused later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refused;

impl<'de> Deserialize<'de> for Refused {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Refused, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Refused)
    }
}

impl DocumentPatch {
    /// A patch of a title and of metadata: `None` leaves them as they are, `Some(None)` removes them.
    pub fn new(title: Option<Option<String>>, metadata: Option<Option<Metadata>>) -> DocumentPatch {
        DocumentPatch { title, metadata, text: None }
    }

    /// Validates the patch by itself.
    ///
    /// # Errors
    /// `invalid_parameter` for a text and for a patch without a change; the errors of titles and metadata.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        require(self.text.is_none(), &["text"], || {
            "a patch does not change the text; send the whole document by `PUT`".to_owned()
        })?;
        require(self.title.is_some() || self.metadata.is_some(), &[], || {
            "the patch changes nothing; send `title` or `metadata`".to_owned()
        })?;
        if let Some(Some(title)) = &self.title {
            check_title(title, limits)?;
        }
        // this bounds the depth of the recursion in `merge` as well
        self.metadata.iter().flatten().try_for_each(|changes| changes.check(limits))
    }

    /// The title and the metadata of a document after the patch. Members that the patch does not name are kept byte for byte.
    ///
    /// # Errors
    /// The result exceeds a limit of metadata.
    pub fn apply(
        &self,
        title: Option<String>,
        metadata: &Metadata,
        limits: &Limits,
    ) -> Result<(Option<String>, Metadata)> {
        let title = self.title.clone().unwrap_or(title);
        let metadata = match &self.metadata {
            None => return Ok((title, metadata.clone())),
            Some(None) => Metadata::empty(),
            Some(Some(changes)) => {
                let merged = merge(Some(metadata.as_json()), changes.as_json());
                Metadata::from_json(merged).map_err(|error| {
                    Invalid::at(ErrorCode::InvalidParameter, &["metadata"], error.to_string())
                })?
            }
        };
        metadata.check(limits)?;
        Ok((title, metadata))
    }
}

/// The members of a JSON object in their order, with their values as they are written.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

/// The members of an object; `None` for another value.
fn members(json: &str) -> Option<Vec<(String, Box<RawValue>)>> {
    serde_json::from_str::<Members>(json).ok().map(|members| members.0)
}

/// `MergePatch(target, patch)` of RFC 7396. Of two members of one name in the target, the last one counts.
fn merge(target: Option<&str>, patch: &str) -> String {
    let Some(patch) = members(patch) else { return patch.to_owned() };
    let before = target.and_then(members).unwrap_or_default();
    let mut position = HashMap::with_capacity(before.len());
    let mut merged: Vec<Option<(String, String)>> = Vec::with_capacity(before.len());
    for (name, value) in before {
        if let Some(earlier) = position.insert(name.clone(), merged.len()) {
            merged[earlier] = None;
        }
        merged.push(Some((name, value.get().to_owned())));
    }
    for (name, value) in patch {
        let at = *position.entry(name.clone()).or_insert_with(|| {
            merged.push(None);
            merged.len() - 1
        });
        let old = merged[at].take();
        if value.get() != "null" {
            let old = old.as_ref().map(|(_, value)| value.as_str());
            merged[at] = Some((name, merge(old, value.get())));
        }
    }
    let member = |(name, value): (String, String)| format!("{}:{value}", serde_json::Value::from(name));
    let members: Vec<String> = merged.into_iter().flatten().map(member).collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 7396, appendix A.
    #[test]
    fn patches_are_merged_as_the_rfc_shows() {
        let check = |target: &str, patch: &str, expected: &str| {
            assert_eq!(merge(Some(target), patch), expected, "{target} {patch}");
        };
        check(r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
        check(r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#);
        check(r#"{"a":"b"}"#, r#"{"a":null}"#, "{}");
        check(r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#);
        check(r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
        check(r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#);
        check(r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#);
        check(r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#);
        check(r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#);
        check(r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#);
        check(r#"{"a":"foo"}"#, "null", "null");
        check(r#"{"a":"foo"}"#, r#""bar""#, r#""bar""#);
        check(r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#);
        check("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#);
        check("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#);
    }

    #[test]
    fn members_that_are_not_named_keep_every_byte() {
        let target = r#"{"n": 1.10,"big":123456789012345678901234567890, "é\"":{"x" : 1}}"#;
        let expected = r#"{"n":1.10,"big":123456789012345678901234567890,"é\"":{"x":1,"y":2}}"#;
        assert_eq!(merge(Some(target), r#"{"é\"":{"y":2}}"#), expected);
        // of members of one name the last counts, as for filters
        assert_eq!(merge(Some(r#"{"a":1,"a":2}"#), r#"{"b":3}"#), r#"{"a":2,"b":3}"#);
        assert_eq!(merge(Some(r#"{"a":1,"a":2}"#), r#"{"a":null}"#), "{}");
    }

    fn check(body: &str, expected: &str) {
        let read = crate::parse::<DocumentPatch>(body.as_bytes());
        let limits = Limits { title_bytes_max: 8, metadata_keys_max: 2, ..Limits::DEFAULT };
        let stored = Metadata::from_json(r#"{"a":1}"#.to_owned()).unwrap();
        let patched = read.and_then(|patch| {
            patch.check(&limits)?;
            patch.apply(Some("old".to_owned()), &stored, &limits)
        });
        let seen = match patched {
            Ok((title, metadata)) => format!("{} {}", title.unwrap_or_default(), metadata.as_json()),
            Err(invalid) => format!("{} {}", invalid.code, invalid.param.unwrap_or_default()),
        };
        assert_eq!(seen, expected, "{body}");
    }

    #[test]
    fn a_patch_changes_what_it_names() {
        check(r#"{"title":"new"}"#, r#"new {"a":1}"#);
        check(r#"{"title":null}"#, r#" {"a":1}"#);
        check(r#"{"metadata":{"b":2}}"#, r#"old {"a":1,"b":2}"#);
        check(r#"{"metadata":null}"#, "old {}");
        check("{}", "invalid_parameter ");
        check(r#"{"text":"x"}"#, "invalid_parameter text");
        check(r#"{"id":"x"}"#, "unknown_field id");
        check(r#"{"metadata":7}"#, "invalid_parameter metadata");
        check(r#"{"title":"123456789"}"#, "payload_too_large title");
        check(r#"{"metadata":{"b":2,"c":3}}"#, "invalid_parameter metadata");
        let deep = format!(r#"{{"metadata":{{"a":{}1{}}}}}"#, "[".repeat(200), "]".repeat(200));
        check(&deep, "invalid_parameter metadata");
    }
}
