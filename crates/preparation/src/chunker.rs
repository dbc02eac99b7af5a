//! Splits documents by the policy of their collection.

use std::ops::Range;
use std::sync::Arc;

use weir_api::{ChunkingPolicy, Count};
use weir_inference::{LoadedModel, Pseudo};
use weir_text::{Chunking, PageMap, Policy, TokenOffsets};

/// Most bytes of a chunk: some tokenizers turn any number of characters without a space into one token.
const CHUNK_BYTES_MAX: usize = 8 << 10;
/// The same for chunks that are pages or documents.
const WHOLE_CHUNK_BYTES_MAX: usize = 64 << 10;

/// The part of a chunk that the header of a table or the trail of headings may take. A longer header is not repeated with its rows; a trail
/// loses its outer headings.
const CONTEXT_SHARE: usize = 4;

/// Fewest tokens for the text of a chunk, however long title and prompt are.
const CHUNK_TOKENS_MIN: usize = 32;

/// Stands between the headings of a trail.
const TRAIL_SEPARATOR: &str = " > ";

/// The settings by which documents are split.
#[derive(Clone)]
pub struct Chunker {
    policy: Policy,
    /// `None`: as many as the model takes.
    tokens_max: Option<usize>,
    overlap_tokens: usize,
    /// `None` counts words.
    model: Option<Arc<LoadedModel>>,
}

/// A chunk of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextChunk {
    /// Its place in the text, in bytes.
    pub span: Range<usize>,
    /// Stands before the text of the chunk wherever that is embedded, searched and returned: the trail of headings, the header of a table.
    pub context: Option<Box<str>>,
}

impl Chunker {
    /// `settings` are complete.
    pub fn new(settings: &weir_api::Chunking, model: Option<Arc<LoadedModel>>) -> Chunker {
        let number = |count: Option<Count>| count.map(|count| count.get_u32() as usize);
        Chunker {
            policy: match settings.policy.unwrap_or_default() {
                ChunkingPolicy::Tokens => Policy::Tokens,
                ChunkingPolicy::Sentences => Policy::Sentences {
                    max: number(settings.max_sentences).unwrap_or(1),
                    overlap: number(settings.overlap_sentences).unwrap_or(0),
                },
                ChunkingPolicy::Headings => Policy::Headings,
                ChunkingPolicy::Pages => Policy::Pages,
                ChunkingPolicy::Fixed => Policy::Fixed,
                ChunkingPolicy::None => Policy::None,
            },
            tokens_max: number(settings.max_tokens),
            overlap_tokens: number(settings.overlap_tokens).unwrap_or(0),
            model,
        }
    }

    /// Whether chunks depend on pages.
    pub fn uses_pages(&self) -> bool {
        self.policy == Policy::Pages
    }

    /// Most tokens of an input of the model, less those that it adds itself. `None` without a limit that is known.
    pub fn input_tokens_max(&self) -> Option<usize> {
        self.model.as_ref().map(|model| model.max_tokens()).filter(|tokens| *tokens < u32::MAX as usize)
    }

    /// The text that is embedded before each chunk: the prompt of the model, and the title, which is searchable and gives the chunk its context.
    pub fn prefix(&self, title: &str) -> String {
        let prompt = self.model.as_ref().map_or("", |model| model.document_prompt());
        match title {
            "" => prompt.to_owned(),
            title => format!("{prompt}{title} "),
        }
    }

    /// The number of tokens of a text.
    pub fn count_tokens(&self, text: &str) -> usize {
        self.token_spans(text).len()
    }

    /// The chunks of a text with this title.
    pub fn chunks(&self, text: &str, title: &str, pages: Option<&PageMap>) -> Vec<TextChunk> {
        let room = match &self.model {
            Some(model) => {
                let room = model.max_tokens().saturating_sub(self.count_tokens(&self.prefix(title)));
                room.clamp(CHUNK_TOKENS_MIN, u32::MAX as usize)
            }
            None => self.tokens_max.unwrap_or(u32::MAX as usize),
        };
        let max_tokens = self.tokens_max.map_or(room, |most| most.min(room));
        let is_whole = matches!(self.policy, Policy::Pages | Policy::None);
        let chunking = Chunking {
            max_tokens,
            overlap_tokens: self.overlap_tokens,
            max_bytes: if is_whole { WHOLE_CHUNK_BYTES_MAX } else { CHUNK_BYTES_MAX },
        };
        let context_max = max_tokens / CONTEXT_SHARE;
        let (chunks, longest) = self.split(text, title, pages, &chunking, context_max);
        let spare = room - max_tokens;
        if longest <= spare {
            return chunks;
        }
        // smaller, so that they fit beside what stands before them
        let smaller = Chunking { max_tokens: max_tokens - (longest - spare), ..chunking };
        self.split(text, title, pages, &smaller, context_max).0
    }

