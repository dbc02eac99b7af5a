//! `weir search`.

use std::io::Write;
use std::path::PathBuf;

use weir_api::{Mode, SearchReply, SearchRequest, SearchResult};
use weir_text::Language;

use super::arguments::{SearchArguments, SearchMode};
use super::client::{Client, Patience};
use super::failure::Failure;
use super::terminal::{Style, one_line};
use crate::config::{Environment, Flags, load};

/// Characters of a result's text that are shown, about.
const SNIPPET_CHARS: usize = 300;

/// Searches and prints what was found.
///
/// # Errors
/// When the gateway can't be asked, or refuses.
pub fn run(
    arguments: &SearchArguments,
    file: Option<PathBuf>,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let flags = Flags { config: file, url: arguments.url.clone(), ..Flags::default() };
    let config = load(&flags, environment)?.config;
    let client = Client::new(config.client_url());
    let request = SearchRequest {
        query: arguments.query.clone(),
        top_k: Some(arguments.top_k),
        collection: Some(arguments.collection.clone()),
        mode: Some(mode_of(arguments.mode)),
        fusion: None,
        min_relevance: None,
    };
    let body = serde_json::to_string(&request).map_err(std::io::Error::from)?;
    let text = client.post_text("/v1/search", &body, Patience::NONE, &|_| {})?;
    if arguments.json {
        writeln!(out, "{}", text.trim_end())?;
        return Ok(());
    }
    let reply: SearchReply = client.read(&text)?;
    let style = Style::of_output(environment);
    out.write_all(render(&reply, &arguments.query, config.collections.language, style).as_bytes())?;
    Ok(())
}

fn mode_of(mode: SearchMode) -> Mode {
    match mode {
        SearchMode::Hybrid => Mode::Hybrid,
        SearchMode::Lexical => Mode::Lexical,
        SearchMode::Dense => Mode::Dense,
    }
}

fn render(reply: &SearchReply, query: &str, language: Language, style: Style) -> String {
    let mut shown = String::new();
    for (place, result) in reply.results.iter().enumerate() {
        shown.push_str(&render_result(place + 1, result, query, language, style));
        shown.push('\n');
    }
    let count = match reply.results.len() {
        0 => "no results".to_owned(),
        1 => "1 result".to_owned(),
        n => format!("{n} results"),
    };
    shown.push_str(&format!("{count} in {:.1} ms\n", reply.took_ms));
    shown
}

fn render_result(
    place: usize,
    result: &SearchResult,
    query: &str,
    language: Language,
    style: Style,
) -> String {
    let title = result.title.as_deref().unwrap_or(&result.id);
    let rank = |rank: Option<u32>| rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
    let cited = &result.citation;
    format!(
        "{place}. {}  (score {:.4}, lexical {}, dense {})\n   {}#{} [{}..{}]\n   {}\n",
        style.bold(one_line(title).trim()),
        result.score,
        rank(result.ranks.lexical),
        rank(result.ranks.dense),
        one_line(&cited.document_id),
        cited.chunk,
        cited.start,
        cited.end,
        render_snippet(&result.text, query, language, style),
    )
}

/// The part of the text with most of the query's words, these in bold.
fn render_snippet(text: &str, query: &str, language: Language, style: Style) -> String {
    let spans = weir_text::highlight(text, query, language);
    let window = weir_text::snippet(text, &spans, SNIPPET_CHARS);
    let mut shown = String::new();
    let mut at = window.start;
    for span in spans.iter().filter(|span| span.start >= window.start && span.end <= window.end) {
        if span.start < at {
            continue;
        }
        shown.push_str(&one_line(&text[at..span.start]));
        shown.push_str(&style.bold(&one_line(&text[span.clone()])));
        at = span.end;
    }
    shown.push_str(&one_line(&text[at..window.end]));
    let before = if window.start > 0 { "… " } else { "" };
    let after = if window.end < text.len() { " …" } else { "" };
    format!("{before}{}{after}", shown.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::{Citation, Metadata, Ranks, Timings};

    fn reply() -> SearchReply {
        let text = "The turbines\nfeed \x1b[31mthe grid.".to_owned();
        let citation =
            Citation { document_id: "a/b.md".into(), chunk: 2, start: 10, end: 38, quote: text.clone() };
        let result = SearchResult {
            id: "a/b.md".into(),
            score: 0.5,
            relevance: Some(0.5),
            text,
            title: Some("Wind".into()),
            metadata: Metadata::empty(),
            citation,
            ranks: Ranks { lexical: Some(1), dense: None },
        };
        SearchReply { results: vec![result], took_ms: 1.25, timings_ms: Timings::default() }
    }

    #[test]
    fn a_result_is_shown_with_its_ranks_and_its_citation() {
        assert_eq!(
            render(&reply(), "grid", Language::English, Style::PLAIN),
            "1. Wind  (score 0.5000, lexical 1, dense -)\n   a/b.md#2 [10..38]\n   The turbines feed [31mthe grid.\n\n\
             1 result in 1.2 ms\n"
        );
    }

    #[test]
    fn the_words_of_the_query_are_bold_on_a_terminal() {
        let shown = render(&reply(), "grid turbine", Language::English, Style::BOLD);
        assert!(shown.contains("The \x1b[1mturbines\x1b[0m feed [31mthe \x1b[1mgrid\x1b[0m."), "{shown:?}");
    }

    #[test]
    fn nothing_found_is_said() {
        let reply = SearchReply { results: Vec::new(), took_ms: 0.04, timings_ms: Timings::default() };
        assert_eq!(render(&reply, "x", Language::English, Style::PLAIN), "no results in 0.0 ms\n");
    }
}
