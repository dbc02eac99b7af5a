//! Memory and CPU time of the server's processes, read from Linux's `/proc`.
//!
//! `/proc/PID/stat` is read every 100 ms: CPU time (user and system, exact to a clock tick, usually 10 ms) and resident
//! memory. Exact memory, which takes the kernel longer to compute, is read from `smaps_rollup` at start and end.

use std::collections::HashMap;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use procfs::process::{Process, Stat, all_processes};
use procfs::{ProcError, ProcResult};

/// Interval between two samples of memory and CPU time.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Samples between two searches for new descendants, which read the `stat` file of every process.
const SAMPLES_PER_SEARCH: usize = 10;

/// A process given by `--pid` cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("could not read /proc/{pid}/stat; check that --pid names a running process")]
pub struct ProcessError {
    /// The process id.
    pub pid: u32,
    source: ProcError,
}

/// Resources that one process used.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ProcessUsage {
    /// Process id.
    pub pid: u32,
    /// The kernel's name of the process, at most 15 bytes.
    pub name: String,
    /// Highest sample of resident memory.
    pub rss_bytes_max: u64,
    /// User and system time during the run.
    pub cpu_s: f64,
}

/// Resources that the server's processes used together. RSS counts a page once per process that shares it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ServerUsage {
    /// Resident memory at the start of the run.
    pub rss_bytes_start: u64,
    /// Lowest sample.
    pub rss_bytes_min: u64,
    /// Mean of the samples.
    pub rss_bytes_mean: u64,
    /// Highest sample.
    pub rss_bytes_max: u64,
    /// Resident memory at the end of the run.
    pub rss_bytes_end: u64,
    /// Proportional set size at the end: each shared page is divided by the number of processes that share it.
    /// `None` without permission to read `smaps_rollup`.
    pub pss_bytes_end: Option<u64>,
    /// User and system time during the run.
    pub cpu_s: f64,
    /// Mean number of cores in use during the run.
    pub cores_mean: f64,
    /// Every process that was seen during the run.
    pub processes: Vec<ProcessUsage>,
    /// Given processes that ended during the run.
    #[serde(skip)]
    pub ended: Vec<u32>,
}

/// Reads processes again and again, and keeps the samples.
pub(crate) struct ProcessMonitor {
    /// The given processes first, in their order; then descendants as they are found.
    tracked: Vec<Tracked>,
    given: usize,
    with_descendants: bool,
    started: Instant,
    rss_bytes_start: u64,
    /// Resident memory of all processes together, one entry per sample.
    rss_bytes: Vec<u64>,
}

/// A monitor that samples on a thread of its own.
pub(crate) struct RunningMonitor {
    stop: SyncSender<()>,
    thread: JoinHandle<ProcessMonitor>,
}

impl RunningMonitor {
    /// Takes the last sample. `None` if the thread panicked.
    pub(crate) fn stop(self) -> Option<ServerUsage> {
        drop(self.stop);
        self.thread.join().ok().map(ProcessMonitor::finish)
    }
}

impl ProcessMonitor {
    /// Opens every process. `None` without processes.
    pub(crate) fn open(pids: &[u32], with_descendants: bool) -> Result<Option<ProcessMonitor>, ProcessError> {
        let open = |pid: &u32| Tracked::open(*pid).map_err(|source| ProcessError { pid: *pid, source });
        let tracked = pids.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        Ok((!pids.is_empty()).then(|| ProcessMonitor {
            tracked,
            given: pids.len(),
            with_descendants,
            started: Instant::now(),
            rss_bytes_start: 0,
            rss_bytes: Vec::new(),
        }))
    }

