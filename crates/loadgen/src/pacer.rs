//! Wakes a thread's event loop at an instant, within some microseconds.
//!
//! The timer of tokio counts in milliseconds, which would add up to one to every response time of a
//! constant-rate run. A Linux timer file descriptor is exact and wakes the same event loop.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// One timer; must be made and used inside a tokio runtime.
pub(crate) struct Pacer {
    timer: AsyncFd<OwnedFd>,
}

impl Pacer {
    #[allow(
        deprecated,
        reason = "deprecated because a type's `AsRawFd` may lie; an `OwnedFd` can't, and the successor is `unsafe`"
    )]
    pub(crate) fn new() -> io::Result<Pacer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Pacer { timer: AsyncFd::new(timer)? })
    }

    /// Returns at `due`, or at once when it has passed.
    pub(crate) async fn wait_until(&mut self, due: Instant) -> io::Result<()> {
        while let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            self.arm(left)?;
            let mut guard = self.timer.readable().await?;
            // Reading clears the expiry; `would block` means that the wake-up was not ours: look again.
            let _ = guard.try_io(|fd| Ok(rustix::io::read(fd, &mut [0; 8])?));
        }
        Ok(())
    }

    fn arm(&self, left: Duration) -> io::Result<()> {
        let once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let setting = Itimerspec { it_interval: once, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &setting)?;
        Ok(())
    }
}
