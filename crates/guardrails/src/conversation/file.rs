//! Files within requests and replies: base64, in a `data:` URL or in a field of files. A text in it is checked as a text.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::walk::{Check, Reading, check_one, checked_prose, checked_text};

/// Shortest base64 that is taken for bytes alone, and not for a text as well. A key of a provider is longer than a word.
const FILE_BYTES_MIN: usize = 64;

const SCHEME: &str = "data:";
/// The mark before the base64 of a `data:` URL.
const MARK: &str = ";base64,";

/// Media types that are no text of anybody. Any other one is checked.
const MEDIA_TYPES: &[&str] = &[
    "application/json",
    "application/octet-stream",
    "application/pdf",
    "application/xml",
    "audio/flac",
    "audio/mp3",
    "audio/mp4",
    "audio/mpeg",
    "audio/ogg",
    "audio/wav",
    "audio/webm",
    "image/gif",
    "image/heic",
    "image/jpeg",
    "image/jpg",
    "image/png",
    "image/svg+xml",
    "image/webp",
    "text/csv",
    "text/html",
    "text/markdown",
    "text/plain",
    "text/xml",
    "video/mp4",
    "video/webm",
];

/// Whether the padding is left out is of no account.
const PADDING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, PADDING);
const BASE64_OF_URLS: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, PADDING);

/// The base64 of a file, and the text before it.
pub(super) struct File<'a> {
    /// Such as `data:text/plain`.
    head: &'a str,
    /// Such as `;name=a.txt`; also a media type that is not known.
    parameters: &'a str,
    /// `;base64,`, in a URL.
    mark: &'a str,
    base64: &'a str,
    /// Its text, if it is one. Other bytes, such as an image, are none.
    text: Option<FileText>,
    /// How it is encoded.
    encoding: &'static GeneralPurpose,
    /// Whether the base64 of a URL is checked as it is, too: it may be words. By itself, because a number directly behind `64,` is none.
    is_read: bool,
    /// Whether the check of the file reads all of it. Else the string may be a text as it is, too.
    pub(super) is_whole: bool,
}

/// The text of a file.
struct FileText {
    text: String,
    /// Whether the file has just this text, in UTF-8. Any other can't be changed.
    is_exact: bool,
}

/// The bytes of base64.
struct Decoded {
    bytes: Vec<u8>,
    encoding: &'static GeneralPurpose,
    /// Whether white space had to be left out.
    is_spaced: bool,
}

impl Default for File<'_> {
    fn default() -> Self {
        File {
            head: "",
            parameters: "",
            mark: "",
            base64: "",
            text: None,
            encoding: &BASE64,
            is_read: false,
            is_whole: false,
        }
    }
}

