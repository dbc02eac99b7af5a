//! Terms of texts.

use super::{analyse, sequence, words};
use crate::Language;

/// `expected`: the sequence of terms with their words, as `term=word`, separated by space.
fn check(language: Language, text: &str, expected: &str) {
    let (mut found, mut positions) = (Vec::new(), Vec::new());
    analyse(text, language, |token| {
        if token.in_sequence {
            found.push(format!("{}={}", token.text, &text[token.start..token.end]));
            positions.push(token.position);
        }
    });
    assert_eq!(found.join(" "), expected, "{text:?}");
    assert!(positions.iter().copied().eq(0..positions.len()), "{text:?}: {positions:?}");
}

/// `expected`: the terms of each position in braces, where there are several, the one in the sequence last.
fn check_forms(text: &str, expected: &str) {
    let mut found: Vec<(Vec<String>, String)> = Vec::new();
    analyse(text, Language::English, |token| {
        found.resize(token.position + 1, Default::default());
        let (forms, last) = &mut found[token.position];
        if token.in_sequence { *last = token.text.to_owned() } else { forms.push(token.text.to_owned()) }
    });
    let shown = |(mut forms, last): (Vec<String>, String)| {
        forms.push(last);
        if forms.len() == 1 { forms.remove(0) } else { format!("{{{}}}", forms.join(" ")) }
    };
    assert_eq!(found.into_iter().map(shown).collect::<Vec<_>>().join(" "), expected, "{text:?}");
}

#[test]
fn words_are_lower_cased_and_stemmed() {
    check(Language::English, "Running QUICKLY, ran.", "run=Running quick=QUICKLY ran=ran");
    check(Language::None, "Running QUICKLY", "running=Running quickly=QUICKLY");
}

#[test]
fn letters_and_digits_form_words_and_other_characters_separate_them() {
    check(Language::None, "p53 foo_bar 3.14 a-b", "p53=p53 foo=foo bar=bar 3=3 14=14 a=a b=b");
    check(Language::None, "\0a\0😀b", "a=a b=b");
    check(Language::None, " .,;\n", "");
    check(Language::None, "", "");
}

#[test]
fn words_that_differ_in_accents_have_the_same_term() {
    check(Language::English, "naïve café Cafe\u{301}s", "naiv=naïve cafe=café cafe=Cafe\u{301}s");
    check(Language::French, "étudiantes etudiantes", "etudi=étudiantes etudi=etudiantes");
    check(Language::German, "Häuser Straße STRASSE", "haus=Häuser strass=Straße strass=STRASSE");
}

#[test]
fn the_english_possessive_s_is_dropped() {
    check(Language::English, "Crohn's disease’s", "crohn=Crohn diseas=disease");
    check(Language::English, "s 's' X's", "s=s s=s x=X");
    check(Language::French, "l's", "l=l s=s");
}

#[test]
fn scripts_without_spaces_yield_bigrams() {
    check(Language::English, "東京都", "東京=東京 京都=京都");
    check(Language::English, "茶", "茶=茶");
    check(Language::English, "abc東京2024年", "abc=abc 東京=東京 2024=2024 年=年");
    check(Language::English, "カタカナ", "カタ=カタ タカ=タカ カナ=カナ");
    check(Language::English, "한국어", "한국=한국 국어=국어");
    check(Language::English, "ไทย", "ไท=ไท ทย=ทย");
}

#[test]
fn joined_words_are_kept_as_a_whole_and_as_parts_in_order() {
    check_forms("snake_case word", "{snakecas snake} case word");
    check_forms("e-mail sign-offs", "{email e} mail {signoff sign} off");
    check_forms("IM_A_TEAPOT", "{imateapot im} a teapot");
    check_forms("AT&T and U.S.", "{att at} t and {us u} s");
    check_forms("A-123/4", "{a123.4 a} 123 4");
    check_forms("std::vec x‐ray", "{stdvec std} vec {xray x} ray");
    check_forms("Straße-nord", "{strassenord strass} nord");
    check_forms("a--b a - b a. b a...b ab:", "a b a b a b a b ab");
}

#[test]
fn numbers_of_different_words_stay_apart() {
    check_forms("10.1.168.192", "{10.1.168.192 10} 1 168 192");
    check_forms("3.14 314", "{3.14 3} 14 314");
    check_forms("x86-64 DEC-0054 ٣.١٤", "{x86.64 x86} 64 {dec0054 dec} 0054 {3.14 3} 14");
}