    /// The chunks, and the number of tokens of the longest context.
    fn split(
        &self,
        text: &str,
        title: &str,
        pages: Option<&PageMap>,
        chunking: &Chunking,
        context_max: usize,
    ) -> (Vec<TextChunk>, usize) {
        let token_offsets: TokenOffsets<'_> = &mut |piece: &str| self.token_spans(piece);
        let spans = weir_text::split(text, pages, self.policy, chunking, token_offsets);
        let headers =
            Contexts::new(weir_text::table_headers(text, &spans), |header: &Option<Range<usize>>| {
                self.header(text, header.as_ref()?, context_max)
            });
        let trails = match self.policy {
            Policy::Headings => weir_text::heading_trails(text, &spans),
            Policy::Tokens | Policy::Sentences { .. } | Policy::Pages | Policy::Fixed | Policy::None => {
                vec![Vec::new(); spans.len()]
            }
        };
        let trails =
            Contexts::new(trails, |trail: &Vec<Range<usize>>| self.trail(text, trail, title, context_max));
        let mut longest = 0;
        let chunks = spans.into_iter().zip(trails.zip(headers)).map(|(span, (trail, header))| {
            let parts: Vec<&str> =
                [&trail, &header].into_iter().flatten().map(|part| part.text.as_str()).collect();
            let tokens = [&trail, &header].into_iter().flatten().map(|part| part.tokens).sum();
            longest = longest.max(tokens);
            TextChunk { span, context: (!parts.is_empty()).then(|| parts.join("\n").into()) }
        });
        (chunks.collect(), longest)
    }

    /// The header of a table, if it is short enough.
    fn header(&self, text: &str, header: &Range<usize>, tokens_max: usize) -> Option<Context> {
        let text = text[header.clone()].trim();
        let tokens = self.count_tokens(text);
        (tokens <= tokens_max).then(|| Context { text: text.to_owned(), tokens })
    }

    /// The innermost headings of a trail that are short enough together; without the outermost one if that is the title, which stands before
    /// each chunk anyway.
    fn trail(&self, text: &str, trail: &[Range<usize>], title: &str, tokens_max: usize) -> Option<Context> {
        let mut headings: Vec<&str> = trail.iter().map(|heading| text[heading.clone()].trim()).collect();
        if headings.first().is_some_and(|first| *first == title.trim()) {
            headings.remove(0);
        }
        (0..headings.len()).find_map(|first| {
            let text = headings[first..].join(TRAIL_SEPARATOR);
            let tokens = self.count_tokens(&text);
            (tokens <= tokens_max).then_some(Context { text, tokens })
        })
    }

    fn token_spans(&self, text: &str) -> Vec<Range<usize>> {
        match &self.model {
            Some(model) => model.token_spans(text),
            // without a model, words are as good a measure as any
            None => Pseudo { dimension: 0 }.token_spans(text),
        }
    }
}

impl TextChunk {
    /// The text of the chunk as it is embedded, searched and shown.
    pub fn text(&self, text: &str) -> String {
        match &self.context {
            Some(context) => format!("{context}\n{}", &text[self.span.clone()]),
            None => text[self.span.clone()].to_owned(),
        }
    }
}

/// The text before a chunk.
#[derive(Clone)]
struct Context {
    text: String,
    tokens: usize,
}

/// A context for each of the sources; neighbours with the same source share one.
struct Contexts<S, F> {
    sources: std::vec::IntoIter<S>,
    last: Option<(S, Option<Context>)>,
    make: F,
}

impl<S: PartialEq, F: FnMut(&S) -> Option<Context>> Contexts<S, F> {
    fn new(sources: Vec<S>, make: F) -> Contexts<S, F> {
        Contexts { sources: sources.into_iter(), last: None, make }
    }
}

impl<S: PartialEq, F: FnMut(&S) -> Option<Context>> Iterator for Contexts<S, F> {
    type Item = Option<Context>;

    fn next(&mut self) -> Option<Option<Context>> {
        let source = self.sources.next()?;
        if let Some((_, context)) = self.last.as_ref().filter(|(last, _)| *last == source) {
            return Some(context.clone());
        }
        let context = (self.make)(&source);
        self.last = Some((source, context.clone()));
        Some(context)
    }
}
