/** The MCP server through the SDK's own client, in both eras. */
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  type OpenDaemon,
  openDaemon,
  processesWith,
  ringfence,
  startDaemon,
  type TestDaemon,
  temporaryDir,
  until,
} from '../support/daemon.ts';
import { connectMcp, ERAS, type Era, mcpSocketOf, RawMcp, textOf } from '../support/mcp.ts';
import { addPlugin, writePlugin } from '../support/plugin.ts';

let daemon: TestDaemon;
beforeAll(async () => {
  daemon = await startDaemon();
});
afterAll(() => daemon[Symbol.asyncDispose]());
beforeEach(() => writeFileSync(join(daemon.workspace, 'notes.txt'), 'first\nsecond\n'));

describe.each(ERAS)('a client of the %s era', (era: Era) => {
  const connect = (args?: string[]) => connectMcp(daemon, { era, ...(args && { args }) });

  test('lists tools that say all four hints, by its tiers, within 25 tools and 16 KB, the same bytes each time', async () => {
    await using client = await connect();
    const { tools } = await client.listTools();
    const bytes = Buffer.byteLength(JSON.stringify(tools));
    expect(tools.length).toBeLessThanOrEqual(25);
    expect(bytes).toBeLessThanOrEqual(16_000);
    const hints = (name: string) => tools.find((it) => it.name === name)?.annotations;
    expect(hints('file_read')).toEqual({
      readOnlyHint: true,
      destructiveHint: false,
      idempotentHint: true,
      openWorldHint: false,
    });
    expect(hints('terminal_execute')).toEqual({
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: false,
      openWorldHint: true,
    });
    for (const { name, annotations, inputSchema, title, description } of tools) {
      expect(name).toMatch(/^[a-z][a-z0-9_]{1,39}$/);
      expect(Object.values(annotations ?? {}).filter((it) => typeof it === 'boolean')).toHaveLength(4);
      expect(inputSchema).toMatchObject({ type: 'object', additionalProperties: false });
      expect(title && description).toBeTruthy();
    }
    await using other = await connect();
    expect(JSON.stringify((await other.listTools()).tools)).toBe(JSON.stringify(tools));
  });

  test('reads a file as its text, and its facts behind it where details are asked for', async () => {
    await using client = await connect();
    const { content, isError } = await client.callTool({ name: 'file_read', arguments: { path: 'notes.txt' } });
    expect(isError).toBeUndefined();
    expect(content).toEqual([{ type: 'text', text: 'first\nsecond\n' }]);
    const detailed = await client.callTool({ name: 'file_read', arguments: { path: 'notes.txt', details: true } });
    const [text, facts] = detailed.content as { text: string }[];
    expect(text).toEqual({ type: 'text', text: 'first\nsecond\n' });
    expect(JSON.parse(facts?.text ?? '')).toMatchObject({
      lines: 2,
      size: 13,
      hash: expect.stringMatching(/^sha256:/),
    });
  });

  test('says nothing twice: a result is text alone, modes and times only where details are asked for', async () => {
    await using client = await connect();
    const list = (more = {}) => client.callTool({ name: 'file_list', arguments: { pattern: 'notes.*', ...more } });
    const result = await list();
    expect(result.structuredContent).toBeUndefined();
    expect(textOf(result)).toBe('notes.txt 13');
    const { entries } = JSON.parse(textOf(await list({ details: true }))) as { entries: object[] };
    expect(entries).toMatchObject([{ path: 'notes.txt', mode: expect.any(String), modifiedAt: expect.any(String) }]);
  });

  test('a parameter that there is not is named, and what there is', async () => {
    await using client = await connect();
    const result = await client.callTool({ name: 'file_read', arguments: { path: 'notes.txt', maxLine: 1 } });
    expect(result).toMatchObject({ isError: true, _meta: { 'ringfence/call': { error: { code: 'INPUT_INVALID' } } } });
    expect(result.structuredContent).toBeUndefined();
    expect(textOf(result)).toMatch(/^INPUT_INVALID: .*maxLine.*maxLines/s);
  });

  test('a failed call says its code and what to do', async () => {
    await using client = await connect();
    const result = await client.callTool({ name: 'file_read', arguments: { path: 'note.txt' } });
    expect(result.isError).toBe(true);
    expect(textOf(result)).toMatch(/^NOT_FOUND: /);
  });

  test('a tool that there is not is a fault of the conversation', async () => {
    await using client = await connect();
    await expect(client.callTool({ name: 'file_raed', arguments: {} })).rejects.toMatchObject({
      code: -32602,
      message: expect.stringContaining('file_read'),
    });
  });

  test('a batch gives the results of its calls in their order, whatever depends on what', async () => {
    await using client = await connect();
    const calls = [
      { id: 'copy', tool: 'file_write', input: { path: 'copy.txt', content: '${read.content}', overwrite: true } },
      { id: 'read', tool: 'file_read', input: { path: 'notes.txt' } },
    ];
    const result = await client.callTool({ name: 'ringfence_batch', arguments: { calls } });
    expect(result.isError).toBeUndefined();
    expect(textOf(result)).toMatch(/"successCount":2.*## copy: file_write ok.*## read: file_read ok\nfirst/s);
    expect(readFileSync(join(daemon.workspace, 'copy.txt'), 'utf8')).toBe('first\nsecond\n');
  });

  test('a batch that is not right says where', async () => {
    await using client = await connect();
    const result = await client.callTool({ name: 'ringfence_batch', arguments: { calls: [{ id: 'a' }] } });
    expect(textOf(result)).toMatch(/^INPUT_INVALID: calls\.0\.tool: /);
    expect(result.isError).toBe(true);
  });

  test('a text that is too long is cut, and its resource has the rest', async () => {
    await using client = await connect();
    const lines = Array.from({ length: 20_000 }, (_, at) => `line ${at} äöü`).join('\n');
    writeFileSync(join(daemon.workspace, 'long.txt'), lines);
    const result = await client.callTool({ name: 'file_read', arguments: { path: 'long.txt', maxLines: 20_000 } });
    const blocks = result.content as { type: string; text?: string; uri?: string }[];
    expect(Buffer.byteLength(textOf(result))).toBeLessThan(101_000);
    let uri = blocks.find((it) => it.type === 'resource_link')?.uri;
    let text = blocks[0]?.text ?? '';
    while (uri !== undefined) {
      const { contents } = await client.readResource({ uri });
      const [page] = contents as unknown as { text: string; _meta: { 'ringfence/range': { next?: string } } }[];
      text += page?.text;
      uri = page?._meta['ringfence/range'].next;
    }
    expect(text).toBe(lines);
  });

  test('a resource that there is not is refused with its name', async () => {
    await using client = await connect();
    for (const uri of ['ringfence://result/nope', 'file:///etc/passwd', 'ringfence://result/nope?offset=-1'])
      await expect(client.readResource({ uri })).rejects.toMatchObject({ code: -32602 });
  });

  test('lists of resources and prompts are empty, not missing', async () => {
    await using client = await connect();
    expect((await client.listResources()).resources).toEqual([]);
    expect((await client.listPrompts()).prompts).toEqual([]);
    expect((await client.listResourceTemplates()).resourceTemplates).toHaveLength(1);
  });

  test('a client that wants to read only has nothing else, also by name', async () => {
    await using client = await connect(['--workspace', daemon.workspace, '--read-only']);
    const { tools } = await client.listTools();
    expect(tools.every((it) => it.annotations?.readOnlyHint)).toBe(true);
    await expect(client.callTool({ name: 'file_write', arguments: { path: 'x', content: '' } })).rejects.toThrow(
      /no tool/,
    );
  });

  test('a client has the tools that it names', async () => {
    await using client = await connect(['--workspace', daemon.workspace, '--tools', 'git_*, file_read']);
    const names = (await client.listTools()).tools.map((it) => it.name);
    const gits = ['branch', 'commit', 'diff', 'fetch', 'log', 'pull', 'push', 'show', 'status'];
    expect(names).toEqual(['file_read', ...gits.map((it) => `git_${it}`)]);
    await expect(client.callTool({ name: 'terminal_execute', arguments: { command: 'true' } })).rejects.toThrow(
      /no tool/,
    );
  });

  test.each([
    [['--tools', 'file_raed,zzz*'], /no tool of this session is named file_raed, zzz\*; see: ringfence tools/],
    [['--tools', 'file_write', '--read-only'], /no tool that only reads of this session is named file_write/],
  ])('a client whose names no tool has is told so, not given an empty list: %j', async (more, message) => {
    await using client = await connect(['--workspace', daemon.workspace, ...more]);
    await expect(client.listTools()).rejects.toThrow(message);
  });

  test('a policy that a client asks for narrows what it may do', async () => {
    await using client = await connect(['--workspace', daemon.workspace, '--policy', 'read-only']);
    const result = await client.callTool({ name: 'file_write', arguments: { path: 'x', content: '' } }).catch(String);
    expect(JSON.stringify(result)).toMatch(/POLICY_DENIED|TOOL_DISABLED|no tool/);
    expect(existsSync(join(daemon.workspace, 'x'))).toBe(false);
  });

  test('a call that its client no longer wants ends with all that it started', async () => {
    await using client = await connect();
    const controller = new AbortController();
    const mark = `/tmp/ringfence-mcp-${process.pid}-${era}`;
    const call = client.callTool(
      { name: 'terminal_execute', arguments: { command: `touch started; exec sleep 30 ${mark.length}` } },
      { signal: controller.signal },
    );
    await until(() => existsSync(join(daemon.workspace, 'started')));
    controller.abort();
    await expect(call).rejects.toThrow(/abort/i);
    await using observer = await daemon.connect({ role: 'operator' });
    await until(async () => {
      const { calls } = (await observer.request('status', {})) as { calls: { running: number } };
      return calls.running === 0;
    });
    rmSync(join(daemon.workspace, 'started'));
  });

  test('a call with output is told of while it runs, with progress that only grows', async () => {
    await using client = await connect();
    const told: { progress: number; message?: string | undefined }[] = [];
    const command = 'for i in 1 2 3 4 5 6; do echo "step $i"; sleep 0.15; done';
    const onprogress = (it: (typeof told)[number]) => void told.push(it);
    await client.callTool({ name: 'terminal_execute', arguments: { command } }, { onprogress });
    expect(told.length).toBeGreaterThanOrEqual(2);
    expect(told.length).toBeLessThanOrEqual(5);
    expect(told.map((it) => it.progress)).toEqual(told.map((it) => it.progress).toSorted((a, b) => a - b));
    expect(told[0]?.message).toMatch(/^step \d$/);
  });
});

test.each(ERAS)('a client of the %s era hears when its tools are others', async (era) => {
  const own = await openDaemon();
  const changes: (string[] | null)[] = [];
  const onChanged = (_: unknown, tools: { name: string }[] | null) =>
    void changes.push(tools?.map((it) => it.name) ?? null);
  const client = await connectMcp(own, { era, client: { listChanged: { tools: { onChanged } } } });
  expect((await client.listTools()).tools.map((it) => it.name)).not.toContain('probe__run');
  const source = writePlugin({ files: { 'main.js': 'export const run = () => ({ value: 1 });' } });
  await addPlugin(own, source);
  await until(() => changes.length > 0);
  expect((await client.listTools()).tools.map((it) => it.name)).toContain('probe__run');
  await client.close();
  await own[Symbol.asyncDispose]();
  rmSync(source, { recursive: true });
});

describe('the folder to work in', () => {
  const place = async (client: Awaited<ReturnType<typeof connectMcp>>) =>
    textOf(await client.callTool({ name: 'terminal_execute', arguments: { command: 'cat which' } }))
      .trim()
      .split('\n')[0];
  let two: OpenDaemon;
  let other: string;
  beforeAll(async () => {
    other = temporaryDir('other');
    two = await openDaemon({ args: ['--workspace', other] });
    writeFileSync(join(other, 'which'), 'other\n');
    writeFileSync(join(two.workspace, 'which'), 'first\n');
  });
  afterAll(async () => {
    await two[Symbol.asyncDispose]();
    rmSync(other, { recursive: true });
  });

  test('the folder to work in is the one of --workspace before any other', async () => {
    const env = { CLAUDE_PROJECT_DIR: two.workspace };
    await using client = await connectMcp(two, { args: ['--workspace', other], env });
    expect(await place(client)).toBe('other');
  });

  test('the folder to work in is the project that the client names in its environment', async () => {
    await using client = await connectMcp(two, { args: [], env: { CLAUDE_PROJECT_DIR: other }, cwd: two.workspace });
    expect(await place(client)).toBe('other');
  });

  test('the folder to work in is a root that the client has open, if that is in a workspace of the daemon', async () => {
    await using client = await connectMcp(two, {
      args: [],
      cwd: '/',
      client: { capabilities: { roots: {} } },
      prepare: (it) =>
        it.setRequestHandler('roots/list', () => ({ roots: [{ uri: 'file:///etc' }, { uri: `file://${other}` }] })),
    });
    expect(await place(client)).toBe('other');
  });

  test('the folder to work in is where the client was started, if nothing else names it', async () => {
    await using client = await connectMcp(two, { args: [], cwd: other });
    expect(await place(client)).toBe('other');
  });

  test("a folder outside the daemon's workspaces is refused, and the client hears how to add it", async () => {
    for (const options of [{ args: [], cwd: '/' }, { args: ['--workspace', '/etc'] }])
      await expect(connectMcp(two, options)).rejects.toThrow(/ringfence workspace add/);
  });
});

describe('the bridge', () => {
  const run = (args: string[], input = '', env: Record<string, string> = {}) => {
    const child = spawn(process.execPath, [ringfence, 'mcp', ...args], { env: { PATH: '/usr/bin:/bin', ...env } });
    const told = { stdout: '', stderr: '' };
    child.stdout.on('data', (it) => (told.stdout += it));
    child.stderr.on('data', (it) => (told.stderr += it));
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
    if (input) child.stdin.write(input);
    return { child, told, ended };
  };
  const initialize = `${JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
  })}\n`;

  test('answers what was sent before its input ended, and ends', async () => {
    const { child, told, ended } = run(['--socket', daemon.socket, '--workspace', daemon.workspace], initialize);
    child.stdin.end();
    expect(await ended).toBe(0);
    expect(JSON.parse(told.stdout)).toMatchObject({ id: 1, result: { protocolVersion: '2025-06-18' } });
    expect(told.stderr).toBe('');
  });

  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('ends on %s, and the daemon goes on', async (signal, code) => {
    const { child, told, ended } = run(['--socket', daemon.socket, '--workspace', daemon.workspace], initialize);
    await until(() => told.stdout !== '');
    child.kill(signal);
    expect(await ended).toBe(code);
    expect(daemon.process.exitCode).toBeNull();
  });

  test('ends with the daemon, and says so', async () => {
    const short = await openDaemon();
    const { told, ended } = run(['--socket', short.socket, '--workspace', short.workspace], initialize);
    await until(() => told.stdout !== '');
    await short[Symbol.asyncDispose]();
    expect(await ended).toBe(3);
    expect(told.stderr).toMatch(/the daemon has ended/);
    expect(told.stdout.trim().split('\n')).toHaveLength(1);
  });

  test('without a daemon says how to start one', async () => {
    const { told, ended } = run(['--socket', '/nonexistent/r.sock', '--no-autostart']);
    expect(await ended).toBe(3);
    expect(told.stderr).toMatch(/ringfence serve/);
    expect(told.stdout).toBe('');
  });

  test('refuses an option that there is not', async () => {
    const { told, ended } = run(['--root', '.']);
    expect(await ended).toBe(2);
    expect(told.stderr).toMatch(/--root/);
  });

  test('finds the daemon of a state directory without a word in the environment', async () => {
    expect(JSON.parse(readFileSync(join(daemon.stateDir, 'endpoint.json'), 'utf8'))).toMatchObject({
      pid: daemon.pid,
      mcpSocket: mcpSocketOf(daemon),
    });
    const { child, told, ended } = run(['--state', daemon.stateDir, '--no-autostart'], initialize);
    child.stdin.end();
    expect(await ended).toBe(0);
    expect(told.stdout).toMatch(/error|protocolVersion/);
  });

  test('starts a daemon for its folder, one for all that start at the same time', async () => {
    const state = temporaryDir('state');
    const folder = temporaryDir('ws');
    const args = ['--state', state, '--workspace', folder];
    const bridges = [1, 2, 3].map(() => run(args, initialize, { HOME: '/nonexistent' }));
    await Promise.all(bridges.map(({ told }) => until(() => told.stdout !== '', 30_000)));
    expect(bridges.map(({ told }) => JSON.parse(told.stdout).result.serverInfo.name)).toEqual(
      Array(3).fill('ringfence'),
    );
    const open = bridges.flatMap(({ child }) =>
      readdirSync(`/proc/${child.pid}/fd`).map((it) => readlinkSync(`/proc/${child.pid}/fd/${it}`)),
    );
    expect(open.filter((it) => it.endsWith('daemon.log'))).toEqual([]);
    for (const { child } of bridges) child.stdin.end();
    await Promise.all(bridges.map(({ ended }) => ended));
    execFileSync(process.execPath, [ringfence, 'stop', '--state', state]);
    await until(() => processesWith(state).length === 0);
    for (const it of [state, folder]) rmSync(it, { recursive: true });
  });
});

test('a plain connection to the socket is served, without a word of ours', async () => {
  using raw = await RawMcp.open(daemon);
  expect(await raw.initialize()).toMatchObject({ result: { protocolVersion: '2025-11-25' } });
  const { result } = await raw.request('tools/call', { name: 'file_read', arguments: { path: 'notes.txt' } });
  expect(result).toMatchObject({ content: [{ text: 'first\nsecond\n' }] });
});
