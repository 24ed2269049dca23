/**
 * Toolchains that agents ask for. A process of our own finds and installs them: what a registry answers is read by no part of the
 * gateway. The version that was found is shown to a person, and exactly that is installed.
 */

import { hash } from 'node:crypto';
import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { onAbort, type Powers } from '../../base/powers.ts';
import { answerOf } from '../../base/program-answer.ts';
import { parseJson } from '../../base/text/json.ts';
import { visible } from '../../base/text/shown-text.ts';
import type { TimedParts } from '../../pipeline/execute/read-only-run.ts';
import { inTime } from '../../pipeline/execute/read-only-run.ts';
import type { Runner } from '../../pipeline/execute/runner.ts';
import { type Outcome, type RunHooks, succeeded } from '../../pipeline/outcome.ts';
import type { CheckedCall, ClearedCall } from '../../pipeline/stage.ts';
import { type OutgoingProxy, variablesOf } from '../../sandbox/egress/outgoing-proxy.ts';
import { certificateVariablesFor, storeIn } from '../../sandbox/etc/certificates.ts';
import { runsBy } from '../../tools/runs.ts';
import type { Preview } from '../../tools/tool.ts';

export interface ToolchainsOptions {
  /** The program of the command line, and its arguments. */
  readonly program: readonly string[];
  readonly stateDir: string;
  readonly registry: string;
  /** The proxy of the network outside. */
  readonly outgoing?: OutgoingProxy;
  readonly limits: Limits;
  readonly powers: Powers;
}

const found = z.object({
  name: z.string(),
  version: z.string().regex(/^\d+\.\d+\.\d+$/),
  package: z.string(),
  integrity: z.string().regex(/^sha512-[\w+/=]{88}$/),
  tarball: z.string(),
  replaces: z.array(z.string()),
});
export type FoundToolchain = z.output<typeof found>;
const installed = z.object({ programs: z.array(z.string()) });

/** Name under which approvals list the version among the files that they are bound to. */
const PACKAGE = 'the package';
const ANSWER = { charsMax: 64 * 1024, complaintChars: 1_000 };

export class ToolchainRequests {
  readonly #options: ToolchainsOptions;
  /** The version found for each call; looked up once a call. */
  readonly #found = new WeakMap<AbortController, Promise<FoundToolchain>>();
  #running = 0;

  constructor(options: ToolchainsOptions) {
    this.#options = options;
  }

  /** What a person is shown. Throws QUEUE_FULL, UPSTREAM_FAILED, UNSUPPORTED for a caller's preview, which asks nobody. */
  async preview(call: CheckedCall): Promise<Preview> {
    if (call.options.preview)
      throw new ToolError('UNSUPPORTED', `\`${call.checked.tool.name}\` has no preview; call it without preview`);
    const it = await this.#of(call);
    const lines = [
      `install ${it.name}@${it.version} for commands`,
      `package ${it.package}@${it.version}`,
      `hash    ${it.integrity}`,
      `from    ${it.tarball}`,
      ...it.replaces.map((old) => `removes ${old}`),
    ];
    const print = `sha256:${hash('sha256', JSON.stringify(it))}`;
    return { diff: `${lines.map(visible).join('\n')}\n`, preImages: [{ path: PACKAGE, hash: print }] };
  }

  /** Installs what was shown. Throws QUEUE_FULL, UPSTREAM_FAILED, and the reason of an abort. */
  async install(call: ClearedCall): Promise<FoundToolchain & { readonly programs: readonly string[] }> {
    const it = await this.#of(call);
    const words = ['add', `${it.name}@${it.version}`, '--integrity', it.integrity];
    const { programs } = installed.parse(await this.#run(words, call.controller.signal));
    return { ...it, programs };
  }

  #of(call: CheckedCall): Promise<FoundToolchain> {
    const { controller, checked } = call;
    const known = this.#found.get(controller);
    if (known) return known;
    const wanted = runsBy(checked.tool, 'toolchains')?.request(checked.input as never);
    if (!wanted) throw new ToolError('INTERNAL', `\`${checked.tool.name}\` asks for no toolchain`);
    const spec = wanted.version === undefined ? wanted.name : `${wanted.name}@${wanted.version}`;
    const made = this.#run(['resolve', spec], controller.signal).then((it) => found.parse(it));
    // Avoids an unhandled rejection when nobody awaits it.
    made.catch(() => {});
    this.#found.set(controller, made);
    return made;
  }

  /** Runs `ringfence toolchain` and gives the JSON that it printed. */
  async #run(words: readonly string[], signal: AbortSignal): Promise<unknown> {
    const { program, stateDir, registry, limits, outgoing, powers } = this.#options;
    const proxy = outgoing ? variablesOf(outgoing) : {};
    signal.throwIfAborted();
    if (this.#running >= limits.toolchainRequestsMax)
      throw new ToolError('QUEUE_FULL', `${this.#running} requests for toolchains are under way, which is the maximum`);
    const [node = '', ...args] = program;
    const flags = ['--json', '--registry', registry, '--state', stateDir];
    this.#running += 1;
    const child = powers.spawn(node, [...args, 'toolchain', ...words, ...flags], {
      stdio: ['ignore', 'pipe', 'pipe'],
      cwd: '/',
      env: { PATH: '/usr/local/bin:/usr/bin:/bin', ...certificateVariablesFor(storeIn(stateDir)), ...proxy },
    });
    using _ = onAbort(signal, () => child.kill('SIGKILL'));
    try {
      const { stdout, complaint, code } = await answerOf(child, ANSWER);
      signal.throwIfAborted();
      if (code === 0) return parseJson(stdout);
      throw new ToolError('UPSTREAM_FAILED', complaint, {
        suggestion: 'Ask for another version, or go on without it.',
      });
    } finally {
      this.#running -= 1;
    }
  }
}

/** Has toolchains installed that agents ask for. */
export const toolchainRunner = (
  parts: TimedParts & { readonly toolchains: ToolchainRequests },
): Runner<'toolchains'> => ({
  run: (_, call, hooks) => inTime(call, parts, () => runToolchain(call, parts.toolchains, hooks)),
  preview: (_, call) => parts.toolchains.preview(call),
});

/** Runs a call that asks for a toolchain; a person has said yes to what was found for this very call. */
async function runToolchain(
  call: ClearedCall,
  toolchains: ToolchainRequests,
  { attempt, beforeStart }: RunHooks,
): Promise<Outcome> {
  // A yes that was given to an earlier call says nothing of this version.
  if (!call.approval?.confirm)
    throw new ToolError('APPROVAL_STALE', 'nobody has seen the version that this call would install', {
      suggestion: 'Call again to ask the person.',
    });
  await beforeStart();
  attempt.started = true;
  const { name, version, package: from, integrity, programs } = await toolchains.install(call);
  return succeeded({ name, version, package: from, integrity, programs }, attempt);
}
