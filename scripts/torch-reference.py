#!/usr/bin/env python3
# /// script
# requires-python = ">=3.10"
# dependencies = ["numpy>=1.26", "safetensors>=0.5", "torch>=2.4"]
# ///
"""Computes what the networks of `src/devices/network/` have to come to, with PyTorch.

Draws small weights for every model, runs a few requests through PyTorch's own operators in float32, and writes, for each
model, `MODEL.safetensors` (the weights) and `MODEL.json` (the sizes, and each request's shape, final state and written
words). The files in `tests/data/pytorch/` were made by this, and the tests compare the crate's cells with them.

    uv run scripts/torch-reference.py tests/data/pytorch

or, where torch, numpy and safetensors are installed, `python3 scripts/torch-reference.py tests/data/pytorch`.
"""

import argparse
import json
import pathlib

import torch
from safetensors.torch import save_file
from torch.nn import functional

SEED = 7
MASK = (1 << 64) - 1

# Hidden width, embedding width, vocabulary, and the shapes of the requests.
MODELS = {
    "lstm": (8, 5, 11, ["chain:1", "chain:2", "chain:30"]),
    "gru": (7, 6, 11, ["chain:1", "chain:2", "chain:30"]),
    "seq2seq": (6, 5, 11, ["seq2seq:1>1", "seq2seq:4>9", "seq2seq:12>7"]),
    "tree-lstm": (5, 7, 11, ["tree:0", "tree:3 3 0", "tree:2 0", "tree:7 7 5 5 6 7 0", "tree:0 1 1 2 3 3 4"]),
    "childsum-tree-lstm": (6, 5, 11, ["tree:0", "tree:3 3 0", "tree:2 0", "tree:6 6 6 5 6 0", "tree:0 1 1 2 3 3 3"]),
    "dnn:block": (6, 6, 11, ["tokens:1", "tokens:13", "fixed"]),
}


def mix(word):
    """SplitMix64's finalizer, by which the crate draws the words of requests."""
    word = (word + 0x9E3779B97F4A7C15) & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def word_at(request, place, vocabulary):
    mixed = mix(SEED ^ mix(request << 32 | place))
    return ((mixed >> 32) * vocabulary) >> 32


def weights_of(model, h, e, v):
    """The shapes of a model's tensors, filled from a range that drives gates well into their bends."""

    def lstm(name):
        return {f"{name}.weight_ih": (4 * h, e), f"{name}.weight_hh": (4 * h, h), f"{name}.bias": (4 * h,)}

    shapes = {"embedding.weight": (v, e)}
    match model:
        case "lstm":
            shapes |= lstm("lstm")
        case "gru":
            shapes |= {"gru.weight_ih": (3 * h, e), "gru.weight_hh": (3 * h, h), "gru.bias": (3 * h,)}
        case "seq2seq":
            shapes |= lstm("encoder") | lstm("decoder") | {"decoder.embedding": (v, e)}
            shapes |= {"projection.weight": (v, h), "projection.bias": (v,)}
        case "tree-lstm":
            shapes |= {"leaf.weight": (3 * h, e), "leaf.bias": (3 * h,), "internal.bias": (5 * h,)}
            shapes |= {"internal.weight_left": (5 * h, h), "internal.weight_right": (5 * h, h)}
        case "childsum-tree-lstm":
            shapes |= {"childsum.weight_iou_x": (3 * h, e), "childsum.weight_iou_h": (3 * h, h)}
            shapes |= {"childsum.bias_iou": (3 * h,), "childsum.bias_f": (h,)}
            shapes |= {"childsum.weight_f_x": (h, e), "childsum.weight_f_h": (h, h)}
        case "dnn:block":
            shapes |= {"dense.weight_1": (4 * h, h), "dense.bias_1": (4 * h,)}
            shapes |= {"dense.weight_2": (h, 4 * h), "dense.bias_2": (h,)}
    return {name: torch.empty(shape).uniform_(-1.0, 1.0) for name, shape in shapes.items()}


def lstm_cell(w, name, h, e):
    cell = torch.nn.LSTMCell(e, h)
    with torch.no_grad():
        cell.weight_ih.copy_(w[f"{name}.weight_ih"])
        cell.weight_hh.copy_(w[f"{name}.weight_hh"])
        cell.bias_ih.copy_(w[f"{name}.bias"])
        cell.bias_hh.zero_()
    return cell


