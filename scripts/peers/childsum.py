"""Child-sum tree-LSTM in PyTorch: a tree at a time, and level by level over a batch of trees.

The cell is that of Tai et al. and of batchlab's `childsum-tree-lstm`: every node has a word; i, o, u from W x + U (sum of
the children's h) + b, a forget gate for each child from W_f x + U_f h_child + b_f.
"""

from common import SEED, THREADS, VOCABULARY  # before the libraries

import numpy as np
import torch

from forest import by_level

torch.set_num_threads(THREADS)


class Weights:
    """The cell's weights, transposed for products from the left, uniform in ±1/sqrt(H)."""

    def __init__(self, hidden, embedding):
        generator = torch.Generator().manual_seed(SEED)
        bound = hidden**-0.5
        uniform = lambda *shape: torch.empty(shape).uniform_(-bound, bound, generator=generator)
        self.hidden = hidden
        self.embedding = uniform(VOCABULARY, embedding)
        self.iou_x, self.iou_h, self.iou_bias = uniform(embedding, 3 * hidden), uniform(hidden, 3 * hidden), uniform(3 * hidden)
        self.f_x, self.f_h, self.f_bias = uniform(embedding, hidden), uniform(hidden, hidden), uniform(hidden)
        # What words contribute can be had for all nodes and all four gates in one product.
        self.x = torch.cat([self.iou_x, self.f_x], dim=1)
        self.bias = torch.cat([self.iou_bias, self.f_bias])

    def finish(self, iou):
        """From the sums of the gates i, o and u to (i·u, o)."""
        i, o, u = iou.split(self.hidden, dim=1)
        return i.sigmoid() * u.tanh(), o.sigmoid()


class Instances:
    """Node after node, as the model is usually written down."""

    name = "PyTorch, node after node"

    def __init__(self, weights):
        self.weights = weights

    def prepare(self, trees):
        return [(tree, torch.tensor(tree.words)) for tree in trees]

    @torch.inference_mode()
    def run(self, batch):
        return torch.cat([self.tree(tree, words) for tree, words in batch]).numpy()

    def tree(self, tree, words):
        w = self.weights
        x = torch.nn.functional.embedding(words, w.embedding)
        states = [None] * len(words)
        for node in tree.order:
            word, children = x[node : node + 1], tree.children[node]
            iou = torch.addmm(w.iou_bias, word, w.iou_x)
            if not children:
                c, o = w.finish(iou)
            else:
                h = torch.cat([states[child][0] for child in children])
                iu, o = w.finish(iou.addmm_(h.sum(0, keepdim=True), w.iou_h))
                f = (torch.addmm(w.f_bias, word, w.f_x) + h @ w.f_h).sigmoid_()
                c = iu + (f * torch.cat([states[child][1] for child in children])).sum(0, keepdim=True)
            states[node] = o * c.tanh(), c
        return states[tree.root][0]


class Levels:
    """All nodes of one height of all trees as one call; the words' part for all nodes beforehand."""

    name = "PyTorch, level by level"

    def __init__(self, weights):
        self.weights = weights

    def prepare(self, trees):
        levels, row = by_level(trees)
        words = torch.tensor([trees[index].words[node] for level in levels for index, node in level])
        edges = []
        for level in levels[1:]:
            pairs = [(at, row[i, child]) for at, (i, node) in enumerate(level) for child in trees[i].children[node]]
            parents, children = map(torch.tensor, zip(*pairs))
            edges.append((len(level), parents, children))
        roots = torch.tensor([row[index, tree.root] for index, tree in enumerate(trees)])
        return words, len(levels[0]), edges, roots

    @torch.inference_mode()
    def run(self, batch):
        words, end, edges, roots = batch
        w, width = self.weights, self.weights.hidden
        x = torch.addmm(w.bias, torch.nn.functional.embedding(words, w.embedding), w.x)
        x_iou, x_f = x[:, : 3 * width], x[:, 3 * width :]
        h, c = torch.empty(len(words), width), torch.empty(len(words), width)
        iu, o = w.finish(x_iou[:end])
        c[:end] = iu
        h[:end] = o * iu.tanh()
        for nodes, parents, children in edges:
            start, end = end, end + nodes
            h_children = h.index_select(0, children)
            h_sum = torch.zeros(nodes, width).index_add_(0, parents, h_children)
            iu, o = w.finish(torch.addmm(x_iou[start:end], h_sum, w.iou_h))
            f = torch.addmm(x_f[start:end].index_select(0, parents), h_children, w.f_h).sigmoid_()
            new = iu.index_add_(0, parents, f.mul_(c.index_select(0, children)))
            c[start:end] = new
            h[start:end] = o * new.tanh()
        return h.index_select(0, roots).numpy()


def peers(hidden, embedding, trees):
    """Both ways, shown to agree on some of the trees."""
    weights = Weights(hidden, embedding)
    found = [Instances(weights), Levels(weights)]
    results = [peer.run(peer.prepare(trees[:5])) for peer in found]
    np.testing.assert_allclose(results[0], results[1], atol=1e-5, err_msg="levels and instances disagree")
    return found
