//! E-mail: single messages, and mailboxes with a page for each message.
//!
//! The subject is the title. The text is the plain part, else the HTML part. Attachments and attached messages are documents
//! of their own; what is in them isn't looked at here.

mod body;
mod mbox;
mod part;

use mail_parser::{Address, HeaderValue, Message, MessageParser, MimeHeaders};

use crate::output::{Block, Output};
use crate::{Attachment, Extracted, Failure, Format, Limits};
use part::{Collected, Walk};

/// Bytes of the header fields of a message or part; the rest is not read.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// Addresses of one header field.
const ADDRESSES_MAX: usize = 1000;

/// Extracts the text of a message.
pub(crate) fn extract(bytes: &[u8], limits: &Limits) -> Result<Extracted, Failure> {
    let mut output = Output::new(limits);
    let parser = MessageParser::default();
    let (head, _) = split_head(bytes);
    let headers = parser
        .parse_headers(head)
        .ok_or_else(|| Failure::DamagedFile("it has no header fields of a message".to_owned()))?;
    add_metadata(&headers, &mut output);
    let collected = Walk::new(&parser, limits).message(bytes)?;
    output.start_block(Block::Paragraph);
    let body = collected.text.trim();
    // a message without a text still says what it is about
    output.push_lines(if body.is_empty() { headers.subject().unwrap_or_default() } else { body });
    output.end_block();
    attach(collected, &mut output);
    output.finish()
}

/// Extracts the text of a mailbox.
pub(crate) fn extract_mbox(bytes: &[u8], limits: &Limits) -> Result<Extracted, Failure> {
    let mut output = Output::new(limits);
    let parser = MessageParser::default();
    for message in mbox::messages(bytes) {
        let is_wanted = output.wants_next_page();
        let (head, _) = split_head(&message);
        let headers = parser.parse_headers(head);
        let subject = headers
            .as_ref()
            .and_then(|headers| headers.subject())
            .map(|subject| subject.split_whitespace().collect::<Vec<_>>().join(" "));
        output.start_page(subject.clone().filter(|subject| !subject.is_empty()), false);
        if output.is_full() {
            break;
        }
        let Some(headers) = headers.filter(|_| is_wanted) else { continue };
        output.start_block(Block::Heading(1, String::new()));
        output.push(&subject.unwrap_or_default());
        output.start_block(Block::Paragraph);
        let from = addresses(headers.from()).join(", ");
        let date = headers.date().map(ToString::to_string).unwrap_or_default();
        for (name, value) in [("From", from), ("Date", date)] {
            if !value.is_empty() {
                output.line_break();
                output.push(&format!("{name}: {value}"));
            }
        }
        output.end_block();
        // one message is not worth a mailbox
        match Walk::new(&parser, limits).message(&message) {
            Ok(collected) => {
                output.start_block(Block::Paragraph);
                output.push_lines(&collected.text);
                output.end_block();
                attach(collected, &mut output);
            }
            Err(_) => output.warn_broken_page(),
        }
    }
    output.finish()
}

/// The header fields of a message or part, and what follows them.
fn split_head(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut at = 0;
    let mut head_end = None;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let is_blank = matches!(line, b"\n" | b"\r\n");
        if at + line.len() > HEAD_BYTES_MAX {
            head_end = head_end.or(Some(at));
        }
        at += line.len();
        if is_blank {
            return (&bytes[..head_end.unwrap_or(at)], &bytes[at..]);
        }
    }
    (&bytes[..head_end.unwrap_or(at)], &[])
}

fn add_metadata(headers: &Message<'_>, output: &mut Output<'_>) {
    let subject = headers.subject().unwrap_or_default();
    output.set_title(subject);
    output.add_metadata("subject", subject);
    output.add_metadata("from", &addresses(headers.from()).join(", "));
    output.add_list("to", &addresses(headers.to()));
    output.add_list("cc", &addresses(headers.cc()));
    if let Some(date) = headers.date().filter(|date| date.is_valid()) {
        output.add_metadata("date", &date.to_rfc3339());
    }
    output.add_metadata("message_id", headers.message_id().unwrap_or_default());
    if let HeaderValue::Text(parent) = headers.in_reply_to() {
        output.add_metadata("in_reply_to", parent);
    }
}

/// The addresses of a header field, as `Name <address>`.
fn addresses(field: Option<&Address<'_>>) -> Vec<String> {
    let Some(field) = field else { return Vec::new() };
    let addresses =
        field.iter().take(ADDRESSES_MAX).filter_map(|address| match (&address.name, &address.address) {
            (Some(name), Some(address)) if !name.is_empty() => Some(format!("{name} <{address}>")),
            (_, Some(address)) => Some(address.to_string()),
            (Some(name), None) => Some(name.to_string()),
            (None, None) => None,
        });
    addresses.filter(|address| !address.trim().is_empty()).collect()
}

/// Keeps the attachments that are documents, and counts the others.
fn attach(collected: Collected, output: &mut Output<'_>) {
    for attachment in collected.attachments {
        match Format::of(&attachment.bytes, &attachment.name) {
            Ok(_) | Err(Failure::Encrypted | Failure::DamagedFile(_)) if !attachment.bytes.is_empty() => {
                output.attach(attachment)
            }
            Ok(_) | Err(_) => output.warn(
                "attachment",
                "attachments of kinds that are not read, such as pictures, were left out",
            ),
        }
    }
}

/// The name of an attachment: not a path.
fn file_name(name: &str) -> String {
    const NAME_CHARS_MAX: usize = 200;
    let name: String = name
        .chars()
        .filter(|c| !c.is_control())
        .take(NAME_CHARS_MAX)
        .map(|c| if matches!(c, '/' | '\\') { '_' } else { c })
        .collect();
    name.trim().to_owned()
}

/// The attachment of a part that isn't text of its message.
fn attachment(headers: &Message<'_>, bytes: Vec<u8>, number: usize, extension: &str) -> Attachment {
    let name = file_name(headers.attachment_name().unwrap_or_default());
    let name = if name.is_empty() { format!("part-{number}{extension}") } else { name };
    Attachment { name, bytes }
}
