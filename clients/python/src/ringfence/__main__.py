"""``python -m ringfence``: a small command line, for trying the client out. ``ringfence`` itself does more."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
from typing import Any

from . import RingfenceError, __version__, connect, to_text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ringfence", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--workspace", default=".", help="the folder to work in (default: this one)")
    shared.add_argument("--socket", help="the daemon's socket")
    shared.add_argument("--json", action="store_true", help="print only JSON")
    verbs = parser.add_subparsers(dest="verb", required=True)
    call = verbs.add_parser("call", parents=[shared], help="run one tool")
    call.add_argument("tool")
    call.add_argument("input", nargs="*", help="one JSON object, or key=value words")
    verbs.add_parser("tools", parents=[shared], help="list the tools")
    return parser


def _input(words: list[str]) -> dict[str, Any]:
    """One JSON object, or key=value words whose values are JSON where they can be."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        whole: dict[str, Any] = json.loads(words[0])
        return whole
    fields: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not key or not equals:
            raise ValueError(f"write the input as one JSON object or as key=value words; {word!r} is neither")
        try:
            fields[key] = json.loads(value)
        except ValueError:
            fields[key] = value
    return fields


async def _run(args: argparse.Namespace) -> int:
    async with connect(args.workspace, socket=args.socket) as rf:
        if args.verb == "tools":
            tools = await rf.tools()
            print(json.dumps(tools) if args.json else "\n".join(f"{it['name']}  {it['title']}" for it in tools))
            return 0
        result = await rf.call(args.tool, _input(args.input))
        if args.json:
            print(json.dumps(dataclasses.asdict(result)))
        else:
            print(to_text(result), file=sys.stdout if result.success else sys.stderr)
        return 0 if result.success else 1


def main() -> int:
    """Runs the command line. Returns the exit code: 1 for a call that failed, 2 for a usage error, 3 without a daemon."""
    args = _parser().parse_args()
    try:
        return asyncio.run(_run(args))
    except ValueError as error:
        print(f"ringfence: {error}", file=sys.stderr)
        return 2
    except RingfenceError as error:
        print(f"ringfence: {error}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
