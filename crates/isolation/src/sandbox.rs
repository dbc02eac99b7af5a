//! Privileges that the child gives up before it reads a file.

use std::collections::BTreeMap;
use std::fmt;

use rustix::process::{DumpableBehavior, Resource, Rlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use serde::{Deserialize, Serialize};

use crate::request::Request;

/// Added to the niceness: files are read when nothing else needs the core.
const NICENESS: i32 = 10;

/// Seconds between the end of the CPU time (SIGXCPU) and SIGKILL.
const CPU_GRACE_SECONDS: u64 = 1;

/// Whether files are read where system calls cannot be filtered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// No file is read without the filter of system calls.
    #[default]
    Required,
    /// Files are read with the protections that the kernel offers.
    BestEffort,
}

/// The protections of a child, beside the limits of memory, CPU time and output, which always hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protections {
    /// Whether all system calls but those of computing are refused.
    pub seccomp: Result<(), String>,
    /// Whether Landlock refuses files and connections: `full`, `partial` (an older kernel) or `none`.
    pub landlock: String,
}

impl fmt::Display for Protections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seccomp = match &self.seccomp {
            Ok(()) => "full".to_owned(),
            Err(reason) => format!("none ({reason})"),
        };
        write!(f, "limits: full, seccomp: {seccomp}, landlock: {}", self.landlock)
    }
}

/// Limits of memory, CPU time and output; no core file; no new privileges.
pub(crate) fn limit(request: &Request) -> Result<(), rustix::io::Errno> {
    // the first process that the kernel ends when memory is short; not allowed everywhere
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    let fixed = |value| Rlimit { current: Some(value), maximum: Some(value) };
    rustix::process::setrlimit(Resource::Core, fixed(0))?;
    rustix::process::setrlimit(Resource::Fsize, fixed(0))?;
    rustix::process::setrlimit(Resource::As, fixed(request.memory_bytes))?;
    let seconds = request.cpu_seconds;
    let cpu = Rlimit { current: Some(seconds), maximum: Some(seconds + CPU_GRACE_SECONDS) };
    rustix::process::setrlimit(Resource::Cpu, cpu)?;
    let _ = rustix::process::nice(NICENESS);
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    rustix::thread::set_no_new_privs(true)
}

/// No file can be opened and no connection be made, as far as the kernel knows Landlock.
pub(crate) fn refuse_files() -> String {
    use landlock::{ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetStatus, Scope};
    let abi = ABI::V6;
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))
        .and_then(|rules| rules.handle_access(AccessNet::from_all(abi)))
        .and_then(|rules| rules.scope(Scope::from_all(abi)))
        .and_then(|rules| rules.create())
        .and_then(|rules| rules.restrict_self());
    match status.map(|status| status.ruleset) {
        Ok(RulesetStatus::FullyEnforced) => "full".to_owned(),
        Ok(RulesetStatus::PartiallyEnforced) => "partial".to_owned(),
        Ok(RulesetStatus::NotEnforced) => "none".to_owned(),
        Err(error) => format!("none ({error})"),
    }
}

/// The system calls of a process that computes, reads open files and writes to them.
const ALLOWED_CALLS: [libc::c_long; 28] = [
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Every other system call of every thread fails with `EPERM`: no process, no thread, no file, no socket.
pub(crate) fn refuse_calls() -> Result<(), String> {
    let filter = filter().map_err(|error| error.to_string())?;
    let program = BpfProgram::try_from(filter).map_err(|error| error.to_string())?;
    seccompiler::apply_filter_all_threads(&program).map_err(|error| error.to_string())
}

fn filter() -> Result<SeccompFilter, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED_CALLS.into_iter().map(|call| (call, Vec::new())).collect();
    let only_if = |argument, operator, value| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
        Ok::<_, seccompiler::BackendError>(vec![SeccompRule::new(vec![condition])?])
    };
    // signals to itself: abort
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, only_if(0, SeccompCmpOp::Eq, own)?);
    // memory is never executable
    let executable = SeccompCmpOp::MaskedEq(libc::PROT_EXEC.unsigned_abs().into());
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, only_if(2, executable.clone(), 0)?);
    }
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    SeccompFilter::new(rules, refused, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)
}
