/**
 * Shows the packages of a project. The lockfile is read in the read_only host; with `outdated`, `audit` and `check` a
 * registry is asked, too, if the policy lists it. Such a call is one of the external_api tier whose `connect` effect is
 * the registry: the policy judges it like an http_request, the egress process makes it, and the read_only host reads
 * the answers. Without permission nothing is sent, and the result is `not checked`, never an empty list.
 */
import { posix } from 'node:path';
import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { defaultLimits } from '../../base/limits.ts';
import { parseJson } from '../../base/text/json.ts';
import { type AnsweredRequest, destinationOf } from '../context/requests.ts';
import { rare } from '../rare-parameters.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { NpmLockfile } from './npm-lockfile.ts';
import {
  askedOf,
  auditRequests,
  type Checked,
  outdatedIn,
  outdatedRequests,
  PUBLIC_REGISTRY,
  SEVERITIES,
  vulnerabilitiesIn,
} from './npm-registry.ts';

const { graphEntriesMax, lockfileBytesMax } = defaultLimits;
const NOT_CHECKED = 'not checked';
const count = z.int().nonnegative();

/** Lockfiles of managers that are not supported; the error names them. */
const OTHERS = ['pnpm-lock.yaml', 'yarn.lock', 'bun.lock', 'Cargo.lock', 'uv.lock', 'poetry.lock', 'go.sum'];

