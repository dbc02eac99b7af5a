//! Parser: JSON to [`Filter`].

use serde_json::{Map, Value as Json};

use crate::{
    CONDITIONS_MAX, Comparison, DEPTH_MAX, Filter, FilterError, FilterProblem, LIST_VALUES_MAX, Test, Value,
};

/// Maximum bytes of a key that an error message quotes.
const QUOTED_BYTES_MAX: usize = 64;

/// The operators of conditions, in the order of the error messages.
const OPERATORS: [(&str, Operator); 9] = [
    ("eq", Operator::Equals),
    ("ne", Operator::NotEquals),
    ("gt", Operator::Compare(Comparison::Greater)),
    ("gte", Operator::Compare(Comparison::GreaterOrEqual)),
    ("lt", Operator::Compare(Comparison::Less)),
    ("lte", Operator::Compare(Comparison::LessOrEqual)),
    ("in", Operator::In),
    ("nin", Operator::NotIn),
    ("exists", Operator::Exists),
];

/// Names of the operators in other filter languages, without a leading `$`.
const FOREIGN_NAMES: [(&str, &str); 21] = [
    ("=", "eq"),
    ("==", "eq"),
    ("equals", "eq"),
    ("is", "eq"),
    ("match", "eq"),
    ("contains", "eq"),
    ("!=", "ne"),
    ("<>", "ne"),
    ("not", "ne"),
    (">", "gt"),
    ("greater_than", "gt"),
    (">=", "gte"),
    ("from", "gte"),
    ("min", "gte"),
    ("<", "lt"),
    ("less_than", "lt"),
    ("<=", "lte"),
    ("max", "lte"),
    ("any", "in"),
    ("not_in", "nin"),
    ("is_null", "exists"),
];

/// Names of `and`, `or` and `not` in other filter languages, without a leading `$`.
const FOREIGN_COMBINATIONS: [(&str, &str); 9] = [
    ("and", "and"),
    ("must", "and"),
    ("filter", "and"),
    ("all", "and"),
    ("or", "or"),
    ("should", "or"),
    ("any", "or"),
    ("must_not", "not"),
    ("nor", "not"),
];

#[derive(Debug, Clone, Copy)]
enum Operator {
    Equals,
    NotEquals,
    Compare(Comparison),
    In,
    NotIn,
    Exists,
}

fn operator(name: &str) -> Option<(&'static str, Operator)> {
    OPERATORS.into_iter().find(|(known, _)| *known == name)
}

pub(super) fn parse(json: &Json) -> Result<Filter, FilterError> {
    Parser::locating(None).filter(json)
}

/// JSON pointer to the first mention of `path` in a valid filter.
pub(super) fn pointer_to(json: &Json, path: &str) -> Option<String> {
    let mut parser = Parser::locating(Some(path));
    parser.filter(json).ok()?;
    parser.found
}

struct Parser<'j> {
    /// The path that [`pointer_to`] looks for.
    wanted: Option<&'j str>,
    /// Pointer to its first mention.
    found: Option<String>,
    /// Position in the JSON, from the root.
    position: Vec<Step<'j>>,
    /// Number of filters that contain the position.
    depth: usize,
    /// Conditions parsed so far.
    conditions: usize,
}

#[derive(Clone, Copy)]
enum Step<'j> {
    Key(&'j str),
    Index(usize),
}

