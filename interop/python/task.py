"""A small piece of work with files, never twice the same: names, contents and wording are
drawn anew, and what the answer must quote is nowhere in the words of the task."""

import os
import random
import secrets
import string
import tempfile


def word(length: int = 8) -> str:
    return "".join(random.choices(string.ascii_lowercase, k=length))


class Task:
    """A folder, what is wanted in it, and the tools that a client may do it with."""

    def __init__(self) -> None:
        self.room = tempfile.TemporaryDirectory(prefix="ibeam-task-")
        self.notes, self.fresh = f"notes-{word()}.txt", f"fresh-{word()}.txt"
        old, new, self.secret, self.content = word(10), word(10), secrets.token_hex(9), word(24)
        before = f"first {word()}\nthe word is {old} here\nsecret {self.secret}\n"
        self.after = before.replace(old, new)
        self.write_file(self.notes, before)
        wishes = [
            random.choice([f"read `{self.notes}`", f"show me the file `{self.notes}`"]),
            random.choice([
                f"replace `{old}` with `{new}` in `{self.notes}`",
                f"change `{old}` to `{new}` in `{self.notes}`",
            ]),
            random.choice([
                f"write `{self.content}` to `{self.fresh}`",
                f"create the file `{self.fresh}` with `{self.content}`",
            ]),
        ]
        self.text = random.choice(["Please ", "", "In this folder: "]) + random.choice(
            [", then ", ". Then ", ", and then "]
        ).join(wishes)
        self.used = []

    def close(self) -> None:
        self.room.cleanup()

    def wrong(self) -> list[str]:
        """What is wrong with the files, if anything."""
        faults = []
        for name, wanted in {self.notes: self.after, self.fresh: self.content}.items():
            try:
                found = self._read(name)
            except OSError as error:
                found = repr(error)
            if found != wanted:
                faults.append(f"{name} holds {found!r}, not {wanted!r}")
        return faults

    # What the client does when the model asks for it.

    def read_file(self, path: str) -> str:
        return self._read(path)

    def edit_file(self, path: str, old_string: str, new_string: str) -> str:
        self.write_file(path, self._read(path).replace(old_string, new_string))
        return "edited"

    def write_file(self, path: str, content: str) -> str:
        with open(self._inside(path), "w", encoding="utf-8") as file:
            file.write(content)
        return "written"

    def run(self, name: str, arguments: dict) -> str:
        """One call of a tool, by its name."""
        self.used.append(name)
        return {"read_file": self.read_file, "edit_file": self.edit_file, "write_file": self.write_file}[name](
            **arguments
        )

    def _read(self, path: str) -> str:
        with open(self._inside(path), encoding="utf-8") as file:
            return file.read()

    def _inside(self, path: str) -> str:
        # Cursor's own tools ask for whole paths in the folder that the client works in.
        return os.path.join(self.room.name, os.path.basename(path))


def schema(*names: str) -> dict:
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
        "additionalProperties": False,
    }


# Name, what it does, its parameters.
TOOLS = [
    ("read_file", "Reads a file", schema("path")),
    ("edit_file", "Replaces a text in a file", schema("path", "old_string", "new_string")),
    ("write_file", "Writes a file", schema("path", "content")),
]
STEPS = [name for name, _, _ in TOOLS]
