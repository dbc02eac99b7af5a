//! Threads that poll for passes and assist them.

#![allow(clippy::expect_used, reason = "a program for a terminal")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_encoder::{Model, ParallelPass, ParallelScratch};

/// Calls `measure` with a function that embeds a sequence on `helpers` more threads.
///
/// # Panics
/// When the model does not support parallel passes.
pub(crate) fn with_helpers<T>(
    model: &Arc<Model>,
    helpers: usize,
    measure: impl FnOnce(&mut dyn FnMut(&[u32]) -> Vec<f32>) -> T,
) -> T {
    let current = Mutex::new(None::<Arc<ParallelPass>>);
    // number of passes so far: helpers poll this and not the lock, which the next pass needs
    let count = AtomicUsize::new(0);
    let is_stopping = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|| {
                let mut scratch = ParallelScratch::new();
                let (mut pass, mut seen) = (None::<Arc<ParallelPass>>, 0);
                while !is_stopping.load(Ordering::Relaxed) {
                    let now = count.load(Ordering::Acquire);
                    if now != seen {
                        pass.clone_from(&current.lock().unwrap_or_else(PoisonError::into_inner));
                        seen = now;
                    }
                    pass.iter().for_each(|pass| pass.assist(&mut scratch));
                }
            });
        }
        let _stop = StopOnDrop(&is_stopping);
        let mut scratch = ParallelScratch::new();
        measure(&mut |ids| {
            let pass = ParallelPass::new(model.clone(), vec![ids.to_vec()], helpers + 1)
                .expect("the model supports parallel passes");
            let pass = Arc::new(pass);
            current.lock().unwrap_or_else(PoisonError::into_inner).replace(pass.clone());
            count.fetch_add(1, Ordering::Release);
            pass.run(&mut scratch)
        })
    })
}

/// Stops the helpers, also when `measure` panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
