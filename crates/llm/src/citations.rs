//! The citations of an answer: the numbers in brackets that it names, and whether the source contains the quotation before them.

use std::ops::Range;

use weir_api::{ChatCitation, CitedPages};

use crate::augment::{Source, unescaped};

/// Most citations of one answer; further ones are not checked.
const CITATIONS_MAX: usize = 200;
/// Most references of one answer; further ones are not checked.
const REFERENCES_MAX: usize = 1_000;
/// Longest quotation, in bytes, that is looked for before a number.
const QUOTE_BYTES_MAX: usize = 4_096;
/// Characters allowed between a quotation and its number.
const BETWEEN: [char; 6] = [' ', '.', ',', ';', ':', '\n'];

/// A number in brackets of an answer, and what it refers to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reference {
    /// The bytes of its marker, such as `[1]`.
    pub(crate) marker: Range<usize>,
    pub(crate) citation: ChatCitation,
}

/// The citations of references, in their order, each once.
pub(crate) fn citations<'a>(references: impl IntoIterator<Item = &'a Reference>) -> Vec<ChatCitation> {
    let mut found: Vec<ChatCitation> = Vec::new();
    for Reference { citation, .. } in references {
        if found.len() < CITATIONS_MAX && !found.contains(citation) {
            found.push(citation.clone());
        }
    }
    found
}

/// The references of `answer`, in its order.
pub(crate) fn references(answer: &str, sources: &[Source]) -> Vec<Reference> {
    let mut found: Vec<Reference> = Vec::new();
    let mut begin = 0;
    while let Some((marker, numbers)) = next_marker(answer, begin)
        && found.len() < REFERENCES_MAX
    {
        let before = &answer[..marker.start];
        // of `[1][2]` and `[1] [2]`, the text before all of them is cited
        let quoted =
            quotation(before.trim_end_matches(|c: char| BETWEEN.contains(&c) || "[]0123456789".contains(c)));
        let statement = last_sentence(&answer[begin..marker.start]);
        begin = marker.end;
        let left = REFERENCES_MAX - found.len();
        found.extend(numbers.into_iter().take(left).map(|n| {
            let citation = check(n, quoted, statement, sources);
            Reference { marker: marker.clone(), citation }
        }));
    }
    found
}

/// The references that hold, in `sent`: the answer as the caller gets it, where guardrails may have changed it.
pub(crate) fn verified_in(sent: &str, references: &[Reference]) -> Vec<Reference> {
    let mut markers: Vec<(Range<usize>, usize)> = Vec::new();
    let mut begin = 0;
    while let Some((marker, numbers)) = next_marker(sent, begin)
        && markers.len() < REFERENCES_MAX
    {
        begin = marker.end;
        let left = REFERENCES_MAX - markers.len();
        markers.extend(numbers.into_iter().take(left).map(|n| (marker.clone(), n)));
    }
    let is_same = markers.len() == references.len()
        && markers.iter().zip(references).all(|((_, n), reference)| *n == reference.citation.n);
    let verified = |(at, (marker, n)): (usize, (Range<usize>, usize))| {
        let holds = |reference: &&Reference| reference.citation.n == n && reference.citation.verified;
        let found = if is_same { references.get(at).filter(holds) } else { references.iter().find(holds) };
        Some(Reference { marker, citation: found?.citation.clone() })
    };
    markers.into_iter().enumerate().filter_map(verified).collect()
}

/// The next `[1]` or `[1, 2]` from `begin` on: where it stands, and its numbers.
fn next_marker(answer: &str, begin: usize) -> Option<(Range<usize>, Vec<usize>)> {
    let mut at = begin;
    while let Some(open) = answer[at..].find('[').map(|found| at + found) {
        let inside = &answer[open + 1..];
        let numbers: Option<(usize, Vec<usize>)> = inside.find(']').and_then(|close| {
            let numbers = inside[..close].split(',').map(|part| part.trim().parse::<u16>().ok());
            let numbers: Option<Vec<usize>> = numbers.map(|n| n.map(usize::from)).collect();
            Some((close, numbers?))
        });
        match numbers {
            Some((close, numbers)) => return Some((open..open + close + 2, numbers)),
            None => at = open + 1,
        }
    }
    None
}

