//! The calls of a stream. OpenAI's come in parts that name their call by an index, which servers leave out or give to all; Anthropic's come one
//! after the other.

use super::delta::CallDelta;
use crate::TranslateError;

/// Calls of one reply that are translated.
const CALLS_MAX: usize = 1024;
/// Arguments that are kept until the calls before theirs are complete.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// A call whose first part has come.
pub(crate) struct CallState {
    index: Option<u64>,
    pub(crate) id: String,
    pub(crate) name: String,
    /// The signature that goes before the block.
    pub(super) signature: Option<String>,
    /// The part of the arguments that was not sent yet.
    pub(crate) arguments: String,
    progress: Progress,
}

/// The calls of a reply, in their order.
#[derive(Default)]
pub(crate) struct Calls {
    pub(crate) calls: Vec<CallState>,
    /// How many were opened.
    opened: usize,
}

/// How far a JSON text has come.
#[derive(Default)]
struct Progress {
    /// The first byte that is no space.
    first: Option<u8>,
    depth: usize,
    is_string: bool,
    is_escaped: bool,
    has_begun: bool,
}

impl Progress {
    fn feed(&mut self, json: &str) {
        for byte in json.bytes() {
            if self.first.is_none() && !byte.is_ascii_whitespace() {
                self.first = Some(byte);
            }
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.is_string => self.is_escaped = true,
                b'"' => self.is_string = !self.is_string,
                b'{' | b'[' if !self.is_string => {
                    self.depth += 1;
                    self.has_begun = true;
                }
                b'}' | b']' if !self.is_string => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.has_begun && self.depth == 0 && !self.is_string
    }
}

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Takes a part of a call. `is_open`: whether the block of the call that was opened last is open.
    ///
    /// # Errors
    /// [`TranslateError::Reply`] for a part whose call is not known or was closed.
    pub(crate) fn push(
        &mut self,
        call: &CallDelta<'_>,
        is_open: bool,
        made_id: impl Fn(usize) -> String,
    ) -> Result<(), TranslateError> {
        let arguments = call.arguments();
        let position = match self.find(call, &arguments) {
            Some(position) => position,
            None => self.add(call, made_id)?,
        };
        // A call before the last one that was opened is closed, and so is that one if something else came after it.
        let closed = if is_open { self.opened.saturating_sub(1) } else { self.opened };
        if position < closed && !arguments.trim().is_empty() {
            let message = format!("a part of call {position} came after what follows the call");
            return Err(TranslateError::Reply(message));
        }
        let state = &mut self.calls[position];
        if let Some(name) = call.name().filter(|_| state.name.is_empty()) {
            state.name = name.to_owned();
        }
        if let Some(signature) = call.signature().filter(|_| position >= self.opened) {
            state.signature = Some(signature.to_owned());
        }
        state.progress.feed(&arguments);
        state.arguments.push_str(&arguments);
        match state.arguments.len() > WAITING_BYTES_MAX {
            true => Err(TranslateError::Reply("its calls are too long".to_owned())),
            false => Ok(()),
        }
    }

    /// The call that a part belongs to. A part with a name is a new call if the one that it would belong to is complete, or has another name and no
    /// arguments.
    fn find(&self, call: &CallDelta<'_>, arguments: &str) -> Option<usize> {
        let is_index = |state: &CallState| call.index.is_none() || state.index == call.index;
        let by_id =
            call.id().map(|id| self.calls.iter().rposition(|state| state.id == id && is_index(state)));
        let position = match by_id {
            Some(Some(position)) => position,
            Some(None) if call.name().is_some() || call.index.is_some() && self.is_new(call) => return None,
            _ => self.calls.iter().rposition(is_index)?,
        };
        let state = &self.calls[position];
        let is_next = call.name().is_some() && !arguments.trim().is_empty() && state.progress.is_complete();
        let has_name = |name: &str| state.name.is_empty() || name == state.name;
        let is_other = call.id().is_none() && state.arguments.is_empty() && !call.name().is_none_or(has_name);
        (!is_next && !is_other).then_some(position)
    }

    /// Whether no call has the index of a part.
    fn is_new(&self, call: &CallDelta<'_>) -> bool {
        self.calls.iter().all(|state| state.index != call.index)
    }

    fn add(
        &mut self,
        call: &CallDelta<'_>,
        made_id: impl Fn(usize) -> String,
    ) -> Result<usize, TranslateError> {
        // the name may come later
        let name = call.name().unwrap_or_default();
        if name.is_empty() && call.id().is_none() {
            return Err(TranslateError::Reply("a part of a call came without its beginning".to_owned()));
        }
        if self.calls.len() == CALLS_MAX {
            return Err(TranslateError::Reply(format!("it has more than {CALLS_MAX} calls")));
        }
        let is_new = |id: &&str| self.calls.iter().all(|state| state.id != *id);
        let id = call.id().filter(is_new).map(str::to_owned);
        self.calls.push(CallState {
            index: call.index,
            id: id.unwrap_or_else(|| made_id(self.calls.len())),
            name: name.to_owned(),
            signature: None,
            arguments: String::new(),
            progress: Progress::default(),
        });
        Ok(self.calls.len() - 1)
    }

    /// The next call to open, if `is_free`: no block is open, or one that may be closed.
    pub(super) fn open_next(&mut self, is_free: bool) -> Option<&mut CallState> {
        if !is_free {
            return None;
        }
        let state = self.calls.get_mut(self.opened).filter(|state| !state.name.is_empty())?;
        self.opened += 1;
        Some(state)
    }

    /// The call that was opened last.
    pub(super) fn last_opened(&mut self) -> Option<&mut CallState> {
        self.opened.checked_sub(1).and_then(|position| self.calls.get_mut(position))
    }

    /// Whether each call has a name, and arguments that are one object, or none.
    pub(super) fn are_whole(&self) -> bool {
        let is_whole = |call: &CallState| match call.progress.first {
            None => true,
            Some(first) => first == b'{' && call.progress.is_complete(),
        };
        self.calls.iter().all(|call| !call.name.is_empty() && is_whole(call))
    }

    pub(super) fn is_last_complete(&self) -> bool {
        self.opened.checked_sub(1).is_some_and(|position| self.calls[position].progress.is_complete())
    }
}
