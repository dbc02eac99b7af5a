//! A timer with microsecond precision.
//!
//! Tokio's timer has a resolution of one millisecond, which would add up to one to every response time of a constant-rate
//! run. A Linux timer file descriptor (timerfd) is precise and wakes the same event loop.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// A one-shot timer; must be created and used inside a tokio runtime.
pub(crate) struct PreciseTimer {
    timer: AsyncFd<OwnedFd>,
}

impl PreciseTimer {
    #[allow(
        deprecated,
        reason = "the successor is `unsafe`; the deprecated function is unsound only for types whose `AsRawFd` changes, which `OwnedFd`'s does not"
    )]
    pub(crate) fn new() -> io::Result<PreciseTimer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(PreciseTimer { timer: AsyncFd::new(timer)? })
    }

    /// Returns at `due`, immediately if it has passed.
    pub(crate) async fn wait_until(&mut self, due: Instant) -> io::Result<()> {
        while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            self.arm(left)?;
            let mut guard = self.timer.readable().await?;
            // Reading clears the expiry. `WouldBlock` is a spurious wake-up: the loop checks the time again.
            let _ = guard.try_io(|fd| Ok(rustix::io::read(fd, &mut [0; 8])?));
        }
        Ok(())
    }

    fn arm(&self, left: Duration) -> io::Result<()> {
        let no_repeat = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let setting = Itimerspec { it_interval: no_repeat, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How late the timer was in the best of many waits of 300 µs: on a busy machine most waits are longer.
    #[test]
    fn the_best_of_many_waits_is_precise_and_none_ends_early() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let best = runtime.block_on(async {
            let mut timer = PreciseTimer::new().unwrap();
            let mut best = Duration::MAX;
            for _ in 0..200 {
                let due = Instant::now() + Duration::from_micros(300);
                timer.wait_until(due).await.unwrap();
                best = best.min(Instant::now().checked_duration_since(due).expect("the timer ended early"));
            }
            best
        });
        // Tokio's own timer would end more than 700 µs late, at the end of its millisecond.
        assert!(best < Duration::from_micros(500), "{best:?}");
    }
}
