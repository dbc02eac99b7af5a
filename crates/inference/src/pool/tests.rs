use std::path::Path;
use std::sync::mpsc::sync_channel;

use weir_encoder::{Kernels, Model, Precision};

use super::*;

fn model() -> Arc<Model> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/all-MiniLM-L6-v2");
    Arc::new(Model::load(&folder, Precision::Int8, Kernels::current(), None).unwrap())
}

fn settings() -> Settings {
    let metrics = Metrics::new("none");
    Settings {
        lane: Lane::Interactive,
        threads: 2,
        share_min: 0.0,
        floor_threads: 0,
        initial_rate: 4000.0,
        is_calibrated: false,
        metrics,
    }
}

/// The state of a pool whose only thread has ended.
fn shared() -> Arc<Shared> {
    let pool = Pool::start(Settings { threads: 1, ..settings() }).unwrap();
    pool.stop();
    pool.shared.lock().is_stopping = false;
    pool.shared
}

fn batch(model: &Arc<Model>, tokens: usize, token_time: Duration) -> MicroBatch {
    let ids: Vec<u32> = (0..tokens as u32).map(|i| 2000 + i).collect();
    let task = ModelTask::Embed(model.clone(), token_time);
    let (reply, _) = oneshot::channel();
    MicroBatch { task, sequences: vec![ids.into()], tokens, reply, permit: None, queued: None }
}

#[test]
fn a_thread_does_not_assist_the_same_pass_twice() {
    let (model, shared) = (model(), shared());
    let pass = |first: u32| Arc::new(ParallelPass::new(model.clone(), vec![vec![first, 2001]], 4).unwrap());
    let (assisted, other) = (pass(2000), pass(3000));
    shared.lock().pass = Some(assisted.clone());
    let work = shared.next_work(&Weak::new());
    assert!(matches!(work, Some(Work::Assist(pass)) if Arc::ptr_eq(&pass, &assisted)));
    let (send, receive) = sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(|| send.send(shared.next_work(&Arc::downgrade(&assisted)).is_some()).unwrap());
        while shared.lock().idle_threads == 0 {
            assert!(receive.try_recv().is_err(), "the same pass is no work");
            std::thread::yield_now();
        }
        shared.lock().pass = Some(other);
        shared.changed.notify_all();
        assert!(receive.recv().unwrap(), "another pass is work");
    });
}

#[test]
fn the_wait_is_estimated_by_the_initial_rate_before_the_first_micro_batch() {
    let shared = shared();
    shared.lock().texts.tokens = 400;
    assert_eq!(
        shared.lock().load(Lane::Interactive, 2).wait,
        Duration::from_millis(50),
        "400 tokens, two threads with 4,000 tokens per second"
    );
}

#[test]
fn queries_go_before_texts_that_wait_longer() {
    let (model, shared) = (model(), shared());
    let pool = Pool { shared, threads: Mutex::default() };
    let mut replies = Vec::new();
    let mut push = |lane, tokens| {
        let mut batch = batch(&model, tokens, Duration::ZERO);
        let (reply, receiver) = oneshot::channel();
        batch.reply = reply;
        replies.push(receiver);
        let mut load = None;
        let admit = |seen: QueueLoad| {
            load = Some(seen.queued_tokens);
            Ok(())
        };
        pool.push(lane, vec![batch], admit).unwrap();
        load.unwrap()
    };
    assert_eq!([push(Lane::Interactive, 100), push(Lane::Interactive, 90)], [0, 100]);
    assert_eq!([push(Lane::Query, 10), push(Lane::Query, 20)], [0, 10], "texts do not delay queries");
    assert_eq!(push(Lane::Interactive, 30), 220, "queries delay texts");
    let mut queue = pool.shared.lock();
    let mut take = || queue.take(1).iter().map(|batch| batch.tokens).collect::<Vec<_>>();
    assert_eq!([take(), take(), take(), take()], [vec![10, 20], vec![100], vec![90, 30], vec![]]);
}

#[test]
fn the_bulk_lane_computes_more_tokens_together() {
    let model = model();
    let taken = |lane| {
        let pool = Pool::start(Settings { lane, threads: 1, ..settings() }).unwrap();
        pool.stop();
        pool.shared.lock().is_stopping = false;
        let (batches, _replies): (Vec<_>, Vec<_>) = (0..5)
            .map(|_| {
                let (reply, receiver) = oneshot::channel();
                (MicroBatch { reply, ..batch(&model, 60, Duration::ZERO) }, receiver)
            })
            .unzip();
        if lane == Lane::Bulk {
            pool.push_bulk(FlowKey::Request(0), batches).unwrap();
        } else {
            pool.push(lane, batches, |_| Ok(())).unwrap();
        }
        let Some(Work::Compute(batches)) = pool.shared.next_work(&Weak::new()) else { panic!("no work") };
        batches.len()
    };
    assert_eq!([taken(Lane::Interactive), taken(Lane::Bulk)], [2, 4], "128 and 256 tokens");
}

