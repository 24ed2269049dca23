/** `web_fetch` and `web_scrape` with a real daemon: its egress process fetches, and a confined host reads. */
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Client as McpClient, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client, ToolResult } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import {
  dataOf,
  type OpenDaemon,
  openDaemon,
  removeTree,
  repository,
  startDaemon,
  temporaryDir,
  until,
} from '../support/daemon.ts';
import { connectMcp } from '../support/mcp.ts';
import { RawPeer } from '../support/raw-peer.ts';

const pages = join(repository, 'test/fixtures/pages');
const LONG = `<title>Long</title><main><p>${'0123456789 '.repeat(1_000)}😀${' abcdefghi'.repeat(100)}</p></main>`;

let daemon: OpenDaemon;
let client: Client;
let server: Server;
let origin: string;

const PAGES: Readonly<Record<string, { type?: string; body: string | Buffer; status?: number }>> = {
  '/article': { type: 'text/html; charset=utf-8', body: readFileSync(join(pages, 'article.html')) },
  '/hidden': { type: 'text/html; charset=utf-8', body: readFileSync(join(pages, 'hidden-text.html')) },
  '/pdf': { type: 'application/pdf', body: readFileSync(join(pages, 'two-pages.pdf')) },
  '/huge': {
    type: 'text/html',
    body: `<main><p>${'Some words of a long page. '.repeat(7_000)}The very end of it.</p></main>`,
  },
  '/long': { type: 'text/html', body: LONG },
  '/json': { type: 'application/json', body: '{"a":[1,2]}' },
  '/image': { type: 'image/png', body: Buffer.from('89504e470d0a1a0aff', 'hex') },
  '/gone': { type: 'text/html', body: '<h1>It is gone</h1>', status: 410 },
  // The parser takes seconds for it, which no test waits for: the host's thread is ended.
  '/slow': { type: 'text/html', body: `${'<b>'.repeat(2_000)}${'</x>'.repeat(1_000_000)}` },
};

/** The settings of the daemons; the server must be there before. */
const SETTINGS = () => ({
  policy: `
tiers:
  execute: { decision: allow }
  external_api: { decision: allow, network: { allow: ["${new URL(origin).host}"] } }
approvals: { headless: deny }
rules:
  - id: after-the-web
    match: { session.sawUntrusted: true, tier: execute }
    decision: ask
    reason: The session has read text of strangers.
    examples: { match: ['ls'] }
`,
  limits: { pageCpuMs: 1_000, resumeMaxMs: 30_000 },
});

beforeAll(async () => {
  server = createServer((request, response) => {
    const { url = '' } = request;
    if (url === '/never') return;
    if (url === '/echo') {
      const { method, headers } = request;
      void text(request).then((body) => {
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ method, headers, body }));
      });
      return;
    }
    if (url === '/moved') return void response.writeHead(302, { location: '/article' }).end();
    const { type, body, status = 200 } = PAGES[url] ?? { body: 'none', status: 404 };
    response.writeHead(status, type === undefined ? {} : { 'content-type': type }).end(body);
  });
  await new Promise<void>((ready) => void server.listen(0, '127.0.0.1', ready));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  origin = `http://${host}`;
  daemon = await openDaemon(SETTINGS());
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  server.close();
});

const call = (tool: string, input: object, of = client): Promise<ToolResult> =>
  of.call(tool as string, input as never) as Promise<ToolResult>;
const fetched = (path: string, more: object = {}) =>
  dataOf(call('web_fetch', { url: `${origin}${path}`, ...more })) as Promise<Record<string, unknown>>;
const failure = async (path: string, more: object = {}) => {
  const result = await call('web_fetch', { url: `${origin}${path}`, ...more });
  if (result.success) throw new Error('it did not fail');
  return result.error;
};

