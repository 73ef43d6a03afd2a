#!/usr/bin/env python3
"""Writes scenarios/networks/*.csv from the layers of each network, as their papers define them.

    python3 scripts/networks/networks.py            writes the files
    python3 scripts/networks/networks.py --check    compares them with what it would write
    python3 scripts/networks/networks.py --totals   multiply-adds and weights of each, and of other input sizes
    python3 scripts/networks/networks.py unet 64    prints a network of images for another input size

A convolution is the product that im2col makes of it: a row for each pixel of the output, kernel * kernel * channels numbers in a
row, a column for each channel of the output. What it moves is its input and its output as they are, since no kernel writes the
im2col matrix down. Batch norms are folded into the weights; biases, activations, and the sum with a residual connection are fused into the
product before them, as TensorRT does, so that a residual costs one more read. The first convolution of a block and its shortcut stay two
products.
"""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "scenarios" / "networks"


class Net:
    """The operators of a network of images; `shape` is what the last one left: channels, height, width."""

    def __init__(self, shape):
        self.shape = shape
        self.rows = []
        self.macs = 0
        self.weights = 0

    def conv(self, name, out, kernel=3, stride=1, residual=False, source=None):
        """A convolution that pads its input to keep the size, but for the stride. `source` is an input that is not the last one's output."""
        channels, height, width = source or self.shape
        self.shape = (out, -(-height // stride), -(-width // stride))
        self.product(name, self.shape[1] * self.shape[2], channels * kernel * kernel, out,
                     channels * height * width + out * self.shape[1] * self.shape[2] * (2 if residual else 1))
        return self.shape

    def deconv(self, name, out, kernel, stride=2):
        """A transposed convolution, as one product for each pixel of its input; the overlapping sums are written once."""
        channels, height, width = self.shape
        self.shape = (out, height * stride, width * stride)
        self.product(name, height * width, channels, out * kernel * kernel,
                     channels * height * width + out * self.shape[1] * self.shape[2])

    def dense(self, name, out):
        channels, height, width = self.shape
        inner = channels * height * width
        self.shape = (out, 1, 1)
        self.product(name, 1, inner, out, inner + out)

    def product(self, name, rows, inner, columns, elements):
        self.rows.append((name, "matmul", "", rows, inner, columns, elements))
        self.macs += rows * inner * columns
        self.weights += inner * columns

    def move(self, name, shape):
        """An operator without products: reads the last output and writes `shape`."""
        channels, height, width = self.shape
        self.shape = shape
        self.rows.append((name, "memory", "", "", "", "", channels * height * width + shape[0] * shape[1] * shape[2]))

    def pool(self, name, stride=2):
        channels, height, width = self.shape
        self.move(name, (channels, -(-height // stride), -(-width // stride)))

    def csv(self):
        return "shape,fixed\n" + table(self.rows)


def table(rows):
    return "name,kind,count,rows,inner,columns,elements\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)


def vgg19(size=224):
    net = Net((3, size, size))
    for block, (layers, channels) in enumerate([(2, 64), (2, 128), (4, 256), (4, 512), (4, 512)], 1):
        for layer in range(1, layers + 1):
            net.conv(f"conv{block}_{layer}", channels)
        net.pool(f"pool{block}")
    for layer, out in enumerate([4096, 4096, 1000], 6):
        net.dense(f"fc{layer}", out)
    return net


def resnet152(size=224):
    net = Net((3, size, size))
    net.conv("conv1", 64, 7, 2)
    net.pool("pool1")
    for stage, (blocks, channels) in enumerate([(3, 64), (8, 128), (36, 256), (3, 512)], 2):
        for block in range(1, blocks + 1):
            stride = 2 if block == 1 and stage > 2 else 1
            name, before = f"conv{stage}_{block}", net.shape
            net.conv(f"{name}a", channels, 1)
            net.conv(f"{name}b", channels, 3, stride)  # the stride stands here, as in torchvision
            if block == 1:
                after = net.shape
                net.conv(f"{name}s", 4 * channels, 1, stride, source=before)
                net.shape = after
            net.conv(f"{name}c", 4 * channels, 1, residual=True)
    net.move("pool5", (net.shape[0], 1, 1))
    net.dense("fc", 1000)
    return net


def basic_encoder(net, blocks):
    """The first part of ResNet-18 and ResNet-34: the outputs of its stem and its four stages."""
    outputs = [net.conv("stem", 64, 7, 2)]
    net.pool("pool")
    for stage, (count, channels) in enumerate(zip(blocks, [64, 128, 256, 512]), 1):
        for block in range(1, count + 1):
            stride = 2 if block == 1 and stage > 1 else 1
            name, before = f"enc{stage}_{block}", net.shape
            net.conv(f"{name}a", channels, 3, stride)
            if stride == 2:
                after = net.shape
                net.conv(f"{name}s", channels, 1, stride, source=before)
                net.shape = after
            net.conv(f"{name}b", channels, residual=True)
        outputs.append(net.shape)
    return outputs


def unet(size=128, blocks=(3, 4, 6, 3), decoder=(256, 128, 64, 32, 16)):
    """U-Net with the encoder of ResNet-34: the decoder doubles its input, puts the encoder's output of that size beside it, and convolves twice."""
    net = Net((3, size, size))
    skips = basic_encoder(net, blocks)[:-1]
    for level, channels in enumerate(decoder, 1):
        below, height, width = net.shape
        beside = skips.pop()[0] if skips else 0
        # What is put beside is read with it, and both are written as one.
        net.rows.append((f"up{level}", "memory", "", "", "", "",
                         below * height * width + (beside + beside + below) * 4 * height * width))
        net.shape = (below + beside, 2 * height, 2 * width)
        net.conv(f"dec{level}a", channels)
        net.conv(f"dec{level}b", channels)
    net.conv("head", 1)
    return net


def classic_unet(size=256):
    """U-Net as Ronneberger et al. drew it, with padded convolutions; not shipped, for the comparison in the README."""
    net = Net((3, size, size))
    skips = []
    for level, channels in enumerate([64, 128, 256, 512, 1024], 1):
        if level > 1:
            skips.append(net.shape)
            net.pool(f"pool{level - 1}")
        net.conv(f"enc{level}a", channels)
        net.conv(f"enc{level}b", channels)
    for level, channels in enumerate([512, 256, 128, 64], 1):
        net.deconv(f"up{level}", channels, 2)
        net.shape = (net.shape[0] + skips.pop()[0], *net.shape[1:])
        net.conv(f"dec{level}a", channels)
        net.conv(f"dec{level}b", channels)
    net.conv("head", 2, 1)
    return net


def linknet(size=224):
    """LinkNet: the encoder of ResNet-18; each decoder shrinks the channels, doubles the size and adds the encoder's output of that size."""
    net = Net((3, size, size))
    skips = basic_encoder(net, (2, 2, 2, 2))
    for level in (4, 3, 2, 1):
        channels, height, width = net.shape
        out = skips[level - 1][0] if level > 1 else 64
        net.conv(f"dec{level}a", channels // 4, 1)
        if level > 1:
            net.deconv(f"dec{level}b", channels // 4, 3)
        else:
            net.conv(f"dec{level}b", channels // 4, 3)
        # The sum with the encoder's output is the residual of the last product; the first stage's decoder ends the way.
        net.conv(f"dec{level}c", out, 1, residual=level > 1)
    net.deconv("final1", 32, 3)
    net.conv("final2", 32)
    net.deconv("final3", 1, 2)
    return net


def bert(layers, width, heads, tokens=512):
    """The encoder of BERT: one product for query, key and value; additions and layer norms that follow a product are one kernel behind it."""
    each, wide = width // heads, 4 * width
    square, flat = f"{heads}*tokens*tokens", "tokens"
    rows = [("embed", "memory", "", "", "", "", f"{4 * width}*{flat}")]
    for layer in range(1, layers + 1):
        rows += [
            (f"qkv{layer}", "matmul", "", "tokens", width, 3 * width, f"{4 * width}*{flat}"),
            (f"scores{layer}", "batched-matmul", heads, "tokens", each, "tokens", f"{2 * width}*{flat} + {square}"),
            (f"softmax{layer}", "memory", "", "", "", "", f"2*{square}"),
            (f"mix{layer}", "batched-matmul", heads, "tokens", "tokens", each, f"{square} + {2 * width}*{flat}"),
            (f"out{layer}", "matmul", "", "tokens", width, width, f"{2 * width}*{flat}"),
            (f"norm_attention{layer}", "memory", "", "", "", "", f"{3 * width}*{flat}"),
            (f"wide{layer}", "matmul", "", "tokens", width, wide, f"{width + wide}*{flat}"),
            (f"narrow{layer}", "matmul", "", "tokens", wide, width, f"{width + wide}*{flat}"),
            (f"norm_output{layer}", "memory", "", "", "", "", f"{3 * width}*{flat}"),
        ]
    rows += [("pooler", "matmul", "", 1, width, width, 2 * width), ("classifier", "matmul", "", 1, width, 2, width + 2)]
    return f"shape,tokens,{tokens}\n" + table(rows)


NETWORKS = {
    "bert-base": ("BERT base (Devlin et al., 2019): 12 layers, 768 wide, 12 heads.", lambda: bert(12, 768, 12)),
    "bert-large": ("BERT large (Devlin et al., 2019): 24 layers, 1024 wide, 16 heads.", lambda: bert(24, 1024, 16)),
    "unet": ("U-Net (Ronneberger et al., 2015) with ResNet-34's encoder, input 3 x 128 x 128.", lambda: unet().csv()),
    "linknet": ("LinkNet (Chaurasia and Culurciello, 2017), input 3 x 224 x 224.", lambda: linknet().csv()),
    "vgg19": ("VGG19 (Simonyan and Zisserman, 2015), input 3 x 224 x 224.", lambda: vgg19().csv()),
    "resnet152": ("ResNet-152 (He et al., 2016), input 3 x 224 x 224.", lambda: resnet152().csv()),
}


def totals():
    nets = {"vgg19": vgg19(), "resnet152": resnet152()}
    for size in (64, 128, 224, 256):
        nets |= {f"unet {size}": unet(size), f"linknet {size}": linknet(size), f"classic unet {size}": classic_unet(size)}
    for name, net in nets.items():
        print(f"{name:<18}{net.macs / 1e9:8.3f} G multiply-adds{net.weights / 1e6:9.3f} M weights, biases apart")


def main():
    if "--totals" in sys.argv:
        return totals()
    images = {"unet": unet, "classic_unet": classic_unet, "linknet": linknet, "vgg19": vgg19, "resnet152": resnet152}
    if len(sys.argv) == 3 and sys.argv[1] in images:
        return print(images[sys.argv[1]](int(sys.argv[2])).csv(), end="")
    differing = 0
    for name, (about, make) in NETWORKS.items():
        text = f"# {about}\n# Written by scripts/networks/networks.py; README.md says what is fused.\n{make()}"
        file = FOLDER / f"{name}.csv"
        if "--check" not in sys.argv:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            print(f"{file} is not what the layers give")
            differing += 1
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