/// The text between the last quotation marks, if `before` ends by one.
fn quotation(before: &str) -> Option<&str> {
    let close = before.chars().next_back()?;
    let open = match close {
        '"' => '"',
        '”' => '“',
        '“' => '„',
        '»' => '«',
        '«' => '»',
        _ => return None,
    };
    let inside = &before[..before.len() - close.len_utf8()];
    let from = inside.floor_char_boundary(inside.len().saturating_sub(QUOTE_BYTES_MAX));
    let start = from + inside[from..].rfind(open)? + open.len_utf8();
    Some(inside[start..].trim()).filter(|quote| !quote.is_empty())
}

/// The sentence that ends where the text ends.
fn last_sentence(text: &str) -> &str {
    let trimmed = text.trim_end_matches(|c: char| BETWEEN.contains(&c));
    let start = trimmed.rfind(['.', '!', '?', '\n']).map_or(0, |at| at + 1);
    trimmed[start..].trim()
}

/// A reference to source `n`, with what is quoted before it or, without a quotation, the statement that it stands for.
fn check(n: usize, quoted: Option<&str>, statement: &str, sources: &[Source]) -> ChatCitation {
    let failed = |document: Option<&Source>, reason: String| ChatCitation {
        n,
        document_id: document.map(|source| source.document_id.clone()),
        start: None,
        end: None,
        pages: CitedPages::default(),
        quote: quoted.unwrap_or_default().to_owned(),
        verified: false,
        reason: Some(reason),
    };
    let Some(source) = n.checked_sub(1).and_then(|index| sources.get(index)) else {
        return failed(None, format!("there is no source {n}; {} were given", sources.len()));
    };
    let range = match quoted {
        // models copy the escapes of the prompt, or do not
        Some(quote) => find(&source.text, quote).or_else(|| find(&source.text, &unescaped(quote))),
        None => Some(nearest_sentence(&source.text, statement)),
    };
    let Some(range) = range else {
        return failed(Some(source), format!("source {n} does not contain the quoted text"));
    };
    let (start, end) = (source.start + range.start as u64, source.start + range.end as u64);
    ChatCitation {
        n,
        document_id: Some(source.document_id.clone()),
        start: Some(start),
        end: Some(end),
        pages: source.pages.of_part(start, end),
        quote: source.text[range].to_owned(),
        verified: true,
        reason: None,
    }
}

/// The place of a quotation in a text. White space counts as equal, and what models change about quotations is allowed: a period or comma at the
/// end, and `…` for what is left out.
fn find(text: &str, quote: &str) -> Option<Range<usize>> {
    let parts: Vec<&str> = quote.split(['…']).flat_map(|part| part.split("...")).collect();
    let mut range: Option<Range<usize>> = None;
    for part in parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()) {
        let from = range.as_ref().map_or(0, |range| range.end);
        let found = find_words(text, from, part)
            .or_else(|| find_words(text, from, part.trim_end_matches(['.', ',', ';', '!', '?'])))?;
        range = Some(range.map_or(found.start, |range| range.start)..found.end);
    }
    range
}

/// The first place from `from` on where the words of `part` stand, separated by any white space.
fn find_words(text: &str, from: usize, part: &str) -> Option<Range<usize>> {
    let mut words = part.split_whitespace();
    let first = words.next()?;
    let rest: Vec<&str> = words.collect();
    text[from..].match_indices(first).find_map(|(at, _)| {
        let start = from + at;
        let mut end = start + first.len();
        for word in &rest {
            let spaced = text[end..].trim_start();
            let has_space = spaced.len() < text.len() - end;
            if !has_space || !spaced.starts_with(word) {
                return None;
            }
            end = text.len() - spaced.len() + word.len();
        }
        Some(start..end)
    })
}

/// The sentence of a source that shares the most words with a statement; the first of equals.
fn nearest_sentence(text: &str, statement: &str) -> Range<usize> {
    let words = |text: &str| -> std::collections::BTreeSet<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.chars().count() > 2);
        words.map(str::to_lowercase).collect()
    };
    let wanted = words(statement);
    let mut best: Option<(usize, Range<usize>)> = None;
    for range in sentences(text) {
        let shared = words(&text[range.clone()]).intersection(&wanted).count();
        if best.as_ref().is_none_or(|(most, _)| shared > *most) {
            best = Some((shared, range));
        }
    }
    best.map_or(0..text.len(), |(_, range)| range)
}

