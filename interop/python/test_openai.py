"""The official OpenAI SDK for Python against `ibeam up --sim`."""

import asyncio
import time
import unittest

import openai
from case import PNG, SdkCase
from gateway import Gateway

MODEL = "auto"


def ask(content):
    return [{"role": "user", "content": content}]


def client_of(gateway, strict=True, **options):
    """A client that checks every answer and every event against the SDK's own types."""
    options = {"api_key": "unused", "max_retries": 0, "timeout": 30, **options}
    return openai.OpenAI(base_url=f"{gateway.url}/v1", _strict_response_validation=strict, **options)


class Chat(SdkCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.client = client_of(cls.gateway)
        cls.chat = cls.client.chat.completions

    def test_models(self):
        models = list(self.client.models.list())
        self.assertTrue(models)
        for model in models:
            self.assertEqual(model.object, "model")
            self.assertTrue(model.owned_by)
        self.assertEqual(self.client.models.retrieve(models[0].id).id, models[0].id)

    def test_whole_answer(self):
        answer = self.chat.create(model=MODEL, messages=ask("Say hello"))
        self.assertTrue(answer.id.startswith("chatcmpl-"))
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertTrue(answer.choices[0].message.content)
        self.assertIn("refusal", answer.choices[0].message.model_fields_set)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_stream(self):
        chunks = list(self.chat.create(model=MODEL, messages=ask("Say hello"), stream=True))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)
        for chunk in chunks:
            self.assertEqual(chunk.object, "chat.completion.chunk")
            self.assertEqual(len(chunk.choices), 1)
        finished = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason]
        self.assertEqual(finished, ["stop"])
        self.assertTrue("".join(chunk.choices[0].delta.content or "" for chunk in chunks))

    def test_stream_equals_whole(self):
        messages = ask("Say hello twice")
        whole = self.chat.create(model=MODEL, messages=messages).choices[0].message.content
        stream = self.chat.create(model=MODEL, messages=messages, stream=True)
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in stream), whole)

    def test_stream_with_usage(self):
        chunks = list(
            self.chat.create(
                model=MODEL,
                messages=ask("Say hello"),
                stream=True,
                stream_options={"include_usage": True},
            )
        )
        self.assertEqual(chunks[-1].choices, [])
        self.assertGreater(chunks[-1].usage.completion_tokens, 0)

    def test_stream_helper(self):
        with self.chat.stream(model=MODEL, messages=ask("Say hello")) as stream:
            for _ in stream:
                pass
            answer = stream.get_final_completion()
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertTrue(answer.choices[0].message.content)

    def test_history(self):
        answer = self.chat.create(
            model=MODEL,
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "developer", "content": [{"type": "text", "text": "Answer in English."}]},
                {"role": "user", "content": "My number is 7315."},
                {"role": "assistant", "content": "Noted."},
                {"role": "user", "content": "Say hello"},
            ],
        )
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def test_image(self):
        parts = [
            {"type": "text", "text": "What is in this image?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        ]
        answer = self.chat.create(model=MODEL, messages=ask(parts))
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def test_unknown_model(self):
        for stream in (False, True):
            with (
                self.subTest(stream=stream),
                self.nothing_upstream(),
                self.assertRaises(openai.BadRequestError) as caught,
            ):
                self.chat.create(model="no-such-model-7", messages=ask("hi"), stream=stream)
            self.assertEqual(caught.exception.code, "model_not_found")
            self.assertEqual(caught.exception.type, "invalid_request_error")

    def test_bad_requests_name_the_field(self):
        cases = [
            ({"messages": []}, "messages"),
            ({"messages": "hello"}, "messages"),
            ({"messages": ask("hi"), "n": 2}, "n"),
            ({"messages": ask("hi"), "max_tokens": "many"}, "max_tokens"),
        ]
        for body, param in cases:
            with self.subTest(body=body), self.nothing_upstream(), self.assertRaises(openai.BadRequestError) as caught:
                self.chat.create(model=MODEL, **body)
            self.assertEqual(caught.exception.param, param)
            self.assertEqual(caught.exception.type, "invalid_request_error")

    def test_rate_limit_names_its_wait(self):
        for stream in (False, True):
            with self.subTest(stream=stream), self.assertRaises(openai.RateLimitError) as caught:
                self.chat.create(model=MODEL, messages=ask("too many of us"), stream=stream)
            self.assertEqual(caught.exception.code, "quota_exceeded")
            self.assertEqual(caught.exception.response.headers["retry-after"], "77")

    def test_a_retry_waits_as_long_as_it_is_told_and_succeeds(self):
        patient = client_of(self.gateway, max_retries=1)
        started = time.monotonic()
        answer = patient.chat.completions.create(model=MODEL, messages=ask("busy for a moment"))
        self.assertGreaterEqual(time.monotonic() - started, 1)
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def test_a_plan_that_is_used_up_is_not_tried_again(self):
        eager = client_of(self.gateway, max_retries=2)
        before = self.gateway.opened()
        with self.assertRaises(openai.RateLimitError) as caught:
            eager.chat.completions.create(model=MODEL, messages=ask("plan used up"))
        self.assertEqual(caught.exception.code, "insufficient_quota")
        self.assertEqual(caught.exception.response.headers["x-should-retry"], "false")
        self.assertEqual(self.gateway.opened() - before, 1)

    def test_a_conversation_that_is_too_long(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat.create(model=MODEL, messages=ask("conversation too long"))
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    def test_a_failure_amid_a_stream_is_an_exception(self):
        seen = []
        with self.assertRaises(openai.APIError) as caught:
            for chunk in self.chat.create(model=MODEL, messages=ask("break off"), stream=True):
                seen.append(chunk)
        self.assertEqual(caught.exception.type, "server_error")
        self.assertTrue("".join(chunk.choices[0].delta.content or "" for chunk in seen))
        self.assertEqual([chunk for chunk in seen if chunk.choices[0].finish_reason], [])

    def test_a_failure_of_a_whole_answer_is_a_status(self):
        with self.assertRaises(openai.InternalServerError) as caught:
            self.chat.create(model=MODEL, messages=ask("break off"))
        self.assertEqual(caught.exception.status_code, 502)

    def test_not_found(self):
        with self.assertRaises(openai.NotFoundError):
            self.client.get("/no/such/path", cast_to=object)

    def test_raw_response_headers(self):
        raw = self.chat.with_raw_response.create(model=MODEL, messages=ask("Say hello"), temperature=0.2, seed=3)
        self.assertEqual(raw.status_code, 200)
        self.assertTrue(raw.headers.get("x-request-id"))
        named = [value for value in raw.headers.values() if "temperature" in value]
        self.assertEqual(len(named), 1, "no header names the ignored parameters")
        self.assertIn("seed", named[0])
        self.assertTrue(raw.parse().choices[0].message.content)

    def test_abort(self):
        started = time.monotonic()
        stream = self.chat.create(model=MODEL, messages=ask("Count from 1 to 200"), stream=True)
        next(iter(stream))
        stream.close()
        self.assertLess(time.monotonic() - started, 5)
        answer = self.chat.create(model=MODEL, messages=ask("Say hello"))
        self.assertEqual(answer.choices[0].finish_reason, "stop")

    def test_async_client(self):
        async def run():
            async with openai.AsyncOpenAI(base_url=f"{self.gateway.url}/v1", api_key="unused", max_retries=0) as client:

                async def one():
                    stream = await client.chat.completions.create(
                        model=MODEL, messages=ask("Say hello"), stream=True
                    )
                    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

                return await asyncio.gather(*(one() for _ in range(20)))

        self.assertEqual(len(set(asyncio.run(run()))), 1)

    def test_local_key(self):
        guarded = Gateway(IBEAM_API_KEY="sesame")
        self.addCleanup(guarded.stop)
        wrong = client_of(guarded, api_key="wrong")
        with self.assertRaises(openai.AuthenticationError) as caught:
            wrong.chat.completions.create(model=MODEL, messages=ask("hi"))
        self.assertEqual(caught.exception.code, "invalid_api_key")
        right = client_of(guarded, api_key="sesame")
        answer = right.chat.completions.create(model=MODEL, messages=ask("Say hello"))
        self.assertEqual(answer.choices[0].finish_reason, "stop")


if __name__ == "__main__":
    unittest.main()
