/**
 * Runs git for the workspaces of a fleet, each run in a sandbox of its own: git sees the folder that it works on, what it is to read, and
 * of the network at most one host. Servers and clients write what it parses; what it says is not trusted.
 */
import type { ChildProcess } from 'node:child_process';
import { RpcError, ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { Egress } from '../../hosts/egress.ts';
import type { NetworkLayer } from '../../policy/network.ts';
import { EGRESS_PROXY_URL } from '../../sandbox/door.ts';
import { BARE_ENVIRONMENT } from '../../sandbox/launcher.ts';
import { NO_MASKS } from '../../sandbox/masks.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { CLEAN_ENVIRONMENT, CLEAN_OPTIONS } from '../../tools/git/clean-settings.ts';

export interface ConfinedGitParts {
  readonly sandbox: Pick<Sandbox, 'startProvider'>;
  readonly egress: Pick<Egress, 'lend'>;
  readonly limits: Limits;
  readonly powers: Powers;
}

export interface GitRequest {
  readonly args: readonly string[];
  /** Absolute path of the only folder that git may change. */
  readonly folder: string;
  /** Absolute paths that git may read. */
  readonly reads?: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Largest file that git may write. */
  readonly fileBytes: number;
  /** Bytes of its output that are wanted; more end the run. */
  readonly outputBytes?: number | undefined;
  /** The hosts that git may connect to, and the only protocol. */
  readonly network?: { readonly protocol: 'http' | 'https' | 'file'; readonly layer: NetworkLayer } | undefined;
}

export interface GitResult {
  /** Zero if git succeeded. */
  readonly exitCode: number;
  readonly stdout: Buffer;
  /** What git said, in English. */
  readonly stderr: string;
  /** Why the run was ended before git had ended. */
  readonly cut?: 'output' | 'time' | undefined;
}

/** Output of runs that say little. */
const OUTPUT_BYTES = 64 * 1024;
const TASKS_MAX = 64;
/** Bytes a second below which a transfer is given up, and for how long. */
const SLOW = { bytes: 1_000, seconds: 30 };

const NETWORK_OPTIONS = Object.entries({
  // A redirection would lead to another repository than the one that was allowed.
  'http.followRedirects': 'false',
  'http.proxy': EGRESS_PROXY_URL,
  'http.lowSpeedLimit': `${SLOW.bytes}`,
  'http.lowSpeedTime': `${SLOW.seconds}`,
  'protocol.version': '2',
  // Objects come as one file, whose size the kernel bounds, and are checked.
  'transfer.unpackLimit': '1',
  'transfer.fsckObjects': 'true',
}).flatMap(([name, value]) => ['-c', `${name}=${value}`]);

export class ConfinedGit implements Disposable {
  readonly #parts: ConfinedGitParts;
  readonly #running = new Set<ChildProcess>();
  readonly #ended = new AbortController();
  #places: number;
  readonly #waiting: (() => void)[] = [];

  constructor(parts: ConfinedGitParts) {
    this.#parts = parts;
    this.#places = parts.limits.fleetGitRunsMax;
  }

  /** Runs git to its end, with any exit code. Throws RpcError OVERLOADED if it can't be run. */
  async try(request: GitRequest): Promise<GitResult> {
    await this.#takePlace();
    try {
      const { network } = request;
      if (!network || network.layer.length === 0) return await this.#run(request);
      const lent = await this.#parts.egress.lend([[...network.layer]], this.#ended.signal, async (lease) => ({
        result: await this.#run(request, lease),
      }));
      return lent.result;
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
      throw new RpcError('OVERLOADED', `git can't be run: ${error.message}`);
    } finally {
      this.#places += 1;
      this.#waiting.shift()?.();
    }
  }

  /** Runs git, which must succeed. Throws RpcError INVALID_PARAMS that says what was tried. */
  async run(what: string, request: GitRequest): Promise<GitResult> {
    const result = await this.try(request);
    if (result.exitCode === 0 && result.cut === undefined) return result;
    throw new RpcError('INVALID_PARAMS', `${what}: ${this.whyFailed(result, request)}`);
  }

  /** Why git failed, in one line. */
  whyFailed({ cut, stderr, exitCode }: GitResult, { fileBytes, outputBytes = OUTPUT_BYTES }: GitRequest): string {
    if (cut === 'time') return `git did not end within ${this.#parts.limits.fleetFetchMs} ms`;
    if (cut === 'output') return `git says more than ${outputBytes} bytes`;
    if (exitCode === FILE_TOO_LARGE || /file too large|signal 25/i.test(stderr))
      return `a file would be larger than the ${fileBytes} bytes that one may have`;
    const said = stderr.split('\n').filter((it) => /^(?:fatal|error|remote)/.test(it));
    return (said[0] ?? stderr.trim().split('\n').at(-1) ?? '').slice(0, 300) || `git ended with code ${exitCode}`;
  }

  async #takePlace(): Promise<void> {
    while (this.#places <= 0 && !this.#ended.signal.aborted)
      await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    if (this.#ended.signal.aborted) throw new RpcError('OVERLOADED', 'the daemon is shutting down');
    this.#places -= 1;
  }

  async #run(request: GitRequest, lease?: Parameters<Parameters<Egress['lend']>[2]>[0]): Promise<GitResult> {
    const { sandbox, limits, powers } = this.#parts;
    const { folder, reads = [], outputBytes = OUTPUT_BYTES } = request;
    const stdio = [...(['ignore', 'pipe', 'pipe', 'ignore'] as const), ...(lease ? [lease.line.stream] : [])];
    const { child } = sandbox.startProvider(
      {
        program: programOf(request),
        view: { workspace: { path: folder, isWritable: true }, reads, masks: NO_MASKS },
        bounds: { memoryMb: limits.fleetGitMemoryMb, tasks: TASKS_MAX },
        egressToken: lease?.token,
      },
      stdio,
    );
    this.#running.add(child);
    let cut: GitResult['cut'];
    const end = (why: NonNullable<GitResult['cut']>) => {
      cut ??= why;
      child.kill('SIGKILL');
    };
    const timer = powers.after(limits.fleetFetchMs, () => end('time'));
    const [stdout, stderr] = [new Gathered(outputBytes, () => end('output')), new Gathered(OUTPUT_BYTES)];
    child.stdout?.on('data', (it: Buffer) => stdout.add(it));
    child.stderr?.on('data', (it: Buffer) => stderr.add(it));
    try {
      const exitCode = await new Promise<number>((resolve, reject) => {
        child.once('error', reject);
        child.once('close', (code, signal) => resolve(code ?? (signal === 'SIGXFSZ' ? FILE_TOO_LARGE : 128)));
      });
      return { exitCode, stdout: stdout.bytes, stderr: stderr.bytes.toString(), cut };
    } finally {
      timer.cancel();
      this.#running.delete(child);
    }
  }

  [Symbol.dispose](): void {
    this.#ended.abort(new ToolError('SHUTTING_DOWN', 'the daemon is shutting down'));
    for (const it of this.#waiting.splice(0)) it();
    for (const it of this.#running) it.kill('SIGKILL');
  }
}

/** The exit code of a shell for a program that the kernel ended since a file got too large (128 and SIGXFSZ). */
const FILE_TOO_LARGE = 128 + 25;

function programOf({ args, env, fileBytes, network }: GitRequest): string[] {
  const all = {
    ...BARE_ENVIRONMENT,
    ...CLEAN_ENVIRONMENT,
    ...(network && { GIT_ALLOW_PROTOCOL: network.protocol }),
    ...env,
  };
  const variables = Object.entries(all).map(([name, value]) => `${name}=${value}`);
  const options = [...CLEAN_OPTIONS, ...(network ? NETWORK_OPTIONS : [])];
  return ['/usr/bin/env', '-i', ...variables, 'prlimit', `--fsize=${fileBytes}`, 'git', ...options, ...args];
}

/** The first bytes of a stream. */
class Gathered {
  readonly #pieces: Buffer[] = [];
  readonly #max: number;
  readonly #onFull: (() => void) | undefined;
  #bytes = 0;

  constructor(max: number, onFull?: () => void) {
    this.#max = max;
    this.#onFull = onFull;
  }

  add(piece: Buffer): void {
    if (this.#bytes + piece.length > this.#max) return this.#onFull?.();
    this.#pieces.push(piece);
    this.#bytes += piece.length;
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#pieces);
  }
}
