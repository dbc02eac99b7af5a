"""The words of docs/benchmarks/encoder.md that do not change with the figures."""

TOP = """# The encoder beside other engines

Written by `make bench BENCH=encoder`; all figures are in [encoder.json](encoder.json). Model: all-MiniLM-L6-v2 (6
layers, 384 floats). Token ids go in, pooled vectors of length one come out. Every engine ran in the same run, in
turns of a few calls.
"""

SETUP = """## How each was set up

- **weir**: `crates/encoder/examples/bench_encoder.rs`, release build, packed weights mapped from its cache. A batch
  is cut into parts of at most 256 tokens that the threads take from a counter. A lone text on several cores is split
  among as many threads. bf16 keeps its weights in bf16; without bf16 instructions its products are f32, and its share is of
  the f32 peak.
- **ONNX Runtime**: exported by PyTorch with pooling and normalisation in the graph, fused by
  `onnxruntime.transformers` for BERT (embedding, attention, skip layer norm and GELU are one operation each), all
  graph optimisations on. int8 is dynamic, with a scale for each output channel and, where the processor has no VNNI,
  weights of seven bits, as its guide asks for: eight would overflow in AVX2. On several cores both as one session of
  as many threads and as many sessions of one thread. From Python, and from Rust by the `ort` crate with the same shared
  library.
- **OpenVINO**: the same export, static int8 by NNCF for transformers (SmoothQuant, 120 paragraphs of the sample that
  are not among the measured texts, its guard against overflow where there is no VNNI). On several cores both as one
  stream of as many threads (latency hint) and as many streams of one thread (throughput hint).
- **sentence-transformers** on PyTorch in f32: its modules from padded ids, and `encode` of texts, which tokenises
  too. Tokenising is no part of any other row.

One session of ONNX Runtime or OpenVINO gets a batch in parts of eight texts, PyTorch in parts of 32, sorted by
length; several sessions take one text at a time, the longest first, so that nothing is padded. For ONNX Runtime these
were the fastest sizes in a short trial (1 to 32).
"""

METHOD = """## How it was measured

- Every engine lives in one process that is bound to one core or to all that are measured on
  (four, or fewer if the machine has fewer: the headings say how many). In each round every engine gets a turn
  at every case, in a random order: calls that do not count (lone texts), then a few that do. The first round does not
  count. Other work of the machine affects all engines alike. An engine that used twice its share of the time skips turns.
- p50 and p99 are of single calls (p99 of less than a hundred calls is the slowest one). CPU is the mean over the
  calls of the CPU time of all threads of the process: the system counts what the others take only at its ticks. Tokens a second are at p50 and count real tokens: `[CLS]` and
  `[SEP]` of each text, but no padding.
- Texts are runs of words from the recorded texts of `fixtures/embeddings` that have exactly the length; mixed lengths
  are 64 of these texts as they are. The cosine is to the vectors that sentence-transformers made of all 200 in f32,
  each text alone.
- RSS is that of the engine's process at the end, mapped files and the language's own runtime included.
- *Of peak*: multiply-adds of the model, 10.6 M a token and 4,608 for each pair of tokens, without padding, against
  what a loop over registers alone does on the same cores, measured in every round
  (`crates/kernels/examples/peak.rs`). For int8 on AVX2 there are two such loops, both of `vpmaddubsw`, which
  multiplies bytes and saturates when a sum of products leaves 16 bits. The **int8 peak** widens the sum of every two
  products, as the peers document of their AVX2 kernels: they cut one side to seven bits, or saturate. The **quad peak**
  widens sums of four. The encoder limits the codes of two or four activations together, so that no sum saturates; it
  adds four in two fifths of its products.
"""
