//! Memory and CPU of processes, read from Linux's `/proc`.
//!
//! CPU time comes from `/proc/PID/stat` (user + system, exact to a clock tick, usually 10 ms), resident
//! memory from `statm` every 100 ms and, exactly but at more cost, from `smaps_rollup` at start and end.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two readings of memory and CPU.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);
/// Readings between two searches for new descendants, which read all of `/proc`.
const SAMPLES_PER_SEARCH: u64 = 10;

/// Why a process can't be watched.
#[derive(Debug, thiserror::Error)]
pub enum ProcError {
    /// No such process, or no `/proc`.
    #[error("could not read /proc/{pid}/stat; check that --pid names a running process")]
    NoProcess {
        /// The process.
        pid: u32,
        /// Why.
        source: io::Error,
    },
}

/// What one process used.
#[derive(Debug, Clone)]
pub struct ProcessUse {
    /// Process id.
    pub pid: u32,
    /// The kernel's name of it, at most 15 bytes.
    pub name: String,
    /// Highest resident memory seen.
    pub rss_bytes_max: u64,
    /// User and system time during the run.
    pub cpu_s: f64,
}

/// What the watched processes used together. Resident memory counts a page that two of them share twice.
#[derive(Debug, Clone)]
pub struct ServerUse {
    /// Resident memory when the run began.
    pub rss_bytes_start: u64,
    /// Lowest reading.
    pub rss_bytes_min: u64,
    /// Mean of the readings.
    pub rss_bytes_mean: u64,
    /// Highest reading.
    pub rss_bytes_max: u64,
    /// Resident memory when the run had ended.
    pub rss_bytes_end: u64,
    /// Proportional share of memory at the end: shared pages divided among those who share them.
    /// `None` when `smaps_rollup` may not be read.
    pub pss_bytes_end: Option<u64>,
    /// User and system time during the run.
    pub cpu_s: f64,
    /// Mean number of cores in use during the run.
    pub cores_mean: f64,
    /// Each process that was seen, by id.
    pub processes: Vec<ProcessUse>,
    /// Processes that were named and ended during the run.
    pub ended: Vec<u32>,
}

/// Watches processes from `begin` to `end` on a thread of its own. Does nothing without processes.
pub(crate) struct ServerWatch {
    sampler: Option<Sampler>,
    running: Option<(SyncSender<()>, JoinHandle<Sampler>)>,
}

impl ServerWatch {
    /// Checks that every process is there.
    pub(crate) fn open(pids: &[u32], with_descendants: bool) -> Result<ServerWatch, ProcError> {
        for pid in pids {
            read_stat(*pid).map_err(|source| ProcError::NoProcess { pid: *pid, source })?;
        }
        let sampler = (!pids.is_empty()).then(|| Sampler::new(pids, with_descendants));
        Ok(ServerWatch { sampler, running: None })
    }

    /// Takes the first reading and starts the others.
    pub(crate) fn begin(&mut self) {
        let Some(mut sampler) = self.sampler.take() else { return };
        sampler.begin();
        let (stop, stopped) = sync_channel::<()>(1);
        let thread = std::thread::spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(SAMPLE_INTERVAL) {
                sampler.sample();
            }
            sampler
        });
        self.running = Some((stop, thread));
    }

    /// Takes the last reading. `None` when nothing was watched.
    pub(crate) fn end(&mut self) -> Option<ServerUse> {
        let (stop, thread) = self.running.take()?;
        drop(stop);
        thread.join().ok().map(Sampler::end)
    }
}

/// A process is its id and its start time: ids are used again.
type Identity = (u32, u64);

struct Tracked {
    name: String,
    cpu_first: Duration,
    cpu_last: Duration,
    rss_bytes_max: u64,
}

struct Sampler {
    roots: Vec<u32>,
    with_descendants: bool,
    page_bytes: u64,
    pids: Vec<u32>,
    tracked: BTreeMap<Identity, Tracked>,
    begun: Instant,
    rss_bytes_start: u64,
    rss_bytes: Vec<u64>,
    samples: u64,
}

impl Sampler {
    fn new(roots: &[u32], with_descendants: bool) -> Sampler {
        Sampler {
            roots: roots.to_vec(),
            with_descendants,
            page_bytes: rustix::param::page_size() as u64,
            pids: Vec::new(),
            tracked: BTreeMap::new(),
            begun: Instant::now(),
            rss_bytes_start: 0,
            rss_bytes: Vec::new(),
            samples: 0,
        }
    }

