//! Files of each kind, from folders on the disk.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use weir_client::StepResult;

use super::*;

/// A folder with these files.
fn folder_with(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    folder
}

/// Reads a folder with these files; one line per result.
fn read_all(files: &[(&str, &[u8])]) -> Vec<String> {
    let folder = folder_with(files);
    let sources = SourceFiles::find(&[folder.path().to_owned()], "");
    let prefix = format!("{}/", folder.path().display());
    let size = sources.bytes();
    let mut bytes = 0;
    let lines = Documents::of(sources.files)
        .map(|step| {
            bytes += step.bytes;
            match step.result {
                StepResult::Document(document) => {
                    let mut metadata = document.metadata.unwrap().to_map().unwrap();
                    assert_eq!(metadata.remove(FOLDER).unwrap(), *folder_name(folder.path()));
                    let (id, title) = (document.id.unwrap(), document.title.unwrap_or("-".into()));
                    format!("{id} | {title} | {} | {}", document.text, serde_json::Value::from(metadata))
                }
                StepResult::File(file) => {
                    let metadata = file.options.metadata.unwrap().to_map().unwrap();
                    format!("file {} {}", file.options.id.unwrap(), metadata["path"])
                }
                StepResult::Empty => "empty".to_owned(),
                StepResult::Rejected(rejected) => {
                    let message = rejected.message.replace(&prefix, "");
                    format!("{}: {message}", rejected.name.trim_start_matches(&prefix))
                }
                StepResult::Note(note) => format!("note: {}: {note}", step.place.trim_start_matches(&prefix)),
            }
        })
        .collect();
    assert!(bytes <= size, "{bytes} bytes of {size}");
    lines
}

/// Reads one file.
fn check(name: &str, content: &str, expected: &[&str]) {
    assert_eq!(read_all(&[(name, content.as_bytes())]), expected, "{name}: {content}");
}

