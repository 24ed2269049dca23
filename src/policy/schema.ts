/**
 * The schema of a policy file (`policyFile`, the source of policies/policy.schema.json) and the types of a parsed policy. Keys that are not
 * enforced yet are refused, never ignored.
 */
import * as z from 'zod';
import { type Decision, TIERS, type Tier } from '../call.ts';
import { type NetworkEntry, type NetworkLayer, parseNetworkEntry } from './network.ts';

const decision = z.enum(['allow', 'ask', 'deny']);
const tierName = z.enum(TIERS);
const text = (max: number) => z.string().min(1).max(max);
const ruleId = text(64).regex(/^[a-z0-9][a-z0-9-]*$/, 'takes lower-case letters, digits and dashes');
const glob = text(512);
/** One item or a list of them. */
const oneOrMany = <T extends z.ZodType>(item: T) => z.union([item, z.array(item).min(1).max(64)]);
const globs = oneOrMany(glob);

/** One word of a command: a token or its alternatives; `*` inside a token stands for any characters. */
const token = oneOrMany(text(256));

interface MatchInput<Inner = unknown> {
  tool?: string | string[] | undefined;
  tier?: Tier | Tier[] | undefined;
  category?: string | string[] | undefined;
  path?: string | string[] | undefined;
  read?: string | string[] | undefined;
  write?: string | string[] | undefined;
  delete?: string | string[] | undefined;
  holds?: 'credentials' | undefined;
  command?: (string | string[])[] | undefined;
  host?: string | string[] | undefined;
  principal?: string | string[] | undefined;
  session?: string | string[] | undefined;
  when?: { principal?: string | string[] | undefined; session?: string | string[] | undefined } | undefined;
  all?: Inner[] | undefined;
  any?: Inner[] | undefined;
  not?: Inner | undefined;
}

/** A match with `ignoreCase` already applied to its globs. */
export interface MatchSpec extends MatchInput<MatchSpec> {}

/** A match as written in a file. */
export interface WrittenMatch extends MatchInput<WrittenMatch> {
  ignoreCase?: true | undefined;
}

const when = z.strictObject({ principal: globs.optional(), session: globs.optional() });

/** All given keys must hold. An empty match is refused, since it would match everything. */
const match: z.ZodType<WrittenMatch> = z
  .strictObject({
    tool: globs.optional().describe('Tool names, aliases included; `*` stands for any characters.'),
    tier: oneOrMany(tierName).optional(),
    category: globs.optional(),
    path: globs
      .optional()
      .describe(
        'Any effect on such a path: read, write or delete. Relative to the workspace, `/` absolute, `~/` in the home directory.',
      ),
    read: globs.optional(),
    write: globs.optional().describe('Creates, changes or replaces such a path.'),
    delete: globs.optional(),
    ignoreCase: z
      .literal(true)
      .optional()
      .describe('With path, read, write or delete of the same match: letters stand for themselves in either case.'),
    holds: z
      .literal('credentials')
      .optional()
      .describe(
        'With a path: not where that is a folder, or an `.npmrc` or `.pypirc` in the workspace without a credential.',
      ),
    command: z
      .array(token)
      .min(1)
      .max(32)
      .optional()
      .describe(
        'The first words of a simple command, after its program was resolved; `$` as the last one means: no more words.',
      ),
    host: globs.optional().describe('host or host:port of a connection.'),
    principal: globs.optional(),
    session: globs.optional(),
    when: when.optional(),
    get all() {
      return z.array(match).min(1).max(32).optional();
    },
    get any() {
      return z.array(match).min(1).max(32).optional();
    },
    get not() {
      return match.optional();
    },
  })
  .refine((it) => Object.values(it).some((value) => value !== undefined), 'must name at least one thing to match')
  .refine(
    ({ ignoreCase, path, read, write, delete: deleted }) => {
      const globs = [path ?? [], read ?? [], write ?? [], deleted ?? []].flat();
      return !ignoreCase || (globs.length > 0 && !globs.some((it) => it.includes('[')));
    },
    {
      path: ['ignoreCase'],
      error: 'goes with a path, read, write or delete of the same match, whose globs hold no `[`',
    },
  );

