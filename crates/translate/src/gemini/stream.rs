//! Gemini's stream as OpenAI's.

use super::{Candidate, Part, PromptFeedback, Response, finish_reason};
use crate::TokenUsage;
use crate::chunk::{ChunkWriter, Delta};
use crate::completion::ExtraContent;
use crate::messages::made_id;
use crate::{ReplyContext, TranslateError, read_reply};
use weir_schema::whole_characters;

/// Candidates of one reply. Gemini gives at most 8.
const CANDIDATES_MAX: u64 = 128;

/// The content that one candidate has sent.
#[derive(Default)]
struct Progress {
    has_started: bool,
    has_finished: bool,
    calls: usize,
    /// The last signature of a text.
    signature: Option<String>,
}

/// Translates the events of `:streamGenerateContent`.
pub(crate) struct GeminiStream {
    chunks: ChunkWriter,
    usage: TokenUsage,
    /// By the candidate's index.
    candidates: Vec<Progress>,
    /// Calls of all candidates.
    calls: usize,
}

impl GeminiStream {
    pub(crate) fn new(context: ReplyContext) -> GeminiStream {
        GeminiStream {
            chunks: ChunkWriter::new(context),
            usage: TokenUsage::default(),
            candidates: Vec::new(),
            calls: 0,
        }
    }

    pub(crate) fn usage(&self) -> TokenUsage {
        self.usage
    }

    pub(crate) fn push(&mut self, data: &str, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        if data.is_empty() {
            return Ok(());
        }
        let data = whole_characters(data.as_bytes());
        let response: Response<'_> = read_reply(&data)?;
        if let Some(usage) = &response.usage_metadata {
            self.usage = self.usage.merged(usage.tokens());
        }
        response.check()?;
        for (number, candidate) in response.candidates.unwrap_or_default().iter().enumerate() {
            self.candidate(candidate.index.unwrap_or(number as u64), candidate, out)?;
        }
        if let Some(refusal) = response.prompt_feedback.and_then(PromptFeedback::refusal) {
            self.refuse(&refusal, out)?;
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        let are_finished =
            self.candidates.iter().all(|progress| progress.has_finished || !progress.has_started);
        if self.candidates.is_empty() || !are_finished {
            return Err(TranslateError::Reply("the stream ended before its `finishReason`".to_owned()));
        }
        self.chunks.end(self.usage(), out);
        Ok(())
    }

    /// The state of a candidate, which is started by its first event.
    fn progress(&mut self, index: u64, out: &mut Vec<u8>) -> Result<&mut Progress, TranslateError> {
        if index >= CANDIDATES_MAX {
            return Err(TranslateError::Reply(format!("it has a candidate {index}")));
        }
        let position = index as usize;
        if position >= self.candidates.len() {
            self.candidates.resize_with(position + 1, Progress::default);
        }
        let progress = &mut self.candidates[position];
        if !std::mem::replace(&mut progress.has_started, true) {
            self.chunks.role(index, out);
        }
        Ok(progress)
    }

    fn candidate(
        &mut self,
        index: u64,
        candidate: &Candidate<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), TranslateError> {
        if self.progress(index, out)?.has_finished {
            return Ok(());
        }
        let parts = candidate.content.as_ref().and_then(|content| content.parts.as_deref());
        for part in parts.unwrap_or_default() {
            self.part(index, part, out)?;
        }
        if let Some(reason) = &candidate.finish_reason {
            let progress = self.progress(index, out)?;
            progress.has_finished = true;
            let signature = progress.signature.take();
            let reason = finish_reason(candidate, reason, progress.calls > 0)?;
            // clients join texts of several chunks, and a signature counts whole
            if let Some(signature) = &signature {
                let extra_content = Some(ExtraContent::signature(signature));
                self.chunks.delta(index, Delta { extra_content, ..Delta::default() }, out);
            }
            self.chunks.finish_reason(index, reason, out);
        }
        Ok(())
    }

    fn part(&mut self, index: u64, part: &Part<'_>, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        if let Some(call) = &part.function_call {
            let made_id = made_id(self.chunks.id(), self.calls);
            self.calls += 1;
            let mut call = call.tool_call(&made_id, part.thought_signature.as_deref());
            let progress = self.progress(index, out)?;
            call.index = Some(progress.calls);
            progress.calls += 1;
            self.chunks.call(index, call, out);
            return Ok(());
        }
        if let Some(text) = &part.text {
            match part.thought == Some(true) {
                true => self.chunks.reasoning(index, &text.0, out),
                false => self.chunks.content(index, &text.0, out),
            }
        }
        if let Some(signature) = part.thought_signature.as_deref() {
            self.progress(index, out)?.signature = Some(signature.to_owned());
        }
        Ok(())
    }

    /// Ends the reply to a prompt that Gemini has blocked.
    fn refuse(&mut self, refusal: &str, out: &mut Vec<u8>) -> Result<(), TranslateError> {
        let progress = self.progress(0, out)?;
        if !std::mem::replace(&mut progress.has_finished, true) {
            self.chunks.delta(0, Delta { refusal: Some(refusal), ..Delta::default() }, out);
            self.chunks.finish_reason(0, "content_filter", out);
        }
        Ok(())
    }
}
