"""Runs the same commands with two builds of batchlab, and compares all that they print and write. same-results.sh says how to call it."""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import commands

ROOT = commands.ROOT
INPUTS = ["scenarios", "traces", "results/reference", "tests/data", "examples"]  # what commands read, linked into the folder they run in
TEXT = {".csv", ".json", ".html", ".txt", ".svg", ".md", ".toml", ""}


class Side:
    """One of the two programs, with a folder in which its commands run and leave everything."""

    def __init__(self, program, folder, quick):
        self.program, self.folder, self.quick, self.names = program, folder, quick, set()

    def run(self, *args, how="same"):
        """Runs a command. how: `same` (all of its output counts), `wording` (the exit code alone does, stderr is reported) or `shape` (real time)."""
        args = [str(a) for a in args]
        slug = re.sub(r"[^A-Za-z0-9.=:-]+", "_", " ".join(args))[:100] or "nothing"
        name = slug if slug not in self.names else f"{slug}-{hashlib.sha256(' '.join(args).encode()).hexdigest()[:8]}"
        self.names.add(name)
        env = {k: v for k, v in os.environ.items() if not k.startswith("BATCHLAB")}
        got = subprocess.run([self.program, *args], cwd=self.folder, env=env, capture_output=True, stdin=subprocess.DEVNULL)
        report = self.folder / "runs" / how / name
        errors = b"".join(line for line in got.stderr.splitlines(True) if not line.startswith(b"scheduler: "))
        if how == "shape":
            errors = b"".join(line for line in errors.splitlines(True) if line.startswith(b"verified: "))
        header = f"$ batchlab {' '.join(args)}\nexit code {got.returncode}\n".encode()
        if how == "wording":
            (self.folder / "runs" / "stderr" / name).write_bytes(errors + (got.stdout if got.returncode == 0 else b""))
            report.write_bytes(header + (got.stdout if got.returncode else b""))
        elif how == "shape":
            report.write_bytes(header + errors)
        else:
            report.write_bytes(header + b"-- stderr\n" + errors + b"-- stdout\n" + got.stdout)
        return got.returncode

    def both(self, *args, **kwargs):
        self.run(*args, **kwargs)
        self.run(*args, *commands.JSON, **kwargs)

    def points(self, pattern):
        """The folders of points, the first of each policy."""
        policies = {}
        for file in sorted(self.folder.glob(f"{pattern}/point.json")):
            policies.setdefault(file.parent.parent, file.parent.relative_to(self.folder))
        return list(policies.values())

    def run_all(self):
        for part in commands.PARTS:
            start = time.monotonic()
            part(self)
            print(f"  {part.__name__}: {time.monotonic() - start:.0f} s", flush=True)


def fingerprint(program):
    """What OLD's results depend on: the program, these commands and the files that they read."""
    digest = hashlib.sha256(Path(program).read_bytes())
    files = [Path(__file__), Path(commands.__file__)] + sorted(f for folder in INPUTS for f in (ROOT / folder).rglob("*") if f.is_file())
    for file in files:
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def make(which, program, out, quick, cached):
    """The folder of one side's results, made anew or, with `cached`, taken over."""
    folder = out / f"{which}-{'quick' if quick else 'full'}"
    mark, done = folder / "fingerprint", fingerprint(program)
    if cached and mark.is_file() and mark.read_text() == done:
        print(f"{which}: taken from {folder}")
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("in", "out", "results", "tests", "runs/same", "runs/wording", "runs/stderr", "runs/shape"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in INPUTS:
        (folder / name).symlink_to(ROOT / name)
    for name, text in commands.SAMPLES.items():
        (folder / "in" / name).write_text(text)
    print(f"{which}: {program}", flush=True)
    Side(program, folder, quick).run_all()
    mark.write_text(done)
    return folder


def contents(folder):
    """All files but what hosts differ in, as functions that read them with the commit and the version taken out."""
    run = json.loads(next(iter(sorted(folder.glob("out/sim/*/run.json")))).read_text())
    commit, version = (str(run.get(key) or "").encode() for key in ("git_commit", "version"))

    def read(file):
        data = file.read_bytes()
        if file.suffix in TEXT or "runs" in file.parts:
            data = data.replace(commit, b"COMMIT") if commit else data
            data = data.replace(b'"version": "' + version + b'"', b'"version": "VERSION"').replace(b"batchlab " + version, b"batchlab VERSION")
        return data

    files = {}
    for top in ("out", "real", "runs"):
        files |= {str(f.relative_to(folder)): f for f in (folder / top).rglob("*") if f.is_file() and f.name != "host.json"}
    return files, read


def first_difference(a, b):
    if b"\0" in a[:1000] or b"\0" in b[:1000]:
        return f"    binary, {len(a)} and {len(b)} bytes"
    a, b = (data.decode(errors="replace").splitlines() for data in (a, b))
    n = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    command = f"    {a[0][:200]}\n" if a and a[0].startswith("$ ") and n > 0 else ""
    return command + "\n".join(f"    {who} line {n + 1}: {lines[n][:200] if n < len(lines) else '(ends)'}" for who, lines in (("old", a), ("new", b)))


def compare(old, new):
    """Prints what differs. Returns the number of files that count and that differ."""
    (old, read_old), (new, read_new) = contents(old), contents(new)
    counts, wording = [], []
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            counts.append((name, f"    only {'old' if name in old else 'new'} has it"))
        elif (a := read_old(old[name])) != (b := read_new(new[name])):
            (wording if name.startswith("runs/stderr/") else counts).append((name, first_difference(a, b)))
    if wording:
        print(f"\nwording of messages and helps that differs ({len(wording)}; this counts for nothing):")
        print("\n".join(f"  {name.removeprefix('runs/stderr/')}\n{text}" for name, text in wording))
    if counts:
        print(f"\nDIFFERENT: {len(counts)} of {len(old.keys() | new.keys())} files")
        print("\n".join(f"  {name}" + (f"\n{text}" if i < 50 else "") for i, (name, text) in enumerate(counts)))
    else:
        print(f"\nSAME: {len(old)} files")
    return len(counts)


def main():
    parser = argparse.ArgumentParser(prog="same-results.sh", description="Shows that two builds of batchlab come to the same results.")
    parser.add_argument("old", type=lambda p: Path(p).resolve(), metavar="OLD")
    parser.add_argument("new", type=lambda p: Path(p).resolve(), metavar="NEW")
    parser.add_argument("--quick", action="store_true", help="fewer requests and figures")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for both sides' results [default: a temporary one]")
    parser.add_argument("--keep", action="store_true", help="keep the results, and take OLD's from --out if nothing changed")
    args = parser.parse_args()
    for program in (args.old, args.new):
        if not os.access(program, os.X_OK) or not program.is_file():
            parser.error(f"{program} is no program")
    temporary = args.out is None
    out = Path(tempfile.mkdtemp(prefix="same-results-")) if temporary else args.out.resolve()
    sides = []
    try:
        sides.append(make("old", args.old, out, args.quick, args.keep))
        sides.append(make("new", args.new, out, args.quick, False))
        differing = compare(*sides)
    finally:
        if args.keep:
            print(f"results in {out}")
        else:
            for folder in [out] if temporary else [out / f"{w}-{'quick' if args.quick else 'full'}" for w in ("old", "new")]:
                shutil.rmtree(folder, ignore_errors=True)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