/** A command line, or a call as `tool {json}`. */
const example = text(1024);

const rule = z.strictObject({
  id: ruleId,
  match,
  decision,
  reason: text(512),
  sensitive: z.boolean().optional().describe('Whether what it denies are secrets: refusals are SENSITIVE_FILE.'),
  examples: z
    .strictObject({ match: z.array(example).max(64).optional(), no_match: z.array(example).max(64).optional() })
    .optional()
    .describe('Commands, or calls written `tool {"json": …}`; run whenever the file is loaded.'),
});

/** Keys of every tier. `sandbox` and `network` accept only the value that is always in force. */
const tier = z.strictObject({
  decision: decision.optional(),
  reason: text(512).optional().describe('Why the decision is what it is, for whoever is asked or refused.'),
  approve: z
    .array(z.literal('destructive'))
    .max(1)
    .optional()
    .describe('What a person is asked about although the tier is allowed.'),
  timeoutMs: z.int().min(1).max(86_400_000).optional(),
  outputBytes: z
    .int()
    .min(1024)
    .max(1_073_741_824)
    .optional()
    .describe(
      'Most of a result that is given back; the output of a command is cut to it, more of another one is OUTPUT_LIMIT.',
    ),
  costUsdPerDay: z
    .number()
    .min(0)
    .max(1_000_000)
    .optional()
    .describe('Hard limit of what calls of this tier may cost in a day (UTC); more is COST_LIMIT.'),
  costUsdPerSession: z.number().min(0).max(1_000_000).optional(),
  costUsdPerPrincipalDay: z.number().min(0).max(1_000_000).optional(),
  costUsdAskAbove: z
    .number()
    .min(0)
    .max(1_000_000)
    .optional()
    .describe('Soft limit a day: beyond it a person is asked.'),
  sandbox: z.literal('required', { error: 'only `required` is supported yet, and always in force' }).optional(),
  network: z.literal('none', { error: 'only `none` is supported for this tier, and always in force' }).optional(),
});

/** Tiers whose tools run in a worker thread of their host. */
const toolTier = tier.extend({
  cpuMs: z.int().min(1).max(86_400_000).optional().describe('CPU time of a call: of the thread that it runs in.'),
  memoryMb: z
    .int()
    .min(64)
    .max(1_048_576)
    .optional()
    .describe('JavaScript heap of the thread that a call runs in, in MiB.'),
});

const port = z.int().min(1).max(65_535);

/** One entry of a network list; a bad entry is reported with the parser's message. */
const networkEntry: z.ZodType<NetworkEntry> = z
  .union([
    text(300),
    z.strictObject({
      host: text(300),
      port: z.union([oneOrMany(port), z.literal('*')]).optional(),
      private: z.boolean().optional().describe('Whether the name may lead to this machine and its networks.'),
    }),
  ])
  .superRefine((entry, context) => {
    try {
      parseNetworkEntry(entry);
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message });
    }
  });

const network = z
  .union([
    z.literal('none', { error: 'takes `none`, or `{ allow: [host, "*.domain:port", …] }`' }),
    z.strictObject({ allow: z.array(networkEntry).min(1).max(256) }),
  ])
  .describe(
    'What commands, or requests of the tier external_api, may connect to: none, or names (`*.example.org` is what lies below), addresses and blocks, with `:port` (80 and 443 when absent).',
  );

/** What a command locks, from least to most strict. */
export const LOCKS = ['none', 'paths', 'workspace'] as const;
export type Locks = (typeof LOCKS)[number];

/** Which Unix sockets commands may use, from least to most strict: their own, or none. */
export const UNIX_SOCKETS = ['own', 'none'] as const;
export type UnixSockets = (typeof UNIX_SOCKETS)[number];