/// The sentences of a text, without the white space around them.
fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut start = 0;
    let bytes = text.as_bytes();
    for (at, c) in text.char_indices() {
        let end = at + c.len_utf8();
        let next = bytes.get(end);
        let ends = c == '\n' && next == Some(&b'\n')
            || matches!(c, '.' | '!' | '?') && next.is_none_or(u8::is_ascii_whitespace);
        if ends || end == text.len() {
            let part = &text[start..end];
            let trimmed = part.trim();
            if !trimmed.is_empty() {
                let first = start + (part.len() - part.trim_start().len());
                ranges.push(first..first + trimmed.len());
            }
            start = end;
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::Origin;

    const TEXT: &str =
        "A weir is a low  dam across\na river. It raises the water level. Fish pass it by a ladder.";

    fn sources() -> Vec<Source> {
        let source = |document_id: &str, start, text: &str| Source {
            document_id: document_id.to_owned(),
            start,
            text: text.to_owned(),
            pages: CitedPages {
                page: Some(7),
                page_end: Some(8),
                page_breaks: Some(vec![150]),
                ..CitedPages::default()
            },
            header: String::new(),
            relevance: None,
            flagged: false,
            origin: Origin::default(),
        };
        vec![source("weirs", 100, TEXT), source("mills", 0, "Mills ground corn.")]
    }

    fn check(answer: &str, expected: &[(usize, bool, &str)]) {
        let found = citations(&references(answer, &sources()));
        let seen: Vec<(usize, bool, &str)> =
            found.iter().map(|one| (one.n, one.verified, one.quote.as_str())).collect();
        assert_eq!(seen, expected, "{answer}");
        for one in found.iter().filter(|one| one.verified) {
            let source = &sources()[one.n - 1];
            let (start, end) = (one.start.unwrap() - source.start, one.end.unwrap() - source.start);
            assert_eq!(one.quote, source.text[start as usize..end as usize]);
        }
    }

    #[test]
    fn a_quotation_resolves_to_the_bytes_of_the_document() {
        check("It is \"a low dam across a river\" [1].", &[(1, true, "a low  dam across\na river")]);
        check("“It raises the water level,” [1]", &[(1, true, "It raises the water level")]);
        check("„Mills ground corn.“ [2]", &[(2, true, "Mills ground corn.")]);
        check("\"A weir … raises the water level\" [1]", &[(1, true, &TEXT[..62])]);
        check(
            "\"Mills ground corn\" [1][2]",
            &[(1, false, "Mills ground corn"), (2, true, "Mills ground corn")],
        );
        check(
            "\"Mills ground corn\" [2, 1]",
            &[(2, true, "Mills ground corn"), (1, false, "Mills ground corn")],
        );
    }

    #[test]
    fn what_does_not_hold_is_flagged() {
        check("\"A weir is a high dam\" [1]", &[(1, false, "A weir is a high dam")]);
        check("\"water level\" [3]", &[(3, false, "water level")]);
        check("See [0].", &[(0, false, "")]);
        let found = citations(&references("\"no\" [1] \"no\" [9]", &sources()));
        assert_eq!(found[0].reason.as_deref(), Some("source 1 does not contain the quoted text"));
        assert_eq!(found[1].reason.as_deref(), Some("there is no source 9; 2 were given"));
        assert_eq!((found[0].document_id.as_deref(), found[1].document_id.as_deref()), (Some("weirs"), None));
    }

    #[test]
    fn a_statement_without_quotation_cites_the_nearest_sentence() {
        check("The level of the water rises there [1].", &[(1, true, "It raises the water level.")]);
        check(
            "Ladders help fish. [1] They ground corn [2].",
            &[(1, true, "Fish pass it by a ladder."), (2, true, "Mills ground corn.")],
        );
    }

    #[test]
    fn brackets_that_are_no_citation_are_left_alone() {
        check("a[i] = [x, 1] [] [1 [99999999] é[", &[]);
        check("[[1]]", &[(1, true, &TEXT[..36])]);
    }

    #[test]
    fn references_that_hold_are_found_where_guardrails_changed_the_answer() {
        let answer = "ann@example.com: \"Mills ground corn\" [2], \"no\" [1], \"a low dam\" [1].";
        let found = references(answer, &sources());
        let check = |sent: &str, expected: &[(&str, usize)]| {
            let held = verified_in(sent, &found);
            let seen: Vec<(&str, usize)> =
                held.iter().map(|one| (&sent[..one.marker.end], one.citation.n)).collect();
            assert_eq!(seen, expected, "{sent}");
        };
        let (first, second) = ("[EMAIL_1]: \"Mills ground corn\" [2]", ", \"no\" [1], \"a low dam\" [1]");
        let sent = format!("{first}{second}.");
        check(&sent, &[(first, 2), (&sent[..sent.len() - 1], 1)]);
        check("one is gone [2]", &[("one is gone [2]", 2)]);
        check("none [3]", &[]);
    }
}
