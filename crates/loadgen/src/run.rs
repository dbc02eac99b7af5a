//! One run, from plan to report: opens connections, warms up, measures on all threads, merges their counters.

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
use crate::constant_rate::Schedule;
use crate::plan::{Load, Plan, PlanError};
use crate::process_usage::{ProcessError, ProcessMonitor, RunningMonitor};
use crate::recorder::Recorder;
use crate::report::Report;
use crate::timer::PreciseTimer;
use crate::{closed_loop, constant_rate, hold};

/// Time between the start signal and the first due instant, so that every thread is running by then.
const START_DELAY: Duration = Duration::from_millis(5);

/// Why a run could not be made. Failed requests are not an error: the report counts them.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A value of the plan is outside its limits.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A server process can't be read.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// No connection to the target could be opened.
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
    /// A histogram could not be created.
    #[error("could not create a histogram")]
    Histogram {
        /// Why.
        #[from]
        source: hdrhistogram::CreationError,
    },
    /// A generator thread panicked; its message is on stderr.
    #[error("a generator thread panicked; this is a bug in weir-bench")]
    Panicked,
}

/// Numbers requests 0, 1, … up to a limit, over all threads.
pub(crate) struct RequestCounter {
    next: AtomicU64,
    limit: u64,
}

impl RequestCounter {
    fn new(limit: u64) -> RequestCounter {
        RequestCounter { next: AtomicU64::new(0), limit }
    }

    /// The next number; `None` when all are taken.
    pub(crate) fn next(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.limit).then_some(number)
    }
}

/// State shared by all threads.
struct Shared {
    plan: Plan,
    warmup: RequestCounter,
    measured: RequestCounter,
    start: OnceLock<Instant>,
    /// All threads wait here twice: after warm-up, and for the start signal.
    barrier: Barrier,
}

