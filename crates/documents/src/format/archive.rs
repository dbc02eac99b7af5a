//! The formats that are zip archives.

use crate::budget::Budget;
use crate::ooxml::Relationships;
use crate::package::Package;
use crate::{Failure, Limits};

use super::magic::UNPACK;
use super::{Format, unsupported};

/// Archives that are of no other kind.
const PLAIN: &str = "zip archives";

/// Parts that show a kind that isn't read, the kind and the remedy.
const UNSUPPORTED: [(&str, &str, &str); 7] = [
    ("xl/workbook.bin", "binary Excel workbooks (.xlsb)", "save it as .xlsx"),
    ("visio/document.xml", "Visio drawings", "export it as PDF"),
    ("Index/Document.iwa", "Pages, Numbers and Keynote files", "export it as PDF or in the format of Office"),
    ("Index.zip", "Pages, Numbers and Keynote files", "export it as PDF or in the format of Office"),
    ("AndroidManifest.xml", "Android packages", "send the documents that it was made from"),
    ("META-INF/MANIFEST.MF", "Java archives", "send the documents that it was made from"),
    ("FixedDocSeq.fdseq", "XPS documents", "save it as PDF"),
];

/// The format of a zip archive. `by_name` is the format of its name, which a damaged archive is taken for.
pub(super) fn format(bytes: &[u8], by_name: Option<Format>) -> Result<Format, Failure> {
    let limits = Limits { zip_entry_bytes: 16 << 20, ..Limits::default() };
    let budget = Budget::new(&limits);
    let mut package = match Package::open(bytes, &budget) {
        Ok(package) => package,
        Err(failure) => return by_name.ok_or(failure),
    };
    if let Ok(Some(kind)) = package.text("mimetype") {
        return of_media_type(kind.trim());
    }
    if let Some((_, kind, remedy)) = UNSUPPORTED.iter().find(|(part, ..)| package.has(part)) {
        return Err(unsupported(kind, remedy));
    }
    let main = Relationships::of(&mut package, &budget, "")
        .ok()
        .and_then(|relationships| relationships.target("officeDocument").map(str::to_owned));
    let folder = main.as_deref().and_then(|main| main.split_once('/')).map(|(folder, _)| folder);
    let has = |part: &str| package.has(part);
    match folder {
        Some("word") => Ok(Format::Docx),
        Some("ppt") => Ok(Format::Pptx),
        Some("xl") => Ok(Format::Xlsx),
        _ if has("word/document.xml") => Ok(Format::Docx),
        _ if has("ppt/presentation.xml") => Ok(Format::Pptx),
        _ if has("xl/workbook.xml") => Ok(Format::Xlsx),
        _ if has("META-INF/container.xml") => Ok(Format::Epub),
        _ if has("content.xml") => Ok(by_name
            .filter(|format| matches!(format, Format::Odt | Format::Ods | Format::Odp))
            .unwrap_or(Format::Odt)),
        _ => by_name.ok_or_else(|| unsupported(PLAIN, UNPACK)),
    }
}

/// Whether a zip archive is of no other kind.
pub(crate) fn is_plain_zip(bytes: &[u8], name: &str) -> bool {
    let by_name = Format::of_extension(&super::extension(name));
    format(bytes, by_name) == Err(unsupported(PLAIN, UNPACK))
}

/// The format of the part `mimetype`, with which OpenDocument files and books begin.
fn of_media_type(kind: &str) -> Result<Format, Failure> {
    let kind = kind.trim_end_matches("-template");
    for format in [Format::Odt, Format::Ods, Format::Odp, Format::Epub] {
        if kind == format.media_type() {
            return Ok(format);
        }
    }
    match kind.strip_prefix("application/vnd.oasis.opendocument.") {
        Some("text-master" | "text-web") => Ok(Format::Odt),
        Some(kind) => {
            Err(unsupported(&format!("OpenDocument files of the kind `{kind}`"), "export it as PDF"))
        }
        None => Err(unsupported(
            &format!("archives of the type `{}`", kind.chars().take(100).collect::<String>()),
            "convert it to PDF",
        )),
    }
}