/** The execute tier, which alone limits processes, files, Unix sockets and locks. */
const executeTier = tier.extend({
  network: network.optional(),
  cpuMs: z.int().min(1).max(86_400_000).optional().describe('CPU time of a command, all its processes together.'),
  memoryMb: z
    .int()
    .min(1)
    .max(1_048_576)
    .optional()
    .describe('Memory of a command, all its processes together, in MiB.'),
  processes: z.int().min(1).max(65_536).optional().describe('Processes of a command at once.'),
  fileMb: z.int().min(1).max(1_048_576).optional().describe('Largest file that a command may write, in MiB.'),
  unixSockets: z
    .enum(UNIX_SOCKETS)
    .optional()
    .describe(
      'Unix sockets of commands: `own` (when absent), which are those that a command makes itself and none of others, or `none`.',
    ),
  locks: z
    .enum(LOCKS)
    .optional()
    .describe(
      'What a command keeps others from while it runs: `workspace` all writes and commands of the workspace, `paths` those of the files that its redirections name, `none` nothing.',
    ),
});

/** The external_api tier: its tools reach only the listed hosts. */
const apiTier = tier.extend({ network: network.optional() });

const rateLimit = z.strictObject({
  tool: globs,
  calls: z.int().min(1).max(1_000_000),
  perMs: z
    .int()
    .min(1)
    .max(86_400_000 * 31),
  per: z.enum(['session', 'principal', 'daemon']).default('principal').describe('Whose calls are counted together.'),
});

/** Settings of one tool; its bounds can only lower those of its tier. */
const toolEntry = z
  .strictObject({
    decision: decision.optional(),
    timeoutMs: tier.shape.timeoutMs,
    outputBytes: tier.shape.outputBytes,
  })
  .refine((it) => Object.values(it).some((value) => value !== undefined), 'must say something of the tool');

const tools = z.strictObject({ disable: z.array(glob).max(256).optional() }).catchall(toolEntry);

/**
 * Names of what a child may widen: `tiers`, `tiers.<tier>`, `rules` (adding allow rules), `rules.<id>`, `approvals`, `rateLimits`,
 * `environment`, `secrets`.
 */
const openName = text(80).regex(/^(tiers|rules)(\.[a-z0-9_-]+)?$|^(approvals|rateLimits|environment|secrets)$/);

export const policyFile = z.strictObject({
  version: z.literal(1).optional(),
  extends: text(512).optional().describe('A built-in policy or a file beside this one; `default` when absent.'),
  open: z.array(openName).max(64).optional().describe('What policies that extend this one may widen.'),
  tiers: z
    .strictObject({
      read_only: toolTier.optional(),
      write: toolTier.optional(),
      execute: executeTier.optional(),
      external_api: apiTier.optional(),
    })
    .optional(),
  tools: tools.optional(),
  rules: z.array(rule).max(1000).optional(),
  rateLimits: z.array(rateLimit).max(256).optional(),
  approvals: z
    .strictObject({
      timeoutMs: z.int().min(1000).max(86_400_000).optional(),
      headless: z
        .enum(['deny', 'wait'])
        .optional()
        .describe('When nobody listens for approvals: deny at once, or wait for somebody.'),
      rememberMaxMs: z.int().min(0).max(28_800_000).optional(),
    })
    .optional(),
  environment: z
    .array(text(128).regex(/^[A-Za-z_][A-Za-z0-9_]*\*?$/))
    .max(64)
    .optional()
    .describe(
      'Variables that commands may be given by their callers; `*` at the end stands for any ending. All when absent.',
    ),
  secrets: z.strictObject({ redact: z.literal('default').optional() }).optional(),
});

export type PolicyFile = z.output<typeof policyFile>;