#[test]
fn a_short_or_parallel_micro_batch_is_computed_on_the_calling_thread() {
    let model = model();
    let pool = Pool::start(settings()).unwrap();
    while !pool.shared.lock().is_idle(2) {
        std::thread::yield_now();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let compute = |tokens, token_time| {
        let mut batch = batch(&model, tokens, token_time);
        let computed = runtime.block_on(async { pool.compute_on_caller(&mut batch) });
        computed.map(|computed| {
            let mut expected = vec![0.0; model.info().dimension];
            model.embed(&[&batch.sequences[0].ids], &mut Scratch::new(), &mut expected);
            assert_eq!(computed.unwrap().embeddings.floats(), expected);
        })
    };
    let (fast, slow) = (Duration::from_micros(1), Duration::from_millis(1));
    assert!(compute(8, fast).is_some(), "short");
    assert!(compute(60, fast).is_some(), "short, though it has many tokens");
    assert!(compute(2, slow).is_none(), "neither short nor long enough for several threads");
    assert!(compute(8, slow).is_some(), "parallel");
    assert!(compute(60, slow).is_none(), "queued for the pool");
    let queue = pool.shared.lock();
    assert_eq!((queue.on_callers, queue.running_tokens, queue.pass.is_none()), (0, 0, true));
    drop(queue);
    pool.shared.lock().on_callers = 1;
    assert!(compute(8, fast).is_none(), "callers occupy half of the threads");
    pool.stop();
}

#[test]
fn time_that_other_work_takes_does_not_count_as_time_of_undisturbed_work() {
    let (model, shared) = (model(), shared());
    shared.lock().is_measured = true;
    for _ in 0..50 {
        let batches = [batch(&model, 128, Duration::ZERO)];
        shared.lock().running_tokens += 128;
        let running = RunningGuard::new(&shared, &batches, false);
        running.finish(Duration::from_secs(4), Duration::from_millis(32));
    }
    let pool = Pool { shared, threads: Mutex::default() };
    pool.shared.lock().running_tokens = 4_000;
    let wait = pool.wait_of(FlowKey::Request(0), 0).unwrap();
    assert!(wait > Duration::from_secs(10), "{wait:?} at 32 tokens per second");
    let undisturbed = pool.undisturbed_time_for(4_000).unwrap();
    assert_eq!(undisturbed, Duration::from_secs(1), "4,000 tokens per second");
}

#[test]
fn the_time_of_a_thread_that_sleeps_is_no_cpu_time() {
    let before = thread_cpu_time();
    std::thread::sleep(Duration::from_millis(200));
    let slept = thread_cpu_time() - before;
    assert!(slept < Duration::from_millis(100), "{slept:?}");
    let started = Instant::now();
    while thread_cpu_time() - before < Duration::from_millis(20) {
        assert!(started.elapsed() < Duration::from_secs(60), "computing is CPU time");
    }
}

/// A pool of the bulk lane whose threads have ended.
fn bulk_pool(share_min: f64) -> Pool {
    let pool = Pool::start(Settings { lane: Lane::Bulk, threads: 1, share_min, ..settings() }).unwrap();
    pool.stop();
    pool.shared.lock().is_stopping = false;
    pool
}

#[test]
fn a_request_waits_for_as_much_of_each_other_flow_as_it_has_itself() {
    let (model, pool) = (model(), bulk_pool(0.0));
    pool.shared.lock().is_measured = true;
    let push = |flow, tokens: usize| {
        let (reply, receiver) = oneshot::channel();
        pool.push_bulk(flow, vec![MicroBatch { reply, ..batch(&model, tokens, Duration::ZERO) }]).unwrap();
        receiver
    };
    let wait = |tokens| pool.wait_of(FlowKey::Request(9), tokens).unwrap().as_millis();
    let _large = push(FlowKey::Collection(1), 400);
    let small = push(FlowKey::Request(2), 40);
    assert_eq!([wait(20), wait(80), wait(4_000)], [10, 30, 110], "at 4,000 tokens per second");
    drop(small);
    assert_eq!(wait(4_000), 100, "the caller of the small one is gone");
    let own = pool.wait_of(FlowKey::Collection(1), 20).unwrap();
    assert_eq!(own.as_millis(), 100, "what a collection adds comes after what waits of it");
}

#[test]
fn the_wait_of_a_starved_lane_is_that_at_its_minimum_share() {
    let pool = bulk_pool(0.5);
    let mut queue = pool.shared.lock();
    (queue.is_measured, queue.rate, queue.running_tokens) = (true, 1.0, 4_000);
    drop(queue);
    assert_eq!(
        pool.wait_of(FlowKey::Request(0), 0),
        Some(Duration::from_secs(2)),
        "half of 4,000 tokens per second"
    );
}

#[test]
fn a_starved_lane_is_computed_at_normal_priority_with_what_idle_threads_have_begun() {
    let (model, pool) = (model(), bulk_pool(0.5));
    let waiting = |tokens| {
        let (reply, receiver) = oneshot::channel();
        (MicroBatch { reply, ..batch(&model, tokens, Duration::ZERO) }, receiver)
    };
    let ((begun, begun_reply), (queued, queued_reply)) = (waiting(8), waiting(9));
    let sequences = [begun.sequences[0].ids.clone(), queued.sequences[0].ids.clone()];
    // an idle thread has begun the first, and never gets a core
    let mut stuck = RunningGuard::new(&pool.shared, &[], false);
    let computation = Arc::new(Computation::begin(vec![begun]).unwrap());
    stuck.begin(&computation);
    pool.push_bulk(FlowKey::Request(0), vec![queued]).unwrap();
    let received = std::thread::scope(|scope| {
        scope.spawn(|| pool.shared.run_floor_thread());
        let received = [begun_reply, queued_reply].map(|reply| reply.blocking_recv().unwrap());
        pool.stop();
        received
    });
    for (embedded, ids) in received.iter().zip(&sequences) {
        let mut expected = vec![0.0; model.info().dimension];
        model.embed(&[ids], &mut Scratch::new(), &mut expected);
        assert_eq!(embedded.embeddings.floats(), expected);
    }
    computation.finish(Rows::default()); // the idle thread, later: nobody waits any more
}
