/** Every snippet of docs/how-to/mcp-snippets.md: parsed or run, and the server started as it says. */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { parse as parseJsonc } from 'jsonc-parser';
import { parse as parseToml } from 'smol-toml';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MCP_CLIENTS, type Scope } from '../../src/cli/install/mcp-clients.ts';
import { endOf } from '../support/cli.ts';
import { type OpenDaemon, openDaemon, removeTree, repository } from '../support/daemon.ts';

const page = readFileSync(join(repository, 'docs/how-to/mcp-snippets.md'), 'utf8');
const snippets = new Map(
  page
    .split(/^## /m)
    .slice(1)
    .map((section) => {
      const [, language = '', code = ''] = /```(\w+)\n([\s\S]*?)```/.exec(section) ?? [];
      return [section.split('\n')[0] as string, { language, code }];
    }),
);
const snippetOf = (title: string) => snippets.get(title) ?? { language: '', code: '' };

let daemon: OpenDaemon;
// Programs find their packages from here.
const folder = mkdtempSync(join(repository, 'dist/snippets-'));
beforeAll(async () => {
  daemon = await openDaemon();
  writeFileSync(join(daemon.workspace, 'a.txt'), 'one\n');
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  removeTree(folder);
});

const environment = () => ({ PATH: `${join(repository, 'bin')}:${process.env.PATH}`, HOME: '/nonexistent' });

/** Starts the server as a client would in the project, beside the test's own daemon, and reads a file through it. */
async function readsThrough(command: string, args: readonly string[]): Promise<void> {
  const around = args.map((it) => (it === '${workspaceFolder}' ? daemon.workspace : it));
  const state = ['--state', daemon.stateDir, '--socket', daemon.socket];
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(
    new StdioClientTransport({ command, args: [...around, ...state], env: environment(), cwd: daemon.workspace }),
  );
  try {
    const { tools } = await client.listTools();
    expect(tools.map((it) => it.name)).toContain('file_read');
    const read = await client.callTool({ name: 'file_read', arguments: { path: 'a.txt' } });
    expect(JSON.stringify(read.content)).toContain('one');
  } finally {
    await client.close();
  }
}

describe('entries of clients', () => {
  test.each<[string, string, Scope]>([
    ['Claude Code', 'claude', 'project'],
    ['Codex', 'codex', 'user'],
    ['Gemini CLI', 'gemini', 'user'],
    ['opencode', 'opencode', 'project'],
    ['Cursor', 'cursor', 'project'],
    ['VS Code', 'vscode', 'project'],
    ['Zed', 'zed', 'project'],
  ])('%s: what install writes, and it starts the server', async (title, client, scope) => {
    const { language, code } = snippetOf(title);
    const config = (language === 'toml' ? parseToml(code) : parseJsonc(code)) as Record<string, Record<string, object>>;
    const launch = { command: 'ringfence', args: ['mcp'] };
    const around = { home: '/home/me', configHome: '/home/me/.config', cwd: '/home/me/project' };
    const target = MCP_CLIENTS[client]?.(scope, launch, around);
    const [list = '', name = ''] = target?.path ?? [];
    expect(Object.keys(config)).toEqual([list]);
    expect(config[list]?.[name]).toEqual(target?.entry);
    const entry = config[list]?.[name] as { command: string | string[]; args?: string[] };
    const [command = '', ...args] = [entry.command, entry.args ?? []].flat();
    await readsThrough(command, args);
  });
});

describe('libraries', () => {
  test('Claude Agent SDK: the options are as the SDK takes them, and start the server', async () => {
    const { code } = snippetOf('Claude Agent SDK');
    type Asked = { options: { mcpServers: Record<string, { command: string; args: string[] }> } };
    const path = join(folder, 'options.mjs');
    // The function of the SDK notes what it is called with.
    const stub = 'export const asked = [];\nasync function* query(request) { asked.push(request); }\n';
    writeFileSync(path, code.replace(/^import .*\n/, stub));
    const { asked } = (await import(path)) as { asked: Asked[] };
    const { command = '', args = [] } = asked[0]?.options.mcpServers.ringfence ?? {};
    await readsThrough(command, args);
  });

  test.each(['OpenAI Agents', 'AI SDK'])('%s: the program runs, and lists the tools', async (title) => {
    const path = join(folder, `${title.replace(' ', '-')}.ts`);
    const state = JSON.stringify(['mcp', '--state', daemon.stateDir, '--socket', daemon.socket]).slice(1, -1);
    writeFileSync(path, snippetOf(title).code.replace("'mcp'", state));
    const env = { ...environment(), OPENAI_AGENTS_DISABLE_TRACING: '1' };
    const child = spawn(process.execPath, [path], { cwd: daemon.workspace, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const [code, stdout, stderr] = await Promise.all([endOf(child), text(child.stdout), text(child.stderr)]);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stdout).toContain("'file_read'");
  });
});
