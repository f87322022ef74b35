"""Responses through the official OpenAI SDK for Python: text, limits, structure, failures."""

import unittest

import openai
from case import NUMBERS, PNG, Person, SdkCase
from test_openai import MODEL, client_of


class ResponsesCase(SdkCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = client_of(cls.gateway)
        cls.responses = cls.client.responses

    def create(self, text, **body):
        return self.responses.create(model=MODEL, input=text, **body)

    def final(self, text, **body):
        """What the SDK's stream helper makes of the events."""
        with self.responses.stream(model=MODEL, input=text, **body) as stream:
            return stream.get_final_response()


class Text(ResponsesCase):
    def test_whole_answer(self):
        answer = self.create("Say hello", instructions="Be brief.")
        self.assertTrue(answer.id.startswith("resp_"))
        self.assertEqual((answer.object, answer.status), ("response", "completed"))
        self.assertEqual((answer.error, answer.incomplete_details), (None, None))
        self.assertEqual(answer.instructions, "Be brief.")
        self.assertTrue(answer.output_text)
        self.assertEqual(answer.output[-1].type, "message")
        self.assertEqual(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens)
        self.assertNotIn("user", answer.to_dict())

    def test_stream_events(self):
        events = list(self.create("Say hello", stream=True))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
        kinds = [event.type for event in events]
        self.assertEqual(kinds[:2], ["response.created", "response.in_progress"])
        self.assertEqual(kinds[-1], "response.completed")
        self.assertEqual(len({event.response.id for event in events if hasattr(event, "response")}), 1)
        last = events[-1].response
        self.assertIsNotNone(last.usage)
        done = [event.item for event in events if event.type == "response.output_item.done"]
        self.assertEqual([item.to_dict() for item in done], [item.to_dict() for item in last.output])
        said = "".join(event.delta for event in events if event.type == "response.output_text.delta")
        self.assertEqual(said, last.output_text)

    def test_stream_helper_equals_whole_answer(self):
        whole, streamed = self.create("Say hello twice"), self.final("Say hello twice")
        self.assertEqual(streamed.output_text, whole.output_text)
        self.assertEqual([item.type for item in streamed.output], [item.type for item in whole.output])

    def test_input_items(self):
        answer = self.create([
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "My number is 7315."},
            {"type": "message", "id": "msg_4711", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "Noted.", "annotations": []}]},
            {"role": "user", "content": [{"type": "input_text", "text": "What did I say?"}]},
        ])
        self.assertIn("7315", answer.output_text)

    def test_image(self):
        answer = self.create([{"role": "user", "content": [
            {"type": "input_text", "text": "What is in this image?"},
            {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"},
        ]}])
        self.assertIn("1 image", answer.output_text)

    def test_reasoning_is_given_back_as_it_came(self):
        body = {"store": False, "include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}
        first = self.create("My number is 7315.", **body)
        thoughts = [item for item in first.output if item.type == "reasoning"]
        self.assertTrue(thoughts, [item.type for item in first.output])
        self.assertTrue(all(item.encrypted_content for item in thoughts))
        history = [{"role": "user", "content": "My number is 7315."}, *first.output]
        second = self.create([*history, {"role": "user", "content": "What did I say?"}], **body)
        self.assertIn("7315", second.output_text)

    def test_effort_reaches_the_model(self):
        answer = self.responses.create(model="gpt-5.4", input="Which model are you?", reasoning={"effort": "high"})
        self.assertIn("high", answer.output_text)
        self.assertEqual(answer.reasoning.effort, "high")


class Controls(ResponsesCase):
    def test_token_limit(self):
        # The helper knows only answers that are complete, so the events are read here.
        events = list(self.create("count in words", max_output_tokens=3, stream=True))
        self.assertEqual(events[-1].type, "response.incomplete")
        for answer in (self.create("count in words", max_output_tokens=3), events[-1].response):
            self.assertEqual((answer.status, answer.incomplete_details.reason), ("incomplete", "max_output_tokens"))
            self.assertTrue(NUMBERS.startswith(answer.output_text))
            self.assertLess(len(answer.output_text), len(NUMBERS))

    def test_parse(self):
        person = Person(name="Ada", age=36)
        answer = self.responses.parse(model=MODEL, input="describe a person", text_format=Person)
        self.assertEqual(answer.output_parsed, person)
        with self.responses.stream(model=MODEL, input="describe a person", text_format=Person) as stream:
            self.assertEqual(stream.get_final_response().output_parsed, person)

    def test_an_answer_that_is_not_what_was_asked_for(self):
        with self.assertRaises(openai.UnprocessableEntityError) as caught:
            self.responses.parse(model=MODEL, input="describe nobody", text_format=Person)
        self.assertIn("name", str(caught.exception))


class Failures(ResponsesCase):
    def test_unknown_model(self):
        for stream in (False, True):
            with (
                self.subTest(stream=stream),
                self.nothing_upstream(),
                self.assertRaises(openai.BadRequestError) as caught,
            ):
                self.responses.create(model="no-such-model-7", input="hi", stream=stream)
            self.assertEqual(caught.exception.code, "model_not_found")

    def test_bad_requests_name_the_field(self):
        cases = [
            ({"input": 7}, "input"),
            ({"input": [{"role": "wizard", "content": "hi"}]}, "input[0].role"),
            ({"input": "hi", "max_output_tokens": "many"}, "max_output_tokens"),
            ({"input": "hi", "tools": [{"type": "function"}]}, "tools[0].name"),
        ]
        for body, param in cases:
            with (
                self.subTest(body=body),
                self.nothing_upstream(),
                self.assertRaises(openai.BadRequestError) as caught,
            ):
                self.responses.create(model=MODEL, **body)
            self.assertEqual(caught.exception.param, param)
            self.assertEqual(caught.exception.type, "invalid_request_error")

    def test_rate_limit_names_its_wait(self):
        with self.assertRaises(openai.RateLimitError) as caught:
            self.create("too many of us")
        self.assertEqual(caught.exception.response.headers["retry-after"], "77")

    def test_a_failure_amid_a_stream_is_told(self):
        events = list(self.create("break off", stream=True))
        self.assertEqual(events[-1].type, "response.failed")
        failed = events[-1].response
        self.assertEqual((failed.status, failed.error.code), ("failed", "server_error"))
        self.assertEqual([event.sequence_number for event in events], list(range(len(events))))

    def test_a_failure_of_a_whole_answer_is_a_status(self):
        with self.assertRaises(openai.InternalServerError):
            self.create("break off")


if __name__ == "__main__":
    unittest.main()
