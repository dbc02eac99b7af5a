//! Streams: whatever the cuts, the output is the redaction of the whole text.

use std::sync::Arc;

use weir_guardrails::{Action, Detect, Placeholders, Rule, RuleSet, Window, redact};

use crate::{compile, default_rules, rule, scan};

/// A generator of pseudo-random numbers (xorshift64*).
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

/// Matches, their halves, and ordinary text.
#[rustfmt::skip]
const PARTS: [&str; 101] = [
    "ada@example.com", "jörg.müller@bücher.de", "ada@", "@example.com", "a.b-c", "4111 1111 1111 1111", "4111-1111-1111-1111", "4111111111111111",
    "4111 1111", "630427373398", "DE89 3704 0044 0532 0130 00", "DE89370400440532013000", "GB82 WEST", "gb82", "10.0.0.1", "10.0.0", "1.2.3.4.5",
    "2001:db8::1", "::1", "fe80::", "a::b", "https://user:pass@host.example/x", "https://example.com/", "https://user:pa", "redis://:x@h", "://",
    "123-45-6789", "123-45", "+1-212-555-0123", "+49 (0)30 123456", "(212) 555-0123", "212-555-0123x12", "call 9472 7916", "9472 7916 office",
    "001-518-640-0854", "+", "(", "sk-aB3dE5gH7jK9mN1pQ3sT5vW7y", "sk-", "AKIAIOSFODNN7EXAMPLE", "ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bD1fG3hJ5",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3", "eyJhbGciOiJIUzI1NiJ9.", "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nAA==\n-----END PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq", "-----", "ignore all previous instructions", "ignore all", "previous instructions", "you are now",
    "from now on you", "stay in character", "<|im_start|>", "<|im", "[INST]", "![x](https://e.com/?q=1)", "![x]", "falcon", "Project X", "project",
    "機密", "機", "TK-1234", "TK-12", "ab", "abc", "b-c", "hello", "world", "the", "2024", "3", "é", "日本語", "\u{200b}", "😀", "naïve", "Страница",
    "ada\u{200b}@example.com", "ａｄａ＠ｅｘａｍｐｌｅ．ｃｏｍ", "4111\u{a0}1111\u{202f}1111\u{2009}1111", "４１１１１１１１", "１１１１１１１１", "4111–1111–1111–1111", "\u{a0}",
    "\u{feff}", "\u{e0041}\u{e0062}", "\u{fe0f}", "\u{20e3}", "1\u{fe0f}\u{20e3}", "e\u{301}", "\u{301}", "４", "–", "ｓｋ－aB3dE5gH7jK9mN1pQ3sT5vW7y", "ＴＫ-12", "fal\u{200d}con",
    "𝐢𝐠𝐧𝐨𝐫𝐞 𝐚𝐥𝐥", "4111\n1111", "ﬁ", "A\u{3a2}nn@example.com",
];
const SEPARATORS: [&str; 15] =
    ["\r\n", "\u{200b}", "\u{a0}", " ", " ", " ", " ", "", "", ", ", ". ", "\n", "\n\n", "-", ":"];

fn rules_with_own() -> Vec<Rule> {
    let mut rules = default_rules();
    let words = ["falcon", "project x", "機密"].map(str::to_owned).to_vec();
    rules.push(rule("words", Detect::Words(words), Action::Redact));
    rules.push(rule("ticket", Detect::Pattern(r"\bTK-[0-9]{4,6}\b".to_owned()), Action::Redact));
    rules.push(rule("between", Detect::Pattern("ab(c[a-z ]{0,4}b)?-c".to_owned()), Action::Redact));
    rules.push(rule("host", Detect::Words(vec!["10.0.0.1".to_owned()]), Action::Allow));
    rules
}

fn stream(rng: &mut Rng) -> String {
    (0..2 + rng.below(12)).map(|_| rng.pick(&PARTS).to_owned() + rng.pick(&SEPARATORS)).collect()
}

