"""The entry point of the command `batchlab`."""

import signal
import sys

from . import _batchlab


def main() -> None:
    """Runs the program with the arguments of this process, and ends the process with its exit code."""
    # Python's handler would only set a flag that is not read while the program runs.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_batchlab.main(["batchlab", *sys.argv[1:]]))
