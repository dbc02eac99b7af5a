"""The words of docs/benchmarks/llm.md that do not change with the figures."""

TOP = """# The LLM gateway under load, beside other gateways

Written by `make bench BENCH=llm`; all figures are in [llm.json](llm.json). `POST /v1/chat/completions` against one mock of a provider
([weir-mock](../mock.md)), in one run, all on this machine together with the mock and the load generator.
"""

SHORT = """**A short run.** Its percentiles beyond p95 rest on few requests, and differences of a tenth between two targets mean nothing. CPU time is counted in ticks of
10 ms: in one second, a tick is 200 µs per request at 50 requests/s, 2 µs at 5,000, and 1 µs per token at 97 streams/s.
"""

METHOD = """## How it was measured

- **In turns.** All targets live during the whole run. Each scenario restarts the mock with its delays and then gives each target a turn,
  in an order that is random and differs between rounds, so that other work of the machine affects all alike. Figures are medians over the
  rounds.
- **Direct** is the mock without anything between; its CPU time is that of the mock. *Added* is a target's percentile minus that of direct
  in the same round, and × the two divided.
- **Rust floor** and **Go ReverseProxy** pass requests on and do nothing else: the distance from the floor to Weir is what keys, limits,
  routing and accounting cost. The Go row is the proxy of the standard library; it is no gateway.
- **Closed loop**: 64 connections, each sends its next request after the reply to the one before; p50 to p99 follow from the throughput.
  **Constant rate**: requests are due at fixed instants, and latencies count from there, also for those that wait for a connection
  ([weir-bench](../bench.md)). A target is given only rates of which it did a tenth more in the closed loop. The mock's
  timers have a resolution of 1 ms. The rates of slow backends and streams (49, 499; 19, 97) make requests arrive at all phases of that
  timer; at intervals of whole milliseconds, an added 0.1 ms would be measured as 0 or 1 ms.
- **CPU** is user and system time of all processes of a target, for each request sent or each event of a stream; per request it falls with
  the rate, because a wake-up serves several. **RSS** is the highest of these processes together during the turn; pages that they share
  count for each. PostgreSQL is not part of Weir L3's figures, and has its own.
- **Streams**: the first event counts from the due instant. A stream must end by `data: [DONE]` and have all events of the mock's; where a
  target passes bytes on unchanged, every stream is compared with the mock's, except for the values of `id`.
- **Open streams**: all are opened at once, kept open and cut off at the end. *While embedding is overloaded*, 64 connections send batches of 32
  texts of 66 words to the gateway with a model, one after another; also during the turn of direct, whose streams share the cores with it. 2,000 streams
  through a gateway, with their mock and their reader, occupy two cores nearly whole, and then a gap depends on whose turn it is there. A quarter of
  them shows what a gateway adds where cores are free.
- **Weir** is built as it is released: optimised across crates, like the floor, and by a profile (`scripts/pgo.sh`), unlike the floor.
  The requests of that profile include chat requests like these.
- **Weir L1, L2, L3**: keys, limits and routing; the same with guardrails of all built-in kinds on prompts and answers; L1 with a row in
  PostgreSQL for each request. The prompts of these scenarios have nothing to find. The tokens of the mock end in digits, which a window
  holds back until the number has ended, so that the events of L2's streams are others than the mock's.
- **Guardrails alone** is `crates/guardrails/examples/bench_guardrails.rs` in the same run: scans without a gateway around them.
- **Kept replies and chat with documents** are measured after the other scenarios, by one caller, against a gateway with the default
  embedding model and the sample (240 paragraphs), with the embedding cache off: a semantic hit and a search compute the embedding of their
  question each time. The added time of sources is that of the first event of a stream; *one search* is `POST /v1/search` for
  the same question, as many results, grouped by chunk as those of a chat.
- **Chaos**: faults of the mock, the only target, drawn by a fixed seed and the number of the request. Retries are as each gateway
  has them by default; without any the share of good replies is that of the mock. `SCENARIOS=chaos OUT=FOLDER make bench BENCH=llm` measures it alone.
"""

# From an article by the makers of VidaiServer, on a Xeon with 8 threads. p95 in ms at 5,000, 10,000 and 12,000 requests/s.
PUBLISHED = """## Published elsewhere

Not measured here, but on another machine (a Xeon with 8 threads) with another load generator; from the article of VidaiServer's makers. Only
ratios within one table can be compared.

| published | p95 at 5,000/s, ms | at 10,000/s | at 12,000/s |
| --- | ---: | ---: | ---: |
| VidaiServer | about 4 | about 20 | about 35 |
| Bifrost | 4 | 35 | 50 |
| LiteLLM | 5,800 more than direct | | |

The same article has its guardrails by regular expressions (L2) at less than 0.1 ms, and +5 ms for telemetry in PostgreSQL at 10,000 requests/s. Bifrost could not be installed from the package registries at
hand and has no row above.
"""
