"""Serving a trace with a peer, and the highest rate at which a latency target holds.

Time is virtual but the work is real: every batch is executed when it is formed, and the clock moves on by what that took.
What a server of the peer would spend besides on taking requests in, forming batches and answering is thus left out.
"""

from collections import deque

import numpy as np

from common import SEED, VOCABULARY, percentile, seconds


class Buckets:
    """Padded batching: sentences of similar length, bucket after bucket, first come first served in each."""

    def __init__(self, trace, max_batch, width=10):
        self.lengths, self.max_batch, self.width = trace.shapes, max_batch, width
        self.buckets = [deque() for _ in range((max(trace.shapes) - 1) // width + 1)]
        self.pointer = 0

    def add(self, request):
        self.buckets[(self.lengths[request] - 1) // self.width].append(request)

    def take(self):
        for step in range(len(self.buckets)):
            at = (self.pointer + step) % len(self.buckets)
            if bucket := self.buckets[at]:
                self.pointer = (at + 1) % len(self.buckets)
                return [bucket.popleft() for _ in range(min(self.max_batch, len(bucket)))]
        return []


class FirstCome:
    """Up to `count` requests in the order of their arrival."""

    def __init__(self, trace, max_batch):
        self.waiting, self.max_batch = deque(), max_batch

    def add(self, request):
        self.waiting.append(request)

    def take(self):
        return [self.waiting.popleft() for _ in range(min(self.max_batch, len(self.waiting)))]


class Sentences:
    """The sentences of a trace, each with its words, padded to the longest of a batch when it runs."""

    def __init__(self, trace):
        draw = np.random.default_rng(SEED)
        self.words = [draw.integers(VOCABULARY, size=length) for length in trace.shapes]

    def batch(self, requests):
        lengths = np.array([len(self.words[request]) for request in requests])
        words = np.zeros((lengths.max(), len(requests)), np.int64)
        for column, request in enumerate(requests):
            words[: lengths[column], column] = self.words[request]
        return words, lengths


def serve(trace, speed, batches, execute):
    """Serves the trace with its times divided by `speed`: (latencies, time of the last answer), in seconds.

    `execute` runs the requests of a batch and returns how long that took.
    """
    now, next_, latencies = 0.0, 0, []
    arrivals = [time / speed for time in trace.arrivals]
    while len(latencies) < len(arrivals):
        while next_ < len(arrivals) and arrivals[next_] <= now:
            batches.add(next_)
            next_ += 1
        members = batches.take()
        if members:
            now += execute(members)
            latencies.extend(now - arrivals[member] for member in members)
        else:
            now = arrivals[next_]
    return latencies, now


def summary(latencies, end):
    """Throughput in requests per second, and p50, p90 and p99 in milliseconds."""
    return [len(latencies) / end] + [percentile(latencies, share) * 1e3 for share in (0.5, 0.9, 0.99)]


def knee(target_ms, tolerance=0.02, tries=3):
    """Finds the highest rate at which p99 keeps the target, by bisection around the throughput without idle time.

    A generator, for `in_turns`: it yields the rate of the next run, and expects that run's `summary`. A rate of None
    means that all requests are there at the start. A rate holds if it does so in most of `tries` runs: one hiccup of the
    machine decides nothing. Returns the rate and the summary of a run that held it, or (0, None).
    """

    def held(rate):
        """The summary of a run that held the rate, if most did."""
        held, broken = [], 0
        while max(len(held), broken) <= tries // 2:
            measured = yield rate
            if measured[-1] <= target_ms:
                held.append(measured)
            else:
                broken += 1
        return held[-1] if len(held) > broken else None

    capacity, *_, p99 = yield None
    if p99 <= target_ms:
        raise SystemExit(f"all requests at once are served within {target_ms} ms; take a longer trace")
    low, high, best = 0.0, 1.1 * capacity, None
    while True:
        while high - low > tolerance * capacity:
            rate = (low + high) / 2
            if kept := (yield from held(rate)):
                low, best = rate, kept
            else:
                high = rate
        # The capacity, or the rate that did not hold, may have met a slow moment of the machine.
        if not (kept := (yield from held(high))):
            return low, best
        low, high, best = high, 1.1 * high, kept


def in_turns(searches):
    """What each search finds. They take turns run by run, so that a slow minute of the machine meets all of them.

    A search is a pair: `run(rate)`, which serves once and returns what `summary` does, and a `knee`.
    """
    found = [None] * len(searches)
    waiting = {place: next(search) for place, (_, search) in enumerate(searches)}
    while waiting:
        for place, rate in list(waiting.items()):
            run, search = searches[place]
            try:
                waiting[place] = search.send(run(rate))
            except StopIteration as end:
                found[place] = end.value
                del waiting[place]
    return found


def peer_run(trace, make_batches, prepare, execute):
    """`run` of `in_turns` for a peer: only `execute` is on the clock, `prepare` (padding, building graphs) is not."""

    def run(rate):
        speed = rate / trace.rate if rate else float("inf")
        return summary(*serve(trace, speed, make_batches(), lambda members: timed(prepare(members))))

    def timed(batch):
        return seconds(lambda: execute(batch))

    return run
