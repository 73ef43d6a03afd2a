"""PyTorch's and ONNX Runtime's LSTM: one step, and whole padded batches of sentences."""

from common import SEED, THREADS, VOCABULARY  # before the libraries

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

torch.set_num_threads(THREADS)


class Weights:
    """One LSTM layer and its embedding, with PyTorch's shapes and order of gates (i, f, g, o), uniform in ±1/sqrt(H)."""

    def __init__(self, hidden, vocabulary=VOCABULARY):
        draw = np.random.default_rng(SEED)
        bound = hidden**-0.5
        uniform = lambda *shape: draw.uniform(-bound, bound, shape).astype(np.float32)
        self.hidden = hidden
        self.embedding = uniform(vocabulary, hidden)
        self.ih, self.hh, self.bias = uniform(4 * hidden, hidden), uniform(4 * hidden, hidden), uniform(4 * hidden)

    def into(self, module):
        """Copies the layer into a `torch.nn.LSTM` or `LSTMCell`."""
        end = "_l0" if isinstance(module, torch.nn.LSTM) else ""
        state = {"weight_ih": self.ih, "weight_hh": self.hh, "bias_ih": self.bias, "bias_hh": np.zeros_like(self.bias)}
        module.load_state_dict({name + end: torch.from_numpy(value) for name, value in state.items()})
        return module.eval().requires_grad_(False)


class TorchSentences:
    """An embedding and `nn.LSTM` on a padded batch; the hidden state behind each sentence's last word.

    `nn.LSTM` runs in oneDNN here, PyTorch's default for inference on the CPU and faster than its own loop.
    """

    name = "PyTorch"

    def __init__(self, weights):
        self.embedding = torch.from_numpy(weights.embedding)
        self.lstm = weights.into(torch.nn.LSTM(weights.hidden, weights.hidden))

    def prepare(self, words, lengths):
        return torch.from_numpy(words), torch.from_numpy(lengths - 1), torch.arange(len(lengths))

    @torch.inference_mode()
    def run(self, batch):
        words, last, rows = batch
        outputs, _ = self.lstm(torch.nn.functional.embedding(words, self.embedding))
        return outputs[last, rows].numpy()


def onnx_session(weights, sentences):
    """An ONNX Runtime session with one LSTM operator: over whole sentences of words, or for a step from a given state."""
    h = weights.hidden
    # ONNX orders gates i, o, f, g.
    reorder = lambda m: np.concatenate([m[:h], m[3 * h :], m[h : 2 * h], m[2 * h : 3 * h]])[None]
    constants = {"W": reorder(weights.ih), "R": reorder(weights.hh)}
    constants["B"] = np.concatenate([reorder(weights.bias), np.zeros((1, 4 * h), np.float32)], axis=1)
    value = helper.make_tensor_value_info
    state = ["directions", "batch", h]
    if sentences:
        constants["E"] = weights.embedding
        nodes = [
            helper.make_node("Gather", ["E", "words"], ["x"]),
            helper.make_node("LSTM", ["x", "W", "R", "B", "lengths"], ["", "Y_h"], hidden_size=h),
        ]
        inputs = [value("words", TensorProto.INT64, ["steps", "batch"]), value("lengths", TensorProto.INT32, ["batch"])]
        outputs = [value("Y_h", TensorProto.FLOAT, state)]
    else:
        nodes = [helper.make_node("LSTM", ["x", "W", "R", "B", "", "h", "c"], ["", "Y_h", "Y_c"], hidden_size=h)]
        inputs = [value("x", TensorProto.FLOAT, ["steps", "batch", h])]
        inputs += [value(name, TensorProto.FLOAT, state) for name in ("h", "c")]
        outputs = [value(name, TensorProto.FLOAT, state) for name in ("Y_h", "Y_c")]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "lstm", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


class OnnxSentences:
    """Embedding and LSTM in ONNX Runtime on a padded batch; `sequence_lens` gives the state behind each last word."""

    name = "ONNX Runtime"

    def __init__(self, weights):
        self.session = onnx_session(weights, sentences=True)

    def prepare(self, words, lengths):
        return {"words": words, "lengths": lengths.astype(np.int32)}

    def run(self, batch):
        return self.session.run(None, batch)[0][0]


def sentence_peers(hidden):
    """The peers that run padded sentences, shown to agree with each other."""
    weights = Weights(hidden)
    peers = [TorchSentences(weights), OnnxSentences(weights)]
    lengths = np.array([3, 7, 1, 7])
    words = np.random.default_rng(SEED).integers(VOCABULARY, size=(lengths.max(), len(lengths)))
    results = [peer.run(peer.prepare(words, lengths)) for peer in peers]
    for peer, result in zip(peers, results):
        np.testing.assert_allclose(result, results[0], atol=1e-5, err_msg=f"{peer.name} computes something else")
    return peers


def step_calls(hidden, batch):
    """A call for each way in which a peer computes one step of a batch: from (x, h, c) to (h, c)."""
    weights = Weights(hidden, vocabulary=1)
    draw = np.random.default_rng(SEED)
    x, h, c = (draw.standard_normal((1, batch, hidden), dtype=np.float32) for _ in range(3))
    tx, th, tc = map(torch.from_numpy, (x, h, c))
    cell, layer = weights.into(torch.nn.LSTMCell(hidden, hidden)), weights.into(torch.nn.LSTM(hidden, hidden))

    @torch.inference_mode()
    def torch_cell():
        return cell(tx[0], (th[0], tc[0]))

    @torch.inference_mode()
    def torch_layer():
        return layer(tx, (th, tc))[1]

    # Bound outputs are written in place, which spares ONNX Runtime an allocation for each call.
    session = onnx_session(weights, sentences=False)
    binding = session.io_binding()
    out = [np.empty_like(h), np.empty_like(c)]
    tensor = onnxruntime.OrtValue.ortvalue_from_numpy
    held = {name: tensor(array) for name, array in (("x", x), ("h", h), ("c", c), ("Y_h", out[0]), ("Y_c", out[1]))}
    for name in ("x", "h", "c"):
        binding.bind_ortvalue_input(name, held[name])
    for name in ("Y_h", "Y_c"):
        binding.bind_ortvalue_output(name, held[name])

    def onnx_bound():
        session.run_with_iobinding(binding)
        return held["Y_h"].numpy(), held["Y_c"].numpy()

    calls = {
        ("PyTorch", "nn.LSTMCell"): torch_cell,
        ("PyTorch", "nn.LSTM"): torch_layer,
        ("ONNX Runtime", "LSTM"): onnx_bound,
    }
    expected = [np.asarray(part).reshape(batch, hidden) for part in torch_cell()]
    for name, call in calls.items():
        for part, right in zip(call(), expected):
            found = np.asarray(part).reshape(batch, hidden)
            np.testing.assert_allclose(found, right, atol=1e-4, err_msg=f"{name} computes something else")
    # What the check copies out of ONNX Runtime is no part of a step.
    calls["ONNX Runtime", "LSTM"] = lambda: session.run_with_iobinding(binding)
    return calls
