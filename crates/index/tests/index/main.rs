//! The embedded engine from outside: what it keeps, what it finds, and what it survives.

#[cfg(test)]
mod apply;
#[cfg(test)]
mod copies;
#[cfg(test)]
mod features;
#[cfg(test)]
mod hidden;
#[cfg(test)]
mod model;
mod names;
#[cfg(test)]
mod on_demand;
#[cfg(test)]
mod parsers;
#[cfg(test)]
mod query;
#[cfg(test)]
mod recovery;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod rng;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod search;
