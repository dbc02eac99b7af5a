//! Black-box tests: a server in this process on a free port, and requests over plain sockets; and the binary.

#[cfg(test)]
mod anthropic;
#[cfg(test)]
mod binary;
#[cfg(test)]
mod cancelled;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod echo;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod gemini;
#[cfg(test)]
mod openai;
#[cfg(test)]
mod options;
#[cfg(test)]
mod quirks;
#[cfg(test)]
mod responses;
#[cfg(test)]
mod support;
