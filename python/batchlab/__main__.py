"""`python -m batchlab` is the command `batchlab`."""

from ._command import main

if __name__ == "__main__":
    main()
