/**
 * Finds the secrets that requests need: in a program's output, in the credentials of the service, or in the state
 * directory. A secret is read when a request needs it and is not kept, so that a replaced one takes effect at once.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { hostsOf, isStored, readSecretFile, readStored, SecretError, storedSecrets, toSecret } from './secret-files.ts';
import type { SecretSettings } from './settings.ts';

/** The place of a secret, the one that is used first. */
export type SecretPlace = 'command' | 'credentials' | 'state';

export interface NeededSecret {
  readonly name: string;
  /** URL at which a person gets one. */
  readonly setup?: string | undefined;
}

export interface SecretsOptions {
  readonly stateDir: string;
  readonly settings: SecretSettings;
  readonly limits: Limits;
}

export class Secrets {
  readonly #options: SecretsOptions;

  constructor(options: SecretsOptions) {
    this.#options = options;
  }

  /** The place of the secret; undefined if it has none. Programs are not run. */
  placeOf(name: string): SecretPlace | undefined {
    const { stateDir, settings } = this.#options;
    if (Object.hasOwn(settings.commands, name)) return 'command';
    if (settings.credentialsDir !== undefined && existsSync(join(settings.credentialsDir, name))) return 'credentials';
    return isStored(stateDir, name) ? 'state' : undefined;
  }

  /** Throws AUTH_REQUIRED if there is no such secret. */
  assertConfigured({ name, setup }: NeededSecret): void {
    if (this.placeOf(name) !== undefined) return;
    throw new ToolError('AUTH_REQUIRED', `the secret \`${name}\` is not configured`, {
      suggestion: `Ask the person to run: ringfence secret set ${name}${setup === undefined ? '' : ` (get one at ${setup})`}`,
      details: { auth: 'missing', secret: name, setup },
    });
  }

  /**
   * The secret for a request to `url`. Throws AUTH_REQUIRED if there is none, or it can't be read, and ACCESS_DENIED if
   * it may not be sent there.
   */
  async read(needed: NeededSecret, url: string): Promise<string> {
    this.assertConfigured(needed);
    const { name } = needed;
    try {
      this.#assertMayGoTo(name, new URL(url));
      return await this.#valueOf(name);
    } catch (error) {
      if (!(error instanceof SecretError)) throw error;
      throw new ToolError('AUTH_REQUIRED', `the secret \`${name}\` can't be read: ${error.message}`, {
        details: { auth: 'missing', secret: name },
      });
    }
  }

  /**
   * Headers with the person's key for a server of git: the secret that is bound to the URL's host, or has the host's name, such as
   * `github` for github.com. `USER:PASSWORD` is sent as it is, any other text as a token. Throws as `read` does.
   */
  async headersFor(url: URL): Promise<{ readonly authorization: string } | undefined> {
    const name = this.nameFor(url);
    if (name === undefined) return undefined;
    const value = await this.read({ name }, url.href);
    const pair = value.includes(':') ? value : `x-access-token:${value}`;
    return { authorization: `Basic ${Buffer.from(pair).toString('base64')}` };
  }

  /** The name of the secret for a host; undefined without one. */
  nameFor(url: URL): string | undefined {
    const { stateDir, settings } = this.#options;
    if (problemOfTransport(url) !== undefined) return undefined;
    const host = hostOf(url);
    const all = [...storedSecrets(stateDir), ...Object.keys(settings.commands)];
    const bound = all.find((it) => hostsOf(stateDir, it)?.includes(host));
    return bound ?? all.find((it) => url.hostname === `${it}.com` && hostsOf(stateDir, it) === undefined);
  }

  #assertMayGoTo(name: string, url: URL): void {
    const problem = problemOfTransport(url);
    const hosts = hostsOf(this.#options.stateDir, name);
    const to = hostOf(url);
    if (problem === undefined && (hosts === undefined || hosts.includes(to))) return;
    const reason = problem ?? `it is bound to ${hosts?.join(', ')}`;
    throw new ToolError('ACCESS_DENIED', `the secret \`${name}\` is not sent to ${to}: ${reason}`);
  }

  async #valueOf(name: string): Promise<string> {
    const { stateDir, settings, limits } = this.#options;
    switch (this.placeOf(name)) {
      case 'command':
        return this.#askProgram(settings.commands[name] as readonly string[]);
      case 'credentials':
        return readSecretFile(join(settings.credentialsDir as string, name), limits.secretBytesMax);
      default:
        return readStored(stateDir, name, limits);
    }
  }

  /** What the program prints. Its errors are not told, since they may hold what it read. */
  #askProgram([program = '', ...args]: readonly string[]): Promise<string> {
    const { settings, limits } = this.#options;
    const options = {
      env: settings.environment,
      timeout: limits.secretCommandMs,
      killSignal: 'SIGKILL',
      maxBuffer: limits.secretBytesMax,
    } as const;
    return new Promise((resolve, reject) => {
      execFile(program, args, options, (error, stdout) => {
        if (error) {
          const why = error.killed ? `took longer than ${limits.secretCommandMs} ms` : `failed (${error.code})`;
          return reject(new SecretError(`its program ${program} ${why}`));
        }
        try {
          resolve(toSecret(stdout));
        } catch (problem) {
          reject(problem as Error);
        }
      });
    });
  }
}

export const hostOf = ({ hostname, port, protocol }: Pick<URL, 'hostname' | 'port' | 'protocol'>): string =>
  `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`;

/** Why no secret may be sent to a URL: only TLS and this machine's own loopback keep it from others. */
export const problemOfTransport = ({ protocol, hostname }: URL): string | undefined =>
  protocol === 'https:' || (protocol === 'http:' && hostname === '127.0.0.1')
    ? undefined
    : 'secrets are sent by https only';
