"""Progress of long calls, in a terminal and in a notebook."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable


def reporter(name: str) -> Callable[[int, int], None] | None:
    """What shows progress, or None where it would not be seen: standard error is no terminal, and there is no notebook."""
    if _in_notebook():
        return _Notebook(name)
    if sys.stderr is not None and sys.stderr.isatty():
        return _Terminal(name)
    return None


def finish(report: Callable[[int, int], None] | None) -> None:
    """Removes what a reporter has shown."""
    if report is not None:
        report.finish()  # type: ignore[attr-defined]


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

    def finish(self) -> None:
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

    def finish(self) -> None:
        if self.handle is not None:
            self.handle.update({"text/plain": ""}, raw=True)
