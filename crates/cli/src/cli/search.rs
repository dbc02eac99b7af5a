//! `weir search`.

use std::ops::Range;

use weir_api::{
    CitedPart, Explain, Explanation, Facet, FacetCount, GroupBy, Mode, RawJson, Rerank, SearchReply,
    SearchRequest, SearchResult, Sort, TotalRelation, WhyNot,
};
use weir_text::Language;

use super::arguments::{SearchArguments, SearchMode, SearchSyntax};
use super::context::Context;
use super::failure::{Failure, Result};
use super::missing::with_similar_name;
use super::terminal::{Style, one_line};
use weir_client::{Client, RetryPolicy};

/// Characters of a result's text that are shown, approximately.
const SNIPPET_CHARS: usize = 300;

/// Other collections that are named when the one that was searched is empty.
const HINTED_MAX: usize = 3;

/// Searches and prints the results.
pub async fn run(arguments: &SearchArguments, context: Context<'_>) -> Result<()> {
    let (client, config) = context.connect(&arguments.url, RetryPolicy::NONE)?;
    let reply = match client.search(&request(arguments)?).await {
        Ok(reply) => reply,
        Err(error) => return Err(with_similar_name(&client, &arguments.collection, error).await),
    };
    if arguments.json {
        writeln!(context.out, "{}", reply.text().trim_end())?;
        return Ok(());
    }
    let reply = reply.parse()?;
    let style = Style::of_output(context.environment);
    let query = arguments.query.as_deref().unwrap_or_default();
    context.out.write_all(render(&reply, query, config.collections.language, style).as_bytes())?;
    context.out.flush()?;
    if reply.results.is_empty()
        && let Some(hint) = hint_of_empty(&client, &arguments.collection).await
    {
        eprintln!("hint: {hint}");
    }
    Ok(())
}

/// Where the documents are, when the collection that was searched has none.
async fn hint_of_empty(client: &Client, searched: &str) -> Option<String> {
    let list = client.collections().await.ok()?.parse().ok()?;
    list.data.iter().find(|collection| collection.name == searched && collection.document_count == 0)?;
    let mut filled: Vec<_> = list.data.iter().filter(|collection| collection.document_count > 0).collect();
    filled.sort_by_key(|collection| std::cmp::Reverse(collection.document_count));
    let names = filled.iter().take(HINTED_MAX).map(|collection| format!("--collection {}", collection.name));
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| {
        format!("the collection `{searched}` has no documents; search another with {}", names.join(" or "))
    })
}

fn request(arguments: &SearchArguments) -> Result<SearchRequest> {
    let filter = arguments.filter.clone().map(RawJson::from_text).transpose().map_err(Failure::Filter)?;
    let list = |names: &[String]| (!names.is_empty()).then(|| names.to_vec());
    Ok(SearchRequest {
        query: arguments.query.clone(),
        syntax: arguments.syntax.map(SearchSyntax::to_api),
        top_k: Some(arguments.top_k.into()),
        cursor: arguments.cursor.clone(),
        collection: Some(arguments.collection.clone()),
        mode: arguments.query.as_ref().and(arguments.mode).map(SearchMode::to_api),
        rerank: arguments.rerank.as_deref().map(Rerank::from),
        min_relevance: arguments.min_relevance,
        filter,
        facets: list(&arguments.facet)
            .map(|names| names.iter().map(|name| Facet::from(name.as_str())).collect()),
        sort: list(&arguments.sort).map(|names| names.iter().map(|name| Sort::from(name.as_str())).collect()),
        group_by: arguments.group_by.as_deref().map(|what| match what {
            "document" => GroupBy::Document,
            "chunk" => GroupBy::Chunk,
            field => GroupBy::Field(field.to_owned()),
        }),
        highlight: arguments.highlight.then_some(true),
        explain: arguments.explain.then_some(true),
        why_not: arguments.why_not.clone(),
        ..SearchRequest::default()
    })
}

