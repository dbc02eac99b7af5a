//! Pages whose content is in another order than people read.

use crate::pdf::file::{COURIER, Numbers, codes, lines, page, page_with, show, stream, unicode_font};
use crate::pdf::text;

const WORDS: [&str; 12] =
    ["the", "river", "carries", "water", "from", "hills", "and", "weir", "holds", "back", "its", "flow"];

/// Words, and lines of up to 38 letters of them from a place down.
fn column(numbers: &mut Numbers, x: f32, y: f32) -> (Vec<&'static str>, Vec<(f32, f32, String)>) {
    let words: Vec<&str> = (0..150).map(|_| WORDS[numbers.below(WORDS.len())]).collect();
    let mut rows: Vec<String> = vec![String::new()];
    for word in &words {
        let last = rows.last_mut().unwrap();
        match last.len() {
            0 => last.push_str(word),
            length if length + word.len() < 38 => *last = format!("{last} {word}"),
            _ => rows.push((*word).to_owned()),
        }
    }
    let placed =
        rows.into_iter().enumerate().map(|(number, row)| (x, y - 12.0 * number as f32, row)).collect();
    (words, placed)
}

fn content(items: &[(f32, f32, String)]) -> String {
    items.iter().map(|(x, y, text)| show(*x, *y, 10.0, text)).collect()
}

fn check(content: &str, expected: &[&str]) {
    let file = page(content).set(4, COURIER).bytes();
    assert_eq!(text(&file).split_whitespace().collect::<Vec<_>>(), expected);
}

#[test]
fn columns_are_read_one_after_the_other_in_any_order_of_the_content() {
    let mut numbers = Numbers(7);
    let (left_words, left) = column(&mut numbers, 50.0, 700.0);
    let (right_words, right) = column(&mut numbers, 310.0, 700.0);
    let head = vec![(50.0, 750.0, "A title over both columns of this page".to_owned())];
    let expected: Vec<&str> =
        head[0].2.split(' ').chain(left_words.iter().copied()).chain(right_words.iter().copied()).collect();

    let mut by_rows = [head.clone(), left.clone(), right.clone()].concat();
    check(&content(&by_rows), &expected);
    by_rows.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.total_cmp(&b.0)));
    check(&content(&by_rows), &expected);
    check(&content(&[right.clone(), left.clone(), head.clone()].concat()), &expected);
    numbers.shuffle(&mut by_rows);
    check(&content(&by_rows), &expected);
}

#[test]
fn words_and_letters_may_be_drawn_one_by_one() {
    let (words, rows) = column(&mut Numbers(9), 50.0, 700.0);
    let by_word: Vec<(f32, f32, String)> = rows
        .iter()
        .flat_map(|(x, y, row)| {
            let starts = std::iter::once(0).chain(row.match_indices(' ').map(|(at, _)| at + 1));
            starts
                .zip(row.split(' '))
                .map(|(at, word)| (x + 6.0 * at as f32, *y, word.to_owned()))
                .collect::<Vec<_>>()
        })
        .collect();
    check(&content(&by_word), &words);
    let by_letter: Vec<(f32, f32, String)> = rows
        .iter()
        .flat_map(|(x, y, row)| {
            row.char_indices()
                .filter(|&(_, letter)| letter != ' ')
                .map(move |(at, letter)| (x + 6.0 * at as f32, *y, letter.into()))
        })
        .collect();
    check(&content(&by_letter), &words);
}

#[test]
fn turned_text_and_turned_pages_are_read() {
    let (words, rows) = column(&mut Numbers(11), 50.0, 700.0);
    let turned: String = rows
        .iter()
        .enumerate()
        .map(|(at, (_, _, row))| format!("BT /F1 10 Tf 0 1 -1 0 {} 50 Tm ({row}) Tj ET\n", 100 + 12 * at))
        .collect();
    check(&turned, &words);
    for angle in [90, 180, 270] {
        let file = page_with(content(&rows), "/Font<</F1 4 0 R>>", &format!("/Rotate {angle}"))
            .set(4, COURIER)
            .bytes();
        assert_eq!(text(&file).split_whitespace().collect::<Vec<_>>(), words, "{angle}");
    }
}

#[test]
fn lines_of_a_paragraph_and_paragraphs_are_told_apart() {
    let content = lines(50.0, 700.0, &["One line of the first paragraph", "and its second line.", "Third."])
        + &lines(50.0, 640.0, &["The next paragraph is here", "with two lines."]);
    assert_eq!(
        text(&page(content).bytes()),
        "One line of the first paragraph\nand its second line.\nThird.\n\nThe next paragraph is here\nwith two lines."
    );
}

#[test]
fn rows_of_a_table_are_lines_with_tabs() {
    let mut content = String::new();
    for (row, cells) in [
        ["year", "place", "flow"],
        ["1990", "upper weir", "12.5"],
        ["1991", "lower weir", "7.25"],
        ["1992", "mill", "3"],
    ]
    .iter()
    .enumerate()
    {
        for (column, cell) in cells.iter().enumerate() {
            content += &show(50.0 + 150.0 * column as f32, 700.0 - 25.0 * row as f32, 10.0, cell);
        }
    }
    assert_eq!(
        text(&page(content).bytes()),
        "year\tplace\tflow\n1990\tupper weir\t12.5\n1991\tlower weir\t7.25\n1992\tmill\t3"
    );
}

