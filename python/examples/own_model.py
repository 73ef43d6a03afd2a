"""A network of your own: measure it, simulate policies on it, serve it for real, and compare.

The network is a small recurrent one in NumPy. Any function that computes a batch takes its place: a model of PyTorch, a
session of ONNX Runtime, a client of a server.
"""

import batchlab as bl
import numpy

HIDDEN = 128
random = numpy.random.default_rng(1)
inner = random.standard_normal((HIDDEN, HIDDEN), dtype=numpy.float32) * 0.05
outer = random.standard_normal((HIDDEN, HIDDEN), dtype=numpy.float32) * 0.05


def steps(batch: int, length: int) -> numpy.ndarray:
    """Runs the network for `length` steps on a batch."""
    state = numpy.zeros((batch, HIDDEN), dtype=numpy.float32)
    given = numpy.ones((batch, HIDDEN), dtype=numpy.float32)
    for _ in range(length):
        state = numpy.tanh(state @ inner + given @ outer)
    return state


def one_step(batch: int) -> None:
    """What the cost table has: a step of a batch."""
    steps(batch, 10)


def serve(batch: list[bl.ServedRequest]) -> None:
    """Serves the requests of a task, padded to the longest."""
    steps(len(batch), max(request.length for request in batch))


def main() -> None:
    costs = bl.profile(one_step, batches=[1, 2, 4, 8, 16, 32], repeats=3)
    a_step = {"cell": costs["cell"], "batch": costs["batch"], "ns": [time / 10 for time in costs["ns"]]}
    print(costs)
    scenario = {
        "name": "own-model",
        "workload": {"model": "lstm", "dataset": "constant:20", "requests": 400},
        "arrivals": {"process": "poisson", "rates": [200]},
        "device": {"costs": a_step},
        "policy": {"padded": {"kind": "padded", "max_batch": 32}, "single": {"kind": "immediate"}},
    }
    simulated = bl.sim(scenario)
    served = bl.real(scenario, run=serve)
    print(simulated.summary())
    print(served.summary())
    for note in served.notes:
        print(note)
    print(bl.compare(served, simulated))


if __name__ == "__main__":
    main()
