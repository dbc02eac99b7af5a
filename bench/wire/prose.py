"""The words of docs/benchmarks/wire.md that do not change with the figures."""

TOP = """# Vectors on the wire

Written by `make bench BENCH=wire`; all figures are in [wire.json](wire.json). `POST /v1/embeddings` with a batch of texts, answered
by vectors of 1,024 float32, ten requests at a time, from FastAPI with JSON to raw bytes and a Rust client, in one run.
"""

METHOD = """## How it was measured

- **In turns.** All servers live at the same time, on this machine together with the clients. In each round every link has a run of every
  case, in a random order. Ten requests that open the connections are not measured.
- **Gbit/s of vectors** counts their float32, whatever they are encoded as, so that links can be compared. σ is the standard deviation of the runs.
- **FastAPI** on uvicorn (uvloop, httptools): the number of workers that was best of those tried. *JSON* returns lists, as the framework's
  first pages show it; *orjson* serialises the numpy array; *raw* sends its bytes. Its vectors are made once, so that only sending them is
  measured.
- **Weir**: the production handler with the pseudo model, which makes a vector of each text anew: it hashes the words, adds 1,024 numbers for
  each of them, read at hashed positions of a table of 4,128 random numbers, and scales the sum. Nothing is cached. Raw replies are by
  `Accept: application/octet-stream`.
- **Clients**: asyncio and aiohttp (uvloop) in one process, each reply decoded into a numpy array: by `json`, by orjson, or as a view of the bytes.
  The Rust client is `crates/client/examples/bench_wire.rs`: it decodes each float, or (zero-copy) reads the body straight into the memory of the
  floats.
- **CPU-second** is user and system time of the server's processes, whose clock ticks every 10 ms.
- **The bare TCP copy** is one process that sends over loopback and one that reads into memory, in pieces of 1 MiB, the best of several numbers
  of connections: what iperf3 would show.
"""
