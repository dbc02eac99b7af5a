//! Damaged copies of files: cut short, bytes changed, blocks repeated, signs of the syntax exchanged.

use crate::pdf::file::{File, Numbers, lines, page_with, pages, raw_stream, show, stream, unicode_font};
use crate::pdf::hostile::measured;

/// Copies of each file. `make mutations` sets more.
const COPIES: usize = 60;

/// CPU time of one file, in milliseconds.
const CPU_MS_MAX: u64 = if cfg!(debug_assertions) { 4_000 } else { 2_000 };

/// Files that use what the reader knows: streams with and without compression, forms, fonts, fields, an outline.
fn originals() -> Vec<Vec<u8>> {
    let plain = show(50.0, 700.0, 10.0, "Plain words")
        + &lines(50.0, 650.0, &["more words of the", "page and its end-", "ings"]);
    let rich = "/OC /L BDC 0 0 1 rg 0 0 99 99 re f EMC /X Do /Span<</ActualText(y)>>BDC BT /F2 10 Tf 50 600 Td [<00010002>-300<0003>] TJ ET EMC ";
    let resources = "/Font<</F1 4 0 R/F2 10 0 R>>/XObject<</X 6 0 R>>/Properties<</L 7 0 R>>";
    let rich: File = unicode_font(page_with("", resources, "/Annots[8 0 R]"), 10, "aבc")
        .catalog(
            "/OCProperties<</OCGs[7 0 R]/D<</OFF[7 0 R]>>>>/Outlines 20 0 R/PageLabels<</Nums[0<</S/r>>]>>",
        )
        .set(5, raw_stream((plain.clone() + rich).as_bytes(), ""))
        .set(
            6,
            stream(
                show(50.0, 500.0, 10.0, "form"),
                "/Type/XObject/Subtype/Form/BBox[0 0 600 900]/Resources<</Font<</F1 4 0 R>>>>",
            ),
        )
        .set(7, "<</Type/OCG/Name(a)>>")
        .set(8, "<</Type/Annot/Subtype/Widget/FT/Tx/V(Alice)/Rect[120 696 220 716]>>")
        .set(20, "<</First 21 0 R>>")
        .set(21, "<</Title(Plain words)/Dest[3 0 R/Fit]>>");
    let uncompressed = rich.clone().set(12, raw_stream(b"1 beginbfrange <0001><0003><0041> endbfrange", ""));
    vec![pages(&[plain.clone(), plain.clone(), plain]).bytes(), rich.bytes(), uncompressed.bytes()]
}

fn damage(original: &[u8], copy: usize, numbers: &mut Numbers) -> Vec<u8> {
    const SIGNS: &[u8] = b"0123456789/<>[]() -R";
    let mut data = original.to_vec();
    let length = data.len();
    match copy % 4 {
        0 => data.truncate(numbers.below(length)),
        1 => {
            for _ in 0..=numbers.below(length / 500 + 2) {
                data[numbers.below(length)] = numbers.below(256) as u8;
            }
        }
        2 => {
            let (to, from, size) = (numbers.below(length), numbers.below(length), numbers.below(4_096));
            let block = original[from..length.min(from + size)].to_vec();
            data.splice(to..to, block);
        }
        _ => {
            for _ in 0..20 {
                let at = numbers.below(length);
                if SIGNS.contains(&data[at]) {
                    data[at] = SIGNS[numbers.below(SIGNS.len())];
                }
            }
        }
    }
    data
}

#[test]
fn damaged_files_fail_alone_or_are_read_in_part() {
    #[allow(clippy::disallowed_methods, reason = "the setting of a test")]
    let copies =
        std::env::var("WEIR_MUTATIONS").ok().and_then(|copies| copies.parse().ok()).unwrap_or(COPIES);
    let mut numbers = Numbers(59);
    let (mut read, mut all) = (0, 0);
    for original in originals() {
        assert!(measured(original.clone()).0.is_ok());
        for copy in 0..copies {
            let data = damage(&original, copy, &mut numbers);
            let (result, cpu_ms) = measured(data);
            assert!(cpu_ms <= CPU_MS_MAX, "copy {copy}: {cpu_ms} ms");
            all += 1;
            if let Ok(extracted) = result {
                read += 1;
                assert_eq!(extracted.pages.last().map(|page| page.end), Some(extracted.text.len()));
            }
        }
    }
    assert!(read * 2 > all, "{read} of {all} files were read");
}
