//! PDF: the text of pages in the order of reading.
//!
//! The library reads objects, filters and fonts. The operators are interpreted here, so that the work is limited, and glyphs with
//! their places become lines and paragraphs by rules. A page that can't be read is left out and counted.

mod content;
mod cut;
mod fonts;
mod headings;
mod heads;
mod hyphens;
mod info;
mod lines;
mod marks;
mod operators;
mod optional;
mod outline;
mod page;
mod resources;
mod rows;
mod script;
mod spans;
mod state;
mod stream;
mod strings;
mod text;

use crate::{Extracted, Failure, Limits, Lost, Page, Warning};
use content::{Exhausted, Interpreter};
use hayro_syntax::object::Dict;
use hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use optional::OffGroups;
use outline::Entry;
use page::PageContent;
use std::panic::{AssertUnwindSafe, catch_unwind};
use text::{Text, TextLine, TextPage};

/// Pages with fewer characters in the mean, and images, are scans.
const SCAN_CHARACTERS: usize = 20;

/// Counts of what was left out.
#[derive(Debug, Default)]
struct Losses {
    hidden: u64,
    unmapped: u64,
    broken_pages: u64,
    limited_pages: u64,
    scanned_pages: u64,
    pages_with_images: usize,
    /// Pages that were lost in whole or in part, from 0, each with its reason.
    pages: Vec<(usize, Reason)>,
}

/// Why a page was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Broken,
    ContentLimit,
    Scanned,
    FileLimit,
}

/// Ranges of lost pages that are listed.
const LOST_LISTED_MAX: usize = 100;

/// The share of a scanned page that its images cover.
const SCAN_IMAGE_SHARE: f64 = 0.2;

/// The text of a PDF.
pub(crate) fn extract(bytes: &[u8], limits: &Limits) -> Result<Extracted, Failure> {
    let pdf = open(bytes)?;
    let catalog: Dict<'_> = pdf.xref().get(pdf.xref().root_id()).unwrap_or_default();
    let all_pages = pdf.pages().len();
    let last = all_pages.min(limits.first_page.saturating_add(limits.pages));
    let first = limits.first_page.min(last);
    let mut losses = Losses::default();
    let Read { pages, is_text_full, exhausted } =
        read_pages(&pdf, &catalog, first..last, limits, &mut losses);
    if let Some(exhausted) = exhausted {
        if pages.iter().all(|page| page.lines.is_empty()) {
            return Err(over_limit(exhausted, limits));
        }
        losses.pages.extend((first + pages.len()..last).map(|number| (number, Reason::FileLimit)));
    }
    let read = pages.len();
    check_text(&pages, &losses)?;
    let outline = guarded(|| outline::entries(&catalog, pdf.xref(), pdf.pages())).unwrap_or_default();
    let outline: Vec<Entry> = outline
        .into_iter()
        .filter(|entry| entry.page >= first)
        .map(|entry| Entry { page: entry.page - first, ..entry })
        .collect();
    let mut text = text::assemble(pages, &outline);
    let is_cut = cut(&mut text, limits.text_bytes) || is_text_full;
    let labels = guarded(|| info::page_labels(&catalog, &pdf, all_pages)).unwrap_or_default();
    let (title, metadata) = guarded(|| info::info(&pdf, &catalog)).unwrap_or_default();
    let label = |number: usize| labels.get(first + number).cloned().flatten();
    let ends = text.ends.iter().enumerate();
    Ok(Extracted {
        pages: ends.map(|(number, &end)| Page { end, label: label(number), approximate: false }).collect(),
        text: text.text,
        title,
        metadata,
        warnings: losses.warnings(is_cut, if is_text_full { 0 } else { all_pages - first - read }),
        lost: losses.lost(limits, exhausted),
        ..Extracted::default()
    })
}

fn open(bytes: &[u8]) -> Result<Pdf, Failure> {
    let damaged = || {
        Failure::DamagedFile(
            "it has no pages that can be read: open it with a PDF program and save it again".to_owned(),
        )
    };
    match guarded(|| Pdf::new(bytes.to_vec())).ok_or_else(damaged)? {
        Ok(pdf) if pdf.pages().is_empty() => Err(damaged()),
        Ok(pdf) => Ok(pdf),
        Err(LoadPdfError::Decryption(
            DecryptionError::PasswordProtected | DecryptionError::UnsupportedAlgorithm,
        )) => Err(Failure::Encrypted),
        Err(LoadPdfError::Decryption(_)) => {
            Err(Failure::DamagedFile("its encryption can't be read".to_owned()))
        }
        Err(LoadPdfError::Invalid) => Err(damaged()),
    }
}

