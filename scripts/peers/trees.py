"""Binary tree-LSTM: DyNet with autobatching, and PyTorch level by level."""

from common import THREADS  # before the libraries

import numpy as np
import torch

from forest import DyNet, Weights, by_level, dynet

torch.set_num_threads(THREADS)


class TorchLevels:
    """All nodes of one height of all trees of a batch as one call, height after height.

    Nodes are numbered by height, so that each level writes a slice and only the children have to be gathered.
    """

    name = "PyTorch, level by level"

    def __init__(self, weights):
        self.hidden = weights.hidden
        tensor = torch.from_numpy
        self.embedding = tensor(weights.embedding)
        self.leaf, self.leaf_bias = tensor(weights.leaf).T.contiguous(), tensor(weights.leaf_bias)
        self.internal, self.internal_bias = tensor(weights.internal).T.contiguous(), tensor(weights.internal_bias)

    def prepare(self, trees):
        """Words of the leaves, children of each further level, and the rows in which the roots end up."""
        levels, row = by_level(trees)
        words = [trees[index].words[node] for index, node in levels[0]]
        gathers = []
        for level in levels[1:]:
            # Both children of a node, one after the other: gathered, they are the row [left | right].
            pairs = [row[index, child] for index, node in level for child in trees[index].children[node]]
            gathers.append(torch.tensor(pairs))
        roots = torch.tensor([row[index, tree.root] for index, tree in enumerate(trees)])
        return torch.tensor(words), gathers, roots, len(row)

    @torch.inference_mode()
    def run(self, batch):
        words, gathers, roots, nodes = batch
        width = self.hidden
        h, c = torch.empty(nodes, width), torch.empty(nodes, width)
        end = len(words)
        x = torch.nn.functional.embedding(words, self.embedding)
        gates = torch.addmm(self.leaf_bias, x, self.leaf)
        gates[:, : 2 * width].sigmoid_()
        gates[:, 2 * width :].tanh_()
        i, o, u = gates.split(width, dim=1)
        torch.mul(i, u, out=c[:end])
        torch.mul(o, c[:end].tanh(), out=h[:end])
        for children in gathers:
            start, end = end, end + len(children) // 2
            both = h.index_select(0, children).view(-1, 2 * width)
            gates = torch.addmm(self.internal_bias, both, self.internal)
            gates[:, : 2 * width].sigmoid_()
            gates[:, 2 * width : 3 * width].tanh_()
            gates[:, 3 * width :].sigmoid_()
            i, o, u, left, right = gates.split(width, dim=1)
            cells = c.index_select(0, children).view(-1, 2 * width)
            new = torch.mul(i, u, out=c[start:end])
            new.addcmul_(left, cells[:, :width]).addcmul_(right, cells[:, width:])
            torch.mul(o, new.tanh(), out=h[start:end])
        return h.index_select(0, roots).numpy()


def peers(hidden, trees):
    """The peers that can be had, shown to agree with each other on some of the trees."""
    weights = Weights(hidden)
    found = [TorchLevels(weights)]
    if dynet is None:
        print("DyNet can't be imported: it is left out", flush=True)
    else:
        found.append(DyNet(weights))
    for tree in trees:
        if any(len(children) not in (0, 2) for children in tree.children):
            raise SystemExit("the trace has trees with nodes of other than two children; use childsum for these")
    some = trees[:5]
    results = [peer.run(peer.prepare(some)) for peer in found]
    for peer, result in zip(found, results):
        np.testing.assert_allclose(result, results[0], atol=1e-5, err_msg=f"{peer.name} computes something else")
    return found
