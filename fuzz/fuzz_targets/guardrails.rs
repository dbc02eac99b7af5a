//! However a stream is cut, a window gives the redaction of the whole text, and placeholders are restored to it.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use weir_guardrails::{Action, Detect, Origin, Placeholders, Rule, RuleSet, WINDOW_BYTES_MIN, Window, redact};

static RULES: LazyLock<Arc<RuleSet>> = LazyLock::new(|| {
    let words = ["falcon", "project x", "機密"].map(str::to_owned).to_vec();
    let kinds = [
        Detect::Email,
        Detect::PaymentCard,
        Detect::Iban,
        Detect::IpAddress,
        Detect::UrlWithCredentials,
        Detect::UsSsn,
        Detect::Phone,
        Detect::ApiKey,
        Detect::Injection(Origin::Document),
        Detect::Words(words),
        Detect::Pattern(r"\bTK-[0-9]{4,6}\b".to_owned()),
    ];
    let rule = |(index, detect)| Rule { name: format!("r{index}"), detect, action: Action::Redact };
    let rules: Vec<Rule> = kinds.into_iter().enumerate().map(rule).collect();
    Arc::new(RuleSet::compile(&rules).expect("the rules are valid"))
});

fuzz_target!(|input: (Vec<u8>, String)| {
    let (cuts, text) = input;
    let mut findings = Vec::new();
    RULES.scan(&text, &mut findings);
    let mut placeholders = Placeholders::new();
    let expected = redact(&text, &findings, &RULES, &mut placeholders);
    assert_eq!(placeholders.restore(&expected), text);
    if text.len() > WINDOW_BYTES_MIN {
        return;
    }
    let mut reserved = Placeholders::new();
    reserved.reserve(&text);
    let mut window = Window::new(Arc::clone(&RULES), reserved, 0);
    let (mut out, mut rest) = (String::new(), text.as_str());
    for cut in cuts {
        let (piece, more) = rest.split_at(rest.floor_char_boundary(usize::from(cut % 16).min(rest.len())));
        window.push(piece, &mut out);
        rest = more;
    }
    window.push(rest, &mut out);
    window.finish(&mut out);
    assert_eq!(out, expected);
});
