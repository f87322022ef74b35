"""What the tests of all SDKs have in common."""

import contextlib
import unittest

import pydantic
from gateway import Gateway
from task import STEPS, Task

# One red pixel.
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
# How the simulator answers `interop/sdks.toml`'s "count in words".
NUMBERS = "one two three four five six seven eight nine ten eleven twelve"


class Person(pydantic.BaseModel):
    """What "describe a person" is answered with."""

    name: str
    age: int


class SdkCase(unittest.TestCase):
    """A gateway for all tests of a class."""

    flags: tuple[str, ...] = ()
    scenario: str | None = None

    @classmethod
    def setUpClass(cls):
        cls.gateway = Gateway(*cls.flags, scenario=cls.scenario)
        cls.addClassCleanup(cls.gateway.stop)

    @contextlib.contextmanager
    def chain(self, steps=STEPS):
        """A task whose tool calls must all happen, in one upstream run. Yields the task; the
        caller puts the model's last words into `task.answer`."""
        task = Task()
        self.addCleanup(task.close)
        before = self.gateway.opened()
        yield task
        self.assertEqual(task.wrong(), [], task.text)
        self.assertEqual(task.used, list(steps), task.text)
        self.assertIn(task.secret, task.answer, "the answer does not know what only the file could tell")
        self.assertEqual(self.gateway.opened() - before, 1, "upstream runs of one tool chain")

    @contextlib.contextmanager
    def nothing_upstream(self):
        """What happens in here must be answered without asking the model."""
        before = self.gateway.opened()
        yield
        self.assertEqual(self.gateway.opened() - before, 0, "upstream runs of a request that was refused")
