//! Files: sent as they are, the gateway extracts their text.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};

use weir_api::{FileOptions, FormatsReply, JobReply};

use super::documents::{Condition, WriteOptions};
use crate::call::ApiCall;
use crate::{Client, IngestOptions, Result};

/// A file to upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileUpload {
    /// Its name. The gateway finds the format by the content, and by the ending where the content does not show it.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The id, title and metadata of its document.
    pub options: FileOptions,
}

impl Client {
    /// The kinds of files that the gateway reads.
    pub async fn formats(&self) -> Result<FormatsReply> {
        self.value(ApiCall::get("/v1/formats")).await
    }

    /// Sends files. They are on disk when this returns; their documents are searchable when the job is finished, which extracts the text:
    /// [`Client::wait_for_job`]. A file without a text is an error of the job.
    pub async fn upload(&self, collection: &str, files: &[FileUpload]) -> Result<JobReply> {
        self.upload_with(collection, files, WriteOptions::default()).await
    }

    /// The same with a key, or a webhook. The condition of the options is not used.
    pub async fn upload_with(
        &self,
        collection: &str,
        files: &[FileUpload],
        options: WriteOptions<'_>,
    ) -> Result<JobReply> {
        let ingest = ingest_options(collection, files.len(), options.webhook_url);
        let options = WriteOptions { condition: Condition::Always, ..options };
        self.value(options.of(upload_call(&ingest, &files.iter().collect::<Vec<_>>()))?).await
    }

    /// The same, with the collection, the compared fields and the webhook of the options.
    pub(crate) async fn upload_on_terms(
        &self,
        options: &IngestOptions<'_>,
        files: &[&FileUpload],
        report: impl FnMut(&str),
    ) -> Result<JobReply> {
        self.reply(upload_call(options, files), report).await?.parse()
    }
}

fn ingest_options<'a>(collection: &'a str, files: usize, webhook_url: Option<&'a str>) -> IngestOptions<'a> {
    IngestOptions {
        collection,
        batch_documents_max: files,
        bytes_total: 0,
        replace_if_equal: &[],
        keep_originals: false,
        webhook_url,
    }
}

fn upload_call(options: &IngestOptions<'_>, files: &[&FileUpload]) -> ApiCall {
    let (body, boundary) = form(options, files);
    ApiCall::post_bytes("/v1/ingest", body, &format!("multipart/form-data; boundary={boundary}"))
}

/// The form, and the boundary of its parts: 128 random bits, which no file contains.
fn form(options: &IngestOptions<'_>, files: &[&FileUpload]) -> (Vec<u8>, String) {
    let random = || RandomState::new().build_hasher().finish();
    let boundary = format!("weir-{:016x}{:016x}", random(), random());
    let mut body = Vec::with_capacity(files.iter().map(|file| file.bytes.len() + 1024).sum());
    let mut part = |head: &str, content: &[u8]| {
        body.extend_from_slice(
            format!("--{boundary}\r\ncontent-disposition: form-data; {head}\r\n\r\n").as_bytes(),
        );
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    };
    part("name=\"collection\"", options.collection.as_bytes());
    if let Some(url) = options.webhook_url {
        part("name=\"webhook_url\"", url.as_bytes());
    }
    for field in options.replace_if_equal {
        part("name=\"replace_if_equal\"", field.as_bytes());
    }
    for file in files {
        part(&format!("name=\"file\"; filename=\"{}\"", quoted(&file.name)), &file.bytes);
        // texts and checked JSON always have a JSON form
        part("name=\"options\"", &serde_json::to_vec(&file.options).unwrap_or_default());
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    (body, boundary)
}

/// A name as browsers write it in a form.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_has_each_file_before_its_options() {
        let options = FileOptions { id: Some("a".to_owned()), ..FileOptions::default() };
        let file = FileUpload { name: "a\"b.pdf".to_owned(), bytes: b"\0\r\n--".to_vec(), options };
        let terms = |replace_if_equal, webhook_url| IngestOptions {
            collection: "notes",
            batch_documents_max: 1,
            bytes_total: 0,
            replace_if_equal,
            webhook_url,
            keep_originals: false,
        };
        let (body, boundary) = form(&terms(&["folder"], Some("https://example.com/")), &[&file]);
        let expected = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"collection\"\r\n\r\nnotes\r\n\
             --{boundary}\r\ncontent-disposition: form-data; name=\"webhook_url\"\r\n\r\nhttps://example.com/\r\n\
             --{boundary}\r\ncontent-disposition: form-data; name=\"replace_if_equal\"\r\n\r\nfolder\r\n\
             --{boundary}\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a%22b.pdf\"\r\n\r\n\0\r\n--\r\n\
             --{boundary}\r\ncontent-disposition: form-data; name=\"options\"\r\n\r\n{{\"id\":\"a\"}}\r\n\
             --{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8(body).unwrap(), expected);
        assert_ne!(form(&terms(&[], None), &[]).1, boundary);
    }
}
