"""Calls over a real daemon: results, streams, batches, cancelling, detaching, undo, and the client without asyncio."""

from __future__ import annotations

import asyncio
import threading
import unittest

from support import DaemonCase, given

import ringfence


class Calls(DaemonCase):
    async def test_a_result_is_data_whether_or_not_the_call_did_what_it_should(self) -> None:
        (self.workspace / "a.txt").write_text("hello\n")
        async with self.connect() as rf:
            read = await rf.call("file_read", path="a.txt")
            self.assertTrue(read.success)
            self.assertEqual(read.unwrap()["content"], "hello\n")
            self.assertEqual((await rf.call("file_read", {"path": "a.txt"})).unwrap(), read.unwrap())
            self.assertEqual((await rf.file_read(path="a.txt")).unwrap()["lines"], 1)
            refused = await rf.call("file_read", path="../outside")
            self.assertEqual((refused.success, refused.data), (False, None))
            assert refused.error is not None
            self.assertEqual(refused.error["code"], "ACCESS_DENIED")
            with self.assertRaises(ringfence.ToolFailed) as raised:
                refused.unwrap()
            self.assertEqual((raised.exception.code, raised.exception.result), ("ACCESS_DENIED", refused))

    async def test_calls_of_one_connection_run_at_once_and_each_gets_its_own_result(self) -> None:
        async with self.connect() as rf:
            made = await asyncio.gather(*(rf.file_write(path=f"many/{n}.txt", content=f"{n}") for n in range(50)))
            self.assertTrue(all(it.success for it in made))
            read = await asyncio.gather(*(rf.file_read(path=f"many/{n}.txt") for n in range(50)))
            self.assertEqual([it.unwrap()["content"] for it in read], [f"{n}" for n in range(50)])

    async def test_the_same_id_runs_once(self) -> None:
        (self.workspace / "once").unlink(missing_ok=True)  # Of an earlier run in this workspace.
        async with self.connect() as rf:
            for _ in range(2):
                again = await rf.call("terminal_execute", {"command": "echo x >>once"}, call_options={"callId": "once"})
                self.assertTrue(again.success)
            self.assertEqual((self.workspace / "once").read_text(), "x\n")
            other = await rf.call("terminal_execute", {"command": "true"}, call_options={"callId": "once"})
            assert other.error is not None
            self.assertEqual(other.error["code"], "CONFLICT")

    async def test_a_stream_gives_all_output_in_order_also_to_a_slow_reader(self) -> None:
        async with self.connect() as rf:
            stream = rf.stream("terminal_execute", command="seq 1 50000; echo no >&2")
            pieces = []
            async for piece in stream:
                pieces.append(piece)
                await asyncio.sleep(0.002)
            self.assertEqual([it.seq for it in pieces], list(range(1, len(pieces) + 1)))
            out = b"".join(it.data for it in pieces if it.stream == "stdout").decode()
            self.assertEqual(out.split(), [str(it) for it in range(1, 50001)])
            self.assertEqual(b"".join(it.data for it in pieces if it.stream == "stderr"), b"no\n")
            self.assertEqual((await stream.result()).unwrap()["exitCode"], 0)

    async def test_a_stream_of_a_call_without_output_ends_and_has_its_result(self) -> None:
        async with self.connect() as rf:
            stream = rf.stream("file_read", path="../outside")
            self.assertEqual([it async for it in stream], [])
            self.assertFalse((await stream.result()).success)

    async def test_cancelling_the_task_cancels_the_call(self) -> None:
        async with self.connect() as rf:
            options = ringfence.CallOptions(callId="long")
            with self.assertRaises(asyncio.TimeoutError):
                call = rf.call("terminal_execute", {"command": "touch begun; sleep 60"}, call_options=options)
                task = asyncio.ensure_future(call)
                await self.until(lambda: asyncio.to_thread((self.workspace / "begun").exists))
                await asyncio.wait_for(task, 0.01)
            await self.until(lambda: self.is_over(rf, "long"))
            self.assertEqual((await rf.record("long"))["state"], {"status": "cancelled"})

    async def is_over(self, rf: ringfence.Client, call_id: str) -> bool:
        return (await rf.record(call_id))["state"]["status"] not in ("queued", "in-progress")

    async def test_a_detached_call_goes_on_and_its_result_is_found_by_its_id(self) -> None:
        command = "until [ -e go ]; do sleep 0.01; done; echo over"
        async with self.connect() as rf:
            call_id = await rf.detach("terminal_execute", command=command)
        (self.workspace / "go").touch()
        async with self.connect() as rf:
            self.assertEqual((await rf.result(call_id)).unwrap()["stdout"], "over\n")
            self.assertEqual([it.data async for it in rf.output(call_id)], [b"over\n"])
            with self.assertRaises(ringfence.RemoteError):
                await rf.result("never")

    async def test_a_batch_runs_in_the_order_of_its_references_and_tells_each_result(self) -> None:
        calls = [
            {"id": "made", "tool": "file_write", "input": {"path": "batch.txt", "content": "one\n"}},
            {"id": "read", "tool": "file_read", "input": {"path": "${made.data.path}"}},
        ]
        told: list[str] = []
        async with self.connect() as rf:
            self.assertEqual((await rf.plan(calls))["levels"], [["made"], ["read"]])
            batch = await rf.batch(calls, on_result=lambda id, result: told.append(id))
            self.assertTrue(batch.success)
            self.assertEqual(batch.results[1].unwrap()["content"], "one\n")
            self.assertEqual(told, ["made", "read"])

    async def test_a_change_is_undone(self) -> None:
        async with self.connect() as rf:
            written = await rf.file_write(path="undone.txt", content="x")
            self.assertEqual((await rf.undo(written.call_id))["restored"], ["undone.txt"])
            self.assertFalse((self.workspace / "undone.txt").exists())

    async def test_tools_and_messages_for_a_model(self) -> None:
        async with self.connect() as rf:
            names = [it["function"]["name"] for it in await rf.tools("openai-chat")]
            self.assertIn("file_read", names)
            result = await rf.call("terminal_execute", command="echo out; echo err >&2; exit 3")
            message = ringfence.to_tool_message("openai-chat", "t1", result)
            self.assertEqual(message, {"role": "tool", "tool_call_id": "t1", "content": "out\n\nstderr:\nerr\n\n[exit code 3]"})
            refused = ringfence.to_tool_message("anthropic", "t2", await rf.call("file_read", path=".env"))
            self.assertTrue(refused["is_error"] and refused["content"].startswith("SENSITIVE_FILE: "))

    async def test_a_refused_request_says_which_rule_of_the_protocol(self) -> None:
        async with self.connect() as rf:
            with self.assertRaises(ringfence.RemoteError) as raised:
                await rf.request("approvals.list")
            self.assertEqual((raised.exception.code, raised.exception.name), (-32004, "FORBIDDEN"))

    async def test_without_a_daemon_it_says_what_to_do(self) -> None:
        with self.assertRaisesRegex(ringfence.Disconnected, "ringfence serve --detach"):
            await self.connect(socket=self.workspace / "none.sock", autostart=False)


class WithoutAsyncio(unittest.TestCase):
    def test_the_same_client_for_programs_without_a_loop(self) -> None:
        workspace = DaemonCase.workspace
        (workspace / "sync.txt").write_text("sync\n")
        with ringfence.connect_sync(workspace, socket=given("SOCKET")) as rf:
            self.assertEqual(rf.file_read(path="sync.txt").unwrap()["content"], "sync\n")
            stream = rf.stream("terminal_execute", command="echo a; echo b")
            self.assertEqual(b"".join(it.data for it in stream), b"a\nb\n")
            self.assertTrue(stream.result().success)
            read: list[str] = []
            def read_one() -> None:
                read.append(rf.call("file_read", path="sync.txt").unwrap()["content"])

            threads = [threading.Thread(target=read_one) for _ in range(8)]
            for it in threads:
                it.start()
            for it in threads:
                it.join()
            self.assertEqual(read, ["sync\n"] * 8)
            call_id = rf.detach("terminal_execute", command="echo later")
            self.assertEqual(rf.result(call_id).unwrap()["stdout"], "later\n")
        self.assertNotIn("ringfence", [it.name for it in threading.enumerate()])
