//! A marker word for each feature of office files, and where it belongs in the text.

use serde_json::json;

use crate::files::{
    W, archive, check_settings, docx, epub, pages, paragraph, pptx, read, relationships, shape, slide,
    warnings,
};

fn with(properties: &str, text: &str) -> String {
    format!(r#"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"#)
}

/// Two lists: one of bullets, one of numbers; a third begins the second anew at 7.
fn numbering() -> String {
    format!(
        r#"<w:numbering {W}><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:numFmt w:val="bullet"/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="bullet"/></w:lvl></w:abstractNum>
        <w:abstractNum w:abstractNumId="1"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl><w:lvl w:ilvl="1"><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl></w:abstractNum>
        <w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num><w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num>
        <w:num w:numId="3"><w:abstractNumId w:val="1"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="7"/></w:lvlOverride></w:num></w:numbering>"#
    )
}

fn styles() -> String {
    format!(
        r#"<w:styles {W}><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style><w:style w:styleId="sub"><w:name w:val="Sub"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style>
        <w:style w:styleId="derived"><w:name w:val="Own"/><w:basedOn w:val="sub"/></w:style><w:style w:styleId="invisible"><w:name w:val="Inv"/><w:rPr><w:vanish/></w:rPr></w:style></w:styles>"#
    )
}

#[test]
fn word_documents_keep_their_structure() {
    let item = |level: usize, list: usize, text: &str| {
        with(&format!(r#"<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{list}"/></w:numPr>"#), text)
    };
    let body = [
        with(r#"<w:pStyle w:val="berschrift1"/>"#, "Mheading"),
        with(r#"<w:pStyle w:val="derived"/>"#, "Mderived"),
        with(r#"<w:tabs><w:tab w:val="left"/></w:tabs>"#, "Mparagraph"),
        item(0, 1, "Mbullet"),
        item(1, 1, "Mdeeper"),
        item(0, 2, "Mone"),
        item(1, 2, "Mone-a"),
        item(1, 2, "Mone-b"),
        item(0, 2, "Mtwo"),
        item(0, 3, "Mrestarted"),
        r#"<w:p><w:r><w:t>Mnoted</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r><w:r><w:t xml:space="preserve"> on</w:t></w:r><w:r><w:endnoteReference w:id="2"/></w:r></w:p>"#.to_owned(),
        r#"<w:p><w:r><w:t>Mcommented</w:t></w:r><w:r><w:commentReference w:id="0"/></w:r></w:p>"#.to_owned(),
        r#"<w:p><w:ins><w:r><w:t>Minserted</w:t></w:r></w:ins><w:del><w:r><w:delText>Mdeleted</w:delText></w:r></w:del></w:p>"#.to_owned(),
        r#"<w:p><w:hyperlink><w:r><w:t>Mlink</w:t></w:r></w:hyperlink><w:r><w:instrText>Minstruction</w:instrText></w:r><w:r><w:tab/><w:t>Mresult</w:t><w:br/><w:t>Mline</w:t></w:r></w:p>"#.to_owned(),
        format!("<w:p><w:r><mc:AlternateContent><mc:Choice><w:txbxContent>{0}</w:txbxContent></mc:Choice><mc:Fallback><w:txbxContent>{0}</w:txbxContent></mc:Fallback></mc:AlternateContent></w:r></w:p>", paragraph("Mtextbox")),
        format!("<w:sdt><w:sdtContent>{}</w:sdtContent></w:sdt>", paragraph("Mcontrol")),
        r#"<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>Mhidden</w:t></w:r><w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t>Mshown</w:t></w:r></w:p>"#.to_owned(),
        r#"<w:p><w:r><w:rPr><w:rStyle w:val="invisible"/></w:rPr><w:t>Mhidden</w:t></w:r></w:p>"#.to_owned(),
    ]
    .concat();
    let (numbering, styles) = (numbering(), styles());
    let note = |kind: &str, id: u8, text: &str| {
        format!(r#"<w:{kind}s {W}><w:{kind} w:id="{id}">{}</w:{kind}></w:{kind}s>"#, paragraph(text))
    };
    let file = docx(
        &body,
        &[
            (
                "word/_rels/document.xml.rels",
                &relationships(&[
                    ("styles", "styles.xml"),
                    ("numbering", "numbering.xml"),
                    ("footnotes", "footnotes.xml"),
                    ("endnotes", "endnotes.xml"),
                    ("comments", "comments.xml"),
                    ("header", "header1.xml"),
                ]),
            ),
            ("word/styles.xml", &styles),
            ("word/numbering.xml", &numbering),
            ("word/footnotes.xml", &note("footnote", 2, "Mfootnote")),
            ("word/endnotes.xml", &note("endnote", 2, "Mendnote")),
            ("word/comments.xml", &note("comment", 0, "Mcomment")),
            ("word/header1.xml", &format!("<w:hdr {W}>{}</w:hdr>", paragraph("Mheader"))),
            ("word/vbaProject.bin", "macros"),
            (
                "docProps/core.xml",
                "<cp:coreProperties><dc:title>A  title</dc:title><dc:creator>J\u{fc}rgen</dc:creator><dcterms:created>2024-03-01T10:00:00Z</dcterms:created><dcterms:modified>2024-03-02T10:00:00Z</dcterms:modified></cp:coreProperties>",
            ),
        ],
    );
    let extracted = read(&file, "features.docx").unwrap();
    let expected = "# Mheading\n\n## Mderived\n\nMparagraph\n\n- Mbullet\n  - Mdeeper\n1. Mone\n  1.a) Mone-a\n  1.b) Mone-b\n2. Mtwo\n7. Mrestarted\n\nMnoted on\n\n[footnote: Mfootnote]\n\n[endnote: Mendnote]\n\nMcommented\n\n[comment: Mcomment]\n\nMinserted\n\nMlink\tMresult\nMline\n\nMtextbox\n\nMcontrol\n\nMshown";
    assert_eq!(extracted.text, expected);
    assert_eq!(warnings(&extracted), [("macros", 1), ("hidden_text", 2)]);
    check_settings(&file, "features.docx", 2);
    assert_eq!(extracted.title.as_deref(), Some("A title"));
    assert_eq!(
        json!(extracted.metadata),
        json!({"author": "J\u{fc}rgen", "created": "2024-03-01T10:00:00Z", "modified": "2024-03-02T10:00:00Z"})
    );
    assert!(extracted.pages.is_empty(), "no page break is known");
}

#[test]
fn tables_are_rows_with_tabs_and_nested_ones_stay_in_their_cell() {
    let cell = |content: &str| format!("<w:tc>{content}</w:tc>");
    let row = |cells: &[String]| format!("<w:tr>{}</w:tr>", cells.concat());
    let nested = format!(
        "<w:tbl>{}</w:tbl>{}",
        row(&[cell(&paragraph("Mnested")), cell(&paragraph("Mwithin"))]),
        paragraph("")
    );
    let table = [
        row(&[cell(&paragraph("year")), cell(&paragraph("place")), cell(&paragraph("flow"))]),
        row(&[
            cell(&format!("{}{}", paragraph("1900"), paragraph("spring"))),
            cell(&nested),
            cell(&paragraph("3.5")),
        ]),
        row(&[
            format!(r#"<w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>{}</w:tc>"#, paragraph("merged")),
            cell(&paragraph("4")),
        ]),
        row(&[cell(&paragraph("")), cell(&paragraph("alone")), cell(&paragraph(""))]),
    ]
    .concat();
    let file = docx(&format!("{}<w:tbl>{table}</w:tbl>{}", paragraph("before"), paragraph("after")), &[]);
    assert_eq!(
        read(&file, "table.docx").unwrap().text,
        "before\n\nyear\tplace\tflow\n1900 spring\tMnested Mwithin\t3.5\nmerged\t\t4\n\talone\n\nafter"
    );
}

#[test]
fn pages_of_word_documents_are_approximate() {
    let body = [
        r#"<w:p><w:r><w:t>one</w:t><w:br w:type="page"/></w:r></w:p>"#.to_owned(),
        // a program that shows the file marks the same break again
        r#"<w:p><w:r><w:lastRenderedPageBreak/><w:t xml:space="preserve">two, it </w:t></w:r><w:r><w:lastRenderedPageBreak/><w:t>goes on</w:t></w:r></w:p>"#.to_owned(),
        with("<w:pageBreakBefore/>", "four"),
        r#"<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc></w:tr><w:tr><w:tc><w:p><w:r><w:lastRenderedPageBreak/><w:t>b</w:t></w:r></w:p></w:tc></w:tr><w:tr><w:tc><w:p><w:r><w:t>c</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"#.to_owned(),
    ]
    .concat();
    let extracted = read(&docx(&body, &[]), "pages.docx").unwrap();
    assert_eq!(pages(&extracted), ["one\n\n", "two, it ", "goes on\n\n", "four\n\na\nb\n", "c"]);
    assert!(extracted.pages.iter().all(|page| page.approximate && page.label.is_none()));
}

#[test]
fn slides_are_pages_with_their_notes_and_comments() {
    let table = r#"<p:graphicFrame><a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>Mcell1</a:t></a:r></a:p></a:txBody></a:tc><a:tc gridSpan="2"><a:txBody><a:p><a:r><a:t>Mcell2</a:t></a:r></a:p></a:txBody></a:tc><a:tc hMerge="1"><a:txBody><a:p/></a:txBody></a:tc></a:tr></a:tbl></p:graphicFrame>"#;
    let list = r#"<p:sp><p:nvSpPr><p:nvPr><p:ph idx="1"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>Mpoint</a:t></a:r></a:p><a:p><a:pPr lvl="1"/><a:r><a:t>Msub</a:t></a:r></a:p><a:p><a:pPr><a:buNone/></a:pPr><a:r><a:t>Mplain</a:t></a:r></a:p><a:p><a:pPr><a:buAutoNum type="arabicPeriod"/></a:pPr><a:r><a:t>Mfirst</a:t></a:r></a:p><a:p><a:pPr><a:buAutoNum type="arabicPeriod"/></a:pPr><a:r><a:t>Msecond</a:t></a:r></a:p></p:txBody></p:sp>"#;
    let hidden_shape = r#"<p:sp><p:nvSpPr><p:cNvPr id="3" name="x" hidden="1"/><p:nvPr/></p:nvSpPr><p:txBody><a:p><a:r><a:t>Mhiddenshape</a:t></a:r></a:p></p:txBody></p:sp>"#;
    let slides = [
        slide(
            &[
                shape(r#"<p:ph type="title"/>"#, "Msecondslide"),
                table.to_owned(),
                format!("<p:grpSp>{}</p:grpSp>", shape("", "Mgrouped")),
            ]
            .concat(),
            "",
        ),
        slide(
            &[
                shape(r#"<p:ph type="body"/>"#, "Mbody"),
                shape(r#"<p:ph type="title"/>"#, "Mfirstslide"),
                shape(r#"<p:ph type="sldNum"/>"#, "99"),
                list.to_owned(),
                hidden_shape.to_owned(),
            ]
            .concat(),
            "",
        ),
        slide(&shape("", "Mhiddenslide"), r#" show="0""#),
    ];
    let notes = format!(
        "<p:notes>{}{}</p:notes>",
        shape(r#"<p:ph type="body"/>"#, "Mnotes"),
        shape(r#"<p:ph type="sldNum"/>"#, "7")
    );
    let file = pptx(
        &slides,
        &[2, 1, 3, 9],
        &[
            (
                "ppt/slides/_rels/slide2.xml.rels",
                &relationships(&[
                    ("notesSlide", "../notesSlides/notesSlide1.xml"),
                    ("comments", "../comments/comment1.xml"),
                ]),
            ),
            ("ppt/notesSlides/notesSlide1.xml", &notes),
            ("ppt/comments/comment1.xml", "<p:cmLst><p:cm><p:text>Mcomment</p:text></p:cm></p:cmLst>"),
        ],
    );
    let extracted = read(&file, "features.pptx").unwrap();
    assert_eq!(
        pages(&extracted),
        [
            "# Mfirstslide\n\nMbody\n\n- Mpoint\n  - Msub\n\nMplain\n\n1. Mfirst\n2. Msecond\n\nNotes: Mnotes\n\n[comment: Mcomment]\n\n",
            "# Msecondslide\n\nMcell1\tMcell2\n\nMgrouped",
            "",
            ""
        ]
    );
    assert_eq!(warnings(&extracted), [("hidden_text", 2), ("broken_page", 1)]);
    check_settings(&file, "features.pptx", 2);
}

#[test]
fn sheets_are_pages_with_the_values_that_a_reader_sees() {
    let cells = r#"<cols><col min="7" max="8" hidden="1"/></cols><sheetData>
        <row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" s="1"><v>45353</v></c><c r="C1" s="2"><v>0.125</v></c><c r="D1" s="3"><v>1234567.891</v></c><c r="E1" s="4"><v>45353.75</v></c><c r="G1"><v>77</v></c></row>
        <row r="3"><c r="A3" t="b"><v>1</v></c><c r="C3" t="str"><f>CONCAT("x")</f><v>Mformula</v></c><c r="D3" t="e"><v>#DIV/0!</v></c><c r="E3"><v>0.30000000000000004</v></c></row>
        <row r="4" hidden="1"><c r="A4" t="inlineStr"><is><t>Mhiddenrow</t></is></c></row>
        <row r="5"><c r="C5" t="inlineStr"><is><r><t>Min</t></r><r><t>line</t></r></is></c></row></sheetData><mergeCells><mergeCell ref="A1:A2"/></mergeCells>"#;
    let styles = r##"<styleSheet><numFmts><numFmt numFmtId="164" formatCode="yyyy\-mm\-dd"/><numFmt numFmtId="165" formatCode="#,##0.00 &quot;EUR&quot;"/></numFmts><cellStyleXfs><xf numFmtId="9"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="164"/><xf numFmtId="10"/><xf numFmtId="165"/><xf numFmtId="22"/></cellXfs></styleSheet>"##;
    let file = archive(&[
        ("_rels/.rels", &relationships(&[("officeDocument", "xl/workbook.xml")])),
        (
            "xl/workbook.xml",
            r#"<workbook><sheets><sheet name="Msheet" sheetId="1" r:id="rId1"/><sheet name="Mhidden" sheetId="2" state="veryHidden" r:id="rId2"/><sheet name="Mlast" sheetId="3" r:id="rId5"/></sheets></workbook>"#,
        ),
        (
            "xl/_rels/workbook.xml.rels",
            &relationships(&[
                ("worksheet", "worksheets/sheet1.xml"),
                ("worksheet", "worksheets/sheet2.xml"),
                ("sharedStrings", "sharedStrings.xml"),
                ("styles", "styles.xml"),
                ("worksheet", "/xl/worksheets/sheet2.xml"),
            ]),
        ),
        ("xl/worksheets/sheet1.xml", &format!("<worksheet>{cells}</worksheet>")),
        (
            "xl/worksheets/sheet2.xml",
            r#"<worksheet><dimension ref="B2:C2"/><sheetData><row r="2"><c r="B2"><v>7</v></c><c r="C2"><v>8</v></c></row></sheetData></worksheet>"#,
        ),
        ("xl/worksheets/_rels/sheet1.xml.rels", &relationships(&[("comments", "../comments1.xml")])),
        (
            "xl/comments1.xml",
            r#"<comments><authors><author>a</author></authors><commentList><comment ref="A1"><text><r><t>Mcellcomment</t></r></text></comment><comment ref="Z9"><text><t>Mlonely</t></text></comment></commentList></comments>"#,
        ),
        (
            "xl/sharedStrings.xml",
            "<sst><si><r><t>Mrich</t></r><r><t> text</t></r><rPh><t>Mphonetic</t></rPh></si></sst>",
        ),
        ("xl/styles.xml", styles),
    ]);
    let extracted = read(&file, "features.xlsx").unwrap();
    assert_eq!(
        pages(&extracted),
        [
            "# Msheet\n\nMrich text [comment: Mcellcomment]\t2024-03-02\t12.50%\t1,234,567.89 EUR\t2024-03-02 18:00\nTRUE\t\tMformula\t#DIV/0!\t0.3\n\t\tMinline\n\n[comment: Mlonely]\n\n",
            "# Mlast\n\n7\t8"
        ]
    );
    let labels: Vec<_> = extracted.pages.iter().map(|page| page.label.as_deref().unwrap()).collect();
    assert_eq!(labels, ["Msheet", "Mlast"]);
    assert_eq!(warnings(&extracted), [("hidden_text", 3)]);
    check_settings(&file, "features.xlsx", 2);
}

#[test]
fn chapters_of_books_are_pages_in_the_order_of_reading() {
    let description = r#"<package><metadata><dc:title>A book</dc:title><dc:creator>One</dc:creator><dc:creator>Two</dc:creator><dc:date>2001</dc:date><meta property="dcterms:modified">2024-01-01</meta></metadata>
        <manifest><item id="a" href="text/a%20b.xhtml"/><item id="b" href="text/b.xhtml#x"/><item id="c" href="none.xhtml"/></manifest><spine><itemref idref="b"/><itemref idref="a"/><itemref idref="a"/><itemref idref="c"/></spine></package>"#;
    let file = epub(
        description,
        &[
            (
                "o/text/a b.xhtml",
                "<html><head><title/><script src='x'/></head><body><h1>Mlast</h1><p>on<b>e</b> two</p></body></html>",
            ),
            (
                "o/text/b.xhtml",
                "<?xml version='1.0' encoding='iso-8859-1'?><html><body><p>Mfirst</p><ul><li>x</li></ul></body></html>",
            ),
        ],
    );
    let extracted = read(&file, "book.epub").unwrap();
    assert_eq!(extracted.title.as_deref(), Some("A book"));
    assert_eq!(
        json!(extracted.metadata),
        json!({"author": ["One", "Two"], "created": "2001", "modified": "2024-01-01"})
    );
    let labels: Vec<_> = extracted.pages.iter().map(|page| page.label.as_deref().unwrap()).collect();
    assert_eq!(labels, ["text/b.xhtml", "text/a b.xhtml", "none.xhtml"]);
    let texts = pages(&extracted);
    assert!(
        texts[0].starts_with("Mfirst") && texts[1].contains("Mlast") && texts[1].contains("one two"),
        "{texts:?}"
    );
    assert_eq!(warnings(&extracted), [("broken_page", 1)]);
}

#[test]
fn rtf_keeps_its_structure() {
    let file = br"{\rtf1\ansi\ansicpg1252\deff0{\fonttbl{\f0\fcharset0 Arial;}{\f1\fcharset204 Arial Cyr;}{\f2\fcharset128 MS;}}
{\stylesheet{\s0 Normal;}{\s1\sb100 heading 1;}{\s2 Other;}}{\info{\title A title}{\author Jos\'e9}{\creatim\yr2024\mo3\dy1\hr10\min5}}
{\header Mheader\par}\pard\s1 Mheading\par\pard\outlinelevel1 Msub\par
\pard Mplain caf\'e9 {\f1 \'f0\'e5\'ea\'e0} {\f2 \'90\'ec} \u8364? \u-10179?\u-8942? {\b bold}\line next{\v Mhidden}{\deleted Mdeleted}\par
{\listtext\pard 1.\tab}\pard\ls1 Mone\par{\listtext\pard 2.\tab}Mtwo\par{\listtext\'b7\tab}\ilvl1 Mbullet\par
\pard Mnoted{\footnote\pard Mfootnote}{\*\annotation Mcomment}\par
{\field{\*\fldinst Minstruction}{\fldrslt Mresult}}\par
\trowd\cellx100\cellx200\pard\intbl a\cell b\par c\cell\row\trowd\pard\intbl\cell d\cell\row\pard after{\pict 00ff}\page last\'}
";
    let extracted = read(file, "features.rtf").unwrap();
    assert_eq!(
        pages(&extracted),
        [
            "# Mheading\n\n## Msub\n\nMplain caf\u{e9} \u{440}\u{435}\u{43a}\u{430} \u{5ddd} \u{20ac} \u{1f512} bold\nnext\n\n1. Mone\n2. Mtwo\n  - Mbullet\n\nMnoted\n\n[footnote: Mfootnote]\n\n[comment: Mcomment]\n\nMresult\n\na\tb c\n\td\n\nafter\n\n",
            "last"
        ]
    );
    assert_eq!(warnings(&extracted), [("hidden_text", 1)]);
    check_settings(file, "features.rtf", 1);
    assert_eq!(extracted.title.as_deref(), Some("A title"));
    assert_eq!(json!(extracted.metadata), json!({"author": "Jos\u{e9}", "created": "2024-03-01T10:05"}));
}