impl<'j> Parser<'j> {
    fn locating(wanted: Option<&'j str>) -> Parser<'j> {
        Parser { wanted, found: None, position: Vec::new(), depth: 0, conditions: 0 }
    }

    fn filter(&mut self, json: &'j Json) -> Result<Filter, FilterError> {
        let Json::Object(object) = json else {
            return Err(self.error(FilterProblem::NotAnObject { found: kind(json) }));
        };
        if self.depth == DEPTH_MAX {
            return Err(self.error(FilterProblem::TooDeep));
        }
        self.depth += 1;
        let filter = if has_type(object) { self.typed(object) } else { self.keyed(object) };
        self.depth -= 1;
        filter
    }

    /// Our own form: `{"year": {"gte": 2019}, "or": […]}`.
    fn keyed(&mut self, object: &'j Map<String, Json>) -> Result<Filter, FilterError> {
        let read = |(key, json): (&'j String, &'j Json)| {
            self.at(Step::Key(key), |parser| match key.as_str() {
                "and" => parser.list("and", json).map(Filter::And),
                "or" => parser.list("or", json).map(Filter::Or),
                "not" if !json.is_object() => Err(parser.error(FilterProblem::NotAFilter)),
                "not" => Ok(Filter::Not(Box::new(parser.filter(json)?))),
                path => {
                    if let Some(meant) = foreign_combination(path, json) {
                        let name = truncate(path);
                        return Err(parser.error(FilterProblem::ForeignCombination { name, meant }));
                    }
                    parser.note_mention(path);
                    parser.conditions(path, json)
                }
            })
        };
        object.iter().map(read).collect::<Result<Vec<_>, _>>().map(all_of)
    }

    /// OpenAI's form: `{"type": "eq", "key": "year", "value": 2020}`, `{"type": "and", "filters": […]}`.
    fn typed(&mut self, object: &'j Map<String, Json>) -> Result<Filter, FilterError> {
        let of = |key: &str| object.get(key);
        let malformed = |parser: &mut Self| Err(parser.error(FilterProblem::Form));
        match (of("type"), of("filters"), of("key"), of("value")) {
            (Some(Json::String(name)), Some(json), None, None) if object.len() == 2 => {
                let join = match name.as_str() {
                    "and" => Filter::And,
                    "or" => Filter::Or,
                    _ => return self.at(Step::Key("type"), malformed),
                };
                self.at(Step::Key("filters"), |parser| parser.list(name, json)).map(join)
            }
            (Some(Json::String(name)), None, Some(Json::String(path)), Some(json)) if object.len() == 3 => {
                if operator(name).is_none() {
                    let advice = "`type` is an operator, or `and` or `or` beside `filters`";
                    return self.at(Step::Key("type"), |parser| Err(parser.unknown(name, advice)));
                }
                self.at(Step::Key("key"), |parser| {
                    parser.note_mention(path);
                    Ok(())
                })?;
                self.at(Step::Key("value"), |parser| parser.condition(path, name, json))
            }
            _ => malformed(self),
        }
    }

    /// A list of filters.
    fn list(&mut self, operator: &str, json: &'j Json) -> Result<Vec<Filter>, FilterError> {
        let filters = json.as_array().filter(|filters| !filters.is_empty());
        let Some(filters) = filters else {
            return Err(self.error(FilterProblem::NotAList { operator: truncate(operator) }));
        };
        let read = |(index, json)| self.at(Step::Index(index), |parser| parser.filter(json));
        filters.iter().enumerate().map(read).collect()
    }

    /// The conditions on one path: operators with their values, or one value.
    fn conditions(&mut self, path: &'j str, json: &'j Json) -> Result<Filter, FilterError> {
        let Json::Object(operators) = json else { return self.condition(path, "eq", json) };
        if operators.is_empty() {
            return Err(self.error(FilterProblem::NoOperator));
        }
        let read = |(name, json): (&'j String, &'j Json)| {
            self.at(Step::Key(name), |parser| parser.condition(path, name, json))
        };
        operators.iter().map(read).collect::<Result<Vec<_>, _>>().map(all_of)
    }

    fn condition(&mut self, path: &str, name: &str, json: &'j Json) -> Result<Filter, FilterError> {
        let Some((name, operator)) = operator(name) else {
            return Err(self.unknown(name, "nested keys are joined by a dot, as in `author.name`"));
        };
        match operator {
            Operator::Equals => self.equals(path, name, json),
            Operator::NotEquals => self.equals(path, name, json).map(not),
            Operator::In => self.one_of(path, name, json),
            Operator::NotIn => self.one_of(path, name, json).map(not),
            Operator::Compare(comparison) => match Value::from_json(json) {
                Some(value @ (Value::Number(_) | Value::String(_))) => {
                    self.test(path, Test::Compare(comparison, value))
                }
                Some(Value::Boolean(_)) | None => Err(self.value(name, "a number or a string", json)),
            },
            Operator::Exists => match json.as_bool() {
                Some(true) => self.test(path, Test::Exists),
                Some(false) => self.test(path, Test::Exists).map(not),
                None => Err(self.value(name, "true or false", json)),
            },
        }
    }

    fn equals(&mut self, path: &str, name: &'static str, json: &Json) -> Result<Filter, FilterError> {
        match Value::from_json(json) {
            Some(value) => self.test(path, Test::Equals(value)),
            None if json.is_null() => self.test(path, Test::Exists).map(not),
            None => Err(self.value(name, "a string, a number, a boolean or null", json)),
        }
    }

    fn one_of(&mut self, path: &str, name: &'static str, json: &'j Json) -> Result<Filter, FilterError> {
        let Json::Array(list) = json else { return Err(self.value(name, "a list of values", json)) };
        if list.len() > LIST_VALUES_MAX {
            return Err(self.error(FilterProblem::TooManyValues { values: list.len() }));
        }
        let mut values = Vec::with_capacity(list.len());
        for (index, json) in list.iter().enumerate() {
            match Value::from_json(json) {
                Some(value) => values.push(value),
                None if json.is_null() => {}
                None => {
                    let expected = "strings, numbers, booleans and null";
                    return self.at(Step::Index(index), |parser| Err(parser.value(name, expected, json)));
                }
            }
        }
        let has_null = values.len() < list.len();
        let one_of = self.test(path, Test::In(values))?;
        Ok(if has_null { Filter::Or(vec![one_of, not(self.test(path, Test::Exists)?)]) } else { one_of })
    }

    fn test(&mut self, path: &str, test: Test) -> Result<Filter, FilterError> {
        self.conditions += 1;
        if self.conditions > CONDITIONS_MAX {
            return Err(self.error(FilterProblem::TooManyConditions));
        }
        Ok(Filter::Condition { path: path.to_owned(), test })
    }

    /// Calls `parse` at a child of the current position.
    fn at<T>(
        &mut self,
        step: Step<'j>,
        parse: impl FnOnce(&mut Self) -> Result<T, FilterError>,
    ) -> Result<T, FilterError> {
        self.position.push(step);
        let result = parse(self);
        self.position.pop();
        result
    }

    /// Records the position if `path` is the wanted path.
    fn note_mention(&mut self, path: &str) {
        if self.found.is_none() && self.wanted == Some(path) {
            self.found = Some(self.pointer());
        }
    }

    fn pointer(&self) -> String {
        let step = |step: &Step<'_>| match step {
            Step::Key(key) => format!("/{}", truncate(key).replace('~', "~0").replace('/', "~1")),
            Step::Index(index) => format!("/{index}"),
        };
        self.position.iter().map(step).collect()
    }