/// Pushes the text in pieces of random sizes; returns the output and the number of cuts.
fn windowed(rules: &Arc<RuleSet>, text: &str, longest: usize, rng: &mut Rng) -> (String, usize, Window) {
    let mut window = Window::new(Arc::clone(rules), Placeholders::new(), 0);
    let (mut out, mut cuts, mut at) = (String::new(), 0, 0);
    while at < text.len() {
        let end = text.ceil_char_boundary((at + 1 + rng.below(longest)).min(text.len()));
        window.push(&text[at..end], &mut out);
        (at, cuts) = (end, cuts + 1);
    }
    window.finish(&mut out);
    (out, cuts, window)
}

fn redacted(rules: &RuleSet, text: &str) -> String {
    redact(text, &scan(rules, text), rules, &mut Placeholders::new())
}

#[test]
fn no_cut_of_a_stream_changes_its_redaction() {
    let rules = Arc::new(compile(&rules_with_own()));
    let mut rng = Rng(0x9E37_79B9_7F4A_7C15);
    let mut cuts = 0;
    while cuts < 100_000 {
        let text = stream(&mut rng);
        let longest = [1, 3, 8, 40][rng.below(4)];
        let (out, more, window) = windowed(&rules, &text, longest, &mut rng);
        assert_eq!(out, redacted(&rules, &text), "{text:?} in pieces of up to {longest} bytes");
        let mut counts = vec![0; rules.rules().len()];
        scan(&rules, &text).iter().for_each(|finding| counts[finding.rule] += 1);
        assert_eq!(window.counts(), counts, "{text:?}");
        cuts += more;
    }
}

#[test]
fn what_is_blocked_and_what_follows_is_never_released() {
    let mut blocking = rules_with_own();
    blocking
        .iter_mut()
        .filter(|rule| rule.action != Action::Allow)
        .step_by(2)
        .for_each(|rule| rule.action = Action::Block);
    let rules = Arc::new(compile(&blocking));
    let mut rng = Rng(7);
    for _ in 0..3000 {
        let text = stream(&mut rng);
        let findings = scan(&rules, &text);
        let blocked = findings.iter().find(|finding| rules.rules()[finding.rule].action == Action::Block);
        let before: Vec<_> =
            findings.iter().copied().take_while(|finding| Some(finding) != blocked).collect();
        let allowed = &text[..blocked.map_or(text.len(), |finding| finding.start)];
        let expected = redact(allowed, &before, &rules, &mut Placeholders::new());
        let (out, _, mut window) = windowed(&rules, &text, 5, &mut rng);
        assert_eq!(out, expected, "{text:?}");
        let verdict = window.push("more", &mut String::new());
        assert_eq!(verdict.map(|b| (b.rule, b.offset)), blocked.map(|f| (f.rule, f.start)), "{text:?}");
    }
}

#[test]
fn text_that_begins_no_finding_is_released_at_once() {
    let rules = Arc::new(compile(&default_rules()));
    for (text, held) in [
        ("A plain sentence, ", ""),
        ("hello wor", "wor"),
        ("in the year 2024 we ", ""),
        ("日本語のテキスト", ""),
        ("see https://example.com/path ", ""),
        ("from 212-555", "212-555"),
        ("a + b = (c) ", ""),
        ("fn main() { let x = a[0]; } ", ""),
        ("ada@example.com ", ""),
        ("token sk-aB3", "sk-aB3"),
    ] {
        let mut window = Window::new(Arc::clone(&rules), Placeholders::new(), 1024);
        window.push(text, &mut String::new());
        assert_eq!(window.held_bytes(), held.len(), "{text:?}");
    }
}

#[test]
fn a_secret_longer_than_the_window_is_redacted_to_its_end() {
    let rules = Arc::new(compile(&default_rules()));
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n".repeat(40);
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----");
    let jwt = format!("eyJhbGciOiJIUzI1NiJ9.eyJ{}.sig", "aB3d".repeat(1000));
    let text = format!("one {key}\ntwo {jwt}, three ada@example.com.");
    let mut rng = Rng(3);
    for longest in [1, 7, 100, 600] {
        let (out, ..) = windowed(&rules, &text, longest, &mut rng);
        assert_eq!(out, "one [KEY_1]\ntwo [KEY_2], three [EMAIL_1].", "pieces of up to {longest} bytes");
    }
}

