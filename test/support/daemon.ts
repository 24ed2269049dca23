/** Starts a real daemon for a test or a bench, on a temporary socket; disposing it removes everything. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Client, createClient } from '../../src/client.ts';

export const repository = fileURLToPath(new URL('../..', import.meta.url));
const node = process.execPath;

/** The daemon's entry; runs the built code if that is newer, as for users. */
const ringfenced = join(repository, 'bin/ringfenced.js');
export const ringfence = join(repository, 'bin/ringfence.js');

const isOpen = (folder: string): boolean =>
  (statSync(folder).mode & 0o001) !== 0 && (folder === '/' || isOpen(dirname(folder)));

/** Whether the daemon can build sandboxes for workspaces of other users: as root, in a checkout that they may enter. */
export const canServeOthers = process.getuid?.() === 0 && isOpen(repository);

/** Allows commands; everything else by default. */
export const ALLOW_COMMANDS = 'tiers:\n  execute: { decision: allow }\n';

/** Allows commands and all writes, without asking about deletions. */
export const ALLOW_ALL = 'tiers:\n  execute: { decision: allow }\n  write: { decision: allow, approve: [] }\n';

export interface TestDaemon extends AsyncDisposable {
  readonly pid: number;
  readonly process: ChildProcess;
  readonly stateDir: string;
  readonly socket: string;
  readonly workspace: string;
  readonly listeners: string[];
  readonly confinement: { level: string; cgroup: 'v1' | 'v2' | 'none'; missing: string[] };
  readonly token: (role: 'agent' | 'operator') => string;
  /** Log lines so far. */
  readonly log: () => string;
  readonly connect: (options?: { role?: 'operator' | 'agent'; workspace?: string; mode?: string }) => Promise<Client>;
  readonly ended: Promise<number | null>;
}

export interface DaemonOptions {
  /** Text of a policy file; commands allowed by default. */
  readonly policy?: string;
  readonly args?: readonly string[];
  /** Limits of the config file. */
  readonly limits?: object;
  /** The rest of the config file. */
  readonly config?: object;
  readonly env?: Record<string, string>;
  readonly stateDir?: string;
  readonly workspace?: string;
  /** Owner of the daemon, its state directory and its workspace; by default the user who runs the tests. Needs root. */
  readonly owner?: { readonly uid: number; readonly gid: number };
  /** Program and arguments that exec the daemon. */
  readonly launcher?: readonly string[];
}

export function temporaryDir(prefix: string): string {
  return mkdtempSync(join(tmpdir(), `ringfence-${prefix}-`));
}

/** Starts a daemon and waits for its ready notice. Throws its error if it does not start. */
export async function startDaemon(options: DaemonOptions = {}): Promise<TestDaemon> {
  const stateDir = options.stateDir ?? temporaryDir('state');
  const workspace = options.workspace ?? temporaryDir('ws');
  const socket = join(stateDir, 'd.sock');
  const policy = join(stateDir, 'policy.yaml');
  const config = join(stateDir, 'config.yaml');
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  writeFileSync(policy, options.policy ?? ALLOW_COMMANDS, { mode: 0o600 });
  writeFileSync(config, JSON.stringify({ limits: options.limits ?? {}, ...options.config }));
  const { owner } = options;
  if (owner) for (const it of [stateDir, workspace, policy, config]) chownSync(it, owner.uid, owner.gid);
  const args = ['--tell-ready', '--state', stateDir, '--socket', socket, '--workspace', workspace, '--policy', policy];
  const [program = '', ...words] = [...(options.launcher ?? []), node, ringfenced, ...args, ...(options.args ?? [])];
  const child = spawn(program, words, {
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH ?? '', HOME: '/nonexistent', RINGFENCE_CONFIG: config, ...options.env },
    ...owner,
  });
  let log = '';
  child.stderr?.on('data', (chunk) => (log += chunk));
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const cleanUp = () => {
    if (!options.stateDir) removeTree(stateDir);
    if (!options.workspace) removeTree(workspace);
  };
  let notice = '';
  for await (const chunk of child.stdio[3] as NodeJS.ReadableStream) notice += chunk;
  const parsed = JSON.parse(notice || JSON.stringify({ error: `it said nothing; ${log}` })) as {
    error?: string;
    listeners: string[];
    confinement: TestDaemon['confinement'];
  };
  if (parsed.error) {
    await ended;
    cleanUp();
    throw new Error(`${parsed.error}\n${log}`);
  }
  const token = (role: 'agent' | 'operator') => readFileSync(join(stateDir, `${role}.token`), 'utf8').trim();
  return {
    pid: child.pid as number,
    process: child,
    stateDir,
    socket,
    workspace,
    ended,
    token,
    listeners: parsed.listeners,
    confinement: parsed.confinement,
    log: () => log,
    connect: ({ role, workspace: other, mode } = {}) =>
      createClient({
        socket,
        workspace: other ?? workspace,
        ...(mode !== undefined && { mode }),
        ...(role && { role, token: token(role) }),
      }),
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      await ended;
      cleanUp();
    },
  };
}

/** Pids of live processes whose command line holds `text`. */
export function processesWith(text: string): number[] {
  return readdirSync('/proc')
    .filter((it) => /^\d+$/.test(it) && Number(it) !== process.pid)
    .filter((pid) => {
      try {
        return existsSync(`/proc/${pid}/exe`) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text);
      } catch {
        return false; // Ended meanwhile.
      }
    })
    .map(Number);
}

/** Removes a folder with all in it: Node can't remove the empty folders without permissions that masks leave behind, `rm` can. */
export function removeTree(folder: string): void {
  execFileSync('rm', ['-rf', '--', folder]);
}

/** Polls until `condition` holds. Throws after `withinMs`. */
export async function until(condition: () => boolean | Promise<boolean>, withinMs = 20_000): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not so within ${withinMs} ms: ${condition.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** The data of a call that must succeed. */
export async function dataOf<D>(
  call: PromiseLike<{ success: true; data: D } | { success: false; error: { code: string; message: string } }>,
): Promise<D> {
  const result = await call;
  if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
  return result.data;
}