    fn error(&self, problem: FilterProblem) -> FilterError {
        FilterError { pointer: self.pointer(), problem }
    }

    fn value(&self, operator: &'static str, expected: &'static str, json: &Json) -> FilterError {
        self.error(FilterProblem::Value { operator, expected, found: kind(json) })
    }

    /// The remedy is the operator that was probably intended, or else `advice`.
    fn unknown(&self, name: &str, advice: &str) -> FilterError {
        let remedy = match intended_operator(name) {
            Some(operator) => format!("did you mean `{operator}`?"),
            None => advice.to_owned(),
        };
        self.error(FilterProblem::UnknownOperator { name: truncate(name), remedy })
    }
}

/// Whether an object is in OpenAI's form. `{"type": "report"}` is in our own: a condition on the key `type`.
fn has_type(object: &Map<String, Json>) -> bool {
    let Some(Json::String(name)) = object.get("type") else { return false };
    let has = |key| object.contains_key(key);
    has("filters") || has("key") && (has("value") || operator(name).is_some())
}

fn all_of(mut filters: Vec<Filter>) -> Filter {
    match filters.pop() {
        Some(only) if filters.is_empty() => only,
        Some(last) => {
            filters.push(last);
            Filter::And(filters)
        }
        None => Filter::And(filters),
    }
}

fn not(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    }
}

/// A key, truncated for an error message.
fn truncate(key: &str) -> String {
    let end = key.floor_char_boundary(QUOTED_BYTES_MAX);
    if end == key.len() { key.to_owned() } else { format!("{}…", &key[..end]) }
}

/// The meaning of `name` with a list of filters in our language; a metadata field has no condition of that form.
fn foreign_combination(name: &str, json: &Json) -> Option<&'static str> {
    let is_list_of_filters = json.as_array().is_some_and(|list| list.iter().any(Json::is_object));
    let name = name.trim_start_matches('$').to_lowercase();
    let (_, meant) = FOREIGN_COMBINATIONS.iter().find(|(foreign, _)| *foreign == name)?;
    is_list_of_filters.then_some(*meant)
}

/// The operator that was probably intended.
fn intended_operator(name: &str) -> Option<&'static str> {
    if name.len() > QUOTED_BYTES_MAX {
        return None;
    }
    let name = name.trim_start_matches('$').to_lowercase();
    let known = OPERATORS.into_iter().map(|(known, _)| (known, known));
    let exact = |(foreign, _): &(&str, &str)| *foreign == name;
    let near = |(foreign, _): &(&str, &str)| name.len() > 2 && is_one_edit_away(foreign, &name);
    let mut names: Vec<_> = known.chain(FOREIGN_NAMES).collect();
    names.sort_by_key(|pair| (!exact(pair), !near(pair)));
    names.first().filter(|pair| exact(pair) || near(pair)).map(|(_, intended)| *intended)
}

/// Whether the words differ by one inserted, removed or replaced letter, or by two adjacent letters swapped.
fn is_one_edit_away(a: &str, b: &str) -> bool {
    let (mut a, mut b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    (a, b) = (a.split_off(same), b.split_off(same));
    let is_swapped = a.len() >= 2 && b.len() >= 2 && a[0] == b[1] && a[1] == b[0] && a[2..] == b[2..];
    let without = |word: &[char]| word.get(1..).map(<[char]>::to_vec);
    is_swapped || without(&a).is_some_and(|a| a == b || Some(a) == without(&b)) || without(&b) == Some(a)
}
