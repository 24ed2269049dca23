/** Starts a real daemon for a test or a bench, on a temporary socket; disposing it removes everything. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import {
  appendFileSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { parse as parseYaml } from 'yaml';
import { type Client, createClient } from '../../src/client/client.ts';

export const repository = fileURLToPath(new URL('../..', import.meta.url));
const node = process.execPath;

/** The daemon's entry; runs the built code if that is newer, as for users. */
const ringfenced = join(repository, 'bin/ringfenced.js');
export const ringfence = join(repository, 'bin/ringfence.js');

const isOpen = (folder: string): boolean =>
  (statSync(folder).mode & 0o001) !== 0 && (folder === '/' || isOpen(dirname(folder)));

/** Whether the daemon can build sandboxes for workspaces of other users: as root, in a checkout that they may enter. */
export const canServeOthers = process.getuid?.() === 0 && isOpen(repository);

/** A policy file for the built-in `default`. */
export const BUILT_IN_DEFAULT = '# Says nothing beside the built-in policy.\nversion: 1\n';

/** Tests make more calls in a minute than any session: the policy file, with rates that no test reaches unless it has its own. */
function withoutRates(policy: string): string {
  if (!policy.endsWith('\n') || /^rateLimits:|^extends: (?!default|careful)|^\{/m.test(policy)) return policy;
  const limits = parseYaml(readFileSync(join(repository, 'policies/default.yaml'), 'utf8')) as { rateLimits: object[] };
  return `${policy}rateLimits: ${JSON.stringify(limits.rateLimits.map((it) => ({ ...it, calls: 1_000_000 })))}\n`;
}

/** Where clients find a daemon under test, and what it said when it was ready. */
export interface OpenDaemon extends AsyncDisposable {
  readonly stateDir: string;
  readonly socket: string;
  readonly workspace: string;
  readonly listeners: readonly string[];
  readonly confinement: { readonly level: string; readonly cgroup: string; readonly missing: readonly string[] };
  readonly token: (role: 'agent' | 'operator') => string;
  readonly connect: (options?: { role?: 'operator' | 'agent'; workspace?: string; mode?: string }) => Promise<Client>;
  /** Log lines so far. */
  readonly log: () => string;
  readonly ended: Promise<unknown>;
}

/** A daemon in a process of its own. */
export interface TestDaemon extends OpenDaemon {
  readonly pid: number;
  readonly process: ChildProcess;
  readonly ended: Promise<number | null>;
}

export interface OpenOptions {
  /** Text of a policy file; the built-in `default` by default. */
  readonly policy?: string;
  /** Whether the rates of the built-in policy hold. */
  readonly ownRates?: boolean;
  /** Limits, also those that config.yaml does not offer. */
  readonly limits?: object;
  /** The rest of the config file. */
  readonly config?: object;
  readonly env?: Record<string, string>;
  readonly stateDir?: string;
  readonly workspace?: string;
  /** More flags of the command line: `--listen 0`, `--workspace FOLDER`. */
  readonly args?: readonly string[];
}

export interface DaemonOptions extends OpenOptions {
  /** Owner of the daemon, its state directory and its workspace; by default the user who runs the tests. Needs root. */
  readonly owner?: { readonly uid: number; readonly gid: number };
  /** Program and arguments that exec the daemon. */
  readonly launcher?: readonly string[];
}

export function temporaryDir(prefix: string): string {
  return mkdtempSync(join(tmpdir(), `ringfence-${prefix}-`));
}

/** Adds a byte to the file by which script/test counts the daemons of a run. */
export function countStart(): void {
  const { RINGFENCE_TEST_STARTS: starts } = process.env;
  if (starts) appendFileSync(starts, '.');
}

/**
 * What daemons of this run have proven of the sandbox, for the next ones, as a daemon that starts again has it: it counts
 * only where everything that it depends on is the same.
 */
const PROOF = join(tmpdir(), 'sandbox-proof.json');

/** Hosts start for the calls of a test, and none beside. */
const ON_DEMAND = { hostsAheadMs: 3_600_000 };

/** Folders and files of a daemon under test. */
function makePlace(options: OpenOptions) {
  const stateDir = options.stateDir ?? temporaryDir('state');
  const workspace = options.workspace ?? temporaryDir('ws');
  const policy = join(stateDir, 'policy.yaml');
  const config = join(stateDir, 'config.yaml');
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const text = options.policy ?? BUILT_IN_DEFAULT;
  writeFileSync(policy, options.ownRates ? text : withoutRates(text), { mode: 0o600 });
  writeFileSync(config, JSON.stringify({ internalLimits: { ...ON_DEMAND, ...options.limits }, ...options.config }));
  const proof = join(stateDir, 'sandbox-proof.json');
  if (existsSync(PROOF) && !existsSync(proof)) copyFileSync(PROOF, proof);
  const socket = join(stateDir, 'd.sock');
  const token = (role: 'agent' | 'operator') => readFileSync(join(stateDir, `${role}.token`), 'utf8').trim();
  return {
    policy,
    config,
    environment: { PATH: process.env.PATH ?? '', HOME: '/nonexistent', RINGFENCE_CONFIG: config, ...options.env },
    cleanUp() {
      const isOurs = existsSync(proof) && statSync(proof).uid === process.getuid?.();
      if (isOurs && !existsSync(PROOF)) copyFileSync(proof, PROOF);
      if (!options.stateDir) removeTree(stateDir);
      if (!options.workspace) removeTree(workspace);
    },
    open: {
      stateDir,
      workspace,
      socket,
      token,
      connect: ({ role, workspace: other, mode }: Parameters<OpenDaemon['connect']>[0] = {}) =>
        createClient({
          socket,
          workspace: other ?? workspace,
          ...(mode !== undefined && { mode }),
          ...(role && { role, token: token(role) }),
        }),
    },
  };
}

/** Starts a daemon in a process of its own and waits for its ready notice. Throws its error if it does not start. */
export async function startDaemon(options: DaemonOptions = {}): Promise<TestDaemon> {
  const { policy, config, environment: env, cleanUp, open } = makePlace(options);
  const { stateDir, socket, workspace } = open;
  const { owner } = options;
  const its = [stateDir, workspace, policy, config, join(stateDir, 'sandbox-proof.json')].filter((it) =>
    existsSync(it),
  );
  if (owner) for (const it of its) chownSync(it, owner.uid, owner.gid);
  const args = ['--tell-ready', '--state', stateDir, '--socket', socket, '--workspace', workspace, '--policy', policy];
  const [program = '', ...words] = [...(options.launcher ?? []), node, ringfenced, ...args, ...(options.args ?? [])];
  countStart();
  const child = spawn(program, words, { stdio: ['ignore', 'ignore', 'pipe', 'pipe'], env, ...owner });
  let log = '';
  child.stderr?.on('data', (chunk) => (log += chunk));
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
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
  return {
    ...open,
    pid: child.pid as number,
    process: child,
    ended,
    listeners: parsed.listeners,
    confinement: parsed.confinement,
    log: () => log,
    async [Symbol.asyncDispose]() {
      child.kill('SIGTERM');
      await ended;
      cleanUp();
    },
  };
}

/** The parts of the daemon that `openDaemon` needs, as `bin/` would load them: built if that is newer than the sources. */
function loadParts() {
  // Node's own loader, since vitest would compile what is built once more.
  const load = createRequire(import.meta.url);
  const { findEntry } = load('../../bin/start.js') as { findEntry(name: string): string };
  return load(fileURLToPath(findEntry('testing/daemon-parts'))) as typeof import('../../src/testing/daemon-parts.ts');
}

const flagsOf = (args: readonly string[] = []) =>
  parseArgs({
    args: [...args],
    options: {
      listen: { type: 'string' },
      'listen-http': { type: 'string' },
      policy: { type: 'string' },
      workspace: { type: 'string', multiple: true },
    },
  }).values;

let parts: ReturnType<typeof loadParts> | undefined;

/**
 * Opens a daemon in this process, with real listeners, stores and hosts: for tests that ask a daemon something, and
 * don't kill it, read its log or block this process's event loop. Throws its error if it does not start.
 */
export async function openDaemon(options: OpenOptions = {}): Promise<OpenDaemon> {
  const { policy, environment, cleanUp, open } = makePlace(options);
  const { stateDir, socket, workspace } = open;
  countStart();
  try {
    parts ??= loadParts();
    const { createDaemon, loadConfig, systemPowers, NO_SOCKETS } = parts;
    const { workspace: others = [], ...flags } = flagsOf(options.args);
    const config = loadConfig(
      { state: stateDir, socket, policy, ...flags, workspace: [workspace, ...others] },
      environment,
      '/',
    );
    const upgrade = () => Promise.reject(new Error('a daemon in the process of a test starts no successor'));
    let log = '';
    const note = (fields: object, msg: string) => (log += `${JSON.stringify({ ...fields, msg })}\n`);
    const powers = systemPowers({ debug() {}, info: note, warn: note, error: note });
    const daemon = await createDaemon(config, powers, { sockets: NO_SOCKETS, upgrade });
    const { listeners, confinement, ended } = daemon;
    return {
      ...open,
      listeners,
      confinement: confinement as unknown as OpenDaemon['confinement'],
      log: () => log,
      ended,
      async [Symbol.asyncDispose]() {
        await daemon.close(0, 'its test has ended');
        cleanUp();
      },
    };
  } catch (error) {
    cleanUp();
    throw error;
  }
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

/** Whether a process is `root` or a descendant of it. False for one that has ended. */
export function isBelow(pid: number, root: number): boolean {
  for (let at = pid; at > 1; ) {
    if (at === root) return true;
    try {
      at = Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${at}/status`, 'utf8'))?.[1]);
    } catch {
      return false; // ENOENT, ESRCH.
    }
  }
  return false;
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
