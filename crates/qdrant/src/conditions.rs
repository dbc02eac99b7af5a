//! Conditions on the values of fields of payloads.
//!
//! The conversion that `Condition::matches` of the official client makes of a text depends on the text: one with white space is searched word by
//! word. These conditions compare whole values, whatever is in them; the other way is refused by clippy.

use qdrant_client::qdrant::condition::ConditionOneOf;
use qdrant_client::qdrant::r#match::MatchValue;
use qdrant_client::qdrant::{Condition, FieldCondition, Match, RepeatedStrings};

/// A value of the field is this text.
pub fn has_text(field: &str, text: impl Into<String>) -> Condition {
    has_value(field, MatchValue::Keyword(text.into()))
}

/// A value of the field is one of these texts.
pub fn has_any_text(field: &str, strings: Vec<String>) -> Condition {
    has_value(field, MatchValue::Keywords(RepeatedStrings { strings }))
}

/// A value of the field is this integer.
pub fn has_integer(field: &str, integer: i64) -> Condition {
    has_value(field, MatchValue::Integer(integer))
}

fn has_value(field: &str, value: MatchValue) -> Condition {
    let r#match = Some(Match { match_value: Some(value) });
    let condition = FieldCondition { key: field.to_owned(), r#match, ..Default::default() };
    Condition { condition_one_of: Some(ConditionOneOf::Field(condition)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_whole_whatever_is_in_them() {
        for text in ["", "a", "a b", "a\tb", "a\u{a0}b", " ", "\n"] {
            let Some(ConditionOneOf::Field(field)) = has_text("d", text).condition_one_of else {
                panic!("{text:?}")
            };
            let value = field.r#match.and_then(|wanted| wanted.match_value);
            assert_eq!((&*field.key, value), ("d", Some(MatchValue::Keyword(text.to_owned()))));
        }
    }
}
