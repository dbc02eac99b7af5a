//! Files that attack a reader, each small on disk: depth, cycles, lies, bombs, floods. Each gives its text or its reason, within
//! two seconds of CPU time and a stack of 2 MiB.

use crate::pdf::file::{File, deflate, page, page_with, raw_stream, stream};
use rustix::time::{ClockId, clock_gettime};
use weir_documents::{Extracted, Failure};

const HELLO: &str = "BT /F1 12 Tf 72 720 Td (Hello hostile world) Tj ET\n";
const FORM: &str =
    "/Type/XObject/Subtype/Form/BBox[0 0 600 900]/Resources<</Font<</F1 4 0 R>>/XObject<</X %d 0 R>>>>";
/// Two seconds; builds with assertions take up to twice as long.
const CPU_MS_MAX: u64 = if cfg!(debug_assertions) { 4_000 } else { 2_000 };
const STACK_BYTES: usize = 2 << 20;

/// The result of a file on a small stack, and the CPU time in milliseconds.
pub(super) fn measured(data: Vec<u8>) -> (Result<Extracted, Failure>, u64) {
    let cpu_ms = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
    };
    let read = move || {
        let before = cpu_ms();
        let result = crate::pdf::extract(&data);
        (result, cpu_ms() - before)
    };
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(read).unwrap().join().unwrap()
}

