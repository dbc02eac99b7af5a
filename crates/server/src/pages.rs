//! The pages: `/` to search with, `/docs` to read about the API and try it. Style sheets and scripts are put into the HTML, so that a
//! page is one reply and needs nothing from elsewhere.

use std::sync::LazyLock;

use axum::http::{HeaderName, header};
use axum::response::{Html, IntoResponse};

/// A page may run its own script and call its own gateway, and nothing else.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 4] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    // a browser that keeps a page would show the one of the last version
    (header::CACHE_CONTROL, "no-cache"),
];

/// The files that the pages name.
const FILES: [(&str, &str); 11] = [
    ("base.css", include_str!("pages/base.css")),
    ("start.css", include_str!("pages/start.css")),
    ("docs.css", include_str!("pages/docs.css")),
    ("shared.js", include_str!("pages/shared.js")),
    ("markdown.js", include_str!("pages/markdown.js")),
    ("answer.js", include_str!("pages/answer.js")),
    ("upload.js", include_str!("pages/upload.js")),
    ("start.js", include_str!("pages/start.js")),
    ("schema.js", include_str!("pages/schema.js")),
    ("try.js", include_str!("pages/try.js")),
    ("docs.js", include_str!("pages/docs.js")),
];

static START: LazyLock<String> = LazyLock::new(|| with_files(include_str!("pages/start.html")));
static DOCS: LazyLock<String> = LazyLock::new(|| with_files(include_str!("pages/docs.html")));

/// Replaces each reference to a file by its text.
fn with_files(page: &str) -> String {
    FILES.iter().fold(page.to_owned(), |page, (name, text)| {
        page.replace(
            &format!("<link rel=\"stylesheet\" href=\"{name}\">"),
            &format!("<style>\n{text}</style>"),
        )
        .replace(&format!("<script src=\"{name}\"></script>"), &format!("<script>\n{text}</script>"))
    })
}

/// `GET /`.
pub(super) async fn start() -> impl IntoResponse {
    (HEADERS, Html(START.as_str()))
}

/// `GET /docs`.
pub(super) async fn docs() -> impl IntoResponse {
    (HEADERS, Html(DOCS.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_refers_to_no_other_file_or_server() {
        for page in [&*START, &*DOCS] {
            assert!(page.contains("<style>") && page.contains("<script>"));
            for reference in [" src=", "rel=\"stylesheet\"", "@import", "url("] {
                assert!(!page.contains(reference), "{reference}");
            }
            for address in page.split("://").skip(1) {
                let known = ["www.w3.org/2000/svg", "127.0.0.1:8000", "localhost:8000"];
                assert!(known.iter().any(|known| address.starts_with(known)), "{}", &address[..40]);
            }
        }
    }

    #[test]
    fn scripts_write_text_and_never_markup() {
        for (name, text) in FILES {
            for sink in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "</script"]
            {
                assert!(!text.contains(sink), "{name}: {sink}");
            }
        }
    }
}
