//! Each rule by example.

use weir_text::HtmlPage;

fn check(source: &str, title: Option<&str>, text: &str) {
    let expected = HtmlPage { title: title.map(str::to_owned), text: text.to_owned() };
    assert_eq!(HtmlPage::parse(source), expected, "{source}");
}

/// Checks the text of a page without a title.
fn check_text(source: &str, text: &str) {
    check(source, None, text);
}

#[test]
fn inline_elements_neither_add_nor_remove_spaces() {
    check_text("<p>One\n two<em>three</em>.</p>", "One twothree.");
    check_text("<p>a <b> b </b> c<i>\n</i>d</p>", "a b c d");
    check_text("<p> <span>a</span> <span> </span> <span>b</span> </p>", "a b");
    check_text("<p>a<!-- b -->c<wbr>d&#173;e", "acd\u{ad}e");
    check_text("<span>a</span><custom-element>b</custom-element>", "ab");
}

#[test]
fn preformatted_text_is_verbatim() {
    check_text("<pre><span>def</span> <span>f</span>():\n    <i>pass</i></pre>", "def f():\n    pass");
    check_text("<p>a</p><pre>\nx = 1\n\n\n  y\t= 2  \n</pre><p>b</p>", "a\n\nx = 1\n\n\n  y\t= 2\n\nb");
    check_text("<pre>a<span>  </span><span>b</span> </pre> c", "a  b\n\nc");
    check_text("<pre><code><div>a</div><div>  b</div></code></pre>", "a\n  b");
    check_text("<pre>a<br>  b</pre>", "a\n  b");
    check_text("<p>a <code style='color:red; white-space: pre'>b  c</code>  d</p>", "a b  c d");
}

#[test]
fn blocks_begin_lines_and_paragraphs_have_blank_lines() {
    check_text("<div>a<div>b</div>c</div>d", "a\nb\nc\nd");
    check_text("<p>a<p>b<blockquote>c</blockquote><div>d</div>", "a\n\nb\n\nc\n\nd");
    check_text("<h2>a</h2>b<hr>c", "a\n\nb\n\nc");
    check_text("<span>a<div>b</div></span>", "a\nb");
    check_text("<dl><dt>a<dd>b<dt>c<dd>d</dl>", "a\nb\nc\nd");
}

#[test]
fn line_breaks_are_counted() {
    check_text("a<br>b <br/> c", "a\nb\nc");
    check_text("a<br><br>b<br><br><br>c", "a\n\nb\n\nc");
    check_text("<br>a<br><div>b<br></div>c", "a\nb\nc");
}

#[test]
fn list_items_are_lines() {
    check_text("a<ul><li>b <b>c</b></li> <li>d<ol><li>e</ol></li></ul>f", "a\n\nb c\nd\ne\n\nf");
    check_text("<ul><li><p>a</p></li><li><p>b</p></li></ul>", "a\n\nb");
}

#[test]
fn table_cells_are_separated_by_tabs() {
    check_text(
        "x<table><caption>t</caption><tr><th>a <th>b<tr><td>c<td> d</table>y",
        "x\n\nt\na\tb\nc\td\n\ny",
    );
    check_text(
        "<table><tr><td><p>a</p></td> <td><p>b</p><p>c</p></td><td>d</td></tr></table>",
        "a\tb\n\nc\td",
    );
    check_text(
        "<table><tr><td>a</td><td></td><td>b</td></tr><tr><td></td><td>c</td></tr></table>",
        "a\t\tb\n\tc",
    );
    check_text("<table><tr><td>a</td><td></td></tr></table>b", "a\n\nb");
    check_text(
        "<table><tr><td><p>a</p></td><td><p>b</p></td></tr><tr><td><p>c</p></td></tr></table>",
        "a\tb\nc",
    );
    check_text("<table><tr><td>a<td><table><tr><td>b<td>c</table><td>d</table>", "a\nb\tc\td");
}

#[test]
fn no_break_spaces_are_spaces_that_do_not_collapse() {
    check_text("<p>a&nbsp;b&nbsp; &nbsp;c &nbsp;</p><p>&nbsp;</p>d", "a b   c\n\nd");
}

#[test]
fn hidden_elements_are_dropped() {
    for hidden in [
        "<script>x</script>",
        "<style>x</style>",
        "<template>x</template>",
        "<noscript>x</noscript>",
        "<svg><title>x</title><text>x</text></svg>",
        "<div hidden>x</div>",
        "<span aria-hidden=true>x</span>",
        "<p style='color: red; Display : none !important'>x</p>",
        "<dialog>x</dialog>",
        "<select><option>x</select>",
        "<textarea>x</textarea>",
        "<button>x</button>",
        "<math><annotation>x</annotation></math>",
    ] {
        check_text(&format!("<main>a {hidden} b</main>"), "a b");
    }
    check_text("<details><summary>a</summary>b</details><p hidden=until-found>c", "a\nb\n\nc");
    check_text("<h2><button>a</button></h2><p>b <button>c</button>", "a\n\nb");
    check_text("<ruby>漢字<rp>(</rp><rt>かんじ</rt><rp>)</rp></ruby>", "漢字");
}

