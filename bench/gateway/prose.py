"""The words of docs/benchmarks/gateway.md that do not change with the figures."""

TOP = """# The gateway beside a Python service and a Go gateway

Written by `make bench BENCH=gateway`; all figures are in [gateway.json](gateway.json). `POST /v1/search` with a text and
`top_k` over the same documents for everyone, in one run, all on this machine together with the load generator.
"""

METHOD = """## How it was measured

- **In turns.** All services live at the same time and take turns at each concurrency, in a random order. Other work of the
  machine affects all alike. The load generator is [weir-bench](../bench.md), a closed loop on the same cores; every reply must
  contain the results. Nothing is cached: each query is embedded anew.
- **Python monolith**: FastAPI on uvicorn (uvloop, httptools), handlers in its pool of threads, exact top-k by a matrix product
  of numpy. Each setting ran alone first; of each backend the one with the most requests/s at concurrency 16 is a row.
  PyTorch is what the published service uses. Documents are embedded whole, up to 256 tokens.
- **ONNX**: exported by PyTorch, fused and quantised to int8 by ONNX Runtime. The Python monolith and Weir load the same file with the same
  shared library.
- **Go thin**: the standard library, one process, exact top-k with a heap over vectors that are hashes of words.
- **Weir**: the default search, which is hybrid (BM25 and embeddings, fused and smoothed) over chunks of up to 200 tokens, so
  it does more for each request than the others. Documents are on disk and survive a restart. Its limits of waiting are raised, so
  that it queues like the others instead of refusing. The split is two processes on this machine; their figures are added up.
  Thin is the whole gateway with hashes instead of a model.
- **RSS** is the highest during the load, of all processes of a service together, after a start over the documents; Go holds its documents in
  memory alone, so that its ingest is included. Pages that several processes share count for each.
  **CPU** is user and system time of these processes, for each answered request.
- **Start** is from starting the first process to the first 200 of `/healthz`, with all files in the page cache; Weir and Python
  start with their documents, Go without any. **Size** is what an image holds beside its base: binaries without symbols; for Python the interpreter with its
  library and the packages that the setting imports, without what PyTorch has for GPUs.
- The tables of the case study are computed as it did: the replicas are the load divided by the requests/s of one at
  concurrency 16, rounded up; savings are replicas saved times $1,200 to $1,700 a node. In the published run its own load generator limited all
  services to about 450 requests/s. It rounds three replicas of 387 MiB to 1.16 GiB.
"""
