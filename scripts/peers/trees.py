"""Binary tree-LSTM: DyNet with autobatching, and PyTorch level by level.

The cells are those of batchlab's `tree-lstm`: a leaf takes a word (gates i, o, u), an inner node the states of two
children (gates i, o, u, f_left, f_right; c = i·u + f_left·c_left + f_right·c_right, h = o·tanh(c)).
"""

from common import SEED, THREADS, VOCABULARY  # before the libraries

import numpy as np
import torch

torch.set_num_threads(THREADS)

try:
    import dynet_config

    dynet_config.set(mem=2048, autobatch=1, random_seed=SEED)
    import dynet
except ImportError:
    dynet = None


class Tree:
    """A tree as the peers want it: who follows on whom, and a word for each node."""

    def __init__(self, parents, words):
        self.words = words
        self.children = [[] for _ in parents]
        for node, parent in enumerate(parents):
            if parent >= 0:
                self.children[parent].append(node)
        self.root = parents.index(-1)
        # Children before their parents.
        self.order = [self.root]
        for node in self.order:
            self.order.extend(self.children[node])
        self.order.reverse()
        self.height = [0] * len(parents)
        for node in self.order:
            self.height[node] = 1 + max((self.height[child] for child in self.children[node]), default=-1)


def trees_of(shapes):
    """Trees with words drawn at random."""
    draw = np.random.default_rng(SEED)
    return [Tree(parents, draw.integers(VOCABULARY, size=len(parents)).tolist()) for parents in shapes]


def by_level(trees):
    """The nodes of all trees from the leaves up, a list of (tree, node) for each height, and the row of each in that order."""
    levels = [[] for _ in range(1 + max(tree.height[tree.root] for tree in trees))]
    for index, tree in enumerate(trees):
        for node in tree.order:
            levels[tree.height[node]].append((index, node))
    row = {place: number for number, place in enumerate(place for level in levels for place in level)}
    return levels, row


class Weights:
    """The cells' weights, rows being outputs, uniform in ±1/sqrt(H)."""

    def __init__(self, hidden):
        draw = np.random.default_rng(SEED)
        bound = hidden**-0.5
        uniform = lambda *shape: draw.uniform(-bound, bound, shape).astype(np.float32)
        self.hidden = hidden
        self.embedding = uniform(VOCABULARY, hidden)
        self.leaf, self.leaf_bias = uniform(3 * hidden, hidden), uniform(3 * hidden)
        self.internal, self.internal_bias = uniform(5 * hidden, 2 * hidden), uniform(5 * hidden)


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


class DyNet:
    """DyNet's own way: each tree as a graph of its own, node after node, and its autobatching finds what goes together.

    `prepare` builds the graphs (in Python), `run` computes them (in C++, the search for batches included).
    """

    name = "DyNet, autobatching"

    def __init__(self, weights):
        width = weights.hidden
        self.width = width
        self.parameters = parameters = dynet.ParameterCollection()  # it owns them
        self.embedding = parameters.lookup_parameters_from_numpy(weights.embedding)
        # A matrix for each gate: DyNet need not cut a product to pieces afterwards, which costs it more.
        rows = lambda matrix: [parameters.parameters_from_numpy(part) for part in np.split(matrix, len(matrix) // width)]
        self.leaf = list(zip(rows(weights.leaf), rows(weights.leaf_bias)))
        self.internal = list(zip(rows(weights.internal), rows(weights.internal_bias)))

    def prepare(self, trees):
        dynet.renew_cg()
        affine, logistic, tanh, cmult = dynet.affine_transform, dynet.logistic, dynet.tanh, dynet.cmult
        roots = []
        for tree in trees:
            states = [None] * len(tree.words)
            for node in tree.order:
                children = tree.children[node]
                if children:
                    (h_left, c_left), (h_right, c_right) = (states[child] for child in children)
                    x, gates = dynet.concatenate([h_left, h_right]), self.internal
                else:
                    x, gates = dynet.lookup(self.embedding, tree.words[node], update=False), self.leaf
                i, o, u, *forget = [affine([bias, matrix, x]) for matrix, bias in gates]
                c = cmult(logistic(i), tanh(u))
                if children:
                    left, right = map(logistic, forget)
                    c = c + cmult(left, c_left) + cmult(right, c_right)
                states[node] = cmult(logistic(o), tanh(c)), c
            roots.append(states[tree.root][0])
        return dynet.concatenate_to_batch(roots)

    def run(self, batch):
        return batch.npvalue().reshape(self.width, -1).T


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
