"""Highest response ratio next, with aging: short requests first, but none waits for ever.

The response ratio of a request is (waiting time + service time) / service time; the service time is taken from the
length. An exponent above 1 lets age count more.
"""

import batchlab as bl


class Hrrn(bl.Policy):
    """Highest response ratio next."""

    max_batch = 32

    def __init__(self, step: str = "200us", aging: float = 1.0) -> None:
        self.step = bl.time_ns(step)
        self.aging = aging
        self.waiting: list[bl.Request] = []

    def arrive(self, requests: list[bl.Request]) -> None:
        self.waiting += requests

    def ratio(self, request: bl.Request, now: int) -> float:
        service = request.length * self.step
        return float((1 + (now - request.arrival) / service) ** self.aging)

    def schedule(self, dispatch: bl.Dispatch) -> None:
        for worker in dispatch.idle():
            if not self.waiting:
                return
            now = dispatch.now
            self.waiting.sort(key=lambda request: (-self.ratio(request, now), request.length, request.id))
            batch, self.waiting = self.waiting[: self.max_batch], self.waiting[self.max_batch :]
            dispatch.submit(worker, batch)


class Fifo(Hrrn):
    """The same batches, first come first served."""

    def ratio(self, request: bl.Request, now: int) -> float:
        return float(now - request.arrival)


if __name__ == "__main__":
    bl.check(Hrrn)
    policies = {"hrrn": {"class": Hrrn, "aging": 1.5}, "fifo": Fifo}
    run = bl.sim("quickstart", policies=policies, set={"workload.requests": 5000, "arrivals.rates": [2000]})
    print(run.summary())
    means = dict(zip(run.summary()["policy"], run.summary()["mean_ms"]))
    assert means["hrrn"] < means["fifo"]
