"""What the Responses API remembers, its tools, and its WebSocket."""

import json
import unittest

import openai
import pydantic
from openai.lib.responses_tool_runner import RegisteredFunction, ResponsesToolRunner
from openai.types.responses import ResponseStreamEvent
from task import TOOLS
from test_openai import MODEL, client_of
from test_openai_responses import ResponsesCase


def function(name, description, parameters):
    return {"type": "function", "name": name, "description": description, "parameters": parameters, "strict": True}


FUNCTIONS = [function(*tool) for tool in TOOLS]


def calls(response):
    return [item for item in response.output if item.type == "function_call"]


class Tools(ResponsesCase):
    def runner(self, task):
        tools = [
            RegisteredFunction(tool, lambda arguments, name=tool["name"]: task.run(name, arguments))
            for tool in FUNCTIONS
        ]
        return ResponsesToolRunner(functions=tools)

    def test_the_tool_runner(self):
        for stream in (False, True):
            with self.subTest(stream=stream), self.chain() as task:
                params = {"model": MODEL, "input": task.text}
                task.answer = self.runner(task).run(self.client, params, stream=stream).output_text

    def test_a_chain_by_previous_response_id(self):
        """Each request brings nothing but the results."""
        with self.chain() as task:
            answer = self.create(task.text, tools=FUNCTIONS)
            while wanted := calls(answer):
                results = [
                    {"type": "function_call_output", "call_id": call.call_id,
                     "output": task.run(call.name, json.loads(call.arguments))}
                    for call in wanted
                ]
                answer = self.create(results, previous_response_id=answer.id, tools=FUNCTIONS)
            task.answer = answer.output_text

    def test_a_chain_by_the_stream_helper(self):
        with self.chain() as task:
            history = [{"role": "user", "content": task.text}]
            while True:
                with self.responses.stream(
                    model=MODEL, input=history, tools=FUNCTIONS, store=False,
                    include=["reasoning.encrypted_content"],
                ) as stream:
                    answer = stream.get_final_response()
                if not calls(answer):
                    break
                history += answer.output
                for call in calls(answer):
                    result = task.run(call.name, json.loads(call.arguments))
                    history.append({"type": "function_call_output", "call_id": call.call_id, "output": result})
            task.answer = answer.output_text

    def test_a_freeform_tool(self):
        """A tool without a schema: its input is text, as `apply_patch` has it."""
        tool = {"type": "custom", "name": "shell", "description": "Runs a command"}
        before = self.gateway.opened()
        with self.responses.stream(model=MODEL, input="run `echo hi`", tools=[tool]) as stream:
            first = stream.get_final_response()
        (call,) = [item for item in first.output if item.type == "custom_tool_call"]
        self.assertEqual((call.name, call.input), ("shell", "echo hi"))
        result = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "hi-from-the-tool"}
        second = self.create([result], previous_response_id=first.id, tools=[tool])
        self.assertIn("hi-from-the-tool", second.output_text)
        self.assertEqual(self.gateway.opened() - before, 1)

    def test_tools_are_kept_from_the_model(self):
        answer = self.create("read `a.txt`", tools=FUNCTIONS, tool_choice="none")
        self.assertEqual(calls(answer), [])
        self.assertEqual([tool.name for tool in answer.tools], [tool["name"] for tool in FUNCTIONS])


class NativeTools(ResponsesCase):
    flags = ("--native-tools",)

    def test_the_tool_runner(self):
        # Cursor edits by reading the file and writing it.
        with self.chain(("read_file", "read_file", "write_file", "write_file")) as task:
            params = {"model": MODEL, "input": task.text}
            task.answer = Tools.runner(self, task).run(self.client, params, stream=True).output_text


class Kept(ResponsesCase):
    def test_a_conversation_by_previous_response_id(self):
        first = self.create("My number is 7315.")
        second = self.create("My colour is green.", previous_response_id=first.id)
        self.assertEqual(second.previous_response_id, first.id)
        third = self.create("What did I say?", previous_response_id=second.id)
        self.assertIn("7315", third.output_text)
        self.assertIn("green", third.output_text)
        # The first can be gone on from again: the second is not part of this.
        fork = self.create("What did I say?", previous_response_id=first.id)
        self.assertIn("7315", fork.output_text)
        self.assertNotIn("green", fork.output_text)

    def test_a_response_is_kept_until_it_is_deleted(self):
        made = self.create("Say hello", metadata={"k": "v"})
        kept = self.responses.retrieve(made.id)
        self.assertEqual(kept.to_dict(), made.to_dict())
        self.assertEqual(kept.metadata, {"k": "v"})
        items = self.responses.input_items.list(made.id).data
        self.assertEqual([item.content[0].text for item in items], ["Say hello"])
        self.responses.delete(made.id)
        for call in (
            lambda: self.responses.retrieve(made.id),
            lambda: self.responses.input_items.list(made.id),
            lambda: self.responses.delete(made.id),
        ):
            with self.assertRaises(openai.NotFoundError):
                call()

    def test_what_is_not_to_be_kept_is_not(self):
        made = self.create("Say hello", store=False)
        with self.assertRaises(openai.NotFoundError):
            self.responses.retrieve(made.id)
        with self.assertRaises(openai.APIStatusError) as caught:
            self.create("And now?", previous_response_id=made.id)
        self.assertEqual(caught.exception.param, "previous_response_id")

    def test_an_answer_that_is_complete_cannot_be_cancelled(self):
        made = self.create("Say hello")
        with self.assertRaises(openai.BadRequestError):
            self.responses.cancel(made.id)

    def test_compaction(self):
        history = [
            {"role": "user", "content": "My number is 7315."},
            {"role": "assistant", "content": "Noted."},
        ]
        # The SDK's types have no message of a user in an output, though its words say that they come.
        lax = client_of(self.gateway, strict=False)
        raw = lax.responses.with_raw_response.compact(model=MODEL, input=history)
        compact = raw.parse()
        self.assertEqual(compact.object, "response.compaction")
        self.assertEqual(compact.output[-1].type, "compaction")
        self.assertTrue(compact.output[-1].encrypted_content)
        items = json.loads(raw.text)["output"]
        answer = self.create([*items, {"role": "user", "content": "What did I say?"}])
        self.assertIn("7315", answer.output_text)


class WebSocket(ResponsesCase):
    """The socket's events are not checked by the SDK, so they are here."""

    events = pydantic.TypeAdapter(ResponseStreamEvent)

    def turn(self, connection, **body):
        connection.response.create(model=MODEL, **body)
        while True:
            event = self.events.validate_json(connection.recv_bytes())
            if event.type in ("response.completed", "response.failed", "response.incomplete", "error"):
                return event

    def test_turns_over_one_connection(self):
        with self.responses.connect() as connection:
            first = self.turn(connection, input="My number is 7315.")
            self.assertEqual(first.type, "response.completed")
            second = self.turn(connection, input="What did I say?", previous_response_id=first.response.id)
            self.assertIn("7315", second.response.output_text)

    def test_a_tool_chain(self):
        with self.chain() as task, self.responses.connect() as connection:
            answer = self.turn(connection, input=task.text, tools=FUNCTIONS).response
            while wanted := calls(answer):
                results = [
                    {"type": "function_call_output", "call_id": call.call_id,
                     "output": task.run(call.name, json.loads(call.arguments))}
                    for call in wanted
                ]
                answer = self.turn(
                    connection, input=results, previous_response_id=answer.id, tools=FUNCTIONS
                ).response
            task.answer = answer.output_text


if __name__ == "__main__":
    unittest.main()
