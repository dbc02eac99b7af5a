//! Parameters of a search that have a short and a long form, and lists with a maximum length.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::Count;

/// The unit of a result: `"document"`, `"chunk"` or `{"field": "lang"}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// A document, represented by its best chunk.
    #[default]
    Document,
    /// A chunk.
    Chunk,
    /// All documents with the same value of this metadata field, represented by the best of them.
    Field(String),
}

/// A metadata field to count values of: `"lang"` or `{"field": "lang", "limit": 20}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Facet {
    /// Path of the metadata field.
    pub field: String,
    /// Number of values to return, the most frequent ones; default: 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Count>,
}

/// A sort key: `"year"`, `"-year"` or `{"field": "year", "order": "desc"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sort {
    /// Path of the metadata field. Documents without it come last.
    pub field: String,
    /// The direction.
    pub order: Order,
}

/// A sort direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Ascending: the smallest value first.
    #[default]
    Asc,
    /// Descending: the largest value first.
    Desc,
}

/// Unparsed JSON text; a later stage parses it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// The JSON text of `value`.
    pub fn of(value: &impl Serialize) -> Result<RawJson, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(RawJson)
    }

    /// JSON from its text, which is kept unchanged.
    pub fn from_text(text: String) -> Result<RawJson, serde_json::Error> {
        RawValue::from_string(text).map(RawJson)
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &RawJson) -> bool {
        self.text() == other.text()
    }
}

/// The long form of [`Facet`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FacetOptions {
    /// Path of the metadata field.
    field: String,
    /// Number of values to return, the most frequent ones; default: 10.
    limit: Option<Count>,
}

/// The long form of [`Sort`].
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SortOptions {
    /// Path of the metadata field.
    field: String,
    /// The direction; default: `asc`.
    #[serde(default)]
    order: Order,
}

impl From<FacetOptions> for Facet {
    fn from(object: FacetOptions) -> Facet {
        Facet { field: object.field, limit: object.limit }
    }
}

impl From<&str> for Facet {
    fn from(field: &str) -> Facet {
        Facet { field: field.to_owned(), limit: None }
    }
}

impl From<SortOptions> for Sort {
    fn from(object: SortOptions) -> Sort {
        Sort { field: object.field, order: object.order }
    }
}

impl From<&str> for Sort {
    fn from(text: &str) -> Sort {
        match text.strip_prefix('-') {
            Some(field) => Sort { field: field.to_owned(), order: Order::Desc },
            None => Sort { field: text.to_owned(), order: Order::Asc },
        }
    }
}

impl<'de> Deserialize<'de> for Facet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Facet, D::Error> {
        deserializer.deserialize_any(ShortOrLong::<Facet, FacetOptions>(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Sort {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sort, D::Error> {
        deserializer.deserialize_any(ShortOrLong::<Sort, SortOptions>(PhantomData))
    }
}

impl<'de> Deserialize<'de> for GroupBy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GroupBy, D::Error> {
        deserializer.deserialize_any(GroupByVisitor)
    }
}

/// Lists the accepted JSON in its messages; a derived visitor would list enum variants.
struct GroupByVisitor;

impl<'de> Visitor<'de> for GroupByVisitor {
    type Value = GroupBy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#""document", "chunk" or {"field": "lang"}"#)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<GroupBy, E> {
        match text {
            "document" => Ok(GroupBy::Document),
            "chunk" => Ok(GroupBy::Chunk),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GroupBy, A::Error> {
        let refused = || A::Error::invalid_value(Unexpected::Map, &self);
        if map.next_key::<String>()?.as_deref() != Some("field") {
            return Err(refused());
        }
        let field = map.next_value()?;
        match map.next_key::<IgnoredAny>()? {
            None => Ok(GroupBy::Field(field)),
            Some(_) => Err(refused()),
        }
    }
}

impl JsonSchema for Facet {
    fn schema_name() -> Cow<'static, str> {
        "Facet".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        short_or_long::<FacetOptions>(generator, "Path of a metadata field.")
    }
}

impl JsonSchema for Sort {
    fn schema_name() -> Cow<'static, str> {
        "Sort".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        short_or_long::<SortOptions>(
            generator,
            "Path of a metadata field; a leading `-` sorts in descending order.",
        )
    }
}

fn short_or_long<T: JsonSchema>(generator: &mut SchemaGenerator, description: &str) -> Schema {
    let long = generator.subschema_for::<T>();
    schemars::json_schema!({"oneOf": [{"type": "string", "description": description}, long]})
}

/// Deserialises a `T` from a string, or from an object of type `L`.
struct ShortOrLong<T, L>(PhantomData<(T, L)>);

impl<'de, T, L> Visitor<'de> for ShortOrLong<T, L>
where
    T: From<L> + for<'a> From<&'a str>,
    L: Deserialize<'de>,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field, or an object with `field`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Ok(T::from(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        L::deserialize(MapAccessDeserializer::new(map)).map(T::from)
    }
}

