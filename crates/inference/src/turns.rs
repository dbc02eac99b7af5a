//! Turns at the cores: as many searches compute at one instant as there are cores, the others wait in line.
//!
//! More at once would finish no earlier, and each of them would keep a thread, its memory, and a share of the cores from those who
//! answer requests.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, block_in_place};

use super::standing::stand_by;

/// So many searches may wait for each turn however long they take: a search that takes long itself may wait long.
const WAITING_PER_TURN: usize = 4;

/// A search that takes no longer, about, keeps its thread without telling the runtime, which would wake another one for what may come
/// meanwhile.
const SHORT_MICROS: u64 = 1_000;

/// What a search takes as long as none was measured: not short.
const MICROS_AT_START: u64 = 2 * SHORT_MICROS;

/// The newest search decides one part in so many of what a search is expected to take.
const NEWEST: u64 = 10;

/// The places at the cores, and the line before them.
pub struct Turns {
    places: Semaphore,
    count: usize,
    waiting: AtomicUsize,
    /// What a search takes, about.
    mean_micros: AtomicU64,
    threads: Handle,
}

/// Threads for `count` searches, a little behind those that answer requests.
///
/// # Errors
/// When the system refuses.
pub fn search_threads(count: usize) -> std::io::Result<Runtime> {
    // no thread of its own: it only holds those that compute
    Builder::new_current_thread()
        .max_blocking_threads(count)
        .thread_name("search")
        .on_thread_start(stand_by)
        .build()
}

impl Turns {
    /// `count` places, for work on the blocking threads of the runtime `threads`.
    pub fn new(count: usize, threads: Handle) -> Turns {
        Turns {
            places: Semaphore::new(count),
            count,
            waiting: AtomicUsize::new(0),
            mean_micros: AtomicU64::new(MICROS_AT_START),
            threads,
        }
    }

    /// How long a search that came now would wait; nothing as long as few do.
    pub fn wait(&self) -> Duration {
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting < WAITING_PER_TURN * self.count {
            return Duration::ZERO;
        }
        let micros = self.mean_micros.load(Ordering::Relaxed);
        Duration::from_micros(micros.saturating_mul(waiting as u64) / self.count as u64)
    }

    /// Runs `work` when its turn comes: on this thread when nobody else computes or waits, or when searches are short and another place is
    /// free, because to wake another thread takes as long as many a search; else on a thread for searches.
    ///
    /// # Errors
    /// When the work panicked on such a thread, or these were stopped.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let line = InLine::new(&self.waiting);
        let _place = self.places.acquire().await;
        drop(line);
        let started = Instant::now();
        let is_short = self.mean_micros.load(Ordering::Relaxed) <= SHORT_MICROS;
        let free = self.places.available_permits();
        let is_alone = free + 1 == self.count && self.waiting.load(Ordering::Relaxed) == 0;
        let done = match may_block() {
            // the last place is for another thread, or nobody were left who reads requests and refuses them
            true if is_short && (is_alone || free > 0) => Ok(work()),
            true if is_alone => Ok(block_in_place(work)),
            _ => self.threads.spawn_blocking(work).await,
        };
        self.took(started.elapsed());
        done
    }

    fn took(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX) / NEWEST;
        let before = self.mean_micros.load(Ordering::Relaxed);
        // two that end at one instant may lose one of them, which is no harm
        self.mean_micros.store(before - before.div_ceil(NEWEST) + micros, Ordering::Relaxed);
    }
}

/// Whether the runtime has other threads that take over what this one would do while it computes.
pub(super) fn may_block() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// One that waits, until it is dropped.
struct InLine<'a>(&'a AtomicUsize);

