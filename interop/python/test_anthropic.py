"""The official Anthropic SDK for Python against `ibeam up --sim`: text, limits, failures."""

import asyncio
import time
import unittest

import anthropic
from case import NUMBERS, PNG, Person, SdkCase
from gateway import Gateway

MODEL = "claude-sonnet-4-6"


def ask(content):
    return [{"role": "user", "content": content}]


def client_of(gateway, **options):
    """A client that checks every answer and every event against the SDK's own types."""
    options = {"api_key": "unused", "max_retries": 0, "timeout": 30, **options}
    return anthropic.Anthropic(base_url=gateway.url, _strict_response_validation=True, **options)


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


class MessagesCase(SdkCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = client_of(cls.gateway)
        cls.messages = cls.client.messages

    def create(self, content, **body):
        return self.messages.create(**{"model": MODEL, "max_tokens": 1000, "messages": ask(content), **body})

    def final(self, content, **body):
        """What the SDK's stream helper makes of the events."""
        body = {"model": MODEL, "max_tokens": 1000, "messages": ask(content), **body}
        with self.messages.stream(**body) as stream:
            return stream.get_final_message()


class Text(MessagesCase):
    def test_models(self):
        models = list(self.client.models.list())
        self.assertTrue(models)
        for model in models:
            self.assertEqual(model.type, "model")
            self.assertTrue(model.display_name)
        self.assertEqual(self.client.models.retrieve(models[0].id).id, models[0].id)

    def test_whole_answer(self):
        answer = self.create("Say hello", system="Be brief.")
        self.assertTrue(answer.id.startswith("msg_"))
        self.assertEqual((answer.type, answer.role, answer.model), ("message", "assistant", MODEL))
        self.assertEqual((answer.stop_reason, answer.stop_sequence), ("end_turn", None))
        self.assertTrue(text_of(answer))
        self.assertGreater(answer.usage.input_tokens, 0)
        self.assertGreater(answer.usage.output_tokens, 0)

    def test_stream_events(self):
        events = list(self.create("Say hello", stream=True))
        kinds = [event.type for event in events]
        self.assertEqual((kinds[0], kinds[-2:]), ("message_start", ["message_delta", "message_stop"]))
        self.assertEqual(kinds.count("content_block_start"), kinds.count("content_block_stop"))
        starts = [event.index for event in events if event.type == "content_block_start"]
        self.assertEqual(starts, list(range(len(starts))))
        self.assertEqual(events[-2].delta.stop_reason, "end_turn")
        self.assertGreater(events[-2].usage.output_tokens, 0)

    def test_stream_helper_equals_whole_answer(self):
        whole, streamed = self.create("Say hello twice"), self.final("Say hello twice")
        self.assertEqual(text_of(streamed), text_of(whole))
        self.assertEqual([block.type for block in streamed.content], [block.type for block in whole.content])
        self.assertEqual(streamed.usage.output_tokens, whole.usage.output_tokens)

    def test_what_a_request_may_hold(self):
        answer = self.create(
            None,
            system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
            metadata={"user_id": "somebody"},
            messages=[
                {"role": "user", "content": "My number is 7315."},
                {"role": "assistant", "content": [{"type": "text", "text": "Noted."}]},
                {"role": "user", "content": [
                    {"type": "text", "text": "What did I say?", "cache_control": {"type": "ephemeral"}},
                ]},
            ],
            extra_headers={"anthropic-beta": "a-beta-of-tomorrow-2031-01-01"},
            extra_body={"a_field_of_tomorrow": {"k": 1}},
        )
        self.assertIn("7315", text_of(answer))

    def test_an_image_and_a_document(self):
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
        self.assertIn("1 image", text_of(self.create([image, {"type": "text", "text": "What is this?"}])))
        document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "SESAME"}}
        answer = self.create([document, {"type": "text", "text": "Repeat that."}])
        self.assertIn("SESAME", text_of(answer))

    def test_thinking_is_given_back_as_it_came(self):
        thinking = {"type": "enabled", "budget_tokens": 2000}
        for ask_model in (self.create, self.final):
            first = ask_model("My number is 7315.", max_tokens=4000, thinking=thinking)
            (thought,) = [block for block in first.content if block.type == "thinking"]
            self.assertTrue(thought.thinking)
            self.assertTrue(thought.signature)
            history = [*ask("My number is 7315."), {"role": "assistant", "content": first.content}]
            second = ask_model(
                None, max_tokens=4000, thinking=thinking, messages=[*history, *ask("What did I say?")]
            )
            self.assertIn("7315", text_of(second))

    def test_count_tokens(self):
        short = self.messages.count_tokens(model=MODEL, messages=ask("Say hello"))
        long = self.messages.count_tokens(model=MODEL, messages=ask("Say hello " * 100), system="Be brief.")
        self.assertGreater(short.input_tokens, 0)
        self.assertGreater(long.input_tokens, short.input_tokens + 100)

    def test_an_alias_of_a_model(self):
        for model in ("claude-3-5-haiku-20241022", "claude-sonnet-4-5-20250929"):
            with self.subTest(model=model):
                self.assertTrue(text_of(self.create("Say hello", model=model)))

    def test_abort(self):
        started = time.monotonic()
        with self.messages.stream(model=MODEL, max_tokens=1000, messages=ask("count in words")) as stream:
            next(iter(stream))
        self.assertLess(time.monotonic() - started, 5)
        self.assertEqual(self.create("Say hello").stop_reason, "end_turn")

    def test_async_client(self):
        async def run():
            client = anthropic.AsyncAnthropic(base_url=self.gateway.url, api_key="unused", max_retries=0)
            async with client:

                async def one():
                    body = {"model": MODEL, "max_tokens": 1000, "messages": ask("Say hello")}
                    async with client.messages.stream(**body) as stream:
                        return await stream.get_final_text()

                return await asyncio.gather(*(one() for _ in range(20)))

        self.assertEqual(len(set(asyncio.run(run()))), 1)


