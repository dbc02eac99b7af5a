"""How often replies of the semantic cache are given to questions that mean the same.

`python scripts/similarity.py --data FOLDER` starts a gateway (WEIR_BINARY) before a mock of a provider (WEIR_MOCK_BINARY) and asks both
sentences of each pair of the STS sets in FOLDER/sts, one after the other: a pair that people scored with 4 or more of 5 means the same. It
prints the precision of the hits, their share among such pairs, and a logistic fit of the probability to the cosine, the numbers of
`CALIBRATION` in crates/llm/src/question.rs.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import subprocess
import tempfile
import urllib.request
from pathlib import Path

SAME = 4.0
SETS = ("stsb_dev", "sts13", "sts14")


def post(url: str, body: object) -> tuple[dict, str]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply), reply.headers.get("x-weir-cache", "")


def read(path: Path) -> list[tuple[float, str, str]]:
    with path.open(encoding="utf-8") as lines:
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        next(rows)
        return [(float(row[0]), row[1], row[2]) for row in rows]


def cosines(url: str, pairs: list[tuple[float, str, str]]) -> list[float]:
    texts = [text for _, first, second in pairs for text in (first, second)]
    rows = []
    for start in range(0, len(texts), 256):
        reply, _ = post(f"{url}/v1/embeddings", {"model": "all-MiniLM-L6-v2", "input": texts[start : start + 256]})
        rows += [item["embedding"] for item in reply["data"]]
    return [sum(a * b for a, b in zip(rows[i], rows[i + 1])) for i in range(0, len(rows), 2)]


def fit(values: list[float], labels: list[bool]) -> tuple[float, float]:
    """Slope and intercept of a logistic regression, by Newton's method."""
    slope, intercept = 1.0, 0.0
    for _ in range(50):
        g = [0.0, 0.0]
        h = [1e-6, 0.0, 1e-6]
        for x, y in zip(values, labels):
            p = 1 / (1 + math.exp(-max(-30.0, min(30.0, slope * x + intercept))))
            g[0] += (y - p) * x
            g[1] += y - p
            w = p * (1 - p)
            h[0] += w * x * x
            h[1] += w * x
            h[2] += w
        det = h[0] * h[2] - h[1] * h[1]
        slope += (h[2] * g[0] - h[1] * g[1]) / det
        intercept += (h[0] * g[1] - h[1] * g[0]) / det
    return slope, intercept


def is_hit(url: str, pair: tuple[float, str, str], number: int) -> bool:
    def ask(text: str) -> str:
        messages = [{"role": "system", "content": f"pair {number}"}, {"role": "user", "content": text}]
        return post(f"{url}/v1/chat/completions", {"model": "m", "messages": messages})[1]

    ask(pair[1])
    return ask(pair[2]) in ("semantic_hit", "hit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--similarity", type=float, default=0.88)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mock = subprocess.Popen([os.environ["WEIR_MOCK_BINARY"], "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE)
        weir = None
        try:
            address = json.loads(mock.stdout.readline())["url"]
            config = folder / "weir.toml"
            config.write_text(
                f'[[upstreams]]\nid = "mock"\nprovider = "openai"\nurl = "{address}/v1"\n'
                '[[routes]]\nmodel = "m"\ntargets = [{ upstream = "mock" }]\n'
                f'cache = {{ mode = "semantic", similarity = {arguments.similarity} }}\n'
            )
            command = [os.environ["WEIR_BINARY"], "serve", "--config", config, "--listen", "127.0.0.1:0"]
            command += ["--data-dir", folder / "data"]
            weir = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={})  # no settings from outside
            url = next(line for line in weir.stderr if "is listening" in line)
            url = "http://" + json.loads(url)["address"]
            subprocess.Popen(["cat"], stdin=weir.stderr, stdout=subprocess.DEVNULL)
            report(url, arguments.data, arguments.similarity)
        finally:
            for process in (weir, mock):
                if process:
                    process.terminate()
                    process.wait()


def report(url: str, data: Path, similarity: float) -> None:
    print(f"threshold {similarity}; pairs scored {SAME:g} or more mean the same")
    print("| set | pairs | same | hits | precision | recall | fit |")
    print("|---|---|---|---|---|---|---|")
    number = 0
    for name in SETS:
        pairs = read(data / "sts" / f"{name}.tsv")
        labels = [score >= SAME for score, _, _ in pairs]
        slope, intercept = fit(cosines(url, pairs), labels)
        hits = []
        for pair in pairs:
            number += 1
            hits.append(is_hit(url, pair, number))
        right = sum(hit and label for hit, label in zip(hits, labels))
        precision = right / max(1, sum(hits))
        recall = right / max(1, sum(labels))
        print(
            f"| {name} | {len(pairs)} | {sum(labels)} | {sum(hits)} | {precision:.3f} | {recall:.3f} "
            f"| {slope:.1f}, {intercept:.1f} |"
        )


if __name__ == "__main__":
    main()
