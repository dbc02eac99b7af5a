//! One run from plan to report: open connections, warm up, measure on all threads, add up.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio::task::{JoinSet, LocalSet};

use crate::client::Client;
use crate::pacer::Pacer;
use crate::plan::{Load, Plan, PlanError};
use crate::procstat::{ProcError, ServerWatch};
use crate::rate::Schedule;
use crate::record::Recorder;
use crate::report::Report;
use crate::{closed, rate};

/// Time between the signal to start and the first due instant, so that every thread is awake by then.
const RATE_LEAD: Duration = Duration::from_millis(5);

/// Why a run could not be made. Failed requests are no such reason: they are in the report.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The plan is outside its limits.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A server process can't be watched.
    #[error(transparent)]
    Proc(#[from] ProcError),
    /// Nothing answers at the target.
    #[error("could not connect to {addr}; start the server first or correct --url")]
    Connect {
        /// The target.
        addr: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A thread's event loop, timer or connections failed.
    #[error("the generator's event loop failed; lower --concurrency or raise the limit of open files")]
    EventLoop {
        /// Why.
        #[from]
        source: io::Error,
    },
    /// A histogram could not be made.
    #[error("could not make a histogram")]
    Histogram {
        /// Why.
        #[from]
        source: hdrhistogram::CreationError,
    },
    /// A generator thread panicked; its message is on stderr.
    #[error("a generator thread panicked; this is a bug in weir-bench")]
    Panicked,
}

/// Hands out the numbers 0, 1, … below a limit, each once.
pub(crate) struct Tickets {
    next: AtomicU64,
    limit: u64,
}

impl Tickets {
    fn new(limit: u64) -> Tickets {
        Tickets { next: AtomicU64::new(0), limit }
    }

    pub(crate) fn take(&self) -> Option<u64> {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        (ticket < self.limit).then_some(ticket)
    }
}

/// What all threads share.
struct Shared {
    plan: Plan,
    warmup: Tickets,
    tickets: Tickets,
    start: OnceLock<Instant>,
    /// Passed twice by every thread and the conductor: when all are warm, and when to go.
    barrier: Barrier,
}

/// Runs `plan` to its end and reports.
///
/// Blocks the calling thread, which must not be inside an async runtime.
pub fn run(plan: Plan) -> Result<Report, RunError> {
    plan.check()?;
    raise_open_files_limit();
    probe(&plan)?;
    let mut watch = ServerWatch::open(&plan.pids, plan.pid_tree)?;
    let workers = make_workers(&plan)?;
    let shared = Arc::new(Shared {
        warmup: Tickets::new(plan.warmup),
        tickets: Tickets::new(plan.planned()),
        start: OnceLock::new(),
        barrier: Barrier::new(workers.len() + 1),
        plan,
    });
    let threads: Vec<_> = workers
        .into_iter()
        .map(|worker| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || worker.work(&shared))
        })
        .collect();

    shared.barrier.wait();
    watch.begin();
    let start = *shared.start.get_or_init(|| first_instant(shared.plan.load));
    shared.barrier.wait();

    let mut total = Recorder::new()?;
    for thread in threads {
        total.merge(thread.join().map_err(|_| RunError::Panicked)??);
    }
    let server = watch.end();
    let elapsed = finish(&shared.plan, start, &mut total);
    Ok(Report::new(&shared.plan, total, elapsed, server))
}

fn first_instant(load: Load) -> Instant {
    match load {
        Load::Closed => Instant::now(),
        Load::Rate { .. } => Instant::now() + RATE_LEAD,
    }
}

/// Completes the counts and returns how long the run took, to its last answer.
fn finish(plan: &Plan, start: Instant, total: &mut Recorder) -> Duration {
    let to_last = total.last_done.map_or(Duration::ZERO, |done| done.saturating_duration_since(start));
    match plan.load {
        Load::Closed => to_last,
        Load::Rate { per_second } => {
            let schedule = Schedule::new(plan, per_second, start);
            schedule.record_unsent(total);
            to_last.max(schedule.span())
        }
    }
}

