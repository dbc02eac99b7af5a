//! How threads that compute compete for cores with those that answer requests, and with each other.

use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// How a pool's threads compete for cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// As [`stand_by`] says.
    Soon,
    /// One as [`stand_back`] says; the others take only what nobody else wants, and give a core back at once.
    WhenIdle,
}

/// Niceness, on the system's scale of 0 to 19; each step is about a fifth less of a core that others want too.
const SOON_NICENESS: i32 = 4;
const BACK_NICENESS: i32 = 19;

/// Makes the calling thread, and those that it starts, stand back behind all others, with a small share of its own: work goes
/// on even where others want every core.
pub fn stand_back() {
    set_niceness(BACK_NICENESS);
}

/// Makes the calling thread stand a little behind those that answer requests, so that refusing takes no time.
pub fn stand_by() {
    set_niceness(SOON_NICENESS);
}

impl Standing {
    /// Has the calling thread, the one of its pool with this number, stand so.
    pub(super) fn take(self, number: usize) {
        match self {
            Standing::Soon => stand_by(),
            Standing::WhenIdle if number == 0 => stand_back(),
            Standing::WhenIdle => {
                let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
                let set = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
                if set.is_err() {
                    stand_back();
                }
            }
        }
    }
}

/// A thread that may not stand back does its work all the same.
fn set_niceness(niceness: i32) {
    rustix::process::setpriority_process(None, niceness).ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use thread_priority::thread_schedule_policy;

    /// Policy and niceness of a thread after `stand`.
    fn after(stand: impl FnOnce() + Send) -> (ThreadSchedulePolicy, i32) {
        let look = || {
            stand();
            (thread_schedule_policy().unwrap(), rustix::process::getpriority_process(None).unwrap())
        };
        std::thread::scope(|scope| scope.spawn(look).join()).unwrap()
    }

    #[test]
    fn threads_stand_as_their_pool_should() {
        let normal = ThreadSchedulePolicy::Normal;
        assert_eq!(after(stand_by), (normal(NormalThreadSchedulePolicy::Other), 4));
        assert_eq!(after(stand_back), (normal(NormalThreadSchedulePolicy::Other), 19));
        assert_eq!(after(|| Standing::WhenIdle.take(0)), (normal(NormalThreadSchedulePolicy::Other), 19));
        assert_eq!(after(|| Standing::WhenIdle.take(1)).0, normal(NormalThreadSchedulePolicy::Idle));
    }
}
