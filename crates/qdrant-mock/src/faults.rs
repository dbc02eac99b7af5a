//! Faults of a node.

use std::collections::VecDeque;
use std::time::Duration;

use qdrant_client::qdrant::UpdateStatus;
use tonic::{Code, Status};

/// The calls that a rule applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// Every call.
    All,
    /// Searches, counts and other calls that change nothing.
    Reads,
    /// Calls that change points.
    Writes,
    /// The call of this name, as `upsert` or `query_batch`.
    Named(&'static str),
}

/// A fault of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Nothing is done, and this is the answer.
    Refuse(Code, String),
    /// Nothing is done; RESOURCE_EXHAUSTED with the seconds of `retry-after`.
    Exhausted(u64),
    /// The call is carried out, and this is the answer.
    DoneThenFail(Code, String),
    /// The change is carried out, and its status is another one than `Completed`.
    Status(UpdateStatus),
    /// Nothing is done and nothing is ever answered.
    Hang,
    /// The answer comes late.
    Slow(Duration),
    /// The change is carried out and answered, and delivered a second time later.
    Again(Duration),
}

impl Fault {
    /// INTERNAL with the text of Qdrant when `failed` of `shards` shards did not take a change.
    pub fn shards_failed(failed: u32, shards: u32) -> Fault {
        let message =
            format!("Service internal error: {failed} out of {shards} shards failed to apply operation");
        Fault::Refuse(Code::Internal, message)
    }

    /// INVALID_ARGUMENT, which no other node answers better.
    pub fn invalid() -> Fault {
        Fault::Refuse(Code::InvalidArgument, "the request is invalid".to_owned())
    }

    /// UNAVAILABLE.
    pub fn unavailable() -> Fault {
        Fault::Refuse(Code::Unavailable, "the node is shutting down".to_owned())
    }
}

/// A fault for the next calls of a kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The calls.
    pub calls: Calls,
    /// The fault.
    pub fault: Fault,
    /// How many of them.
    pub times: usize,
}

impl Rule {
    /// For the next call of a kind.
    pub fn once(calls: Calls, fault: Fault) -> Rule {
        Rule { calls, fault, times: 1 }
    }

    /// For all later calls of a kind.
    pub fn always(calls: Calls, fault: Fault) -> Rule {
        Rule { calls, fault, times: usize::MAX }
    }
}

/// The rules of a node.
#[derive(Debug, Default)]
pub(crate) struct Faults(VecDeque<Rule>);

impl Faults {
    pub(crate) fn add(&mut self, rule: Rule) {
        self.0.push_back(rule);
    }

    /// The fault of a call, by the first rule for it.
    pub(crate) fn take(&mut self, name: &str, is_write: bool) -> Option<Fault> {
        let is_for = |rule: &Rule| match rule.calls {
            Calls::All => true,
            Calls::Reads => !is_write,
            Calls::Writes => is_write,
            Calls::Named(other) => other == name,
        };
        let place = self.0.iter().position(is_for)?;
        let rule = &mut self.0[place];
        rule.times = rule.times.saturating_sub(1);
        let (fault, is_used_up) = (rule.fault.clone(), rule.times == 0);
        if is_used_up {
            self.0.remove(place);
        }
        Some(fault)
    }
}

pub(crate) fn exhausted(retry_after_s: u64) -> Status {
    let mut status = Status::new(Code::ResourceExhausted, "Rate limiting exceeded: too many requests");
    status.metadata_mut().insert("retry-after", retry_after_s.into());
    status
}