describe('web_fetch', () => {
  test('gives the Markdown of a page, with what is known of it', async () => {
    const { content, fetchedAt, ...data } = await fetched('/moved');
    expect(content).toMatch(/^\[The Daily Kettle\]\(http:\/\/127\.0\.0\.1:\d+\/\)\n\n# How kettles work\n/);
    expect(Date.parse(fetchedAt as string)).toBeGreaterThan(Date.now() - 60_000);
    expect(data).toEqual({
      title: 'How kettles work — The Daily Kettle',
      language: 'en-GB',
      contentType: 'text/html; charset=utf-8',
      status: 200,
      finalUrl: `${origin}/article`,
      truncated: false,
      notes: [],
      cached: 'no',
      trust: 'untrusted',
    });
  });

  test('reads in a host without workspace and network, which status lists', async () => {
    const result = await call('web_fetch', { url: `${origin}/article` });
    const { hosts } = (await client.request('status', {})) as { hosts: { tier: string; pid: number }[] };
    expect(hosts).toContainEqual(expect.objectContaining({ tier: 'external_api', pid: result.metadata.hostPid }));
    const mounts = readFileSync(`/proc/${result.metadata.hostPid}/mountinfo`, 'utf8');
    expect(mounts).not.toContain(daemon.workspace);
    expect(readFileSync(`/proc/${result.metadata.hostPid}/net/dev`, 'utf8').match(/^ *\w+:/gm)).toEqual(['    lo:']);
  });

  test('says inside the content what was cut, and goes on there', async () => {
    const whole = (await fetched('/long')).content as string;
    const first = await fetched('/long', { maxChars: 5_000 });
    expect(first).toMatchObject({ truncated: true, nextOffset: 5_000 });
    expect(whole.length).toBe(12_002);
    const said = '[…cut at 5 000 of 12 002 characters; call again with offset=5000]';
    expect(first.content).toBe(`${whole.slice(0, 5_000)}\n\n${said}`);
    const rest = await fetched('/long', { offset: 5_000 });
    expect(rest).toMatchObject({ truncated: false, content: whole.slice(5_000) });
    expect(rest.nextOffset).toBeUndefined();
    expect(await failure('/long', { offset: 1_000_000 })).toMatchObject({ code: 'INPUT_INVALID' });
  });

  test('never cuts within a character', async () => {
    const at = ((await fetched('/long')).content as string).indexOf('😀') + 1;
    const { content, nextOffset } = await fetched('/long', { maxChars: at });
    expect(nextOffset).toBe(at - 1);
    expect(content).not.toMatch(/[\ud800-\udfff](?![\udc00-\udfff])/);
    expect((await fetched('/long', { offset: at, maxChars: 2 })).content).toMatch(/^😀\n\n\[…cut/u);
  });

  test('reads PDFs and JSON, and a page that says that it is gone', async () => {
    expect((await fetched('/pdf')).content).toContain('## Page 2\n\nSecond page text');
    expect((await fetched('/json', { format: 'json' })).content).toBe('{\n  "a": [\n    1,\n    2\n  ]\n}');
    expect(await fetched('/gone')).toMatchObject({
      status: 410,
      content: '# It is gone',
      notes: ['the server answered with the status 410'],
    });
  });

  test('refuses what it can not read, and hosts that are not listed', async () => {
    expect(await failure('/image')).toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('image/png'),
    });
    expect(await failure('/article', { selector: 'h7' })).toMatchObject({ code: 'NOT_FOUND' });
    expect((await call('web_fetch', { url: 'http://169.254.169.254/' })).success).toBe(false);
    expect((await call('web_fetch', { url: 'http://2130706433:1/' })).success).toBe(false);
  });

  test('a page that takes too long costs its own call only', async () => {
    const [slow, other] = await Promise.all([failure('/slow'), fetched('/article')]);
    expect(slow).toMatchObject({ code: 'CPU_LIMIT' });
    expect(other.title).toContain('kettles');
    expect((await fetched('/article')).status).toBe(200);
  });

  test('goes by the name webfetch, too', async () => {
    expect(await call('webfetch', { url: `${origin}/json`, format: 'text' })).toMatchObject({
      tool: 'web_fetch',
      data: { content: '{"a":[1,2]}' },
    });
  });

  test('webfetch sends a method, headers and a body, and follows no redirect unless told to', async () => {
    const sent = { method: 'POST', headers: { 'X-Kind': 'tea' }, body: { cups: 2 }, timeout: 20_000 };
    const { data } = (await call('webfetch', { url: `${origin}/echo`, format: 'json', ...sent })) as {
      data?: { content: string };
    };
    expect(JSON.parse(data?.content ?? '')).toMatchObject({
      method: 'POST',
      body: '{"cups":2}',
      headers: { 'x-kind': 'tea', 'content-type': 'application/json' },
    });
    expect(await call('webfetch', { url: `${origin}/moved`, followRedirects: false })).toMatchObject({
      data: { status: 302, finalUrl: `${origin}/moved` },
    });
    expect(await call('webfetch', { url: `${origin}/never`, timeout: 300 })).toMatchObject({
      error: { code: 'TIMEOUT' },
    });
  });
});

