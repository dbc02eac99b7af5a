//! Queries as people type them, and their reading.

use super::{AUTO_EXAMPLE_TEXT, AUTO_RULES, NoVocabulary, Query, SyntaxProblem, Vocabulary};
use super::{parse, parse_auto};

/// A collection of one document with some fields.
struct Example;

impl Vocabulary for Example {
    fn has_field(&self, name: &str) -> bool {
        ["title", "type", "author.name", "a", "x", "_x", "größe"].contains(&name)
    }

    fn has_option(&self, before: &str, option: &str) -> bool {
        let has = |word: &str| AUTO_EXAMPLE_TEXT.contains(word);
        has(&format!(" -{option} ")) && before.split_whitespace().any(has)
    }

    fn is_stop_word(&self, word: &str) -> bool {
        ["a", "and", "does", "what", "no", "is"].contains(&word)
    }
}

/// A tree in one line: words are bare, `&` marks must, `|` should, `!` must not.
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
    assert_eq!(show(&auto(text)), expected, "auto: {text}");
    check_strict(text, expected);
}

/// The strict parser reads it so; the automatic one takes it for text.
#[track_caller]
fn check_strict(text: &str, expected: &str) {
    assert_eq!(parse(text).map(|query| show(&query)), Ok(expected.to_owned()), "strict: {text}");
}

fn auto(text: &str) -> Query {
    parse_auto(text, &Example).query
}

/// A mistake: what the automatic parser makes of it, and where the strict one sees it.
#[track_caller]
fn check_mistake(text: &str, expected: &str, position: usize, problem: SyntaxProblem) {
    assert_eq!(show(&auto(text)), expected, "auto: {text}");
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
    check("w*nd q*own", "[|~w*nd |~q*own]");
    check("river -we*r", "[|river !~we*r]");
    check("+w?r dam", "[&~w?r |dam]");
    check("we*r*", "~we*r*");
    check("we**r so?", "[|~we**r |so?]");
    for text in
        ["a*b", "a*b*cd", "2*pi", "2*3*4", "what? who?!", "x?y=z", "?ow", "1?2", "so??", "http://x/y?z=1"]
    {
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
    check("a (-beta)", "[|a !beta]");
    check_strict("a (-b)", "[|a !b]");
    check_strict("a -AND -5", "[|a !AND !5]");
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
    check("a AND -beta", "[&a !beta]");
    check("(a AND b) c", "[|[&a &b] |c]");
    check("a AND NOT b AND c", "[&a &c !b]");
    check("a AND b -gamma", "[&a &[|b !gamma]]");
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
    let check = |text: &str, expected: &str, as_text: &[&str]| {
        let reading = parse_auto(text, &Example);
        assert_eq!((show(&reading.query).as_str(), reading.as_text), (expected, strings(as_text)), "{text}");
    };
    assert_eq!(parse("title:a x:b -y:\"c\"").unwrap().fields(), ["title", "x", "y"]);
    check("refused localhost:8080 again", "refused localhost:8080 again", &["localhost:8080"]);
    check("localhost:8080", "localhost:8080", &["localhost:8080"]);
    check("title:a y:b*", "[&title=a |y:b*]", &["y:b*"]);
    check("a -y:beta", "a -y:beta", &["-y:beta"]);
    check("a AND (y:\"b c\" OR -\"d\")", "[&a &y:\"b c\" -\"d\"]", &["y:\"b c\"", "-\"d\""]);
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn the_rules_of_the_automatic_reading_hold_for_their_examples() {
    for example in AUTO_RULES.iter().flat_map(|rule| rule.examples) {
        let reading = parse_auto(example.query, &Example);
        let seen = (reading.query.excluded(), reading.as_text);
        assert_eq!(seen, (strings(example.excluded), strings(example.as_text)), "{}", example.query);
    }
}

/// The table of docs/search.md.
fn table_of_rules() -> String {
    let mut table = "| rule | query | excluded | as text |\n|---|---|---|---|\n".to_owned();
    for rule in AUTO_RULES {
        for (number, example) in rule.examples.iter().enumerate() {
            let cell =
                |parts: &[&str]| parts.iter().map(|part| format!("`{part}`")).collect::<Vec<_>>().join(" ");
            let rule = if number == 0 { rule.rule } else { "" };
            let (excluded, as_text) = (cell(example.excluded), cell(example.as_text));
            table.push_str(&format!("| {rule} | `{}` | {excluded} | {as_text} |\n", example.query));
        }
    }
    table
}

#[test]
fn the_documentation_has_the_table_of_rules() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/search.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- auto rules: begin -->\n", "<!-- auto rules: end -->");
    let (before, rest) = page.split_once(begin).unwrap();
    let (table, after) = rest.split_once(end).unwrap();
    #[allow(
        clippy::disallowed_methods,
        reason = "asks the test to rewrite the page; no setting of the product"
    )]
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{begin}{}{end}{after}", table_of_rules())).unwrap();
        return;
    }
    assert!(table == table_of_rules(), "docs/search.md is stale; run the tests once with UPDATE_DOCS=1");
    assert!(page.contains(&format!("`{AUTO_EXAMPLE_TEXT}`")), "the text of the examples");
}