/// For `deserialize_with`: null, or a list of at most `MAX` items. Parsing stops at the first item beyond `MAX`.
pub(super) fn at_most<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_option(AtMost::<T, MAX>(PhantomData))
}

struct AtMost<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for AtMost<T, MAX> {
    type Value = Option<Vec<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_none<E: Error>(self) -> Result<Option<Vec<T>>, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<Vec<T>>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Vec<T>>, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Option<Vec<T>>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            if list.len() == MAX {
                let message = format_args!("the list has more than {MAX} items");
                return Err(A::Error::custom(message));
            }
            list.push(item);
        }
        Ok(Some(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Lists {
        #[serde(default, deserialize_with = "at_most::<_, _, 2>")]
        sort: Option<Vec<Sort>>,
        #[serde(default, deserialize_with = "at_most::<_, _, 2>")]
        facets: Option<Vec<Facet>>,
    }

    /// `expected`: the lists as JSON, or the beginning of the message.
    fn check(json: &str, expected: &str) {
        let seen = match serde_json::from_str::<Lists>(json) {
            Ok(lists) => serde_json::to_string(&(lists.sort, lists.facets)).unwrap(),
            Err(error) => error.to_string(),
        };
        assert!(seen.starts_with(expected), "{json}: {seen}");
    }

    #[test]
    fn fields_have_a_short_and_a_long_form() {
        check("{}", "[null,null]");
        check(r#"{"sort":null,"facets":[]}"#, "[null,[]]");
        check(
            r#"{"sort":["year","-a.b"]}"#,
            r#"[[{"field":"year","order":"asc"},{"field":"a.b","order":"desc"}],null]"#,
        );
        check(
            r#"{"sort":[{"field":"-x","order":"desc"},{"field":"y"}]}"#,
            r#"[[{"field":"-x","order":"desc"},{"field":"y","order":"asc"}],null]"#,
        );
        check(
            r#"{"facets":["lang",{"field":"year","limit":3}]}"#,
            r#"[null,[{"field":"lang"},{"field":"year","limit":3}]]"#,
        );
    }

    #[test]
    fn other_forms_are_refused() {
        check(
            r#"{"sort":[7]}"#,
            "invalid type: integer `7`, expected the name of a field, or an object with `field`",
        );
        check(r#"{"sort":[{"order":"desc"}]}"#, "missing field `field`");
        check(r#"{"sort":[{"field":"a","order":"up"}]}"#, "unknown variant `up`");
        check(r#"{"facets":[{"field":"a","max":1}]}"#, "unknown field `max`");
        check(r#"{"facets":"lang"}"#, "invalid type: string \"lang\", expected a list");
    }

    #[test]
    fn a_list_beyond_its_maximum_length_is_refused() {
        check(r#"{"facets":["a","b","c","#, "the list has more than 2 items");
    }
}
