/** The schema of a policy file, from which policies/policy.schema.json is made. Keys that are not enforced yet are refused, never ignored. */
import * as z from 'zod';
import { argumentParts } from './arguments.ts';
import { match } from './match.ts';
import { secretsPart } from './secrets.ts';
import { apiTier, executeTier, toolBounds, toolTier } from './tiers.ts';
import { decision, globs, int, oneOrMany, optional, shown, text, toolName } from './values.ts';

const ruleId = text(64).regex(/^[a-z0-9][a-z0-9-]*$/, 'takes lower-case letters, digits and dashes');

/** A command line, or a call as `tool {json}`. */
const example = text(1024);
const examplesOf = (title: string, description: string) =>
  optional(z.array(example).max(64), title, description, ['npm test', 'file_read {"path": "README.md"}']);

const rule = z.strictObject({
  id: shown(ruleId, 'Id', 'The name by which refusals, the record and `open` speak of the rule.', 'run-tests'),
  match: shown(
    match,
    'Match',
    'What the rule is about; all keys must hold.',
    { command: ['npm', 'test', '$'] },
    { tool: 'git_commit' },
    { write: 'migrations/**' },
  ),
  decision: shown(decision, 'Decision', 'Of several rules that match, the strictest decides.', 'allow', 'ask', 'deny'),
  reason: shown(
    text(512),
    'Reason',
    'Whoever is asked or refused reads it.',
    'Tests run in the sandbox and can be run at any time.',
  ),
  sensitive: optional(
    z.boolean(),
    'Sensitive',
    'Whether what the rule denies are secrets: its refusals are SENSITIVE_FILE.',
    true,
  ),
  preview: optional(
    z.literal('required'),
    'Preview',
    'For a rule that asks about commands: the command runs as a preview, and the person is asked whether what it did is to be committed.',
    'required',
  ),
  examples: optional(
    z.strictObject({
      match: examplesOf('Matching', 'Calls that the rule must match.'),
      no_match: examplesOf('Not matching', 'Calls that the rule must not match.'),
    }),
    'Examples',
    'Command lines, or calls written `tool {"json": …}`. They are run whenever the file is loaded; a file with one that fails is refused.',
    { match: ['npm test'], no_match: ['npm install'] },
  ),
});

const rateLimit = z.strictObject({
  tool: shown(globs, 'Tool', 'Tools that are counted together; aliases count.', 'web_fetch', 'file_*'),
  calls: shown(int(1, 1_000_000), 'Calls', 'How many calls there may be in `perMs`.', 20),
  perMs: shown(int(1, 86_400_000 * 31), 'Span', 'The span in which calls are counted, in milliseconds.', 60_000),
  per: shown(
    z.enum(['session', 'principal', 'daemon']).default('principal'),
    'Per',
    'Whose calls are counted together.',
    'principal',
    'session',
    'daemon',
  ),
});

/** Settings of one tool; its bounds can only lower those of its tier. */
const toolEntry = z
  .strictObject({
    decision: optional(
      decision,
      'Decision',
      'What happens to calls of the tool, whatever its tier says.',
      'allow',
      'ask',
      'deny',
    ),
    ...toolBounds,
  })
  .refine((it) => Object.values(it).some((value) => value !== undefined), 'must say something of the tool');

const tools = z
  .strictObject({
    disable: optional(
      z.array(toolName).max(256),
      'Disabled tools',
      'Names or patterns of tools that are switched off.',
      ['code_run', 'mcp:*'],
    ),
  })
  .catchall(toolEntry);

/**
 * Names of what a child may widen: `tiers`, `tiers.<tier>`, `rules` (adding allow rules), `rules.<id>`, `approvals`, `rateLimits`,
 * `environment`, `secrets`.
 */
const openName = text(80).regex(/^(tiers|rules)(\.[a-z0-9_-]+)?$|^(approvals|rateLimits|environment|secrets)$/);

const tiers = z.strictObject({
  read_only: optional(toolTier, 'Tools that only read', 'They change nothing.', { decision: 'allow' }),
  write: optional(toolTier, 'Tools that change files', 'They write in the workspace.', { decision: 'ask' }),
  execute: optional(executeTier, 'Commands', 'They run programs, each in a sandbox of its own.', {
    decision: 'ask',
    timeoutMs: 60_000,
  }),
  external_api: optional(apiTier, 'Requests', 'They leave the machine.', { decision: 'deny' }),
});

const approvals = z.strictObject({
  timeoutMs: optional(
    int(1000, 86_400_000),
    'Time to answer',
    'How long a question waits for an answer, in milliseconds.',
    300_000,
  ),
  headless: optional(
    z.enum(['deny', 'wait']),
    'When nobody listens',
    'Deny at once, or wait until somebody listens for approvals.',
    'deny',
    'wait',
  ),
  rememberMaxMs: optional(
    int(0, 28_800_000),
    'Remember',
    'How long an answer may be remembered at most, in milliseconds; 0 is never.',
    3_600_000,
  ),
});

export const policyFile = shown(
  z.strictObject({
    version: optional(z.literal(1), 'Version', 'The version of this format.', 1),
    extends: optional(
      text(512),
      'Extends',
      'A built-in policy or a file next to this one (default: `default`).',
      ...['default', 'careful', 'strict', 'unattended', 'read-only', 'plan', 'subagent', 'team.yaml'],
    ),
    open: optional(
      z.array(openName).max(64),
      'Open',
      'What policies that extend this one may widen.',
      ['tiers', 'rules'],
      ['tiers.execute'],
    ),
    tiers: optional(tiers, 'Tiers', 'What happens to calls for which no rule decides, by what they may touch.', {
      execute: { decision: 'ask' },
    }),
    tools: optional(tools, 'Tools', 'Settings of single tools, by name.', { git_commit: { decision: 'ask' } }),
    rules: optional(
      z.array(rule).max(1000),
      'Rules',
      'What happens to calls that match; the strictest decides, so their order never matters.',
      [
        {
          id: 'run-tests',
          match: { command: ['npm', 'test', '$'] },
          decision: 'allow',
          reason: 'Tests are harmless.',
        },
      ],
    ),
    rateLimits: optional(z.array(rateLimit).max(256), 'Rate limits', 'How often tools may be called.', [
      { tool: 'terminal_execute', calls: 10, perMs: 60_000 },
    ]),
    arguments: optional(
      z
        .array(
          z.strictObject({
            tool: shown(oneOrMany(toolName), 'Tool', 'Tools by their names or aliases.', 'terminal_execute'),
            ...argumentParts,
          }),
        )
        .max(256),
      'Arguments',
      'How arguments of calls are rewritten before they are judged; a call never gets to do more.',
      [
        { tool: 'terminal_execute', atMost: { timeout: 60_000 } },
        { tool: 'file_copy', set: { overwrite: false } },
      ],
    ),
    approvals: optional(approvals, 'Approvals', 'How questions wait for a person.', { headless: 'deny' }),
    environment: optional(
      z.array(text(128).regex(/^[A-Za-z_][A-Za-z0-9_]*\*?$/)).max(64),
      'Environment',
      'Variables that callers may set for commands; `*` at the end stands for any ending. All when absent.',
      ['PATH', 'LC_*'],
    ),
    secrets: optional(secretsPart, 'Secrets', 'How secrets are taken out of results, and which files are none.', {
      redact: 'default',
    }),
  }),
  'A policy of Ringfence',
  'What calls of agents may do.',
  { version: 1, extends: 'default' },
);

export type PolicyFile = z.output<typeof policyFile>;