#[test]
fn navigation_is_dropped() {
    for navigation in [
        "<nav>x</nav>",
        "<footer>x</footer>",
        "<aside>x</aside>",
        "<search>x</search>",
        "<div role='navigation'>x</div>",
        "<div role='none banner'>x</div>",
        "<div role=contentinfo>x</div>",
        "<form role=search>x</form>",
        "<ul class='nav breadcrumb'><li>x</ul>",
        "<div class='contents local topic'>x</div>",
        "<div class=TOC>x</div>",
        "<a class=headerlink href='#a' title='Link to this heading'>x</a>",
        "<a href='#a'>¶</a>",
        "<a href='#a'><span>\u{fe0e}§ </span></a>",
        "<span class=linenos>x</span>",
    ] {
        check_text(&format!("<p>a</p>{navigation}<p>b"), "a\n\nb");
        check_text(&format!("x<main><p>a</p>{navigation}<p>b</main>x"), "a\n\nb");
    }
    check_text("<blockquote>a<footer>b</footer></blockquote>", "a\n\nb");
    check_text("<a href='#a'>a ¶</a> <a href='https://example.org'>#</a>", "a ¶ #");
}

#[test]
fn asides_with_notes_are_kept() {
    check_text("<aside class='footnote brackets'>a</aside>", "a");
    check_text("<aside role=note>a</aside><aside class='starlight-aside'>b</aside>", "a\n\nb");
    check_text("<aside class=sidebar><p class=sidebar-title>a</p>b</aside>", "a\n\nb");
}

#[test]
fn names_of_navigation_count_outside_the_main_element_only() {
    check_text("<div class=sidebar>a</div><div id=footer>b</div><ul id=nav><li>c</ul>d", "d");
    check_text("<main><div class=sidebar>a</div><ul id=toc><li>b</ul></main>", "a\n\nb");
    check_text(
        "<section id=footer><h2 id=pagination>a</h2></section><div class=section id=navigation>b</div>",
        "a\n\nb",
    );
}

#[test]
fn the_text_is_that_of_the_main_element() {
    check_text("a<main>b</main>c<main>d</main>", "b\n\nd");
    check_text("<main>b</main><table><tr><td>x<td><main hidden>c</main><main>d</main></table>", "b\n\nd");
    check_text("a<div role='presentation main'>b</div>c", "b");
    check_text("a<div role=main>b</div><main>c</main>", "c");
    check_text("a<main> </main>", "a");
}

#[test]
fn the_only_article_is_the_text_if_it_has_most_of_it() {
    check_text("short<article>a long <article>text</article></article>", "a long\n\ntext");
    check_text("a longer text<article>short</article>", "a longer text\n\nshort");
    check_text("a<article>b</article><article>c</article>", "a\n\nb\n\nc");
}

#[test]
fn the_header_of_a_site_is_dropped_unless_it_has_the_title() {
    check_text("<header>a</header>b", "b");
    check("<header><h1>a</h1></header>b", Some("a"), "a\n\nb");
    check_text("<section><header>a</header>b</section>", "a\n\nb");
    check_text("<main><header>a</header>b</main>", "a\n\nb");
}

