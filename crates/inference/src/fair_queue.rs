//! The queue of the bulk lane: flows take turns, by deficit round robin.
//!
//! A flow is a collection or a request. At its turn a flow may compute [`QUANTUM_TOKENS`]; what a long text takes beyond that is deducted from
//! its next turns (Shreedhar and Varghese, "Efficient fair queueing using deficit round robin", 1995). Calls of one flow, such as the
//! documents of a collection that are embedded at the same time, take turns within it by micro-batch.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use super::pool::{BULK_TOKENS_MAX, MicroBatch};
use super::request::Flow;

/// Tokens that a flow computes at its turn.
const QUANTUM_TOKENS: usize = BULK_TOKENS_MAX;

/// Names a flow in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlowKey {
    Collection(u64),
    Request(u64),
}

impl FlowKey {
    /// The key of `flow`; each request is a flow of its own.
    pub(super) fn of(flow: Flow) -> FlowKey {
        static REQUESTS: AtomicU64 = AtomicU64::new(0);
        match flow {
            Flow::Collection(id) => FlowKey::Collection(id),
            Flow::Request => FlowKey::Request(REQUESTS.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

/// Waiting micro-batches by flow.
#[derive(Default)]
pub(super) struct FairQueue {
    /// The next flow is at the front. Every flow has work.
    flows: VecDeque<WaitingFlow>,
}

struct WaitingFlow {
    key: FlowKey,
    /// Micro-batches of each call, the next call at the front. Every call has work.
    calls: VecDeque<VecDeque<MicroBatch>>,
    /// Their tokens.
    tokens: usize,
    /// Tokens that were computed beyond the quantum of past turns.
    overdrawn: usize,
}

impl FairQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// The number of flows with waiting work.
    pub(super) fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Tokens that are computed before the last of `tokens` that `key` adds now: at most as many of each other flow, and all that wait in its own.
    pub(super) fn tokens_ahead(&self, key: FlowKey, tokens: usize) -> usize {
        let own = self.flows.iter().find(|flow| flow.key == key).map_or(0, |flow| flow.tokens);
        let others = self.flows.iter().filter(|flow| flow.key != key);
        own + others.map(|flow| flow.tokens.min(own + tokens)).sum::<usize>()
    }

    /// Adds the micro-batches of one call.
    pub(super) fn push(&mut self, key: FlowKey, batches: Vec<MicroBatch>) {
        if batches.is_empty() {
            return;
        }
        let tokens = batches.iter().map(|batch| batch.tokens).sum();
        let call = VecDeque::from(batches);
        match self.flows.iter_mut().find(|flow| flow.key == key) {
            Some(flow) => {
                flow.calls.push_back(call);
                flow.tokens += tokens;
            }
            None => {
                let calls = VecDeque::from([call]);
                self.flows.push_back(WaitingFlow { key, calls, tokens, overdrawn: 0 });
            }
        }
    }

    /// The micro-batch that is taken next, unless its flow has overdrawn its quantum.
    pub(super) fn next_batch(&self) -> Option<&MicroBatch> {
        self.flows.front()?.calls.front()?.front()
    }

    /// The micro-batches of the flow whose turn it is, for one of `threads`: one or more of one task, at most its share of all, and together at
    /// most the quantum unless the first is longer. Cancelled ones are dropped.
    pub(super) fn take(&mut self, threads: usize) -> Vec<MicroBatch> {
        let waiting: usize = self.flows.iter().flat_map(|flow| &flow.calls).map(VecDeque::len).sum();
        let share = waiting.div_ceil(threads);
        while let Some(mut flow) = self.flows.pop_front() {
            let mut batches = Vec::new();
            match flow.overdrawn.checked_sub(QUANTUM_TOKENS) {
                Some(overdrawn) => flow.overdrawn = overdrawn,
                None => batches = flow.take_turn(share),
            }
            if !flow.calls.is_empty() {
                self.flows.push_back(flow);
            }
            if !batches.is_empty() {
                return batches;
            }
        }
        Vec::new()
    }

    /// Drops cancelled micro-batches.
    pub(super) fn drop_cancelled(&mut self) {
        self.flows.retain_mut(|flow| {
            flow.calls.retain_mut(|call| {
                call.retain(|batch| !batch.reply.is_closed());
                !call.is_empty()
            });
            flow.tokens = flow.calls.iter().flatten().map(|batch| batch.tokens).sum();
            !flow.calls.is_empty()
        });
    }
}

impl WaitingFlow {
    fn take_turn(&mut self, batches_max: usize) -> Vec<MicroBatch> {
        let mut batches: Vec<MicroBatch> = Vec::new();
        let mut taken = self.overdrawn;
        while batches.len() < batches_max
            && let Some(mut call) = self.calls.pop_front()
        {
            let fits = |batch: &MicroBatch| {
                let is_like = |first: &MicroBatch| first.task.is_same(&batch.task);
                batches.first().is_none_or(|first| is_like(first) && taken + batch.tokens <= QUANTUM_TOKENS)
            };
            let Some(batch) = call.front().is_some_and(fits).then(|| call.pop_front()).flatten() else {
                self.calls.push_front(call);
                break;
            };
            if !call.is_empty() {
                self.calls.push_back(call);
            }
            self.tokens -= batch.tokens;
            if !batch.reply.is_closed() {
                taken += batch.tokens;
                batches.push(batch);
            }
        }
        self.overdrawn = taken.saturating_sub(QUANTUM_TOKENS);
        batches
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::oneshot;
    use weir_encoder::{Kernels, Model, Precision};

    use super::*;
    use crate::request::Embedded;
    use crate::task::ModelTask;

    type Replies = Vec<oneshot::Receiver<Embedded>>;

    fn task() -> ModelTask {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/all-MiniLM-L6-v2");
        let model = Model::load(&folder, Precision::Int8, Kernels::current(), None).unwrap();
        ModelTask::Embed(Arc::new(model), Duration::ZERO)
    }

    /// Micro-batches of these lengths.
    fn batches(task: &ModelTask, lengths: &[usize]) -> (Vec<MicroBatch>, Replies) {
        let batch = |tokens: &usize| {
            let (reply, receiver) = oneshot::channel();
            let (task, sequences) = (task.clone(), Vec::new());
            (MicroBatch { task, sequences, tokens: *tokens, reply, permit: None, queued: None }, receiver)
        };
        lengths.iter().map(batch).unzip()
    }

    /// Pushes calls of flows and takes everything: the lengths of each turn.
    fn check(calls: &[(u64, &[usize])], threads: usize, expected: &[&[usize]]) {
        let (task, mut queue) = (task(), FairQueue::default());
        let mut replies = Vec::new();
        for (flow, lengths) in calls {
            let (batches, receivers) = batches(&task, lengths);
            queue.push(FlowKey::Collection(*flow), batches);
            replies.extend(receivers);
        }
        let mut taken: Vec<Vec<usize>> = Vec::new();
        while !queue.is_empty() {
            taken.push(queue.take(threads).iter().map(|batch| batch.tokens).collect());
        }
        assert_eq!(taken, expected, "{calls:?}");
    }

    #[test]
    fn flows_take_turns_however_much_one_of_them_has() {
        check(
            &[(1, &[128; 6]), (2, &[100]), (3, &[120, 110])],
            1,
            &[&[128, 128], &[100], &[120, 110], &[128, 128], &[128, 128]],
        );
    }

    #[test]
    fn a_flow_that_computes_long_texts_waits_for_what_it_has_overdrawn() {
        check(
            &[(1, &[512, 512]), (2, &[256, 256, 256, 256])],
            1,
            &[&[512], &[256], &[256], &[512], &[256], &[256]],
        );
    }

    #[test]
    fn calls_of_a_flow_take_turns_within_it() {
        check(&[(1, &[128; 4]), (1, &[100])], 1, &[&[128, 100], &[128, 128], &[128]]);
    }

    #[test]
    fn a_request_is_spread_over_the_threads() {
        check(&[(1, &[100, 100])], 2, &[&[100], &[100]]);
    }

    #[test]
    fn cancelled_work_is_dropped() {
        let (task, mut queue) = (task(), FairQueue::default());
        let [key, other] = [FlowKey::Collection(1), FlowKey::Request(1)];
        let (first, cancelled) = batches(&task, &[100, 90]);
        let (second, _kept) = batches(&task, &[80]);
        queue.push(key, first);
        queue.push(other, second);
        assert_eq!((queue.flows(), queue.tokens_ahead(key, 1), queue.tokens_ahead(other, 1)), (2, 270, 161));
        drop(cancelled);
        queue.drop_cancelled();
        assert_eq!((queue.flows(), queue.tokens_ahead(key, 1)), (1, 1));
        let (first, cancelled) = batches(&task, &[100]);
        queue.push(key, first);
        drop(cancelled);
        let taken: Vec<usize> = queue.take(1).iter().map(|batch| batch.tokens).collect();
        assert_eq!((taken, queue.take(1).len(), queue.is_empty()), (vec![80], 0, true));
    }
}