/// Runs code of the library on data of strangers: nothing if it panics.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// The lines of pages, and what ended them too early.
struct Read {
    pages: Vec<TextPage>,
    is_text_full: bool,
    exhausted: Option<Exhausted>,
}

fn read_pages(
    pdf: &Pdf,
    catalog: &Dict<'_>,
    range: std::ops::Range<usize>,
    limits: &Limits,
    losses: &mut Losses,
) -> Read {
    let off_groups = guarded(|| OffGroups::new(catalog)).unwrap_or_default();
    let mut interpreter = Interpreter::new(limits, &off_groups);
    let mut layout_work = 0;
    let (mut pages, mut text_bytes) = (Vec::new(), 0);
    let numbers = range.clone();
    for (number, page) in numbers.zip(pdf.pages().get(range).unwrap_or_default()) {
        if text_bytes > limits.text_bytes {
            return Read { pages, is_text_full: true, exhausted: None };
        }
        if limits.skipped_pages.contains(&number) {
            pages.push(TextPage::default());
            continue;
        }
        if let Some(on_page) = limits.on_page {
            on_page(number);
        }
        let before = losses.counts();
        let read = guarded(|| {
            let mut content = interpreter.page(page)?;
            Ok(losses.page(&mut content, limits, &mut layout_work))
        });
        let page = match read {
            Some(Ok(page)) => page,
            Some(Err(exhausted)) => return Read { pages, is_text_full: false, exhausted: Some(exhausted) },
            None => {
                // the panic may have left its caches half written
                interpreter.forget();
                losses.broken_pages += 1;
                TextPage::default()
            }
        };
        losses.note_page(number, before);
        text_bytes += page.lines.iter().map(|line| line.text.len() + 1).sum::<usize>();
        pages.push(page);
    }
    Read { pages, is_text_full: false, exhausted: None }
}

fn over_limit(exhausted: Exhausted, limits: &Limits) -> Failure {
    let Limits { pdf_operators, pdf_forms, pdf_bytes, .. } = limits;
    Failure::FileLimit(match exhausted {
        Exhausted::Operators => format!("its pages have more than {pdf_operators} operators"),
        Exhausted::Forms => format!("its pages draw more than {pdf_forms} forms"),
        Exhausted::Bytes => format!("its pages have more than {pdf_bytes} bytes of content"),
    })
}

impl Losses {
    /// Lays out a page and counts what was left out.
    fn page(&mut self, content: &mut PageContent, limits: &Limits, layout_work: &mut u64) -> TextPage {
        if !limits.hidden_text {
            self.hidden += content.remove_hidden();
        }
        self.unmapped += content.unmapped;
        self.broken_pages += u64::from(content.broken > 0);
        self.limited_pages += u64::from(content.over_limit > 0);
        let lines: Vec<TextLine> =
            lines::lines(content, layout_work).into_iter().map(TextLine::new).collect();
        if content.images.size() >= SCAN_IMAGE_SHARE * f64::from(content.width) * f64::from(content.height) {
            self.pages_with_images += 1;
            self.scanned_pages += u64::from(characters(&lines) < SCAN_CHARACTERS);
        }
        TextPage { lines: rows::merge(lines), height: content.height }
    }

    fn counts(&self) -> [u64; 3] {
        [self.broken_pages, self.limited_pages, self.scanned_pages]
    }

    /// Lists a page of which something was lost since the counts were `before`.
    fn note_page(&mut self, number: usize, before: [u64; 3]) {
        let now = self.counts();
        let reasons = [Reason::Broken, Reason::ContentLimit, Reason::Scanned];
        let found = reasons.into_iter().zip(now).zip(before).find(|((_, now), before)| now > before);
        self.pages.extend(found.map(|((reason, _), _)| (number, reason)));
    }

