/**
 * Runs the specification's conformance suite against our HTTP endpoint, in both revisions: all scenarios required of
 * a server with tools. The tools are a plugin's, like any others.
 */
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { type OpenDaemon, openDaemon, temporaryDir } from '../support/daemon.ts';
import { addPlugin, type PluginText, writePlugin } from '../support/plugin.ts';

const suite = fileURLToPath(
  new URL('../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
);

/** The prefix that the suite's tool names lack. */
const PREFIX = 'conformance__';
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const SILENCE = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=';
const MAIN = `
const text = (text) => ({ type: 'text', text });
const image = { type: 'image', mimeType: 'image/png', data: '${PIXEL}' };
const resource = (uri, mimeType, text) => ({ type: 'resource', uri, mimeType, text });
export const test_simple_text = () => ({ content: [text('This is a simple text response for testing.')] });
export const test_image_content = () => ({ content: [image] });
export const test_audio_content = () => ({ content: [{ type: 'audio', mimeType: 'audio/wav', data: '${SILENCE}' }] });
export const test_embedded_resource = () => ({ content: [resource('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')] });
export const test_multiple_content_types = () => ({ content: [text('Multiple content types test:'), image, resource('test://mixed-content-resource', 'application/json', '{"test":"data"}')] });
export function test_error_handling() { throw new Error('This tool intentionally returns an error for testing'); }
export async function test_tool_with_progress(_, { tools }) {
  for (let i = 0; i < 60; i++) await tools.file_list({ path: '.' });
  return { content: [text('done')] };
}
`;
const names = [...MAIN.matchAll(/function (test_\w+)|const (test_\w+)/g)].map((it) => (it[1] ?? it[2]) as string);
const plugin: PluginText = {
  name: 'conformance',
  tools: names.map((name) => ({
    name,
    capabilities: ['fs.read'],
    output: { type: 'object', properties: { content: {} } },
  })),
  files: { 'main.js': MAIN },
};

/** Required scenarios for features that we do not offer, and what each needs. */
const NOT_OFFERED: Record<string, Record<string, string>> = {
  '2025-11-25': {
    'logging-set-level': 'logging, deprecated since 2026-07-28: the daemon has a log and a record of its own',
    'tools-call-with-logging': 'logging',
    'completion-complete': 'completions',
    'tools-call-sampling': 'sampling, deprecated',
    'tools-call-elicitation':
      'a tool that asks by itself; only we ask, about calls, and not over HTTP without sessions',
    'elicitation-sep1034-defaults': 'a tool that asks by itself',
    'elicitation-sep1330-enums': 'a tool that asks by itself',
    'resources-read-text': 'resources of a fixture; ours are results of calls',
    'resources-read-binary': 'resources of a fixture',
    'resources-templates-read': 'resources of a fixture',
    'resources-subscribe': 'resources that change',
    'resources-unsubscribe': 'resources that change',
    'prompts-get-simple': 'prompts',
    'prompts-get-with-args': 'prompts',
    'prompts-get-embedded-resource': 'prompts',
    'prompts-get-with-image': 'prompts',
  },
  '2026-07-28': {
    'server-stateless': 'four of its checks: NOT_TESTABLE',
    'completion-complete': 'completions',
    'resources-read-text': 'resources of a fixture; ours are results of calls',
    'resources-read-binary': 'resources of a fixture',
    'resources-templates-read': 'resources of a fixture',
    'prompts-get-simple': 'prompts',
    'prompts-get-with-args': 'prompts',
    'prompts-get-embedded-resource': 'prompts',
    'prompts-get-with-image': 'prompts',
    'input-required-result-basic-elicitation': 'a tool that asks by itself; test/daemon/mcp-approvals.test.ts has ours',
    'input-required-result-basic-sampling': 'sampling, deprecated',
    'input-required-result-basic-list-roots': 'a tool that asks for roots',
    'input-required-result-request-state': 'a tool that asks by itself',
    'input-required-result-multiple-input-requests': 'a tool that asks by itself',
    'input-required-result-multi-round': 'a tool that asks by itself',
    'input-required-result-non-tool-request': 'prompts',
    'input-required-result-result-type': 'a tool that asks by itself',
    'input-required-result-tampered-state': 'a tool that asks by itself',
    'input-required-result-capability-check': 'a tool that asks by itself',
  },
};
const REVISIONS = Object.keys(NOT_OFFERED);

/** Checks of server-stateless that need fixture tools which want a capability, ask on their stream, or log. */
const NOT_TESTABLE = [
  'sep-2575-server-rejects-undeclared-capability',
  'sep-2575-missing-capability-http-400',
  'sep-2575-http-server-no-independent-requests-on-stream',
  'sep-2575-server-no-log-without-loglevel',
];

let daemon: OpenDaemon;
let proxy: Server;
let url: string;
let folder: string;
let source: string;
beforeAll(async () => {
  folder = temporaryDir('conformance');
  source = writePlugin(plugin);
  daemon = await openDaemon({ args: ['--listen-http', '0'], limits: { mcpProgressMs: 2, mcpOutputProgressMs: 2 } });
  await addPlugin(daemon, source);
  const to = new URL(daemon.listeners.find((it) => it.startsWith('http:')) as string);
  proxy = await listenBefore(to, readFileSync(join(daemon.stateDir, 'agent.token'), 'utf8').trim());
  url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/mcp`;
});
afterAll(async () => {
  proxy.closeAllConnections();
  await new Promise((resolve) => proxy.close(resolve));
  await daemon[Symbol.asyncDispose]();
  for (const it of [folder, source]) rmSync(it, { recursive: true });
});

/** A proxy that adds what the suite lacks: a token, and the prefix of tool names. */
async function listenBefore(to: URL, token: string): Promise<Server> {
  const server = createServer((incoming, response) => {
    const { port: own } = server.address() as AddressInfo;
    const fix = (value: string | undefined) => value?.replace(`:${own}`, `:${to.port}`);
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk) => chunks.push(chunk));
    incoming.on('end', () => {
      const body = Buffer.concat(chunks)
        .toString()
        .replace(/("name":\s*")(test_)/, `$1${PREFIX}$2`);
      const { origin, 'mcp-name': name, ...others } = incoming.headers;
      const headers = {
        ...others,
        ...{
          authorization: `Bearer ${token}`,
          host: fix(others.host),
          'content-length': String(Buffer.byteLength(body)),
        },
        ...(origin !== undefined && { origin: fix(origin) }),
        ...(name !== undefined && { 'mcp-name': String(name).replace(/^test_/, `${PREFIX}test_`) }),
      };
      const { method, url: path } = incoming;
      const sent = request({ host: to.hostname, port: to.port, path, method, headers, setHost: false }, (answer) => {
        response.writeHead(answer.statusCode as number, answer.headers);
        answer.pipe(response);
      });
      sent.on('error', () => response.destroy());
      response.on('close', () => sent.destroy());
      sent.end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

interface Check {
  readonly id: string;
  readonly status: string;
  readonly errorMessage?: string;
}

/** The checks of all required scenarios, by scenario. */
async function run(revision: string): Promise<Map<string, Check[]>> {
  const output = join(folder, revision);
  const args = [suite, 'server', '--url', url, '--requirements', revision, '--timeout', '20000', '-o', output];
  await new Promise<void>((resolve) =>
    execFile(process.execPath, args, { cwd: folder, maxBuffer: 2 ** 26 }, () => resolve()),
  );
  const results = readdirSync(output).map((name): [string, Check[]] => [
    /^server-(.*)-\d{4}-\d\d-\d\dT/.exec(name)?.[1] as string,
    JSON.parse(readFileSync(join(output, name, 'checks.json'), 'utf8')) as Check[],
  ]);
  return new Map(results);
}

/** The scenarios that the suite requires. */
function requiredBy(revision: string): string[] {
  const text = readFileSync(join(dirname(suite), '../requirements', `${revision}.yaml`), 'utf8');
  return (parse(text) as { server: string[] }).server;
}

const failuresOf = (checks: readonly Check[] = []): Check[] => checks.filter(({ status }) => status === 'FAILURE');

test.each(REVISIONS)('the server meets each requirement of revision %s for servers with tools', async (revision) => {
  const checks = await run(revision);
  const required = requiredBy(revision).filter((it) => !Object.hasOwn(NOT_OFFERED[revision] as object, it));
  expect(required.length).toBeGreaterThan(13);
  for (const scenario of required) {
    expect(checks.has(scenario), scenario).toBe(true);
    expect(failuresOf(checks.get(scenario)), scenario).toEqual([]);
  }
  for (const scenario of Object.keys(NOT_OFFERED[revision] as object))
    expect(failuresOf(checks.get(scenario)), `${scenario} holds: it is no gap any more`).not.toEqual([]);
  const stateless = failuresOf(checks.get('server-stateless'));
  if (revision === '2026-07-28') expect(stateless.map(({ id }) => id)).toEqual(NOT_TESTABLE);
  for (const { errorMessage } of stateless) expect(errorMessage).toMatch(/^Not testable/);
});