def gates(i, o, u, kept):
    c = torch.sigmoid(i) * torch.tanh(u) + kept
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_step(w, x, h):
    """The canonical cell: the reset gate stands before the recurrent product, which torch.nn.GRU does not offer."""
    in_r, in_z, in_n = w["gru.weight_ih"].chunk(3)
    re_r, re_z, re_n = w["gru.weight_hh"].chunk(3)
    b_r, b_z, b_n = w["gru.bias"].chunk(3)
    r = torch.sigmoid(functional.linear(x, in_r, b_r) + functional.linear(h, re_r))
    z = torch.sigmoid(functional.linear(x, in_z, b_z) + functional.linear(h, re_z))
    n = torch.tanh(functional.linear(x, in_n, b_n) + functional.linear(r * h, re_n))
    return (1 - z) * n + z * h


def tree_state(model, w, parents, node, words):
    children = [tree_state(model, w, parents, i, words) for i, p in enumerate(parents) if p == node + 1]
    hidden = children[0][0].shape[0] if children else None
    x = w["embedding.weight"][words[node]]
    if model == "tree-lstm":
        if not children:
            return gates(*functional.linear(x, w["leaf.weight"], w["leaf.bias"]).chunk(3), 0.0)
        zero = (torch.zeros(hidden), torch.zeros(hidden))
        (h_left, c_left), (h_right, c_right) = (children + [zero])[:2]
        left = functional.linear(h_left, w["internal.weight_left"], w["internal.bias"])
        i, o, u, f_left, f_right = (left + functional.linear(h_right, w["internal.weight_right"])).chunk(5)
        return gates(i, o, u, torch.sigmoid(f_left) * c_left + torch.sigmoid(f_right) * c_right)
    iou = functional.linear(x, w["childsum.weight_iou_x"], w["childsum.bias_iou"])
    kept = 0.0
    if children:
        h, c = (torch.stack(part) for part in zip(*children))
        iou = iou + functional.linear(h.sum(0), w["childsum.weight_iou_h"])
        of_word = functional.linear(x, w["childsum.weight_f_x"], w["childsum.bias_f"])
        kept = (torch.sigmoid(of_word + functional.linear(h, w["childsum.weight_f_h"])) * c).sum(0)
    return gates(*iou.chunk(3), kept)


def run(model, w, sizes, request, shape):
    """The final state of a request, and the words that it wrote."""
    h, e, v = sizes
    kind, _, size = shape.partition(":")
    words = lambda n: [word_at(request, place, v) for place in range(n)]
    embedded = lambda n: w["embedding.weight"][words(n)]
    match model:
        case "lstm":
            cell, state = lstm_cell(w, "lstm", h, e), (torch.zeros(h), torch.zeros(h))
            for x in embedded(int(size)):
                state = cell(x, state)
            return torch.cat(state), []
        case "gru":
            state = torch.zeros(h)
            for x in embedded(int(size)):
                state = gru_step(w, x, state)
            return state, []
        case "seq2seq":
            source, target = map(int, size.split(">"))
            encoder, decoder = lstm_cell(w, "encoder", h, e), lstm_cell(w, "decoder", h, e)
            state = (torch.zeros(h), torch.zeros(h))
            for x in embedded(source):
                state = encoder(x, state)
            written = [0]
            for _ in range(target):
                state = decoder(w["decoder.embedding"][written[-1]], state)
                scores = functional.linear(state[0], w["projection.weight"], w["projection.bias"])
                best = scores.topk(2)
                assert best.values[0] - best.values[1] > 1e-4, "the words are too close to tell: take another seed"
                written.append(int(best.indices[0]))
            return torch.cat([*state, torch.tensor([float(written[-1])])]), written[1:]
        case "dnn:block":
            x = embedded(1 if kind == "fixed" else int(size))
            wide = torch.relu(functional.linear(x, w["dense.weight_1"], w["dense.bias_1"]))
            return (x + functional.linear(wide, w["dense.weight_2"], w["dense.bias_2"])).mean(0), []
        case _:
            parents = [int(parent) for parent in size.split()]
            state = tree_state(model, w, parents, parents.index(0), words(len(parents)))
            return torch.cat(state), []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the files go")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SEED)
    for model, (h, e, v, shapes) in MODELS.items():
        weights = weights_of(model, h, e, v)
        requests = []
        with torch.no_grad():
            for request, shape in enumerate(shapes):
                state, words = run(model, weights, (h, e, v), request, shape)
                requests.append({"shape": shape, "state": state.tolist(), "words": words})
        name = model.replace(":", "-")
        save_file(weights, folder / f"{name}.safetensors")
        sizes = {"model": model, "hidden": h, "embedding": e, "vocabulary": v, "seed": SEED, "torch": torch.__version__}
        lines = ",\n    ".join(json.dumps(request) for request in requests)
        head = json.dumps(sizes)[1:-1]
        (folder / f"{name}.json").write_text(f'{{\n  {head},\n  "requests": [\n    {lines}\n  ]\n}}\n')
        print(f"{folder / name}: {len(requests)} requests")


if __name__ == "__main__":
    main()