    /// Takes the first sample; CPU time counts from here on. Further samples are taken on a new thread.
    pub(crate) fn start(mut self) -> RunningMonitor {
        self.sample();
        let rollup = self.rollup();
        self.rss_bytes_start = rollup.map_or(self.rss_bytes[0], |rollup| rollup.rss_bytes);
        for tracked in &mut self.tracked {
            tracked.cpu_before = tracked.cpu;
        }
        self.started = Instant::now();
        let (stop, stopped) = sync_channel::<()>(1);
        let thread = std::thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(SAMPLE_INTERVAL) {
                self.sample();
            }
            self
        });
        RunningMonitor { stop, thread }
    }

    fn sample(&mut self) {
        if self.with_descendants && self.rss_bytes.len().is_multiple_of(SAMPLES_PER_SEARCH) {
            self.find_descendants();
        }
        let total = self.tracked.iter_mut().map(Tracked::sample).sum();
        self.rss_bytes.push(total);
    }

    fn finish(mut self) -> ServerUsage {
        let elapsed_s = self.started.elapsed().as_secs_f64();
        if self.with_descendants {
            self.find_descendants();
        }
        let last = self.tracked.iter_mut().map(Tracked::sample).sum();
        self.rss_bytes.push(last);
        let rollup = self.rollup();
        let cpu_s = self.tracked.iter().map(Tracked::cpu_s).sum();
        let given = &self.tracked[..self.given];
        ServerUsage {
            rss_bytes_start: self.rss_bytes_start,
            rss_bytes_min: self.rss_bytes.iter().copied().min().unwrap_or(last),
            rss_bytes_mean: self.rss_bytes.iter().sum::<u64>() / self.rss_bytes.len() as u64,
            rss_bytes_max: self.rss_bytes.iter().copied().max().unwrap_or(last),
            rss_bytes_end: rollup.map_or(last, |rollup| rollup.rss_bytes),
            pss_bytes_end: rollup.map(|rollup| rollup.pss_bytes),
            cpu_s,
            cores_mean: cpu_s / elapsed_s.max(f64::MIN_POSITIVE),
            processes: self.tracked.iter().map(Tracked::usage).collect(),
            ended: given.iter().filter(|tracked| !tracked.process.is_alive()).map(Tracked::pid).collect(),
        }
    }

    /// Tracks the descendants that are not tracked yet.
    fn find_descendants(&mut self) {
        let Ok(processes) = all_processes() else { return };
        let mut children: HashMap<i32, Vec<(Process, Stat)>> = HashMap::new();
        for process in processes.flatten() {
            if let Ok(stat) = process.stat() {
                children.entry(stat.ppid).or_default().push((process, stat));
            }
        }
        let mut at = 0;
        while let Some(parent) = self.tracked.get(at) {
            for (process, stat) in children.remove(&parent.process.pid).unwrap_or_default() {
                if !self.tracked.iter().any(|tracked| tracked.is(&stat)) {
                    self.tracked.push(Tracked::new(process, stat));
                }
            }
            at += 1;
        }
    }

    /// The exact memory of all live processes; `None` if that of one cannot be read.
    fn rollup(&self) -> Option<Rollup> {
        let live = self.tracked.iter().filter(|tracked| tracked.process.is_alive());
        live.map(|tracked| Rollup::read(&tracked.process)).sum()
    }
}

/// One process and its samples. The open `/proc` folder keeps meaning this process when its id is used again.
struct Tracked {
    process: Process,
    name: String,
    started_ticks: u64,
    cpu_before: Duration,
    cpu: Duration,
    rss_bytes_max: u64,
}

impl Tracked {
    fn open(pid: u32) -> ProcResult<Tracked> {
        let process = Process::new(i32::try_from(pid).unwrap_or(i32::MAX))?;
        let stat = process.stat()?;
        Ok(Tracked::new(process, stat))
    }

    fn new(process: Process, stat: Stat) -> Tracked {
        let (name, started_ticks) = (stat.comm, stat.starttime);
        let zero = Duration::ZERO;
        Tracked { process, name, started_ticks, cpu_before: zero, cpu: zero, rss_bytes_max: 0 }
    }

    fn is(&self, stat: &Stat) -> bool {
        (self.process.pid, self.started_ticks) == (stat.pid, stat.starttime)
    }

    /// Reads CPU time and resident memory, and returns the latter in bytes: 0 when the process has ended.
    fn sample(&mut self) -> u64 {
        let Ok(stat) = self.process.stat() else { return 0 };
        self.cpu = cpu_time(&stat);
        let rss_bytes = stat.rss * procfs::page_size();
        self.rss_bytes_max = self.rss_bytes_max.max(rss_bytes);
        rss_bytes
    }

    fn pid(&self) -> u32 {
        self.process.pid.unsigned_abs()
    }

