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
import { loadParsers } from '../data-text.ts';
import { indexUrl } from '../package/settings.ts';
import { rare } from '../rare-parameters.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { type Lockfile, lockedPackage, treeEntry } from './locked-packages.ts';
import { LOCKFILES, type Manager, readLockfile } from './lockfiles.ts';
import {
  askedOf,
  auditRequests,
  type Checked,
  outdatedIn,
  outdatedRequests,
  outdated as outdatedShape,
  PUBLIC_REGISTRY,
  vulnerabilitiesIn,
  vulnerability,
} from './npm-registry.ts';

const { graphEntriesMax, lockfileBytesMax } = defaultLimits;
const NOT_CHECKED = 'not checked';
const count = z.int().nonnegative();

const MANAGERS = ['npm', 'pnpm', 'yarn', 'cargo', 'go', 'pip'] as const satisfies readonly Manager[];
const MANIFESTS = /^(package\.json|Cargo\.toml|go\.mod|pyproject\.toml|requirements\.txt)$/;
/** Managers whose packages an npm registry knows. */
const OF_NPM: readonly string[] = ['npm', 'pnpm', 'yarn'];

const input = z.strictObject({
  action: z
    .enum(['list', 'tree', 'outdated', 'audit', 'check'])
    .default('list')
    .describe('What to show; check: what is outdated, and what has known vulnerabilities.'),
  manifest: workspacePath(
    'package.json of the project, or Cargo.toml, go.mod, pyproject.toml, requirements.txt; the lockfile lies beside it.',
  ).default('package.json'),
  manager: z
    .enum(['auto', ...MANAGERS])
    .default('auto')
    .describe('Whose lockfile is read. auto: the first that is there.'),
  depth: z.int().min(1).max(50).default(3).describe('Levels of the tree.'),
  online: rare(
    z
      .enum(['auto', 'yes', 'no'])
      .default('auto')
      .describe(
        'Whether outdated, audit and check ask the registry. auto: if the policy allows it without a question.',
      ),
  ),
  registry: rare(indexUrl.default(PUBLIC_REGISTRY).describe('URL of the npm registry.')),
});
type Input = z.output<typeof input>;

/** Whether the call asks the registry. `auto` never does: it is resolved to `yes` or `no` before the policy decides. */
const isOnline = ({ action, online, manager }: Input): boolean =>
  online === 'yes' && action !== 'list' && action !== 'tree' && (manager === 'auto' || OF_NPM.includes(manager));

const besides = (manifest: string, manager: Input['manager']): string[] =>
  (manager === 'auto' ? MANAGERS : [manager])
    .flatMap((it) => Object.keys(LOCKFILES[it]))
    .map((it) => posix.join(posix.dirname(manifest), it));