    /// The lost pages: neighbours with one reason are one range.
    fn lost(&self, limits: &Limits, exhausted: Option<Exhausted>) -> Vec<Lost> {
        let mut ranges: Vec<(usize, usize, Reason)> = Vec::new();
        for &(number, reason) in &self.pages {
            match ranges.last_mut() {
                Some((_, last, same)) if *same == reason && *last + 1 == number => *last = number,
                _ => ranges.push((number, number, reason)),
            }
        }
        let lost = |(first, last, reason): (usize, usize, Reason)| {
            let part =
                if first == last { format!("{}", first + 1) } else { format!("{}-{}", first + 1, last + 1) };
            let (code, message) = match reason {
                Reason::Broken => ("broken_page", "it, or a part of it, can't be read".to_owned()),
                Reason::ContentLimit => {
                    ("page_content_limit", "it has more content than the limits allow".to_owned())
                }
                Reason::Scanned => ("no_text", "it is an image without text".to_owned()),
                Reason::FileLimit => (
                    "file_limit",
                    exhausted.map(|why| over_limit(why, limits).to_string()).unwrap_or_default(),
                ),
            };
            Lost { part, code: code.to_owned(), message }
        };
        ranges.into_iter().take(LOST_LISTED_MAX).map(lost).collect()
    }

    fn warnings(&self, is_cut: bool, pages_left: usize) -> Vec<Warning> {
        let hidden =
            "text that is not visible was left out: white, transparent, too small, or in no mode of display";
        let unmapped = "characters were left out because their fonts do not name them: print the file to a new PDF, or use OCR";
        let broken =
            "pages, or parts of them, could not be read: open the file with a PDF program and save it again";
        let limited = "pages have more content than the limits allow, and the rest of them was left out";
        let scanned = "pages are images without text: run OCR on the file and send it again";
        let entries = [
            ("hidden_text", hidden, self.hidden),
            ("unmapped_text", unmapped, self.unmapped),
            ("broken_page", broken, self.broken_pages),
            ("page_content_limit", limited, self.limited_pages),
            ("scanned_page", scanned, self.scanned_pages),
            ("text_limit", "the text is over the limit, and its end was left out", u64::from(is_cut)),
            (
                "page_limit",
                "the file has more pages than the limit, and the last ones were left out",
                pages_left as u64,
            ),
        ];
        let entries = entries.into_iter().filter(|&(_, _, count)| count > 0);
        entries
            .map(|(code, message, count)| Warning {
                code: code.to_owned(),
                message: message.to_owned(),
                count,
            })
            .collect()
    }
}

fn characters(lines: &[TextLine]) -> usize {
    lines.iter().flat_map(|line| line.text.chars()).filter(|character| !character.is_whitespace()).count()
}

/// Refuses a file without text, with the reason.
fn check_text(pages: &[TextPage], losses: &Losses) -> Result<(), Failure> {
    let characters: usize = pages.iter().map(|page| characters(&page.lines)).sum();
    let is_scan = characters < SCAN_CHARACTERS * pages.len() && losses.pages_with_images * 2 > pages.len();
    if characters > 0 && !is_scan {
        return Ok(());
    }
    Err(if is_scan {
        Failure::NoText(
            "its pages are images, as scans have: run OCR on the file and send it again".to_owned(),
        )
    } else if losses.limited_pages > 0 {
        Failure::FileLimit("its pages have more content than can be read".to_owned())
    } else if losses.broken_pages > 0 {
        Failure::DamagedFile(
            "none of its pages can be read: open it with a PDF program and save it again".to_owned(),
        )
    } else if losses.unmapped > 0 {
        Failure::NoText(
            "its fonts do not name their characters: print it to a new PDF, or run OCR on it".to_owned(),
        )
    } else if losses.hidden > 0 {
        Failure::NoText("all its text is invisible".to_owned())
    } else {
        Failure::NoText("its pages are empty".to_owned())
    })
}

/// Cuts the text at the limit; whether there was something to cut.
fn cut(text: &mut Text, bytes: usize) -> bool {
    if text.text.len() <= bytes {
        return false;
    }
    text.text.truncate(text.text.floor_char_boundary(bytes));
    let end = text.text.len();
    for page_end in &mut text.ends {
        *page_end = (*page_end).min(end);
    }
    true
}
