"""The tools of a session for Pydantic AI: ``Agent(..., tools=await pydantic_ai.tools(rf))``.

Tested against the one function of the framework that it calls, and not against the package itself.
"""

from __future__ import annotations

from typing import Any

from .. import CallOptions, Client, to_text


async def tools(rf: Client, **selection: str) -> list[Any]:
    """A Tool for each tool; a call that fails is told to the model, and not raised."""
    from pydantic_ai import Tool  # type: ignore[import-not-found, unused-ignore]

    def adapt(declared: dict[str, Any]) -> Any:
        async def run(context: Any, **input: Any) -> str:
            # The id of the model's call makes it safe to repeat.
            options = CallOptions(callId=context.tool_call_id)
            return to_text(await rf.call(declared["name"], input, call_options=options))

        return Tool.from_schema(
            function=run,
            name=declared["name"],
            description=declared["description"],
            json_schema=declared["input_schema"],
            takes_ctx=True,
        )

    return [adapt(it) for it in await rf.tools("anthropic", **selection)]
