//! What people type, and what becomes of it.

use super::{Query, SyntaxProblem, parse, parse_forgiving};

/// A tree in one line: words are bare, `&` stands for must, `|` for should, `!` for must not.
fn show(query: &Query) -> String {
    match query {
        Query::Words(text) => text.clone(),
        Query::Phrase(text) => format!("\"{text}\""),
        Query::Prefix(text) => format!("{text}*"),
        Query::Wildcard(pattern) => format!("~{pattern}"),
        Query::Field { name, value, .. } => format!("{name}={}", show(value)),
        Query::Boolean { must, should, must_not } => {
            let parts = [("&", must), ("|", should), ("!", must_not)];
            let show_part = |(sign, queries): (&str, &Vec<Query>)| {
                queries.iter().map(|query| format!("{sign}{}", show(query))).collect::<Vec<_>>()
            };
            format!("[{}]", parts.into_iter().flat_map(show_part).collect::<Vec<_>>().join(" "))
        }
    }
}

/// Both parsers read it alike.
#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(show(&parse_forgiving(text)), expected, "forgiving: {text}");
    assert_eq!(parse(text).map(|query| show(&query)), Ok(expected.to_owned()), "strict: {text}");
}

/// A mistake: what the forgiving parser makes of it, and where the strict one sees it.
#[track_caller]
fn check_mistake(text: &str, expected: &str, position: usize, problem: SyntaxProblem) {
    assert_eq!(show(&parse_forgiving(text)), expected, "forgiving: {text}");
    let error = parse(text).expect_err(text);
    assert_eq!((error.position, error.problem), (position, problem), "strict: {text}");
}

fn lonely(operator: &'static str) -> SyntaxProblem {
    SyntaxProblem::MissingOperand { operator }
}

fn no_value(name: &str) -> SyntaxProblem {
    SyntaxProblem::NoValue { name: name.to_owned() }
}

#[test]
fn wildcards_stand_inside_words_of_letters() {
    check("wi*d w?r", "[|~wi*d |~w?r]");
    check("river -we*r", "[|river !~we*r]");
    check("+w?r dam", "[&~w?r |dam]");
    check("we*r*", "~we*r*");
    check("we**r so?", "[|~we**r |so?]");
    for text in ["a*b", "2*3*4", "what? who?!", "x?y=z", "?ow", "1?2", "so??", "http://x/y?z=1"] {
        check(text, text);
    }
}

#[test]
fn plain_words_are_one_bag() {
    for text in [
        "solar",
        "how do solar panels work?",
        "what's e-mail & well-known stuff, 12:30, 50% -- or not",
        "a - b + c -- d, e–f -",
        "f(x) and (brackets) are punctuation",
        "std::vec http://x.y/z C++ #1 a*b **bold** 2*3 * 5\" disk",
        "and or not android ORDER NOTE ANDES orAND",
        "東京 大学\u{3000}naïve",
    ] {
        check(text, text);
    }
    check("  solar \n", "solar");
    check("", "");
    check(" ?! ", "?!");
}

#[test]
fn quotes_make_phrases() {
    check("\"solar panel\"", "\"solar panel\"");
    check("cheap \"solar panel\" roof", "[|cheap |\"solar panel\" |roof]");
    check("\"a\"b \"c\".", "[|\"a\" |b |\"c\"]");
    check("\"a AND (b\"", "\"a AND (b\"");
    check("what's the C++ \"hello\" -- world?", "[|what's the C++ |\"hello\" |world?]");
}

#[test]
fn a_star_at_the_end_makes_a_prefix() {
    check("sol*", "sol*");
    check("e-ma* x", "[|e-ma* |x]");
    check("(sol*) -win*", "[|sol* !win*]");
}

#[test]
fn signs_require_and_exclude() {
    check("solar -wind", "[|solar !wind]");
    check("solar NOT wind power", "[|solar power !wind]");
    check("+solar wind energy", "[&solar |wind energy]");
    check("-\"wind power\" solar +pan* -title:x", "[&pan* |solar !\"wind power\" !title=x]");
    check("+solar", "solar");
    check("a -(b c) -(d AND e)", "[|a !b c ![&d &e]]");
    check("a (-b)", "[|a !b]");
    check("a -AND -5", "[|a !AND !5]");
}