fn render(reply: &SearchReply, query: &str, language: Language, style: Style) -> String {
    let mut shown = String::new();
    for (number, result) in (1..).zip(&reply.results) {
        shown.push_str(&render_result(number, result, query, language, style));
        shown.push('\n');
    }
    if let Some(count @ 1..) = reply.left_out {
        shown.push_str(&format!("left out of this page as less relevant: {count}\n"));
    }
    for (field, counts) in reply.facets.iter().flatten() {
        shown.push_str(&format!("{}: {}\n", one_line(field), render_facet(counts)));
    }
    for part in reply.query.iter().flat_map(|query| &query.excluded) {
        shown.push_str(&format!("excluded: {}\n", one_line(part)));
    }
    let as_text = reply.query.iter().flat_map(|query| &query.as_text).map(|part| one_line(part));
    let as_text = as_text.collect::<Vec<_>>();
    if !as_text.is_empty() {
        shown.push_str(&format!("searched as words, not as operators: {}\n", as_text.join(", ")));
    }
    for correction in &reply.corrections {
        let (word, instead) = (one_line(&correction.word), one_line(&correction.instead.join(", ")));
        shown.push_str(&format!("no document holds `{word}`; searched instead: {instead}\n"));
    }
    for reason in &reply.degraded_reasons {
        let without = if reason.is_lexical_only() {
            "words alone were searched"
        } else {
            "the order is the one before it"
        };
        shown.push_str(&format!("degraded: {without} ({})\n", <&str>::from(reason)));
    }
    if let Some(explain) = &reply.explain {
        shown.push_str(&render_explain(explain));
    }
    if let Some(WhyNot { id, message, .. }) = &reply.why_not {
        shown.push_str(&format!("why not {}: {}\n", one_line(id), one_line(message)));
    }
    shown.push_str(&format!("{} in {:.1} ms\n", render_count(reply), reply.took_ms));
    shown
}

fn render_count(reply: &SearchReply) -> String {
    let count = match reply.results.len() {
        0 => "no results".to_owned(),
        1 => "1 result".to_owned(),
        n => format!("{n} results"),
    };
    let total = reply.total.value;
    if total <= reply.results.len() as u64 {
        return count;
    }
    match reply.total.relation {
        TotalRelation::Exact => format!("{count} of {total}"),
        TotalRelation::Window => format!("{count} of {total} candidates"),
    }
}

