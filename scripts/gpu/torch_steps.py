#!/usr/bin/env python3
"""Times PyTorch's LSTM steps on the GPU, for the table of `items_steps.py`: one step of a batch, back to back.

The argument is JSON: {"hidden": H, "batches": […], "precisions": ["f32", "tf32", "bf16", "f16"]}. Prints JSON: what it ran on,
and microseconds a step by format, way and batch. The ways: nn.LSTM (cuDNN) over one step, nn.LSTM over 24 steps a call, its
time divided by 24, and nn.LSTMCell in a captured graph.
"""

import json
import sys

try:
    import torch
except ImportError:
    sys.exit("Python has no torch")
if not torch.cuda.is_available():
    sys.exit("torch sees no GPU")

STEPS = 24
TYPES = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def microseconds(call, calls):
    """The shortest of some means, by the GPU's clock."""
    for _ in range(5):
        call()
    best = float("inf")
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) * 1e3 / calls)
    return best


def captured(call):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


@torch.inference_mode()
def steps(hidden, batch, precision):
    kind = TYPES[precision]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    layer = torch.nn.LSTM(hidden, hidden).to("cuda", kind)
    layer.flatten_parameters()
    cell = torch.nn.LSTMCell(hidden, hidden).to("cuda", kind)
    draw = lambda *shape: torch.randn(*shape, device="cuda").to(kind)
    one, all_steps, state = draw(1, batch, hidden), draw(STEPS, batch, hidden), (draw(1, batch, hidden), draw(1, batch, hidden))
    flat = (state[0][0], state[1][0])
    return {
        "nn.LSTM": microseconds(lambda: layer(one, state), 50),
        f"nn.LSTM of {STEPS}": microseconds(lambda: layer(all_steps, state), 10) / STEPS,
        "LSTMCell graph": microseconds(captured(lambda: cell(one[0], flat)), 50),
    }


def main():
    asked = json.loads(sys.argv[1])
    found = {}
    for precision in asked["precisions"]:
        for batch in asked["batches"]:
            for way, time in steps(asked["hidden"], batch, precision).items():
                found.setdefault(precision, {}).setdefault(way, {})[str(batch)] = time
    about = f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}"
    print(json.dumps({"about": about, "steps": found}))


if __name__ == "__main__":
    main()
