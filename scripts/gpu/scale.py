"""How large everything is that is measured."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Scale:
    # Answers: sizes of the networks, requests of a run, number formats.
    verified_hidden: int
    verified_vocabulary: int
    verified_requests: int
    precisions: tuple
    # Steps: the width, batch sizes, how often each has its turn, and the batches and lengths of the two shares.
    hidden: int
    vocabulary: int
    batches: tuple
    step_precisions: tuple
    repeats: int
    full_batch: int
    small_batch: int
    length: int
    full_rounds: int
    # Workloads: requests of a run, and those of a run at half load.
    requests: int
    # Listed networks: which of scenarios/networks, requests of a run, the largest batch, the most tokens.
    networks: tuple
    network_requests: int
    network_batch: int
    network_tokens: int
    # Persistent kernels: cells, widths and batches, the steps of a sequence, of which of them how many mappings are drawn, and the layers of
    # Figure 15 with steps of their own.
    persistent: tuple
    sequence: int
    sampled: tuple
    layers: tuple
    # Fused steps: batch sizes. Three ways: requests of a run.
    fused_batches: tuple
    three_requests: int
    # Validation: which of scenarios/validate/gpu, the minutes for each format (what is left of the part, if none), and settings in place of the
    # scenarios'.
    validated: tuple
    validation_minutes: float = 0
    settings: tuple = field(default=())
    # How long a call may take before it is given up, and whether times at these sizes tell anything.
    patience: int = 500
    times_count: bool = True

    @property
    def sizes(self):
        """The sizes of the networks that are measured, as settings of a scenario."""
        return (f"workload.hidden={self.hidden}", f"workload.vocabulary={self.vocabulary}")


FULL = Scale(
    verified_hidden=256, verified_vocabulary=2000, verified_requests=400, precisions=("f32", "tf32", "bf16", "f16"),
    hidden=1024, vocabulary=30000, batches=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512),
    step_precisions=("f32", "tf32", "bf16", "f16"), repeats=5, full_batch=512, small_batch=64, length=24, full_rounds=40,
    networks=("example", "bert-base", "bert-large", "unet", "linknet", "vgg19", "resnet152"), network_requests=256,
    network_batch=16, network_tokens=128,
    # Table 1's sizes, and batch 5 of section 8.2.
    persistent=tuple((cell, hidden, batch) for cell in ("lstm", "gru") for hidden in (64, 256, 1024) for batch in (1, 10, 20))
    + tuple(("lstm", hidden, 5) for hidden in (64, 256, 1024)),
    sequence=100, sampled=((("lstm", 256, 20), 200), (("gru", 256, 10), 60), (("lstm", 64, 10), 60)),
    layers=tuple(("lstm", hidden, batch, steps) for hidden, steps in ((256, 20), (128, 100)) for batch in (1, 4, 8, 12, 16, 20)),
    requests=40000, fused_batches=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512), three_requests=40000, validated=("chains", "seq2seq", "trees", "three-ways", "bert"),
    validation_minutes=4,
)
DEFAULT = Scale(
    verified_hidden=128, verified_vocabulary=500, verified_requests=100, precisions=("f32", "bf16"),
    hidden=1024, vocabulary=30000, batches=(1, 16, 64, 256, 512), step_precisions=("f32", "bf16"), repeats=2,
    full_batch=512, small_batch=64, length=24, full_rounds=20, networks=("example", "bert-base", "linknet"),
    network_requests=48, network_batch=8, network_tokens=64,
    persistent=(("lstm", 64, 20), ("lstm", 256, 20), ("lstm", 1024, 1), ("gru", 256, 10)), sequence=100,
    sampled=((("lstm", 256, 20), 10),), layers=(), requests=8000,
    fused_batches=(1, 8, 16, 32, 64, 128), three_requests=20000, validated=("chains", "trees"), patience=120,
)
TINY = Scale(
    verified_hidden=8, verified_vocabulary=11, verified_requests=12, precisions=("f32", "bf16"),
    hidden=8, vocabulary=11, batches=(1, 2, 4), step_precisions=("f32", "bf16"), repeats=1, full_batch=4, small_batch=2,
    length=5, full_rounds=2, networks=("example",), network_requests=12, network_batch=2, network_tokens=16,
    persistent=(("lstm", 12, 2), ("gru", 12, 3)), sequence=5, sampled=((("lstm", 12, 2), 2),),
    layers=(("lstm", 12, 2, 4),), requests=160, fused_batches=(1, 2), three_requests=160, validated=("chains",), validation_minutes=0.1,
    settings=("workload.hidden=8", "workload.vocabulary=11", "workload.max_length=3"),
    times_count=False,
)