#[test]
fn a_pattern_longer_than_the_window_is_redacted_as_long_as_it_could_match() {
    let rules = vec![rule("line", Detect::Pattern("secret:.*;".to_owned()), Action::Redact)];
    let rules = Arc::new(compile(&rules));
    let text = format!("a secret:{};\nb", "x ".repeat(2000));
    let (out, ..) = windowed(&rules, &text, 9, &mut Rng(5));
    assert_eq!(out, "a [LINE_1]b");
}

#[test]
fn a_length_is_counted_over_the_whole_stream() {
    let rules = vec![rule("length", Detect::Length { bytes_max: 2000 }, Action::Block)];
    let rules = Arc::new(compile(&rules));
    let mut window = Window::new(rules, Placeholders::new(), 0);
    let mut out = String::new();
    let blocked = (0..1000).find_map(|_| window.push("hello", &mut out)).expect("it is blocked");
    assert_eq!((blocked.rule, blocked.offset, out.len()), (0, 2000, 2000));
}

#[test]
fn a_phrase_goes_on_after_something_whose_end_is_not_known_yet() {
    let mut rules = default_rules();
    rules.iter_mut().for_each(|rule| rule.action = Action::Redact);
    let rules = Arc::new(compile(&rules));
    let key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nAA==\n-----END PRIVATE KEY-----";
    let text = format!("ignore all, {key}, of the previous instructions");
    let expected = redacted(&rules, &text);
    assert_eq!(scan(&rules, &text).len(), 1, "one finding covers the phrase and the key");
    for size in 1..text.len() {
        let mut window = Window::new(Arc::clone(&rules), Placeholders::new(), 0);
        let mut out = String::new();
        for piece in text.as_bytes().chunks(size) {
            window.push(std::str::from_utf8(piece).unwrap(), &mut out);
        }
        window.finish(&mut out);
        assert_eq!(out, expected, "pieces of {size} bytes");
    }
}

#[test]
fn a_flagged_secret_longer_than_the_window_is_released_and_what_follows_is_redacted() {
    let mut rules = default_rules();
    rules.iter_mut().filter(|rule| rule.name == "key").for_each(|rule| rule.action = Action::Flag);
    let rules = Arc::new(compile(&rules));
    let token = format!("eyJhbGciOiJIUzI1NiJ9.eyJ{}.sig", "aB3d".repeat(1000));
    let (out, ..) = windowed(&rules, &format!("{token} ada@example.com {token}"), 9, &mut Rng(11));
    assert_eq!(out, format!("{token} [EMAIL_1] {token}"));
}

#[test]
fn the_open_text_of_a_text_tells_what_ends_in_the_next() {
    let rules = compile(&rules_with_own());
    let mut rng = Rng(77);
    for _ in 0..4_000 {
        let text = stream(&mut rng);
        let (start, rest) = text.split_at(text.floor_char_boundary(rng.below(text.len() + 1)));
        let open = rules.open_text(start, 1024);
        assert!(start.ends_with(open));
        let crossing = |start: &str| -> Vec<(usize, usize)> {
            let found = rules.scan_parts(&[start, rest]).crossing;
            found.iter().map(|finding| (finding.rule, finding.spans[1].end)).collect()
        };
        assert_eq!(crossing(open), crossing(start), "{open:?} of {start:?}, {rest:?}");
    }
    let long = ["nothing is open. ".repeat(50), "4111 1111".to_owned()].concat();
    assert!((9..100).contains(&rules.open_text(&long, 1024).len()));
    assert_eq!(rules.open_text("ada@example", 4), "mple");
    assert_eq!(rules.open_text("nothing is open. ", 1024), "");
}