impl<'a> InLine<'a> {
    fn new(waiting: &'a AtomicUsize) -> InLine<'a> {
        waiting.fetch_add(1, Ordering::Relaxed);
        InLine(waiting)
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::{Arc, RwLock};

    use super::*;

    #[test]
    fn no_more_compute_at_once_than_there_are_turns_and_the_wait_is_that_of_the_line() {
        let threads = search_threads(2).unwrap();
        let turns = Arc::new(Turns::new(2, threads.handle().clone()));
        let runtime = Builder::new_current_thread().build().unwrap();
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let gate = Arc::new(RwLock::new(()));
        let closed = gate.write().unwrap();
        turns.mean_micros.store(10_000, Ordering::Relaxed);
        runtime.block_on(async {
            let search = || {
                let (turns, now, most, gate) = (turns.clone(), now.clone(), most.clone(), gate.clone());
                let work = move || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    drop(gate.read());
                    now.fetch_sub(1, Ordering::SeqCst);
                    std::thread::current().name().map(str::to_owned)
                };
                tokio::spawn(async move { turns.run(work).await })
            };
            let mut searches: Vec<_> = (0..2 + 7).map(|_| search()).collect();
            tokio::task::yield_now().await;
            assert_eq!((turns.waiting.load(Ordering::Relaxed), turns.wait()), (7, Duration::ZERO));
            searches.push(search());
            tokio::task::yield_now().await;
            assert_eq!(turns.wait(), Duration::from_millis(40), "eight wait for two turns of 10 ms");
            let started = Instant::now();
            while now.load(Ordering::SeqCst) < 2 && started.elapsed() < Duration::from_secs(30) {
                tokio::task::yield_now().await;
            }
            drop(closed);
            for search in searches {
                assert_eq!(search.await.unwrap().unwrap().as_deref(), Some("search"));
            }
        });
        assert_eq!(most.load(Ordering::SeqCst), 2);
        assert_eq!((turns.waiting.load(Ordering::Relaxed), turns.wait()), (0, Duration::ZERO));
    }

    #[test]
    fn a_line_forms_before_short_searches_too_and_a_thread_is_left_that_sees_it() {
        let threads = search_threads(2).unwrap();
        let turns = Arc::new(Turns::new(2, threads.handle().clone()));
        let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let gate = Arc::new(RwLock::new(()));
        let closed = gate.write().unwrap();
        turns.mean_micros.store(SHORT_MICROS, Ordering::Relaxed);
        let searches: Vec<_> = (0..2 + 8)
            .map(|_| {
                let (turns, gate) = (turns.clone(), gate.clone());
                runtime.spawn(async move { turns.run(move || drop(gate.read())).await })
            })
            .collect();
        let started = Instant::now();
        while turns.wait().is_zero() && started.elapsed() < Duration::from_secs(10) {
            std::thread::yield_now();
        }
        assert_eq!(turns.wait(), Duration::from_millis(4), "eight wait for two turns of a millisecond");
        drop(closed);
        runtime.block_on(async {
            for search in searches {
                search.await.unwrap().unwrap();
            }
        });
    }

    #[test]
    fn who_leaves_the_line_is_not_counted_any_more() {
        let threads = search_threads(1).unwrap();
        let turns = Turns::new(1, threads.handle().clone());
        let runtime = Builder::new_current_thread().build().unwrap();
        let gate = Arc::new(RwLock::new(()));
        let closed = gate.write().unwrap();
        runtime.block_on(async {
            let work = || {
                let gate = gate.clone();
                move || drop(gate.read())
            };
            let mut first = Box::pin(turns.run(work()));
            let mut second = Box::pin(turns.run(work()));
            poll_fn(|context| {
                assert!(
                    first.as_mut().poll(context).is_pending() && second.as_mut().poll(context).is_pending()
                );
                std::task::Poll::Ready(())
            })
            .await;
            assert_eq!(turns.waiting.load(Ordering::Relaxed), 1);
            drop(second);
            assert_eq!(turns.waiting.load(Ordering::Relaxed), 0);
            drop(closed);
        });
    }

    #[test]
    fn who_is_alone_or_short_computes_on_the_calling_thread_and_whoever_is_neither_on_another() {
        let threads = search_threads(2).unwrap();
        let turns = Turns::new(3, threads.handle().clone());
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let name = || std::thread::current().name().map(str::to_owned);
        runtime.block_on(async {
            let long = || turns.mean_micros.store(100 * SHORT_MICROS, Ordering::Relaxed);
            long();
            assert_eq!(turns.run(name).await.unwrap(), name());
            let other = turns.places.acquire().await.unwrap();
            long();
            assert_eq!(turns.run(name).await.unwrap().as_deref(), Some("search"));
            let short = || turns.mean_micros.store(SHORT_MICROS / 2, Ordering::Relaxed);
            short();
            assert_eq!(turns.run(name).await.unwrap(), name());
            let last_but_one = turns.places.acquire().await.unwrap();
            short();
            assert_eq!(turns.run(name).await.unwrap().as_deref(), Some("search"), "it took the last place");
            drop((other, last_but_one));
        });
    }
}
