"""A bare copy over TCP on this machine, the ceiling of every reply: one process sends zeros, another reads them into memory.

    python tcp_copy.py --connections 10 --seconds 3
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import sys
import threading
import time
from multiprocessing.connection import Connection

PIECE_BYTES = 1 << 20
ACCEPT_SECONDS_MAX = 30.0


def send(port: int, connections: int) -> None:
    """Sends until the other side closes."""

    def feed(sock: socket.socket) -> None:
        piece = bytes(PIECE_BYTES)
        try:
            while True:
                sock.sendall(piece)
        except OSError:
            return  # the reader has had enough

    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    threads = [threading.Thread(target=feed, args=(sock,)) for sock in sockets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def receive(listener: socket.socket, connections: int, seconds: float, report: Connection) -> None:
    """Reads for a time and tells how many bytes a second came."""
    listener.settimeout(ACCEPT_SECONDS_MAX)
    sockets = [listener.accept()[0] for _ in range(connections)]
    counts = [0] * connections
    deadline = time.perf_counter() + seconds
    started = time.perf_counter()

    def drain(at: int) -> None:
        memory = bytearray(PIECE_BYTES)
        while time.perf_counter() < deadline:
            counts[at] += sockets[at].recv_into(memory)

    threads = [threading.Thread(target=drain, args=(at,)) for at in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report.send(sum(counts) / (time.perf_counter() - started))
    for sock in sockets:
        sock.close()


def bytes_per_s(connections: int, seconds: float) -> float:
    """One measurement, in two processes of its own."""
    context = multiprocessing.get_context("fork")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        ours, theirs = context.Pipe(duplex=False)
        reader = context.Process(target=receive, args=(listener, connections, seconds, theirs))
        writer = context.Process(target=send, args=(port, connections))
        reader.start()
        writer.start()
        try:
            if not ours.poll(seconds + 2 * ACCEPT_SECONDS_MAX):
                raise TimeoutError("the copy over TCP did not end")
            return float(ours.recv())
        finally:
            for process in (writer, reader):
                process.terminate()
                process.join()


def main() -> int:
    """Reads the command line and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3.0)
    given = parser.parse_args()
    print(json.dumps({"bytes_per_s": bytes_per_s(given.connections, given.seconds)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
