"""What the host takes for a task where requests join and leave."""

from bench import Skip, table
from read import host_times, peaks

# What is asked for of cellular batching: microseconds of the host for a task of 512 rows.
TASK_US = 5.0


def judged(bench, precision):
    """Sentences all at once: each task of cellular batching has some 20 rows that are new."""
    label = f"host-{precision}"
    rows, _ = bench.real(
        "scenarios/validate/gpu/chains.toml", label, "arrivals={ process = 'offline' }", f"workload.requests={bench.scale.requests}",
        f"device.precision={precision}", "metrics.warmup=none", "output.plots=[]", *bench.scale.settings,
    )
    times = host_times(bench.host(label))
    if not times:
        raise Skip("no run had a task")
    lines = [(each.policy, f"{each.task_us:.2f}", f"{each.decision_us:.2f}") for each in times]
    bench.write(f"host-{precision}.txt", table(("policy", "us a task", "us a decision"), lines))
    cellular = [each.task_us for each in times if each.policy.startswith("cellular")]
    host = ", ".join(f"{each.policy} {each.task_us:.2f}" for each in times)
    served = ", ".join(f"{policy} {peak:.0f}" for policy, peak in peaks(rows).items())
    return bool(cellular) and max(cellular) <= TASK_US, f"us of the host a task: {host} (asked for: {TASK_US:.0f}); requests/s: {served}"


def run(bench):
    for precision in bench.scale.step_precisions[:2]:
        bench.item(f"the host's time for a task in {precision}", lambda: judged(bench, precision))
