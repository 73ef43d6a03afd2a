"""Earliest deadline first: whole requests in the order of their deadlines; what is too late is rejected."""

import heapq

import batchlab as bl


class Edf(bl.Policy):
    """Earliest deadline first."""

    max_batch = 64

    def __init__(self, slack: str = "1ms") -> None:
        self.slack = bl.time_ns(slack)
        self.waiting: list[tuple[int, int, bl.Request]] = []

    def arrive(self, requests: list[bl.Request]) -> None:
        for request in requests:
            due = request.arrival + 100_000_000 if request.deadline is None else request.deadline
            heapq.heappush(self.waiting, (due, request.id, request))

    def schedule(self, dispatch: bl.Dispatch) -> None:
        while self.waiting and self.waiting[0][0] < dispatch.now + self.slack:
            dispatch.reject(heapq.heappop(self.waiting)[2], "too late")
        for worker in dispatch.idle():
            size = min(self.max_batch, len(self.waiting))
            if size:
                dispatch.submit(worker, [heapq.heappop(self.waiting)[2] for _ in range(size)])


if __name__ == "__main__":
    bl.check(Edf, work_conserving=False)
    policies = {"edf": {"class": Edf, "slack": "2ms"}, "cellular": {"kind": "cellular", "max_batch": 64}}
    print(bl.sim("quickstart", policies=policies, set={"workload.requests": 5000}).summary())
