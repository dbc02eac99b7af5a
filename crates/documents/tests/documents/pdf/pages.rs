//! Text over several pages: running heads, divided words, headings, labels, limits.

use crate::pdf::file::{File, lines, pages, show};
use crate::pdf::{extract, text, warned};
use serde_json::json;
use weir_documents::{Extracted, Format, Limits};

/// The texts of the pages.
fn by_page(extracted: &Extracted) -> Vec<&str> {
    let mut start = 0;
    let texts = extracted.pages.iter().map(|page| {
        let text = &extracted.text[start..page.end];
        start = page.end;
        text
    });
    texts.collect()
}

/// A page with a running head, a number and lines between them.
fn book_page(number: usize, body: &[&str]) -> String {
    show(50.0, 810.0, 8.0, "The Book of Weirs")
        + &lines(50.0, 740.0, body)
        + &show(290.0, 30.0, 8.0, &format!("Page {number} of 6"))
}

#[test]
fn running_heads_are_left_out_and_divided_words_joined_across_pages() {
    let bodies: [&[&str]; 6] = [
        &["The first page has infor-", "mation on a well-", "known river and an obser-"],
        &["vation of it that goes on"],
        &["without an end. A well-known", "weir stands there."],
        &["Fourth.", "• item one", "• item two"],
        &["Fifth page of the book."],
        &["Sixth page of the book."],
    ];
    let contents: Vec<String> = (1..).zip(bodies).map(|(number, body)| book_page(number, body)).collect();
    let extracted = extract(&pages(&contents).bytes()).unwrap();
    let expected = [
        "The first page has information on a well-known river and an obser",
        "vation of it that goes on\n",
        "without an end. A well-known\nweir stands there.\n\n",
        "Fourth.\n- item one\n- item two\n\n",
        "Fifth page of the book.\n\n",
        "Sixth page of the book.",
    ];
    assert_eq!(by_page(&extracted), expected);
}

#[test]
fn each_page_of_two_hundred_has_its_marker() {
    let contents: Vec<String> = (1..=200)
        .map(|number| show(50.0, 750.0, 10.0, &format!("The marker of this page is word{number}x")))
        .collect();
    let extracted = extract(&pages(&contents).bytes()).unwrap();
    let texts = by_page(&extracted);
    assert_eq!(texts.len(), 200);
    for (number, text) in (1..).zip(texts) {
        assert_eq!(text.trim_end(), format!("The marker of this page is word{number}x"));
    }
    assert_eq!(extracted.pages.last().unwrap().end, extracted.text.len());
}

/// Three pages with headings by size: a title, two sections.
fn report() -> File {
    let body = [
        "This is a line of the text of the report, which has",
        "small letters and goes on for a while until its end.",
    ];
    let contents = [
        show(50.0, 760.0, 20.0, "Report on Weirs")
            + &show(50.0, 700.0, 14.0, "1 Introduction")
            + &lines(50.0, 670.0, &body),
        show(50.0, 760.0, 14.0, "2 A longer title that is set")
            + &show(50.0, 744.0, 14.0, "on two lines")
            + &lines(50.0, 700.0, &body),
        lines(50.0, 760.0, &["Contents . . . . . . . . 1", "Index.........12"]),
    ];
    pages(&contents)
}

#[test]
fn large_letters_are_headings_and_leaders_are_tabs() {
    assert_eq!(
        text(&report().bytes()),
        "# Report on Weirs\n\n## 1 Introduction\n\nThis is a line of the text of the report, which has\nsmall letters and goes on for a while until its end.\n\n\
         ## 2 A longer title that is set on two lines\n\nThis is a line of the text of the report, which has\nsmall letters and goes on for a while until its end.\n\n\
         Contents\t1\nIndex\t12"
    );
}

#[test]
fn the_outline_names_the_headings() {
    let file = report()
        .catalog("/Outlines 20 0 R/Names<</Dests<</Kids[30 0 R]>>>>")
        .set(20, "<</First 21 0 R/Last 23 0 R/Count 3>>")
        .set(21, "<</Title(Introduction)/Parent 20 0 R/Next 22 0 R/Dest[100 0 R/XYZ 0 0 0]>>")
        .set(22, "<</Title(A Longer Title That Is Set On Two Lines)/Parent 20 0 R/Next 23 0 R/A<</S/GoTo/D(second)>>/First 24 0 R>>")
        .set(23, "<</Title<FEFF0049006E006400650078>/Parent 20 0 R/Dest(nowhere)>>")
        .set(24, "<</Title(Contents 1)/Parent 22 0 R/Dest[2 /Fit]>>")
        .set(30, "<</Names[(second)<</D[102 0 R/Fit]>>]>>");
    let text = text(&file.bytes());
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(
        headings,
        ["# 1 Introduction", "# 2 A longer title that is set on two lines", "## Contents 1"]
    );
}

#[test]
fn title_author_dates_and_labels_are_read() {
    let mut file = report().catalog("/PageLabels<</Nums[0<</S/r/St 3>>1<</S/D>>2<</P(A-)/S/D/St 7>>]>>").set(
        40,
        "<</Title<FEFF00DC0062006500720020005700650068007200650020>/Author(J\\366rg)/CreationDate(D:20240229123000+02'00')/ModDate(D:20250101)>>",
    );
    file.trailer = "/Info 40 0 R".to_owned();
    let extracted = extract(&file.bytes()).unwrap();
    assert_eq!(extracted.title.as_deref(), Some("Über Wehre"));
    assert_eq!(
        json!(extracted.metadata),
        json!({"author": "Jörg", "created": "2024-02-29T12:30:00+02:00", "modified": "2025-01-01T00:00:00Z"})
    );
    let labels: Vec<Option<&str>> = extracted.pages.iter().map(|page| page.label.as_deref()).collect();
    assert_eq!(labels, [Some("iii"), Some("1"), Some("A-7")]);
}

#[test]
fn limits_cut_pages_and_text_and_say_so() {
    let contents: Vec<String> = (1..=9)
        .map(|number| lines(50.0, 700.0, &[&format!("é page {number} of the file, with some text")]))
        .collect();
    let file = pages(&contents).bytes();
    let with = |limits: Limits| weir_documents::extract(&file, Format::Pdf, &limits).unwrap();
    let few = with(Limits { pages: 2, ..Limits::default() });
    assert_eq!((few.pages.len(), warned(&few, "page_limit")), (2, 7));
    let rest = with(Limits { first_page: 7, ..Limits::default() });
    assert!(rest.text.contains("page 8") && !rest.text.contains("page 7"), "{}", rest.text);
    assert_eq!((rest.pages.len(), rest.warnings.len()), (2, 0));
    let short = with(Limits { text_bytes: 51, ..Limits::default() });
    assert!((50..=51).contains(&short.text.len()), "{}", short.text);
    assert_eq!(warned(&short, "text_limit"), 1);
    assert_eq!(short.pages.last().unwrap().end, short.text.len());
}
