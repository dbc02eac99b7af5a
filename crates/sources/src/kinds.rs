//! The kinds of files that are read: one table from the ending of a name to what reads it.

use std::io::Read;
use std::path::Path;

use super::input::Input;

/// How the content of a file becomes documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// One document with the file as its text.
    Text(Heading),
    /// One document with the file as its text and its path as title.
    Source,
    /// One document with the cells of a Jupyter notebook and its path as title.
    Notebook,
    /// One document with the text of the page.
    Html,
    /// A list of documents, one document, or text.
    Json,
    /// A document per line.
    JsonLines,
    /// A file of which the gateway extracts the text.
    Upload,
    /// A document per row below the header.
    Rows(Separator),
}

/// Where a text has its title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heading {
    /// Nowhere: the title is the name of the file.
    None,
    Markdown,
    RestructuredText,
    AsciiDoc,
    Org,
}

/// The separator of the cells of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Separator {
    /// A comma, a semicolon, a tab or a bar: the one that the header has most of.
    Any,
    Tab,
}

/// The endings of names, in lower case and without their dot. Each can be followed by [`GZIP`].
const KINDS: [(&str, Reader); 30] = [
    ("txt", Reader::Text(Heading::None)),
    ("md", Reader::Text(Heading::Markdown)),
    ("markdown", Reader::Text(Heading::Markdown)),
    ("rst", Reader::Text(Heading::RestructuredText)),
    ("adoc", Reader::Text(Heading::AsciiDoc)),
    ("asciidoc", Reader::Text(Heading::AsciiDoc)),
    ("org", Reader::Text(Heading::Org)),
    ("log", Reader::Text(Heading::None)),
    ("yaml", Reader::Text(Heading::None)),
    ("yml", Reader::Text(Heading::None)),
    ("html", Reader::Html),
    ("htm", Reader::Html),
    ("xhtml", Reader::Html),
    ("json", Reader::Json),
    ("ipynb", Reader::Notebook),
    ("jsonl", Reader::JsonLines),
    ("ndjson", Reader::JsonLines),
    ("csv", Reader::Rows(Separator::Any)),
    ("tsv", Reader::Rows(Separator::Tab)),
    ("pdf", Reader::Upload),
    ("docx", Reader::Upload),
    ("pptx", Reader::Upload),
    ("xlsx", Reader::Upload),
    ("odt", Reader::Upload),
    ("odp", Reader::Upload),
    ("ods", Reader::Upload),
    ("epub", Reader::Upload),
    ("rtf", Reader::Upload),
    ("eml", Reader::Upload),
    ("mbox", Reader::Upload),
];

/// Kinds that only some gateways read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MoreKinds {
    /// Archives, of which each file becomes a document.
    pub archives: bool,
    /// Pictures, whose text is recognised.
    pub pictures: bool,
}

impl MoreKinds {
    /// Whether files with this ending are read; `is_compressed` stands for a further ending [`GZIP`].
    fn has(self, ending: &str, is_compressed: bool) -> bool {
        let is_archive = ARCHIVES.contains(&(ending, is_compressed));
        (self.archives && is_archive) || (self.pictures && !is_compressed && PICTURES.contains(&ending))
    }
}

/// The endings of archives.
const ARCHIVES: [(&str, bool); 3] = [("zip", false), ("tar", true), ("tgz", false)];

/// The endings of pictures.
const PICTURES: [&str; 9] = ["png", "jpg", "jpeg", "tif", "tiff", "webp", "gif", "bmp", "heic"];

/// The endings of source code and of configuration, in lower case. Some are also endings of other files, so that these are
/// read only if they begin with text.
const SOURCE_ENDINGS: [&str; 82] = [
    "bash",
    "bat",
    "c",
    "cc",
    "cfg",
    "clj",
    "cljs",
    "cmake",
    "conf",
    "cpp",
    "cs",
    "css",
    "cxx",
    "dart",
    "elm",
    "erl",
    "ex",
    "exs",
    "fish",
    "fs",
    "gd",
    "go",
    "gradle",
    "graphql",
    "groovy",
    "h",
    "hcl",
    "hh",
    "hpp",
    "hrl",
    "hs",
    "hxx",
    "ini",
    "java",
    "jl",
    "js",
    "jsx",
    "kt",
    "kts",
    "less",
    "lua",
    "m",
    "mjs",
    "cjs",
    "mk",
    "ml",
    "mli",
    "mm",
    "nim",
    "nix",
    "php",
    "pl",
    "pm",
    "properties",
    "proto",
    "ps1",
    "pxd",
    "py",
    "pyi",
    "pyx",
    "r",
    "rb",
    "rs",
    "sass",
    "scala",
    "scss",
    "sh",
    "sol",
    "sql",
    "svelte",
    "swift",
    "tcl",
    "tf",
    "toml",
    "ts",
    "tsx",
    "v",
    "vhd",
    "vue",
    "wgsl",
    "zig",
    "zsh",
];