export default defineTool({
  name: 'code_dependencies',
  title: 'Show dependencies',
  summary:
    'List the packages of a project, or their tree, from the lockfile of npm, pnpm, yarn, cargo, go or pip; with outdated, audit or check ' +
    'also newer versions and known vulnerabilities, if the policy lists the registry (tiers.external_api.network).',
  notes:
    'Nothing is installed and nothing runs. What no registry was asked about is `not checked`: packages of cargo, go and pip always are. Read are package-lock.json (versions 2 and 3), pnpm-lock.yaml, yarn.lock, Cargo.lock, go.mod, uv.lock, poetry.lock, pylock.toml and the pinned lines of requirements.txt. The registry gets names and versions of packages, except of those that come from another registry, a folder or a repository.',
  version: '1.2.0',
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
    ...besides(it.manifest, it.manager).map((target) => ({ kind: 'read' as const, target })),
    ...(isOnline(it) ? [{ kind: 'connect' as const, target: destinationOf(it.registry) }] : []),
  ],
  input,
  output: z.strictObject({
    manager: z.enum(MANAGERS),
    lockfile: z.string().describe('Relative to the workspace root.'),
    dependencies: z.array(lockedPackage).optional().describe('With `list`.'),
    tree: z.array(treeEntry).optional().describe('With `tree`: each package before what it depends on.'),
    totalDeps: count.describe('Installed packages.'),
    vulnerabilities: z
      .union([z.literal(NOT_CHECKED), z.array(vulnerability)])
      .describe('With audit and check; the worst first.'),
    outdated: z
      .union([z.literal(NOT_CHECKED), z.array(outdatedShape)])
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

  spellings: { names: { packageManager: 'manager' } },

  before: {
    resolve(given, ctx) {
      const wanted = { ...given, manager: managerOf(given, ctx) };
      const isAuto = wanted.online === 'auto' && isOnline({ ...wanted, online: 'yes' });
      return Promise.resolve(isAuto ? (['yes', 'no'] as const).map((online) => ({ ...wanted, online })) : [wanted]);
    },
    async requests(wanted, ctx) {
      const { action, registry } = wanted;
      const { lockfile } = await lockfileOf(wanted, ctx);
      const packages = askedOf(lockfile.registryPackages(), registry);
      return [
        ...(action === 'audit' ? [] : outdatedRequests(packages, registry, ctx.limits)),
        ...(action === 'outdated' ? [] : auditRequests(packages, registry, ctx.limits)),
      ];
    },
  },

  async run(wanted, ctx) {
    const { action, depth } = wanted;
    const { lockfile, path, manager } = await lockfileOf(wanted, ctx);
    const all = lockfile.list();
    const tree = action === 'tree' ? lockfile.tree(depth, graphEntriesMax) : undefined;
    if (action === 'tree' && !tree)
      throw new ToolError('UNSUPPORTED', `\`${path}\` does not tell which package needs which`, {
        suggestion: 'Use action: list.',
      });
    return {
      manager,
      lockfile: path,
      ...(action === 'list' && { dependencies: all.slice(0, graphEntriesMax) }),
      tree: tree?.entries,
      totalDeps: all.length,
      ...(isOnline(wanted) ? told(wanted, lockfile, ctx.planned as AnsweredRequest[]) : notTold(wanted, manager)),
      truncated: tree?.truncated ?? (action === 'list' && all.length > graphEntriesMax),
    };
  },
});

/** What the registry said. */
function told({ action, registry }: Input, lockfile: Lockfile, answered: readonly AnsweredRequest[]) {
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

function notTold({ action, registry }: Input, manager: Manager) {
  const notChecked: typeof NOT_CHECKED = NOT_CHECKED;
  const nothing = { vulnerabilities: notChecked, outdated: notChecked };
  if (action === 'list' || action === 'tree') return nothing;
  if (!OF_NPM.includes(manager))
    return { ...nothing, reason: `Only registries of npm are asked; the packages of ${manager} are only listed.` };
  const host = destinationOf(registry);
  return {
    ...nothing,
    reason:
      `The registry was not asked: the policy does not allow that without a question. Allow it with ` +
      `tiers.external_api: { decision: allow, network: { allow: ["${host}"] } }, or call with online: yes, so that a person is asked.`,
  };
}

/** The manager of the first lockfile that is there, npm if there is none. */
const managerOf = ({ manifest, manager }: Input, ctx: ToolContext): Manager =>
  manager === 'auto'
    ? (MANAGERS.find((it) => besides(manifest, it).some((path) => isThere(path, ctx))) ?? 'npm')
    : manager;

/** Throws NOT_FOUND without a lockfile, INPUT_INVALID for a damaged one, UNSUPPORTED for one of a version that is not read. */
async function lockfileOf(wanted: Input, ctx: ToolContext) {
  const { manifest } = wanted;
  if (!MANIFESTS.test(posix.basename(manifest)))
    throw new ToolError(
      'INPUT_INVALID',
      `manifest \`${manifest}\` is no package.json, Cargo.toml, go.mod or of Python`,
    );
  const manager = managerOf(wanted, ctx);
  const paths = besides(manifest, manager);
  const path = paths.find((it) => isThere(it, ctx)) ?? (paths[0] as string);
  const text = textAt(path, ctx);
  try {
    const said = posix.join(posix.dirname(manifest), 'package.json');
    const reading = {
      parsers: await loadParsers(),
      manifest: manager === 'yarn' && isThere(said, ctx) ? parseJson(textAt(said, ctx)) : undefined,
    };
    const lockfile = ctx.bounded(() => readLockfile(manager, posix.basename(path), text, reading));
    return { manager, path, lockfile };
  } catch (error) {
    // A RangeError: it nests too deep.
    if (!(error instanceof SyntaxError || error instanceof RangeError)) throw error;
    throw new ToolError('INPUT_INVALID', `\`${path}\` is damaged: ${error.message.slice(0, 200)}`, {
      suggestion: `Make it again with ${manager}.`,
    });
  }
}

function textAt(path: string, ctx: ToolContext): string {
  using file = ctx.open(path);
  if (file.size > lockfileBytesMax)
    throw new ToolError('FILE_LIMIT', `\`${path}\` is ${file.size} bytes; at most ${lockfileBytesMax} are read`, {
      details: { limit: lockfileBytesMax, used: file.size, enforcedBy: 'tool' },
    });
  return file.bytes().toString();
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
