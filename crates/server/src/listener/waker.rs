//! The waker of a connection's task, without the calls that the end of a request's body makes for nothing.
//!
//! hyper passes the body of a request on through a channel of one part, and wakes the sender's task when a part is taken: also when it was the
//! last part and nothing can follow. The sender's task is the connection's, which is the one that takes the part, so that every request with a
//! body would run it once more.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// Passes calls on to the waker of the connection's task, but for those that [`hold`] holds back.
struct ConnectionWaker(Waker);

impl Wake for ConnectionWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match CALLS.get() {
            Calls::Passed => self.0.wake_by_ref(),
            Calls::Held | Calls::HeldBack => CALLS.set(Calls::HeldBack),
        }
    }
}

/// What becomes of calls on this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Calls {
    Passed,
    Held,
    /// They are held, and there was one.
    HeldBack,
}

thread_local! {
    static CALLS: Cell<Calls> = const { Cell::new(Calls::Passed) };
}

/// The waker for a connection whose task has the waker `task`.
pub(super) fn connection_waker(task: &Waker) -> Waker {
    Waker::from(Arc::new(ConnectionWaker(task.clone())))
}

/// Polls, and holds back what wakes connections on this thread meanwhile. Returns whether there was such a call.
pub(super) fn hold<T>(poll: impl FnOnce() -> T) -> (T, bool) {
    struct Pass;
    impl Drop for Pass {
        fn drop(&mut self) {
            CALLS.set(Calls::Passed);
        }
    }
    CALLS.set(Calls::Held);
    let _pass = Pass; // also after a panic
    let polled = poll();
    (polled, CALLS.get() == Calls::HeldBack)
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;
    use std::sync::atomic::{AtomicUsize, Ordering};
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
    fn only_calls_of_this_thread_are_held_and_only_meanwhile() {
        let counter = Arc::new(Counter::default());
        let waker = connection_waker(&Waker::from(counter.clone()));
        let calls = || counter.0.load(Ordering::Relaxed);
        assert_eq!(hold(|| 7), (7, false));
        waker.wake_by_ref();
        assert_eq!(calls(), 1);
        assert_eq!(hold(|| waker.wake_by_ref()), ((), true));
        assert_eq!(calls(), 1);
        let elsewhere = || thread::scope(|scope| scope.spawn(|| waker.wake_by_ref()).join().unwrap());
        assert_eq!(hold(elsewhere), ((), false));
        assert_eq!(calls(), 2);
        assert!(catch_unwind(|| hold(|| panic!("in the poll"))).is_err());
        waker.wake();
        assert_eq!(calls(), 3);
    }
}
