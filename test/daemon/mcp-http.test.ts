/** MCP over HTTP: who may connect, and both protocol eras. */
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';
import { ERAS, type Era, textOf } from '../support/mcp.ts';

const ASKS = 'tiers:\n  execute: { decision: ask, reason: A person should see it. }\n';

let daemon: OpenDaemon;
let url: string;
beforeAll(async () => {
  daemon = await openDaemon({
    policy: ASKS,
    args: ['--listen-http', '0'],
    limits: { mcpApprovalWaitMs: 300 },
    config: { principals: { ci: { policy: 'read-only' } } },
  });
  url = daemon.listeners.find((it) => it.startsWith('http:')) as string;
});
afterAll(() => daemon[Symbol.asyncDispose]());
beforeEach(() => writeFileSync(join(daemon.workspace, 'notes.txt'), 'first\nsecond\n'));

const tokenIn = (file: string) => readFileSync(join(daemon.stateDir, file), 'utf8').trim();

async function connect(era: Era, { token = tokenIn('agent.token'), query = '', capabilities = {} } = {}) {
  const mode = era === 'legacy' ? 'legacy' : ({ pin: '2026-07-28' } as const);
  const client = new Client({ name: 'test', version: '1' }, { capabilities, versionNegotiation: { mode } });
  const headers = { authorization: `Bearer ${token}` };
  if ('elicitation' in capabilities)
    client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { decision: 'allow_once' } }));
  await client.connect(new StreamableHTTPClientTransport(new URL(url + query), { requestInit: { headers } }));
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() });
}

const initialize = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
});

/** A request with raw headers, which `fetch` would not send. */
function post(headers: Record<string, string>, body: string | Buffer = initialize) {
  const all = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers };
  return new Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; text: string }>((resolve, reject) => {
    const sent = httpRequest(url, { method: 'POST', headers: all }, (response) => {
      let text = '';
      response.on('data', (chunk) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }));
    });
    sent.on('error', reject).end(body);
  });
}
const bearer = () => ({ authorization: `Bearer ${tokenIn('agent.token')}` });

describe.each(ERAS)('a client of the %s era with a token', (era: Era) => {
  test('lists, calls and reads on', async () => {
    await using client = await connect(era);
    const { tools } = await client.listTools();
    expect(tools.map((it) => it.name)).toContain('ringfence_batch');
    const text = Array.from({ length: 20_000 }, (_, at) => `line ${at}`).join('\n');
    writeFileSync(join(daemon.workspace, 'long.txt'), text);
    const result = await client.callTool({ name: 'file_read', arguments: { path: 'long.txt', maxLines: 20_000 } });
    const link = (result.content as { uri?: string }[]).find((it) => it.uri !== undefined);
    const { contents } = await client.readResource({ uri: link?.uri as string });
    expect(text).toContain((contents[0] as { text: string }).text);
  });

  test('an HTTP client has the tools that its URL asks for, and no more', async () => {
    await using client = await connect(era, { query: '?readOnly=true&tools=file_*' });
    const names = (await client.listTools()).tools.map((it) => it.name);
    expect(names).toContain('file_read');
    expect(names).not.toContain('file_write');
    await expect(client.callTool({ name: 'file_write', arguments: { path: 'x', content: '' } })).rejects.toThrow(
      /no tool/,
    );
    await using outside = await connect(era, { query: '?workspace=/etc' });
    await expect(outside.listTools()).rejects.toThrow(/workspace add/);
  });

  test('an HTTP client is held to the policy of its principal', async () => {
    await using client = await connect(era, { token: tokenIn('tokens/ci.token') });
    const written = await client.callTool({ name: 'file_write', arguments: { path: 'x', content: '' } });
    expect(written.isError).toBe(true);
  });
});

test('a client cannot claim that a person approved its call, unless it bears the operator’s token', async () => {
  const call = { name: 'terminal_execute', arguments: { command: 'touch made' } };
  const capabilities = { elicitation: { form: {} } };
  await using agent = await connect('modern', { capabilities });
  expect(textOf(await agent.callTool(call))).toMatch(/ringfence approvals approve/);
  await using operator = await connect('modern', { capabilities, token: tokenIn('operator.token') });
  expect((await operator.callTool(call)).isError).toBeUndefined();
});

test('a call whose client goes away ends', async () => {
  await using operator = await daemon.connect({ role: 'operator' });
  await using client = await connect('modern', { token: tokenIn('operator.token'), capabilities: { elicitation: {} } });
  const controller = new AbortController();
  const command = { name: 'terminal_execute', arguments: { command: 'touch begun; sleep 30' } };
  const call = client.callTool(command, { signal: controller.signal });
  const running = async () => ((await operator.request('status', {})) as { calls: { running: number } }).calls.running;
  await until(async () => (await running()) > 0);
  controller.abort();
  await expect(call).rejects.toThrow(/abort/i);
  await until(async () => (await running()) === 0);
});

describe('who is not let in', () => {
  test('a request without a token, or with an unknown one, is refused and says what is missing', async () => {
    for (const headers of [{}, { authorization: 'Bearer nope' }, { authorization: 'Basic eDp5' }]) {
      const answer = await post(headers as Record<string, string>);
      expect(answer).toMatchObject({ status: 401, headers: { 'www-authenticate': expect.stringMatching(/^Bearer/) } });
    }
    expect((await post({ authorization: '' }, initialize)).status).toBe(401);
  });

  test('comes by a name or from a page that is not ours', async () => {
    const { port } = new URL(url);
    for (const headers of [
      { host: `evil.example:${port}` },
      { host: 'localhost' },
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { origin: `http://localhost:${Number(port) + 1}` },
    ])
      expect((await post({ ...bearer(), ...(headers as Record<string, string>) })).status).toBe(403);
    expect((await post({ ...bearer(), origin: `http://localhost:${port}` })).status).toBe(200);
  });

  test('sends what is no message', async () => {
    expect((await post(bearer(), '{')).status).toBe(400);
    expect((await post(bearer(), initialize.replace('{', '{"more":1,'))).status).toBe(400);
    expect((await post(bearer(), '['.repeat(10_000))).status).toBe(400);
    expect((await post(bearer(), Buffer.alloc(11 * 1024 * 1024, 'x'))).status).toBe(413);
    expect((await post(bearer())).status).toBe(200);
  });
});

test('a connection that asks and asks without an answer is ended', async () => {
  const socket = createConnection(Number(new URL(url).port), '127.0.0.1');
  let isOver = false;
  socket.on('close', () => (isOver = true)).on('error', () => {}); // Cut off by the test.
  const params = { name: 'terminal_execute', arguments: { command: 'touch piped' } };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params });
  const head = [
    ...['POST /mcp HTTP/1.1', `host: ${new URL(url).host}`, `authorization: ${bearer().authorization}`],
    ...['content-type: application/json', 'accept: application/json, text/event-stream'],
    ...['mcp-protocol-version: 2025-11-25', `content-length: ${body.length}`],
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`.repeat(300));
  await until(() => isOver, 5_000);
  expect((await post(bearer())).status).toBe(200);
});

test('tokens are files that only their owner reads', () => {
  expect(statSync(join(daemon.stateDir, 'agent.token')).mode & 0o777).toBe(0o600);
});

test('an address that is not of this machine is refused', async () => {
  await expect(openDaemon({ args: ['--listen-http', '0.0.0.0:0'] })).rejects.toThrow(/loopback/);
});
