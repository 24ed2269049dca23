"""The tools of a session for LangChain: ``agent = create_agent(model, await langchain.tools(rf))``.

Tested against the one function of langchain-core that it calls, and not against the package itself.
"""

from __future__ import annotations

from typing import Any

from .. import Client, Result, to_text


async def tools(rf: Client, **selection: str) -> list[Any]:
    """A StructuredTool for each tool: the model gets the text of the result, ``artifact`` is the ``Result``."""
    from langchain_core.tools import StructuredTool  # type: ignore[import-not-found, unused-ignore]

    def adapt(declared: dict[str, Any]) -> Any:
        async def run(**input: Any) -> tuple[str, Result[Any]]:
            result = await rf.call(declared["name"], input)
            return to_text(result), result

        return StructuredTool.from_function(
            coroutine=run,
            name=declared["name"],
            description=declared["description"],
            args_schema=declared["input_schema"],
            infer_schema=False,
            response_format="content_and_artifact",
        )

    return [adapt(it) for it in await rf.tools("anthropic", **selection)]