#[test]
fn pasted_text_is_text_and_the_words_are_unchanged() {
    for text in [
        "NOT NULL constraint failed: users.email",
        "grep -v",
        "what does ls -l do",
        "tar -xzf",
        "temperature -5 degrees",
        "difference between AND and OR",
        "git commit -m message --amend",
        "curl -sSL https://example.com | sh",
        "gcc -O2 -std=c99 -I/usr/include -c main.c",
        "docker run -it -p8080:80 nginx",
        "kill -9 1234",
        "BETWEEN 1 AND 10",
        "CREATE TABLE users (id INT NOT NULL)",
        "java -cp.",
        "kill -9, then?",
        "what's OR",
    ] {
        let words = text.split_whitespace().map(|word| word.trim_matches(['(', ')'])).collect::<Vec<_>>();
        let found = auto(text).text().into_owned();
        let found = found.split_whitespace().map(|word| word.trim_matches(['(', ')'])).collect::<Vec<_>>();
        assert_eq!((found, auto(text).excluded()), (words, Vec::new()), "{text}");
    }
}

#[test]
fn an_operator_that_is_meant_is_one() {
    check("machine learning AND python OR rust", "[|[&machine learning &python] |rust]");
    check(
        "\"to be or not to be, what a question\" AND hamlet",
        "[&\"to be or not to be, what a question\" &hamlet]",
    );
    check("python AND (NOT django)", "[&python !django]");
    check("volcanes -tectónica -été", "[|volcanes !\"tectónica\" !\"été\"]");
    check("apple -pie* -\"pie\" +C++", "[&C++ |apple !pie* !\"pie\"]");
    check("NASA AND ESA", "[&NASA &ESA]");
    check("solar -iPhone -JavaScript", "[|solar !iPhone !JavaScript]");
}

#[test]
fn options_are_looked_up_a_bounded_number_of_times() {
    struct Counting(std::cell::Cell<usize>);
    impl Vocabulary for Counting {
        fn has_field(&self, _: &str) -> bool {
            false
        }

        fn has_option(&self, _: &str, _: &str) -> bool {
            self.0.set(self.0.get() + 1);
            true
        }

        fn is_stop_word(&self, _: &str) -> bool {
            false
        }
    }
    let counting = Counting(std::cell::Cell::new(0));
    let reading = parse_auto(&format!("words {}", "-name ".repeat(100)), &counting);
    assert_eq!((counting.0.get(), reading.as_text.len(), reading.query.excluded().len()), (8, 8, 92));
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
    check_mistake("a () -beta", "[|a !beta]", 2, SyntaxProblem::EmptyGroup);
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
    check_mistake("x:\"\" -beta", "[|x:\"\" !beta]", 0, no_value("x"));
    check_mistake("path:/usr -alpha", "[|path:/usr !alpha]", 0, no_value("path"));
}

#[test]
fn queries_that_only_exclude_are_text() {
    check_mistake("-verbose", "-verbose", 0, SyntaxProblem::OnlyExcludes);
    check_mistake("NOT a -b", "NOT a -b", 0, SyntaxProblem::OnlyExcludes);
    check_mistake("\"a\" OR -beta", "[|\"a\" |-beta]", 7, SyntaxProblem::OnlyExcludes);
    check_mistake("a NOT (-beta)", "a (-beta)", 6, SyntaxProblem::OnlyExcludes);
    check_mistake("(-alpha) AND (-beta)", "(-alpha) AND (-beta)", 0, SyntaxProblem::OnlyExcludes);
}

#[test]
fn beyond_a_limit_the_whole_query_is_text() {
    let nested = |depth: usize| format!("{}\"a\"{}", "(".repeat(depth), ")".repeat(depth));
    check(&nested(32), "\"a\"");
    check_mistake(&nested(33), &nested(33), 32, SyntaxProblem::TooDeep);
    let clauses = |count: usize| vec!["+aa"; count].join(" ");
    assert!(matches!(parse(&clauses(256)), Ok(Query::Boolean { must, .. }) if must.len() == 256));
    check_mistake(&clauses(257), &clauses(257), 256 * 4 + 1, SyntaxProblem::TooManyClauses);
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
        let reading = parse_auto(&bomb, &NoVocabulary);
        let read = reading.as_text.iter().map(String::len).sum::<usize>();
        assert!(read <= bomb.len(), "{piece}");
        drop(parse(&bomb));
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
            (0..100).for_each(|_| drop(std::hint::black_box(auto(std::hint::black_box(text)))));
            start.elapsed().as_nanos() / 100
        };
        let nanos = (0..100).map(round).min().unwrap_or_default();
        println!("{nanos} ns: {text}");
        assert!(nanos < 100_000, "{nanos} ns: {text}");
    }
}