const input = z.strictObject({
  action: z
    .enum(['list', 'tree', 'outdated', 'audit', 'check'])
    .default('list')
    .describe('What to show; check: what is outdated, and what has known vulnerabilities.'),
  manifest: workspacePath('package.json of the project; package-lock.json lies beside it.').default('package.json'),
  depth: z.int().min(1).max(50).default(3).describe('Levels of the tree.'),
  online: rare(
    z
      .enum(['auto', 'yes', 'no'])
      .default('auto')
      .describe(
        'Whether outdated, audit and check ask the registry. auto: if the policy allows it without a question.',
      ),
  ),
  registry: rare(
    z
      .string()
      .max(2048)
      .refine((it) => /^https?:$/.test(URL.parse(it)?.protocol ?? ''), 'takes an http:// or https:// URL')
      .refine((it) => !/[@?#]/.test(it), 'holds no name, password or query')
      .default(PUBLIC_REGISTRY)
      .describe('URL of the npm registry.'),
  ),
});
type Input = z.output<typeof input>;

/** Whether the call asks the registry. `auto` never does: it is resolved to `yes` or `no` before the policy decides. */
const isOnline = ({ action, online }: Input): boolean => online === 'yes' && action !== 'list' && action !== 'tree';

export default defineTool({
  name: 'code_dependencies',
  title: 'Show dependencies',
  summary:
    'List the packages of a project, or their tree, from package-lock.json (npm, versions 2 and 3); with outdated, audit or check ' +
    'also newer versions and known vulnerabilities, if the policy lists the registry (tiers.external_api.network).',
  notes:
    'Nothing is installed and nothing runs. What no registry was asked about is `not checked`. The registry gets names and versions of packages, except of those that come from another registry, a folder or a repository.',
  version: '1.1.0',
  capabilities: [
    { action: 'dependencies', description: 'Lists packages with versions, licences and install scripts.' },
    { action: 'audit', description: 'Asks the npm registry for newer versions and known vulnerabilities.' },
  ],
  category: 'code_analysis',
  tier: 'external_api',
  tiers: { of: (it) => (isOnline(it) ? 'external_api' : 'read_only') },
  isExtra: true,
  idempotent: true,
  effects: (it) => [
    { kind: 'read', target: it.manifest },
    { kind: 'read', target: lockfileBeside(it.manifest) },
    ...(isOnline(it) ? [{ kind: 'connect' as const, target: destinationOf(it.registry) }] : []),
  ],
  input,
  output: z.strictObject({
    manager: z.literal('npm'),
    lockfile: z.string().describe('Relative to the workspace root.'),
    dependencies: z
      .array(
        z.strictObject({
          name: z.string(),
          installed: z.string().describe('Version of the lockfile.'),
          wanted: z.string().optional().describe('Range that the project asks for.'),
          direct: z.boolean(),
          dev: z.boolean(),
          optional: z.boolean(),
          license: z.string().optional(),
          hasInstallScript: z.boolean(),
        }),
      )
      .optional()
      .describe('With `list`.'),
    tree: z
      .array(
        z.strictObject({
          name: z.string(),
          version: z.string(),
          depth: z.int().positive(),
          deduped: z.boolean().describe('Whether its dependencies are shown at an earlier place.'),
        }),
      )
      .optional()
      .describe('With `tree`: each package before what it depends on.'),
    totalDeps: count.describe('Installed packages.'),
    vulnerabilities: z
      .union([
        z.literal(NOT_CHECKED),
        z.array(
          z.strictObject({
            package: z.string(),
            installed: z.array(z.string()).describe('The installed versions that have it.'),
            severity: z.enum(SEVERITIES),
            description: z.string(),
            fixVersion: z.string().optional().describe('The first version after the vulnerable ones, if known.'),
            url: z.string().optional(),
          }),
        ),
      ])
      .describe('With audit and check; the worst first.'),
    outdated: z
      .union([
        z.literal(NOT_CHECKED),
        z.array(z.strictObject({ package: z.string(), current: z.string(), latest: z.string() })),
      ])
      .describe('With outdated and check: direct packages that have a newer version.'),
    unchecked: z
      .array(z.string())
      .optional()
      .describe('Packages that the registry was not asked about, or did not answer.'),
    reason: z.string().optional().describe('Why something is not checked.'),
    truncated: z.boolean(),
  }),
  examples: [
    { input: { manifest: 'lib/package.json' }, error: 'NOT_FOUND' },
    { input: { manifest: 'notes.txt' }, error: 'INPUT_INVALID' },
  ],
  aliases: [
    {
      name: 'analyze_dependencies',
      spellings: { names: { manifest: 'packageJsonPath' } },
      input: z.strictObject({ packageJsonPath: input.shape.manifest }),
      toInput: ({ packageJsonPath }) => ({ manifest: packageJsonPath, action: 'check' }),
    },
  ],

  before: {
    resolve: (wanted) => {
      const isAuto = wanted.online === 'auto' && isOnline({ ...wanted, online: 'yes' });
      return Promise.resolve(isAuto ? (['yes', 'no'] as const).map((online) => ({ ...wanted, online })) : [wanted]);
    },
    async requests({ action, manifest, registry }, ctx) {
      const packages = askedOf(lockfileOf(manifest, ctx).registryPackages(), registry);
      return [
        ...(action === 'audit' ? [] : outdatedRequests(packages, registry, ctx.limits)),
        ...(action === 'outdated' ? [] : auditRequests(packages, registry, ctx.limits)),
      ];
    },
  },

  async run(wanted, ctx) {
    const { action, manifest, depth } = wanted;
    const lockfile = lockfileOf(manifest, ctx);
    const all = lockfile.list();
    const tree = action === 'tree' ? lockfile.tree(depth, graphEntriesMax) : undefined;
    return {
      manager: 'npm' as const,
      lockfile: lockfileBeside(manifest),
      ...(action === 'list' && { dependencies: all.slice(0, graphEntriesMax) }),
      ...(tree && { tree: tree.entries }),
      totalDeps: all.length,
      ...(isOnline(wanted) ? told(wanted, lockfile, ctx.planned as AnsweredRequest[]) : notTold(wanted)),
      truncated: tree?.truncated ?? (action === 'list' && all.length > graphEntriesMax),
    };
  },
});

/** What the registry said. */
function told({ action, registry }: Input, lockfile: NpmLockfile, answered: readonly AnsweredRequest[]) {
  const known = lockfile.registryPackages();
  const packages = askedOf(known, registry);
  const outdated = action === 'audit' ? undefined : outdatedIn(answered, packages);
  const audit = action === 'outdated' ? undefined : vulnerabilitiesIn(answered, packages);
  const elsewhere = known.filter((it) => !packages.includes(it) && (audit || it.direct)).map((it) => it.name);
  const unchecked = [...new Set([...(outdated?.unchecked ?? []), ...(audit?.unchecked ?? []), ...elsewhere])].sort();
  const reason =
    outdated?.reason ??
    audit?.reason ??
    (elsewhere.length > 0 ? 'they come from another registry' : 'there are too many');
  return {
    vulnerabilities: listOf(audit, answered, 'POST'),
    outdated: listOf(outdated, answered, 'GET'),
    ...(unchecked.length > 0 && { unchecked: unchecked.slice(0, graphEntriesMax), reason: shortened(reason) }),
  };
}

/** Gives the findings; `not checked` if nothing was asked or nothing answered. */
function listOf<T>(checked: Checked<T> | undefined, answered: readonly AnsweredRequest[], method: 'GET' | 'POST') {
  const isAsked = answered.some(({ request }) => request.method === method);
  if (!checked || (isAsked && !checked.isAnswered)) return NOT_CHECKED as typeof NOT_CHECKED;
  return checked.found.slice(0, graphEntriesMax);
}

const shortened = (text: string): string => text.slice(0, 500).toWellFormed();

function notTold({ action, registry }: Input) {
  const host = destinationOf(registry);
  return {
    vulnerabilities: NOT_CHECKED as typeof NOT_CHECKED,
    outdated: NOT_CHECKED as typeof NOT_CHECKED,
    ...(action !== 'list' &&
      action !== 'tree' && {
        reason:
          `The registry was not asked: the policy does not allow that without a question. Allow it with ` +
          `tiers.external_api: { decision: allow, network: { allow: ["${host}"] } }, or call with online: yes, so that a person is asked.`,
      }),
  };
}

function lockfileOf(manifest: string, ctx: ToolContext): NpmLockfile {
  if (posix.basename(manifest) !== 'package.json')
    throw new ToolError('INPUT_INVALID', `manifest \`${manifest}\` is no package.json, the only kind that is read`);
  return readLockfile(manifest, lockfileBeside(manifest), ctx);
}

function lockfileBeside(manifest: string): string {
  return posix.join(posix.dirname(manifest), 'package-lock.json');
}

/** Throws NOT_FOUND without a lockfile, UNSUPPORTED for one of another manager or version. */
function readLockfile(manifest: string, path: string, ctx: ToolContext): NpmLockfile {
  ctx.open(manifest)[Symbol.dispose]();
  if (!isThere(path, ctx)) {
    const other = OTHERS.find((it) => isThere(posix.join(posix.dirname(manifest), it), ctx));
    if (other !== undefined)
      throw new ToolError('UNSUPPORTED', `${other} is not supported; package-lock.json of npm is`, {
        suggestion: `Read ${other} with file_read or file_grep.`,
      });
  }
  using file = ctx.open(path);
  if (file.size > lockfileBytesMax)
    throw new ToolError('FILE_LIMIT', `\`${path}\` is ${file.size} bytes; at most ${lockfileBytesMax} are read`, {
      details: { limit: lockfileBytesMax, used: file.size, enforcedBy: 'tool' },
    });
  let value: unknown;
  try {
    value = parseJson(file.bytes().toString());
  } catch {
    // A SyntaxError, or a RangeError for one that nests too deep.
    throw new ToolError('INPUT_INVALID', `\`${path}\` is no JSON`, { suggestion: 'Make it again with npm.' });
  }
  const version = (value as { lockfileVersion?: unknown } | null)?.lockfileVersion;
  if (version !== 2 && version !== 3)
    throw new ToolError(
      'UNSUPPORTED',
      `\`${path}\` has lockfileVersion ${JSON.stringify(version)}; 2 and 3 are supported`,
      {
        suggestion: 'npm 7 and newer write version 3: `npm install --package-lock-only`.',
      },
    );
  return new NpmLockfile(value);
}

function isThere(path: string, ctx: ToolContext): boolean {
  try {
    ctx.open(path)[Symbol.dispose]();
    return true;
  } catch (error) {
    if (error instanceof ToolError && error.code === 'NOT_FOUND') return false;
    throw error;
  }
}