test('webfetch that sends something is held by the rules about http_request, and by a toolset without it', async () => {
  const { policy } = SETTINGS();
  const rule = '  - { id: no-posts, match: { tool: http_request }, decision: deny, reason: Nothing is sent. }\n';
  await using ruled = await openDaemon({
    policy: policy + rule,
    config: { modes: { look: { tools: ['web_fetch'] } } },
  });
  await using caller = await ruled.connect();
  const [url, body] = [`${origin}/echo`, 'x'];
  expect(await call('webfetch', { url, method: 'POST', body }, caller)).toMatchObject({
    error: { code: 'POLICY_DENIED', rule: 'no-posts' },
  });
  expect(await call('webfetch', { url }, caller)).toMatchObject({ success: true });
  await using looking = await ruled.connect({ mode: 'look' });
  expect(await call('webfetch', { url, headers: { 'X-A': 'b' } }, looking)).toMatchObject({
    error: { code: 'TOOL_NOT_FOUND' },
  });
  expect(await call('webfetch', { url }, looking)).toMatchObject({ success: true });
});

test('web_scrape gives values by selectors, and what is missing', async () => {
  const selectors = { title: 'h1', links: { css: 'main a', attr: 'href', all: true }, price: '.price' };
  const data = await dataOf(call('web_scrape', { url: `${origin}/article`, selectors }));
  expect(data).toMatchObject({
    data: {
      title: 'How kettles work',
      links: [`${origin}/authors/ann`, '#heat', `${origin}/physics/heat?unit=kJ&lang=en`],
    },
    missing: ['price'],
    trust: 'untrusted',
  });
});

const QUESTION = { tool: 'terminal_execute', input: { command: 'true' } };

/** Takes the marks of earlier tests away, as a person does. */
async function clearMarks(of: OpenDaemon, asked: object = {}): Promise<Record<string, unknown>[]> {
  await using operator = await of.connect({ role: 'operator' });
  const { marks } = (await operator.request('approvals.untrusted', { clear: true, ...asked })) as {
    marks: Record<string, unknown>[];
  };
  return marks;
}

describe('a session that has read the web', () => {
  beforeEach(() => clearMarks(daemon));

  test('needs a yes where a rule says so, and one that has not does not', async () => {
    await using fresh = await daemon.connect();
    expect(await call('terminal_execute', { command: 'true' }, fresh)).toMatchObject({ success: true });
    expect(await fresh.request('policy.explain', QUESTION)).toMatchObject({ decision: 'allow' });
    expect(await fresh.request('policy.explain', { ...QUESTION, sawUntrusted: true })).toMatchObject({
      decision: 'ask',
    });
    await call('web_fetch', { url: `${origin}/article` }, fresh);
    expect(await fresh.request('policy.explain', QUESTION)).toMatchObject({
      decision: 'ask',
      rules: [{ id: 'after-the-web' }, expect.anything()],
    });
    expect(await call('terminal_execute', { command: 'true' }, fresh)).toMatchObject({ success: false });
  });

  test('marks its principal in the workspace, also for later sessions, until a person clears that', async () => {
    await using reader = await daemon.connect();
    await using beside = await daemon.connect();
    await call('web_fetch', { url: `${origin}/article` }, reader);
    await reader[Symbol.asyncDispose]();
    await using later = await daemon.connect();
    for (const it of [beside, later])
      expect(await it.request('policy.explain', QUESTION)).toMatchObject({ decision: 'ask' });
    expect(await clearMarks(daemon, { workspace: '/elsewhere' })).toEqual([]);
    const { stdout } = await runCli(daemon, ['approvals', 'untrusted', '--clear']);
    expect(stdout).toMatch(/^uid:\d+ in .+: web_fetch at 20.+, call .+\n$/);
    expect(await later.request('policy.explain', QUESTION)).toMatchObject({ decision: 'allow' });
    expect((await runCli(daemon, ['approvals', 'untrusted'])).stdout).toBe('');
    await expect(later.request('approvals.untrusted', { clear: true })).rejects.toMatchObject({ code: -32004 });
  });

  test('marks MCP clients after their idle session has ended, too', async () => {
    await using quick = await openDaemon({
      ...SETTINGS(),
      args: ['--listen-http', '0'],
      limits: { mcpSessionIdleMs: 50 },
    });
    const { callTool } = await mcpOverHttp(quick);
    await callTool('web_fetch', { url: `${origin}/article` });
    await using operator = await quick.connect({ role: 'operator' });
    const sessions = async () => ((await operator.request('status', {})) as { sessions: number }).sessions;
    await until(async () => (await sessions()) === 1);
    expect(await callTool('terminal_execute', { command: 'true' })).toMatchObject({ isError: true });
  });

  test('passes its mark on to who reads its detached result in another workspace', async () => {
    const elsewhere = temporaryDir('ws');
    await using two = await openDaemon({ ...SETTINGS(), args: ['--workspace', elsewhere] });
    await using reader = await two.connect();
    await using other = await two.connect({ workspace: elsewhere });
    const options = { callId: 'left', detached: true };
    await reader.call('web_fetch', { url: `${origin}/article` } as never, options);
    await reader[Symbol.asyncDispose]();
    expect(await other.request('policy.explain', QUESTION)).toMatchObject({ decision: 'allow' });
    await other.request('calls.get', { callId: 'left' });
    expect(await other.request('policy.explain', QUESTION)).toMatchObject({ decision: 'ask' });
    removeTree(elsewhere);
  });

  test('a resumed session that has read the web still counts as such', async () => {
    const { sessionId, secret } = await sessionThatRead(daemon);
    expect(await decisionOf(daemon, { sessionId, secret })).toMatchObject({ decision: 'ask' });
  });

  test('a mark holds when another daemon has come, for sessions that it resumes and for new ones', async () => {
    const [stateDir, workspace] = [temporaryDir('state'), temporaryDir('ws')];
    const first = await startDaemon({ ...SETTINGS(), stateDir, workspace });
    const { sessionId, secret } = await sessionThatRead(first);
    const untouched = await openSession(first);
    first.process.kill('SIGKILL');
    await first.ended;
    {
      await using second = await openDaemon({ ...SETTINGS(), stateDir, workspace });
      expect(await decisionOf(second, { sessionId, secret })).toMatchObject({ decision: 'ask' });
      expect(await decisionOf(second, untouched)).toMatchObject({ decision: 'ask' });
      await clearMarks(second);
      expect(await decisionOf(second, untouched)).toMatchObject({ decision: 'allow' });
    }
    for (const it of [stateDir, workspace]) removeTree(it);
  });
});

