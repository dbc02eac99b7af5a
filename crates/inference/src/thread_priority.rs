//! Thread priorities: inference yields cores to threads that serve requests.

use thread_priority::{
    NormalThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// The priority of a pool's threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadPriority {
    /// [`set_compute_priority`] for every thread.
    Compute,
    /// [`set_background_priority`] for the first thread, so that bulk work continues on a busy machine; the others run on idle cores only
    /// (`SCHED_IDLE`).
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

impl ThreadPriority {
    /// Sets the priority of the calling thread, which has this index in its pool.
    pub(super) fn apply(self, index: usize) {
        match self {
            ThreadPriority::Compute => set_compute_priority(),
            ThreadPriority::Idle if index == 0 => set_background_priority(),
            ThreadPriority::Idle => {
                let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
                let lowest = thread_priority::ThreadPriority::Min;
                if set_thread_priority_and_policy(thread_native_id(), lowest, idle).is_err() {
                    set_background_priority();
                }
            }
        }
    }
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
        assert_eq!(after(|| ThreadPriority::Idle.apply(0)), (normal(NormalThreadSchedulePolicy::Other), 19));
        assert_eq!(after(|| ThreadPriority::Idle.apply(1)).0, normal(NormalThreadSchedulePolicy::Idle));
    }
}
