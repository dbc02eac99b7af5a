//! A marker word for each feature of OpenDocument files.

use serde_json::json;
use weir_documents::Failure;

use crate::files::{check_settings, odf, pages, read, warnings};

#[test]
fn text_documents_keep_their_structure() {
    let styles = r#"<style:style style:name="P9" style:family="paragraph"><style:paragraph-properties fo:break-before="page"/></style:style>
        <style:style style:name="P8" style:family="paragraph" style:parent-style-name="Title"/>
        <style:style style:name="T9" style:family="text"><style:text-properties text:display="none"/></style:style>
        <text:list-style style:name="L1"><text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/><text:list-level-style-number text:level="2" style:num-format="a" text:display-levels="2" style:num-suffix=")"/></text:list-style>
        <text:list-style style:name="L2"><text:list-level-style-bullet text:level="1"/></text:list-style>"#;
    let body = r#"<text:tracked-changes><text:deletion><text:p>Mdeleted</text:p></text:deletion></text:tracked-changes>
        <text:p text:style-name="P8">Mtitle</text:p><text:h text:outline-level="2">Mheading</text:h>
        <text:p>Mparagraph  with<text:s text:c="3"/>spaces<text:tab/>tab<text:line-break/>line <text:span text:style-name="T9">Mhidden</text:span><text:change-start/>Minserted</text:p>
        <text:list text:style-name="L1"><text:list-item><text:p>Mone</text:p><text:list><text:list-item><text:p>Mone-a</text:p></text:list-item><text:list-item><text:p>Mone-b</text:p></text:list-item></text:list></text:list-item><text:list-item><text:p>Mtwo</text:p><text:p>Mtwo-more</text:p></text:list-item></text:list>
        <text:p>between</text:p><text:list text:style-name="L1" text:continue-numbering="true"><text:list-item><text:p>Mthree</text:p></text:list-item></text:list>
        <text:list text:style-name="L2"><text:list-item><text:p>Mbullet</text:p></text:list-item></text:list>
        <text:p>Mnoted<text:note text:note-class="footnote"><text:note-citation>1</text:note-citation><text:note-body><text:p>Mfoot</text:p><text:p>note</text:p></text:note-body></text:note> on<office:annotation><dc:creator>x</dc:creator><dc:date>2024</dc:date><text:p>Mcomment</text:p></office:annotation></text:p>
        <table:table table:name="T"><table:table-row><table:table-cell><text:p>year</text:p></table:table-cell><table:table-cell table:number-columns-spanned="2"><text:p>place</text:p></table:table-cell><table:covered-table-cell/><table:table-cell><text:p>flow</text:p></table:table-cell></table:table-row></table:table>
        <text:p>Mpage<text:soft-page-break/>two<draw:frame><svg:desc>Malternative</svg:desc><draw:text-box><text:p>Mtextbox</text:p></draw:text-box></draw:frame></text:p>
        <text:section text:display="none"><text:p>Mhidden</text:p></text:section><text:p text:style-name="P9">Mthird</text:p>"#;
    let meta = "<office:meta><dc:title>A title</dc:title><meta:initial-creator>One</meta:initial-creator><meta:creation-date>2024-03-01</meta:creation-date><dc:creator>Two</dc:creator><dc:date>2024-03-02</dc:date></office:meta>";
    let file = odf("text", body, styles, &[("meta.xml", meta)]);
    let extracted = read(&file, "features.odt").unwrap();
    check_settings(&file, "features.odt", 2);
    assert_eq!(
        pages(&extracted),
        [
            "# Mtitle\n\n## Mheading\n\nMparagraph with spaces\ttab\nline Minserted\n\n1. Mone\n  1.a) Mone-a\n  1.b) Mone-b\n2. Mtwo\n\nMtwo-more\n\nbetween\n\n3. Mthree\n- Mbullet\n\nMnoted on\n\n[footnote: Mfoot note]\n\n[comment: Mcomment]\n\nyear\tplace\t\tflow\n\nMpage",
            "two\n\nMtextbox\n\n",
            "Mthird"
        ]
    );
    assert!(extracted.pages.iter().all(|page| page.approximate));
    assert_eq!(warnings(&extracted), [("hidden_text", 2)]);
    assert_eq!(
        json!(extracted.metadata),
        json!({"author": "One", "created": "2024-03-01", "modified": "2024-03-02"})
    );
}

