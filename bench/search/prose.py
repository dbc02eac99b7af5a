"""The words of docs/benchmarks/search.md that do not change with the figures."""

TOP = """# Search beside other engines

Written by `make bench BENCH=search`; all figures are in [search.json](search.json). The same documents, vectors and
queries for everyone, in one run: 384 values of all-MiniLM-L6-v2 for each document, ten hits with their titles and texts.
"""

METHOD = """## How it was measured

- **In turns.** At each size every engine lives in a process of its own, open and bound to one core, later to all that are
  measured on (four, or fewer if the machine has fewer). In
  each round every engine gets a turn of a hundred queries at every kind of search (twenty, if a hundred take longer
  than a second), in a random order. The first round does not count. Other work of the machine affects all engines alike.
- **Recall@10** is of vector search alone, against an exact comparison in f32 by numpy. A hit that is as near as the
  tenth counts. An approximate peer is set to the cheapest of a few efforts whose recall@10 is at least 0.99 on 200
  queries, else to its best; the column *effort* says which.
- **Languages.** *Weir* is called in process from Rust. *Weir over HTTP* is the gateway called by Python's
  `http.client`, one request after the other, every reply parsed: what the peers, which are called from Python too,
  are compared with. It embeds its documents itself, to the same vectors: embedding is most of its time to build.
- **Memory** is resident bytes beyond those of the same process before it opened the index, per document: after
  opening, after all searches, and the anonymous part of the latter; the rest are pages of mapped files that the
  system can take back. For a server it is that of all its processes.
- **Filters** are `n < 1`, `n < 10`, `n < 100` and `n < 500` over an integer that is uniform in 0 to 999.
- **Queries** are one to four content words of the title of a passage that is held out, or the first three to eight
  words of its text, and their embeddings.
- Build times include everything until the indexes are complete, on all of these cores. An index of an earlier run with the
  same program, settings and corpus is used again, with the build time of then.
- PostgreSQL and bm25s are here for words. Chroma has no ranking by words, so it has no hybrid search.
- Chroma and Qdrant Edge are left out above 200,000 documents, because building their indexes takes too long, and all
  peers at sizes that the command names by `--alone`.
"""
