"""Chat over a WebSocket, by somebody else's WebSocket: chunks are those of the SDK."""

import json
import unittest

import pydantic
import websockets
from case import NUMBERS, SdkCase
from openai.types.chat import ChatCompletionChunk
from task import TOOLS
from test_openai import MODEL, ask
from test_openai_tools import function
from websockets.sync.client import connect

FUNCTIONS = [function(*tool) for tool in TOOLS]


class ChatOverWebSocket(SdkCase):
    chunk = pydantic.TypeAdapter(ChatCompletionChunk)

    def connect(self):
        return connect(f"ws://127.0.0.1:{self.gateway.port}/v1/chat/completions", open_timeout=10)

    def turn(self, socket, messages, **body):
        """The text, the calls and the ending of one answer, or the error that ended it."""
        socket.send(json.dumps({"model": MODEL, "messages": messages, **body}))
        text, calls, finish = "", {}, None
        while True:
            message = json.loads(socket.recv(timeout=30))
            if "error" in message:
                return message["error"]
            if message.get("object") == "chat.completion.done":
                return text, list(calls.values()), finish
            for choice in self.chunk.validate_python(message).choices:
                text += choice.delta.content or ""
                finish = choice.finish_reason or finish
                for piece in choice.delta.tool_calls or []:
                    call = calls.setdefault(piece.index, {"id": piece.id, "type": "function", "function": {
                        "name": piece.function.name, "arguments": "",
                    }})
                    call["function"]["arguments"] += piece.function.arguments or ""

    def test_several_answers_over_one_connection(self):
        with self.connect() as socket:
            for _ in range(2):
                self.assertEqual(self.turn(socket, ask("count in words")), (NUMBERS, [], "stop"))

    def test_a_tool_chain(self):
        with self.chain() as task, self.connect() as socket:
            messages = ask(task.text)
            while (answer := self.turn(socket, messages, tools=FUNCTIONS))[2] == "tool_calls":
                text, calls, _ = answer
                messages.append({"role": "assistant", "content": text, "tool_calls": calls})
                for call in calls:
                    result = task.run(call["function"]["name"], json.loads(call["function"]["arguments"]))
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            task.answer = answer[0]

    def test_errors_are_messages_and_the_connection_goes_on(self):
        with self.connect() as socket:
            self.assertEqual(self.turn(socket, [])["param"], "messages")
            self.assertEqual(self.turn(socket, ask("too many of us"))["code"], "quota_exceeded")
            self.assertEqual(self.turn(socket, ask("break off"))["type"], "server_error")
            self.assertEqual(self.turn(socket, ask("count in words")), (NUMBERS, [], "stop"))

    def test_a_page_of_somebody_else_may_not_connect(self):
        address = f"ws://127.0.0.1:{self.gateway.port}/v1/chat/completions"
        with self.assertRaises(websockets.exceptions.InvalidStatus) as caught:
            connect(address, origin="https://evil.example", open_timeout=10)
        self.assertEqual(caught.exception.response.status_code, 403)


if __name__ == "__main__":
    unittest.main()
