//! Attacks on the real binary: clients, files and faults that must not stop the others. Each module is a kind of attacker; each test prints one
//! line with what was held. `make attack` runs them at full length, `make test` runs them small.

mod clients;
mod deletions;
mod files;
mod floods;
mod mixed;
mod models;
mod requests;

/// How often an attack repeats: `small` in `make test`, `full` by `make attack`.
#[allow(clippy::disallowed_methods, reason = "a setting of the tests, not of the product")]
pub(crate) fn rounds(small: usize, full: usize) -> usize {
    if std::env::var_os("WEIR_ATTACK").is_some_and(|length| length == "full") { full } else { small }
}

/// Prints the line of an attack that was held.
#[allow(clippy::print_stdout, reason = "the report of `make attack`")]
pub(crate) fn held(attack: &str, seen: &str) {
    println!("held  {attack}: {seen}");
}
