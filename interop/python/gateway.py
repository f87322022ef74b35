"""Starts `ibeam up --sim` for a test and tells where it listens."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

START_LIMIT = 20.0


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Gateway:
    """One child process with its own empty home folder."""

    def __init__(self, **env: str) -> None:
        self.home = tempfile.mkdtemp(prefix="ibeam-interop-")
        self.port = free_port()
        self.log = open(os.path.join(self.home, "log"), "w+b")
        self.child = subprocess.Popen(
            [os.environ["IBEAM_BIN"], "up", "--sim"],
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
        self.log.seek(0)
        words = self.log.read().decode(errors="replace")
        raise RuntimeError(f"ibeam did not start (status {self.child.poll()}):\n{words}")

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