class Controls(MessagesCase):
    def test_stop_sequences(self):
        for ask_model in (self.create, self.final):
            answer = ask_model("count in words", stop_sequences=["never said", " five six"])
            self.assertEqual(text_of(answer), "one two three four")
            self.assertEqual((answer.stop_reason, answer.stop_sequence), ("stop_sequence", " five six"))

    def test_token_limit(self):
        for ask_model in (self.create, self.final):
            answer = ask_model("count in words", max_tokens=3)
            self.assertEqual(answer.stop_reason, "max_tokens")
            self.assertTrue(NUMBERS.startswith(text_of(answer)))
            self.assertLess(len(text_of(answer)), len(NUMBERS))

    def test_parse(self):
        body = {"model": MODEL, "max_tokens": 1000, "messages": ask("describe a person"), "output_format": Person}
        answer = self.messages.parse(**body)
        self.assertEqual(answer.parsed_output, Person(name="Ada", age=36))
        with self.messages.stream(**body) as stream:
            self.assertEqual(stream.get_final_message().parsed_output, Person(name="Ada", age=36))

    def test_an_answer_that_is_not_what_was_asked_for(self):
        body = {"model": MODEL, "max_tokens": 1000, "messages": ask("describe nobody"), "output_format": Person}
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.messages.parse(**body)
        self.assertIn("name", caught.exception.body["error"]["message"])
        with self.assertRaises(anthropic.APIStatusError), self.messages.stream(**body) as stream:
            stream.get_final_message()


class Failures(MessagesCase):
    def test_unknown_model(self):
        for stream in (False, True):
            with (
                self.subTest(stream=stream),
                self.nothing_upstream(),
                self.assertRaises(anthropic.NotFoundError) as caught,
            ):
                self.create("hi", model="no-such-model-7", stream=stream)
            self.assertEqual(caught.exception.type, "not_found_error")

    def test_bad_requests_name_the_field(self):
        cases = [
            ({"messages": []}, "messages"),
            ({"messages": [{"role": "wizard", "content": "hi"}]}, "messages.0.role"),
            ({"max_tokens": "many"}, "max_tokens"),
            ({"stop_sequences": "x"}, "stop_sequences"),
        ]
        for body, field in cases:
            with (
                self.subTest(body=body),
                self.nothing_upstream(),
                self.assertRaises(anthropic.BadRequestError) as caught,
            ):
                self.create("hi", **body)
            self.assertEqual(caught.exception.type, "invalid_request_error")
            self.assertIn(field.split(".")[-1], caught.exception.body["error"]["message"])

    def test_server_tools_are_left_out_and_listed(self):
        search = {"type": "web_search_20250305", "name": "web_search"}
        raw = self.messages.with_raw_response.create(
            model=MODEL, max_tokens=1000, messages=ask("Say hello"), tools=[search]
        )
        self.assertIn("tools.web_search", raw.headers["x-ibeam-controls"])
        self.assertTrue(text_of(raw.parse()))

    def test_rate_limit_names_its_wait(self):
        for stream in (False, True):
            with self.subTest(stream=stream), self.assertRaises(anthropic.RateLimitError) as caught:
                self.create("too many of us", stream=stream)
            self.assertEqual(caught.exception.type, "rate_limit_error")
            self.assertEqual(caught.exception.response.headers["retry-after"], "77")

    def test_a_plan_that_is_used_up_is_not_tried_again(self):
        eager = client_of(self.gateway, max_retries=2)
        before = self.gateway.opened()
        with self.assertRaises(anthropic.RateLimitError):
            eager.messages.create(model=MODEL, max_tokens=100, messages=ask("plan used up"))
        self.assertEqual(self.gateway.opened() - before, 1)

    def test_a_conversation_that_is_too_long(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.create("conversation too long")
        self.assertIn("prompt is too long", str(caught.exception))

    def test_a_failure_amid_a_stream_is_an_exception(self):
        seen = []
        with self.assertRaises(anthropic.APIStatusError) as caught:
            for event in self.create("break off", stream=True):
                seen.append(event.type)
        self.assertEqual(caught.exception.type, "api_error")
        self.assertIn("content_block_delta", seen)
        self.assertNotIn("message_stop", seen)

    def test_a_failure_of_a_whole_answer_is_a_status(self):
        with self.assertRaises(anthropic.InternalServerError) as caught:
            self.create("break off")
        self.assertEqual(caught.exception.status_code, 502)

    def test_local_key(self):
        guarded = Gateway(IBEAM_API_KEY="sesame")
        self.addCleanup(guarded.stop)
        body = {"model": MODEL, "max_tokens": 100, "messages": ask("Say hello")}
        with self.assertRaises(anthropic.AuthenticationError) as caught:
            client_of(guarded, api_key="wrong").messages.create(**body)
        self.assertEqual(caught.exception.type, "authentication_error")
        for right in ({"api_key": "sesame"}, {"api_key": None, "auth_token": "sesame"}):
            self.assertTrue(text_of(client_of(guarded, **right).messages.create(**body)))


if __name__ == "__main__":
    unittest.main()