/// The result of a hostile file.
#[derive(Debug, Clone, Copy)]
enum Expected {
    /// The words `Hello hostile world`, maybe among others.
    Hello,
    /// Other text.
    Words(&'static str),
    /// Any text.
    Text,
    Damaged,
    NoText,
    Limit,
}
use Expected::{Damaged, Hello, Limit, NoText, Text, Words};

#[track_caller]
fn check(name: &str, data: Vec<u8>, expected: Expected) {
    let (result, cpu_ms) = measured(data);
    let is_expected = match (&result, expected) {
        (Ok(extracted), Hello) => extracted.text.contains("Hello hostile world"),
        (Ok(extracted), Words(words)) => extracted.text.contains(words),
        (Ok(_), Text)
        | (Err(Failure::DamagedFile(_)), Damaged)
        | (Err(Failure::NoText(_)), NoText)
        | (Err(Failure::FileLimit(_)), Limit) => true,
        _ => false,
    };
    let shown = result.map(|extracted| extracted.text.chars().take(80).collect::<String>());
    assert!(is_expected, "{name}: {shown:?} instead of {expected:?}");
    assert!(cpu_ms <= CPU_MS_MAX, "{name}: {cpu_ms} ms");
}

fn hello() -> File {
    page(HELLO)
}

fn repeated(parts: &[(&str, usize)]) -> String {
    parts.iter().map(|(part, count)| part.repeat(*count)).collect()
}

/// A catalog with an entry of nested objects.
fn nested(open: &str, close: &str, depth: usize) -> Vec<u8> {
    hello().catalog(&format!("/X {}", repeated(&[(open, depth), (close, depth)]))).bytes()
}

#[test]
fn depth_of_objects_and_of_states_is_bounded() {
    check("plain", hello().bytes(), Hello);
    check("arrays 500", nested("[", "]", 500), Hello);
    check("arrays 20,000", nested("[", "]", 20_000), Damaged);
    check("arrays 1,000,000", nested("[", "]", 1_000_000), Damaged);
    check("dictionaries", nested("<</A ", ">>", 100_000), Damaged);
    check(
        "arrays in content",
        page(HELLO.to_owned() + &repeated(&[("[", 200_000), ("]", 200_000)]) + " TJ\n").bytes(),
        Hello,
    );
    check("states", page("q ".repeat(2_000_000) + HELLO).bytes(), Hello);
    check("marked content", page("/P <</A 1>> BDC ".repeat(500_000) + HELLO).bytes(), Hello);
}

#[test]
fn the_tree_of_pages_may_be_no_tree() {
    check("cycle", hello().set(2, "<</Type/Pages/Kids[2 0 R 3 0 R]/Count 2>>").bytes(), Hello);
    let long = hello()
        .set(2, "<</Type/Pages/Kids[6 0 R]/Count 1>>")
        .set(6, "<</Type/Pages/Parent 2 0 R/Kids[2 0 R 3 0 R]/Count 1>>");
    check("long cycle", long.bytes(), Hello);
    let mut deep = hello().set(2, "<</Type/Pages/Kids[10 0 R]/Count 1>>");
    for level in 0..50_000 {
        let (parent, kid) =
            (if level == 0 { 2 } else { 9 + level }, if level < 49_999 { 11 + level } else { 3 });
        deep = deep.set(10 + level, format!("<</Type/Pages/Parent {parent} 0 R/Kids[{kid} 0 R]/Count 1>>"));
    }
    check("deep", deep.bytes(), Hello);
    let same = format!("<</Type/Pages/Kids[{}]/Count 1000000>>", "3 0 R ".repeat(1_000_000));
    check("one page many times", hello().set(2, same).bytes(), Hello);
    check("count", hello().set(2, "<</Type/Pages/Kids[3 0 R]/Count 2147483647>>").bytes(), Hello);
    let node = |level: u32| {
        let kid = if level < 9 { 21 + level } else { 3 };
        format!("<</Type/Pages/Kids[{}]/Count 10000000000>>", format!("{kid} 0 R ").repeat(10))
    };
    let exponential = (0..10).fold(hello(), |file, level| file.set(20 + level, node(level))).set(2, node(0));
    check("exponential", exponential.bytes(), Hello);
    check("no pages", File::default().set(1, "<</Type/Catalog>>").bytes(), Damaged);
}

/// A file whose cross references are a stream with these widths, ranges and this size.
fn xref_stream(widths: &str, index: &str, size: &str) -> Vec<u8> {
    let body =
        "%PDF-1.5\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n";
    let start = body.len();
    format!(
        "{body}3 0 obj<</Type/XRef/Size {size}/W[{widths}]/Index[{index}]/Root 1 0 R/Length 0>>stream\n\nendstream endobj\nstartxref\n{start}\n%%EOF\n"
    )
    .into_bytes()
}

/// Replaces a part of a file of ASCII text, which must be there.
fn replaced(data: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = data.windows(from.len()).position(|window| window == from).unwrap();
    [&data[..at], to, &data[at + from.len()..]].concat()
}

#[test]
fn cross_references_may_lie() {
    check("widths of zero", xref_stream("0 0 0", "0 9223372036854775807", "4"), Damaged);
    check("large widths", xref_stream("1 2147483647 2147483647", "0 4", "4"), Damaged);
    check("large size", xref_stream("1 2 1", "0 4", "9223372036854775807"), Damaged);
    let plain = hello().bytes();
    let start = plain.windows(9).rposition(|window| window == b"startxref").unwrap();
    let table = plain.windows(5).position(|window| window == b"xref\n").unwrap();
    check("loop", replaced(&plain, b"/Root 1 0 R", format!("/Root 1 0 R/Prev {table}").as_bytes()), Hello);
    check("large subsection", replaced(&plain, b"xref\n0 6\n", b"xref\n0 4294967295\n"), Hello);
    check("missing", plain[..start].to_vec(), Hello);
    check("itself", [&plain[..start], format!("startxref\n{start}\n%%EOF\n").as_bytes()].concat(), Hello);
    check("late header", [&[b'x'; 1_000][..], &plain].concat(), Hello);
    check("only a header", b"%PDF-1.7\n".to_vec(), Damaged);
    check("empty", Vec::new(), Damaged);
    let content = |dict: &str| hello().set(5, format!("{dict}stream\n{HELLO}endstream")).bytes();
    check("length of itself", content("<</Length 5 0 R>>"), Hello);
    check("negative length", content("<</Length -1>>"), Hello);
    check("large length", content("<</Length 99999999999>>"), Hello);
    check("chain of references", hello().set(5, "6 0 R").set(6, "7 0 R").set(7, "5 0 R").bytes(), Damaged);
}

/// A file whose catalog and pages are in an object stream.
fn object_stream(extends: &str, entry: &[u8]) -> Vec<u8> {
    let inner = "1 0 2 29 <</Type/Catalog/Pages 2 0 R>><</Type/Pages/Kids[]/Count 0>>";
    let mut data = b"%PDF-1.5\n".to_vec();
    data.extend(
        format!(
            "4 0 obj<</Type/ObjStm/N 2/First 9/Length {}{extends}>>stream\n{inner}\nendstream endobj\n",
            inner.len()
        )
        .bytes(),
    );
    let start = data.len();
    let [high, low] = (start as u16).to_be_bytes();
    let rows = [&[0; 4][..], &[2, 0, 4, 0], &[2, 0, 4, 1], &[1, high, low, 0], entry].concat();
    data.extend(
        format!("3 0 obj<</Type/XRef/Size 5/W[1 2 1]/Root 1 0 R/Length {}>>stream\n", rows.len()).bytes(),
    );
    data.extend(rows);
    data.extend(format!("\nendstream endobj\nstartxref\n{start}\n%%EOF\n").bytes());
    data
}

#[test]
fn object_streams_may_contain_themselves() {
    check("extends itself", object_stream("/Extends 4 0 R", &[1, 0, 9, 0]), Damaged);
    check("in itself", object_stream("", &[2, 0, 4, 0]), Damaged);
}

#[test]
fn streams_that_decode_to_too_much_are_left_out() {
    let spaces = deflate(&vec![b' '; 160 << 20]);
    check("Flate", page("").set(5, raw_stream(&spaces, "/Filter/FlateDecode")).bytes(), Limit);
    check(
        "Flate twice",
        page("").set(5, raw_stream(&deflate(&spaces), "/Filter[/FlateDecode/FlateDecode]")).bytes(),
        Limit,
    );
    let filters = |name: &str, count: usize| format!("/Filter[{}]", name.repeat(count));
    check(
        "1,000 filters",
        page("").set(5, raw_stream(&[b'3'; 20], &filters("/ASCIIHexDecode", 1_000))).bytes(),
        Limit,
    );
    check(
        "1,000,000 filters",
        page("").set(5, raw_stream(b"\x81A", &filters("/RunLengthDecode", 1_000_000))).bytes(),
        Limit,
    );
    let predictor = "/DecodeParms<</Predictor 15/Columns 2147483647/Colors 32/BitsPerComponent 16>>";
    check("predictor", page("").set(5, stream(HELLO, predictor)).bytes(), Damaged);
    let lzw = [&b"\x80\x0b\x60\x50"[..], &b"\x22\x0c".repeat(1_499_998)].concat();
    check("LZW", page("").set(5, raw_stream(&lzw, "/Filter/LZWDecode")).bytes(), Damaged);
    // the same bombs in a page with other contents, and as a font
    let beside = page(HELLO).set(6, raw_stream(&spaces, "/Filter/FlateDecode"));
    let contents = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents[6 0 R 5 0 R 6 0 R]/Resources<</Font<</F1 4 0 R>>>>>>";
    check("beside text", beside.clone().set(3, contents).bytes(), Hello);
    let font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding/ToUnicode 6 0 R>>";
    check("font", beside.set(4, font).bytes(), NoText);
}

#[test]
fn floods_of_content_end_at_the_limits() {
    check(
        "glyphs",
        page(format!("BT /F1 1 Tf {}ET", format!("({}) Tj\n", "a".repeat(1_000)).repeat(20_000))).bytes(),
        Text,
    );
    check("operators", page("0 g\n".repeat(30_000_000)).bytes(), Limit);
    check(
        "lines",
        page(format!("BT /F1 1 Tf 0 800 Td {}ET", "1 -1 Td (a b) Tj\n".repeat(1_000_000))).bytes(),
        Text,
    );
    let scattered: String = (0..300_000_u64)
        .map(|at| format!("1 0 0 1 {} {} Tm (w) Tj\n", at * 7_919 % 595, at * 104_729 % 842))
        .collect();
    check("scattered", page(format!("BT /F1 1 Tf {scattered}ET")).bytes(), Text);
    let odd = "BT /F1 1e308 Tf 99999999999999999999999999 -.-5 Td (odd) Tj --5 0 Td (\\777\\8) Tj 0 0 0 0 0 0 Tm (zero) Tj 1e-320 0 0 1e-320 0 0 Tm (tiny) Tj ET\n";
    check("numbers", page(odd.to_owned() + HELLO).bytes(), Hello);
    check(
        "inline image",
        page(HELLO.to_owned() + "BI /W 10000000 /H 10000000 /BPC 8 /CS /RGB ID " + &"x".repeat(1_000))
            .bytes(),
        Hello,
    );
    let image = "/Type/XObject/Subtype/Image/Width 2000000000/Height 2000000000/BitsPerComponent 16/ColorSpace/DeviceCMYK";
    let drawn = page_with(
        HELLO.to_owned() + "q 9 0 0 9 0 0 cm /I Do Q",
        "/Font<</F1 4 0 R>>/XObject<</I 6 0 R>>",
        "",
    );
    check("image", drawn.set(6, stream([0; 1_000], image)).bytes(), Hello);
    let box_ = "<</Type/Page/Parent 2 0 R/MediaBox[1e30 -1e30 0 1e308]/Contents 5 0 R/Rotate 45/Resources<</Font<</F1 4 0 R>>>>>>";
    check("box of the page", hello().set(3, box_).bytes(), Damaged);
}

#[test]
fn resources_may_use_themselves() {
    let form = |kid: u32| FORM.replace("%d", &kid.to_string());
    let of_page = |content: &str| page_with(content, "/XObject<</X 6 0 R>>", "");
    check("form", of_page("/X Do").set(6, stream(HELLO.to_owned() + "/X Do", &form(6))).bytes(), Hello);
    let exponential = (0..30).fold(of_page("/X Do"), |file, level| {
        let content = if level < 29 { "/X Do ".repeat(10) } else { HELLO.to_owned() };
        file.set(6 + level, stream(content, &form(7 + level)))
    });
    check("forms", exponential.bytes(), Limit);
    let type_3 = "<</Type/Font/Subtype/Type3/FontBBox[0 0 9 9]/FontMatrix[.1 0 0 .1 0 0]/FirstChar 97/LastChar 97/Widths[9]/Encoding<</Differences[97/a]>>/CharProcs<</a 6 0 R>>/Resources<</Font<</F1 4 0 R>>>>>>";
    let letters = page("BT /F1 12 Tf 72 720 Td (a) Tj ET")
        .set(4, type_3)
        .set(6, stream("9 0 d0 BT /F1 1 Tf (aaaa) Tj ET", ""));
    check("font", letters.bytes(), Words("a"));
    let with = |content: &str, resources: &str, objects: &[(u32, Vec<u8>)]| {
        let file = page_with(content.to_owned() + HELLO, &format!("/Font<</F1 4 0 R>>{resources}"), "");
        objects.iter().fold(file, |file, (number, body)| file.set(*number, body.clone())).bytes()
    };
    let pattern = "/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 9 9]/XStep .00001/YStep .00001/Resources<</Pattern<</P 6 0 R>>>>";
    let pattern = stream("/Pattern cs /P scn 0 0 9 9 re f", pattern);
    check(
        "pattern",
        with("/Pattern cs /P scn 0 0 600 800 re f ", "/Pattern<</P 6 0 R>>", &[(6, pattern)]),
        Hello,
    );
    let group = stream(
        "/G gs 0 0 9 9 re f",
        "/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Group<</S/Transparency>>/Resources<</ExtGState<</G 6 0 R>>>>",
    );
    check(
        "mask",
        with(
            "/G gs ",
            "/ExtGState<</G 6 0 R>>",
            &[(6, b"<</SMask<</S/Alpha/G 7 0 R>>>>".to_vec()), (7, group)],
        ),
        Hello,
    );
    check(
        "colours",
        with("/C cs 1 scn ", "/ColorSpace<</C 6 0 R>>", &[(6, b"[/Indexed 6 0 R 255 (x)]".to_vec())]),
        Hello,
    );
    let function =
        b"<</FunctionType 3/Domain[0 1]/Functions[6 0 R 6 0 R]/Bounds[.5]/Encode[0 1 0 1]>>".to_vec();
    check(
        "function",
        with("/C cs 1 scn ", "/ColorSpace<</C[/Separation/x/DeviceRGB 6 0 R]>>", &[(6, function)]),
        Hello,
    );
}

/// A file with a font of two bytes per character, whose map has these lines.
fn composite(content: &str, encoding: &str, descendant: &str, map: &str) -> File {
    let cid = "<</Type/Font/Subtype/CIDFontType2/BaseFont/A/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>/FontDescriptor<</Type/FontDescriptor/FontName/A>>";
    page(content)
        .set(4, format!("<</Type/Font/Subtype/Type0/BaseFont/A/Encoding {encoding}/DescendantFonts[6 0 R]/ToUnicode 7 0 R>>"))
        .set(6, format!("{cid}{descendant}>>"))
        .set(7, stream(cmap(map), ""))
}

fn cmap(map: &str) -> String {
    format!(
        "/CIDInit/ProcSet findresource begin begincmap 1 begincodespacerange <0000><ffff> endcodespacerange {map} endcmap"
    )
}

#[test]
fn fonts_may_lie() {
    let letters = |count: usize| format!("BT /F1 12 Tf 72 720 Td <{}> Tj ET", "0041".repeat(count));
    let amplified = format!("1 beginbfchar <0041><{}> endbfchar", "0042".repeat(500));
    check(
        "long characters",
        composite(&letters(200_000), "/Identity-H", "", &amplified).bytes(),
        Words("BBB"),
    );
    let ranges = format!("100000 beginbfrange {} endbfrange", "<00000000><ffffffff><0041>".repeat(100_000));
    check("ranges", composite(HELLO, "/Identity-H", "", &ranges).bytes(), Text);
    let itself = composite(&letters(9), "8 0 R", "", "")
        .set(8, stream(cmap(""), "/Type/CMap/CMapName/A/UseCMap 8 0 R"));
    check("map of itself", itself.bytes(), NoText);
    let widths = format!("/W[0 4294967295 500 0[{}]]", "1 ".repeat(1_000_000));
    check("widths", composite(HELLO, "/Identity-H", &widths, "").bytes(), NoText);
    let garbage = |kind: &str, file: &str, program: Vec<u8>| {
        let font =
            format!("<</Type/Font/Subtype/{kind}/BaseFont/A/FirstChar 0/LastChar 255/FontDescriptor 6 0 R>>");
        hello()
            .set(4, font)
            .set(6, format!("<</Type/FontDescriptor/FontName/A/Flags 4/{file} 7 0 R>>"))
            .set(7, program)
            .bytes()
    };
    let noise: Vec<u8> = (0..160_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let true_type = [&b"\0\x01\0\0\xff\xff"[..], &noise].concat();
    check("TrueType", garbage("TrueType", "FontFile2", stream(true_type, "")), Hello);
    let compact = [&b"\x01\0\x04\x04\xff\xff\x04"[..], &[255; 70_000]].concat();
    check("CFF", garbage("Type1", "FontFile3", stream(compact, "/Subtype/Type1C")), Hello);
}

#[test]
fn outlines_annotations_and_replacements_are_bounded() {
    let outline = hello()
        .catalog("/Outlines 6 0 R")
        .set(6, "<</First 7 0 R/Last 7 0 R/Count 1>>")
        .set(7, "<</Title(a)/Parent 6 0 R/Next 7 0 R/First 7 0 R>>");
    check("outline", outline.bytes(), Hello);
    let annotations =
        page_with(HELLO, "/Font<</F1 4 0 R>>", &format!("/Annots[{}]", "6 0 R ".repeat(1_000_000)))
            .set(6, "<</Type/Annot/Subtype/FreeText/Rect[0 0 9 9]/AP<</N 7 0 R>>>>")
            .set(
                7,
                stream(HELLO, "/Type/XObject/Subtype/Form/BBox[0 0 600 900]/Resources<</Font<</F1 4 0 R>>>>"),
            );
    check("annotations", annotations.bytes(), Hello);
    let cycle = page_with(HELLO, "/Font<</F1 4 0 R>>", "/Annots 6 0 R")
        .set(6, "[6 0 R 7 0 R]")
        .set(7, "<</Parent 7 0 R/Kids[7 0 R]>>");
    check("annotations of themselves", cycle.bytes(), Hello);
    check(
        "invisible",
        page(HELLO.to_owned() + "BT 3 Tr /F1 12 Tf 72 700 Td (invisible words) Tj ET").bytes(),
        Hello,
    );
    let again = "/Span <</ActualText (again)>> BDC BT /F1 1 Tf (x) Tj ET EMC\n".repeat(100_000);
    let words = format!("/Span <</ActualText ({})>> BDC {HELLO}EMC\n{again}", "words ".repeat(100_000));
    check("replacement", page(words).bytes(), Words("words words"));
}

#[test]
fn floods_of_objects_end() {
    let drawn = page_with("q 500 0 0 700 40 40 cm /I Do Q", "/XObject<</I 6 0 R>>", "");
    let image = "/Type/XObject/Subtype/Image/Width 100/Height 100/BitsPerComponent 8/ColorSpace/DeviceGray";
    check("image", drawn.set(6, stream([170; 10_000], image)).bytes(), NoText);
    let noise: Vec<u8> = (0..1_280_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    check("noise", [&b"%PDF-1.4\n"[..], &noise].concat(), Damaged);
    check("objects", (10..1_000_010).fold(hello(), |file, number| file.set(number, "[]")).bytes(), Hello);
    check("openings", format!("%PDF-1.4\n{}", "1 0 obj<<".repeat(1_000_000)).into_bytes(), Damaged);
    check("open string", format!("%PDF-1.4\n1 0 obj({}", "(".repeat(2_000_000)).into_bytes(), Damaged);
}
