"""Ctrl-C while the command line is still being imported: the process ends with exit code 130, and without a stack.

Importing everything takes a second, in which an interrupt would be raised in the middle of other people's modules. The
package is imported before anything of `hopline.cli`, so this is its first import, and all that it does is to install a
handler where the process is the command `hopline` (or ``python -m hopline``). Once a command is under way,
`interrupt_as_usual` puts Python's own handler back. A program that imports Hopline keeps its handlers.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

INTERRUPTED = 130  # as a shell has it: 128 and the number of the signal


def end_at_once(*_: object) -> None:
    """End the process: nothing has begun that would have to be undone."""
    os._exit(INTERRUPTED)


def interrupt_as_usual() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def is_command_line(arguments: list[str], interpreter_arguments: list[str]) -> bool:
    """Return whether a process with these `sys.argv` and `sys.orig_argv` runs the command `hopline`."""
    program = os.path.basename(arguments[0]) if arguments else ""  # noqa: PTH119 - pathlib is not imported yet
    if program != "-m":  # which it is while Python imports the package of a module that it is to run
        return program in ("hopline", "hopline.exe")
    return ["-m", "hopline"] in [interpreter_arguments[at : at + 2] for at in range(len(interpreter_arguments))]


if (
    is_command_line(sys.argv, sys.orig_argv)
    and threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not ignored, as in a shell's background
):
    signal.signal(signal.SIGINT, end_at_once)