    fn begin(&mut self) {
        self.pids = self.find();
        self.rss_bytes_start = self.rollup().map_or_else(|| self.rss(), |rollup| rollup.rss_bytes);
        self.sample();
        // What a process used before the run isn't the run's; one that appears later counts in full.
        for tracked in self.tracked.values_mut() {
            tracked.cpu_first = tracked.cpu_last;
        }
        self.begun = Instant::now();
    }

    fn sample(&mut self) {
        if self.with_descendants && self.samples.is_multiple_of(SAMPLES_PER_SEARCH) {
            self.pids = self.find();
        }
        self.samples += 1;
        let mut total = 0;
        for pid in self.pids.clone() {
            total += self.sample_process(pid).unwrap_or(0);
        }
        self.rss_bytes.push(total);
    }

    fn sample_process(&mut self, pid: u32) -> io::Result<u64> {
        let stat = read_stat(pid)?;
        let rss_bytes = read_rss_pages(pid)? * self.page_bytes;
        let tracked = self.tracked.entry((pid, stat.started)).or_insert_with(|| Tracked {
            name: stat.name,
            cpu_first: Duration::ZERO,
            cpu_last: Duration::ZERO,
            rss_bytes_max: 0,
        });
        tracked.cpu_last = stat.cpu;
        tracked.rss_bytes_max = tracked.rss_bytes_max.max(rss_bytes);
        Ok(rss_bytes)
    }

    fn end(mut self) -> ServerUse {
        let elapsed = self.begun.elapsed();
        self.samples = 0; // search once more
        self.sample();
        let rollup = self.rollup();
        let last = self.rss_bytes.last().copied().unwrap_or(0);
        let cpu: Duration = self.tracked.values().map(Tracked::cpu).sum();
        ServerUse {
            rss_bytes_start: self.rss_bytes_start,
            rss_bytes_min: self.rss_bytes.iter().copied().min().unwrap_or(0),
            rss_bytes_mean: self.rss_bytes.iter().sum::<u64>() / self.rss_bytes.len().max(1) as u64,
            rss_bytes_max: self.rss_bytes.iter().copied().max().unwrap_or(0),
            rss_bytes_end: rollup.as_ref().map_or(last, |rollup| rollup.rss_bytes),
            pss_bytes_end: rollup.map(|rollup| rollup.pss_bytes),
            cpu_s: cpu.as_secs_f64(),
            cores_mean: cpu.as_secs_f64() / elapsed.as_secs_f64().max(f64::MIN_POSITIVE),
            ended: self.roots.iter().copied().filter(|pid| !self.is_same_process(*pid)).collect(),
            processes: self.tracked.iter().map(|((pid, _), tracked)| tracked.used(*pid)).collect(),
        }
    }

    fn is_same_process(&self, pid: u32) -> bool {
        read_stat(pid).is_ok_and(|stat| stat.state != 'Z' && self.tracked.contains_key(&(pid, stat.started)))
    }

    fn find(&self) -> Vec<u32> {
        if self.with_descendants { with_descendants(&self.roots) } else { self.roots.clone() }
    }

    fn rss(&self) -> u64 {
        self.pids.iter().filter_map(|pid| read_rss_pages(*pid).ok()).sum::<u64>() * self.page_bytes
    }

    /// The exact memory of all processes; `None` if that of one may not be read.
    fn rollup(&self) -> Option<Rollup> {
        self.pids.iter().map(|pid| read_rollup(*pid)).try_fold(Rollup::default(), |sum, one| {
            let one = one?;
            Some(Rollup {
                rss_bytes: sum.rss_bytes + one.rss_bytes,
                pss_bytes: sum.pss_bytes + one.pss_bytes,
            })
        })
    }
}

impl Tracked {
    fn cpu(&self) -> Duration {
        self.cpu_last.saturating_sub(self.cpu_first)
    }

    fn used(&self, pid: u32) -> ProcessUse {
        let (name, cpu_s) = (self.name.clone(), self.cpu().as_secs_f64());
        ProcessUse { pid, name, rss_bytes_max: self.rss_bytes_max, cpu_s }
    }
}

/// The part of `/proc/PID/stat` that we need.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    name: String,
    state: char,
    parent: u32,
    cpu: Duration,
    /// Clock ticks since boot.
    started: u64,
}

