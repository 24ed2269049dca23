/** The schema of a policy file, from which policies/policy.schema.json is made. Keys that are not enforced yet are refused, never ignored. */
import * as z from 'zod';
import { argumentParts } from './arguments.ts';
import { match } from './match.ts';
import { secretsPart } from './secrets.ts';
import { apiTier, executeTier, toolBounds, toolTier } from './tiers.ts';
import { about, decision, globs, oneOrMany, text, toolName } from './values.ts';

const ruleId = text(64).regex(/^[a-z0-9][a-z0-9-]*$/, 'takes lower-case letters, digits and dashes');

/** A command line, or a call as `tool {json}`. */
const example = text(1024);
const examplesOf = (title: string, description: string) =>
  z
    .array(example)
    .max(64)
    .optional()
    .meta(about(title, description, ['npm test', 'file_read {"path": "README.md"}']));

const rule = z.strictObject({
  id: ruleId.meta(about('Id', 'The name by which refusals, the record and `open` speak of the rule.', 'run-tests')),
  match: match.meta(
    about(
      'Match',
      'What the rule is about; all keys must hold.',
      { command: ['npm', 'test', '$'] },
      { tool: 'git_commit' },
      { write: 'migrations/**' },
    ),
  ),
  decision: decision.meta(
    about('Decision', 'Of several rules that match, the strictest decides.', 'allow', 'ask', 'deny'),
  ),
  reason: text(512).meta(
    about('Reason', 'Whoever is asked or refused reads it.', 'Tests run in the sandbox and can be run at any time.'),
  ),
  sensitive: z
    .boolean()
    .optional()
    .meta(about('Sensitive', 'Whether what the rule denies are secrets: its refusals are SENSITIVE_FILE.', true)),
  preview: z
    .literal('required')
    .optional()
    .meta(
      about(
        'Preview',
        'For a rule that asks about commands: the command runs as a preview, and the person is asked whether what it did is to be committed.',
        'required',
      ),
    ),
  examples: z
    .strictObject({
      match: examplesOf('Matching', 'Calls that the rule must match.'),
      no_match: examplesOf('Not matching', 'Calls that the rule must not match.'),
    })
    .optional()
    .meta(
      about(
        'Examples',
        'Command lines, or calls written `tool {"json": …}`. They are run whenever the file is loaded; a file with one that fails is refused.',
        { match: ['npm test'], no_match: ['npm install'] },
      ),
    ),
});

const rateLimit = z.strictObject({
  tool: globs.meta(about('Tool', 'Tools that are counted together; aliases count.', 'web_fetch', 'file_*')),
  calls: z
    .int()
    .min(1)
    .max(1_000_000)
    .meta(about('Calls', 'How many calls there may be in `perMs`.', 20)),
  perMs: z
    .int()
    .min(1)
    .max(86_400_000 * 31)
    .meta(about('Span', 'The span in which calls are counted, in milliseconds.', 60_000)),
  per: z
    .enum(['session', 'principal', 'daemon'])
    .default('principal')
    .meta(about('Per', 'Whose calls are counted together.', 'principal', 'session', 'daemon')),
});

/** Settings of one tool; its bounds can only lower those of its tier. */
const toolEntry = z
  .strictObject({
    decision: decision
      .optional()
      .meta(about('Decision', 'What happens to calls of the tool, whatever its tier says.', 'allow', 'ask', 'deny')),
    ...toolBounds,
  })
  .refine((it) => Object.values(it).some((value) => value !== undefined), 'must say something of the tool');

const tools = z
  .strictObject({
    disable: z
      .array(toolName)
      .max(256)
      .optional()
      .meta(about('Disabled tools', 'Names or patterns of tools that are switched off.', ['code_run', 'mcp:*'])),
  })
  .catchall(toolEntry);

/**
 * Names of what a child may widen: `tiers`, `tiers.<tier>`, `rules` (adding allow rules), `rules.<id>`, `approvals`, `rateLimits`,
 * `environment`, `secrets`.
 */
const openName = text(80).regex(/^(tiers|rules)(\.[a-z0-9_-]+)?$|^(approvals|rateLimits|environment|secrets)$/);