#[test]
fn prose_in_headers_and_footers_is_kept() {
    let prose = "The ferry leaves at noon.";
    for edge in [
        "header",
        "footer",
        "div role=banner",
        "div role=contentinfo",
        "header role=banner",
        "footer class=footer",
    ] {
        let end = edge.split(' ').next().unwrap();
        let with = |inner: &str| {
            format!(
                "<{edge}><h2>x</h2><div><h2>T</h2>{inner}</div><ul><li><a href=/>home page of the site</a></ul></{end}>"
            )
        };
        let of_prose = format!("x\n\nT\n\n{prose}");
        for inner in [
            format!("<p>{prose}</p><p>© 2026 by the owner of the site.</p>"),
            format!("<div>{prose}</div>x y"),
        ] {
            let edge = with(&inner);
            let of_prose = if inner.ends_with('y') { format!("{of_prose}\nx y") } else { of_prose.clone() };
            check_text(&format!("{edge}<p>a"), &format!("{of_prose}\n\na"));
            check_text(
                &format!("x<nav>x</nav>{edge}<main>a</main>x{edge}"),
                &format!("{of_prose}\n\na\n\n{of_prose}"),
            );
            check_text(
                &format!("{edge}<article>long enough to be the article</article>"),
                &format!("{of_prose}\n\nlong enough to be the article"),
            );
        }
    }
    check_text(
        "<main>a<footer><p>Posted by Ada Lovelace in June</p></footer></main>",
        "a\n\nPosted by Ada Lovelace in June",
    );
    check_text("<header><p>船は正午に桟橋を出発します。</p></header>a", "船は正午に桟橋を出発します。\n\na");
    for notice in [
        "<p>© 2026 Example and its contributors.</p>",
        "<p>Created using Sphinx 7.2 on a fine day.</p>",
        "<p><a href=/>One</a> <a href=/>two</a> <a href=/>three</a> <a href=/>four</a> <a href=/>five six</a></p>",
        "<p>Too few words here.</p>",
        "<div>Without an end it needs more words</div>",
        "<nav><p>The way to the pages of this site.</p></nav>",
        "<p hidden>The ferry leaves at noon today.</p>",
    ] {
        check_text(&format!("<header>{notice}</header><main>a</main><footer>{notice}</footer>"), "a");
        check_text(&format!("<header>{notice}</header><p>a</p><footer>{notice}</footer>"), "a");
    }
}

#[test]
fn a_page_of_navigation_alone_is_kept() {
    check_text("<nav>a</nav><div hidden>b</div><script>c</script>", "a\n\nb");
    check_text("<body style='display:none'>a", "a");
}

#[test]
fn the_title_is_that_of_the_page_or_its_first_heading() {
    check("<title> A\n page </title><h1>b</h1>", Some("A page"), "b");
    check(
        "<title> </title><h1> </h1><h1>b <i>c</i><a class=headerlink href='#b'>¶</a></h1>",
        Some("b c"),
        "b c",
    );
    check("<header><h1>a</h1></header><main><h1>b</h1></main>", Some("b"), "b");
    check("<h1>a</h1><main>b</main>", Some("a"), "b");
    check("<svg><title>a</title></svg>b", None, "b");
    check("<p>a<title>b</title>c", Some("b"), "ac");
    check("", None, "");
}

#[test]
fn formatting_elements_have_no_effect_on_text() {
    check_text(
        "<p><b>a<p>b</b> c</p><i>d<div>e</i>f</div>",
        "a\n\nb c\n\nd\ne\nf".replace("\ne\nf", "\nef").as_str(),
    );
    check_text("<p>a<svg><b>b</b></p>", "a");
}

/// Bytes of a page whose time would be noticed if it grew with the square of the length: 30 s for nested elements.
const PAGE_BYTES: usize = 500_000;

#[test]
fn a_page_takes_time_in_proportion_to_its_length() {
    for (part, expected) in [
        ("<div>", "x"),
        ("<b>", "x"),
        ("<p><b id=N>", "x"),
        ("<a href=N><p>", "x"),
        ("<header>", "x"),
        ("<footer>", ""),
        ("<table><tr><td>", "x"),
        ("<aside class=note>", "x"),
        ("<ul><li>", "x"),
        ("<font N>", "x"),
        ("</p></b>", "x"),
        ("<div></div><b>", "x"),
        ("<table><b>", "x"),
        ("<select><option>", ""),
        ("<svg><g>", ""),
        ("<x-N>", "x"),
        ("<form><input>", "x"),
    ] {
        let (mut page, mut number) = (String::new(), 0);
        while page.len() < PAGE_BYTES {
            page.push_str(&part.replace('N', &format!("n{number}")));
            number += 1;
        }
        let text = HtmlPage::parse(&format!("{page}x")).text;
        let found = text.trim();
        assert!(found == expected || expected.is_empty(), "{part}: {}", found.len());
    }
    let attributes: String = (0..150_000).map(|n| format!("a{n} ")).collect();
    check_text(&format!("<p {attributes}>x"), "x");
}

#[test]
fn text_below_the_depth_limit_is_kept_in_order() {
    let (open, close) = ("<div hidden><div>", "</div></div>");
    let deep = format!("a{}b{}c", "<div>".repeat(2_000), "</div>".repeat(2_000));
    check_text(&deep, "a\nb\nc");
    check_text(&format!("{}a<p>b<i>c</i></p>d", "<div>".repeat(2_000)), "a bc d");
    let hidden = format!("a{}b{}c<nav>x</nav>", open.repeat(2_000), close.repeat(2_000));
    check_text(&hidden, "ac");
    let lists = format!("{}<p>x<script>1<2</script><br>y<p>z", "<ul><li>".repeat(1_000));
    assert_eq!(HtmlPage::parse(&lists).text.split_whitespace().collect::<Vec<_>>(), ["x", "y", "z"]);
}
