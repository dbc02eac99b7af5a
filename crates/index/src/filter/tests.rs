//! The parser's answers, and the story that `matches` and `flatten` tell together.

use serde_json::{Map, Value as Json, json};

use super::{Comparison, Filter, FilterProblem, Number, Test, Value, flatten};

fn filter(json: &Json) -> Filter {
    Filter::parse(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

fn object(json: &Json) -> &Map<String, Json> {
    json.as_object().expect("metadata is an object")
}

/// Whether metadata passes, by both ways to find out.
#[track_caller]
fn check(json: Json, metadata: Json, expected: bool) {
    let filter = filter(&json);
    assert_eq!(filter.matches(object(&metadata)), expected, "{json} of {metadata}");
    assert_eq!(passes_flat(&filter, &flat(object(&metadata))), expected, "{json} of flat {metadata}");
}

/// `metadata` passes `yes`, and not `no`.
#[track_caller]
fn check_both(metadata: &Json, yes: &[Json], no: &[Json]) {
    yes.iter().for_each(|json| check(json.clone(), metadata.clone(), true));
    no.iter().for_each(|json| check(json.clone(), metadata.clone(), false));
}

fn flat(metadata: &Map<String, Json>) -> Vec<(String, Value)> {
    let mut values = Vec::new();
    flatten(metadata, |path, value| values.push((path.to_owned(), value)));
    values
}

/// Filters as an index sees them: values at paths, nothing else.
fn passes_flat(filter: &Filter, values: &[(String, Value)]) -> bool {
    match filter {
        Filter::And(filters) => filters.iter().all(|filter| passes_flat(filter, values)),
        Filter::Or(filters) => filters.iter().any(|filter| passes_flat(filter, values)),
        Filter::Not(filter) => !passes_flat(filter, values),
        Filter::Condition { path, test } => values.iter().any(|(at, value)| at == path && test.holds(value)),
    }
}

#[track_caller]
fn check_error(json: &Json, pointer: &str, problem: &FilterProblem) {
    let error = Filter::parse(json).expect_err("a wrong filter");
    assert_eq!((error.pointer.as_str(), &error.problem), (pointer, problem), "{json}");
}

#[track_caller]
fn check_message(text: &str, message: &str) {
    assert_eq!(Filter::from_json(text).expect_err(text).to_string(), message);
}

fn condition(path: &str, test: Test) -> Filter {
    Filter::Condition { path: path.to_owned(), test }
}

fn number(value: i64) -> Value {
    Value::Number(value.into())
}

#[test]
fn our_form_is_read() {
    assert_eq!(filter(&json!({})), Filter::And(vec![]));
    assert_eq!(filter(&json!({"year": 2020})), condition("year", Test::Equals(number(2020))));
    let expected = Filter::And(vec![
        Filter::Not(Box::new(condition("draft", Test::Exists))),
        condition("lang", Test::In(vec![Value::String("en".into()), Value::Boolean(true)])),
        Filter::Or(vec![condition("a.b", Test::Exists), Filter::And(vec![])]),
        Filter::And(vec![
            condition("year", Test::Compare(Comparison::GreaterOrEqual, number(2019))),
            condition("year", Test::Compare(Comparison::Less, number(2022))),
        ]),
    ]);
    let json = json!({
        "draft": null, "lang": {"in": ["en", true]}, "or": [{"a.b": {"exists": true}}, {}],
        "year": {"gte": 2019, "lt": 2022}
    });
    assert_eq!(filter(&json), expected);
    assert_eq!(filter(&json).paths().collect::<Vec<_>>(), ["a.b", "draft", "lang", "year"]);
}

#[test]
fn the_form_of_openai_means_the_same() {
    let same = |theirs: Json, ours: Json| assert_eq!(filter(&theirs), filter(&ours), "{theirs}");
    same(json!({"type": "eq", "key": "year", "value": 2020}), json!({"year": 2020}));
    same(json!({"type": "nin", "key": "a.b", "value": [1, null]}), json!({"a.b": {"nin": [1, null]}}));
    same(
        json!({"type": "or", "filters": [{"type": "gt", "key": "x", "value": 1}, {"y": 2}]}),
        json!({"or": [{"x": {"gt": 1}}, {"y": 2}]}),
    );
    check(json!({"type": "eq", "key": "and", "value": 1}), json!({"and": 1}), true);
    check(json!({"type": "exists", "key": "not", "value": true}), json!({"not": 1}), true);
    check(json!({"type": "report", "key": "a"}), json!({"type": "report", "key": "a"}), true);
    check(json!({"type": {"eq": "eq"}, "key": "a"}), json!({"type": "eq", "key": "a"}), true);
}

#[test]
fn values_of_one_kind_compare() {
    check_both(
        &json!({"n": 5, "s": "m", "b": true}),
        &[
            json!({"n": 5.0}),
            json!({"n": {"gt": 4.9, "lte": 5}}),
            json!({"n": {"in": ["5", 5]}}),
            json!({"s": {"gt": "Z", "lt": "ä"}}),
            json!({"b": true}),
            json!({"b": {"ne": false}}),
            json!({"n": {"ne": "5"}}),
            json!({"n": {"nin": []}}),
        ],
        &[
            json!({"n": "5"}),
            json!({"n": {"gt": "1"}}),
            json!({"s": {"gt": 1}}),
            json!({"b": 1}),
            json!({"n": {"lt": 5}}),
            json!({"n": {"in": []}}),
            json!({"s": "M"}),
        ],
    );
}

#[test]
fn numbers_are_compared_exactly() {
    check_both(
        &json!({"n": 9_007_199_254_740_993_u64, "max": u64::MAX, "min": i64::MIN, "half": 0.5}),
        &[
            json!({"n": {"gt": 9_007_199_254_740_992_u64}}),
            json!({"n": {"gt": 9_007_199_254_740_992.0}}),
            json!({"max": {"lt": 18_446_744_073_709_551_616.0}}),
            json!({"max": {"gt": i64::MAX}}),
            json!({"min": -9_223_372_036_854_775_808.0}),
            json!({"min": {"gt": -1e300}}),
            json!({"half": {"gt": 0, "lt": 1}}),
            json!({"half": {"gt": -1}}),
            json!({"max": {"lt": 1e40}}),
        ],
        &[
            json!({"n": 9_007_199_254_740_992_u64}),
            json!({"n": 9_007_199_254_740_992.0}),
            json!({"max": 18_446_744_073_709_551_616.0}),
            json!({"max": {"gt": 1e40}}),
        ],
    );
    assert_eq!(Number::from_f64(-0.0), Some(Number::Integer(0)));
    assert_eq!(Number::from_f64(f64::NAN), None);
    assert_eq!(Number::from_f64(f64::INFINITY), None);
    assert!(Number::Float(-0.5) < Number::Integer(0) && Number::Float(-0.5) > Number::Integer(-1));
}

#[test]
fn dates_are_compared_as_instants() {
    check_both(
        &json!({"at": "2024-03-01T00:30:00+01:00", "day": "2024-03-01"}),
        &[
            json!({"at": "2024-02-29T23:30:00Z"}),
            json!({"at": {"lt": "2024-03-01"}}),
            json!({"at": {"in": ["2024-02-29T23:30:00.000Z"]}}),
            json!({"day": {"gte": "2024-03-01T00:00:00Z"}}),
            json!({"at": {"gt": "2024-03-01T00:30:00"}}), // no date: by code point
        ],
        &[
            json!({"at": {"gte": "2024-03-01"}}),
            json!({"at": "2024-02-29T23:30:01Z"}),
            json!({"day": {"gt": 2024}}),
        ],
    );
}

#[test]
fn any_element_of_an_array_will_do() {
    check_both(
        &json!({"tags": ["a", ["b", 7], null], "empty": [], "who": [{"name": "x"}, {"name": ["y"], "age": 3}]}),
        &[
            json!({"tags": "b"}),
            json!({"tags": {"gt": 6, "lt": "b"}}),
            json!({"who.name": "y", "who.age": 3}),
            json!({"tags": {"nin": ["c"]}}),
            json!({"empty": null}),
            json!({"empty": {"exists": false}}),
            json!({"who.name": {"in": ["x", "z"]}}),
        ],
        &[
            json!({"tags": {"ne": "a"}}),
            json!({"tags": {"nin": ["c", 7]}}),
            json!({"tags": null}),
            json!({"who": {"exists": true}}),
            json!({"empty": {"eq": 1}}),
        ],
    );
}

#[test]
fn null_is_no_value() {
    check_both(
        &json!({"a": null, "b": {"c": null}, "d": false}),
        &[
            json!({"a": null, "b.c": {"eq": null}, "missing": null}),
            json!({"a": {"exists": false}}),
            json!({"d": {"ne": null}}),
            json!({"a": {"in": [1, null]}}),
            json!({"a": {"ne": 1}}),
        ],
        &[
            json!({"d": null}),
            json!({"a": {"ne": null}}),
            json!({"a": {"nin": [1, null]}}),
            json!({"d": {"in": [null]}}),
        ],
    );
}

#[test]
fn nested_keys_and_keys_with_dots_meet() {
    let metadata = json!({"a": {"b": 1, "b.c": 2, "": 5}, "a.b": 3, "a.b.c": 4, ".": {"x": 6}, "": {"": 7}});
    let yes = [("a.b", 1), ("a.b", 3), ("a.b.c", 2), ("a.b.c", 4), ("a.", 5), ("..x", 6), (".", 7)];
    for (path, value) in yes {
        check(json!({path: value}), metadata.clone(), true);
    }
    for (path, value) in [("a.b", 2), ("a", 1), ("b", 1), (".x", 6), ("", 7), ("a.b.", 1)] {
        check(json!({path: value}), metadata.clone(), false);
    }
}

#[test]
fn what_is_nested_too_deep_is_seen_by_neither() {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"a": [inner]}));
    for (levels, expected) in [(1, true), (64, true), (65, false)] {
        let path = vec!["a"; levels].join(".");
        check(json!({path: 1}), nested(levels), expected);
    }
}

