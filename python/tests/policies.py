"""Policies for the tests: copies of two of batchlab's own."""

from __future__ import annotations

from collections import deque

import batchlab as bl


class Padded(bl.Policy):
    """Padded batching with one bucket: a turn sends what waits when it begins."""

    def __init__(self, max_batch: int = 512) -> None:
        self.max_batch = max_batch
        self.waiting: deque[bl.Request] = deque()
        self.turn = 0

    def arrive(self, requests: list[bl.Request]) -> None:
        self.waiting.extend(requests)

    def schedule(self, dispatch: bl.Dispatch) -> None:
        waiting = self.waiting
        if not waiting:
            return
        for worker in dispatch.idle():
            if not waiting:
                return
            if not self.turn:
                self.turn = len(waiting)
            size = min(self.turn, self.max_batch)
            dispatch.submit(worker, [waiting.popleft() for _ in range(size)])
            self.turn -= size


class Cellular(bl.Policy):
    """Cellular batching, Algorithm 1, for chains of one cell type on one worker."""

    max_batch = {"lstm": 512}
    max_tasks = 5

    def __init__(self) -> None:
        self.waiting: deque[bl.Request] = deque()
        self.active: list[tuple[bl.Request, int, int]] = []

    def arrive(self, requests: list[bl.Request]) -> None:
        self.waiting.extend(requests)

    def schedule(self, dispatch: bl.Dispatch) -> None:
        for worker in dispatch.idle():
            for _ in range(self.max_tasks):
                active, waiting = self.active, self.waiting
                for _ in range(min(len(waiting), 512 - len(active))):
                    request = waiting.popleft()
                    active.append((request, 0, request.length))
                if not active:
                    return
                dispatch.submit_nodes(worker, 0, [(request, node) for request, node, _ in active])
                self.active = [(request, node + 1, length) for request, node, length in active if node + 1 < length]
