//! Pages in Chromium, where it is installed: its `innerText` is the specification.
//!
//! `cargo test -p weir-text --test text html::chromium -- --nocapture`, after `apt-get install chromium`. What differs is listed
//! in [`REMOVED`] and [`PREPARE`]; blank lines are not compared. Chromium also removes line breaks of the source between
//! ideographs, and beside `<wbr>`; the extraction makes spaces of them.

use std::fs;
use std::io::ErrorKind;
use std::process::Command;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use weir_text::HtmlPage;

use super::pages::{PAGES, read_page};
use super::random::{model, page, render_all, without_blank_lines};

/// What a browser shows and the extraction drops: navigation, controls, marks, readings of ideographs.
const REMOVED: &str = "nav, search, aside:not(.footnote, .footnote-list), footer:not(blockquote > footer), [role=navigation], \
    [role=banner], [role=contentinfo], [role=search], [role=tablist], [aria-hidden=true], button, select, iframe, rp, rt, \
    .headerlink, .footnote-backref, .viewcode-link, .linenos, .navbar, .footer, #titlearea, .navpath, .permalink a, \
    header:not(:has(h1))";

/// Labels get the space that style sheets give them. Blocks in cells lose the line breaks that Chromium writes beside the
/// tab.
const PREPARE: &str = "document.querySelectorAll('label').forEach(label => label.after(' '));
    document.querySelectorAll('td, th').forEach(cell => cell.querySelectorAll('p').forEach(p => p.replaceWith(...p.childNodes)));";

/// Random pages that are compared.
const RANDOM_PAGES: usize = 500;

/// The texts that `script` collects into `texts` in a page; `None` without Chromium.
fn texts_in_chromium(html: &str, script: &str) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let script = format!(
        "<script>addEventListener('load', () => {{ const texts = []; {script}
         document.documentElement.innerHTML = '<pre>' + encodeURIComponent(JSON.stringify(texts)) + '</pre>' }})</script>"
    );
    fs::write(&file, html.replace("</html>", "") + &script).unwrap();
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    let dom = String::from_utf8(output.stdout).unwrap();
    let encoded = dom.split("<pre>").nth(1).and_then(|rest| rest.split("</pre>").next());
    let encoded = encoded.unwrap_or_else(|| panic!("{dom}\n{}", String::from_utf8_lossy(&output.stderr)));
    Some(serde_json::from_slice(&percent_decoded(encoded)).unwrap())
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap().as_bytes().to_vec();
    for piece in pieces {
        bytes.push(u8::from_str_radix(&piece[..2], 16).unwrap());
        bytes.extend(&piece.as_bytes()[2..]);
    }
    bytes
}

fn shown(text: &str) -> String {
    without_blank_lines(&text.replace('\u{a0}', " "))
}

#[test]
fn pages_have_the_text_that_chromium_shows() {
    for name in PAGES {
        let html = read_page(name);
        let script = format!(
            "document.querySelectorAll('{REMOVED}').forEach(element => element.remove()); {PREPARE}
             texts.push((document.querySelector('main, [role=main], article') ?? document.body).innerText);"
        );
        let Some(texts) = texts_in_chromium(&html, &script) else { return println!("skipped: no chromium") };
        assert_eq!(shown(&HtmlPage::parse(&html).text), shown(&texts[0]), "{name}");
    }
}

#[test]
fn random_pages_have_the_text_that_chromium_shows() {
    let mut runner = TestRunner::deterministic();
    let pages: Vec<_> = (0..RANDOM_PAGES).map(|_| page().new_tree(&mut runner).unwrap().current()).collect();
    let mut html = String::from("<!DOCTYPE html><meta charset=utf-8>");
    for parts in &pages {
        html.push_str("<main>");
        render_all(parts, &mut html);
        html.push_str("</main>");
    }
    let script = "document.querySelectorAll('main').forEach(main => texts.push(main.innerText))";
    let Some(texts) = texts_in_chromium(&html, script) else { return println!("skipped: no chromium") };
    assert_eq!(texts.len(), pages.len());
    for (parts, text) in pages.iter().zip(texts) {
        let mut html = String::new();
        render_all(parts, &mut html);
        assert_eq!(model(parts), shown(&text), "{html}");
    }
}
