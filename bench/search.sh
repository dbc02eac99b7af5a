#!/usr/bin/env bash
# Search beside LanceDB, Qdrant Edge, Chroma, bm25s, PostgreSQL and OpenSearch in one run: docs/benchmarks/search.md, its plots and its figures.
# Everything lies in .cache/bench-search: the peers (1 GB), the corpus of 1,000,000 documents (2 GB; embedding the 220,000 real ones takes
# half an hour on two cores and goes on where it was interrupted), and an index of each engine at each size (20 GB, an hour).
# DATA is a folder with evaluation sets, more real passages; SIZES="10000 50000" and SECONDS_PER_SIZE change what is measured, OUT is
# another folder for the result; arguments go to bench/search/measure.py.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=.cache/bench-search
python=$cache/venv/bin/python
target=${CARGO_TARGET_DIR:-target}/release

if ! cmp -s bench/search/requirements.txt "$cache/installed.txt"; then
    echo "bench/search: installing the peers into $cache/venv"
    mkdir -p "$cache"
    [ -x "$python" ] || python3 -m venv "$cache/venv"
    "$python" -m pip install --quiet --requirement bench/search/requirements.txt
    cp bench/search/requirements.txt "$cache/installed.txt"
fi
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 ||
    echo "bench/search: no PostgreSQL server is installed, it is left out (apt install postgresql)" >&2

# OpenSearch, if Java and Maven are here (apt install openjdk-17-jdk-headless maven unzip): its jars from Maven Central, 60 MB.
install_opensearch() {
    local folder=.cache/bench-peers/opensearch
    cat bench/peers/opensearch/* | cmp -s - "$folder/installed" && return
    echo "bench/search: installing OpenSearch into $folder"
    rm -rf "$folder" && mkdir -p "$folder"
    mvn --quiet --batch-mode --file bench/peers/opensearch/pom.xml \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory="$PWD/$folder/lib" &&
        (cd "$folder/lib" && unzip -q -n opensearch-knn-*.zip '*.jar') &&
        javac -cp "$folder/lib/*" -d "$folder/classes" bench/peers/opensearch/Start.java &&
        cat bench/peers/opensearch/* >"$folder/installed"
}
if command -v javac >/dev/null && command -v mvn >/dev/null && command -v unzip >/dev/null; then
    install_opensearch || echo "bench/search: OpenSearch is left out" >&2
else
    echo "bench/search: no Java, Maven or unzip, OpenSearch is left out (apt install openjdk-17-jdk-headless maven unzip)" >&2
fi

cargo build --release --locked -p weir -p weir-loadgen
cargo build --release --locked -p weir-index --example bench_search
cargo build --release --locked -p weir-encoder --example embed_lines

arguments=(--binaries "$target/examples" --out "${OUT:-docs/benchmarks}" --seconds "${SECONDS_PER_SIZE:-120}")
[ -z "${DATA:-}" ] || arguments+=(--data "$DATA")
[ -z "${SIZES:-}" ] || read -ra sizes <<<"$SIZES"
[ -z "${SIZES:-}" ] || arguments+=(--sizes "${sizes[@]}")
PYTHONPATH=bench "$python" bench/search/measure.py "${arguments[@]}" "$@"
