//! Rendering of a query: the text to embed and highlight, and a description for people.

use std::borrow::Cow;
use std::fmt;

use super::Query;

impl Query {
    /// The text of the query's words, phrases and prefixes, without operators, fields and excluded parts. Words alone are
    /// unchanged. Empty if nothing is left: `lang:en`.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Query::Words(words) => Cow::Borrowed(words),
            Query::Phrase(_)
            | Query::Prefix(_)
            | Query::Wildcard(_)
            | Query::Field { .. }
            | Query::Boolean { .. } => {
                let mut parts = Vec::new();
                self.collect_text(&mut parts);
                Cow::Owned(parts.join(" "))
            }
        }
    }

    fn collect_text<'q>(&'q self, parts: &mut Vec<&'q str>) {
        match self {
            Query::Words(text) | Query::Phrase(text) | Query::Prefix(text) => parts.push(text),
            // part of a word says nothing to a model
            Query::Wildcard(_) | Query::Field { .. } => {}
            Query::Boolean { must, should, must_not: _ } => {
                must.iter().chain(should).for_each(|query| query.collect_text(parts));
            }
        }
    }
}

/// The interpretation of the query, for people: `all of (solar); better with ("heat pump"); none of (wind)`.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (must, should, must_not) = match self {
            Query::Words(words) => return f.write_str(words),
            Query::Phrase(phrase) => return write!(f, "\"{phrase}\""),
            Query::Prefix(prefix) => return write!(f, "{prefix}*"),
            Query::Wildcard(pattern) => return f.write_str(pattern),
            Query::Field { source, .. } => return f.write_str(source),
            Query::Boolean { must, should, must_not } => (must, should, must_not),
        };
        let better = if must.is_empty() { "any of" } else { "better with" };
        let groups = [("all of", must), (better, should), ("none of", must_not)];
        for (index, (what, queries)) in
            groups.into_iter().filter(|(_, queries)| !queries.is_empty()).enumerate()
        {
            let before = if index == 0 { "" } else { "; " };
            write!(f, "{before}{what} ")?;
            for (index, query) in queries.iter().enumerate() {
                let before = if index == 0 { "" } else { ", " };
                write!(f, "{before}({query})")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    /// Checks the text and the description of a query.
    fn check(query: &str, text: &str, description: &str) {
        let parsed = parse(query).unwrap();
        assert_eq!((parsed.text().as_ref(), parsed.to_string().as_str()), (text, description), "{query}");
    }

    #[test]
    fn text_has_no_operators_fields_or_exclusions() {
        check("what's a C++ weir?", "what's a C++ weir?", "what's a C++ weir?");
        check("\"low dam\"", "low dam", "\"low dam\"");
        check("sol*", "sol", "sol*");
        check("lang:en", "", "lang:en");
        check("+solar wind -water", "solar wind", "all of (solar); better with (wind); none of (water)");
        check("solar -\"wind power\"", "solar", "any of (solar); none of (\"wind power\")");
        check(
            "lang:en solar AND roof",
            "solar roof",
            "all of (all of (lang:en); better with (solar)), (roof)",
        );
        check("(a OR \"b c\") AND NOT (d e)", "a b c", "all of (any of (a), (\"b c\")); none of (d e)");
    }

    #[test]
    fn nesting_is_bounded_by_the_parser() {
        let deep = format!("{}a{} -b", "(c -d ".repeat(30), ")".repeat(30));
        assert!(parse(&deep).unwrap().to_string().contains("any of (c"));
    }
}
