"""Tools, limits and structured output of chat completions, through the SDK's helpers."""

import json
import unittest

import openai
from case import NUMBERS, Person, SdkCase
from task import TOOLS
from test_openai import MODEL, ask, client_of


def function(name, description, parameters):
    about = {"name": name, "description": description, "parameters": parameters, "strict": True}
    return {"type": "function", "function": about}


FUNCTIONS = [function(*tool) for tool in TOOLS]


class Tools(SdkCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.chat = client_of(cls.gateway).chat.completions

    def whole(self, messages):
        return self.chat.create(model=MODEL, messages=messages, tools=FUNCTIONS).choices[0]

    def streamed(self, messages):
        """By the SDK's stream helper, which puts the deltas together and is strict about them."""
        with self.chat.stream(model=MODEL, messages=messages, tools=FUNCTIONS) as stream:
            done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
            choice = stream.get_final_completion().choices[0]
        self.assertEqual([event.name for event in done], [c.function.name for c in choice.message.tool_calls or []])
        return choice

    def work(self, ask_model):
        with self.chain() as task:
            messages = ask(task.text)
            while (choice := ask_model(messages)).finish_reason == "tool_calls":
                messages.append(choice.message)
                for call in choice.message.tool_calls:
                    self.assertEqual(call.type, "function")
                    result = task.run(call.function.name, json.loads(call.function.arguments))
                    messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
            self.assertEqual(choice.finish_reason, "stop")
            task.answer = choice.message.content

    def test_a_chain_of_whole_answers(self):
        self.work(self.whole)

    def test_a_chain_of_streams(self):
        self.work(self.streamed)

    def test_tools_are_kept_from_the_model(self):
        answer = self.chat.create(
            model=MODEL, messages=ask("read `a.txt`"), tools=FUNCTIONS, tool_choice="none"
        ).choices[0]
        self.assertEqual((answer.finish_reason, answer.message.tool_calls), ("stop", None))

    def test_a_tool_that_must_be_called_and_is_not(self):
        with self.assertRaises(openai.APIStatusError) as caught:
            self.chat.create(model=MODEL, messages=ask("Say hello"), tools=FUNCTIONS, tool_choice="required")
        self.assertEqual(caught.exception.code, "tool_choice_unmet")

    def test_a_tool_that_must_be_called(self):
        named = {"type": "function", "function": {"name": "read_file"}}
        for choice in ("required", named):
            with self.subTest(choice=choice):
                answer = self.chat.create(
                    model=MODEL, messages=ask("read `a.txt`"), tools=FUNCTIONS, tool_choice=choice
                ).choices[0]
                self.assertEqual(answer.finish_reason, "tool_calls")
                self.assertEqual(answer.message.tool_calls[0].function.name, "read_file")


class NativeTools(Tools):
    """The same with Cursor's own tools, which the gateway hands to the client's."""

    flags = ("--native-tools",)
    # Cursor edits by reading the file and writing it.
    native_steps = ("read_file", "read_file", "write_file", "write_file")

    def chain(self, steps=native_steps):
        return super().chain(steps)


class Limits(SdkCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.chat = client_of(cls.gateway).chat.completions

    def both(self, **body):
        """The text and the finish reason, whole and streamed."""
        whole = self.chat.create(model=MODEL, messages=ask("count in words"), **body).choices[0]
        with self.chat.stream(model=MODEL, messages=ask("count in words"), **body) as stream:
            streamed = stream.get_final_completion().choices[0]
        self.assertEqual(whole.message.content, streamed.message.content)
        self.assertEqual(whole.finish_reason, streamed.finish_reason)
        return whole.message.content, whole.finish_reason

    def test_stop_sequences(self):
        self.assertEqual(self.both(), (NUMBERS, "stop"))
        # Longer than a delta of the simulator's: found across their borders.
        self.assertEqual(self.both(stop=["never said", " five six"]), ("one two three four", "stop"))
        self.assertEqual(self.both(stop="thirteen"), (NUMBERS, "stop"))

    def test_token_limits(self):
        for name in ("max_tokens", "max_completion_tokens"):
            with self.subTest(name=name):
                body = {"model": MODEL, "messages": ask("count in words"), name: 3}
                whole = self.chat.create(**body).choices[0]
                self.assertEqual(whole.finish_reason, "length")
                self.assertTrue(NUMBERS.startswith(whole.message.content))
                self.assertLess(len(whole.message.content), len(NUMBERS))
                # The helper makes an exception of it, which has the answer.
                with self.assertRaises(openai.LengthFinishReasonError) as caught:
                    with self.chat.stream(**body) as stream:
                        stream.get_final_completion()
                streamed = caught.exception.completion.choices[0]
                self.assertEqual(streamed.message.content, whole.message.content)

    def test_what_cannot_be_done_is_refused(self):
        for body in ({"n": 2}, {"logprobs": True}, {"top_logprobs": 2, "logprobs": True}):
            with (
                self.subTest(body=body),
                self.nothing_upstream(),
                self.assertRaises(openai.BadRequestError) as caught,
            ):
                self.chat.create(model=MODEL, messages=ask("hi"), **body)
            self.assertIn(caught.exception.param, body)

    def test_strict_refuses_what_would_be_ignored(self):
        body = {"model": MODEL, "messages": ask("hi"), "temperature": 0.2}
        self.assertEqual(self.chat.create(**body).choices[0].finish_reason, "stop")
        with self.nothing_upstream(), self.assertRaises(openai.BadRequestError) as caught:
            self.chat.create(**body, extra_headers={"x-ibeam-strict": "true"})
        self.assertEqual(caught.exception.param, "temperature")


class Structured(SdkCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.chat = client_of(cls.gateway).chat.completions

    def test_parse(self):
        answer = self.chat.parse(model=MODEL, messages=ask("describe a person"), response_format=Person)
        self.assertEqual(answer.choices[0].message.parsed, Person(name="Ada", age=36))

    def test_a_parsed_stream(self):
        body = {"model": MODEL, "messages": ask("describe a person"), "response_format": Person}
        with self.chat.stream(**body) as stream:
            answer = stream.get_final_completion()
        self.assertEqual(answer.choices[0].message.parsed, Person(name="Ada", age=36))

    def test_json_mode(self):
        answer = self.chat.create(
            model=MODEL, messages=ask("describe a person"), response_format={"type": "json_object"}
        )
        self.assertEqual(json.loads(answer.choices[0].message.content), {"name": "Ada", "age": 36})

    def test_an_answer_that_is_mended(self):
        answer = self.chat.parse(model=MODEL, messages=ask("describe somebody"), response_format=Person)
        self.assertEqual(answer.choices[0].message.parsed, Person(name="Ada", age=36))

    def test_an_answer_that_is_not_what_was_asked_for(self):
        with self.assertRaises(openai.UnprocessableEntityError) as caught:
            self.chat.parse(model=MODEL, messages=ask("describe nobody"), response_format=Person)
        self.assertIn("name", str(caught.exception))
        with self.assertRaises(openai.APIError):
            with self.chat.stream(
                model=MODEL, messages=ask("describe nobody"), response_format=Person
            ) as stream:
                for _ in stream:
                    pass


if __name__ == "__main__":
    unittest.main()