impl<'a> File<'a> {
    /// The file in a string, if it is one. `is_of_files`: whether its field has base64 without a URL.
    pub(super) fn of(is_of_files: bool, text: &'a str) -> Option<File<'a>> {
        match places_of_url(text) {
            Some((scheme_end, mark)) => Some(File::of_url(text, scheme_end, mark)),
            None if is_of_files => File::of_field(text),
            None => None,
        }
    }

    fn of_field(base64: &'a str) -> Option<File<'a>> {
        let Decoded { bytes, encoding, is_spaced } = decoded(base64)?;
        // the key of a provider
        let is_key = base64.len() < FILE_BYTES_MIN || base64.contains(['-', '_']);
        let text = FileText::of(bytes, "");
        Some(File { base64, text, encoding, is_whole: !is_key && !is_spaced, ..File::default() })
    }

    fn of_url(text: &'a str, scheme_end: usize, mark: usize) -> File<'a> {
        let (before, base64) = text.split_at(mark + MARK.len());
        let (head, mark) = before.split_at(mark);
        let media_type = &head[scheme_end..];
        let is_url = scheme_end == SCHEME.len() && is_media_type(media_type);
        let kind = media_type.split(';').next().unwrap_or_default();
        let head_end = match (is_url, MEDIA_TYPES.iter().any(|known| known.eq_ignore_ascii_case(kind))) {
            (true, true) => scheme_end + kind.len(),
            (true, false) => scheme_end,
            // it is checked as the text that it is
            (false, _) => head.len(),
        };
        let (head, parameters) = head.split_at(head_end);
        let file = File { head, parameters, mark, base64, ..File::default() };
        let Some(Decoded { bytes, encoding, is_spaced }) = decoded(base64) else {
            return File { is_read: true, ..file };
        };
        let is_read = is_spaced || base64.len() < FILE_BYTES_MIN || !is_url;
        File { text: FileText::of(bytes, media_type), encoding, is_read, is_whole: is_url, ..file }
    }

    /// Its replacement: a text is checked as a text.
    pub(super) fn checked<E>(&self, check: &mut Check<'_, E>) -> Result<Option<String>, E> {
        let parameters =
            if self.parameters.is_empty() { None } else { checked_text(self.parameters, false, check)? };
        let of_text = self.text.as_ref().map_or(Ok(None), |text| text.checked(check))?;
        let encoded = of_text.map(|text| self.encoding.encode(text));
        let base64 = encoded.as_deref().unwrap_or(self.base64);
        let read = if self.is_read { check_one(base64, Reading::Text, check)? } else { None };
        if parameters.is_none() && encoded.is_none() && read.is_none() {
            return Ok(None);
        }
        let parameters = parameters.as_deref().unwrap_or(self.parameters);
        let base64 = read.as_deref().unwrap_or(base64);
        Ok(Some([self.head, parameters, self.mark, base64].concat()))
    }
}

impl FileText {
    /// The text of these bytes as a reader decodes it, unless they are those of an image or another such file.
    fn of(bytes: Vec<u8>, media_type: &str) -> Option<FileText> {
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => return Some(FileText { text, is_exact: true }),
            Err(error) => error.into_bytes(),
        };
        let is_text = is_type_of_texts(media_type) || is_mostly_printable(&bytes);
        let lossy = || is_text.then(|| String::from_utf8_lossy(&bytes).into_owned());
        let text = utf16(&bytes).or_else(lossy)?;
        Some(FileText { text, is_exact: false })
    }

    fn checked<E>(&self, check: &mut Check<'_, E>) -> Result<Option<String>, E> {
        match self.is_exact {
            true => checked_text(&self.text, false, check),
            false => checked_prose(&self.text, Reading::Fixed, check),
        }
    }
}

/// Whether files of a media type are texts, whatever their encoding.
fn is_type_of_texts(media_type: &str) -> bool {
    let media_type = media_type.to_ascii_lowercase();
    let kind = media_type.split(';').next().unwrap_or_default();
    kind.starts_with("text/") || kind.contains("json") || kind.contains("xml")
}

/// Whether three of four bytes are those of an ASCII text. Of an image, two of five are.
fn is_mostly_printable(bytes: &[u8]) -> bool {
    let is_printable = |byte: &&u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r');
    4 * bytes.iter().filter(is_printable).count() >= 3 * bytes.len()
}

/// The text of bytes that begin with the byte order mark of UTF-16.
fn utf16(bytes: &[u8]) -> Option<String> {
    let unit: fn([u8; 2]) -> u16 = match bytes {
        [0xFF, 0xFE, ..] => u16::from_le_bytes,
        [0xFE, 0xFF, ..] => u16::from_be_bytes,
        _ => return None,
    };
    let units = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    Some(
        char::decode_utf16(units).map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER)).collect(),
    )
}

/// Whether a field has files as base64 without a URL.
pub(super) fn is_file_field(name: &str) -> bool {
    matches!(name, "data" | "file_data" | "b64_json" | "signature" | "encrypted_content")
}

/// Where the scheme of a `data:` URL with base64 ends, and where [`MARK`] begins. Such a URL may not be well-formed.
fn places_of_url(text: &str) -> Option<(usize, usize)> {
    let scheme_end = text.len() - text.trim_start().len() + SCHEME.len();
    let scheme = text.get(..scheme_end)?.trim_start();
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    let mut places = text.as_bytes()[scheme_end..].windows(MARK.len());
    let mark = places.position(|place| place.eq_ignore_ascii_case(MARK.as_bytes()))?;
    Some((scheme_end, scheme_end + mark))
}

/// Whether a text is a media type with parameters, as in `text/plain;name=a.txt`, without blanks.
fn is_media_type(text: &str) -> bool {
    let is_token = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !name.is_empty() && name.bytes().all(is_part)
    };
    let is_parameter = |parameter: &str| {
        parameter.split_once('=').is_some_and(|(name, value)| {
            is_token(name) && !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic())
        })
    };
    let mut parts = text.split(';');
    let kind = parts.next().and_then(|kind| kind.split_once('/'));
    kind.is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype)) && parts.all(is_parameter)
}

/// The bytes of a text that is base64 in either alphabet.
fn decoded(text: &str) -> Option<Decoded> {
    let decoded = |text: &str| {
        let mut encodings = [&BASE64, &BASE64_OF_URLS].into_iter();
        encodings.find_map(|encoding| Some((encoding.decode(text).ok()?, encoding)))
    };
    if let Some((bytes, encoding)) = decoded(text) {
        return Some(Decoded { bytes, encoding, is_spaced: false });
    }
    let joined: String = text.split_ascii_whitespace().collect();
    let (bytes, encoding) = decoded(&joined).filter(|_| joined.len() < text.len())?;
    Some(Decoded { bytes, encoding, is_spaced: true })
}