#[test]
fn wrong_filters_are_refused_at_their_place() {
    use FilterProblem as P;
    check_error(&json!([]), "", &P::NotAnObject { found: "an array" });
    check_error(&json!({"and": [{"a": 1}, 5]}), "/and/1", &P::NotAnObject { found: "a number" });
    check_error(&json!({"or": []}), "/or", &P::NotAList { operator: "or".into() });
    check_error(&json!({"and": {"a": 1}}), "/and", &P::NotAList { operator: "and".into() });
    check_error(&json!({"not": 1}), "/not", &P::NotAFilter);
    check_error(&json!({"a/b~c": {}}), "/a~1b~0c", &P::NoOperator);
    check_error(&json!({"type": "and", "key": "a", "filters": []}), "", &P::Form);
    check_error(&json!({"type": "eq", "key": "a"}), "", &P::Form);
    check_error(&json!({"type": "eq", "key": 1, "value": 1}), "", &P::Form);
    check_error(&json!({"type": "eq", "key": "a", "value": 1, "more": 1}), "", &P::Form);
    check_error(&json!({"type": "xor", "filters": []}), "/type", &P::Form);
    check_error(&json!({"type": "or", "filters": []}), "/filters", &P::NotAList { operator: "or".into() });
    let value = |operator, expected, found| P::Value { operator, expected, found };
    check_error(&json!({"a": {"gt": true}}), "/a/gt", &value("gt", "a number or a string", "a boolean"));
    check_error(&json!({"a": {"lt": null}}), "/a/lt", &value("lt", "a number or a string", "null"));
    check_error(&json!({"a": {"exists": 1}}), "/a/exists", &value("exists", "true or false", "a number"));
    check_error(&json!({"a": {"in": "x"}}), "/a/in", &value("in", "a list of values", "a string"));
    let scalars = "strings, numbers, booleans and null";
    check_error(&json!({"a": {"nin": [1, []]}}), "/a/nin/1", &value("nin", scalars, "an array"));
    check_error(
        &json!({"type": "ne", "key": "a", "value": {}}),
        "/value",
        &value("ne", "a string, a number, a boolean or null", "an object"),
    );
}