/// Runs `plan` to its end and reports.
///
/// Blocks the calling thread, which must not be inside an async runtime.
pub fn run(plan: Plan) -> Result<Report, RunError> {
    plan.check()?;
    raise_open_files_limit();
    check_reachable(&plan)?;
    let monitor = ProcessMonitor::open(&plan.pids, plan.pid_tree)?;
    let workers = create_workers(&plan)?;
    let shared = Arc::new(Shared {
        warmup: RequestCounter::new(plan.warmup),
        measured: RequestCounter::new(plan.requests_max()),
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
    let monitor = monitor.map(ProcessMonitor::start);
    let start = *shared.start.get_or_init(|| first_due(shared.plan.load));
    shared.barrier.wait();

    let mut total = Recorder::new()?;
    for thread in threads {
        total.merge(thread.join().map_err(|_| RunError::Panicked)??);
    }
    let server = monitor.and_then(RunningMonitor::stop);
    let elapsed = complete(&shared.plan, start, &mut total);
    Ok(Report::new(&shared.plan, total, elapsed, server))
}

fn first_due(load: Load) -> Instant {
    match load {
        Load::ClosedLoop | Load::Hold => Instant::now(),
        Load::ConstantRate { .. } => Instant::now() + START_DELAY,
    }
}

/// Adds the requests that were never sent. Returns the duration of the run, up to its last response.
fn complete(plan: &Plan, start: Instant, total: &mut Recorder) -> Duration {
    let to_last = total.last_done.map_or(Duration::ZERO, |done| done.saturating_duration_since(start));
    match plan.load {
        Load::ClosedLoop | Load::Hold => to_last,
        Load::ConstantRate { per_second } => {
            let schedule = Schedule::new(plan, per_second, start);
            schedule.record_unsent(total);
            to_last.max(schedule.span())
        }
    }
}

/// Each connection takes a file descriptor, and the usual default limit is 1024.
fn raise_open_files_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If it can't be raised, opening connections fails later with an error of its own.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Fails before the run when no server listens, instead of counting thousands of refused connections.
fn check_reachable(plan: &Plan) -> Result<(), RunError> {
    let addr = plan.target.addr;
    let connected = TcpStream::connect_timeout(&addr, plan.timeout);
    connected.map(drop).map_err(|source| RunError::Connect { addr, source })
}

/// One thread: an event loop and its share of the connections. Created before any thread starts, because a thread that
/// failed before the barrier would block all others.
struct Worker {
    runtime: Runtime,
    clients: Vec<Client>,
    timer: PreciseTimer,
    recorder: Recorder,
}

fn create_workers(plan: &Plan) -> Result<Vec<Worker>, RunError> {
    let threads = plan.threads.min(plan.concurrency);
    (0..threads).map(|thread| Worker::new(plan, (plan.concurrency + thread) / threads)).collect()
}

impl Worker {
    fn new(plan: &Plan, connections: usize) -> Result<Worker, RunError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let timer = {
            let _guard = runtime.enter();
            PreciseTimer::new()?
        };
        let client = || Client::new(plan.target.addr, plan.exchange_timeout(), plan.is_head);
        let clients = std::iter::repeat_with(client).take(connections).collect();
        Ok(Worker { runtime, clients, timer, recorder: Recorder::new()? })
    }

    fn work(self, shared: &Arc<Shared>) -> Result<Recorder, RunError> {
        let clients = LocalSet::new().block_on(&self.runtime, warm_up(shared, self.clients));
        shared.barrier.wait();
        shared.barrier.wait();
        let cpu_before = thread_cpu();
        let mut recorder = LocalSet::new()
            .block_on(&self.runtime, measure(shared, clients, self.timer, RefCell::new(self.recorder)))?;
        recorder.cpu = thread_cpu().saturating_sub(cpu_before);
        Ok(recorder)
    }
}

/// User and system time of the calling thread so far.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Opens every connection and sends the warm-up requests. Errors are ignored: the measured part reports them.
async fn warm_up(shared: &Arc<Shared>, clients: Vec<Client>) -> Vec<Client> {
    let mut tasks = JoinSet::new();
    for mut client in clients {
        let shared = Arc::clone(shared);
        tasks.spawn_local(async move {
            client.preconnect().await;
            let mut check = crate::response_check::ResponseCheck::new(&shared.plan);
            while let Some(number) = shared.warmup.next() {
                let _ = client.send(shared.plan.request(number), &mut check).await;
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
    timer: PreciseTimer,
    recorder: RefCell<Recorder>,
) -> io::Result<Recorder> {
    let start = *shared.start.get_or_init(Instant::now);
    let (timer, recorder) = (Rc::new(Mutex::new(timer)), Rc::new(recorder));
    let mut tasks = JoinSet::new();
    for mut client in clients {
        let (shared, timer, recorder) = (Arc::clone(shared), Rc::clone(&timer), Rc::clone(&recorder));
        tasks.spawn_local(async move {
            send_all(&shared, start, &timer, &mut client, &recorder).await?;
            recorder.borrow_mut().add_traffic(client.take_traffic());
            io::Result::Ok(())
        });
    }
    tasks.join_all().await.into_iter().collect::<io::Result<()>>()?;
    Rc::into_inner(recorder)
        .map(RefCell::into_inner)
        .ok_or_else(|| io::Error::other("a connection's task outlived the run"))
}

async fn send_all(
    shared: &Shared,
    start: Instant,
    timer: &Mutex<PreciseTimer>,
    client: &mut Client,
    recorder: &RefCell<Recorder>,
) -> io::Result<()> {
    let Shared { plan, measured, .. } = shared;
    match plan.load {
        Load::ClosedLoop => {
            let end = start + plan.limit.duration();
            closed_loop::send_until_end(plan, measured, end, client, recorder).await;
            Ok(())
        }
        Load::Hold => {
            let end = start + plan.limit.duration();
            hold::hold_until_end(plan, measured, end, client, recorder).await;
            Ok(())
        }
        Load::ConstantRate { per_second } => {
            let schedule = Schedule::new(plan, per_second, start);
            constant_rate::send_on_schedule(plan, measured, &schedule, timer, client, recorder).await
        }
    }
}