describe('an MCP client', () => {
  test('gets the rest of a page in the envelope, too', async () => {
    await using mcp = await connectMcp(daemon, { args: ['--workspace', daemon.workspace, '--tools', 'web_fetch'] });
    const fetchIt = { name: 'web_fetch', arguments: { url: `${origin}/huge`, maxChars: 200_000 } };
    const { content } = (await mcp.callTool(fetchIt)) as { content: { type: string; text?: string; uri?: string }[] };
    const begin = content[0]?.text as string;
    const end = content.at(-1)?.text as string;
    expect(begin).toMatch(/^<untrusted-content id=/);
    const shown = content[1]?.text as string;
    const link = content.find((it) => it.type === 'resource_link')?.uri as string;
    const readAt = async (uri: string) => {
      const { contents } = await mcp.readResource({ uri });
      return contents[0] as unknown as { text: string; _meta: { 'ringfence/range': { next?: string } } };
    };
    let rest = '';
    for (let uri: string | undefined = link; uri !== undefined; ) {
      const { text, _meta } = await readAt(uri);
      expect(text.startsWith(`${begin}\n`)).toBe(true);
      expect(text.endsWith(`\n${end}`)).toBe(true);
      rest += text.slice(begin.length + 1, -end.length - 1);
      uri = _meta['ringfence/range'].next;
    }
    expect(`${shown}${rest}`).toContain('The very end of it.');
    const whole = await readAt(link.replace(/\?.*/, ''));
    expect(whole.text.startsWith(`${begin}\n`)).toBe(true);
    expect(whole.text.endsWith(`\n${end}`)).toBe(true);
  });
});

/** An MCP client over HTTP, which has no connection that stays. */
async function mcpOverHttp(of: OpenDaemon) {
  const token = readFileSync(join(of.stateDir, 'agent.token'), 'utf8').trim();
  const mcp = new McpClient({ name: 'test', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
  const url = new URL(of.listeners.find((it) => it.startsWith('http:')) as string);
  const headers = { authorization: `Bearer ${token}` };
  await mcp.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  return { callTool: (name: string, input: Record<string, unknown>) => mcp.callTool({ name, arguments: input }) };
}

/** Opens a session that another connection may resume. */
async function openSession(of: OpenDaemon, use?: (raw: RawPeer) => Promise<unknown>) {
  const raw = new RawPeer(of.socket);
  const opened = await raw.hello({ workspace: of.workspace, resumeMs: 20_000 });
  const { id: sessionId, secret } = (opened.result as { session: { id: string; secret: string } }).session;
  await use?.(raw);
  raw.socket.destroy();
  await raw.closed;
  return { sessionId, secret };
}

const sessionThatRead = (of: OpenDaemon) =>
  openSession(of, (raw) => raw.request('tools.call', { tool: 'web_fetch', input: { url: `${origin}/article` } }));

/** What the policy decides about a command of a session that is resumed. */
async function decisionOf(of: OpenDaemon, resume: { sessionId: string; secret: string }): Promise<unknown> {
  const raw = new RawPeer(of.socket);
  await until(async () => 'result' in (await raw.hello({ resume })));
  const { result } = await raw.request('policy.explain', { tool: 'terminal_execute', input: { command: 'true' } });
  raw.socket.destroy();
  return result;
}