#[test]
fn changes_of_case_and_kind_divide_words() {
    check_forms("camelCase getElementById", "{camelcas camel} case {getelementbyid get} element by id");
    check_forms(
        "XMLHttpRequest IOError toString",
        "{xmlhttprequest xml} http request {ioerror io} error {tostr to} string",
    );
    check_forms(
        "python3 Python3 dec0054 md5sum",
        "{python3 python} 3 {python3 python} 3 {dec0054 dec} 0054 {md5sum md5} sum",
    );
    check_forms("userID sha256sum", "{userid user} id {sha256sum sha} 256 sum");
    for word in
        ["siRNA", "iPhone", "PhD", "DNAse", "RNase", "kDa", "CPUs", "p53", "IL2", "x86", "10mg", "2nd", "CD4"]
    {
        check_forms(word, &sequence(word, Language::English)[0]);
    }
    check_forms("getΩmegaΣum", "{getωmegaσum get} ωmega σum");
    check_forms(
        "libssl1.1-dev python3-dev",
        "{libssl1.1dev libssl1 libssl} 1 1 dev {python3dev python3 python} 3 dev",
    );
}

#[test]
fn symbols_belong_to_their_word() {
    check_forms("C++, C# and C", "{c c++} {c c#} and c");
    check_forms("C++11 .NET ASP.NET F#.", "{c++11 c c++} 11 {net .net} {aspnet asp} net {f f#}");
    check_forms("grep -v [-x] --long-option", "grep {v -v} {x -x} {longopt long --long} option");
    check_forms("−5 °C ‐v", "{5 -5} c {v -v}");
    check_forms("i++ ++i a + b page#2 #tag", "{i i++} i a b page 2 tag");
    check_forms("end.-x f(x)-y ...z .5", "end x f x y z 5");
}

#[test]
fn words_are_separated_by_connectors_alone() {
    let check = |text, expected| assert_eq!(words(text, Language::None).join(" "), expected, "{text}");
    check("Python3-dev snake_case camelCase", "python3 dev snake case camelcase");
    check("C++ --long-option 東京都", "c++ --long option 東京 京都");
}

#[test]
fn characters_that_may_be_words_are_terms_within_bigrams() {
    check_forms("水的质量 a", "{水 水的} {的 的质} {质 量 质量} a");
    check_forms("책을", "{책 을 책을}");
    check_forms("カタカ", "カタ タカ");
}

#[test]
fn decomposed_and_half_width_forms_yield_the_same_bigrams_as_composed_ones() {
    check(Language::English, "ｶﾞｽ", "ガス=ｶﾞｽ");
    check(Language::English, "カ\u{3099}ス", "ガス=カ\u{3099}ス");
    check(
        Language::English,
        "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}",
        "한국=\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}",
    );
}

#[test]
fn combining_marks_do_not_split_a_word() {
    check(Language::None, "हिन्दी", "हिंदी=हिन्दी");
    check(Language::None, "co\u{ad}op 1\u{fe0f}\u{20e3}", "coop=co\u{ad}op 1=1\u{fe0f}\u{20e3}");
}

#[test]
fn a_very_long_word_is_split_into_pieces() {
    for letter in ["a", "é", "漢", "\u{301}", "e\u{301}"] {
        let text = letter.repeat(100_000);
        let (mut longest, mut covered) = (0, 0);
        analyse(&text, Language::English, |token| {
            longest = longest.max(token.text.chars().count());
            assert!(token.start <= covered);
            covered = covered.max(token.end);
        });
        assert!(longest <= 64, "{letter}");
        let joined = vec![letter; 1000].join("-");
        analyse(&joined, Language::English, |token| assert!(token.text.chars().count() <= 64));
        assert_eq!(covered, if letter == "\u{301}" { 0 } else { text.len() }, "{letter}");
    }
}

#[test]
fn turkish_lower_cases_both_letters_i_before_folding() {
    check(Language::Turkish, "DIŞ İzmir", "dis=DIŞ izmir=İzmir");
}

#[test]
fn spellings_of_other_scripts_have_the_same_terms_in_every_language() {
    for &language in Language::all() {
        for (one, other) in [
            ("أحمد", "احمد"),
            ("إيران", "ايران"),
            ("हिन्दी", "हिंदी"),
            ("ज़रूरत", "जरूरत"),
            ("٢٠٢٤ ۲۰۲۴ २०२४ ２０２４", "2024 2024 2024 2024"),
            ("Python3 e-mail", "python3 E‐Mail"),
        ] {
            assert_eq!(sequence(one, language), sequence(other, language), "{one} in {language:?}");
        }
        let mut characters = Vec::new();
        analyse("喝水", language, |token| characters.push(token.text.to_owned()));
        assert_eq!(characters, ["喝", "喝水", "水"], "{language:?}");
    }
}