/// Names of texts that may have any ending, such as `README.Debian`. In lower case only those that packages use: `todo.x` and
/// `news.y` are something else.
const TEXT_NAMES: [&str; 24] = [
    "README",
    "Readme",
    "readme",
    "NEWS",
    "CHANGELOG",
    "ChangeLog",
    "Changelog",
    "changelog",
    "CHANGES",
    "HISTORY",
    "COPYING",
    "COPYRIGHT",
    "copyright",
    "LICENSE",
    "LICENCE",
    "NOTICE",
    "AUTHORS",
    "CONTRIBUTORS",
    "MAINTAINERS",
    "THANKS",
    "TODO",
    "BUGS",
    "FAQ",
    "INSTALL",
];

/// The ending of compressed files.
const GZIP: &str = "gz";

/// The name for files without an ending that are not text, where they are left out.
const NO_ENDING: &str = "binary without an ending";

/// Most characters of an ending; what follows the last dot of longer names is not meant as one.
const ENDING_LENGTH_MAX: usize = 12;

/// Bytes at the beginning of a file without an ending that decide whether it is text.
const SNIFFED_BYTES: u64 = 1024;

/// The kind of a file that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) reader: Reader,
    pub(crate) is_compressed: bool,
}

/// All endings of [`KINDS`], for messages.
pub fn accepted() -> String {
    let (uploaded, read): (Vec<_>, Vec<_>) = KINDS.iter().partition(|(_, reader)| *reader == Reader::Upload);
    let listed = |kinds: Vec<&(&str, Reader)>| {
        kinds.iter().map(|(ending, _)| format!(".{ending}")).collect::<Vec<_>>().join(", ")
    };
    format!(
        "{} files, {} files, each also as .{GZIP}, source code (.py, .rs, .toml, …), and text files without an ending or with a name such as \
         README.Debian",
        listed(uploaded),
        listed(read)
    )
}

/// The kind of the file at `path`, or what files of its kind are called where they are left out: `.png`.
///
/// A file without an ending, or with an unknown one behind one of [`TEXT_NAMES`], is opened: it is read when it begins with text.
pub(crate) fn kind_of(path: &Path, more: MoreKinds) -> Result<Kind, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (inner, is_compressed) = without_gzip(&name);
    let text = Kind { reader: Reader::Text(Heading::None), is_compressed };
    let Some(ending) = ending_of(inner).map(str::to_lowercase) else {
        return if is_text(path, is_compressed) { Ok(text) } else { Err(NO_ENDING.to_owned()) };
    };
    let is_named_as_text = || TEXT_NAMES.iter().any(|name| inner.split('.').next() == Some(*name));
    match KINDS.iter().find(|(known, _)| *known == ending) {
        None if more.has(&ending, is_compressed) => Ok(Kind { reader: Reader::Upload, is_compressed: false }),
        // the gateway reads them as they are
        Some((_, Reader::Upload)) if is_compressed => Err(format!(".{ending}.{GZIP}")),
        Some(&(_, reader)) => Ok(Kind { reader, is_compressed }),
        None if SOURCE_ENDINGS.contains(&ending.as_str()) && is_text(path, is_compressed) => {
            Ok(Kind { reader: Reader::Source, is_compressed })
        }
        None if is_named_as_text() && is_text(path, is_compressed) => Ok(text),
        None if is_compressed => Err(format!(".{ending}.{GZIP}")),
        None => Err(format!(".{ending}")),
    }
}

/// Whether the file at `path` is of one of [`MoreKinds`].
pub(crate) fn is_of_more_kinds(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (inner, is_compressed) = without_gzip(&name);
    let all = MoreKinds { archives: true, pictures: true };
    ending_of(inner).is_some_and(|ending| all.has(&ending.to_lowercase(), is_compressed))
}

/// The name of the file at `path` without its endings.
pub(crate) fn stem_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy();
    let (inner, _) = without_gzip(&name);
    Some(Path::new(inner).file_stem()?.to_string_lossy().into_owned())
}

/// A name without the ending of compressed files, and whether it has that ending.
fn without_gzip(name: &str) -> (&str, bool) {
    match name.rsplit_once('.') {
        Some((inner, ending)) if ending.eq_ignore_ascii_case(GZIP) && !inner.is_empty() => (inner, true),
        _ => (name, false),
    }
}

fn ending_of(name: &str) -> Option<&str> {
    let ending = Path::new(name).extension()?.to_str()?;
    let is_ending = ending.len() <= ENDING_LENGTH_MAX && !ending.contains(char::is_whitespace);
    (is_ending && !ending.is_empty()).then_some(ending)
}

