"""What `llm` lets the model do in this test; it offers every function it finds here."""

import pathlib
import subprocess


def read_file(path: str) -> str:
    """Returns what a file holds."""
    return pathlib.Path(path).read_text()


def write_file(path: str, content: str) -> str:
    """Writes a file anew."""
    pathlib.Path(path).write_text(content)
    return f"{path} is written"


def str_replace(path: str, old_text: str, new_text: str) -> str:
    """Replaces a text in a file."""
    file = pathlib.Path(path)
    before = file.read_text()
    file.write_text(before.replace(old_text, new_text))
    return f"{before.count(old_text)} places changed in {path}"


def run_command(command: str) -> str:
    """Runs a command in a shell and returns what it prints."""
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout
