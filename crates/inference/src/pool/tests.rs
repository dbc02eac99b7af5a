use std::path::Path;
use std::sync::mpsc::sync_channel;

use weir_encoder::{Kernels, Precision};

use super::*;

fn model() -> Arc<Model> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/all-MiniLM-L6-v2");
    Arc::new(Model::load(&folder, Precision::Int8, Kernels::current(), None).unwrap())
}

fn settings() -> Settings {
    let metrics = Metrics::new("none");
    let (standing, lane) = (Standing::Soon, Lane::Interactive);
    Settings { name: "test", threads: 2, standing, splits: true, lane, rate_at_start: 4000.0, metrics }
}

/// A pool whose only thread has ended.
fn shared() -> Arc<Shared> {
    let pool = Pool::start(Settings { threads: 1, ..settings() }).unwrap();
    pool.stop();
    pool.shared.lock().is_stopping = false;
    pool.shared
}

fn batch(model: &Arc<Model>, tokens: usize, token_time: Duration) -> MicroBatch {
    let ids: Vec<u32> = (0..tokens as u32).map(|i| 2000 + i).collect();
    let engine = Engine::Local(model.clone(), token_time);
    let (reply, _) = oneshot::channel();
    MicroBatch { engine, sequences: vec![ids.into()], tokens, reply, room: None, queued: None }
}

#[test]
fn a_helper_that_gave_up_is_not_handed_the_same_pass_again() {
    let (model, shared) = (model(), shared());
    let split = |first: u32| Arc::new(ParallelPass::new(model.clone(), vec![vec![first, 2001]], 4).unwrap());
    let (left, other) = (split(2000), split(3000));
    shared.lock().split = Some(left.clone());
    assert!(matches!(shared.next(&Weak::new()), Some(Work::Help(helped)) if Arc::ptr_eq(&helped, &left)));
    let (send, receive) = sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(|| send.send(shared.next(&Arc::downgrade(&left)).is_some()).unwrap());
        while shared.lock().idle == 0 {
            assert!(receive.try_recv().is_err(), "it waits");
            std::thread::yield_now();
        }
        shared.lock().split = Some(other);
        shared.work_came.notify_all();
        assert!(receive.recv().unwrap(), "another pass is work again");
    });
}

#[test]
fn the_wait_is_told_by_the_rate_at_start_before_anything_was_computed() {
    let shared = shared();
    shared.lock().waiting_tokens = 400;
    assert_eq!(
        shared.lock().load(2).wait,
        Duration::from_millis(50),
        "400 tokens, two threads at 4,000 a second"
    );
}

#[test]
fn what_is_short_or_can_be_split_is_computed_by_its_caller() {
    let model = model();
    let pool = Pool::start(settings()).unwrap();
    while !pool.shared.lock().is_idle(2) {
        std::thread::yield_now();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let here = |tokens, token_time| {
        let mut batch = batch(&model, tokens, token_time);
        let made = runtime.block_on(async { pool.compute_here(&mut batch) });
        made.map(|made| {
            let mut expected = vec![0.0; model.info().dimension];
            model.embed(&[&batch.sequences[0].ids], &mut Scratch::new(), &mut expected);
            assert_eq!(made.embeddings, [expected]);
        })
    };
    let (fast, slow) = (Duration::from_micros(1), Duration::from_millis(1));
    assert!(here(8, fast).is_some(), "short");
    assert!(here(60, fast).is_some(), "short, though it has many tokens");
    assert!(here(8, slow).is_some(), "split");
    assert!(here(60, slow).is_none(), "left to the pool");
    let queue = pool.shared.lock();
    assert_eq!((queue.here, queue.running_tokens, queue.split.is_none()), (0, 0, true));
    drop(queue);
    pool.shared.lock().here = 1;
    assert!(here(8, fast).is_none(), "half of the cores are taken");
    pool.stop();
}
