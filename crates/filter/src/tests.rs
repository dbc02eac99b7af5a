//! The parser, and the agreement of `evaluate` with `flatten`.

use serde_json::{Map, Value as Json, json};

use crate::{Comparison, Filter, FilterProblem, Number, Test, Value, flatten};

fn filter(json: &Json) -> Filter {
    Filter::from_value(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

fn object(json: &Json) -> &Map<String, Json> {
    json.as_object().expect("metadata is an object")
}

/// Evaluates on metadata and on its flattened values.
#[track_caller]
fn check(json: Json, metadata: Json, expected: bool) {
    let filter = filter(&json);
    assert_eq!(filter.evaluate(object(&metadata)), expected, "{json} of {metadata}");
    assert_eq!(passes_flat(&filter, &flat(object(&metadata))), expected, "{json} of flat {metadata}");
}

/// `metadata` passes each filter of `yes` and none of `no`.
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

/// Evaluates on flattened values, as an index does.
fn passes_flat(filter: &Filter, values: &[(String, Value)]) -> bool {
    match filter {
        Filter::And(filters) => filters.iter().all(|filter| passes_flat(filter, values)),
        Filter::Or(filters) => filters.iter().any(|filter| passes_flat(filter, values)),
        Filter::Not(filter) => !passes_flat(filter, values),
        Filter::Condition { path, test } => {
            values.iter().any(|(at, value)| at == path && test.is_satisfied_by(value))
        }
    }
}

#[track_caller]
fn check_error(json: &Json, pointer: &str, problem: &FilterProblem) {
    let error = Filter::from_value(json).expect_err("an invalid filter");
    assert_eq!((error.pointer.as_str(), &error.problem), (pointer, problem), "{json}");
}

#[track_caller]
fn check_message(text: &str, message: &str) {
    assert_eq!(Filter::parse(text).expect_err(text).to_string(), message);
}

fn condition(path: &str, test: Test) -> Filter {
    Filter::Condition { path: path.to_owned(), test }
}

fn number(value: i64) -> Value {
    Value::Number(value.into())
}

#[test]
fn our_form_is_parsed() {
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
fn combinations_of_other_filter_languages_are_answered_with_ours() {
    let check = |json: Json, pointer: &str, name: &str, meant| {
        let problem = FilterProblem::ForeignCombination { name: name.to_owned(), meant };
        check_error(&json, pointer, &problem);
    };
    check(json!({"must": [{"year": 2020}]}), "/must", "must", "and");
    check(json!({"or": [{"$OR": [{"year": 2020}]}]}), "/or/0/$OR", "$OR", "or");
    check(json!({"must_not": [{"year": 2020}]}), "/must_not", "must_not", "not");
    assert_eq!(filter(&json!({"must": 1})), condition("must", Test::Equals(number(1))), "a metadata field");
}

#[test]
fn openai_form_is_equivalent() {
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
fn dates_are_compared_by_timestamp() {
    check_both(
        &json!({"at": "2024-03-01T00:30:00+01:00", "day": "2024-03-01"}),
        &[
            json!({"at": "2024-02-29T23:30:00Z"}),
            json!({"at": {"lt": "2024-03-01"}}),
            json!({"at": {"in": ["2024-02-29T23:30:00.000Z"]}}),
            json!({"day": {"gte": "2024-03-01T00:00:00Z"}}),
            json!({"at": {"gt": "2024-03-01T00:30:00"}}), // not a date: by code point
        ],
        &[
            json!({"at": {"gte": "2024-03-01"}}),
            json!({"at": "2024-02-29T23:30:01Z"}),
            json!({"day": {"gt": 2024}}),
        ],
    );
}

#[test]
fn one_matching_array_element_satisfies_a_condition() {
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
fn nested_keys_and_keys_with_dots_share_a_path() {
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
fn metadata_nested_too_deep_is_ignored() {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"a": [inner]}));
    for (levels, expected) in [(1, true), (64, true), (65, false)] {
        let path = vec!["a"; levels].join(".");
        check(json!({path: 1}), nested(levels), expected);
    }
}

#[test]
fn conjunction_requires_both_filters() {
    let all = || filter(&json!({}));
    let year = || filter(&json!({"year": 2020}));
    let both = Filter::and(filter(&json!({"or": [{"lang": "en"}, {"lang": "de"}]})), year());
    for (metadata, expected) in [
        (json!({"year": 2020, "lang": "de"}), true),
        (json!({"year": 2020}), false),
        (json!({"lang": "en"}), false),
    ] {
        assert_eq!(both.evaluate(object(&metadata)), expected, "{metadata}");
    }
    assert_eq!(Filter::and(all(), year()), year());
    assert_eq!(Filter::and(year(), all()), year());
    assert_eq!(Filter::and(all(), all()), all());
    assert_eq!(Filter::and(Filter::and(year(), year()), year()), Filter::And(vec![year(); 3]));
}

#[test]
fn invalid_filters_are_rejected_with_a_pointer() {
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
fn unknown_operators_are_answered_with_the_probable_one() {
    let remedy = |name: &str| {
        let error = Filter::from_value(&json!({"a": {name: 1}})).expect_err(name);
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
    let typed = Filter::from_value(&json!({"type": "foo", "key": "a", "value": 1})).expect_err("no operator");
    let name = "foo".to_owned();
    let remedy_of_form = "`type` is an operator, or `and` or `or` beside `filters`".to_owned();
    let problem = FilterProblem::UnknownOperator { name, remedy: remedy_of_form };
    assert_eq!((typed.pointer.as_str(), typed.problem), ("/type", problem));
    for name in ["name", "x", "", "é", "geo_radius"] {
        assert_eq!(remedy(name), "nested keys are joined by a dot, as in `author.name`", "{name}");
    }
}

#[test]
fn messages_have_a_pointer_and_a_remedy() {
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
    let error = Filter::from_value(&json!({long: {}})).expect_err("no operator");
    assert_eq!(error.pointer, format!("/{}…", "k".repeat(64)));
}

#[test]
fn pointer_to_finds_the_first_mention_of_a_path() {
    let check = |json: &str, expected: Option<&str>| {
        assert_eq!(Filter::pointer_to("a/b", json).as_deref(), expected, "{json}");
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
fn limits_are_enforced() {
    let nested = |levels: usize| (1..levels).fold(json!({"a": 1}), |inner, _| json!({"not": inner}));
    assert!(Filter::from_value(&nested(64)).is_ok());
    check_error(&nested(65), &"/not".repeat(64), &FilterProblem::TooDeep);
    let conditions = |count: usize| json!({"or": vec![json!({"a": 1}); count]});
    assert!(Filter::from_value(&conditions(1024)).is_ok());
    check_error(&conditions(1025), "/or/1024/a", &FilterProblem::TooManyConditions);
    let list = |count: usize| json!({"a": {"in": vec![1; count]}});
    assert!(Filter::from_value(&list(10_000)).is_ok());
    check_error(&list(10_001), "/a/in", &FilterProblem::TooManyValues { values: 10_001 });
}

#[test]
fn ten_thousand_levels_are_rejected() {
    for (open, close) in [("{\"not\":", "}"), ("[", "]"), ("{\"and\":[", "]}"), ("{\"a\":{\"in\":[", "]}}")] {
        let text = format!("{}{{}}{}", open.repeat(10_000), close.repeat(10_000));
        let problem = Filter::parse(&text).expect_err(open).problem;
        assert_eq!(problem, FilterProblem::TooDeep, "{open}");
    }
}

/// A generator with a fixed seed (SplitMix64).
struct Rng(u64);

impl Rng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
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
        match self.below(if depth == 0 { 3 } else { 6 }) {
            0..3 => self.scalar(),
            3 => (0..self.below(4)).map(|_| self.metadata(depth - 1)).collect(),
            _ => self.object(depth - 1),
        }
    }

    fn object(&mut self, depth: usize) -> Json {
        let keys = ["a", "b", "a.b", "", ".", "b.a"];
        (0..self.below(5))
            .map(|_| (self.pick(&keys).to_owned(), self.metadata(depth)))
            .collect::<Map<_, _>>()
            .into()
    }

    fn filter(&mut self, depth: usize) -> Json {
        let path = self.pick(&["a", "b", "a.b", "b.a", "a.a", "a.b.a", "", ".", "a.", "..a"]);
        let comparison = self.pick(&["gt", "gte", "lt", "lte"]);
        let bound = self.pick(&[json!(0), json!(1), json!(1.5), json!("a"), json!("2024-01-01"), json!("1")]);
        match self.below(if depth == 0 { 5 } else { 8 }) {
            0 => json!({path: {self.pick(&["eq", "ne"]): self.scalar()}}),
            1 | 2 => json!({path: {comparison: bound}}),
            3 => json!({path: {self.pick(&["in", "nin"]): [self.scalar(), self.scalar()]}}),
            4 => json!({path: {"exists": self.below(2) == 0}}),
            5 => json!({"not": self.filter(depth - 1)}),
            6 => json!({"and": [self.filter(depth - 1), self.filter(depth - 1)]}),
            _ => json!({"type": "or", "filters": [self.filter(depth - 1), self.filter(depth - 1)]}),
        }
    }
}

#[test]
fn metadata_and_its_flattened_values_pass_the_same_filters() {
    let mut rng = Rng(4);
    let mut passed = 0;
    for _ in 0..20_000 {
        let (metadata, json) = (rng.object(3), rng.filter(3));
        let filter = filter(&json);
        let expected = passes_flat(&filter, &flat(object(&metadata)));
        assert_eq!(filter.evaluate(object(&metadata)), expected, "{json} of {metadata}");
        passed += usize::from(expected);
    }
    assert!((6_000..14_000).contains(&passed), "{passed} of 20,000 passed: the cases say little");
}
