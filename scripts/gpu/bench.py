"""What the parts share: calls of the program, verdicts, and the files that are left."""

import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import time

from read import floors_of, host_of, rows_of

# The verdicts of all parts, one after the other.
SUMMARY = "summary.txt"
# The times of persistent kernels, which several parts add to.
MEASURED = "measured.csv"
# Logs of requests and tasks that are larger stay behind: tables and pictures tell what came of them.
LARGEST_LOG = 1 << 20


class Skip(Exception):
    """An item that can't be had here, with the reason."""


class Call:
    """A call of a program that has ended."""

    def __init__(self, code, stdout, stderr, seconds):
        self.code, self.stdout, self.stderr, self.seconds = code, stdout, stderr, seconds

    def last_words(self):
        # Of a wrong command line the first line says what is wrong, of all else the last.
        wrong = [line for line in self.stderr.splitlines() if line.startswith("error: ")]
        return wrong[0] if wrong else last_line(self.stderr or self.stdout)


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


class Bench:
    """A part that is under way."""

    def __init__(self, program, tests, out, name, scale, deadline):
        self.program, self.name, self.scale, self.deadline = program.resolve(), name, scale, deadline
        self.tests = tests and tests.resolve()
        self.out = out.resolve()
        self.folder = self.out / name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.rows = []
        self.calls = 0
        self.begun = time.monotonic()

    def left(self):
        return float("inf") if self.deadline is None else self.deadline - time.monotonic()

    def call(self, *words, program=None, environment=None):
        """Calls the program (or another, with more in its environment), keeps what it says in a log, and gives up when the
        part's time is over."""
        left = self.left()
        if left < 5:
            raise Skip("no time is left in this part")
        command = [str(program or self.program), *map(str, words)]
        begin = time.monotonic()
        try:
            patience, surroundings = min(self.scale.patience, left), os.environ | (environment or {})
            ran = subprocess.run(command, capture_output=True, text=True, timeout=patience, env=surroundings)
            call = Call(ran.returncode, ran.stdout, ran.stderr, time.monotonic() - begin)
        except subprocess.TimeoutExpired as error:
            text = lambda output: output.decode(errors="replace") if isinstance(output, bytes) else output or ""
            call = Call(124, text(error.stdout), text(error.stderr) + "\ngiven up: it took too long", time.monotonic() - begin)
        self.calls += 1
        log = self.folder / "logs" / f"{self.calls:03}.txt"
        log.parent.mkdir(exist_ok=True)
        log.write_text(
            f"$ {' '.join(command)}\n{call.stdout}{call.stderr}\nexit code {call.code} after {call.seconds:.1f} s\n"
        )
        return call

    def needed(self, *words, program=None):
        """The same, for calls without which an item can't be judged."""
        call = self.call(*words, program=program)
        if call.code == 124:
            raise Skip(f"took longer than {call.seconds:.0f} s")
        if call.code != 0:
            raise AssertionError(call.last_words())
        return call

    def floors(self):
        """The floors of this GPU by format; measured once in a part."""
        path = self.folder / "floors.csv"
        if not path.is_file():
            self.needed("profile", "--backend", "cuda", "--floors", "-o", path)
        return floors_of(path)

    def real(self, scenario, label, *sets, verify="none", more=()):
        """Runs a scenario on the GPU and gives the rows of its summary, and the call."""
        out = self.folder / "runs" / label
        settings = [word for setting in sets for word in ("--set", setting)]
        call = self.needed("real", scenario, "--backend", "cuda", "--verify", verify, "--out", out, *settings, *more)
        (summary,) = out.glob("*/summary.csv")
        return rows_of(summary), call

    def host(self, label):
        """What the host of such runs did, and what was verified of them."""
        (path,) = (self.folder / "runs" / label).glob("*/host.json")
        return host_of(path.parent)

    def say(self, verdict, item, figures):
        line = f"{verdict} {item}: {figures}"
        self.rows.append((verdict, item, figures))
        print(line, flush=True)

    def item(self, item, judge, of_times=True):
        """Judges an item: `judge` gives whether it passes, and the figures; it may raise `Skip`, or fail in its own words. An
        item of times gets no verdict at sizes that tell nothing of them."""
        try:
            passed, figures = judge()
            if of_times and not self.scale.times_count:
                self.say("SKIP", item, f"no verdict at this size: {figures}")
            else:
                self.say("PASS" if passed else "FAIL", item, figures)
        except Skip as skip:
            self.say("SKIP", item, skip)
        except (AssertionError, ArithmeticError, LookupError, OSError, ValueError) as error:
            self.say("FAIL", item, f"{type(error).__name__}: {error}" if not isinstance(error, AssertionError) else error)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def close(self):
        """Writes the summary and the archive, says how long the part took, and gives the number of items that failed."""
        print(f"{self.name} took {time.monotonic() - self.begun:.0f} s", flush=True)
        summary = "".join(f"{verdict} {item}: {figures}\n" for verdict, item, figures in self.rows)
        with open(self.out / SUMMARY, "a") as file:
            file.write(f"{self.name}\n{summary}\n")
        keys = ("verdict", "item", "figures")
        self.write("summary.json", json.dumps([dict(zip(keys, map(str, row))) for row in self.rows], indent=1) + "\n")
        for log in self.folder.rglob("*.csv"):
            if log.stat().st_size > LARGEST_LOG:
                log.unlink()
        with tarfile.open(self.out / f"{self.name}.tar.gz", "w:gz") as archive:
            archive.add(self.folder, arcname=self.name)
        # What is in the archive need not lie beside it.
        shutil.rmtree(self.folder)
        return sum(verdict == "FAIL" for verdict, _, _ in self.rows)


def table(heading, rows):
    """Aligned columns."""
    lines = [list(map(str, line)) for line in (heading, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heading))]
    return "".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)) + "\n" for line in lines)
