//! The chunks of a text or a file, without storing it.

use std::sync::Arc;

use weir_api::{ChunksPreviewReply, ChunksPreviewRequest, DocumentPage, ErrorCode, Invalid, PreviewedChunk};
use weir_policy::Caller;
use weir_text::PageMap;

use crate::ingest::{UploadedFile, page_map};
use crate::{CollectionView, Result, Retrieval};
use weir_extraction::title_of;
use weir_preparation::Chunker;

/// Texts of more bytes are split in the background.
const SPLIT_INLINE_BYTES_MAX: usize = 4 << 10;

impl Retrieval {
    /// The chunks of a text, as the documents of a collection are split or as the request says.
    ///
    /// # Errors
    /// `collection_not_found`; `invalid_parameter`, `payload_too_large` for a request that is not valid.
    pub async fn preview_chunks(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        mut request: ChunksPreviewRequest,
    ) -> Result<ChunksPreviewReply> {
        let defaults = &self.config.chunking;
        request.check(&self.config.request_limits(), defaults.max_tokens, defaults.overlap_tokens)?;
        let view = self.view(caller, collection)?;
        let pages = request.pages.take().and_then(|pages| {
            PageMap::new(
                pages.into_iter().map(|DocumentPage { end, label, approximate }| (end, label, approximate)),
            )
        });
        self.preview(&view, request, pages).await
    }

    /// The chunks of a file. `request` has no text and no pages.
    ///
    /// # Errors
    /// The reason why the file cannot be read; as [`Retrieval::preview_chunks`].
    pub async fn preview_file(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        file: UploadedFile,
        mut request: ChunksPreviewRequest,
    ) -> Result<ChunksPreviewReply> {
        let (limits, defaults) = (self.config.request_limits(), &self.config.chunking);
        request.check(&limits, defaults.max_tokens, defaults.overlap_tokens)?;
        let view = self.view(caller, collection)?;
        let extracted = self.extraction.extract(&file.name, Box::new(file.content), true).await?.extracted;
        if extracted.is_archive {
            let message = "an archive has no text of its own; send one of its files";
            return Err(Invalid::whole(ErrorCode::UnsupportedFormat, message).into());
        }
        request.title = request.title.or_else(|| title_of(extracted.title, &file.name, &limits));
        request.text = extracted.text;
        self.preview(&view, request, page_map(extracted.pages)).await
    }

    async fn preview(
        &self,
        view: &CollectionView,
        request: ChunksPreviewRequest,
        pages: Option<PageMap>,
    ) -> Result<ChunksPreviewReply> {
        let settings = match request.chunking {
            Some(chunking) => self.collections.completed(chunking),
            None => view.settings().chunking.unwrap_or_default(),
        };
        let model = view.model().cloned();
        let id = model.as_ref().map(|model| model.id.clone());
        let chunker = Chunker::new(&settings, model);
        let input_tokens_max = chunker.input_tokens_max().map(|tokens| tokens as u64);
        let is_long = request.text.len() > SPLIT_INLINE_BYTES_MAX;
        let split = move || split(&chunker, &request, pages.as_ref());
        let (total_chunks, chunks) = self.maybe_in_background(is_long, split).await?;
        Ok(ChunksPreviewReply { chunking: settings, model: id, input_tokens_max, total_chunks, chunks })
    }
}

/// The number of chunks, and the first of them.
fn split(
    chunker: &Chunker,
    request: &ChunksPreviewRequest,
    pages: Option<&PageMap>,
) -> (u64, Vec<PreviewedChunk>) {
    let title = request.title.as_deref().unwrap_or_default();
    let chunks = chunker.chunks(&request.text, title, pages);
    let total = chunks.len() as u64;
    let prefix = chunker.prefix(title);
    let shown = usize::try_from(request.limit()).unwrap_or(usize::MAX);
    let previewed = (0..).zip(chunks.into_iter().take(shown)).map(|(chunk, split)| {
        let quote = request.text[split.span.clone()].to_owned();
        let (start, end) = (split.span.start as u64, split.span.end as u64);
        let located = pages.and_then(|pages| pages.locate(start..end));
        PreviewedChunk {
            chunk,
            start,
            end,
            tokens: chunker.count_tokens(&quote) as u64,
            embedded_tokens: chunker.count_tokens(&format!("{prefix}{}", split.text(&request.text))) as u64,
            quote,
            context: split.context.map(String::from),
            page: located.as_ref().map(|pages| pages.first),
            page_end: located.as_ref().map(|pages| pages.last),
            page_label: located.and_then(|pages| pages.label),
        }
    });
    (total, previewed.collect())
}
