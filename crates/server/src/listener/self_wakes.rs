//! A future that wakes its own task while it is polled.
//!
//! hyper passes the body of a request on through a channel whose both ends belong to the task of the connection: each request with a body wakes that
//! task while it runs. The runtime would queue the task behind others and wake another thread for it, which takes as long as a short search.
//! Such a future is polled again at once instead: docs/decisions/connection-wakes.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Polls in a row, before the runtime has its turn.
const POLLS_MAX: usize = 3;

const IDLE: u8 = 0;
const POLLED: u8 = 1;
const WOKEN: u8 = 2;

/// Polls a future of one task.
#[derive(Default)]
pub(super) struct SelfWakes(Option<(Arc<TaskWaker>, Waker)>);

/// The waker of the task, except while its future is polled: then it takes note of the call.
struct TaskWaker {
    task: Waker,
    state: AtomicU8,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let note = |state| (state != IDLE).then_some(WOKEN);
        if self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, note).is_err() {
            self.task.wake_by_ref();
        }
    }
}

impl SelfWakes {
    /// Polls, and polls again while the task was woken meanwhile.
    pub(super) fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.0.take_if(|(task, _)| !task.task.will_wake(context.waker()));
        let (task, waker) = self.0.get_or_insert_with(|| {
            let task = Arc::new(TaskWaker { task: context.waker().clone(), state: AtomicU8::new(IDLE) });
            (task.clone(), Waker::from(task))
        });
        for _ in 0..POLLS_MAX {
            task.state.store(POLLED, Ordering::Release);
            let polled = poll(&mut Context::from_waker(waker));
            let is_woken = task.state.swap(IDLE, Ordering::AcqRel) == WOKEN;
            if polled.is_ready() || !is_woken {
                return polled;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_that_wakes_itself_is_polled_again_and_no_other_call_is_lost() {
        let counter = Arc::new(Counter::default());
        let task = Waker::from(counter.clone());
        let calls = || counter.0.load(Ordering::Relaxed);
        let (mut self_wakes, mut polls, mut kept) = (SelfWakes::default(), 0, None);
        let polled = self_wakes.poll(&mut Context::from_waker(&task), |context| {
            polls += 1;
            kept = Some(context.waker().clone());
            if polls == 1 {
                context.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        assert_eq!((polled, polls, calls()), (Poll::Pending, 2, 0));
        // between two polls
        kept.unwrap().wake();
        assert_eq!(calls(), 1);

        let mut polls = 0;
        let polled = self_wakes.poll(&mut Context::from_waker(&task), |context| {
            polls += 1;
            let waker = context.waker();
            // from another thread, while it is polled
            thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join().unwrap());
            if polls == 2 { Poll::Ready(7) } else { Poll::Pending }
        });
        assert_eq!((polled, polls, calls()), (Poll::Ready(7), 2, 1));
    }

    #[test]
    fn the_runtime_has_its_turn_after_some_polls() {
        let counter = Arc::new(Counter::default());
        let task = Waker::from(counter.clone());
        let mut polls = 0;
        let polled = SelfWakes::default().poll(&mut Context::from_waker(&task), |context| {
            polls += 1;
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert_eq!((polled, polls, counter.0.load(Ordering::Relaxed)), (Poll::Pending, POLLS_MAX, 1));
    }
}