#[test]
fn a_required_or_excluded_word_of_several_terms_is_a_phrase() {
    check("mail -e-mail", "[|mail !\"e-mail\"]");
    check("大学 -東京大学", "[|大学 !\"東京大学\"]");
    check("e-mail AND (a b)", "[&\"e-mail\" &a b]");
    check("+C++ +don't", "[&C++ &\"don't\"]");
}

#[test]
fn words_bind_tighter_than_and_and_that_tighter_than_or() {
    check("a AND b", "[&a &b]");
    check("machine learning AND python code", "[&machine learning &python code]");
    check("a b OR \"c\"", "[|a b |\"c\"]");
    check("a OR b", "a b");
    check("a AND b OR c AND d", "[|[&a &b] |[&c &d]]");
    check("a AND (b OR \"c\")", "[&a &[|b |\"c\"]]");
    check("(a AND b) AND c", "[&a &b &c]");
    check("a AND -b", "[&a !b]");
    check("(a AND b) c", "[|[&a &b] |c]");
    check("a AND NOT b AND c", "[&a &c !b]");
    check("a AND b -c", "[&a &[|b !c]]");
    check("((a)) OR ((\"b\" c))", "[|a |\"b\" |c]");
}

#[test]
fn a_field_value_follows_the_colon_immediately() {
    check("title:solar panels", "[&title=solar |panels]");
    check("author.name:\"Ada L\"", "author.name=\"Ada L\"");
    check("title:sol* OR _x:1", "[|title=sol* |_x=1]");
    check("(a:b:c)", "a=b:c");
    check("größe:10", "größe=10");
    check("12:30 -x:1 y", "[|12:30 y !x=1]");
}

#[test]
fn unknown_fields_become_text() {
    let known = |text: &str| show(&parse_forgiving(text).with_fields(|name| name == "title"));
    assert_eq!(parse_forgiving("title:a x:b -y:\"c\"").fields(), ["title", "x", "y"]);
    assert_eq!(known("refused localhost:8080 again"), "localhost:8080 refused again");
    assert_eq!(known("localhost:8080"), "localhost:8080");
    assert_eq!(known("title:a x:b*"), "[&title=a |x:b*]");
    assert_eq!(known("a -x:b"), "[|a !\"x:b\"]");
    assert_eq!(known("a AND (x:\"b c\" OR -\"d\")"), "[&a &x:\"b c\" -\"d\"]");
    assert_eq!(parse_forgiving("a x:b -d").with_fields(|_| true), parse_forgiving("a x:b -d"));
}

#[test]
fn unbalanced_parts_are_text_and_the_rest_keeps_its_meaning() {
    check_mistake("say \"hi", "say \"hi", 4, SyntaxProblem::UnclosedQuote);
    check_mistake("\"a b\" -\"c", "[|\"a b\" !\"c]", 7, SyntaxProblem::UnclosedQuote);
    check_mistake("a \"\" b \"c\"", "[|a \"\" b |\"c\"]", 2, SyntaxProblem::EmptyPhrase);
    check_mistake("a -\"!\" b", "a -\"!\" b", 3, SyntaxProblem::EmptyPhrase);
    check_mistake("(a \"b\"", "[|a |\"b\"]", 0, SyntaxProblem::UnclosedParenthesis);
    check_mistake("a -(b c \"d\"", "[|a b c |\"d\"]", 3, SyntaxProblem::UnclosedParenthesis);
    check_mistake("a NOT (b c \"d\"", "[|a NOT b c |\"d\"]", 6, SyntaxProblem::UnclosedParenthesis);
    check_mistake("1) a \"b\"", "[|1) a |\"b\"]", 1, SyntaxProblem::UnopenedParenthesis);
    check_mistake("a :) b", "a :) b", 3, SyntaxProblem::UnopenedParenthesis);
    check_mistake("a () -b", "[|a !b]", 2, SyntaxProblem::EmptyGroup);
    check_mistake("a -((!)) b", "a -((!)) b", 4, SyntaxProblem::EmptyGroup);
}

#[test]
fn an_operator_without_an_operand_is_a_word() {
    check_mistake("AND solar", "AND solar", 0, lonely("AND"));
    check_mistake("Portland OR", "Portland OR", 9, lonely("OR"));
    check_mistake("NOT", "NOT", 0, lonely("NOT"));
    check_mistake("a (OR \"b\")", "[|a OR |\"b\"]", 3, lonely("OR"));
    check_mistake("a AND OR b", "[&a &OR b]", 6, lonely("OR"));
    check_mistake("a NOT NOT b", "[|a NOT !b]", 2, lonely("NOT"));
    check_mistake("AND a OR", "AND a OR", 0, lonely("AND"));
}

