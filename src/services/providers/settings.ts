/** Configuration of external tool providers by the operator; agents, workspaces and servers can't change it. */
import * as z from 'zod';
import { TIERS } from '../../base/result-shapes.ts';
import {
  openText,
  type SecretContext,
  type SecretSource,
  secretReference,
  toSecretSource,
} from '../../base/secret-source.ts';
import { parseNetworkEntry } from '../../policy/network.ts';
import { argumentsOfTool } from '../../policy/schema/arguments.ts';
import { deprecationSchema } from '../../tools/versions.ts';

const word = (max: number) => z.string().min(1).max(max);
/**
 * A secret, or where to find one: in a file, or in a variable of the daemon's environment. A literal text counts as a secret as well, since
 * most in `env` and `headers` are; `{ value }` is for texts that results may show.
 */
const value = z.union([z.string().max(4096), openText, secretReference]);

/** Parameters of a tool that name targets; policies judge the call by them. */
const effects = z.partialRecord(z.enum(['read', 'write', 'delete', 'connect']), z.array(word(64)).max(8));

const tool = z.strictObject({
  tier: z
    .enum(TIERS)
    .optional()
    .describe('The tier that policies apply to its calls (default: the tier of the provider).'),
  effects: effects.optional().describe('Which parameters of the tool name paths or hosts.'),
  arguments: argumentsOfTool,
  deprecated: deprecationSchema.optional().describe('What callers of the tool are told: another tool, or a reason.'),
});

const variables = z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,63}$/), value);
const headers = z.record(z.string().regex(/^[A-Za-z0-9-]{1,64}$/), value);

const common = {
  tier: z
    .enum(TIERS)
    .default('external_api')
    .describe('The tier that policies apply to its calls; also limits what its process may do.'),
  tools: z
    .strictObject({
      allow: z.array(word(128)).max(256).optional().describe("The only tools to offer, by the server's own names."),
      deny: z.array(word(128)).max(256).optional(),
    })
    .catchall(tool)
    .prefault({}),
  protocol: z.enum(['legacy', 'modern', 'auto']).default('legacy'),
  timeoutMs: z.int().min(100).max(3_600_000).optional().describe('Longest duration of a call, in milliseconds.'),
  outputBytes: z.int().min(1024).max(14_000_000).default(1_048_576).describe('Largest result, in bytes.'),
  concurrency: z.int().min(1).max(64).default(8).describe('How many calls run at once.'),
};

const stdio = z.strictObject({
  ...common,
  command: z.array(word(4096)).min(1).max(64).describe('Program and arguments.'),
  env: variables.default({}).describe('The environment variables of the server, besides PATH, HOME and LANG.'),
  reads: z
    .array(word(4096))
    .max(16)
    .default([])
    .describe('Folders outside /usr that the server sees read-only, such as its own code.'),
  workspace: word(4096)
    .optional()
    .describe('The workspace that the server sees: writable if its tier may write, else read-only.'),
  network: z
    .array(word(300))
    .max(64)
    .default([])
    .describe('Where the server may connect: host, host:port or *.domain.'),
  memoryMb: z.int().min(64).max(65_536).optional(),
  idleMs: z
    .int()
    .min(1000)
    .max(86_400_000)
    .optional()
    .describe('End the server after this long without a call (default: never).'),
});

const http = z.strictObject({
  ...common,
  url: z.url({ protocol: /^https?$/ }).max(2048),
  headers: headers.default({}).describe('Headers to send with each request.'),
  private: z.boolean().default(false).describe('Whether the server may be on this machine or its networks.'),
});

/** Each provider may be a permanent process. */
const PROVIDERS_MAX = 16;

/** The first part of its tools' names; without double underscores, which mark its end. */
const name = z
  .string()
  .regex(/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/)
  .max(24);

/** Selects one of the two schemas by the presence of `url`, so that errors refer to it instead of saying that neither matches. */
const provider = z.unknown().transform((given, context): z.output<typeof stdio> | z.output<typeof http> => {
  const isElsewhere = typeof given === 'object' && given !== null && 'url' in given;
  const parsed = (isElsewhere ? http : stdio).safeParse(given, { jitless: true });
  if (parsed.success) return parsed.data;
  for (const { path, message } of parsed.error.issues) context.addIssue({ code: 'custom', path, message });
  return z.NEVER;
});

export const providersSchema = z
  .record(name, provider)
  .refine((it) => Object.keys(it).length <= PROVIDERS_MAX, `must name at most ${PROVIDERS_MAX} providers`);

type Resolved<S extends z.ZodType, K extends keyof z.output<S>> = Readonly<Omit<z.output<S>, K>> &
  Readonly<Record<K, Readonly<Record<string, SecretSource>>>>;

/** One provider with absolute real paths and its variables resolved. */
export type ProviderSettings = { readonly name: string } & (
  | ({ readonly kind: 'stdio' } & Resolved<typeof stdio, 'env'>)
  | ({ readonly kind: 'http' } & Resolved<typeof http, 'headers'>)
);

export interface SettingsContext extends SecretContext {
  /** The real path of a folder that commands may see. Throws for other paths. */
  toShownFolder(path: string): string;
  /** The real path of a workspace of the daemon. Throws for other paths. */
  toWorkspace(path: string): string;
}

/** Resolves the settings of all providers. Throws an Error that names the provider and the problem. */
export function toProviderSettings(
  providers: z.output<typeof providersSchema>,
  context: SettingsContext,
): ProviderSettings[] {
  return Object.entries(providers).map(([name, it]) => {
    try {
      return toSettings(name, it, context);
    } catch (error) {
      throw new Error(`provider ${name}: ${(error as Error).message}`);
    }
  });
}

function toSettings(
  name: string,
  given: z.output<typeof stdio> | z.output<typeof http>,
  { env, toShownFolder, toWorkspace, toPath }: SettingsContext,
): ProviderSettings {
  const { tier } = given;
  const sources = (values: Record<string, z.output<typeof value>>) =>
    Object.fromEntries(Object.entries(values).map(([key, it]) => [key, toSecretSource(it, { env, toPath })]));
  if ('url' in given) {
    const { url, headers: sent } = given;
    if (tier !== 'external_api')
      throw new Error(`the tier of an http provider must be external_api, not ${tier}: its server runs elsewhere`);
    if (URL.parse(url)?.username) throw new Error('credentials belong in `headers`, not in the URL');
    return { ...given, name, kind: 'http', headers: sources(sent) };
  }
  const { workspace } = given;
  if (workspace !== undefined && tier === 'external_api')
    throw new Error(
      'a provider of tier external_api sees no workspace; remove `workspace`, or set the tier to read_only, write or execute',
    );
  for (const it of given.network) parseNetworkEntry(it);
  return {
    ...given,
    name,
    kind: 'stdio',
    env: sources(given.env),
    reads: given.reads.map(toShownFolder),
    workspace: workspace && toWorkspace(workspace),
  };
}
