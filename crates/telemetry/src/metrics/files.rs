//! Files that are read, recognised, unpacked and kept, and lines of streams.

use std::time::Duration;

use super::labels::{ExtractionLabels, LabelValue, ResultLabel};
use super::{Metrics, to_i64};

impl Metrics {
    /// Counts a file that was read: `extracted`, `partial`, or the code of the error. `format` is one of few names.
    pub fn file_extracted(&self, format: &'static str, result: &'static str, took: Duration) {
        self.count_file(format, result);
        self.extraction_seconds.observe(took.as_secs_f64());
    }

    /// Counts a file that was not read because its documents are stored already.
    pub fn file_unchanged(&self, format: &'static str) {
        self.count_file(format, "unchanged");
    }

    fn count_file(&self, format: &'static str, result: &'static str) {
        let labels =
            ExtractionLabels { format: LabelValue::Static(format), result: LabelValue::Static(result) };
        self.extractions.get_or_create(&labels).inc();
    }

    /// Counts a file that another server was asked for: `answered` or `failed`.
    pub fn file_recognised(&self, result: &'static str, took: Duration) {
        self.recognitions.get_or_create(&result_label(result)).inc();
        self.recognition_seconds.observe(took.as_secs_f64());
    }

    /// Counts the files of an archive.
    pub fn archive_unpacked(&self, unpacked: u64, refused: u64) {
        self.archive_members.get_or_create(&result_label("unpacked")).inc_by(unpacked);
        self.archive_members.get_or_create(&result_label("refused")).inc_by(refused);
    }

    /// Counts an original file: `kept`, `refused` or `removed`.
    pub fn original(&self, result: &'static str) {
        self.originals.get_or_create(&result_label(result)).inc();
    }

    /// Counts uploaded files that are to be read, or fewer of them.
    pub fn unread_files(&self, change: i64) {
        self.unread_files.inc_by(change);
    }

    /// Sets the bytes of the uploaded files that are not read or have failed.
    pub fn upload_bytes(&self, bytes: u64) {
        self.upload_bytes.set(to_i64(bytes));
    }

    /// Sets the number and the bytes of the original files.
    pub fn originals(&self, files: i64, bytes: u64) {
        self.original_files.set(files);
        self.original_bytes.set(to_i64(bytes));
    }

    /// Counts lines of a stream of documents.
    pub fn lines_ingested(&self, stored: u64, failed: u64) {
        self.ingest_lines.get_or_create(&result_label("stored")).inc_by(stored);
        self.ingest_lines.get_or_create(&result_label("failed")).inc_by(failed);
    }
}

fn result_label(result: &'static str) -> ResultLabel {
    ResultLabel { result: LabelValue::Static(result) }
}
