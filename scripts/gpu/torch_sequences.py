#!/usr/bin/env python3
"""Times whole sequences of PyTorch's nn.LSTM and nn.GRU (cuDNN) on the GPU, for the table of `items_persistent.py`.

The argument is JSON: {"sizes": [[cell, hidden, batch], …], "steps": N}. Prints JSON: what it ran on, and milliseconds by size and way. The ways:
cuDNN in float32 without TF32, where PyTorch asks for its traditional kernels; the same captured in a graph, which leaves the launches out; and
float16, for which PyTorch asks for the persistent kernels where cuDNN has them. PyTorch offers no other way to choose.
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


@torch.inference_mode()
def sequence(cell, hidden, batch, steps):
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    ways = {}
    for way, kind in (("f32", torch.float32), ("f16", torch.float16)):
        layer = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[cell](hidden, hidden).to("cuda", kind)
        layer.flatten_parameters()
        inputs = torch.randn(steps, batch, hidden, device="cuda").to(kind)
        call = lambda: layer(inputs)
        ways[f"cuDNN {way}"] = microseconds(call, 20) / 1e3
        if way == "f32":
            ways["cuDNN f32 graph"] = microseconds(captured(call), 20) / 1e3
    return ways


def main():
    asked = json.loads(sys.argv[1])
    times = {" ".join(map(str, size)): sequence(*size, asked["steps"]) for size in asked["sizes"]}
    about = f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}"
    print(json.dumps({"about": about, "ms": times}))


if __name__ == "__main__":
    main()
