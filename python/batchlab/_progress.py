"""Progress of long calls, in a terminal and in a notebook."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def show(name: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar that is there for the body of `with`, which reports to it how many of all steps are done. It is None where
    it would not be seen: without a notebook and without a terminal.
    """
    bar = _bar(name)
    try:
        yield bar
    finally:
        if bar is not None:
            bar.remove()


def _bar(name: str) -> _Terminal | _Notebook | None:
    if _in_notebook():
        return _Notebook(name)
    if sys.stderr is not None and sys.stderr.isatty():
        return _Terminal(name)
    return None


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})


def _line(name: str, done: int, all: int, since: float) -> str:
    filled = 30 * done // max(all, 1)
    left = ""
    if done:
        seconds = (time.monotonic() - since) * (all - done) / done
        left = f", {seconds:.0f} s left"
    return f"{name} [{'=' * filled}{' ' * (30 - filled)}] {done}/{all}{left}"


# Calls shorter than this show nothing.
PATIENCE = 0.5


class _Terminal:
    def __init__(self, name: str) -> None:
        self.name, self.since, self.shown = name, time.monotonic(), False

    def __call__(self, done: int, all: int) -> None:
        if time.monotonic() - self.since > PATIENCE:
            self.shown = True
            sys.stderr.write("\r" + _line(self.name, done, all, self.since) + "\x1b[K")
            sys.stderr.flush()

    def remove(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


class _Notebook:
    def __init__(self, name: str) -> None:
        self.name, self.since = name, time.monotonic()
        self.handle: Any = None

    def __call__(self, done: int, all: int) -> None:
        if time.monotonic() - self.since <= PATIENCE:
            return
        from IPython.display import display

        text = {"text/plain": _line(self.name, done, all, self.since)}
        if self.handle is None:
            self.handle = display(text, raw=True, display_id=True)
        else:
            self.handle.update(text, raw=True)

    def remove(self) -> None:
        if self.handle is not None:
            self.handle.update({"text/plain": ""}, raw=True)