#[test]
fn an_unknown_operator_is_answered_by_the_one_that_was_meant() {
    let remedy = |name: &str| {
        let error = Filter::parse(&json!({"a": {name: 1}})).expect_err(name);
        let FilterProblem::UnknownOperator { remedy, .. } = error.problem else { panic!("{error}") };
        remedy
    };
    for (name, meant) in [
        ("$gte", "gte"),
        ("GT", "gt"),
        (">=", "gte"),
        ("$not_in", "nin"),
        ("exsits", "exists"),
        ("exist", "exists"),
        ("equal", "eq"),
        ("eqq", "eq"),
        ("$ne", "ne"),
        ("minn", "gte"),
        ("is_nul", "exists"),
        ("contians", "eq"),
    ] {
        assert_eq!(remedy(name), format!("did you mean `{meant}`?"), "{name}");
    }
    let typed = Filter::parse(&json!({"type": "foo", "key": "a", "value": 1})).expect_err("no operator");
    let name = "foo".to_owned();
    let remedy_of_form = "`type` is an operator, or `and` or `or` beside `filters`".to_owned();
    let problem = FilterProblem::UnknownOperator { name, remedy: remedy_of_form };
    assert_eq!((typed.pointer.as_str(), typed.problem), ("/type", problem));
    for name in ["name", "x", "", "é", "geo_radius"] {
        assert_eq!(remedy(name), "nested keys are joined by a dot, as in `author.name`", "{name}");
    }
}

