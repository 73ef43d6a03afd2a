#!/usr/bin/env python3
"""Times whole sequences of PyTorch's nn.LSTM and nn.GRU (cuDNN) on the GPU, for `items_persistent.py`.

The argument is JSON: {"sizes": [[cell, hidden, batch, steps], …]}. Prints JSON: what it ran on, and a list of [cell, hidden, batch, steps, way,
launches, milliseconds]. The ways are those of docs/GRNN.md: float32 without TF32 as PyTorch calls it; with packed inputs, for which it asks for
traditional kernels at any size; captured in a graph, which leaves the launches out; and float16. Otherwise PyTorch chooses: it asks for persistent
kernels up to a hidden size of 192, and above that in float16 for some sizes. So the kernels that a call launches are counted: traditional ones are
at least as many as the steps.
"""

import json
import sys

try:
    import torch
except ImportError:
    sys.exit("Python has no torch")
if not torch.cuda.is_available():
    sys.exit("torch sees no GPU")

from torch_steps import captured, microseconds


def launches(call):
    """The kernels of a call, as the profiler counts them; nothing if it sees none."""
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            call()
            torch.cuda.synchronize()
    except RuntimeError:
        return None
    events = (event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA)
    return sum(not event.name.startswith(("Memcpy", "Memset")) for event in events) or None


@torch.inference_mode()
def sequence(cell, hidden, batch, steps):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    rows = []

    def row(way, timed, counted):
        ms = microseconds(timed, 20) / 1e3
        rows.append((cell, hidden, batch, steps, way, launches(counted), ms))

    for name, kind in (("f32", torch.float32), ("f16", torch.float16)):
        layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[cell](hidden, hidden).to("cuda", kind)
        layer.flatten_parameters()
        inputs = torch.randn(steps, batch, hidden, device="cuda").to(kind)
        call = lambda: layer(inputs)
        row(f"cudnn-{name}", call, call)
        if name == "f32":
            packed = torch.nn.utils.rnn.pack_padded_sequence(inputs, [steps] * batch)
            row("cudnn-f32-packed", *[lambda: layer(packed)] * 2)
            # A graph launches what was captured.
            row("cudnn-f32-graph", captured(call), call)
    return rows


def main():
    asked = json.loads(sys.argv[1])
    rows = [row for size in asked["sizes"] for row in sequence(*size)]
    about = f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}"
    print(json.dumps({"about": about, "rows": rows}))


if __name__ == "__main__":
    main()
