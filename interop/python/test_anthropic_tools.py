"""Tools through the Anthropic SDK: by hand, by the stream helper and by its tool runners."""

import unittest

import anthropic
from case import SdkCase
from task import TOOLS
from test_anthropic import MODEL, ask, client_of, text_of

TOOL_PARAMS = [
    {"name": name, "description": description, "input_schema": schema} for name, description, schema in TOOLS
]


def runnable(task):
    """The tools as functions, the way the tool runner wants them."""

    @anthropic.beta_tool
    def read_file(path: str) -> str:
        """Reads a file"""
        return task.run("read_file", {"path": path})

    @anthropic.beta_tool
    def edit_file(path: str, old_string: str, new_string: str) -> str:
        """Replaces a text in a file"""
        return task.run("edit_file", {"path": path, "old_string": old_string, "new_string": new_string})

    @anthropic.beta_tool
    def write_file(path: str, content: str) -> str:
        """Writes a file"""
        return task.run("write_file", {"path": path, "content": content})

    return [read_file, edit_file, write_file]


class ToolsCase(SdkCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = client_of(cls.gateway)
        cls.messages = cls.client.messages

    def body(self, messages, **more):
        return {"model": MODEL, "max_tokens": 1000, "messages": messages, "tools": TOOL_PARAMS, **more}

    def whole(self, messages):
        return self.messages.create(**self.body(messages))

    def streamed(self, messages):
        with self.messages.stream(**self.body(messages)) as stream:
            return stream.get_final_message()

    def work(self, ask_model):
        with self.chain() as task:
            messages = ask(task.text)
            while (answer := ask_model(messages)).stop_reason == "tool_use":
                results = [
                    {"type": "tool_result", "tool_use_id": block.id, "content": task.run(block.name, block.input)}
                    for block in answer.content
                    if block.type == "tool_use"
                ]
                self.assertTrue(results)
                messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]
            self.assertEqual(answer.stop_reason, "end_turn")
            task.answer = text_of(answer)

    def runner(self, task, **more):
        return self.client.beta.messages.tool_runner(
            model=MODEL, max_tokens=1000, messages=ask(task.text), tools=runnable(task), **more
        )


class Tools(ToolsCase):
    def test_a_chain_of_whole_answers(self):
        self.work(self.whole)

    def test_a_chain_of_streams(self):
        self.work(self.streamed)

    def test_the_tool_runner(self):
        """client rule 22: it asks for a thread, is refused, and sends the whole history."""
        with self.chain() as task:
            task.answer = text_of(self.runner(task).until_done())

    def test_the_tool_runner_without_a_thread(self):
        with self.chain() as task:
            task.answer = text_of(self.runner(task, thread=False).until_done())

    def test_the_tool_runner_with_streams(self):
        with self.chain() as task:
            for stream in self.runner(task, stream=True):
                for _ in stream:
                    pass
                task.answer = text_of(stream.get_final_message())

    def test_a_thread_is_refused_in_so_many_words(self):
        """client rule 22."""
        thread = {"type": "create"}
        with self.nothing_upstream(), self.assertRaises(anthropic.BadRequestError) as caught:
            self.messages.create(**self.body(ask("hi")), extra_body={"thread": thread})
        error = caught.exception.body["error"]
        self.assertEqual(error["type"], "invalid_request_error")
        self.assertEqual(error["details"]["error_code"], "thread_unsupported_request")
        self.assertEqual(error["details"]["unsupported"], ["thread"])

    def test_a_result_that_is_an_error(self):
        messages = ask("read `a.txt`")
        first = self.whole(messages)
        (call,) = [block for block in first.content if block.type == "tool_use"]
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "no such file", "is_error": True}
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        self.assertIn("failed, so I stop here", text_of(self.whole(messages)))

    def test_tool_choice(self):
        none = self.messages.create(**self.body(ask("read `a.txt`"), tool_choice={"type": "none"}))
        self.assertEqual(none.stop_reason, "end_turn")
        for choice in ({"type": "any"}, {"type": "tool", "name": "read_file", "disable_parallel_tool_use": True}):
            with self.subTest(choice=choice):
                answer = self.messages.create(**self.body(ask("read `a.txt`"), tool_choice=choice))
                self.assertEqual(answer.stop_reason, "tool_use")

    def test_calls_in_parallel(self):
        question = "in parallel read `a.txt` and read `b.txt`"
        many = self.whole(ask(question))
        self.assertEqual(len([block for block in many.content if block.type == "tool_use"]), 2)
        one = self.messages.create(
            **self.body(ask(question), tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        )
        self.assertEqual(len([block for block in one.content if block.type == "tool_use"]), 1)


class NativeTools(ToolsCase):
    """The same with Cursor's own tools, which the gateway hands to the client's."""

    flags = ("--native-tools",)

    def chain(self):
        # Cursor edits by reading the file and writing it.
        return super().chain(("read_file", "read_file", "write_file", "write_file"))

    def test_a_chain_of_streams(self):
        self.work(self.streamed)

    def test_the_tool_runner(self):
        with self.chain() as task:
            task.answer = text_of(self.runner(task).until_done())


if __name__ == "__main__":
    unittest.main()