/// Whether a file begins with text. True also for a file that can't be read: reading it gives the reason.
fn is_text(path: &Path, is_compressed: bool) -> bool {
    let mut head = Vec::new();
    let read = Input::open(path, is_compressed)
        .and_then(|input| input.reader.take(SNIFFED_BYTES).read_to_end(&mut head));
    if read.is_err() {
        return true;
    }
    super::encoding::is_text(&head, head.len() as u64 == SNIFFED_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, content: &[u8]) -> Result<Kind, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        kind_of(&path, MoreKinds::default())
    }

    #[test]
    fn archives_and_pictures_are_read_where_the_gateway_does() {
        // `left_out`: what the file is called where it is not read
        let check = |name: &str, (archives, pictures), left_out: Option<&str>| {
            let more = MoreKinds { archives, pictures };
            let upload = Kind { reader: Reader::Upload, is_compressed: false };
            let expected = left_out.map_or(Ok(upload), |kind| Err(kind.to_owned()));
            assert_eq!(kind_of(Path::new(name), more), expected, "{name} {more:?}");
        };
        for name in ["a.zip", "a.TAR.GZ", "a.tgz"] {
            check(name, (true, false), None);
        }
        check("a.Png", (false, true), None);
        check("a.png", (true, false), Some(".png"));
        check("a.zip", (false, true), Some(".zip"));
        check("a.zip.gz", (true, true), Some(".zip.gz"));
        check("a.rar", (true, true), Some(".rar"));
    }

    #[test]
    fn the_ending_decides_in_any_case() {
        let plain = |reader| Ok(Kind { reader, is_compressed: false });
        assert_eq!(kind("a.b.MD", b"\0"), plain(Reader::Text(Heading::Markdown)));
        assert_eq!(kind("a.tsv", b""), plain(Reader::Rows(Separator::Tab)));
        assert_eq!(kind("a.JSON.GZ", b""), Ok(Kind { reader: Reader::Json, is_compressed: true }));
        for (name, left_out) in
            [("a.PNG", ".png"), ("a.tar.gz", ".tar.gz"), ("main.o", ".o"), ("a.tgz", ".tgz")]
        {
            assert_eq!(kind(name, b"text"), Err(left_out.to_owned()));
        }
    }

    #[test]
    fn a_file_without_an_ending_is_read_when_it_begins_with_text() {
        let text = Kind { reader: Reader::Text(Heading::None), is_compressed: false };
        for name in ["README", "notes.", "To do. All of it"] {
            assert_eq!(kind(name, b"text"), Ok(text), "{name}");
        }
        assert_eq!(kind("empty", b""), Ok(text));
        let cut = [vec![b'a'; 1023], "é".into()].concat();
        assert_eq!(kind("cut", &cut), Ok(text), "a character may be cut where sniffing ends");
        let late = [vec![b'a'; 1024], vec![0]].concat();
        assert_eq!(kind("late", &late), Ok(text));
        for content in [b"\x7fELF\0".as_slice(), b"caf\xff noir", b"caf\xc3"] {
            assert_eq!(kind("program", content), Err(NO_ENDING.to_owned()));
        }
    }

    #[test]
    fn a_text_with_a_usual_name_is_read_with_any_ending() {
        let text = Kind { reader: Reader::Text(Heading::None), is_compressed: false };
        for name in ["README.Debian", "README.source.Debian", "copyright.in", "TODO.v2", "LICENSE.MIT"] {
            assert_eq!(kind(name, b"text"), Ok(text), "{name}");
        }
        for (name, left_out) in [("README.png", ".png"), ("LICENSE.db", ".db")] {
            assert_eq!(kind(name, b"\x89\0"), Err(left_out.to_owned()));
        }
        for (name, left_out) in [("todo.x", ".x"), ("x.Debian", ".debian")] {
            assert_eq!(kind(name, b"text"), Err(left_out.to_owned()));
        }
    }

    #[test]
    fn source_code_is_read_if_it_is_text() {
        let mut sorted = SOURCE_ENDINGS;
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(KINDS.iter().all(|(ending, _)| !SOURCE_ENDINGS.contains(ending)));
        for name in ["main.rs", "a.PY", "Cargo.toml", "a.d.ts", "todo.py"] {
            assert_eq!(
                kind(name, b"text"),
                Ok(Kind { reader: Reader::Source, is_compressed: false }),
                "{name}"
            );
        }
        assert_eq!(kind("video.ts", b"G@\0\x10\0"), Err(".ts".to_owned()));
    }

    #[test]
    fn the_title_of_a_file_is_its_name_without_endings() {
        for (path, stem) in [("b/a.txt", "a"), ("a.b.txt.gz", "a.b"), ("README", "README"), ("x.GZ", "x")] {
            assert_eq!(stem_of(Path::new(path)).as_deref(), Some(stem));
        }
    }
}
