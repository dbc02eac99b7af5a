//! Redaction and its reversal.

use weir_guardrails::{Placeholders, Restorer, redact};

use crate::{compile, default_rules, scan};

const TEXT: &str = "Mail ada@example.com and bob@example.com, or ada@example.com again, from 10.0.0.1.";

fn redacted(text: &str) -> (String, Placeholders) {
    let rules = compile(&default_rules());
    let mut placeholders = Placeholders::new();
    let out = redact(text, &scan(&rules, text), &rules, &mut placeholders);
    (out, placeholders)
}

#[test]
fn equal_values_have_the_same_placeholder() {
    let (out, placeholders) = redacted(TEXT);
    assert_eq!(out, "Mail [EMAIL_1] and [EMAIL_2], or [EMAIL_1] again, from [IP_1].");
    assert_eq!(placeholders.iter().count(), 3);
    assert_eq!(placeholders.restore(&out), TEXT);
}

#[test]
fn altered_placeholders_stay_as_they_are() {
    let (_, placeholders) = redacted(TEXT);
    // A placeholder in other characters is not the one that was given: no value is shown for it.
    for text in ["［EMAIL_1］", "[EMAIL\u{200b}_1]", "[ＥＭＡＩＬ_1]"] {
        assert_eq!(placeholders.restore(text), text);
    }
    for text in ["[EMAIL_3] [email_1] [EMAIL_1 EMAIL_1] [EMAIL 1] [[EMAIL_01]] [", "[IP_1", "[]"] {
        assert_eq!(placeholders.restore(text), text);
    }
    assert_eq!(placeholders.restore("[[EMAIL_1]]"), "[ada@example.com]");
}

#[test]
fn a_placeholder_that_the_text_already_has_is_not_given_to_a_value() {
    let (out, placeholders) = redacted("[EMAIL_1] is not ada@example.com");
    assert_eq!(out, "[EMAIL_1] is not [EMAIL_2]");
    assert_eq!(placeholders.restore(&out), "[EMAIL_1] is not ada@example.com");
    let (out, _) = redacted("[EM\u{200b}AIL_1] and ［EMAIL_2］ are not ada@example.com");
    assert!(out.ends_with("[EMAIL_3]"), "a model may write them as they are shown: {out:?}");
}

#[test]
fn placeholders_are_restored_wherever_a_stream_cuts_them() {
    let (_, placeholders) = redacted(TEXT);
    let stream = "A [EMAIL_1][IP_1] [EMAIL_9] [x] [[EMAIL_2]] arr[0] [LONGER_THAN_ANY_PLACEHOLDER_COULD_EVER_BE_HERE_1] [EMAIL_";
    let expected = placeholders.restore(stream);
    for size in 1..stream.len() {
        let mut restorer = Restorer::new(placeholders.clone());
        let mut out = String::new();
        for piece in stream.as_bytes().chunks(size) {
            restorer.push(std::str::from_utf8(piece).unwrap(), &mut out);
        }
        restorer.finish(&mut out);
        assert_eq!(out, expected, "pieces of {size} bytes");
    }
}

#[test]
fn a_placeholder_within_the_address_of_a_link_stays_wherever_a_stream_cuts_it() {
    let (_, placeholders) = redacted(TEXT);
    let stream = "![x](https://a.example/?q=[EMAIL_1]&r=[[EMAIL_2]) [EMAIL_1], [write](mailto:[EMAIL_2])";
    let expected =
        "![x](https://a.example/?q=[EMAIL_1]&r=[[EMAIL_2]) ada@example.com, [write](mailto:bob@example.com)";
    assert_eq!(placeholders.restore(stream), expected);
    for at in 0..stream.len() {
        let mut restorer = Restorer::new(placeholders.clone());
        let mut out = String::new();
        restorer.push(&stream[..at], &mut out);
        restorer.push(&stream[at..], &mut out);
        restorer.finish(&mut out);
        assert_eq!(out, expected, "cut at {at}");
    }
}

#[test]
fn text_that_begins_no_placeholder_is_restored_at_once() {
    let (_, placeholders) = redacted(TEXT);
    for (text, released) in
        [("array[0] is", "array[0] is"), ("a [", "a "), ("a [EMAIL", "a "), ("a [Email", "a [Email")]
    {
        let mut out = String::new();
        Restorer::new(placeholders.clone()).push(text, &mut out);
        assert_eq!(out, released);
    }
}
