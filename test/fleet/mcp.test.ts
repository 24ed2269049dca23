/** MCP at a gateway: the SDK's client and raw text, on nodes that the gateway placed. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OPEN_METHOD } from '../../src/faces/mcp/bridge-messages.ts';
import type { TestDaemon } from '../support/daemon.ts';
import { linkOf, noBus, TestFleet } from '../support/fleet.ts';
import { connectMcp, ERAS, type Era, type McpOptions, mcpSocketOf, RawMcp } from '../support/mcp.ts';

const ASK = `
rules:
  - { id: notes, match: { write: "notes/**" }, decision: ask, reason: Notes are the person's. }
`;

describe.skipIf(noBus !== undefined)(`MCP at a gateway${noBus ? ` (${noBus})` : ''}`, () => {
  let fleet: TestFleet;
  let a: TestDaemon;
  let socket: string;
  beforeAll(async () => {
    fleet = await TestFleet.start();
    a = await fleet.node('node-a', { policy: ASK });
    socket = await fleet.gateway();
    // The node asks for a newer roster every ten seconds; before, it does not know the gateway.
    const refusal = () => onA('legacy').then((it) => it.close(), String);
    while ((await refusal()) !== undefined) await sleep(500);
  }, 240_000);
  afterAll(() => fleet?.[Symbol.asyncDispose]());

  const onA = (era: Era, ...args: string[]) => {
    const options: McpOptions = { era, args: ['--workspace', `node-a:${a.workspace}`, ...args] };
    return connectMcp({ socket, workspace: '' }, options);
  };
  const textOf = (result: object) => JSON.stringify(result);

  test.each(ERAS)('an ordinary client (%s) lists tools and calls them on the node', async (era) => {
    writeFileSync(join(a.workspace, 'here.txt'), 'on the node');
    await using client = await onA(era);
    expect((await client.listTools()).tools.map((it) => it.name)).toContain('file_read');
    const read = await client.callTool({ name: 'file_read', arguments: { path: 'here.txt' } });
    expect(textOf(read)).toContain('on the node');
    const outside = await client.callTool({ name: 'file_read', arguments: { path: '/etc/shadow' } });
    expect(outside.isError).toBe(true);
  });

  test('a client gets only the tools that it chose', async () => {
    await using client = await onA('legacy', '--read-only', '--tools', 'file_*');
    const names = (await client.listTools()).tools.map((it) => it.name);
    expect(names).toContain('file_read');
    expect(names).not.toContain('file_write');
    expect(names).not.toContain('terminal_execute');
  });

  test('MCP calls at a gateway are those of a fleet session, and no answer of its person counts on the node', async () => {
    let asked = 0;
    await using client = await connectMcp(
      { socket, workspace: '' },
      {
        args: ['--workspace', `node-a:${a.workspace}`],
        client: { capabilities: { elicitation: {} } },
        prepare: (it) =>
          it.setRequestHandler('elicitation/create', () => {
            asked += 1;
            return { action: 'accept' as const, content: { answer: 'approve' } };
          }),
      },
    );
    const call = client.callTool({ name: 'file_write', arguments: { path: 'notes/a.md', content: 'x' } });
    const questions = () => fleet.json<{ approvalId: string }[]>('approvals list');
    await expect.poll(questions).toHaveLength(1);
    expect(existsSync(join(a.workspace, 'notes/a.md'))).toBe(false);
    const [{ approvalId } = { approvalId: '' }] = await questions();
    expect((await fleet.cli('approvals approve', approvalId)).code).toBe(0);
    expect((await call).isError ?? false).toBe(false);
    expect(asked).toBe(0);
    await using operator = await a.connect({ role: 'operator' });
    const { entries } = (await operator.request('audit.query', { tool: 'file_write', limit: 5 })) as {
      entries: object[];
    };
    expect(JSON.stringify(entries)).toContain('"fleet"');
  });

  test('a client whose workspace is refused is told why', async () => {
    const refused = (workspace: string) =>
      connectMcp({ socket, workspace: '' }, { args: ['--workspace', workspace] }).then(() => 'open', String);
    expect(await refused('node-z:/tmp')).toContain('node node-z is not there');
    expect(await refused('node-a:/etc')).toContain('/etc');
  });

  test('a call whose node is lost is answered as unknown, and nothing of it runs later', async () => {
    using raw = new RawMcp(mcpSocketOf({ socket }));
    raw.send({ method: OPEN_METHOD, params: { workspace: `node-a:${a.workspace}` } });
    await raw.request('initialize', INITIALIZE);
    raw.send({ method: 'notifications/initialized' });
    await raw.request('tools/call', { name: 'file_list', arguments: {} });
    const link = linkOf(a);
    for (const pid of [link, a.pid]) process.kill(pid, 'SIGSTOP');
    try {
      const command = 'echo x >> zombie.txt';
      const lost = await raw.request('tools/call', { name: 'terminal_execute', arguments: { command } });
      expect(lost.result).toMatchObject({
        isError: true,
        _meta: { 'ringfence/call': { error: { code: 'HOST_CRASHED', details: { outcome: 'unknown' } } } },
      });
    } finally {
      await sleep(1_500);
      for (const pid of [link, a.pid]) process.kill(pid, 'SIGCONT');
    }
    await expect
      .poll(async () => {
        await using client = await onA('legacy');
        return (await client.callTool({ name: 'file_list', arguments: {} })).isError ?? false;
      })
      .toBe(false);
    expect(existsSync(join(a.workspace, 'zombie.txt'))).toBe(false);
  });

  test.each([
    ['the token of the operator', 'operator.token'],
    ['the token of an agent', 'agent.token'],
  ])('%s opens nothing at the MCP socket of a node', async (_, file) => {
    const token = readFileSync(join(a.stateDir, file), 'utf8').trim();
    using raw = new RawMcp(mcpSocketOf(a));
    raw.send({ method: OPEN_METHOD, params: { token } });
    const answer = await raw.request('initialize', INITIALIZE);
    expect(answer.error?.message).toContain('not one of a session of the fleet');
  });

  test('a client of the gateway can neither bring a token nor open its session a second time', async () => {
    using raw = new RawMcp(mcpSocketOf({ socket }));
    raw.send({ method: OPEN_METHOD, params: { token: 'x' } });
    expect((await raw.request('initialize', INITIALIZE)).error?.message).toContain('token');
    using twice = new RawMcp(mcpSocketOf({ socket }));
    const params = { workspace: `node-a:${a.workspace}` };
    twice.send({ method: OPEN_METHOD, params });
    twice.send({ method: OPEN_METHOD, params });
    expect((await twice.request('initialize', INITIALIZE)).error?.message).toContain('must be the first request');
  });
});

const INITIALIZE = {
  protocolVersion: '2025-06-18',
  capabilities: {},
  clientInfo: { name: 'raw', version: '1' },
};
