//! Thread priorities: inference yields cores to threads that serve requests.

use std::num::NonZero;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use thread_priority::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use tokio::runtime::{Builder, Runtime};

use super::pool::charge_cpu_time;

/// The priority of a pool's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadPriority {
    /// [`set_compute_priority`].
    Compute,
    /// `SCHED_IDLE`: idle cores, and a three hundredth of a busy one. The lowest niceness would not do: the kernel takes a core with such a
    /// thread for a busy one, and does not wake other threads there.
    Idle,
    /// That of the process.
    Normal,
}

/// Nice values, 0 to 19; each step divides the weight of a thread on a contended core by [`NICENESS_STEP`].
const COMPUTE_NICENESS: i32 = 4;
const NICENESS_MAX: i32 = 19;
const NICENESS_STEP: f64 = 1.25;

/// Sets the calling thread, and threads that it starts, to a low priority: beside another thread on its core it gets about `share_min` of the
/// core, and at least the 1.4 % of the lowest priority.
pub fn set_background_priority(share_min: f32) {
    set_niceness(background_niceness(share_min));
}

fn background_niceness(share_min: f32) -> i32 {
    let ratio = (1.0 - f64::from(share_min)) / f64::from(share_min);
    ratio.log(NICENESS_STEP).round().clamp(0.0, f64::from(NICENESS_MAX)) as i32
}

/// Sets the calling thread slightly below the priority of threads that serve requests, so that load shedding is never delayed.
pub fn set_compute_priority() {
    set_niceness(COMPUTE_NICENESS);
}

/// How long a thread of bulk work sleeps while requests need its core.
const PAUSE: Duration = Duration::from_micros(200);

/// Threads of the runtime that serves requests that are not parked.
static SERVING: AtomicIsize = AtomicIsize::new(0);

/// The runtime that serves requests, one in a process: bulk work gives way to its threads.
///
/// # Errors
/// When the system can't start a thread.
pub fn serving_runtime() -> std::io::Result<Runtime> {
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .on_thread_park(|| _ = SERVING.fetch_sub(1, Ordering::Relaxed))
        .on_thread_unpark(|| _ = SERVING.fetch_add(1, Ordering::Relaxed))
        .build()?;
    // they begin without a call; some may be parked by now
    SERVING.fetch_add(runtime.metrics().num_workers().cast_signed(), Ordering::Relaxed);
    Ok(runtime)
}

impl ThreadPriority {
    /// Sets the priority of the calling thread.
    pub(super) fn apply(self) {
        match self {
            ThreadPriority::Compute => set_compute_priority(),
            ThreadPriority::Idle => {
                let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
                let lowest = thread_priority::ThreadPriority::Min;
                if set_thread_priority_and_policy(thread_native_id(), lowest, idle).is_err() {
                    set_niceness(NICENESS_MAX);
                }
            }
            ThreadPriority::Normal => {}
        }
    }

    /// The function that a thread of this priority calls about once a millisecond, so that threads that serve requests do not wait for preemption.
    pub(super) fn give_way(self) -> fn() {
        match self {
            ThreadPriority::Compute => std::thread::yield_now,
            ThreadPriority::Idle => || {
                charge_cpu_time();
                pause_if_core_is_needed();
            },
            ThreadPriority::Normal => charge_cpu_time,
        }
    }
}

/// Sleeps if as many threads as there are cores serve requests: the calling thread has the core that one of them waits for. When that core is
/// idle, the kernel moves the waiting thread there; as long as this thread can run, the two others may share a core for seconds.
fn pause_if_core_is_needed() {
    static CORES: LazyLock<isize> =
        LazyLock::new(|| available_parallelism().map_or(1, NonZero::get).cast_signed());
    if SERVING.load(Ordering::Relaxed) >= *CORES {
        std::thread::sleep(PAUSE);
    }
}

/// If the system refuses, the priority does not change.
fn set_niceness(niceness: i32) {
    rustix::process::setpriority_process(None, niceness).ok();
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use thread_priority::thread_schedule_policy;

    use super::*;

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
        assert_eq!(after(|| set_background_priority(0.1)), (normal(NormalThreadSchedulePolicy::Other), 10));
        assert_eq!([0.0, 0.01, 0.1, 0.5, 1.0].map(background_niceness), [19, 19, 10, 0, 0]);
        assert_eq!(after(|| ThreadPriority::Idle.apply()).0, normal(NormalThreadSchedulePolicy::Idle));
    }

    #[test]
    fn bulk_work_pauses_while_every_core_serves_requests() {
        let give_way = ThreadPriority::Idle.give_way();
        let pause = || {
            let started = Instant::now();
            give_way();
            started.elapsed()
        };
        // the shortest of many, because other tests take the core
        let shortest = || (0..100).map(|_| pause()).min().unwrap();
        let wait_for = |serving: isize| {
            let started = Instant::now();
            while SERVING.load(Ordering::Relaxed) != serving && started.elapsed() < Duration::from_secs(20) {
                std::thread::yield_now();
            }
            assert_eq!(SERVING.load(Ordering::Relaxed), serving);
        };
        let runtime = serving_runtime().unwrap();
        wait_for(0);
        assert!(shortest() < PAUSE, "every thread is parked");

        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..runtime.metrics().num_workers() {
            let is_over = is_over.clone();
            runtime.spawn(async move {
                let started = Instant::now();
                while !is_over.load(Ordering::Relaxed) && started.elapsed() < Duration::from_secs(20) {
                    std::thread::yield_now();
                }
            });
        }
        wait_for(runtime.metrics().num_workers().cast_signed());
        assert!(shortest() >= PAUSE, "every thread serves a request");
        is_over.store(true, Ordering::Relaxed);
        wait_for(0);
        assert!(shortest() < PAUSE, "every thread is parked again");
    }
}
