//! Black-box tests: complete runs through the library, and the binary.

#[cfg(test)]
mod cli;
#[cfg(test)]
mod load;
#[cfg(test)]
mod stream;
#[cfg(test)]
mod support;
