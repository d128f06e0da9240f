"""A Python that imports what takes long once and forks for each program, which then runs as in a process of its own.

The program finds its own arguments, folder, environment and standard streams, and ends as any program does. Modules
that were imported before it, and what those read of the environment as they were loaded, are the server's: a test about
that, or about the start of a process, needs a process.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any


class ForkServer:
    """Starts with its first program; ends with `close`, and with the process that started it."""

    def __init__(self, python: str | Path, modules: Sequence[str], variables: Mapping[str, str]) -> None:
        self._command = [str(python), __file__, *modules]
        self._variables = dict(variables)
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None

    def run(
        self, path: str, text: str, folder: Path, variables: Mapping[str, str], timeout: float = 120
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `text`, which `path` holds or is said to hold. Of a program that takes too long nothing is left."""
        asked = {"path": path, "text": text, "folder": str(folder), "variables": dict(variables), "timeout": timeout}
        with tempfile.TemporaryFile() as request, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
            request.write(json.dumps(asked).encode())
            request.seek(0)
            try:
                status = self._answer(timeout, request, out, errors)
            except BaseException:
                self.close()
                raise
            printed, said = _whole(out), _whole(errors)
        if status == _TIMED_OUT:
            raise subprocess.TimeoutExpired(path, timeout, printed, said)
        return subprocess.CompletedProcess([path], int(status), printed, said)

    def _answer(self, timeout: float, *files: IO[bytes]) -> bytes:
        if self._connection is None:
            self._connection = self._start()
        self._connection.settimeout(timeout + _START_SECONDS)
        socket.send_fds(self._connection, [b"?"], [file.fileno() for file in files])
        status = self._connection.recv(100)
        if not status:
            raise RuntimeError(f"the fork server ended: {self._command}")
        return status

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                self._command, stdin=theirs, stdout=subprocess.DEVNULL, env=self._variables, start_new_session=True
            )
        return ours

    def close(self) -> None:
        """End it, and with it a program that still runs."""
        if self._connection is not None:
            # not only closed: a process forked meanwhile may hold it too, and the server would wait for that
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
            self._connection.close()
            self._connection = None
        if self._process is not None:
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(_END_SECONDS)
            self._process = None


_TIMED_OUT = b"timed out"
_START_SECONDS = 300
"""What importing its modules may take, beside other work."""
_END_SECONDS = 60


def _whole(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


# What follows runs in the server.


def _serve(connection: socket.socket) -> dict[str, Any]:
    """Fork for each request and answer with the exit status, until nobody can ask any more. Returns in the fork."""
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    while True:
        _, files, _, _ = socket.recv_fds(connection, 1, 3)
        if not files:
            sys.exit()
        with open(files[0], "rb") as stream:
            request: dict[str, Any] = json.load(stream)
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for end in (connection, woken, wakes):
                end.close()
            _become(request, files[1:])
            return request
        with contextlib.suppress(OSError):  # it did so itself, and ended
            os.setpgid(pid, pid)
        for file in files[1:]:
            os.close(file)
        connection.sendall(_status_of(pid, connection, woken, request["timeout"]))


def _status_of(pid: int, connection: socket.socket, woken: socket.socket, timeout: float) -> bytes:
    """Wait for a program; end it when its time is over or nobody waits for its status any more."""
    while True:
        ready, _, _ = select.select([connection, woken], [], [], timeout)
        if woken in ready:
            woken.recv(100)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return str(os.waitstatus_to_exitcode(status)).encode()
        else:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            if connection in ready:
                sys.exit()
            return _TIMED_OUT


def _become(request: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Be the process that the program expects."""
    os.setpgid(0, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, file in enumerate((nothing, *streams)):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["variables"])
    os.chdir(request["folder"])
    sys.argv[:] = [request["path"]]
    sys.path[0] = os.path.dirname(request["path"])


if __name__ == "__main__":
    for name in sys.argv[1:]:
        importlib.import_module(name)
    program = _serve(socket.socket(fileno=os.dup(0)))
    sys.modules["__main__"] = main = ModuleType("__main__")
    main.__file__ = program["path"]
    # Here and not below `_serve`, so that no function is around the program, and it ends as any does.
    exec(compile(program["text"], program["path"], "exec"), vars(main))
