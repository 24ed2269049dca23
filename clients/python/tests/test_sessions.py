"""What outlives a connection, who answers for a person, and how a daemon is started."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from support import CuttableSocket, DaemonCase, given

import ringfence


class Resuming(DaemonCase):
    async def asyncSetUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "cut.sock")

    async def test_a_call_gets_its_result_though_the_connection_was_cut_and_runs_once(self) -> None:
        async with CuttableSocket(self.path, given("SOCKET")) as line:
            async with self.connect(socket=self.path, resume_ms=30_000) as rf:
                command = "echo x >>resumed; until [ -e resume-go ]; do sleep 0.01; done; cat resumed"
                call = asyncio.ensure_future(rf.call("terminal_execute", command=command))
                await self.until(lambda: asyncio.to_thread((self.workspace / "resumed").exists))
                line.cut()
                (self.workspace / "resume-go").touch()
                self.assertEqual((await call).unwrap()["stdout"], "x\n")
                self.assertEqual(line.made, 2)

    async def test_notifications_go_on_after_a_cut(self) -> None:
        async with CuttableSocket(self.path, given("SOCKET")) as line:
            async with self.connect(socket=self.path, resume_ms=30_000) as rf:
                async with rf.notifications("calls") as told:
                    line.cut()
                    result = await rf.call("terminal_execute", command="true")
                    async for it in told:
                        if it.params.get("callId") == result.call_id and it.params["state"]["status"] == "done":
                            break

    async def test_without_resume_a_call_that_was_cut_off_raises_and_the_next_one_connects_again(self) -> None:
        async with CuttableSocket(self.path, given("SOCKET")) as line:
            async with self.connect(socket=self.path) as rf:
                call = asyncio.ensure_future(rf.call("terminal_execute", command="touch cut-off; sleep 60"))
                await self.until(lambda: asyncio.to_thread((self.workspace / "cut-off").exists))
                line.cut()
                with self.assertRaises(ringfence.Disconnected):
                    await call
                await rf.ended()
                self.assertTrue((await rf.call("terminal_execute", command="true")).success)


class Approvals(DaemonCase):
    async def operator(self) -> ringfence.Client:
        return await self.asking(role="operator", state=given("ASKING_STATE"))

    async def test_a_callback_answers_what_waits_and_sees_what_it_answers(self) -> None:
        asked: list[str] = []

        async def answer(approval: dict[str, Any]) -> ringfence.Answer:
            asked.append(approval["input"]["command"])
            if "deny" in approval["input"]["command"]:
                return {"decision": "deny", "feedback": "not today"}
            return "approve"

        async with await self.operator() as person, self.asking() as rf:
            async with await person.on_approval(answer):
                self.assertEqual((await rf.call("terminal_execute", command="id -u >&2; echo yes")).unwrap()["stdout"], "yes\n")
                denied = await rf.call("terminal_execute", command="id; echo deny")
                assert denied.error is not None
                self.assertEqual(denied.error["code"], "APPROVAL_DENIED")
                self.assertIn("not today", str(denied.error))
        self.assertEqual(asked, ["id -u >&2; echo yes", "id; echo deny"])

    async def test_a_handler_is_cancelled_when_somebody_else_has_answered(self) -> None:
        asked, cancelled = asyncio.Event(), asyncio.Event()

        async def wait(approval: dict[str, Any]) -> None:
            asked.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        async with await self.operator() as person, await self.operator() as other, self.asking() as rf:
            async with await person.on_approval(wait):
                call = asyncio.ensure_future(rf.call("terminal_execute", command="id; echo other"))
                await asked.wait()
                async with await other.on_approval(lambda _: "approve"):
                    self.assertTrue((await call).success)
                await cancelled.wait()

    async def test_what_the_handler_raises_is_told_and_the_question_stays_open(self) -> None:
        def broken(approval: dict[str, Any]) -> str:
            raise ZeroDivisionError

        async with await self.operator() as person, self.asking() as rf:
            watch = await person.on_approval(broken)
            call = asyncio.ensure_future(rf.call("terminal_execute", command="id; echo open"))
            with self.assertRaises(ZeroDivisionError):
                await watch.ended()
            self.assertEqual(len((await person.request("approvals.list"))["approvals"]), 1)
            call.cancel()

    async def test_an_agent_may_not_answer(self) -> None:
        async with self.asking() as rf:
            with self.assertRaises(ringfence.RemoteError):
                await rf.on_approval(lambda _: "approve")


class Starting(DaemonCase):
    async def test_a_daemon_is_started_where_none_runs(self) -> None:
        # The daemon may still be writing its last lines when its socket is gone.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            workspace, state = Path(folder, "project"), Path(folder, "state")
            workspace.mkdir()
            (workspace / "a.txt").write_text("found\n")
            with patch.dict(os.environ, {"RINGFENCE_COMMAND": given("COMMAND")}):
                async with ringfence.connect(workspace, socket=state / "d.sock", state=state) as rf:
                    self.assertEqual((await rf.file_read(path="a.txt")).unwrap()["content"], "found\n")
            async with ringfence.connect(socket=state / "d.sock", role="operator") as person:
                await person.request("shutdown", {"graceMs": 0})
                await person.ended()
            await self.until(lambda: asyncio.to_thread(lambda: not (state / "d.sock").exists()))

    async def test_where_no_command_is_found_it_says_how_to_install_one(self) -> None:
        with patch.dict(os.environ, {"RINGFENCE_COMMAND": "no-such-ringfence"}):
            with self.assertRaisesRegex(ringfence.Disconnected, "npm install -g ringfence"):
                await self.connect(socket=self.workspace / "none.sock")
