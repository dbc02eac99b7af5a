//! Thread priorities: inference yields cores to threads that serve requests.

use std::cell::Cell;
use std::ffi::c_long;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use thread_priority::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// The priority of a pool's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadPriority {
    /// [`set_compute_priority`].
    Compute,
    /// `SCHED_IDLE`: idle cores, and a three hundredth of a busy one. The lowest niceness would not do: the kernel takes a core with such a
    /// thread for a busy one, and does not wake other threads there.
    Idle,
}

/// Nice values, 0 to 19; each step reduces the share of a contended core by about a fifth.
const COMPUTE_NICENESS: i32 = 4;
const BACKGROUND_NICENESS: i32 = 19;

/// Sets the calling thread, and threads that it starts, to the lowest priority that still gets a small share of a busy machine.
pub fn set_background_priority() {
    set_niceness(BACKGROUND_NICENESS);
}

/// Sets the calling thread slightly below the priority of threads that serve requests, so that load shedding is never delayed.
pub fn set_compute_priority() {
    set_niceness(COMPUTE_NICENESS);
}

/// How long a preempted thread sleeps.
const PAUSE: Duration = Duration::from_micros(200);

/// Time between the sleeps of all threads: one that wakes may preempt another, which must not sleep for that.
const PAUSE_INTERVAL: Duration = Duration::from_millis(1);

impl ThreadPriority {
    /// Sets the priority of the calling thread.
    pub(super) fn apply(self) {
        match self {
            ThreadPriority::Compute => set_compute_priority(),
            ThreadPriority::Idle => {
                let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
                let lowest = thread_priority::ThreadPriority::Min;
                if set_thread_priority_and_policy(thread_native_id(), lowest, idle).is_err() {
                    set_background_priority();
                }
            }
        }
    }

    /// What a thread of this priority calls about once a millisecond, so that threads that serve requests do not wait for preemption.
    pub(super) fn give_way(self) -> fn() {
        match self {
            ThreadPriority::Compute => std::thread::yield_now,
            ThreadPriority::Idle => pause_if_preempted,
        }
    }
}

/// Sleeps if the calling thread was preempted since its last call: its core is idle then, and the kernel moves a thread there that waits for
/// another core. As long as this thread can run, two threads that are always busy may share the other core for seconds.
fn pause_if_preempted() {
    thread_local! {
        static PREEMPTED: Cell<c_long> = const { Cell::new(0) };
    }
    let preempted = times_preempted();
    if PREEMPTED.replace(preempted) != preempted && may_pause(Instant::now()) {
        std::thread::sleep(PAUSE);
    }
}

/// Whether no thread has slept during [`PAUSE_INTERVAL`]; the caller then does.
fn may_pause(now: Instant) -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let may_pause = last.is_none_or(|last| now - last >= PAUSE_INTERVAL);
    if may_pause {
        *last = Some(now);
    }
    may_pause
}

/// How often the calling thread lost its core while it could go on.
#[cfg(target_os = "linux")]
fn times_preempted() -> c_long {
    use nix::sys::resource::{UsageWho, getrusage};
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

/// How often the calling thread lost its core while it could go on: not known.
#[cfg(not(target_os = "linux"))]
fn times_preempted() -> c_long {
    0
}

/// If the system refuses, the priority does not change.
fn set_niceness(niceness: i32) {
    rustix::process::setpriority_process(None, niceness).ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use thread_priority::thread_schedule_policy;

    /// Policy and niceness of a thread after `set`.
    fn after(set: impl FnOnce() + Send) -> (ThreadSchedulePolicy, i32) {
        let observe = || {
            set();
            (thread_schedule_policy().unwrap(), rustix::process::getpriority_process(None).unwrap())
        };
        std::thread::scope(|scope| scope.spawn(observe).join()).unwrap()
    }

    #[test]
    fn threads_get_the_priority_of_their_pool() {
        let normal = ThreadSchedulePolicy::Normal;
        assert_eq!(after(set_compute_priority), (normal(NormalThreadSchedulePolicy::Other), 4));
        assert_eq!(after(set_background_priority), (normal(NormalThreadSchedulePolicy::Other), 19));
        assert_eq!(after(|| ThreadPriority::Idle.apply()).0, normal(NormalThreadSchedulePolicy::Idle));
    }

    /// A thread that computes beside another one on its core.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_of_low_priority_sleeps_once_after_it_was_preempted() {
        use nix::sys::resource::{UsageWho, getrusage};
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        use std::sync::atomic::{AtomicBool, Ordering};

        // of each thread on its own, so that the test can tell a sleep from a wait for the core
        let sleeps = || getrusage(UsageWho::RUSAGE_THREAD).unwrap().voluntary_context_switches();
        let allowed = sched_getaffinity(None).unwrap();
        let mut one = CpuSet::new();
        one.set((0..CpuSet::MAX_CPU).find(|core| allowed.is_set(*core)).unwrap());
        let is_over = AtomicBool::new(false);
        let give_way = ThreadPriority::Idle.give_way();
        let after_preemption = || {
            sched_setaffinity(None, &one).unwrap();
            pause_if_preempted();
            std::thread::sleep(PAUSE_INTERVAL);
            let before = times_preempted();
            while times_preempted() == before && !is_over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            let awake = sleeps();
            give_way();
            let slept = sleeps() - awake;
            let calls = (0..100).filter(|_| {
                let awake = sleeps();
                give_way();
                sleeps() == awake
            });
            (slept, calls.count())
        };
        let compute = || {
            sched_setaffinity(None, &one).unwrap();
            let started = std::time::Instant::now();
            while !is_over.load(Ordering::Relaxed) && started.elapsed() < Duration::from_secs(20) {
                std::hint::spin_loop();
            }
            is_over.store(true, Ordering::Relaxed);
        };
        std::thread::scope(|scope| {
            scope.spawn(compute);
            let (slept, without_sleep) = scope.spawn(after_preemption).join().unwrap();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(slept, 1);
            assert!(without_sleep > 50, "{without_sleep} of 100 calls in a row");
        });
        let later = Instant::now() + PAUSE_INTERVAL;
        let of_other_threads = [later, later + PAUSE_INTERVAL / 2, later + PAUSE_INTERVAL].map(may_pause);
        assert_eq!(of_other_threads, [true, false, true]);
    }
}
