//! The parameters in the query and in the headers that several routes have, or that need some lines.

/// The query parameters of routes that start a job.
const WEBHOOK_URL: (&str, &str) = ("webhook_url", "the address that is told when the job has ended");
pub(super) const WEBHOOK: &[(&str, &str)] = &[WEBHOOK_URL];
pub(super) const PATCH_PARAMETERS: &[(&str, &str)] =
    &[("wait", "`true` answers when the change is searchable, or at the deadline"), WEBHOOK_URL];

/// The header of requests that are carried out once.
const IDEMPOTENCY: (&str, &str) = (
    "Idempotency-Key",
    "a text of 1 to 255 characters; a request with the same key and the same content is answered as the first, and not carried out again",
);
pub(super) const ONCE: &[(&str, &str)] = &[IDEMPOTENCY];

/// The headers of conditional writes.
const IF_MATCH: (&str, &str) =
    ("If-Match", "the version that the document must have, as in its `ETag`; `*` for any");
const IF_NONE_MATCH: (&str, &str) = ("If-None-Match", "`*`: the document must not exist");
pub(super) const CONDITIONS: &[(&str, &str)] = &[IF_MATCH, IF_NONE_MATCH];
pub(super) const CONDITIONS_AND_ONCE: &[(&str, &str)] = &[IF_MATCH, IF_NONE_MATCH, IDEMPOTENCY];

/// The query parameters of a request with documents.
pub(super) const INGEST_PARAMETERS: &[(&str, &str)] = &[
    ("wait", "`true` answers when the documents are searchable, or at the deadline"),
    ("collection", "of lines or a file: the collection, which is created if it does not exist (`default`)"),
    ("replace_if_equal", "of lines or a file: a field of the metadata, as in JSON; can be repeated"),
    ("webhook_url", "of lines or a file: the address that is told when a job has ended"),
    ("filename", "the body is a file of this name, whatever its media type"),
    ("id", "of a file: the id of its document (its name without folders)"),
    ("title", "of a file: the title (that which the file declares, or its name)"),
    ("metadata", "of a file: the metadata, a JSON object"),
    (
        "keep_original",
        "of a file: whether it is kept (the setting of the collection, or `extract.keep_originals`)",
    ),
];

/// The query parameters of a `PUT` of a document.
pub(super) const PUT_PARAMETERS: &[(&str, &str)] = &[
    (
        "filename",
        "of a file: its name, by which the format is found where the content does not show it (the id)",
    ),
    ("title", "of a file: the title (that which the file declares, or its name)"),
    ("metadata", "of a file: the metadata, a JSON object"),
    (
        "keep_original",
        "of a file: whether it is kept, and returned by `…/original` (the setting `extract.keep_originals`)",
    ),
    ("wait", "`true` answers when the document is searchable, or at the deadline"),
    WEBHOOK_URL,
];

/// The query parameters of a preview of a file.
pub(super) const PREVIEW_PARAMETERS: &[(&str, &str)] = &[
    ("filename", "of a file: its name, by which the format is found where the content does not show it"),
    ("title", "of a file: the title (that which the file declares, or its name)"),
    ("chunking", "of a file: as the field in JSON, a JSON object"),
    ("limit", "of a file: as the field in JSON"),
];
