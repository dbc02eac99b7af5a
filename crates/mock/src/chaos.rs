//! Faults: names, rates, and the draw of each request's faults.

use crate::random::RequestRng;

/// One way in which a reply is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "FAULTS describes each")]
pub enum Fault {
    DropHeaders,
    DropFirstToken,
    DropMidstream,
    Reset,
    StallHeaders,
    StallFirstToken,
    StallMidstream,
    ErrorMidstream,
    Malformed,
    NoBlankLine,
    NoDone,
    Ping,
    Gzip,
    Status429,
    Status500,
    Status503,
}

/// Every fault: name (of its flag and header) and effect, in the order of the variants.
pub const FAULTS: [(Fault, &str, &str); 16] = [
    (Fault::DropHeaders, "drop-headers", "Close the connection before the headers of the reply"),
    (Fault::DropFirstToken, "drop-first-token", "Close the connection after the headers"),
    (Fault::DropMidstream, "drop-midstream", "Close the connection after half of the tokens"),
    (Fault::Reset, "reset", "End dropped connections by a TCP reset instead of a FIN"),
    (Fault::StallHeaders, "stall-headers", "Wait for --stall-ms before the headers"),
    (Fault::StallFirstToken, "stall-first-token", "Wait for --stall-ms between headers and first token"),
    (Fault::StallMidstream, "stall-midstream", "Wait for --stall-ms after half of the tokens"),
    (
        Fault::ErrorMidstream,
        "error-midstream",
        "End a stream after half of the tokens by the provider's error event",
    ),
    (
        Fault::Malformed,
        "malformed",
        "Truncate the JSON of the middle event; without stream, truncate the body",
    ),
    (Fault::NoBlankLine, "no-blank-line", "Omit the blank line after the middle event"),
    (
        Fault::NoDone,
        "no-done",
        "Omit the last event: [DONE], message_stop, response.completed, Gemini's finishReason",
    ),
    (Fault::Ping, "ping", "Send the comment ': ping' before each event"),
    (Fault::Gzip, "gzip", "Compress replies and streams, even if the request does not accept it"),
    (Fault::Status429, "status-429", "Answer 429 with Retry-After"),
    (Fault::Status500, "status-500", "Answer 500"),
    (Fault::Status503, "status-503", "Answer 503"),
];

/// The share of requests that have each fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultRates([f64; FAULTS.len()]);

impl FaultRates {
    /// No faults.
    pub const NONE: FaultRates = FaultRates([0.0; FAULTS.len()]);

    /// Sets the rate of a fault, 0 to 1.
    pub fn set(&mut self, fault: Fault, rate: f64) {
        self.0[fault as usize] = rate;
    }

    /// The faults of one request.
    pub(crate) fn decide(&self, rng: RequestRng) -> FaultSet {
        let mut found = FaultSet(0);
        for (index, rate) in self.0.iter().enumerate() {
            if *rate > 0.0 && rng.unit(index as u64) < *rate {
                found.0 |= 1 << index;
            }
        }
        found
    }
}

/// The faults of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FaultSet(u32);

impl FaultSet {
    pub(crate) fn has(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u32) != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ordered_as_the_variants() {
        for (index, (fault, name, _)) in FAULTS.iter().enumerate() {
            assert_eq!(*fault as usize, index, "{name}");
        }
    }

    #[test]
    fn rates_are_shares_and_faults_are_independent() {
        let mut rates = FaultRates::NONE;
        rates.set(Fault::Gzip, 0.2);
        rates.set(Fault::NoDone, 0.5);
        rates.set(Fault::Ping, 1.0);
        let sets: Vec<FaultSet> =
            (0..10_000).map(|request| rates.decide(RequestRng { seed: 1, request })).collect();
        let count = |faults: &[Fault]| sets.iter().filter(|set| faults.iter().all(|f| set.has(*f))).count();
        assert!((1900..=2100).contains(&count(&[Fault::Gzip])), "{}", count(&[Fault::Gzip]));
        let both = count(&[Fault::Gzip, Fault::NoDone]);
        assert!((900..=1100).contains(&both), "{both}");
        assert_eq!((count(&[Fault::Ping]), count(&[Fault::Malformed])), (10_000, 0));
    }
}