fn compressed(content: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn text_is_a_document_with_the_name_of_its_file() {
    for name in ["a.txt", "a.log", "a.yaml", "a.yml", "a.TXT"] {
        check(name, "\u{feff}plain", &[&format!("{name} | a | plain | {{\"path\":\"{name}\"}}")]);
    }
    check("README", "plain", &[r#"README | README | plain | {"path":"README"}"#]);
    check("b/c/a.txt", " \n", &["empty"]);
    assert_eq!(
        read_all(&[("bad.txt", b"ok\xff")]),
        [
            "bad.txt: is not valid UTF-8: byte 2 is the first bad one; convert it from its encoding, such as ISO-8859-1: \
            iconv -f ISO-8859-1 -t UTF-8 'bad.txt' > 'bad.utf-8.txt'"
        ]
    );
}

#[test]
fn markup_has_its_first_heading_as_title() {
    for (name, text, title) in [
        ("a.md", "# [*T*](u)\nx", "T"),
        ("a.markdown", "# T\nx", "T"),
        ("a.rst", "T\n=\nx", "T"),
        ("a.adoc", "= T\nx", "T"),
        ("a.asciidoc", "= T\nx", "T"),
        ("a.org", "* T\nx", "T"),
        ("a.org", "x", "a"),
    ] {
        check(name, text, &[&format!("{name} | {title} | {text} | {{\"path\":\"{name}\"}}")]);
    }
}

#[test]
fn front_matter_is_title_and_metadata() {
    check(
        "front.md",
        "\u{feff}---\r\ntitle: **Boat** safety\r\ntags: harbour, safety\r\npath: x\r\n---\r\n\r\nWear it.\r\n\r\n# Later\r\n",
        &[
            "front.md | Boat safety | Wear it.\r\n\r\n# Later\r\n | {\"path\":\"front.md\",\"tags\":[\"harbour\",\"safety\"]}",
        ],
    );
    check("a.md", "---\ntag: x\n---\n# T", &[r##"a.md | T | # T | {"path":"a.md","tag":"x"}"##]);
    check("a.md", "---\ntitle: T\n---\n", &[r#"a.md | T |  | {"path":"a.md"}"#]);
    check("a.md", "---\ntag: x\n---\n\n", &["empty"]);
    check("a.md", "---\nprose\n---\n", &["a.md | prose | ---\nprose\n---\n | {\"path\":\"a.md\"}"]);
}

#[test]
fn source_code_has_its_path_as_title() {
    for name in ["src/main.py", "b.rs", "Cargo.toml"] {
        check(name, "# x", &[&format!("{name} | {name} | # x | {{\"path\":\"{name}\"}}")]);
    }
    check(
        "n.ipynb",
        r##"{"cells": [{"source": ["# x"]}]}"##,
        &[r##"n.ipynb | n.ipynb | # x | {"path":"n.ipynb"}"##],
    );
    check("n.ipynb", "7", &["n.ipynb: is not a notebook: it has no `cells`; save it again with Jupyter"]);
}

/// A text in UTF-16 with a byte order mark.
fn utf_16(text: &str) -> Vec<u8> {
    [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

#[test]
fn every_kind_is_read_in_other_encodings() {
    for (name, content, expected) in [
        ("a.txt", "bär", "a.txt | a | bär"),
        ("a.md", "# bär\n", "a.md | bär | # bär\n"),
        ("a.py", "bär", "a.py | a.py | bär"),
        ("a.html", "<meta charset=latin1><p>bär", "a.html | a | bär"),
        ("a.json", r#"{"text":"bär"}"#, "a.json | - | bär"),
        ("a.jsonl", r#"{"text":"bär"}"#, "a.jsonl#1 | - | bär"),
        ("a.csv", "text\nbär\n", "a.csv#2 | - | bär"),
        ("README", "bär", "README | README | bär"),
    ] {
        let expected = format!("{expected} | {{\"path\":\"{name}\"}}");
        for bytes in [utf_16(content), format!("\u{feff}{content}").into_bytes()] {
            assert_eq!(read_all(&[(name, &bytes)]), std::slice::from_ref(&expected), "{name}");
        }
        let latin_1: Vec<u8> = content.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        let found = read_all(&[(name, &latin_1)]);
        if name == "a.jsonl" {
            assert!(found[0].contains("is not valid UTF-8"), "{name}: {found:?}");
        } else {
            assert_eq!(found, [expected], "{name}");
        }
    }
}

#[test]
fn the_remedy_of_a_file_in_another_encoding_works() {
    let folder = folder_with(&[("it's.csv", b"text,n\n\xfe\xf0x,1\n")]);
    let read = || {
        let sources = SourceFiles::find(&[folder.path().to_owned()], "");
        Documents::of(sources.files).map(|step| step.result).collect::<Vec<_>>()
    };
    let StepResult::Rejected(rejection) = read().remove(0) else { panic!("the row is read") };
    let (_, command) = rejection.message.split_once("ISO-8859-1: ").unwrap();
    assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
    let texts: Vec<String> = read()
        .into_iter()
        .filter_map(|result| match result {
            StepResult::Document(document) => Some(document.text),
            StepResult::File(_) | StepResult::Rejected(_) | StepResult::Empty | StepResult::Note(_) => None,
        })
        .collect();
    assert_eq!(texts, ["þðx"]);
}

#[test]
fn pages_are_text_without_markup() {
    for name in ["a.html", "a.htm", "a.xhtml"] {
        check(name, "<title>T</title><p>x", &[&format!("{name} | T | x | {{\"path\":\"{name}\"}}")]);
    }
    check("a.html", "<p>x", &[r#"a.html | a | x | {"path":"a.html"}"#]);
}

#[test]
fn lines_become_documents_and_malformed_ones_are_rejected() {
    let lines = b"{\"id\":\"x/1\",\"text\":\"a\",\"title\":\"T\",\"metadata\":{\"k\":1},\"year\":2020}\n\
        {\"_id\":7,\"text\":\"b\"}\n\n{\"text\":\"c\"}\nno json\n{\"text\":1}\n{\"id\":[]}\n{\"id\":\"y\"}\n\xff\n[1]\n{\"text\":\"last\"}";
    assert_eq!(
        read_all(&[("l.jsonl", lines)]),
        [
            r#"x/1 | T | a | {"k":1,"path":"l.jsonl","year":2020}"#,
            r#"7 | - | b | {"path":"l.jsonl"}"#,
            "empty",
            r#"l.jsonl#4 | - | c | {"path":"l.jsonl"}"#,
            "l.jsonl#5: is not a JSON object: expected ident at line 1 column 2",
            "l.jsonl#6: `text` must be a text",
            "l.jsonl#7: `id` must be a text or a number",
            "l.jsonl#8: has no `text`",
            "l.jsonl#9: is not valid UTF-8: byte 0 of the line is the first bad one; write the file in UTF-8, as JSON is",
            "l.jsonl#10: is not a JSON object: invalid type: sequence, expected a map at line 1 column 0",
            r#"l.jsonl#11 | - | last | {"path":"l.jsonl"}"#,
        ]
    );
    check("l.ndjson", "{\"text\":\"a\"}", &[r#"l.ndjson#1 | - | a | {"path":"l.ndjson"}"#]);
}

#[test]
fn json_is_a_document_a_list_of_them_or_text() {
    check("a.json", r#"{"text":"x","year":2}"#, &[r#"a.json | - | x | {"path":"a.json","year":2}"#]);
    check(
        "a.json",
        r#"[{"id":"i","text":"x"}, {"text":"y"}, {"title":"z"}, 7]"#,
        &[
            r#"i | - | x | {"path":"a.json"}"#,
            r#"a.json#2 | - | y | {"path":"a.json"}"#,
            "a.json#3: has no `text`",
            "a.json#4: is not an object with `text`, as others of the list are",
        ],
    );
    for text in [r#"{"name": "x"}"#, "[1, 2]", "[{}]", r#"{"text": {}}"#, "\"x\""] {
        check("a.json", text, &[&format!("a.json | a | {text} | {{\"path\":\"a.json\"}}")]);
    }
    check("a.json", "\n", &["empty"]);
    check(
        "a.json",
        "{\"text\":\"x\"}\n{\"text\":\"y\"}",
        &[
            "a.json: is not JSON: trailing characters at line 2 column 1; mend it, or name it .jsonl if it has an object per line, or .txt",
        ],
    );
}

#[test]
fn rows_with_a_text_have_the_other_cells_as_metadata() {
    check(
        "a.csv",
        "\u{feff}ID,Text,title,year,,Name\n7,\"one,\ntwo\",T,2019,x,\n,b,,007,,\"é \"\"q\"\"\"\n8,,,,,\n9,,only,,,\n",
        &[
            r#"7 | T | one,
two | {"column_5":"x","path":"a.csv","year":"2019"}"#,
            r#"a.csv#4 | - | b | {"Name":"é \"q\"","path":"a.csv","year":"007"}"#,
            "empty",
            r#"9 | only |  | {"path":"a.csv"}"#,
        ],
    );
    check("a.tsv", "text\tn\nx, y\t1\n", &[r#"a.tsv#2 | - | x, y | {"n":1,"path":"a.tsv"}"#]);
    check(
        "a.csv",
        "text,n\r\nx,1\r\n\"y\r\nz\",2\r\nw,3\r\n",
        &[
            r#"a.csv#2 | - | x | {"n":1,"path":"a.csv"}"#,
            "a.csv#3 | - | y\nz | {\"n\":2,\"path\":\"a.csv\"}",
            r#"a.csv#5 | - | w | {"n":3,"path":"a.csv"}"#,
        ],
    );
    check(
        "a.csv",
        "\ntext,n\n\r\nx,1\n\n\n\"y\n\nz\",2\r\r\rw,3",
        &[
            r#"a.csv#4 | - | x | {"n":1,"path":"a.csv"}"#,
            "a.csv#7 | - | y\n\nz | {\"n\":2,\"path\":\"a.csv\"}",
            r#"a.csv#12 | - | w | {"n":3,"path":"a.csv"}"#,
        ],
    );
    check(
        "a.csv",
        "text,n\n\"x\n",
        &["a.csv#2: has 1 cells and the header 2; put quotes around cells that contain the separator"],
    );
    check("a.csv", "text;n\nx, y;1\n", &[r#"a.csv#2 | - | x, y | {"n":1,"path":"a.csv"}"#]);
}

#[test]
fn a_column_has_one_type() {
    check(
        "a.csv",
        "text,price,code\na,19.99,1\nb,19.90,x\nc,7,2\n",
        &[
            r#"a.csv#2 | - | a | {"code":"1","path":"a.csv","price":19.99}"#,
            r#"a.csv#3 | - | b | {"code":"x","path":"a.csv","price":19.9}"#,
            r#"a.csv#4 | - | c | {"code":"2","path":"a.csv","price":7}"#,
        ],
    );
}

#[test]
fn tables_are_read_with_any_separator_and_any_line_end() {
    let expected = |line: u32| format!("a.csv#{line} | a | name: x, y\nunits: 1 | {{\"path\":\"a.csv\"}}");
    for (content, line) in [
        ("name;units\nx, y;1\n", 2),
        ("name\tunits\nx, y\t1\n", 2),
        ("name|units\nx, y|1\n", 2),
        ("\"name\";\"units\"\n\"x, y\";\"1\"\n", 2),
        ("sep=;\nname;units\nx, y;1\n", 3),
        ("name;units\rx, y;1\r", 2),
        ("sep=#\rname#units\rx, y#1", 3),
    ] {
        check("a.csv", content, &[&expected(line)]);
    }
    check(
        "a.csv",
        "na:me\nx\n",
        &[
            "note: a.csv: is read as a table with one column, `na:me`; the separators are a comma, a semicolon, a tab and a bar, and a \
             first line such as sep=# names another",
            "a.csv#2 | a | na:me: x | {\"path\":\"a.csv\"}",
        ],
    );
    check("a.csv", "text\nx\n", &[r#"a.csv#2 | - | x | {"path":"a.csv"}"#]);
}

#[test]
fn rows_without_a_text_are_text_with_the_names_of_their_columns() {
    check(
        "prices.csv",
        "id,name,price\n1,apple,2\n2,pear,\n,,\n",
        &[
            "prices.csv#2 | prices | id: 1\nname: apple\nprice: 2 | {\"path\":\"prices.csv\"}",
            "prices.csv#3 | prices | id: 2\nname: pear | {\"path\":\"prices.csv\"}",
            "empty",
        ],
    );
}

#[test]
fn bad_rows_are_rejected_alone() {
    assert_eq!(
        read_all(&[("a.csv", b"text,n\nx,1,2\nfine,1\n\xff,1\nlast,2")]),
        [
            "a.csv#2: has 3 cells and the header 2; put quotes around cells that contain the separator",
            r#"a.csv#3 | - | fine | {"n":1,"path":"a.csv"}"#,
            "a.csv#4: is not valid UTF-8 in `text`; convert it from its encoding, such as ISO-8859-1: \
             iconv -f ISO-8859-1 -t UTF-8 'a.csv' > 'a.utf-8.csv'",
            r#"a.csv#5 | - | last | {"n":2,"path":"a.csv"}"#,
        ]
    );
    check("a.csv", "text,n,n\nx,1,2", &["a.csv: has two columns with the name `n`; rename one"]);
    check("a.csv", "", &[]);
}

#[test]
fn compressed_files_are_read_as_what_they_contain() {
    let files = [
        ("a.txt.gz", compressed("plain")),
        ("b.md.GZ", compressed("# T")),
        ("c.html.gz", compressed("<p>x")),
        ("changelog.Debian.gz", compressed("log")),
        ("d.jsonl.gz", compressed("{\"text\":\"y\"}")),
        ("e.csv.gz", compressed("text\nz")),
        ("f.json.gz", compressed("{\"text\":\"j\"}")),
        ("README.gz", compressed("read")),
        ("bad.txt.gz", b"no gzip".to_vec()),
        ("cut.jsonl.gz", compressed("{\"text\":\"lost\"}")[..12].to_vec()),
    ];
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, content)| (*name, content.as_slice())).collect();
    let lines = read_all(&files);
    let (errors, documents): (Vec<&String>, Vec<&String>) =
        lines.iter().partition(|line| line.contains("can't be decompressed"));
    assert_eq!(
        documents,
        [
            r#"README.gz | README | read | {"path":"README.gz"}"#,
            r#"a.txt.gz | a | plain | {"path":"a.txt.gz"}"#,
            r#"b.md.GZ | T | # T | {"path":"b.md.GZ"}"#,
            r#"c.html.gz | c | x | {"path":"c.html.gz"}"#,
            r#"changelog.Debian.gz | changelog | log | {"path":"changelog.Debian.gz"}"#,
            r#"d.jsonl.gz#1 | - | y | {"path":"d.jsonl.gz"}"#,
            r#"e.csv.gz#2 | - | z | {"path":"e.csv.gz"}"#,
            r#"f.json.gz | - | j | {"path":"f.json.gz"}"#,
        ]
    );
    let named: Vec<&str> = errors.iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(named, ["bad.txt.gz", "cut.jsonl.gz#1"], "{errors:?}");
}

#[test]
fn files_of_other_kinds_are_counted_by_kind() {
    let names = ["a.png", "b/c.PNG", "d.psd", "e.o", "f.tar.gz", ".git/g.png", "h.txt"];
    let mut files: Vec<(&str, &[u8])> = names.iter().map(|name| (*name, b"x".as_slice())).collect();
    files.push(("program", b"\x7fELF\0"));
    let folder = folder_with(&files);
    let sources = SourceFiles::find(&[folder.path().to_owned()], "p/");
    assert_eq!(sources.files.iter().map(|file| file.id.as_str()).collect::<Vec<_>>(), ["p/h.txt"]);
    let left_out = LeftOut { empty: 3, ..sources.left_out };
    assert_eq!(left_out.to_string(), "2 .png, 1 .o, 1 .psd, 1 .tar.gz, 1 binary without an ending, 3 empty");
}

#[test]
fn a_socket_is_rejected() {
    let folder = folder_with(&[("x.txt", b"x")]);
    let socket = folder.path().join("s.txt");
    let _open = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let sources = SourceFiles::find(&[socket, folder.path().join("x.txt")], "");
    assert_eq!(sources.files.iter().map(|file| file.id.as_str()).collect::<Vec<_>>(), ["x.txt"]);
    let messages: Vec<&str> = sources.rejections.iter().map(|rejection| rejection.message.as_str()).collect();
    assert_eq!(messages, ["is a socket or a device; store its content in a file"]);
}

#[test]
fn files_with_the_id_of_another_are_rejected() {
    let folder = folder_with(&[("a/x.txt", b"x"), ("b/x.txt", b"x"), ("c.png", b"x")]);
    let paths = ["a/x.txt", "b/x.txt", "c.png", "none"].map(|name| folder.path().join(name));
    let sources = SourceFiles::find(&paths, "");
    assert_eq!(sources.files.iter().map(|file| file.id.as_str()).collect::<Vec<_>>(), ["x.txt"]);
    let messages: Vec<&str> = sources.rejections.iter().map(|rejection| rejection.message.as_str()).collect();
    let other_kind = format!("is of a kind that is not read (.png); accepted are {}", accepted());
    assert_eq!(
        messages,
        [
            other_kind.as_str(),
            "No such file or directory (os error 2)",
            "another file has the id `x.txt`; give the folder above both, or each alone with a --prefix",
        ]
    );
}
