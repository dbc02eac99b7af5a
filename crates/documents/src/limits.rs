//! The limits of one file.

/// The limits of one file. The defaults bound memory to a few times the size of the text.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of text; the rest is cut and said as the warning `text_limit`.
    pub text_bytes: usize,
    /// Pages; the rest is cut and said as the warning `page_limit`.
    pub pages: usize,
    /// The first page that is read, from 0. Used to go on behind a page that failed.
    pub first_page: usize,
    /// Pages of a PDF that are not read, from 0: the process ended on them.
    pub skipped_pages: Vec<usize>,
    /// Called with the number of each page of a PDF, from 0, before it is read.
    pub on_page: Option<fn(usize)>,
    /// Whether text is read that the file hides.
    pub hidden_text: bool,
    /// Whether comments are read.
    pub comments: bool,
    /// Whether archives are unpacked.
    pub archives: bool,
    /// Files of an archive.
    pub archive_members: usize,
    /// Unpacked bytes of a file of an archive.
    pub archive_member_bytes: u64,
    /// Unpacked bytes of all files of an archive.
    pub archive_bytes: u64,
    /// Decoded bytes of one stream of a PDF.
    pub pdf_stream_bytes: usize,
    /// Decoded bytes of all content streams of a PDF, each counted as often as it is drawn.
    pub pdf_bytes: u64,
    /// Operators of all content streams of a PDF.
    pub pdf_operators: u64,
    /// Forms that all pages of a PDF draw.
    pub pdf_forms: u64,
    /// Nested forms of a PDF.
    pub pdf_form_depth: usize,
    /// Glyphs of one PDF page.
    pub page_glyphs: usize,
    /// Entries of a zip archive.
    pub zip_entries: usize,
    /// Unpacked bytes of one entry of a zip archive.
    pub zip_entry_bytes: u64,
    /// Unpacked bytes of all entries that are read.
    pub zip_bytes: u64,
    /// Nested elements of an XML part.
    pub xml_depth: usize,
    /// Events of all XML parts.
    pub xml_events: u64,
    /// Cells of all sheets.
    pub cells: u64,
    /// Nested groups of an RTF file.
    pub rtf_depth: usize,
    /// Nested parts of a message.
    pub mail_depth: usize,
    /// Parts of a message.
    pub mail_parts: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            text_bytes: 16 << 20,
            pages: 20_000,
            first_page: 0,
            skipped_pages: Vec::new(),
            on_page: None,
            hidden_text: false,
            comments: true,
            archives: false,
            archive_members: 1_000,
            archive_member_bytes: 64 << 20,
            archive_bytes: 120 << 20,
            pdf_stream_bytes: 128 << 20,
            pdf_bytes: 2 << 30,
            pdf_operators: 20_000_000,
            pdf_forms: 100_000,
            pdf_form_depth: 20,
            page_glyphs: 500_000,
            zip_entries: 20_000,
            zip_entry_bytes: 128 << 20,
            zip_bytes: 512 << 20,
            xml_depth: 256,
            xml_events: 50_000_000,
            cells: 5_000_000,
            rtf_depth: 2_000,
            mail_depth: 8,
            mail_parts: 1_000,
        }
    }
}