fn render_facet(counts: &[FacetCount]) -> String {
    let shown = counts.iter().map(|count| {
        let value = count.value.as_str().map_or_else(|| count.value.to_string(), str::to_owned);
        format!("{} ({})", one_line(&value), count.count)
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn render_explain(explain: &Explain) -> String {
    let mut lines = Vec::new();
    if let Some(query) = &explain.query {
        lines.push(format!("query: {}", one_line(query)));
    }
    let mode = explain.mode.map_or("listed, nothing ranked", Mode::into);
    let fusion = explain.fusion.map_or_else(String::new, |fusion| {
        let (method, weights): (&str, _) = (fusion.method.into(), fusion.weights);
        format!(", {method} with lexical {} and dense {}", weights.lexical, weights.dense)
    });
    let embedding = serde_json::to_value(explain.embedding).unwrap_or_default();
    lines.push(format!("mode: {mode}{fusion}; embedding: {}", embedding.as_str().unwrap_or_default()));
    if let Some(rerank) = &explain.rerank {
        lines.push(format!("rerank: the first {} by {}", rerank.top_n, one_line(&rerank.model)));
    }
    let candidates = explain.candidates;
    lines.push(format!("candidates: {} lexical, {} dense", candidates.lexical, candidates.dense));
    if let (Some(selected), Some(share)) = (explain.selected_chunks, explain.selectivity) {
        lines.push(format!("filter: {selected} of {} chunks ({:.1} %)", explain.chunks, share * 100.0));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn render_explanation(explanation: &Explanation) -> String {
    let terms = explanation.terms.iter().map(|share| {
        format!(
            "{} {:.2} ({}×, in {} chunks)",
            one_line(&share.term),
            share.score,
            share.frequency,
            share.chunks
        )
    });
    let phrases =
        explanation.phrases.iter().map(|share| format!("\"{}\" {:.2}", one_line(&share.phrase), share.score));
    let terms: Vec<String> = terms.chain(phrases).collect();
    let terms = if terms.is_empty() { String::new() } else { format!("; {}", terms.join(", ")) };
    let fused = explanation.fused.map_or_else(String::new, |fused| {
        format!("   number {} with a score of {:.4} before reranking\n", fused.rank, fused.score)
    });
    let others = [("neighbours", explanation.neighbours), ("name", explanation.name)];
    let others: String = others
        .iter()
        .filter(|(_, share)| *share != 0.0)
        .map(|(what, share)| format!(" + {what} {share:.4}"))
        .collect();
    format!(
        "   = lexical {:.4} + dense {:.4}{others}{terms}\n{fused}",
        explanation.lexical, explanation.dense
    )
}

fn render_result(
    number: usize,
    result: &SearchResult,
    query: &str,
    language: Language,
    style: Style,
) -> String {
    let title = result.title.as_deref().unwrap_or(&result.id);
    let rank = |rank: Option<u32>| rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string());
    let relevance =
        result.relevance.map_or_else(String::new, |relevance| format!(", relevance {relevance:.2}"));
    let reranked = result.rerank_score.map_or_else(String::new, |score| format!(", rerank {score:.4}"));
    let citation = &result.citation;
    let pages =
        citation.pages().in_words().map_or_else(String::new, |pages| format!(" {}", one_line(&pages)));
    let place = match citation.part {
        Some(CitedPart::Title) => "[title]".to_owned(),
        None => format!("[{}..{}]", citation.start, citation.end),
    };
    let explanation = result.explanation.as_ref().map_or_else(String::new, render_explanation);
    format!(
        "{number}. {}  (score {:.4}{relevance}, lexical {}, dense {}{reranked})\n{explanation}   {}#{} {place}{pages}\n   {}\n",
        style.bold(one_line(title).trim()),
        result.score,
        rank(result.ranks.lexical),
        rank(result.ranks.dense),
        one_line(&citation.document_id),
        citation.chunk,
        render_snippet(result, query, language, style),
    )
}

/// The part of the text with most of the query's words, which are bold. Their positions are those of the reply, if it has any.
fn render_snippet(result: &SearchResult, query: &str, language: Language, style: Style) -> String {
    let text = result.text.as_str();
    let spans = match &result.highlights {
        Some(spans) => spans.iter().filter_map(|span| checked_span(text, *span)).collect(),
        None => weir_text::highlight(text, query, language),
    };
    let window = weir_text::snippet(text, &spans, SNIPPET_CHARS);
    let mut shown = String::new();
    let mut end = window.start;
    for span in spans.iter().filter(|span| span.start >= window.start && span.end <= window.end) {
        if span.start < end {
            continue;
        }
        shown.push_str(&one_line(&text[end..span.start]));
        shown.push_str(&style.bold(&one_line(&text[span.clone()])));
        end = span.end;
    }
    shown.push_str(&one_line(&text[end..window.end]));
    let before = if window.start > 0 { "… " } else { "" };
    let after = if window.end < text.len() { " …" } else { "" };
    format!("{before}{}{after}", shown.trim())
}

/// A span of bytes, if it is within the text and between characters.
fn checked_span(text: &str, (start, end): (u64, u64)) -> Option<Range<usize>> {
    let span = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
    text.get(span.clone()).map(|_| span)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::{FusedPosition, PhraseScore, TermScore};

    const REPLY: &str = r#"{"results": [{
        "id": "a/b.md", "score": 0.5, "text": "The turbines\nfeed \u001b[31mthe grid.", "title": "Wind", "metadata": {},
        "citation": {"document_id": "a/b.md", "chunk": 2, "start": 10, "end": 38, "quote": "The turbines\nfeed \u001b[31mthe grid."},
        "ranks": {"lexical": 1, "dense": null}
    }], "took_ms": 1.25, "timings_ms": {"parse": 0, "embed": 0, "lexical": 0, "dense": 0, "fuse": 0, "fetch": 0}}"#;

    fn reply() -> SearchReply {
        serde_json::from_str(REPLY).unwrap()
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
    fn highlights_of_the_reply_are_bold_and_invalid_ones_are_ignored() {
        let mut reply = reply();
        // the last two end beyond the text
        reply.results[0].highlights = Some(vec![(4, 12), (30, 400), (u64::MAX, u64::MAX)]);
        let shown = render(&reply, "grid", Language::English, Style::BOLD);
        assert!(shown.contains("The \x1b[1mturbines\x1b[0m feed [31mthe grid."), "{shown:?}");
    }

    #[test]
    fn an_empty_reply_is_shown_as_no_results() {
        let reply = SearchReply { results: Vec::new(), took_ms: 0.04, ..reply() };
        assert_eq!(render(&reply, "x", Language::English, Style::PLAIN), "no results in 0.0 ms\n");
    }

    #[test]
    fn facets_corrections_and_explanations_are_shown_below_the_results() {
        let mut reply = reply();
        let share = TermScore { term: "grid".to_owned(), chunks: 14, frequency: 2, score: 1.5 };
        let fused = Some(FusedPosition { rank: 3, score: 0.25 });
        let phrase = PhraseScore { phrase: "grid weir".to_owned(), score: 0.25 };
        let explanation = Explanation {
            terms: vec![share],
            phrases: vec![phrase],
            lexical: 0.5,
            dense: 0.0,
            neighbours: 0.0,
            name: 0.0,
            fused,
        };
        reply.results[0].rerank_score = Some(0.75);
        reply.results[0].relevance = Some(0.875);
        reply.results[0].explanation = Some(explanation);
        let rest = r#"{
            "results": [], "took_ms": 0, "timings_ms": {"parse": 0, "embed": 0, "lexical": 0, "dense": 0, "fuse": 0, "fetch": 0},
            "total": {"value": 7, "exact": true, "relation": "exact"}, "left_out": 2,
            "facets": {"lang": [{"value": "en", "count": 3}, {"value": "de", "count": 1}], "year": [{"value": 2020, "count": 4}]},
            "query": {"excluded": ["wind"], "as_text": ["-v", "AND"]},
            "corrections": [{"word": "gird", "instead": ["grid"]}],
            "degraded": true, "degraded_reason": "embedding_deadline",
            "degraded_reasons": ["embedding_deadline", "rerank_failed"],
            "explain": {"query": "any of (grid); none of (wind)", "mode": "hybrid", "embedding": "made", "chunks": 1000,
                "fusion": {"method": "convex", "weights": {"lexical": 0.5, "dense": 0.5}, "k": null},
                "selected_chunks": 25, "selectivity": 0.025, "candidates": {"lexical": 7, "dense": 100}, "applied_seq": 9},
            "why_not": {"id": "c", "stage": "filter", "lexical": null, "dense": null, "rank": null, "message": "the filter."}
        }"#;
        let rest: SearchReply = serde_json::from_str(rest).unwrap();
        reply = SearchReply { results: reply.results, took_ms: 2.0, ..rest };
        assert_eq!(
            render(&reply, "grid", Language::English, Style::PLAIN),
            "1. Wind  (score 0.5000, relevance 0.88, lexical 1, dense -, rerank 0.7500)\n   = lexical 0.5000 + dense 0.0000; grid 1.50 (2×, in 14 chunks), \"grid weir\" 0.25\n   \
             number 3 with a score of 0.2500 before reranking\n   a/b.md#2 [10..38]\n   The turbines feed [31mthe grid.\n\n\
             left out of this page as less relevant: 2\n\
             lang: en (3), de (1)\nyear: 2020 (4)\n\
             excluded: wind\nsearched as words, not as operators: -v, AND\n\
             no document holds `gird`; searched instead: grid\n\
             degraded: words alone were searched (embedding_deadline)\n\
             degraded: the order is the one before it (rerank_failed)\n\
             query: any of (grid); none of (wind)\n\
             mode: hybrid, convex with lexical 0.5 and dense 0.5; embedding: made\n\
             candidates: 7 lexical, 100 dense\nfilter: 25 of 1000 chunks (2.5 %)\n\
             why not c: the filter.\n\
             1 result of 7 in 2.0 ms\n"
        );
    }
}
