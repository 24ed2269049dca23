/**
 * A container engine of the machine, of which only images are taken: Podman, or Docker's client with an engine without root's rights. It
 * starts no container: an image's programs run in a sandbox of ours (docs/decisions/0035-images-in-the-box.md).
 */
import { existsSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';
import { answerOf } from '../../base/program-answer.ts';
import { parseJson } from '../../base/text/json.ts';

/** Bytes of one image: a registry could send any number. */
const IMAGE_BYTES_MAX = 16 * 1024 ** 3;
/**
 * Podman opens its standard output by name, which only a pipe allows. Without owners, set-id bits and devices: nobody gains rights by a
 * file of the image, in a sandbox or outside. Others may read the files: commands have the rights of the workspace's owner.
 */
const UNPACK = `set -o pipefail; umask 022; "$1" export -- "$2" | head -c ${IMAGE_BYTES_MAX} | tar -x -C "$3" --no-same-owner --no-same-permissions --delay-directory-restore --exclude=./dev --exclude=dev`;
/** Label of the containers that are made to take an image's files from. */
const LABEL = 'dev.ringfence.unpack';
const ANSWER = { charsMax: 4 * 1024 * 1024, complaintChars: 500 };

const words = z.array(z.string()).nullish();
const inspected = z.array(
  z.looseObject({
    Id: z.string().regex(/^(?:sha256:)?[0-9a-f]{64}$/),
    Config: z
      .looseObject({ Env: words, Entrypoint: words, Cmd: words, Volumes: z.record(z.string(), z.unknown()).nullish() })
      .nullish(),
  }),
);

/** An image of the machine, as its engine describes it. */
export interface FoundImage {
  /** 64 hexadecimal digits. */
  readonly id: string;
  readonly env: Readonly<Record<string, string>>;
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  /** Absolute paths. */
  readonly volumes: readonly string[];
}

export interface EngineOptions {
  /** Variables by which the engine finds its images and its settings. */
  readonly env: Readonly<Record<string, string>>;
  readonly powers: Powers;
}

export class Engine {
  readonly #program: string;
  readonly #options: EngineOptions;

  private constructor(program: string, options: EngineOptions) {
    this.#program = program;
    this.#options = options;
  }

  /** Finds an engine. Throws UNSUPPORTED, with what to do instead. */
  static async find(options: EngineOptions, signal: AbortSignal): Promise<Engine> {
    const podman = programIn(options.env.PATH, 'podman');
    if (podman !== undefined) return new Engine(podman, options);
    const docker = programIn(options.env.PATH, 'docker');
    if (docker === undefined) throw unsupported('no container engine is installed here');
    const engine = new Engine(docker, options);
    const security = await engine
      .#say(['info', '--format', '{{json .SecurityOptions}}'], signal)
      .catch(() => undefined);
    if (security === undefined) throw unsupported("Docker's engine does not answer");
    if (!security.includes('name=rootless'))
      throw unsupported(
        "Docker's engine here has root's rights, and so would whoever may talk to it: it is never used",
      );
    return engine;
  }

  /** An image of the machine; undefined if it has to be pulled. Throws UPSTREAM_FAILED. */
  async image(name: string, signal: AbortSignal): Promise<FoundImage | undefined> {
    const answer = await this.#say(['image', 'inspect', '--', name], signal).catch((error: unknown) => {
      signal.throwIfAborted();
      if (error instanceof ToolError && /no such image|not known/i.test(error.message)) return undefined;
      throw error;
    });
    if (answer === undefined) return undefined;
    const [found] = inspected.safeParse(parseJson(answer)).data ?? [];
    if (!found)
      throw new ToolError('UPSTREAM_FAILED', `${this.#program} describes the image in a form that is not known`);
    const { Env, Entrypoint, Cmd, Volumes } = found.Config ?? {};
    return {
      id: found.Id.replace('sha256:', ''),
      env: Object.fromEntries((Env ?? []).flatMap((it) => variable(it) ?? [])),
      entrypoint: Entrypoint ?? [],
      command: Cmd ?? [],
      volumes: Object.keys(Volumes ?? {}).filter((it) => /^(?:\/[\w.-]+)+$/.test(it) && !it.includes('/..')),
    };
  }

  /** Pulls an image from its registry. Throws UPSTREAM_FAILED. */
  async pull(name: string, signal: AbortSignal): Promise<void> {
    await this.#say(['pull', '--quiet', '--', name], signal);
  }

  /** Unpacks an image into a folder, from a container that is made of it, never starts, and is removed. Throws UPSTREAM_FAILED. */
  async unpack(id: string, folder: string, signal: AbortSignal): Promise<void> {
    // An engine refuses a container without a command, which an image need not have.
    const made = ['create', '--label', LABEL, '--network', 'none', '--pull', 'never', '--', id, '/none'];
    const container = (await this.#say(made, signal)).trim();
    try {
      await this.#answerOf('/bin/bash', ['-c', UNPACK, 'bash', this.#program, container, folder], signal);
    } finally {
      await this.#say(['rm', '--force', '--', container]).catch(() => {}); // The next daemon removes it.
    }
  }

  /** Removes what a daemon that was killed left behind. Never rejects. */
  async clean(): Promise<void> {
    const left = await this.#say(['ps', '--all', '--quiet', '--filter', `label=${LABEL}`]).catch(() => '');
    const all = left.split('\n').filter((it) => /^[0-9a-f]{12,64}$/.test(it));
    if (all.length > 0) await this.#say(['rm', '--force', '--', ...all]).catch(() => {});
  }

  #say(args: readonly string[], signal?: AbortSignal): Promise<string> {
    return this.#answerOf(this.#program, args, signal);
  }

  async #answerOf(program: string, args: readonly string[], signal?: AbortSignal): Promise<string> {
    signal?.throwIfAborted();
    const { powers, env } = this.#options;
    // A group of its own, which is ended with all that it started.
    const child = powers.spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], cwd: '/', env, detached: true });
    const kill = () => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL');
    signal?.addEventListener('abort', kill);
    const { stdout, complaint, code } = await answerOf(child, ANSWER);
    signal?.removeEventListener('abort', kill);
    signal?.throwIfAborted();
    if (code === 0) return stdout;
    throw new ToolError('UPSTREAM_FAILED', `${this.#program}: ${complaint}`, {
      suggestion: 'Name an image that is on this machine, or run the program in a command of its own.',
    });
  }
}

const unsupported = (why: string): ToolError =>
  new ToolError('UNSUPPORTED', why, {
    suggestion:
      'Ask the person to install Podman (`apt-get install podman`), whose images need no engine with rights, or run the program in `terminal_execute`.',
  });

/** A variable of an image; undefined for what is none. */
function variable(text: string): [string, string][] | undefined {
  const [, name = '', value = ''] = /^([A-Za-z_][A-Za-z0-9_]*)=([\s\S]*)$/.exec(text) ?? [];
  return name === '' || value.includes('\0') ? undefined : [[name, value]];
}

const programIn = (path: string | undefined, name: string): string | undefined =>
  (path ?? '')
    .split(':')
    .filter(isAbsolute)
    .map((it) => join(it, name))
    .find((it) => existsSync(it));
