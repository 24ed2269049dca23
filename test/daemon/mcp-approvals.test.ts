/** Approvals for calls of MCP clients: at the client, if it can ask its person, and everywhere else. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client as Operator } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';
import { connectMcp, ERAS, type Era, RawMcp, textOf } from '../support/mcp.ts';

/** Asks about commands. */
const ASKS = 'tiers:\n  execute: { decision: ask, reason: A person should see it. }\n';

let daemon: OpenDaemon;
let operator: Operator;
beforeAll(async () => {
  daemon = await openDaemon({ policy: ASKS, limits: { mcpApprovalWaitMs: 1_000, mcpProgressMs: 100 } });
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

interface Asked {
  readonly message: string;
}
type Reply = { action: 'accept' | 'decline' | 'cancel'; content?: Record<string, string> };

/** A client whose person gives this reply. */
const asking = (era: Era, reply: (asked: Asked, signal: AbortSignal) => Reply | Promise<Reply>) =>
  connectMcp(daemon, {
    era,
    client: { capabilities: { elicitation: { form: {} } } },
    prepare: (client) =>
      client.setRequestHandler('elicitation/create', ({ params }, { mcpReq }) => reply(params as Asked, mcpReq.signal)),
  });

let nextCommand = 0;
/** A command that no test has used before. */
const freshCommand = () => `touch made && echo ran-${nextCommand++}`;
const outputOf = (command: string) => command.split(' ').at(-1) as string;
const run = (client: Client, command: string) => client.callTool({ name: 'terminal_execute', arguments: { command } });
const pending = async () =>
  (
    (await operator.request('approvals.list', {})) as {
      approvals: { approvalId: string; input: { command: string } }[];
    }
  ).approvals;
const allow = (decision: string, note?: string): Reply => ({
  action: 'accept',
  content: { decision, ...(note !== undefined && { note }) },
});

describe.each(ERAS)('a client of the %s era that can ask its person', (era: Era) => {
  test('asks with all that matters, and a yes runs the call, once', async () => {
    const asked: string[] = [];
    await using client = await asking(era, ({ message }) => {
      asked.push(message);
      return allow('allow_once');
    });
    const command = freshCommand();
    expect(textOf(await run(client, command))).toContain(outputOf(command));
    expect(textOf(await run(client, command))).toContain(outputOf(command));
    expect(asked).toHaveLength(2);
    expect(asked[0]).toMatch(/^\$ touch made && echo ran-\d+\n.* in .* · a_\w+ · .* left\n.*A person should see it/s);
  });

  test('a yes for the session is not asked for again', async () => {
    let asked = 0;
    await using client = await asking(era, () => {
      asked += 1;
      return allow('allow_session');
    });
    const command = freshCommand();
    await run(client, command);
    expect(textOf(await run(client, command))).toContain(outputOf(command));
    expect(asked).toBe(1);
  });

  test.each<[string, Reply]>([
    ['a no', allow('deny', 'not today')],
    ['a dialog that is closed', { action: 'cancel' }],
    ['a refusal to answer', { action: 'decline' }],
    ['an answer that is none', allow('please')],
  ])('%s denies the call', async (_, reply) => {
    await using client = await asking(era, () => reply);
    const result = await run(client, freshCommand());
    expect(result).toMatchObject({
      isError: true,
      _meta: { 'ringfence/call': { error: { code: 'APPROVAL_DENIED' } } },
    });
    if (reply.content?.note) expect(textOf(result)).toContain('not today');
  });

  test('the record names the person who said yes, as the client identifies them', async () => {
    await using client = await asking(era, () => allow('allow_once'));
    await run(client, freshCommand());
    const { entries } = (await operator.request('audit.query', { kind: 'approval', limit: 5 })) as unknown as {
      entries: { detail: { event: string; by?: string } }[];
    };
    const resolved = entries.find(({ detail }) => detail.event === 'resolved');
    expect(resolved?.detail.by).toMatch(/^mcp test 1 of uid:\d+$/);
  });
});

describe.each(ERAS)('a client of the %s era that can not ask', (era: Era) => {
  test('hears which approval waits and what answers it, and the same call made again takes the answer, once', async () => {
    await using client = await connectMcp(daemon, { era });
    const command = freshCommand();
    const first = await run(client, command);
    const [, approvalId = ''] = /ringfence approvals approve (a_[0-9a-f]{12})/.exec(textOf(first)) ?? [];
    expect(first).toMatchObject({
      isError: true,
      _meta: { 'ringfence/call': { error: { code: 'APPROVAL_TIMEOUT', details: { approvalId } } } },
    });
    expect(textOf(first)).toMatch(/about which rule `[\w.-]+` asks: \S/);
    await operator.request('approvals.resolve', { approvalId, decision: 'approve' });
    expect(textOf(await run(client, command))).toContain(outputOf(command));
    expect((await run(client, command)).isError).toBe(true);
  });

  test('waits again for the same question when it is asked again too early', async () => {
    await using client = await connectMcp(daemon, { era });
    const command = freshCommand();
    await run(client, command);
    const again = run(client, command);
    const mine = (await pending()).filter(({ input }) => input.command === command);
    expect(mine).toHaveLength(1);
    await operator.request('approvals.resolve', { approvalId: mine[0]?.approvalId, decision: 'approve' });
    const result = await again;
    expect(textOf(result.isError ? await run(client, command) : result)).toContain(outputOf(command));
  });

  test('hears that a person is waited for, and never nothing', async () => {
    await using client = await connectMcp(daemon, { era });
    const told: string[] = [];
    const command = freshCommand();
    const onprogress = ({ message = '' }) => void told.push(message);
    await client.callTool({ name: 'terminal_execute', arguments: { command } }, { onprogress });
    // On a busy machine it hears first that the call is under way.
    expect(told).toContainEqual(expect.stringMatching(/^waits for a person: ringfence approvals approve a_/));
  });
});

describe('while the dialog is open', () => {
  test('the first answer counts, and the dialog is closed', async () => {
    let closed = false;
    await using client = await asking('legacy', (_, signal) => {
      return new Promise((resolve) =>
        signal.addEventListener('abort', () => {
          closed = true;
          resolve({ action: 'cancel' });
        }),
      );
    });
    const command = freshCommand();
    const call = run(client, command);
    const find = async () => (await pending()).find(({ input }) => input.command === command);
    await until(async () => (await find()) !== undefined);
    await operator.request('approvals.resolve', { approvalId: (await find())?.approvalId, decision: 'approve' });
    expect(textOf(await call)).toContain(outputOf(command));
    await until(() => closed);
  });

  test('a call ends before its client gives up, and a late yes is for the same call made again', async () => {
    const answer = Promise.withResolvers<Reply>();
    let asked = 0;
    await using client = await asking('legacy', () => {
      asked += 1;
      return answer.promise;
    });
    const command = freshCommand();
    expect((await run(client, command)).isError).toBe(true);
    answer.resolve(allow('allow_once'));
    await until(async () => !(await pending()).some(({ input }) => input.command === command));
    expect(textOf(await run(client, command))).toContain(outputOf(command));
    expect(asked).toBe(1);
  });

  test('calls of a batch and of a program are asked about like any other', async () => {
    const asked: string[] = [];
    await using client = await asking('legacy', ({ message }) => {
      asked.push(message);
      return allow(message.includes('code_run') || message.includes('ran-') ? 'allow_once' : 'deny');
    });
    const calls = [
      { id: 'a', tool: 'terminal_execute', input: { command: freshCommand() } },
      { id: 'b', tool: 'terminal_execute', input: { command: 'touch no' } },
    ];
    const batch = textOf(await client.callTool({ name: 'ringfence_batch', arguments: { calls } }));
    expect(batch).toMatch(/## a: terminal_execute ok\nran-.*## b: terminal_execute failed\nAPPROVAL_DENIED/s);
    const code = `return (await tools.terminal_execute({ command: '${freshCommand()}' })).stdout`;
    const program = await client.callTool({ name: 'code_run', arguments: { code } });
    expect(textOf(program)).toMatch(/ran-/);
    expect(asked.length).toBeGreaterThanOrEqual(3);
  });
});

describe('an answer of the modern era, from a client that lies', () => {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'liar', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': { elicitation: { form: {} } },
  };
  const ask = (raw: RawMcp, command: string, more: object = {}) =>
    raw.request('tools/call', { name: 'terminal_execute', arguments: { command }, _meta: meta, ...more });
  const yes = { inputResponses: { approval: { action: 'accept', content: { decision: 'allow_once' } } } };

  test('an answer counts for the very call that was asked about, and for no other', async () => {
    using raw = await RawMcp.open(daemon);
    const { result } = await ask(raw, freshCommand());
    expect(result).toMatchObject({ resultType: 'input_required' });
    const { requestState } = result as { requestState: string };
    const other = await ask(raw, 'touch other', { ...yes, requestState });
    expect(other.result).toMatchObject({ resultType: 'input_required' });
  });

  test('an answer does not count for the same call in another folder', async () => {
    mkdirSync(join(daemon.workspace, 'sub'));
    using raw = await RawMcp.open(daemon);
    using elsewhere = await RawMcp.open(daemon);
    elsewhere.send({ method: 'notifications/ringfence/open', params: { workspace: join(daemon.workspace, 'sub') } });
    const command = freshCommand();
    const { requestState } = (await ask(raw, command)).result as { requestState: string };
    const there = await ask(elsewhere, command, { ...yes, requestState });
    expect(there.result).toMatchObject({ resultType: 'input_required' });
    expect((await pending()).filter(({ input }) => input.command === command)).toHaveLength(2);
  });

  test('an answer whose state was changed, made up or left out does not count', async () => {
    using raw = await RawMcp.open(daemon);
    const command = freshCommand();
    const { result } = await ask(raw, command);
    const { requestState } = result as { requestState: string };
    for (const wrong of [`${requestState.slice(0, -2)}xx`, 'v1.e30.e30'])
      expect((await ask(raw, command, { ...yes, requestState: wrong })).error).toMatchObject({ code: -32602 });
    expect((await ask(raw, command, yes)).result).toMatchObject({ resultType: 'input_required' });
  });

  test('an answer counts once: given twice, it runs the call one time', async () => {
    using raw = await RawMcp.open(daemon);
    const command = freshCommand();
    const { requestState } = (await ask(raw, command)).result as { requestState: string };
    expect((await ask(raw, command, { ...yes, requestState })).result).toMatchObject({ resultType: 'complete' });
    expect((await ask(raw, command, { ...yes, requestState })).result).toMatchObject({ resultType: 'input_required' });
  });
});
