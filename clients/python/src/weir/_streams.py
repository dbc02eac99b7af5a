"""Work on a stream of items, several at once, with results in the order of the items and bounded memory."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, Union

A = TypeVar("A")
B = TypeVar("B")


def check_sizes(batch_size: int, max_in_flight: int) -> None:
    """`ValueError` unless both are at least 1."""
    for name, value in (("batch_size", batch_size), ("max_in_flight", max_in_flight)):
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")


def check_many(items: object, what: str) -> None:
    """`TypeError` for one text or dictionary, which is iterable but not many."""
    if isinstance(items, (str, bytes, dict)):
        raise TypeError(f"{what} is one {type(items).__name__}; put it into a list")


def batched(items: Iterable[A], size: int) -> Iterator[list[A]]:
    """Lists of `size` items; the last may be shorter."""
    batch: list[A] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


async def batched_async(items: AsyncIterable[A], size: int) -> AsyncIterator[list[A]]:
    """Lists of `size` items; the last may be shorter."""
    batch: list[A] = []
    async for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


async def as_async(items: Union[Iterable[A], AsyncIterable[A]]) -> AsyncIterator[A]:
    """The items of either kind of iterable."""
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


def map_in_order(
    work: Callable[[A, threading.Event], B], items: Iterable[A], max_in_flight: int
) -> Generator[B, None, None]:
    """Results of `work` in threads. When the consumer stops, the event that `work` gets is set and the threads end."""
    stopped = threading.Event()
    pool = ThreadPoolExecutor(max_in_flight, thread_name_prefix="weir")
    running: deque[Future[B]] = deque()
    try:
        for item in items:
            running.append(pool.submit(work, item, stopped))
            if len(running) == max_in_flight:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        stopped.set()
        pool.shutdown(wait=True, cancel_futures=True)


async def map_in_order_async(
    work: Callable[[A], Awaitable[B]], items: AsyncIterable[A], max_in_flight: int
) -> AsyncGenerator[B, None]:
    """Results of `work` in tasks. A consumer that stops cancels them."""
    running: deque[asyncio.Task[B]] = deque()
    try:
        async for item in items:
            running.append(asyncio.create_task(_result(work, item)))
            if len(running) == max_in_flight:
                yield await running[0]
                running.popleft()
        while running:
            yield await running[0]
            running.popleft()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _result(work: Callable[[A], Awaitable[B]], item: A) -> B:
    return await work(item)
