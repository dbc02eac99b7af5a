//! Black-box tests: whole runs through the library, and the binary as a user runs it.

#[cfg(test)]
mod cli;
#[cfg(test)]
mod load;
#[cfg(test)]
mod support;
