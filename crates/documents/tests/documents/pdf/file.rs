//! Writes PDF files.

use flate2::{Compression, write::ZlibEncoder};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

/// A file as its objects. Object 1 is the catalog, 2 the pages; fonts and further objects are numbered by the test.
#[derive(Clone, Default)]
pub(super) struct File {
    pub(super) objects: BTreeMap<u32, Vec<u8>>,
    /// Further entries of the trailer.
    pub(super) trailer: String,
}

/// Helvetica, which is not in the file.
pub(super) const HELVETICA: &str = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>";

/// A font whose letters are all 0.6 wide.
pub(super) const COURIER: &str = "<</Type/Font/Subtype/Type1/BaseFont/Courier/Encoding/WinAnsiEncoding>>";

impl File {
    /// The bytes with a table of cross references.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut data = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n".to_vec();
        let mut offsets = BTreeMap::new();
        for (number, body) in &self.objects {
            offsets.insert(*number, data.len());
            data.extend(format!("{number} 0 obj\n").bytes());
            data.extend(body);
            data.extend(b"\nendobj\n");
        }
        let start = data.len();
        let size = self.objects.keys().max().unwrap() + 1;
        let mut table = format!("xref\n0 {size}\n0000000000 65535 f \n");
        for number in 1..size {
            match offsets.get(&number) {
                Some(offset) => writeln!(table, "{offset:010} 00000 n ").unwrap(),
                None => table.push_str("0000000000 00000 f \n"),
            }
        }
        write!(table, "trailer\n<</Size {size}/Root 1 0 R{}>>\nstartxref\n{start}\n%%EOF\n", self.trailer)
            .unwrap();
        data.extend(table.bytes());
        data
    }

    pub(super) fn set(mut self, number: u32, body: impl Into<Vec<u8>>) -> File {
        self.objects.insert(number, body.into());
        self
    }

    /// Adds entries to the catalog.
    pub(super) fn catalog(self, entries: &str) -> File {
        self.set(1, format!("<</Type/Catalog/Pages 2 0 R{entries}>>"))
    }
}

pub(super) fn deflate(body: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// A compressed stream.
pub(super) fn stream(body: impl AsRef<[u8]>, entries: &str) -> Vec<u8> {
    raw_stream(&deflate(body.as_ref()), &format!("{entries}/Filter/FlateDecode"))
}

pub(super) fn raw_stream(body: &[u8], entries: &str) -> Vec<u8> {
    let mut data = format!("<</Length {}{entries}>>stream\n", body.len()).into_bytes();
    data.extend(body);
    data.extend(b"\nendstream");
    data
}

/// One page of A4: catalog 1, pages 2, page 3, font 4, content 5.
pub(super) fn page(content: impl AsRef<[u8]>) -> File {
    page_with(content, "/Font<</F1 4 0 R>>", "")
}

/// The same with these resources and entries of the page.
pub(super) fn page_with(content: impl AsRef<[u8]>, resources: &str, entries: &str) -> File {
    File::default()
        .catalog("")
        .set(2, "<</Type/Pages/Kids[3 0 R]/Count 1>>")
        .set(3, format!("<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 5 0 R/Resources<<{resources}>>{entries}>>"))
        .set(4, HELVETICA)
        .set(5, stream(content, ""))
}

/// Several pages in Courier: page `n` from 0 is object `100 + 2n`, its content the next one.
pub(super) fn pages(contents: &[String]) -> File {
    let kids: String = (0..contents.len()).map(|number| format!("{} 0 R ", 100 + 2 * number)).collect();
    let mut file = File::default()
        .catalog("")
        .set(2, format!("<</Type/Pages/Kids[{kids}]/Count {}>>", contents.len()))
        .set(4, COURIER);
    for (number, content) in (0..).zip(contents) {
        let page = format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {} 0 R/Resources<</Font<</F1 4 0 R>>>>>>",
            101 + 2 * number
        );
        file = file.set(100 + 2 * number, page).set(101 + 2 * number, stream(content, ""));
    }
    file
}

/// Shows text in Latin-1 at a place.
pub(super) fn show(x: f32, y: f32, size: f32, text: &str) -> String {
    let escaped = |character: char| match character {
        '\\' | '(' | ')' => format!("\\{character}"),
        '•' => "\\225".to_owned(),
        ' '..='~' => character.to_string(),
        _ => format!("\\{:03o}", u32::from(character)),
    };
    let text: String = text.chars().map(escaped).collect();
    format!("BT /F1 {size} Tf 1 0 0 1 {x} {y} Tm ({text}) Tj ET\n")
}

/// Lines from a place down, 12 points apart.
pub(super) fn lines(x: f32, y: f32, lines: &[&str]) -> String {
    lines.iter().enumerate().map(|(number, line)| show(x, y - 12.0 * number as f32, 10.0, line)).collect()
}

/// A font without a program: two bytes are the number of a character in `characters`, from 1, each 0.5 wide. Objects `number`
/// to `number + 2`.
pub(super) fn unicode_font(file: File, number: u32, characters: &str) -> File {
    let mut map = String::new();
    for (code, character) in (1..).zip(characters.chars()) {
        let units: String =
            character.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("{unit:04x}")).collect();
        writeln!(map, "<{code:04x}><{units}>").unwrap();
    }
    let count = characters.chars().count();
    let map = format!(
        "/CIDInit/ProcSet findresource begin begincmap 1 begincodespacerange <0000><ffff> endcodespacerange\n{count} beginbfchar\n{map}endbfchar endcmap"
    );
    let (descendant, to_unicode) = (number + 1, number + 2);
    file.set(
        number,
        format!("<</Type/Font/Subtype/Type0/BaseFont/A/Encoding/Identity-H/DescendantFonts[{descendant} 0 R]/ToUnicode {to_unicode} 0 R>>"),
    )
    .set(
        descendant,
        "<</Type/Font/Subtype/CIDFontType2/BaseFont/A/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>/DW 500/FontDescriptor<</Type/FontDescriptor/FontName/A/Flags 4>>>>",
    )
    .set(to_unicode, stream(map, ""))
}

/// The codes of a text in such a font.
pub(super) fn codes(characters: &str, text: &str) -> String {
    let code = |character| characters.chars().position(|other| other == character).unwrap() + 1;
    text.chars().map(|character| format!("{:04x}", code(character))).collect()
}

/// A generator of numbers, the same in each run.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end as u64) as usize
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}
