//! Threads that look for the next pass to help with all the time.

#![allow(clippy::expect_used, reason = "of programs for people at a terminal")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_encoder::{Model, Split, SplitScratch};

/// Calls `measure` with something that embeds a sequence together with `helpers` other threads.
///
/// # Panics
/// When a pass of the model can't be split.
pub(crate) fn with_helpers<T>(
    model: &Arc<Model>,
    helpers: usize,
    measure: impl FnOnce(&mut dyn FnMut(&[u32]) -> Vec<f32>) -> T,
) -> T {
    let current = Mutex::new(None::<Arc<Split>>);
    // how many passes there were: helpers look at this alone, so that none holds the lock when the next pass comes
    let count = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|| {
                let mut scratch = SplitScratch::new();
                let (mut split, mut seen) = (None::<Arc<Split>>, 0);
                while !is_over.load(Ordering::Relaxed) {
                    let now = count.load(Ordering::Acquire);
                    if now != seen {
                        split.clone_from(&current.lock().unwrap_or_else(PoisonError::into_inner));
                        seen = now;
                    }
                    split.iter().for_each(|split| split.help(&mut scratch));
                }
            });
        }
        let _ends = Ends(&is_over);
        let mut scratch = SplitScratch::new();
        measure(&mut |ids| {
            let split =
                Split::new(model.clone(), vec![ids.to_vec()], helpers + 1).expect("a model that splits");
            let split = Arc::new(split);
            current.lock().unwrap_or_else(PoisonError::into_inner).replace(split.clone());
            count.fetch_add(1, Ordering::Release);
            split.lead(&mut scratch)
        })
    })
}

/// Ends the helpers' looking, also when what is measured panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
