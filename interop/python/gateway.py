"""Starts `ibeam up --sim` for a test, tells where it listens and what it opened upstream."""

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

START_LIMIT = 20.0
LOG_LIMIT = 10.0
OPENED = "opening an upstream stream"


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gateway:
    """One child process with its own empty home folder."""

    def __init__(self, *flags: str, scenario: str | None = None, **env: str) -> None:
        self.home = tempfile.mkdtemp(prefix="ibeam-interop-")
        self.port = free_port()
        self.marks = itertools.count()
        self.log = open(os.path.join(self.home, "log"), "w+b")
        self.child = subprocess.Popen(
            [
                os.environ["IBEAM_BIN"], "up", "--sim",
                "--scenario", scenario or os.environ["IBEAM_SCENARIO"],
                "--log-level", "debug", *flags,
            ],
            cwd=self.home,
            env={"PATH": os.environ["PATH"], "HOME": self.home, "PORT": str(self.port), **env},
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def words(self) -> str:
        """All that it logged so far."""
        with open(self.log.name, encoding="utf-8", errors="replace") as log:
            return log.read()

    def opened(self) -> int:
        """How many upstream streams it opened so far.

        Lines are written by a thread of their own, in order: when the line of a request
        that was made now is there, so are all before it."""
        mark = f"mark-{next(self.marks)}"
        request = urllib.request.Request(f"{self.url}/health", headers={"x-request-id": mark})
        urllib.request.urlopen(request, timeout=5).close()
        deadline = time.monotonic() + LOG_LIMIT
        while f"request_id={mark} " not in (words := self.words()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{mark} is not in the log:\n{words[-2000:]}")
            time.sleep(0.02)
        return words.count(OPENED)

    def _wait(self) -> None:
        deadline = time.monotonic() + START_LIMIT
        while time.monotonic() < deadline:
            if self.child.poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=1) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"ibeam did not start (status {self.child.poll()}):\n{self.words()}")

    def stop(self) -> None:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)
