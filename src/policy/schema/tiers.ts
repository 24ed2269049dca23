/** The schemas of the four tiers of a policy file: their decision and their bounds. */
import * as z from 'zod';
import { type NetworkEntry, parseNetworkEntry } from '../network.ts';
import { decision, int, oneOrMany, optional, shown, text } from './values.ts';

const timeoutMs = optional(
  int(1, 86_400_000),
  'Time limit',
  'How long a call may run, in milliseconds.',
  60_000,
  600_000,
);
const outputBytes = optional(
  int(1024, 1_073_741_824),
  'Result size',
  'The most of a result that is given back, in bytes. Output of a command is cut to it; more of another tool is OUTPUT_LIMIT.',
  1_048_576,
);
/** Bounds that single tools have too. */
export const toolBounds = { timeoutMs, outputBytes };

const costUsd = () => z.number().min(0).max(1_000_000).optional();

/** Keys of every tier. `sandbox` and `network` accept only the value that is always in force. */
const tier = z.strictObject({
  decision: optional(decision, 'Decision', 'What happens to a call for which no rule decides.', 'allow', 'ask', 'deny'),
  reason: optional(
    text(512),
    'Reason',
    'The reason for the decision, shown to the person who is asked and to the agent.',
    'A person sees every command before it runs.',
  ),
  approve: optional(
    z.array(z.literal('destructive')).max(1),
    'Approve',
    'Calls that a person is asked about although the tier is allowed.',
    ['destructive'],
  ),
  ...toolBounds,
  costUsdPerDay: shown(
    costUsd(),
    'Cost a day',
    'What calls of this tier may cost in a day (UTC), in USD; more is COST_LIMIT.',
    5,
  ),
  costUsdPerSession: shown(
    costUsd(),
    'Cost of a session',
    'What calls of this tier may cost in one session, in USD; more is COST_LIMIT.',
    1,
  ),
  costUsdPerPrincipalDay: shown(
    costUsd(),
    'Cost of a principal',
    'What calls of one principal may cost in a day (UTC), in USD; more is COST_LIMIT.',
    2,
  ),
  costUsdAskAbove: shown(
    costUsd(),
    'Ask above',
    'The cost of a day, in USD, beyond which a person is asked about each call.',
    0.5,
  ),
  sandbox: optional(
    z.literal('required', { error: "must be `required`: the sandbox can't be turned off" }),
    'Sandbox',
    'Always in force; no other value is taken.',
    'required',
  ),
  network: optional(
    z.literal('none', { error: 'must be `none`: this tier never has a network' }),
    'Network',
    'Tools of this tier connect to nothing; no other value is taken.',
    'none',
  ),
});

/** Tiers whose tools run in a worker thread of their host. */
export const toolTier = tier.extend({
  cpuMs: optional(
    int(1, 86_400_000),
    'CPU time',
    'CPU time of a call, of the thread that it runs in, in milliseconds.',
    10_000,
  ),
  memoryMb: optional(int(64, 1_048_576), 'Memory', 'JavaScript heap of the thread of a call, in MiB.', 256),
});

const port = int(1, 65_535);

/** One entry of a network list; a bad entry is reported with the parser's message. */
const networkEntry: z.ZodType<NetworkEntry> = z
  .union([
    text(300),
    z.strictObject({
      host: shown(
        text(300),
        'Host',
        'A name, `*.` and a domain, an address, or a block of addresses.',
        'git.corp.example',
        '*.npmjs.org',
      ),
      port: optional(
        z.union([oneOrMany(port), z.literal('*')]),
        'Port',
        'A port, a list of them, or `*` for all; 80 and 443 when absent.',
        443,
        [22, 443],
        '*',
      ),
      private: optional(
        z.boolean(),
        'Private',
        'Whether the name may resolve to addresses of this machine and its networks.',
        true,
      ),
    }),
  ])
  .superRefine((entry, context) => {
    try {
      parseNetworkEntry(entry);
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message });
    }
  });

const network = (who: string) =>
  optional(
    z.union([
      z.literal('none', { error: 'takes `none`, or `{ allow: [host, "*.domain:port", …], ask: true }`' }),
      z
        .strictObject({
          allow: shown(
            z.array(networkEntry).max(256),
            'Allowed hosts',
            'Names (`*.example.org` is what lies below it), addresses and blocks, with `:port` (80 and 443 when absent).',
            ['registry.npmjs.org:443'],
            [{ host: 'git.corp.example', port: [22, 443], private: true }],
          ),
          ask: optional(
            z.boolean(),
            'Ask about hosts',
            'Whether a person is asked about a host of the public internet that is not listed, when something connects to it.',
            true,
          ),
        })
        .refine(({ allow, ask }) => allow.length > 0 || ask, {
          path: ['allow'],
          error: 'must list a host, unless `ask: true` stands beside it',
        }),
    ]),
    'Network',
    `What ${who} may connect to: nothing when absent.`,
    'none',
    {
      allow: ['registry.npmjs.org:443'],
    },
  );

/** What a command locks, from least to most strict. */
export const LOCKS = ['none', 'paths', 'workspace'] as const;
export type Locks = (typeof LOCKS)[number];

/** Which Unix sockets commands may use, from least to most strict: their own, or none. */
const UNIX_SOCKETS = ['own', 'none'] as const;
export type UnixSockets = (typeof UNIX_SOCKETS)[number];

/** Whether a person may open a port of a background command, from least to most strict. */
const FORWARD = ['allow', 'deny'] as const;
export type Forward = (typeof FORWARD)[number];

/** The execute tier, which alone limits processes, files, Unix sockets and locks. */
export const executeTier = tier.extend({
  network: network('commands'),
  cpuMs: optional(
    int(1, 86_400_000),
    'CPU time',
    'CPU time of a command, all its processes together, in milliseconds.',
    120_000,
  ),
  memoryMb: optional(int(1, 1_048_576), 'Memory', 'Memory of a command, all its processes together, in MiB.', 4096),
  processes: optional(int(1, 65_536), 'Processes', 'Processes of a command at once.', 128),
  fileMb: optional(
    int(1, 1_048_576),
    'File size',
    'The largest file that a command may write, holes included, in MiB.',
    1024,
  ),
  unixSockets: optional(
    z.enum(UNIX_SOCKETS),
    'Unix sockets',
    'Which ones a command may use: `own` (when absent) are those that it makes itself, `none` are none at all.',
    'own',
    'none',
  ),
  forward: optional(
    z.enum(FORWARD),
    'Ports',
    'Whether a person may open a port of a command in the background on their loopback (`ringfence forward`): `allow` when absent.',
    'allow',
    'deny',
  ),
  preview: optional(
    z.literal('required'),
    'Preview',
    'Where the tier asks: a command runs as a preview, and the person is asked whether what it did is to be committed.',
    'required',
  ),
  previewNetwork: optional(
    z.boolean(),
    'Network of previews',
    'Whether a command that runs as a preview, and about which nobody is asked, may connect to what `network` lists; it has no network when absent.',
    true,
  ),
  locks: optional(
    z.enum(LOCKS),
    'Locks',
    'What others may not do while a command runs: `workspace` all writes and commands of the workspace, `paths` writes of the files that its redirections name, `none` nothing.',
    'paths',
    'workspace',
  ),
});

/** The external_api tier: its tools reach only the listed hosts. */
export const apiTier = tier.extend({ network: network('requests of this tier') });
