use std::future::poll_fn;
use std::sync::RwLock;
use std::task::Poll;

use tokio::runtime::Builder;

use super::*;
use crate::Result;

fn limiter(permits: usize) -> CpuLimiter {
    CpuLimiter::start(permits, || ()).unwrap()
}

fn set_mean(limiter: &CpuLimiter, micros: u64) {
    limiter.0.mean_micros.store(micros, Ordering::Relaxed);
}

fn waiting(limiter: &CpuLimiter) -> usize {
    limiter.0.waiting.load(Ordering::Relaxed)
}

fn thread_name() -> Result<Option<String>> {
    Ok(std::thread::current().name().map(str::to_owned))
}

/// Yields until `is_done`, however slow the machine is: a test that hangs fails by the test runner's own limit.
fn spin_until(is_done: impl Fn() -> bool) {
    while !is_done() {
        std::thread::yield_now();
    }
}

#[test]
fn no_more_searches_compute_than_there_are_permits_and_the_wait_follows_the_queue() {
    let limiter = limiter(2);
    let runtime = Builder::new_current_thread().build().unwrap();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().unwrap();
    set_mean(&limiter, 10_000);
    runtime.block_on(async {
        let search = || {
            let (limiter, running, most, gate) =
                (limiter.clone(), running.clone(), most.clone(), gate.clone());
            let work = move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                drop(gate.read());
                running.fetch_sub(1, Ordering::SeqCst);
                thread_name()
            };
            tokio::spawn(async move { limiter.run(work).await })
        };
        let mut searches: Vec<_> = (0..2 + 7).map(|_| search()).collect();
        tokio::task::yield_now().await;
        assert_eq!((waiting(&limiter), limiter.wait()), (7, Duration::ZERO));
        searches.push(search());
        tokio::task::yield_now().await;
        assert_eq!(limiter.wait(), Duration::from_millis(40), "eight wait for two permits, 10 ms each");
        spin_until(|| running.load(Ordering::SeqCst) == 2);
        drop(closed);
        for search in searches {
            assert_eq!(search.await.unwrap().unwrap().as_deref(), Some("search"));
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert_eq!((waiting(&limiter), limiter.wait()), (0, Duration::ZERO));
}

#[test]
fn short_searches_leave_one_runtime_thread_free() {
    let limiter = limiter(2);
    let runtime = Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().unwrap();
    set_mean(&limiter, SHORT_MICROS);
    let searches: Vec<_> = (0..2 + 8)
        .map(|_| {
            let (limiter, gate) = (limiter.clone(), gate.clone());
            let work = move || {
                drop(gate.read());
                Ok(())
            };
            runtime.spawn(async move { limiter.run(work).await })
        })
        .collect();
    // all eight can only join the queue if a runtime thread is left to run their tasks
    spin_until(|| waiting(&limiter) == 8);
    assert_eq!(limiter.wait(), Duration::from_millis(4), "eight wait for two permits, 1 ms each");
    drop(closed);
    runtime.block_on(async {
        for search in searches {
            search.await.unwrap().unwrap();
        }
    });
}

#[test]
fn dropping_a_waiting_search_removes_it_from_the_queue() {
    let limiter = limiter(1);
    let runtime = Builder::new_current_thread().build().unwrap();
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().unwrap();
    runtime.block_on(async {
        let work = || {
            let gate = gate.clone();
            move || {
                drop(gate.read());
                Ok(())
            }
        };
        let mut first = Box::pin(limiter.run(work()));
        let mut second = Box::pin(limiter.run(work()));
        poll_fn(|context| {
            assert!(first.as_mut().poll(context).is_pending() && second.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        assert_eq!(waiting(&limiter), 1);
        drop(second);
        assert_eq!(waiting(&limiter), 0);
        drop(closed);
    });
}

#[test]
fn lone_and_short_searches_run_on_the_calling_thread_and_others_on_a_search_thread() {
    let limiter = limiter(3);
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    runtime.block_on(async {
        let run_with_mean = async |micros| {
            set_mean(&limiter, micros);
            limiter.run(thread_name).await.unwrap()
        };
        let (short, long) = (SHORT_MICROS / 2, 100 * SHORT_MICROS);
        let this_thread = thread_name().unwrap();
        assert_eq!(run_with_mean(long).await, this_thread);
        let second = limiter.permit().await.unwrap();
        assert_eq!(run_with_mean(long).await.as_deref(), Some("search"));
        assert_eq!(run_with_mean(short).await, this_thread);
        let third = limiter.permit().await.unwrap();
        assert_eq!(run_with_mean(short).await.as_deref(), Some("search"), "it has the last permit");
        assert_eq!(run_with_mean(INSTANT_MICROS).await, this_thread, "shorter than a hand-over");
        drop((second, third));
    });
}

#[test]
fn background_work_needs_a_permit_and_is_neither_counted_as_waiting_nor_measured() {
    let limiter = limiter(1);
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    runtime.block_on(async {
        let held = limiter.permit().await.unwrap();
        let mut work = Box::pin(limiter.run_background(thread_name));
        poll_fn(|context| {
            assert!(work.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        assert_eq!(waiting(&limiter), 0);
        drop(held);
        assert_eq!(work.await.unwrap().as_deref(), Some("search"));
        assert_eq!(limiter.mean_micros(), INITIAL_MEAN_MICROS);
    });
}

#[test]
fn a_panic_is_an_error_on_any_thread_and_gives_its_permit_back() {
    let limiter = limiter(2);
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let panic = || -> Result<()> { panic!("a test of panics") };
    runtime.block_on(async {
        set_mean(&limiter, SHORT_MICROS / 2);
        assert!(matches!(limiter.run(panic).await, Err(IndexError::Panicked)), "on a runtime thread");
        set_mean(&limiter, 100 * SHORT_MICROS);
        assert!(matches!(limiter.run(panic).await, Err(IndexError::Panicked)), "by block_in_place");
        assert!(
            matches!(limiter.run_background(panic).await, Err(IndexError::Panicked)),
            "on a search thread"
        );
        assert_eq!(limiter.0.permits.available_permits(), 2);
    });
}

#[test]
fn a_running_search_keeps_its_permit_when_its_caller_has_gone() {
    let limiter = limiter(1);
    let runtime = Builder::new_current_thread().build().unwrap();
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().unwrap();
    runtime.block_on(async {
        let inside = gate.clone();
        let mut search = Box::pin(limiter.run(move || {
            drop(inside.read());
            Ok(())
        }));
        poll_fn(|context| {
            assert!(search.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(search);
        assert_eq!(limiter.0.permits.available_permits(), 0);
        drop(closed);
        limiter.run(|| Ok(())).await.unwrap();
    });
}
