"""Trees, their weights, and DyNet's way with them: what needs no other library than NumPy and DyNet.

The cells are those of batchlab's `tree-lstm`: a leaf takes a word (gates i, o, u), an inner node the states of two
children (gates i, o, u, f_left, f_right; c = i·u + f_left·c_left + f_right·c_right, h = o·tanh(c)).
"""

from common import SEED, VOCABULARY  # before the libraries

import numpy as np

try:
    import dynet_config

    dynet_config.set(mem=2048, autobatch=1, random_seed=SEED)
    import dynet
except ImportError:
    dynet = None

# Expressions of DyNet.prepare for a cell, as in batchlab's lists of operators.
LEAF_OPERATORS = 10
INTERNAL_OPERATORS = 18


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
