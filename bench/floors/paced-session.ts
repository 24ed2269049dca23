/** A session of mixed tool calls with pauses, as an agent makes them, through our own protocol, MCP, or peers. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { Client } from '../../src/client/client.ts';
import { dataOf } from '../../test/support/daemon.ts';
import type { McpLine } from '../mcp-line.ts';
import type { Peer } from '../peers.ts';
import { FAULT } from './project.ts';

export type Task = 'read' | 'list' | 'search' | 'edit' | 'grep' | 'git status' | 'command';

/** Ten calls, repeated. The first call of a session is a read. */
const CYCLE: readonly Task[] = [
  ...(['read', 'list', 'read', 'grep', 'read', 'edit', 'search', 'git status', 'read', 'command'] as const),
];

/** The tasks that server-filesystem has a tool for. */
export const SHARED: readonly Task[] = ['read', 'list', 'search', 'edit'];

/** Files of 4 KiB in 20 folders, so that each call names another one and no result comes from a cache. */
const FILES = 200;
const FOLDERS = 20;
const folderOf = (at: number) => `lib/part-${at % FOLDERS}`;
const fileOf = (at: number) => `${folderOf(at)}/file-${at}.js`;

export function addFiles(root: string): void {
  for (let at = 0; at < FOLDERS; at++) mkdirSync(join(root, folderOf(at)), { recursive: true });
  const body = '// some words about what this one is for\n'.repeat(99);
  for (let at = 0; at < FILES; at++) writeFileSync(join(root, fileOf(at)), `export const value${at} = ${at};\n${body}`);
}

/** Makes the call of a task; `at` counts the calls of the session. */
export type Caller = (task: Task, at: number) => Promise<unknown>;

/** The change of an edit, which every second edit reverts. */
function changeOf(at: number): { oldText: string; newText: string } {
  const { wrong, right } = FAULT;
  const isBack = Math.floor(at / CYCLE.length) % 2 === 1;
  return isBack ? { oldText: right, newText: wrong } : { oldText: wrong, newText: right };
}

function ourCall(task: Task, at: number): { tool: string; input: object } {
  switch (task) {
    case 'read':
      return { tool: 'file_read', input: { path: fileOf(at) } };
    case 'list':
      return { tool: 'file_list', input: { path: folderOf(Math.floor(at / CYCLE.length)) } };
    case 'search':
      return { tool: 'file_glob', input: { pattern: `**/file-${at}*.js`, path: 'lib' } };
    case 'grep':
      return { tool: 'file_grep', input: { pattern: `value${at}`, path: 'lib' } };
    case 'edit':
      return { tool: 'file_edit', input: { path: FAULT.file, operations: [changeOf(at)] } };
    case 'git status':
      return { tool: 'git_status', input: {} };
    case 'command':
      return { tool: 'terminal_execute', input: { command: `echo ${at}` } };
  }
}

export const byClient =
  (client: Client): Caller =>
  (task, at) => {
    const { tool, input } = ourCall(task, at);
    return dataOf(client.call(tool, input));
  };

export const byMcp =
  (line: McpLine): Caller =>
  (task, at) => {
    const { tool, input } = ourCall(task, at);
    return line.call(tool, input);
  };

/** Peers that do the same together; what neither has a tool for is a command. */
export function byPeers({ files, commands }: { files: Peer; commands: Peer }, root: string): Caller {
  const run = (command: string) => commands.line.call('run_command', { command, workdir: root });
  return (task, at) => {
    switch (task) {
      case 'read':
        return files.line.call('read_text_file', { path: join(root, fileOf(at)) });
      case 'list':
        return files.line.call('list_directory', { path: join(root, folderOf(Math.floor(at / CYCLE.length))) });
      case 'search':
        return files.line.call('search_files', { path: join(root, 'lib'), pattern: `**/file-${at}*.js` });
      case 'edit':
        return files.line.call('edit_file', { path: join(root, FAULT.file), edits: [changeOf(at)] });
      case 'grep':
        return run(`grep -rn value${at} lib`);
      case 'git status':
        return run('git status');
      case 'command':
        return run(`echo ${at}`);
    }
  };
}

export interface Paced {
  readonly task: Task;
  readonly ms: number;
}

/** Makes `calls` calls with a pause between two; the first one at once, as its caller is ready. */
export async function runSession(
  call: Caller,
  { calls, pauseMs }: { readonly calls: number; readonly pauseMs: number },
): Promise<readonly Paced[]> {
  const taken: Paced[] = [];
  for (let at = 0; at < calls; at++) {
    const task = CYCLE[at % CYCLE.length] as Task;
    if (at > 0) await setTimeout(pauseMs);
    const from = performance.now();
    await call(task, at);
    taken.push({ task, ms: performance.now() - from });
  }
  return taken;
}
