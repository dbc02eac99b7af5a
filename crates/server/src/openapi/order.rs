//! The order of keys in the description. serde_json sorts the keys of its maps (its feature `preserve_order` would do so for every map of
//! the gateway, at the price of larger values), and the fields of a type are read in the order of the struct, which is that of their
//! importance. An object can therefore state the order of its keys, and a place can hold JSON that is written as it is.

use serde::de::value::UnitDeserializer;
use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::Error;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// Lists the keys of its object in their order. It is not written.
const ORDER: &str = "x-order";
/// The only key of an object that stands for JSON text.
const VERBATIM: &str = "x-verbatim";

/// States the order of the keys of `object`; further keys follow, sorted.
pub(super) fn set_order<'a>(object: &mut Map<String, Value>, keys: impl IntoIterator<Item = &'a str>) {
    object.insert(ORDER.to_owned(), keys.into_iter().collect());
}

/// A value that is written as this JSON text.
pub(super) fn verbatim(text: &str) -> Value {
    json!({ VERBATIM: text })
}

/// Writes a value, with the stated orders.
pub(super) struct Ordered<'a>(pub(super) &'a Value);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(Ordered)),
            Value::Object(object) => match object.get(VERBATIM).and_then(Value::as_str) {
                Some(text) => {
                    serde_json::from_str::<&RawValue>(text).map_err(S::Error::custom)?.serialize(serializer)
                }
                None => serializer.collect_map(entries(object).map(|(key, value)| (key, Ordered(value)))),
            },
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                plain.serialize(serializer)
            }
        }
    }
}

/// The entries of an object in their order.
fn entries(object: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    let order: Vec<&str> =
        object.get(ORDER).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let place = |key: &str| order.iter().position(|known| *known == key).unwrap_or(order.len());
    let mut entries: Vec<_> = object.iter().filter(|(key, _)| *key != ORDER).collect();
    entries.sort_by_key(|(key, _)| place(key));
    entries.into_iter()
}

/// The fields of a struct in JSON, in the order of the struct: serde's derived code hands them to the deserialiser. Empty for other types.
pub(super) fn fields_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    T::deserialize(FieldProbe).err().map_or(&[], |fields| fields.0)
}

/// A deserialiser that fails with the fields it is asked for.
struct FieldProbe;

/// The fields of a struct, as an error.
#[derive(Debug)]
struct Fields(&'static [&'static str]);

impl std::fmt::Display for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Fields {}

impl serde::de::Error for Fields {
    fn custom<T: std::fmt::Display>(_: T) -> Fields {
        Fields(&[])
    }
}

impl<'de> Deserializer<'de> for FieldProbe {
    type Error = Fields;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Fields> {
        Err(Fields(fields))
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fields> {
        UnitDeserializer::new().deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_keys_come_first_and_json_text_is_written_as_it_is() {
        let mut object = json!({"a": 1, "b": {"z": null}, "c": [verbatim(r#"{"y": 1, "x": 2}"#)]});
        set_order(object.as_object_mut().unwrap(), ["c", "absent", "b"]);
        let written = serde_json::to_string(&Ordered(&object)).unwrap();
        assert_eq!(written, r#"{"c":[{"y": 1, "x": 2}],"b":{"z":null},"a":1}"#);
    }

    #[test]
    fn fields_have_the_order_of_the_struct_and_their_names_in_json() {
        #[derive(serde::Deserialize)]
        struct Example {
            #[serde(rename = "type")]
            _kind: u8,
            _after: Option<String>,
            _before: Vec<Example>,
        }
        assert_eq!(fields_of::<Example>(), ["type", "_after", "_before"]);
        assert_eq!(fields_of::<Vec<Example>>(), [""; 0]);
    }
}
