/**
 * Runs one everyday task bare and as a command of a real daemon, on two copies of a project: exit code, output and
 * the resulting tree must be equal. Prints durations without judging them: machines differ.
 */
import { spawnSync } from 'node:child_process';
import { lookup } from 'node:dns/promises';
import { cpSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { SYSTEM_PATH } from '../../src/daemon/command-environment.ts';
import { repository, startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';

export interface Workload {
  readonly name: string;
  /** Small tasks take seconds, and need no network and only what script/bootstrap installs: script/test runs them. */
  readonly size: 'small' | 'large';
  /** The npm package whose files are the project: from node_modules, or from the registry for a large task. */
  readonly project?: string;
  /** Programs needed beside bash and coreutils; if one is missing, the task is skipped with a message. */
  readonly needs?: readonly string[];
  /** Whether its programs refuse to run as root, so that nothing can be compared. */
  readonly refusesRoot?: boolean;
  /** Command that runs bare on both copies first. */
  readonly prepare?: string;
  readonly command: string;
  /** A call that runs inside in place of the command, whose output is what `shown` makes of its data. */
  readonly call?: {
    readonly tool: string;
    readonly input: (at: string) => object;
    readonly shown: (data: object) => string;
  };
  /** Parts of the output that differ in each run. */
  readonly varies?: readonly RegExp[];
  /** Folders whose files are compared by name only. */
  readonly namesOnly?: readonly string[];
}

export interface Ending {
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
  /** Lines of names and hashes of the tree. */
  readonly tree: string;
}

export interface Compared {
  readonly bare: Ending;
  readonly inside: Ending;
  readonly bareMs: number;
  readonly insideMs: number;
  /** Warnings of the daemon. */
  readonly warnings: readonly string[];
}

/** What the task needs and this machine lacks; undefined if it can run. */
export const lacks = ({ needs = [], refusesRoot = false }: Workload): string | undefined =>
  (refusesRoot && process.getuid?.() === 0 ? 'user but root' : undefined) ??
  needs.find((it) => !SYSTEM_PATH.some((folder) => existsSync(join(folder, it))));

const TIMEOUT_MS = 600_000;
/** Longer output would be cut for a caller, elsewhere than here. */
const OUTPUT_BYTES = 30 * 1024;

export class Workloads implements AsyncDisposable {
  readonly #daemon: TestDaemon;
  readonly #folder: string;

  private constructor(daemon: TestDaemon, folder: string) {
    this.#daemon = daemon;
    this.#folder = folder;
  }

  static async start(): Promise<Workloads> {
    const folder = temporaryDir('workloads');
    const policy = `tiers:
  execute: { decision: allow, timeoutMs: ${TIMEOUT_MS}, cpuMs: ${TIMEOUT_MS}, network: { allow: [${await registry()}] } }
`;
    const limits = { callTimeoutMs: { read_only: 30_000, write: 30_000, external_api: 30_000, execute: TIMEOUT_MS } };
    const commandMax = { cpuMs: TIMEOUT_MS };
    return new Workloads(await startDaemon({ policy, limits: { ...limits, commandMax }, workspace: folder }), folder);
  }

  /** Runs the task in both ways; bare first, so that the disk cache helps the sandbox and not the other way round. */
  async compare(workload: Workload): Promise<Compared> {
    const [bareAt, insideAt] = ['bare', 'inside'].map((it) => join(this.#folder, `${slug(workload.name)}-${it}`, 'w'));
    for (const it of [bareAt, insideAt] as string[]) makeProject(workload, it);
    const command = withScratch(workload.command);
    const bare = timed(() => runBare(command, bareAt as string));
    await using client = await this.#daemon.connect({ workspace: insideAt as string });
    await client.call('terminal_execute', { command: 'true' });
    const from = performance.now();
    const { call } = workload;
    const input = call?.input(insideAt as string) ?? { command, timeout: TIMEOUT_MS };
    const result = await client.call(call?.tool ?? 'terminal_execute', input);
    const insideMs = performance.now() - from;
    if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
    const ofCall = call && { exitCode: 0, stdout: call.shown(result.data as object), stderr: '' };
    const { exitCode, stdout, stderr } = ofCall ?? (result.data as Omit<Ending, 'tree'>);
    const plain = (it: Omit<Ending, 'tree'>, at: string): Ending => ({
      exitCode: it.exitCode,
      stdout: steady(it.stdout, at, workload),
      stderr: steady(it.stderr, at, workload),
      tree: treeOf(at, workload),
    });
    return {
      bare: plain(bare.value, bareAt as string),
      inside: plain({ exitCode, stdout, stderr }, insideAt as string),
      bareMs: bare.ms,
      insideMs,
      warnings: result.metadata.warnings ?? [],
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon[Symbol.asyncDispose]();
    shell('chmod -R u+rwX . ; rm -rf -- "$PWD"', this.#folder, this.#folder);
  }
}

/** Policy entries for the registry, also by address: a mirror may be in a reserved block. Empty without a network. */
async function registry(): Promise<string> {
  const found = await lookup('registry.npmjs.org', { family: 4 }).catch(() => undefined);
  return ['registry.npmjs.org', ...(found ? [`"${found.address}:443"`] : [])].join(', ');
}

/** Runs a command with a scratch folder, `$T`, that is gone afterwards. */
const withScratch = (command: string): string =>
  `export T=$(mktemp -d)\n(\n${command}\n)\ncode=$?; rm -rf "$T"; exit $code`;

const slug = (name: string): string => name.replaceAll(/\W+/g, '-');

function makeProject({ project, prepare, size }: Workload, at: string): void {
  mkdirSync(at, { recursive: true });
  const known = project && join(repository, 'node_modules', project);
  if (known && existsSync(known)) cpSync(known, at, { recursive: true });
  else if (project && size === 'large')
    checked(
      `npm pack --silent ${project} --pack-destination .. >/dev/null && tar xzf ../*.tgz --strip-components=1`,
      at,
    );
  else if (project) throw new Error(`${project} is not installed`);
  if (prepare) checked(prepare, at);
}

function checked(command: string, at: string): void {
  const { status, stderr } = shell(command, at, join(at, '..'));
  if (status !== 0) throw new Error(`${command}: ${stderr}`);
}

function shell(command: string, cwd: string, home: string) {
  const env = { PATH: SYSTEM_PATH.join(':'), HOME: home, LANG: 'C.UTF-8', TERM: 'dumb', CI: '1' };
  return spawnSync('/bin/bash', ['--norc', '--noprofile', '-c', command], {
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL',
    cwd,
    env,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Runs a command bare, with a HOME of its own beside the project. */
function runBare(command: string, at: string): Omit<Ending, 'tree'> {
  const home = join(at, '../home');
  mkdirSync(home, { recursive: true });
  const { status, signal, stdout, stderr } = shell(command, at, home);
  return { exitCode: signal ? undefined : (status ?? undefined), stdout, stderr };
}

function timed<T>(work: () => T): { value: T; ms: number } {
  const from = performance.now();
  return { value: work(), ms: performance.now() - from };
}

function steady(text: string, at: string, { varies = [] }: Workload): string {
  const shown = text
    .replaceAll(at, '<project>')
    .replaceAll(at.replace(/w$/, 'home'), '<home>')
    .replaceAll('/run/home', '<home>');
  return varies.reduce((all, it) => all.replaceAll(it, '…'), shown).slice(0, OUTPUT_BYTES);
}

function treeOf(at: string, { namesOnly = [] }: Workload): string {
  const skipped = [...namesOnly, '.git'].map((it) => `-not -path './${it}/*'`).join(' ');
  const names = namesOnly.map((it) => `[ ! -d ${it} ] || (cd ${it} && find . -type f | LC_ALL=C sort | sha256sum)`);
  const files = `find . -type f ${skipped} -print0 | LC_ALL=C sort -z | xargs -0r sha256sum`;
  const { stdout } = shell([files, ...names].join('; '), at, at);
  return stdout;
}
