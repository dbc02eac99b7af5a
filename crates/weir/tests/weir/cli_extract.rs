//! `weir extract`, and `weir ingest` of files of which the gateway extracts the text.

use serde_json::json;

use crate::cli_support::{Weir, folder_with};

#[test]
fn the_text_of_a_file_is_printed_by_pages() {
    let folder =
        folder_with(&[("a.txt", "one\n\u{c}two\n"), ("b.html", "<title>B</title><p>three"), ("c.bin", "\0")]);
    let run = Weir::new().in_folder(&folder).run(&["extract", "a.txt"]);
    assert_eq!((run.code, run.out.as_str()), (0, "--- page 1\none\n--- page 2\ntwo\n"), "{}", run.err);
    let run = Weir::new().in_folder(&folder).run(&["extract", "b.html"]);
    assert_eq!((run.code, run.out.as_str()), (0, "title: B\nthree\n"), "{}", run.err);
    let run = Weir::new().in_folder(&folder).run(&["extract", "a.txt", "--json"]);
    let printed: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        printed["pages"][1],
        json!({"page": 2, "start": 5, "end": 9, "label": null, "approximate": false})
    );
    let run = Weir::new().in_folder(&folder).run(&["extract", "c.bin"]);
    assert_eq!(run.code, 1);
    assert!(
        run.err.contains("c.bin: binary .bin files of an unknown kind are not read: convert it to PDF or text (unsupported_format)"),
        "{}",
        run.err
    );
    let run = Weir::new().in_folder(&folder).run(&["extract", "missing.pdf"]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("missing.pdf can't be read"), "{}", run.err);
}