fn read_stat(pid: u32) -> io::Result<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse_stat(&text, rustix::param::clock_ticks_per_second())
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Parses a `stat` line. Field numbers as in proc(5); the name may hold spaces and parentheses.
fn parse_stat(text: &str, ticks_per_second: u64) -> Option<Stat> {
    let (before, after) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3).copied(); // `after` begins with field 3
    let ticks = |number| field(number)?.parse::<u64>().ok();
    let cpu_ticks = ticks(14)? + ticks(15)?;
    Some(Stat {
        name,
        state: field(3)?.chars().next()?,
        parent: field(4)?.parse().ok()?,
        cpu: Duration::from_secs_f64(cpu_ticks as f64 / ticks_per_second as f64),
        started: ticks(22)?,
    })
}

fn read_rss_pages(pid: u32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm"))?;
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse().ok());
    pages.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Rollup {
    rss_bytes: u64,
    pss_bytes: u64,
}

fn read_rollup(pid: u32) -> Option<Rollup> {
    parse_rollup(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
}

fn parse_rollup(text: &str) -> Option<Rollup> {
    let bytes = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
    };
    Some(Rollup { rss_bytes: bytes("Rss:")?, pss_bytes: bytes("Pss:")? })
}

/// `roots` and all their descendants that run now.
fn with_descendants(roots: &[u32]) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in all_pids() {
        if let Ok(stat) = read_stat(pid) {
            children.entry(stat.parent).or_default().push(pid);
        }
    }
    let mut found = roots.to_vec();
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        for child in children.remove(&pid).unwrap_or_default() {
            if !found.contains(&child) {
                found.push(child);
            }
        }
        next += 1;
    }
    found
}

fn all_pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_parsed_whatever_the_name_holds() {
        let line = "4242 (a) R b (c) S 7 1 1 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 8 0 777 1000 25 18446744";
        let expected = Stat {
            name: "a) R b (c".to_owned(),
            state: 'S',
            parent: 7,
            cpu: Duration::from_secs(2),
            started: 777,
        };
        assert_eq!(parse_stat(line, 100), Some(expected));
        assert_eq!(parse_stat("4242 (cut) S 7", 100), None);
    }

    #[test]
    fn a_rollup_is_parsed_to_bytes() {
        let text = "00400000-7ffd ---p 0 00:00 0 [rollup]\nRss:      8 kB\nPss:      6 kB\nPss_Dirty: 1 kB\n";
        assert_eq!(parse_rollup(text), Some(Rollup { rss_bytes: 8192, pss_bytes: 6144 }));
        assert_eq!(parse_rollup("Rss: 8 kB\n"), None);
    }

    #[test]
    fn a_missing_process_is_named() {
        let error = ServerWatch::open(&[4_194_305], false).err().unwrap(); // above the highest pid
        assert_eq!(
            error.to_string(),
            "could not read /proc/4194305/stat; check that --pid names a running process"
        );
    }

    #[test]
    fn cpu_and_memory_of_a_busy_child_are_seen_through_its_parent() {
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut watch = ServerWatch::open(&[std::process::id()], true).unwrap();
        let begun = Instant::now();
        watch.begin();
        std::thread::sleep(Duration::from_millis(500));
        let used = watch.end().unwrap();
        let elapsed_s = begun.elapsed().as_secs_f64();
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = used.processes.iter().find(|process| process.pid == child.id()).unwrap();
        assert!(seen.cpu_s >= 0.05 && seen.cpu_s <= elapsed_s + 0.02, "{seen:?}");
        assert!(seen.rss_bytes_max > 100_000, "{seen:?}");
        assert!(used.cpu_s >= seen.cpu_s && used.rss_bytes_min <= used.rss_bytes_max, "{used:?}");
        assert!(used.pss_bytes_end.unwrap() <= used.rss_bytes_end, "{used:?}");
        assert_eq!(used.ended, Vec::<u32>::new());
    }

    #[test]
    fn what_a_process_used_before_the_run_is_not_counted() {
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read wait";
        let mut command = std::process::Command::new("sh");
        let pipe = std::process::Stdio::piped;
        let mut child = command.args(["-c", script]).stdin(pipe()).stdout(pipe()).spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0; 5]).unwrap();
        let mut watch = ServerWatch::open(&[child.id()], false).unwrap();
        watch.begin();
        let used = watch.end().unwrap();
        let before = read_stat(child.id()).unwrap().cpu.as_secs_f64();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(before >= 0.05, "the loop took only {before} s");
        assert!(used.cpu_s <= 0.02, "{} s of {before} s", used.cpu_s);
    }
}