/** Source and reason of a decision, as explanations and audit entries show them. */
export interface RuleFacts {
  /** The rule's own id, or `tiers.<tier>.decision`, `tiers.<tier>.approve`, `tools.disable`, `tools.<name>.decision`. */
  readonly id: string;
  readonly decision: Decision;
  readonly reason: string;
  /** `file:line`. */
  readonly source: string;
}

/** A rule of a policy; `match` is plain data, so that it can be sent to hosts. */
export interface Rule extends RuleFacts {
  readonly match: MatchSpec;
  /** Error code of a refusal by this rule; POLICY_DENIED when absent. */
  readonly code?: 'TOOL_DISABLED' | 'SENSITIVE_FILE';
  readonly examples?: {
    readonly match?: readonly string[] | undefined;
    readonly no_match?: readonly string[] | undefined;
  };
}

/** Bounds of a tier, which a child may lower. Only execute has `processes` and `fileMb`; external_api has no `cpuMs` and `memoryMb`. */
export const TIER_BOUNDS = [
  'timeoutMs',
  'outputBytes',
  'costUsdPerDay',
  'costUsdPerSession',
  'costUsdPerPrincipalDay',
  'costUsdAskAbove',
  'cpuMs',
  'memoryMb',
  'processes',
  'fileMb',
] as const;
export type TierBound = (typeof TIER_BOUNDS)[number];

export interface TierRule extends RuleFacts, Partial<Readonly<Record<TierBound, number>>> {
  /**
   * What commands or requests may connect to: nothing when absent; `any` leaves it to the other layers. Only for execute and external_api.
   */
  readonly network?: NetworkLayer | 'any';
  /** The rule that asks about destructive calls of an allowed tier, if the policy has one. */
  readonly approveDestructive?: RuleFacts;
  /** Only for the execute tier. */
  readonly locks?: Locks;
  readonly unixSockets?: UnixSockets;
}

export interface RateLimit {
  readonly tool: readonly string[];
  readonly calls: number;
  readonly perMs: number;
  readonly per: 'session' | 'principal' | 'daemon';
  readonly source: string;
}

export interface ApprovalSettings {
  readonly timeoutMs: number;
  readonly headless: 'deny' | 'wait';
  readonly rememberMaxMs: number;
}

/** Bounds of one tool, in milliseconds and in bytes of a result. */
export type ToolBounds = Partial<Readonly<Record<'timeoutMs' | 'outputBytes', number>>>;

/** A policy with its parents merged in. */
export interface Policy {
  /** Built-in name or file path. */
  readonly name: string;
  /** Hash of everything that decides, parents included; a policy with another version may decide differently. `sha256:<hex>`. */
  readonly version: string;
  readonly tiers: Readonly<Record<Tier, TierRule>>;
  readonly rules: readonly Rule[];
  readonly rateLimits: readonly RateLimit[];
  readonly approvals: ApprovalSettings;
  /** Bounds of single tools, by the name or alias that the policy uses; lower than those of their tier. */
  readonly toolBounds?: Readonly<Record<string, ToolBounds>>;
  /** Variables that callers may set for commands; undefined means all. */
  readonly environment?: readonly string[];
  readonly open: readonly string[];
  /** Further policies that must agree, such as a session's or a project's. The strictest one decides. */
  readonly and: readonly Policy[];
}

/** Whether commands may use Unix sockets of their own: `none` if any layer says so. */
export const unixSocketsOf = (policy: Policy): UnixSockets =>
  [policy, ...policy.and].some(({ tiers }) => tiers.execute.unixSockets === 'none') ? 'none' : 'own';

/** The strictest locks that any layer sets; `workspace` if none does. */
export function locksOf(policy: Policy): Locks {
  const said = [policy, ...policy.and].flatMap(({ tiers }) => tiers.execute.locks ?? []);
  return (
    said.reduce<Locks | undefined>(
      (most, it) => (most === undefined || LOCKS.indexOf(it) > LOCKS.indexOf(most) ? it : most),
      undefined,
    ) ?? 'workspace'
  );
}