/// Each connection takes a file; many systems start programs with room for 1024 only.
fn raise_open_files_limit() {
    let limit = getrlimit(Resource::Nofile);
    // When it can't be raised, opening connections fails visibly later.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Fails early when nobody listens, instead of counting thousands of refused connections.
fn probe(plan: &Plan) -> Result<(), RunError> {
    let addr = plan.target.addr;
    let connected = TcpStream::connect_timeout(&addr, plan.timeout);
    connected.map(drop).map_err(|source| RunError::Connect { addr, source })
}

/// One thread: an event loop and its share of the connections. Made before any thread starts, so that
/// nothing that can fail stands before the barrier.
struct Worker {
    runtime: Runtime,
    clients: Vec<Client>,
    pacer: Pacer,
    recorder: Recorder,
}

fn make_workers(plan: &Plan) -> Result<Vec<Worker>, RunError> {
    let threads = plan.threads.min(plan.concurrency);
    (0..threads).map(|thread| Worker::new(plan, (plan.concurrency + thread) / threads)).collect()
}

impl Worker {
    fn new(plan: &Plan, connections: usize) -> Result<Worker, RunError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let pacer = {
            let _inside = runtime.enter();
            Pacer::new()?
        };
        let client = || Client::new(plan.target.addr, plan.timeout, plan.to_head);
        let clients = std::iter::repeat_with(client).take(connections).collect();
        Ok(Worker { runtime, clients, pacer, recorder: Recorder::new()? })
    }

    fn work(self, shared: &Arc<Shared>) -> Result<Recorder, RunError> {
        let clients = LocalSet::new().block_on(&self.runtime, warm_up(shared, self.clients));
        shared.barrier.wait();
        shared.barrier.wait();
        let cpu_before = thread_cpu();
        let mut recorder = LocalSet::new()
            .block_on(&self.runtime, measure(shared, clients, self.pacer, RefCell::new(self.recorder)))?;
        recorder.cpu = thread_cpu().saturating_sub(cpu_before);
        Ok(recorder)
    }
}

/// User and system time of the calling thread so far.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Opens every connection and sends the warm-up requests. Failures show up in the measured part.
async fn warm_up(shared: &Arc<Shared>, clients: Vec<Client>) -> Vec<Client> {
    let mut tasks = JoinSet::new();
    for mut client in clients {
        let shared = Arc::clone(shared);
        tasks.spawn_local(async move {
            client.connect_ahead().await;
            let mut check = crate::check::Check::new(&shared.plan.expect);
            while let Some(ticket) = shared.warmup.take() {
                let _ = client.send(shared.plan.request(ticket), &mut check).await;
            }
            client.take_traffic();
            client
        });
    }
    tasks.join_all().await
}

async fn measure(
    shared: &Arc<Shared>,
    clients: Vec<Client>,
    pacer: Pacer,
    recorder: RefCell<Recorder>,
) -> io::Result<Recorder> {
    let start = *shared.start.get_or_init(Instant::now);
    let (pacer, recorder) = (Rc::new(Mutex::new(pacer)), Rc::new(recorder));
    let mut tasks = JoinSet::new();
    for mut client in clients {
        let (shared, pacer, recorder) = (Arc::clone(shared), Rc::clone(&pacer), Rc::clone(&recorder));
        tasks.spawn_local(async move {
            drive(&shared, start, &pacer, &mut client, &recorder).await?;
            recorder.borrow_mut().add_traffic(client.take_traffic());
            io::Result::Ok(())
        });
    }
    tasks.join_all().await.into_iter().collect::<io::Result<()>>()?;
    Rc::into_inner(recorder)
        .map(RefCell::into_inner)
        .ok_or_else(|| io::Error::other("a connection's task outlived the run"))
}

async fn drive(
    shared: &Shared,
    start: Instant,
    pacer: &Mutex<Pacer>,
    client: &mut Client,
    recorder: &RefCell<Recorder>,
) -> io::Result<()> {
    let Shared { plan, tickets, .. } = shared;
    match plan.load {
        Load::Closed => {
            let end = start + plan.limit.duration();
            closed::drive(plan, tickets, end, client, recorder).await;
            Ok(())
        }
        Load::Rate { per_second } => {
            let schedule = Schedule::new(plan, per_second, start);
            rate::drive(plan, tickets, &schedule, pacer, client, recorder).await
        }
    }
}