const tiers = z.strictObject({
  read_only: toolTier.optional().meta(about('Tools that only read', 'They change nothing.', { decision: 'allow' })),
  write: toolTier
    .optional()
    .meta(about('Tools that change files', 'They write in the workspace.', { decision: 'ask' })),
  execute: executeTier
    .optional()
    .meta(
      about('Commands', 'They run programs, each in a sandbox of its own.', { decision: 'ask', timeoutMs: 60_000 }),
    ),
  external_api: apiTier.optional().meta(about('Requests', 'They leave the machine.', { decision: 'deny' })),
});

const approvals = z.strictObject({
  timeoutMs: z
    .int()
    .min(1000)
    .max(86_400_000)
    .optional()
    .meta(about('Time to answer', 'How long a question waits for an answer, in milliseconds.', 300_000)),
  headless: z
    .enum(['deny', 'wait'])
    .optional()
    .meta(about('When nobody listens', 'Deny at once, or wait until somebody listens for approvals.', 'deny', 'wait')),
  rememberMaxMs: z
    .int()
    .min(0)
    .max(28_800_000)
    .optional()
    .meta(about('Remember', 'How long an answer may be remembered at most, in milliseconds; 0 is never.', 3_600_000)),
});

export const policyFile = z
  .strictObject({
    version: z
      .literal(1)
      .optional()
      .meta(about('Version', 'The version of this format.', 1)),
    extends: text(512)
      .optional()
      .meta(
        about(
          'Extends',
          'A built-in policy or a file next to this one (default: `default`).',
          ...['default', 'careful', 'strict', 'unattended', 'read-only', 'plan', 'subagent', 'team.yaml'],
        ),
      ),
    open: z
      .array(openName)
      .max(64)
      .optional()
      .meta(about('Open', 'What policies that extend this one may widen.', ['tiers', 'rules'], ['tiers.execute'])),
    tiers: tiers.optional().meta(
      about('Tiers', 'What happens to calls for which no rule decides, by what they may touch.', {
        execute: { decision: 'ask' },
      }),
    ),
    tools: tools
      .optional()
      .meta(about('Tools', 'Settings of single tools, by name.', { git_commit: { decision: 'ask' } })),
    rules: z
      .array(rule)
      .max(1000)
      .optional()
      .meta(
        about('Rules', 'What happens to calls that match; the strictest decides, so their order never matters.', [
          {
            id: 'run-tests',
            match: { command: ['npm', 'test', '$'] },
            decision: 'allow',
            reason: 'Tests are harmless.',
          },
        ]),
      ),
    rateLimits: z
      .array(rateLimit)
      .max(256)
      .optional()
      .meta(
        about('Rate limits', 'How often tools may be called.', [
          { tool: 'terminal_execute', calls: 10, perMs: 60_000 },
        ]),
      ),
    arguments: z
      .array(
        z.strictObject({
          tool: oneOrMany(toolName).meta(about('Tool', 'Tools by their names or aliases.', 'terminal_execute')),
          ...argumentParts,
        }),
      )
      .max(256)
      .optional()
      .meta(
        about(
          'Arguments',
          'How arguments of calls are rewritten before they are judged; a call never gets to do more.',
          [
            { tool: 'terminal_execute', atMost: { timeout: 60_000 } },
            { tool: 'file_copy', set: { overwrite: false } },
          ],
        ),
      ),
    approvals: approvals.optional().meta(about('Approvals', 'How questions wait for a person.', { headless: 'deny' })),
    environment: z
      .array(text(128).regex(/^[A-Za-z_][A-Za-z0-9_]*\*?$/))
      .max(64)
      .optional()
      .meta(
        about(
          'Environment',
          'Variables that callers may set for commands; `*` at the end stands for any ending. All when absent.',
          ['PATH', 'LC_*'],
        ),
      ),
    secrets: secretsPart
      .optional()
      .meta(about('Secrets', 'How secrets are taken out of results, and which files are none.', { redact: 'default' })),
  })
  .meta(about('A policy of Ringfence', 'What calls of agents may do.', { version: 1, extends: 'default' }));

export type PolicyFile = z.output<typeof policyFile>;
