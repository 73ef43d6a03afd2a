"""Interrupts the code of a policy, which runs on another thread than the one that gets signals."""

import ctypes


def interrupt(ident: int) -> None:
    """Raises KeyboardInterrupt in a thread, at its next line of Python."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(KeyboardInterrupt))