    fn cpu_s(&self) -> f64 {
        self.cpu.saturating_sub(self.cpu_before).as_secs_f64()
    }

    fn usage(&self) -> ProcessUsage {
        let (pid, name, cpu_s) = (self.pid(), self.name.clone(), self.cpu_s());
        ProcessUsage { pid, name, rss_bytes_max: self.rss_bytes_max, cpu_s }
    }
}

/// User and system time of a process since it started.
fn cpu_time(stat: &Stat) -> Duration {
    Duration::from_secs_f64((stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64)
}

/// Sums over all mappings of a process.
#[derive(Debug, Clone, Copy, Default)]
struct Rollup {
    rss_bytes: u64,
    pss_bytes: u64,
}

impl Rollup {
    fn read(process: &Process) -> Option<Rollup> {
        let rollup = process.smaps_rollup().ok()?;
        let sizes = &rollup.memory_map_rollup.0.first()?.extension.map;
        Some(Rollup { rss_bytes: *sizes.get("Rss")?, pss_bytes: *sizes.get("Pss")? })
    }
}

impl std::iter::Sum for Rollup {
    fn sum<I: Iterator<Item = Rollup>>(rollups: I) -> Rollup {
        rollups.fold(Rollup::default(), |sum, one| Rollup {
            rss_bytes: sum.rss_bytes + one.rss_bytes,
            pss_bytes: sum.pss_bytes + one.pss_bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longest wait for the scheduler to give a busy process some CPU time.
    const WAIT_MAX: Duration = Duration::from_secs(120);

    fn monitor(pid: u32, with_descendants: bool) -> RunningMonitor {
        ProcessMonitor::open(&[pid], with_descendants).unwrap().unwrap().start()
    }

    fn cpu_time_of(pid: u32) -> Duration {
        cpu_time(&Process::new(pid as i32).unwrap().stat().unwrap())
    }

    fn wait_for_cpu_time(pid: u32, least: Duration) {
        let started = Instant::now();
        while cpu_time_of(pid) < least {
            assert!(started.elapsed() < WAIT_MAX, "process {pid} got less than {least:?} of CPU time");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_missing_process_is_named() {
        let error = ProcessMonitor::open(&[4_194_305], false).err().unwrap(); // above the highest process id
        assert_eq!(
            error.to_string(),
            "could not read /proc/4194305/stat; check that --pid names a running process"
        );
    }

    #[test]
    fn usage_of_a_busy_child_is_found_through_its_parent() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let started = Instant::now();
        let monitor = monitor(std::process::id(), true);
        wait_for_cpu_time(child.id(), cpu_time_of(child.id()) + Duration::from_millis(100));
        let usage = monitor.stop().unwrap();
        let elapsed_s = started.elapsed().as_secs_f64();
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = usage.processes.iter().find(|process| process.pid == child.id()).unwrap();
        // 0.1 s and the elapsed time, each with two clock ticks of rounding
        assert!(seen.cpu_s >= 0.08 && seen.cpu_s <= elapsed_s + 0.02, "{seen:?}");
        assert!(seen.rss_bytes_max > 100_000, "{seen:?}");
        assert!(usage.cpu_s >= seen.cpu_s && usage.rss_bytes_min <= usage.rss_bytes_max, "{usage:?}");
        assert!(usage.pss_bytes_end.unwrap() <= usage.rss_bytes_end, "{usage:?}");
        assert_eq!(usage.ended, Vec::<u32>::new());
    }

    #[test]
    fn cpu_time_before_the_run_is_not_counted() {
        let script = "i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done; echo done; read wait";
        let mut command = std::process::Command::new("sh");
        let pipe = std::process::Stdio::piped;
        let mut child = command.args(["-c", script]).stdin(pipe()).stdout(pipe()).spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 5]).unwrap();
        let usage = monitor(child.id(), false).stop().unwrap();
        let before = cpu_time_of(child.id()).as_secs_f64();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(before >= 0.05, "the loop took only {before} s");
        assert!(usage.cpu_s <= 0.02, "{} s of {before} s", usage.cpu_s);
    }

    #[test]
    fn a_given_process_that_ends_during_the_run_is_reported() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read wait"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let monitor = monitor(child.id(), true);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(monitor.stop().unwrap().ended, [child.id()]);
    }
}
