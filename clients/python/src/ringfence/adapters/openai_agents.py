"""The tools of a session for the OpenAI Agents SDK: ``Agent(..., tools=await openai_agents.tools(rf))``.

Tested against the one class of the SDK that it calls, and not against the package itself.
"""

from __future__ import annotations

import json
from typing import Any

from .. import CallOptions, Client, to_text


async def tools(rf: Client, **selection: str) -> list[Any]:
    """A FunctionTool for each tool. The SDK's own approvals stay off: the policy of Ringfence asks."""
    from agents import FunctionTool  # type: ignore[import-not-found, unused-ignore]

    def adapt(declared: dict[str, Any]) -> Any:
        async def run(context: Any, arguments: str) -> str:
            # The id of the model's call makes it safe to repeat.
            options = CallOptions(callId=context.tool_call_id)
            return to_text(await rf.call(declared["name"], json.loads(arguments or "{}"), call_options=options))

        return FunctionTool(
            name=declared["name"],
            description=declared["description"],
            params_json_schema=declared["input_schema"],
            on_invoke_tool=run,
            strict_json_schema=False,
        )

    return [adapt(it) for it in await rf.tools("anthropic", **selection)]
