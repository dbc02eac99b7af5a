//! The head of the child's input: the name of the file and the limits.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use weir_documents::Limits;

use crate::frames;
use crate::sandbox::Sandbox;

/// Most bytes of a head.
const HEAD_BYTES_MAX: u32 = 64 << 10;

/// The head of the child's input. The bytes of the file follow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The name of the file, which helps where the content does not show the format.
    pub(crate) name: String,
    /// Most bytes of text; the rest is cut.
    pub(crate) text_bytes_max: usize,
    /// Most pages; the rest is cut.
    pub(crate) pages_max: usize,
    /// Pages that are not read, from 0.
    pub(crate) skipped_pages: Vec<usize>,
    /// Whether text is read that the file hides.
    pub(crate) hidden_text: bool,
    /// Whether comments are read.
    pub(crate) comments: bool,
    /// Whether archives are unpacked.
    pub(crate) archives: bool,
    pub(crate) sandbox: Sandbox,
    pub(crate) memory_bytes: u64,
    pub(crate) cpu_seconds: u64,
    pub(crate) wall_ms: u64,
}

impl Request {
    /// The limits of the readers.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            text_bytes: self.text_bytes_max,
            pages: self.pages_max,
            skipped_pages: self.skipped_pages.clone(),
            on_page: Some(frames::report_page),
            hidden_text: self.hidden_text,
            comments: self.comments,
            archives: self.archives,
            ..Limits::default()
        }
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let json = serde_json::to_vec(self)?;
        let length = u32::try_from(json.len()).ok().filter(|length| *length <= HEAD_BYTES_MAX);
        let length = length.ok_or_else(|| io::Error::other("the name of the file is too long"))?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&json)
    }

    pub(crate) fn read(input: &mut impl Read) -> io::Result<Request> {
        let mut length = [0; 4];
        input.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut json = vec![0; length as usize];
        input.read_exact(&mut json)?;
        Ok(serde_json::from_slice(&json)?)
    }
}