#[test]
fn cells_of_several_lines_stay_in_their_row() {
    let content = show(50.0, 700.0, 10.0, "name")
        + &show(200.0, 700.0, 10.0, "meaning")
        + &show(50.0, 670.0, 10.0, "weir")
        + &show(200.0, 676.0, 10.0, "a low wall across")
        + &show(200.0, 664.0, 10.0, "a river")
        + &show(50.0, 640.0, 10.0, "mill")
        + &show(200.0, 640.0, 10.0, "a house with")
        + &show(200.0, 628.0, 10.0, "a wheel");
    assert_eq!(
        text(&page(content).bytes()),
        "name\tmeaning\nweir\ta low wall across a river\nmill\ta house with a wheel"
    );
}

#[test]
fn right_to_left_text_is_in_the_order_of_reading() {
    let characters = "הנהר נושא מים 25(םש)לגבעות.";
    let visual: String = "הנהר נושא 25 מים (שם) לגבעות"
        .split(' ')
        .rev()
        .map(|word| {
            let turned: String = if word.starts_with(|c: char| c.is_ascii_digit()) {
                word.to_owned()
            } else {
                word.chars().rev().collect()
            };
            turned.replace('(', "<").replace(')', "(").replace('<', ")") + " "
        })
        .collect();
    let shown = codes(characters, visual.trim());
    let content = format!("BT /F2 12 Tf 1 0 0 1 100 700 Tm <{shown}> Tj ET");
    let file = unicode_font(page_with(content, "/Font<</F2 10 0 R>>", ""), 10, characters).bytes();
    assert_eq!(text(&file), "הנהר נושא 25 מים (שם) לגבעות");
}

#[test]
fn ligatures_and_composed_letters_are_letters() {
    let characters = "e\u{fb03}cint\u{fefb}";
    let shown = codes(characters, "e\u{fb03}cient");
    let content =
        format!("BT /F2 12 Tf 1 0 0 1 100 700 Tm <{shown}> Tj ET {}", show(100.0, 600.0, 10.0, "plain"));
    let file = unicode_font(page_with(content, "/Font<</F1 4 0 R/F2 10 0 R>>", ""), 10, characters).bytes();
    assert_eq!(text(&file), "efficient\n\nplain");
    // glyphs by name, as TeX has them: ligature, accent over a letter
    let font = "<</Type/Font/Subtype/Type1/BaseFont/Courier/Encoding<</Differences[1/ffi/dieresis/a/r/f/l/u/t/dotlessi]>>>>";
    let content = "BT /F1 10 Tf 1 0 0 1 50 700 Tm (\\005\\006\\007\\001\\010) Tj 1 0 0 1 50 600 Tm [(\\002)600(\\007)] TJ ET";
    let file = page(content).set(4, font).bytes();
    assert_eq!(text(&file), "fluffit\n\nü");
}

#[test]
fn vertical_writing_is_read_from_the_right() {
    let characters = "川は丘から水を運び堰が流れ止める";
    let (first, second) = (codes(characters, "川は丘から水を運び堰が"), codes(characters, "流れを止める"));
    let content = format!("BT /F2 12 Tf 1 0 0 1 500 700 Tm <{first}> Tj 1 0 0 1 480 700 Tm <{second}> Tj ET");
    let file = unicode_font(page_with(content, "/Font<</F2 10 0 R>>", ""), 10, characters);
    let font = String::from_utf8(file.objects[&10].clone()).unwrap().replace("Identity-H", "Identity-V");
    let file = file.set(10, font).bytes();
    assert_eq!(text(&file), "川は丘から水を運び堰が流れを止める");
}

#[test]
fn text_that_is_drawn_twice_or_clipped_is_read_once() {
    let twice = letters_twice("bold") + &show(50.0, 600.0, 10.0, "end");
    assert_eq!(text(&page(twice).set(4, COURIER).bytes()), "bold\n\nend");
    let clipped = "q 40 590 100 50 re W n ".to_owned()
        + &show(50.0, 700.0, 10.0, "outside")
        + &show(50.0, 600.0, 10.0, "inside")
        + "Q";
    assert_eq!(text(&page(clipped).bytes()), "inside");
    assert_eq!(
        text(&page(show(50.0, 700.0, 10.0, "on the page") + &show(50.0, 900.0, 10.0, "above")).bytes()),
        "on the page"
    );
}

/// Each letter twice at nearly the same place.
fn letters_twice(word: &str) -> String {
    let letters = word.chars().enumerate().map(|(at, letter)| (50.0 + 6.0 * at as f32, letter));
    letters
        .map(|(x, letter)| {
            show(x, 700.0, 10.0, &letter.to_string()) + &show(x + 0.3, 700.0, 10.0, &letter.to_string())
        })
        .collect()
}

#[test]
fn fonts_that_draw_their_letters_are_read_by_name() {
    // pixels as units, as programs write that turn TeX fonts into bitmaps
    let font = "<</Type/Font/Subtype/Type3/FontBBox[0 0 50 100]/FontMatrix[1 0 0 1 0 0]/FirstChar 97/LastChar 99/Widths[50 50 50]/Encoding<</Differences[97/a/b/c]>>/CharProcs<</a 6 0 R/b 6 0 R/c 6 0 R>>>>";
    let content = "BT /F1 1 Tf .1 0 0 .1 100 700 Tm (ab) Tj .1 0 0 .1 115 700 Tm (c) Tj ET";
    let file = page(content).set(4, font).set(6, stream("50 0 d0 0 0 40 90 re f", "")).bytes();
    assert_eq!(text(&file), "ab c");
}
