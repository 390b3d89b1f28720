"""What a pod does: it starts its rank, passes signals on, and keeps what the rank says in the run's folder too."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import IO

LAST_WORDS = 5.0  # seconds for which output is read of a rank that has ended, whose own processes may still live


def attend(command: Sequence[str], log: Path) -> int:
    """Run a command to its end; return its exit code, -N where signal N ended it.

    What it says goes to the standard output of this process, which `kubectl logs` shows, and to `log`. SIGTERM and
    SIGUSR1 are passed on. Raises OSError: the log cannot be written.
    """
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if process is None:
            early.append(number)
        elif process.poll() is None:
            process.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGUSR1, pass_on)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for number in early:
        process.send_signal(number)
    assert process.stdout is not None
    reader = threading.Thread(target=_copy, args=(process.stdout, descriptor), daemon=True)
    reader.start()
    code = process.wait()
    reader.join(LAST_WORDS)
    return code


def _copy(source: IO[bytes], descriptor: int) -> None:
    """Append all that comes from a pipe to an open file and to standard output."""
    with open(descriptor, "wb", buffering=0) as file:
        while chunk := os.read(source.fileno(), 1 << 16):
            file.write(chunk)
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
