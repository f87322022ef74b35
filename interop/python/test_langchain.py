"""LangChain's models for OpenAI (both APIs) and Anthropic against `ibeam up --sim`."""

import unittest

import anthropic
import openai
from case import NUMBERS, Person, SdkCase
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI


def tools_of(task):
    def read_file(path: str) -> str:
        """Reads a file"""
        return task.run("read_file", {"path": path})

    def edit_file(path: str, old_string: str, new_string: str) -> str:
        """Replaces a text in a file"""
        return task.run("edit_file", {"path": path, "old_string": old_string, "new_string": new_string})

    def write_file(path: str, content: str) -> str:
        """Writes a file"""
        return task.run("write_file", {"path": path, "content": content})

    return [StructuredTool.from_function(tool) for tool in (read_file, edit_file, write_file)]


class Models:
    """What all three must do; `make` gives a model."""

    rate_limit: type[Exception]

    def test_invoke_and_stream_say_the_same(self):
        model = self.make()
        messages = [SystemMessage("Be brief."), HumanMessage("count in words")]
        whole = model.invoke(messages)
        self.assertEqual(whole.text, NUMBERS)
        self.assertGreater(whole.usage_metadata["output_tokens"], 0)
        pieces = list(model.stream(messages))
        self.assertGreater(len(pieces), 2)
        together = pieces[0]
        for piece in pieces[1:]:
            together += piece
        self.assertEqual(together.text, NUMBERS)
        self.assertEqual(together.usage_metadata["output_tokens"], whole.usage_metadata["output_tokens"])

    def work(self, ask_model):
        with self.chain() as task:
            tools = {tool.name: tool for tool in tools_of(task)}
            model = self.make().bind_tools(list(tools.values()))
            messages = [HumanMessage(task.text)]
            while (answer := ask_model(model, messages)).tool_calls:
                messages.append(answer)
                messages += [tools[call["name"]].invoke(call) for call in answer.tool_calls]
            task.answer = answer.text

    def test_a_tool_chain(self):
        self.work(lambda model, messages: model.invoke(messages))

    def test_a_tool_chain_of_streams(self):
        def streamed(model, messages):
            together = None
            for piece in model.stream(messages):
                together = piece if together is None else together + piece
            return together

        self.work(streamed)

    def test_structured_output(self):
        model = self.make().with_structured_output(Person, method="json_schema")
        self.assertEqual(model.invoke("describe a person"), Person(name="Ada", age=36))

    def test_rate_limit(self):
        with self.assertRaises(self.rate_limit):
            self.make().invoke("too many of us")


class Stops:
    """The Responses API has no stop sequences."""

    def test_stop_sequences(self):
        answer = self.make().invoke("count in words", stop=[" five six"])
        self.assertEqual(answer.text, "one two three four")


class OpenAiChat(Models, Stops, SdkCase):
    rate_limit = openai.RateLimitError

    def make(self, **more):
        return ChatOpenAI(
            model="gpt-5.4", base_url=f"{self.gateway.url}/v1", api_key="unused", max_retries=0,
            stream_usage=True, use_responses_api=False, **more,
        )


class OpenAiResponses(Models, SdkCase):
    rate_limit = openai.RateLimitError

    def make(self, **more):
        return ChatOpenAI(
            model="gpt-5.4", base_url=f"{self.gateway.url}/v1", api_key="unused", max_retries=0,
            use_responses_api=True, **more,
        )

    def test_a_chain_by_previous_response_id(self):
        """LangChain sends only what is new, and names the response before it."""
        with self.chain() as task:
            tools = {tool.name: tool for tool in tools_of(task)}
            model = self.make(use_previous_response_id=True).bind_tools(list(tools.values()))
            messages = [HumanMessage(task.text)]
            while (answer := model.invoke(messages)).tool_calls:
                messages.append(answer)
                messages += [tools[call["name"]].invoke(call) for call in answer.tool_calls]
            task.answer = answer.text


class AnthropicMessages(Models, Stops, SdkCase):
    rate_limit = anthropic.RateLimitError

    def make(self, **more):
        return ChatAnthropic(
            model="claude-sonnet-4-6", base_url=self.gateway.url, api_key="unused", max_retries=0,
            max_tokens=1000, **more,
        )

    def test_count_tokens(self):
        self.assertGreater(self.make().get_num_tokens_from_messages([HumanMessage("Say hello")]), 0)


if __name__ == "__main__":
    unittest.main()