#[test]
fn messages_name_the_place_and_the_remedy() {
    check_message(
        r#"{"or": [{"year": {"$gt": 1}}]}"#,
        "filter, at `/or/0/year/$gt`: unknown operator `$gt`: did you mean `gt`?; operators are eq, ne, gt, gte, lt, lte, in, \
         nin, exists",
    );
    check_message(
        "{",
        "filter: this is not JSON (EOF while parsing an object at line 1 column 1): give an object such as {\"year\": 2020}",
    );
    let long = "k".repeat(1 << 20);
    let error = Filter::parse(&json!({long: {}})).expect_err("no operator");
    assert_eq!(error.pointer, format!("/{}…", "k".repeat(64)));
}

#[test]
fn a_path_is_found_where_a_filter_first_names_it() {
    let check = |json: &str, expected: Option<&str>| {
        assert_eq!(Filter::place_of("a/b", json).as_deref(), expected, "{json}");
    };
    check(r#"{"a/b": 1}"#, Some("/a~1b"));
    check(r#"{"c": {"gt": 1}, "a/b": {"gt": 1, "lt": 3}}"#, Some("/a~1b"));
    check(r#"{"and": [{"c": 1}, {"not": {"a/b": null}}, {"a/b": 1}]}"#, Some("/and/1/not/a~1b"));
    check(r#"{"type": "eq", "key": "a/b", "value": 1}"#, Some("/key"));
    check(
        r#"{"type": "or", "filters": [{"c": 1}, {"type": "in", "key": "a/b", "value": [1]}]}"#,
        Some("/filters/1/key"),
    );
    check(r#"{"c": "a/b"}"#, None);
    check(r#"{"a/b": {"$gt": 1}}"#, None);
    check("{", None);
}

#[test]
fn limits_hold() {
    let nested = |levels: usize| (1..levels).fold(json!({"a": 1}), |inner, _| json!({"not": inner}));
    assert!(Filter::parse(&nested(64)).is_ok());
    check_error(&nested(65), &"/not".repeat(64), &FilterProblem::TooDeep);
    let conditions = |count: usize| json!({"or": vec![json!({"a": 1}); count]});
    assert!(Filter::parse(&conditions(1024)).is_ok());
    check_error(&conditions(1025), "/or/1024/a", &FilterProblem::TooManyConditions);
    let list = |count: usize| json!({"a": {"in": vec![1; count]}});
    assert!(Filter::parse(&list(10_000)).is_ok());
    check_error(&list(10_001), "/a/in", &FilterProblem::TooManyValues { values: 10_001 });
}

#[test]
fn ten_thousand_levels_are_an_error() {
    for (open, close) in [("{\"not\":", "}"), ("[", "]"), ("{\"and\":[", "]}"), ("{\"a\":{\"in\":[", "]}}")] {
        let text = format!("{}{{}}{}", open.repeat(10_000), close.repeat(10_000));
        let problem = Filter::from_json(&text).expect_err(open).problem;
        assert_eq!(problem, FilterProblem::TooDeep, "{open}");
    }
}

/// A generator with a fixed seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len())].clone()
    }

    fn scalar(&mut self) -> Json {
        let values = [
            json!(0),
            json!(1),
            json!(1.5),
            json!(-1),
            json!(9_007_199_254_740_992_u64),
            json!(9_007_199_254_740_993_u64),
            json!(1e300),
            json!("1"),
            json!("a"),
            json!("ä"),
            json!(""),
            json!("2024-01-01"),
            json!("2024-01-01T00:00:00Z"),
            json!("2024-01-01T01:00:00+02:00"),
            json!("2024-01-01T00:00:00"),
            json!(true),
            json!(false),
            Json::Null,
        ];
        self.pick(&values)
    }

    fn metadata(&mut self, depth: usize) -> Json {
        match self.roll(if depth == 0 { 3 } else { 6 }) {
            0..3 => self.scalar(),
            3 => (0..self.roll(4)).map(|_| self.metadata(depth - 1)).collect(),
            _ => self.object(depth - 1),
        }
    }

    fn object(&mut self, depth: usize) -> Json {
        let keys = ["a", "b", "a.b", "", ".", "b.a"];
        (0..self.roll(5))
            .map(|_| (self.pick(&keys).to_owned(), self.metadata(depth)))
            .collect::<Map<_, _>>()
            .into()
    }

    fn filter(&mut self, depth: usize) -> Json {
        let path = self.pick(&["a", "b", "a.b", "b.a", "a.a", "a.b.a", "", ".", "a.", "..a"]);
        let comparison = self.pick(&["gt", "gte", "lt", "lte"]);
        let bound = self.pick(&[json!(0), json!(1), json!(1.5), json!("a"), json!("2024-01-01"), json!("1")]);
        match self.roll(if depth == 0 { 5 } else { 8 }) {
            0 => json!({path: {self.pick(&["eq", "ne"]): self.scalar()}}),
            1 | 2 => json!({path: {comparison: bound}}),
            3 => json!({path: {self.pick(&["in", "nin"]): [self.scalar(), self.scalar()]}}),
            4 => json!({path: {"exists": self.roll(2) == 0}}),
            5 => json!({"not": self.filter(depth - 1)}),
            6 => json!({"and": [self.filter(depth - 1), self.filter(depth - 1)]}),
            _ => json!({"type": "or", "filters": [self.filter(depth - 1), self.filter(depth - 1)]}),
        }
    }
}

#[test]
fn metadata_and_its_flat_values_pass_the_same_filters() {
    let mut dice = Dice(4);
    let mut passed = 0;
    for _ in 0..20_000 {
        let (metadata, json) = (dice.object(3), dice.filter(3));
        let filter = filter(&json);
        let expected = passes_flat(&filter, &flat(object(&metadata)));
        assert_eq!(filter.matches(object(&metadata)), expected, "{json} of {metadata}");
        passed += usize::from(expected);
    }
    assert!((6_000..14_000).contains(&passed), "{passed} of 20,000 passed: the cases say little");
}
