/**
 * Registries of packages that want a key: commands reach them without one by `http://HOST:443/`, and the egress process adds TLS and the
 * key to requests that only read.
 */
import * as z from 'zod';
import type { KeyAgents, RemoteKeys } from '../../pipeline/execute/keys/key-agents.ts';
import type { RemoteKey } from '../../sandbox/egress/messages.ts';
import { secretName } from '../secrets/secret-files.ts';
import { hostOf, type Secrets } from '../secrets/secrets.ts';

const address = z.url({ protocol: /^https$/ }).max(2048);
const ADDRESS = 'Its address, as the package manager takes it.';
const registry = z.strictObject({
  url: address.describe(ADDRESS),
  secret: secretName.describe('The secret with its token, or `USER:PASSWORD`: `ringfence secret set NAME`.'),
});

const SPARSE = 'sparse+';
export const registriesSchema = z.strictObject({
  npm: registry
    .extend({
      publish: z
        .boolean()
        .optional()
        .describe('Whether the key is added to what `npm publish` sends after a yes to it.'),
    })
    .optional(),
  python: registry.optional(),
  go: registry.optional(),
  cargo: registry
    .extend({
      url: z
        .string()
        .transform((it) => it.replace(SPARSE, ''))
        .pipe(address)
        .describe(`${ADDRESS} A sparse index, with or without \`${SPARSE}\`.`),
      packages: address.describe('`dl` in its config.json, up to the first `{`: the key is added below it, too.'),
    })
    .optional(),
  maven: registry.optional(),
});

export type Registries = z.output<typeof registriesSchema>;

/** The address at which commands reach a registry. */
function plainUrl(text: string): string {
  const url = new URL(text);
  return `http://${hostOf(url)}${url.pathname}`;
}

/** Variables by which package managers of commands find the registries. */
export function registryVariables({ npm, python, go, maven }: Registries): Record<string, string> {
  return {
    // The archives that the registry names at its own host come from the same address.
    ...(npm && { npm_config_registry: plainUrl(npm.url), npm_config_replace_registry_host: 'always' }),
    // npm sends nothing to publish without a token; the proxy puts the person's in its place.
    ...(npm?.publish && {
      [`npm_config_${toFolder(plainUrl(npm.url)).slice('http:'.length)}:_authToken`]: 'added-outside',
    }),
    ...(python && { PIP_INDEX_URL: plainUrl(python.url), PIP_TRUSTED_HOST: hostOf(new URL(python.url)) }),
    ...(go && { GOPROXY: plainUrl(go.url) }),
    // Maven 3.8 reads the file by itself where it is Debian's.
    ...(maven && { MAVEN_ARGS: `--global-settings /etc/${MAVEN}` }),
  };
}

const MAVEN = 'maven/settings.xml';

/** Settings below /etc by which package managers of commands find the registries for which they read no variable. */
export function registrySettings({ cargo, maven }: Registries): Record<string, string> {
  const toPlain = (url: string) => plainUrl(toFolder(url));
  // The lock file keeps the address that the manifest names.
  const replaced =
    cargo &&
    `[source.company]
registry = ${JSON.stringify(SPARSE + cargo.url)}
replace-with = "company-by-ringfence"
[source.company-by-ringfence]
registry = ${JSON.stringify(SPARSE + toPlain(cargo.url))}
`;
  const mirror =
    maven &&
    `<settings><mirrors><mirror><id>ringfence</id><mirrorOf>*</mirrorOf><url>${toXml(toPlain(maven.url))}</url></mirror></mirrors></settings>\n`;
  return { ...(replaced && { 'cargo/config.toml': replaced }), ...(mirror && { [MAVEN]: mirror }) };
}

const toFolder = (url: string): string => (url.endsWith('/') ? url : `${url}/`);
const toXml = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

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

  get ofCommands(): RemoteKeys['ofCommands'] {
    const { cargo, npm, ...others } = this.#registries;
    const all = [npm, ...Object.values(others)].filter((it) => it !== undefined);
    if (all.length === 0 && !cargo) return undefined;
    return async (publishes) => {
      const keys = await Promise.all(
        [...all, ...(cargo ? [cargo, { ...cargo, url: cargo.packages }] : [])].map((it) => this.#keyOf(it)),
      );
      const index = cargo && `${new URL(toFolder(cargo.url)).pathname}config.json`;
      const [first, ...rest] = keys.map((it) => (index?.startsWith(it.path) ? { ...it, index } : it));
      return [first && npm?.publish && publishes ? { ...first, publishes } : first, ...rest].filter(
        (it) => it !== undefined,
      );
    };
  }

  /** Without headers if the secret is missing or can't be read: the registry then answers that it wants a key. */
  async #keyOf({ url: text, secret }: z.output<typeof registry>): Promise<RemoteKey> {
    const url = new URL(text);
    const path = toFolder(url.pathname);
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