#[test]
fn a_field_without_a_value_is_text() {
    check_mistake("re: hello", "re: hello", 0, no_value("re"));
    check_mistake("a b:(c)", "a b:(c)", 2, no_value("b"));
    check_mistake("x:\"a", "x:\"a", 0, no_value("x"));
    check_mistake("x:\"\" -b", "[|x:\"\" !b]", 0, no_value("x"));
    check_mistake("path:/usr -a", "[|path:/usr !a]", 0, no_value("path"));
}

#[test]
fn queries_that_only_exclude_are_text() {
    check_mistake("-verbose", "-verbose", 0, SyntaxProblem::OnlyExcludes);
    check_mistake("NOT a -b", "NOT a -b", 0, SyntaxProblem::OnlyExcludes);
    check_mistake("\"a\" OR -b", "[|\"a\" |-b]", 7, SyntaxProblem::OnlyExcludes);
    check_mistake("a NOT (-b)", "a (-b)", 6, SyntaxProblem::OnlyExcludes);
    check_mistake("(-a) AND (-b)", "(-a) AND (-b)", 0, SyntaxProblem::OnlyExcludes);
}

#[test]
fn beyond_a_limit_the_whole_query_is_text() {
    let nested = |depth: usize| format!("{}\"a\"{}", "(".repeat(depth), ")".repeat(depth));
    check(&nested(32), "\"a\"");
    check_mistake(&nested(33), &nested(33), 32, SyntaxProblem::TooDeep);
    let clauses = |count: usize| vec!["+a"; count].join(" ");
    assert!(matches!(parse(&clauses(256)), Ok(Query::Boolean { must, .. }) if must.len() == 256));
    check_mistake(&clauses(257), &clauses(257), 256 * 3 + 1, SyntaxProblem::TooManyClauses);
    check(&"word ".repeat(1000), "word ".repeat(1000).trim());
}

#[test]
fn malicious_queries_are_parsed_in_one_pass() {
    let pieces = [
        "(", ")", "\"", "\"\"", "()", "-", "+", "*", "AND ", "a AND ", "NOT ", "-\"", "a:", "a:\"", "a:\" ",
        "-(", "(a ", "\"a ", "x:y ", "+a ", "- ", "f(", "\u{3000}", "é", "a:\"!\" ", "NOT (", "a -(!) ",
        " OR",
    ];
    for piece in pieces {
        let bomb = piece.repeat((1 << 20) / piece.len());
        let query = parse_forgiving(&bomb);
        let strict = parse(&bomb);
        assert!(strict.is_err() || strict.as_ref() == Ok(&query), "{piece}");
    }
}

#[test]
fn errors_have_a_position_and_a_remedy() {
    let error = parse("größe: 5").expect_err("no value");
    assert_eq!(
        error.to_string(),
        "at byte 0 of the query: field `größe` has no value: write `größe:word`, `größe:\"two words\"` or \
         `größe:prefix*`, or put the text in quotes"
    );
    assert_eq!(parse("größe OR").expect_err("a lonely OR").position, 8);
}

/// Prints what a parse costs: the best of many rounds, for the machine may be busy, and the limit is wide, for the build may
/// be plain. `-- --nocapture a_parse_takes`
#[test]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn a_parse_takes_microseconds() {
    for text in [
        "how do solar panels work in winter",
        "what's the C++ \"hello\" -- world?",
        "\"solar panel\" -wind +roof title:solar",
        "title:solar AND (author.name:\"Ada L\" OR lang:d* OR (wind power)) -\"heat pump\" a b c",
    ] {
        let round = |_| {
            let start = std::time::Instant::now();
            (0..100).for_each(|_| drop(std::hint::black_box(parse_forgiving(std::hint::black_box(text)))));
            start.elapsed().as_nanos() / 100
        };
        let nanos = (0..100).map(round).min().unwrap_or_default();
        println!("{nanos} ns: {text}");
        assert!(nanos < 100_000, "{nanos} ns: {text}");
    }
}
