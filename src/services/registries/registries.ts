/**
 * Registries of packages that want a key: commands reach them without one by `http://HOST:443/`, and the egress process adds TLS and the
 * key to requests that only read.
 */
import * as z from 'zod';
import type { KeyAgents, RemoteKeys } from '../../pipeline/execute/keys/key-agents.ts';
import type { RemoteKey } from '../../sandbox/egress/messages.ts';
import { secretName } from '../secrets/secret-files.ts';
import { hostOf, type Secrets } from '../secrets/secrets.ts';

const registry = z.strictObject({
  url: z
    .url({ protocol: /^https$/ })
    .max(2048)
    .describe('Its address, as the package manager takes it.'),
  secret: secretName.describe('The secret with its token, or `USER:PASSWORD`: `ringfence secret set NAME`.'),
});

export const registriesSchema = z.strictObject({
  npm: registry.optional(),
  python: registry.optional(),
  go: registry.optional(),
});

export type Registries = z.output<typeof registriesSchema>;

/** The address at which commands reach a registry. */
function plainUrl(text: string): string {
  const url = new URL(text);
  return `http://${hostOf(url)}${url.pathname}`;
}

/** Variables by which package managers of commands find the registries. */
export function registryVariables({ npm, python, go }: Registries): Record<string, string> {
  return {
    // The archives that the registry names at its own host come from the same address.
    ...(npm && { npm_config_registry: plainUrl(npm.url), npm_config_replace_registry_host: 'always' }),
    ...(python && { PIP_INDEX_URL: plainUrl(python.url), PIP_TRUSTED_HOST: hostOf(new URL(python.url)) }),
    ...(go && { GOPROXY: plainUrl(go.url) }),
  };
}

/** The keys that a person has given for servers of git and for registries. */
export class PersonsKeys implements RemoteKeys {
  readonly #secrets: Secrets;
  readonly #registries: Registries;
  readonly ssh: KeyAgents['ssh'];
  readonly signer: KeyAgents['signer'];

  constructor(secrets: Secrets, registries: Registries, { ssh, signer }: KeyAgents) {
    this.#secrets = secrets;
    this.ssh = ssh;
    this.signer = signer;
    this.#registries = registries;
  }

  headersFor(url: URL): Promise<Readonly<Record<string, string>> | undefined> {
    return this.#secrets.headersFor(url);
  }

  get ofCommands(): (() => Promise<readonly RemoteKey[]>) | undefined {
    const all = Object.values(this.#registries).filter((it) => it !== undefined);
    return all.length === 0 ? undefined : () => Promise.all(all.map((it) => this.#keyOf(it)));
  }

  /** Without headers if the secret is missing or can't be read: the registry then answers that it wants a key. */
  async #keyOf({ url: text, secret }: z.output<typeof registry>): Promise<RemoteKey> {
    const url = new URL(text);
    const path = url.pathname.endsWith('/') ? url.pathname : `${url.pathname}/`;
    const own = { host: url.hostname, port: Number(url.port) || 443, isTls: true, readsOnly: true, path };
    try {
      const value = await this.#secrets.read({ name: secret }, text);
      const authorization = value.includes(':') ? `Basic ${Buffer.from(value).toString('base64')}` : `Bearer ${value}`;
      return { ...own, headers: { authorization } };
    } catch {
      return own; // ToolError AUTH_REQUIRED, ACCESS_DENIED.
    }
  }
}