#[test]
fn sheets_are_pages_with_the_text_of_their_cells() {
    let styles = r#"<style:style style:name="ta2" style:family="table"><style:table-properties table:display="false"/></style:style>"#;
    let cell = |attributes: &str, text: &str| {
        format!("<table:table-cell{attributes}><text:p>{text}</text:p></table:table-cell>")
    };
    let body = format!(
        r#"<table:table table:name="Msheet"><table:table-row>{}<table:table-cell table:number-columns-repeated="2"/>{}</table:table-row>
        <table:table-row table:visibility="collapse">{}</table:table-row><table:table-row table:number-rows-repeated="2">{}</table:table-row>
        <table:table-row table:number-rows-repeated="1048000"><table:table-cell table:number-columns-repeated="16384"/></table:table-row></table:table>
        <table:table table:name="Mhidden" table:style-name="ta2"><table:table-row>{}</table:table-row></table:table>
        <table:table table:name="Mlast"><table:table-row><table:table-cell><office:annotation><text:p>Mcomment</text:p></office:annotation><text:p>3</text:p></table:table-cell></table:table-row></table:table>"#,
        cell("", "1. March"),
        cell("", "12,50 %"),
        cell("", "Mhiddenrow"),
        cell(r#" table:number-columns-repeated="2""#, "x"),
        cell("", "Mhiddensheet"),
    );
    let file = odf("spreadsheet", &body, styles, &[]);
    let extracted = read(&file, "features.ods").unwrap();
    check_settings(&file, "features.ods", 3);
    assert_eq!(
        pages(&extracted),
        ["# Msheet\n\n1. March\t\t\t12,50 %\nx\tx\nx\tx\n\n", "# Mlast\n\n3 [comment: Mcomment]"]
    );
    assert_eq!(warnings(&extracted), [("hidden_text", 2)]);
    assert_eq!(extracted.pages[0].label.as_deref(), Some("Msheet"));
}

#[test]
fn slides_are_pages_with_their_notes() {
    let styles = r#"<style:style style:name="dp2" style:family="drawing-page"><style:drawing-page-properties presentation:visibility="hidden"/></style:style>"#;
    let body = r#"<draw:page draw:name="page1"><draw:frame presentation:class="title"><draw:text-box><text:p>Mtitle</text:p></draw:text-box></draw:frame>
        <draw:frame presentation:class="outline"><draw:text-box><text:list><text:list-item><text:p>Mpoint</text:p></text:list-item></text:list></draw:text-box></draw:frame>
        <draw:frame presentation:class="page-number"><draw:text-box><text:p>9</text:p></draw:text-box></draw:frame>
        <presentation:notes><draw:frame presentation:class="notes"><draw:text-box><text:p>Mnotes</text:p></draw:text-box></draw:frame></presentation:notes></draw:page>
        <draw:page draw:style-name="dp2"><draw:custom-shape><text:p>Mhidden</text:p></draw:custom-shape></draw:page><draw:page><draw:custom-shape><text:p>Mthird</text:p></draw:custom-shape></draw:page>"#;
    let file = odf("presentation", body, styles, &[]);
    let extracted = read(&file, "features.odp").unwrap();
    check_settings(&file, "features.odp", 1);
    assert_eq!(pages(&extracted), ["# Mtitle\n\n- Mpoint\n\nNotes: Mnotes\n\n", "", "Mthird"]);
    assert_eq!(warnings(&extracted), [("hidden_text", 1)]);
}

#[test]
fn encrypted_files_are_named_so() {
    let manifest = r#"<manifest:manifest><manifest:file-entry manifest:full-path="content.xml"><manifest:encryption-data/></manifest:file-entry></manifest:manifest>"#;
    let file = odf("text", "<text:p>x</text:p>", "", &[("META-INF/manifest.xml", manifest)]);
    assert_eq!(read(&file, "secret.odt"), Err(Failure::Encrypted));
}
