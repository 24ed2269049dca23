"""The adapters against stand-ins for the functions of the frameworks that they call, which can't be installed here."""

from __future__ import annotations

import sys
import types
from typing import Any
from unittest.mock import patch

from support import DaemonCase

from ringfence.adapters import langchain, openai_agents, pydantic_ai


class Made:
    """What a framework's function was given."""

    def __init__(self, **given: Any) -> None:
        self.given = given


class Context:
    """The part of a framework's context that the adapters read."""

    def __init__(self, tool_call_id: str) -> None:
        self.tool_call_id = tool_call_id


def framework(name: str, **members: Any) -> Any:
    """Stands in for a package that has these members."""
    module = types.ModuleType(name)
    vars(module).update(members)
    parent = {name.split(".")[0]: types.ModuleType(name.split(".")[0])} if "." in name else {}
    return patch.dict(sys.modules, {**parent, name: module})


def named(made: list[Made], name: str) -> dict[str, Any]:
    (found,) = [it.given for it in made if it.given["name"] == name]
    return found


class Adapters(DaemonCase):
    async def test_langchain(self) -> None:
        (self.workspace / "adapted.txt").write_text("adapted\n")
        stand_in = types.SimpleNamespace(from_function=Made)
        with framework("langchain_core.tools", StructuredTool=stand_in):
            async with self.connect() as rf:
                tool = named(await langchain.tools(rf), "file_read")
                self.assertEqual(tool["args_schema"]["required"], ["path"])
                self.assertEqual((tool["infer_schema"], tool["response_format"]), (False, "content_and_artifact"))
                text, result = await tool["coroutine"](path="adapted.txt")
                self.assertEqual((text.splitlines()[0], result.success), ("adapted", True))

    async def test_openai_agents_the_id_of_the_model_makes_a_call_run_once(self) -> None:
        with framework("agents", FunctionTool=Made):
            async with self.connect() as rf:
                tool = named(await openai_agents.tools(rf), "terminal_execute")
                self.assertFalse(tool["strict_json_schema"])
                for _ in range(2):
                    text = await tool["on_invoke_tool"](Context("call_o"), '{"command": "echo x >>o; cat o"}')
                    self.assertEqual(text, "x\n\n[exit code 0]")

    async def test_pydantic_ai_a_failure_is_told_to_the_model(self) -> None:
        stand_in = types.SimpleNamespace(from_schema=Made)
        with framework("pydantic_ai", Tool=stand_in):
            async with self.connect() as rf:
                tool = named(await pydantic_ai.tools(rf), "file_read")
                self.assertTrue(tool["takes_ctx"] and tool["json_schema"]["properties"]["path"])
                text = await tool["function"](Context("call_p"), path=".env")
                self.assertTrue(text.startswith("SENSITIVE_FILE: "))
