"""A server of gunicorn with two workers of which one is killed; ends with status 3 when another has answered."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request


def app(environ, start):
    """Answer with the worker's process id, or die."""
    if environ["PATH_INFO"] == "/die":
        os.kill(os.getpid(), signal.SIGKILL)
    start("200 OK", [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]


def ask(url):
    """The answer; nothing where the server does not give one."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read()
    except OSError:
        return None


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen([sys.executable, "-m", "gunicorn", "-w", "2", "-b", place, "with_gunicorn:app"])
    while server.poll() is None and not ask(f"http://{place}/"):
        time.sleep(0.1)
    ask(f"http://{place}/die")
    time.sleep(1)
    print(ask(f"http://{place}/") is not None)
    server.terminate()
    server.wait()
    sys.exit(3)
