/**
 * Installs packages in three steps: npm plans in a copy of the project, the plan is judged and shown, and npm installs exactly the planned
 * lockfile. No script of a package runs in any of them.
 */
import { posix } from 'node:path';
import * as z from 'zod';
import { ToolError } from '../../errors.ts';
import { defaultLimits } from '../../limits.ts';
import { parseJson } from '../../text/json.ts';
import { isRecord } from '../../text/values.ts';
import { holds } from '../context/file-presence.ts';
import { unifiedDiff } from '../edit/diff.ts';
import { defineTool, type ToolContext, workspacePath } from '../tool.ts';
import { questionableOf, refusedOf } from './npm-findings.ts';
import { changesBetween, type LockChanges, type LockedPackage, lockedPackages } from './npm-lock.ts';
import {
  advisoriesOf,
  applied,
  assertNone,
  LOCKFILE,
  MANIFEST,
  type PlannedFiles,
  type ProjectFiles,
  planned,
} from './npm-plan.ts';
import { riskyKeys } from './npm-settings-file.ts';
import type { PackageTerms } from './settings.ts';

const MANAGERS = ['npm', 'pnpm', 'yarn', 'pip', 'uv', 'cargo', 'go'] as const;
/** Why the others are not supported yet; each would need the three steps in its own way. */
const UNSUPPORTED: Readonly<Record<Exclude<(typeof MANAGERS)[number], 'npm'>, string>> = {
  pnpm: 'its .pnpmfile.cjs is code that runs when it plans',
  yarn: 'its yarnPath and plugins are code that runs when it plans',
  pip: 'packages without a wheel run code when they are planned, and there is no lockfile to install from',
  uv: 'packages without a wheel run code when they are planned',
  cargo: 'build scripts run at the next build, whatever was shown',
  go: 'it has no plan that could be shown before it downloads',
};
/** Lockfiles of other managers. */
const FOREIGN: readonly (readonly [file: string, manager: Exclude<(typeof MANAGERS)[number], 'npm'>])[] = [
  ['pnpm-lock.yaml', 'pnpm'],
  ['yarn.lock', 'yarn'],
  ['uv.lock', 'uv'],
  ['Cargo.toml', 'cargo'],
  ['go.mod', 'go'],
  ['requirements.txt', 'pip'],
];

const PACKAGES_MAX = 20;
const { graphEntriesMax, packagePlanBytes } = defaultLimits;

const packageName = z
  .string()
  .max(214)
  .regex(/^(@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*$/, 'is no name of an npm package')
  .refine((it) => !it.startsWith('-'), 'must not begin with -');

const input = z.strictObject({
  manager: z
    .enum(['auto', ...MANAGERS])
    .default('auto')
    .describe('npm is supported; auto: by what the project has.'),
  packages: z
    .array(
      z.strictObject({
        name: packageName,
        version: z
          .string()
          .max(64)
          .regex(/^[\w.^~<>=|*+ -]+$/, 'is no version, range or tag')
          .optional()
          .describe('Version, range or tag.'),
      }),
    )
    .max(PACKAGES_MAX)
    .default([])
    .describe('To add or update; none: install what the lockfile says.'),
  dev: z.boolean().default(false).describe('Add them for development only.'),
  projectPath: workspacePath('Folder with package.json.').default('.'),
  accept: z
    .array(z.string().regex(/^(fresh|similar):[^\s]{1,300}$/, 'takes fresh:NAME@VERSION and similar:NAME'))
    .max(100)
    .default([])
    .describe('Findings of an earlier answer that are accepted by name; a person is asked about each such call.'),
});
type Input = z.output<typeof input>;

const specOf = ({ name, version }: Input['packages'][number]): string =>
  version === undefined ? name : `${name}@${version}`;
const quoted = (word: string): string => (/^[\w@%+=:,./^~-]+$/.test(word) ? word : `'${word}'`);

/** The command that a person would type for it: rules for `npm install` hold for it. */
const commandOf = ({ packages, dev, projectPath }: Input) => ({
  command: ['npm', 'install', ...(dev ? ['--save-dev'] : []), ...packages.map((it) => quoted(specOf(it)))].join(' '),
  cwd: projectPath,
  env: {},
});

const packageShape = z.strictObject({
  name: z.string(),
  version: z.string(),
  direct: z.boolean(),
  integrity: z.string(),
  publishedAt: z.string().optional(),
  hasScript: z.boolean(),
  license: z.string().optional(),
});
const output = z.strictObject({
  added: z.array(packageShape),
  removed: z.array(z.strictObject({ name: z.string(), version: z.string() })),
  changed: z.array(packageShape.extend({ from: z.string().describe('The version before.') })),
  scriptsSkipped: z.array(z.string()).describe('Packages with install scripts; none has run.'),
  lockfileDiff: z.string().describe('The difference of the lockfile in lines.'),
  advisories: z
    .union([
      z.literal('not checked'),
      z.array(
        z.strictObject({ package: z.string(), severity: z.string(), title: z.string(), url: z.string().optional() }),
      ),
    ])
    .describe('Known vulnerabilities of the whole lockfile.'),
  lockfileHash: z.string().describe('SHA-256 of the lockfile that was planned, shown and installed.'),
});
type Output = z.output<typeof output>;

/** What `prepare` makes, and `run` gets. */
interface Plan {
  readonly files: Record<string, string>;
  readonly before: Record<string, string | null>;
  readonly data: Output;
}

export default defineTool({
  name: 'package_install',
  title: 'Install packages',
  summary:
    'Install npm packages, or what the lockfile says: planned first, judged, shown, then exactly that is installed; no script of a package runs. ' +
    'Refuses packages from anywhere but the registry; versions younger than three days and names like popular ones only by `accept`.',
  notes:
    'The registry must be listed in tiers.execute.network; no other host is reached. It hears the names of the packages before a person is asked. ' +
    '`advisories` is `not checked` where the registry does not answer about them. docs/how-to/packages.md',
  isExtra: true,
  version: '1.0.0',
  capabilities: [{ action: 'install', description: 'Adds npm packages to a project, or installs its lockfile.' }],
  category: 'development',
  tier: 'execute',
  destructive: true,
  usesRegistry: true,
  effects: (it) => [
    { kind: 'exec', target: commandOf(it).command },
    { kind: 'write', target: posix.join(it.projectPath, MANIFEST) },
    { kind: 'write', target: posix.join(it.projectPath, LOCKFILE) },
  ],
  commandOf,
  asksFor: ({ accept }) => accept.length > 0,
  timeoutMs: () => 600_000,
  input,
  output,
  examples: [
    { input: { packages: [{ name: 'left-pad', version: '1.3.0' }] }, error: 'POLICY_DENIED' },
    { input: { packages: [{ name: '../x' }] }, error: 'INPUT_INVALID' },
  ],
  aliases: [],

  async prepare(wanted, ctx) {
    const terms = ctx.planned as PackageTerms;
    const project = projectAt(wanted, ctx, terms);
    const specs = wanted.packages.map(specOf);
    const isCooled = !wanted.accept.some((it) => it.startsWith('fresh:'));
    const made = await planned(project, { specs, dev: wanted.dev, isCooled }, { terms, ctx });
    if (made.manifest.length + made.lock.length > packagePlanBytes)
      throw new ToolError('FILE_LIMIT', `the planned ${LOCKFILE} is too large to be shown`, {
        details: { limit: packagePlanBytes, used: made.manifest.length + made.lock.length, enforcedBy: 'tool' },
      });
    const data = judged(wanted, project, made, { terms, ctx });
    const plan: Plan = {
      files: { [MANIFEST]: made.manifest, [LOCKFILE]: made.lock },
      before: Object.fromEntries(Object.entries(project.texts).map(([name, text]) => [name, hashOf(text, ctx)])),
      data,
    };
    const at = posix.join(wanted.projectPath, MANIFEST);
    const before = Buffer.from(project.texts[MANIFEST] ?? '');
    const manifestDiff = await unifiedDiff(at, { before, after: Buffer.from(made.manifest) }, ctx.limits);
    return {
      plan,
      hash: data.lockfileHash,
      diff: `${shownTo(data)}\n${manifestDiff ?? ''}`,
      preImages: Object.entries(plan.before).map(([name, hash]) => ({
        path: posix.join(wanted.projectPath, name),
        hash,
      })),
    };
  },

  async run({ projectPath }, ctx) {
    const { terms, plan } = ctx.planned as { terms: PackageTerms; plan: Plan };
    await applied({ folder: projectPath }, plan, { terms, ctx });
    return plan.data;
  },
});

const hashOf = (text: string | null, ctx: ToolContext): string | null =>
  text === null ? null : ctx.hashOf(Buffer.from(text));

/** Reads a project. Throws UNSUPPORTED for one that npm alone does not manage, POLICY_DENIED for settings that npm must not follow. */
function projectAt({ manager, projectPath }: Input, ctx: ToolContext, { registry }: PackageTerms): ProjectFiles {
  const unsupported = (name: keyof typeof UNSUPPORTED) =>
    new ToolError('UNSUPPORTED', `${name} is not supported: ${UNSUPPORTED[name]}`, {
      suggestion: `Ask the person to install by ${name}, or run it by terminal_execute.`,
    });
  if (manager !== 'auto' && manager !== 'npm') throw unsupported(manager);
  const at = (name: string) => posix.join(projectPath, name);
  const foreign = manager === 'auto' && !holds(at(LOCKFILE), ctx) && FOREIGN.find(([file]) => holds(at(file), ctx));
  if (foreign) throw unsupported(foreign[1]);
  if (holds(at('npm-shrinkwrap.json'), ctx))
    throw new ToolError('UNSUPPORTED', `npm-shrinkwrap.json takes the place of ${LOCKFILE}; it is not supported`);
  using manifest = ctx.open(at(MANIFEST));
  const text = manifest.bytes().toString('utf8');
  assertManifest(text);
  const settings = textAt(at('.npmrc'), ctx);
  const risky = riskyKeys(settings ?? '', registry);
  if (risky.length > 0)
    throw new ToolError(
      'POLICY_DENIED',
      `${at('.npmrc')} sets ${risky.slice(0, 10).join(', ')}, which may run code or move the registry; nothing was planned`,
      { suggestion: 'Ask the person to install, or to take these keys out.', details: { keys: risky.slice(0, 100) } },
    );
  const texts = { [MANIFEST]: text, [LOCKFILE]: textAt(at(LOCKFILE), ctx) ?? null };
  return { folder: projectPath, texts: settings === undefined ? texts : { ...texts, '.npmrc': settings } };
}

/** The text of a file; null if there is none, undefined if the policy hides it, from commands as well. */
function textAt(path: string, ctx: ToolContext): string | null | undefined {
  try {
    using file = ctx.open(path);
    return file.bytes().toString('utf8');
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    if (error.code === 'NOT_FOUND') return null;
    if (error.code === 'SENSITIVE_FILE' || error.code === 'POLICY_DENIED') return undefined;
    throw error;
  }
}

function assertManifest(text: string): void {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    value = undefined; // A SyntaxError, or a RangeError for one that nests too deep.
  }
  if (!isRecord(value)) throw new ToolError('INPUT_INVALID', `${MANIFEST} is no JSON object`);
  if (value.workspaces !== undefined)
    throw new ToolError('UNSUPPORTED', `${MANIFEST} has workspaces, which are not supported`);
}

/** What the plan changes. Throws POLICY_DENIED for what is refused, or not accepted. */
function judged(
  { accept }: Input,
  { texts }: ProjectFiles,
  { manifest, lock, times, audit }: PlannedFiles,
  { terms, ctx }: { terms: PackageTerms; ctx: ToolContext },
): Output {
  const after = lockedPackages(lock);
  const changes = changesBetween(lockedPackages(texts[LOCKFILE] ?? null), after);
  assertNone(refusedOf(after, changes, terms), 'This can not be accepted; ask the person to install it.');
  const fresh = [...changes.added, ...changes.changed.map((it) => it.to)];
  const direct = namesIn(manifest);
  const open = questionableOf({ packages: fresh, times, direct }, terms).filter(({ id = '' }) => !accept.includes(id));
  const ids = open.map((it) => JSON.stringify(it.id)).slice(0, 10);
  assertNone(open, `Choose others, or call again with accept: [${ids.join(', ')}]; a person is asked about it.`);
  const shownOf = (it: LockedPackage) => packageOf(it, { times, direct });
  const scripts = after.filter((it) => it.hasScript).map((it) => `${it.name}@${it.version}`);
  return {
    added: changes.added.slice(0, graphEntriesMax).map(shownOf),
    removed: changes.removed.slice(0, graphEntriesMax).map(({ name, version }) => ({ name, version })),
    changed: changes.changed.slice(0, graphEntriesMax).map(({ from, to }) => ({ ...shownOf(to), from: from.version })),
    scriptsSkipped: [...new Set(scripts)].slice(0, graphEntriesMax),
    lockfileDiff: linesOf(changes, { times, direct }),
    advisories: advisoriesOf(audit),
    lockfileHash: ctx.hashOf(Buffer.from(lock)),
  };
}

interface Known {
  readonly times: Readonly<Record<string, string>>;
  readonly direct: ReadonlySet<string>;
}

function packageOf(it: LockedPackage, { times, direct }: Known): z.output<typeof packageShape> {
  const key = `${it.name}@${it.version}`;
  const publishedAt = Object.hasOwn(times, key) ? times[key] : undefined;
  return {
    name: it.name,
    version: it.version,
    direct: direct.has(it.name),
    integrity: it.integrity,
    ...(publishedAt !== undefined && { publishedAt }),
    hasScript: it.hasScript,
    ...(it.license !== undefined && { license: it.license }),
  };
}

/** Names of the packages that the project itself asks for. */
function namesIn(manifest: string): Set<string> {
  const value: unknown = parseJson(manifest);
  const kinds = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies'];
  return new Set(kinds.flatMap((kind) => (isRecord(value) && isRecord(value[kind]) ? Object.keys(value[kind]) : [])));
}

/** One line a package. */
function linesOf({ added, removed, changed }: LockChanges, known: Known): string {
  const about = (it: LockedPackage) => {
    const { direct, publishedAt } = packageOf(it, known);
    const facts = [
      ...(direct ? ['direct'] : []),
      ...(publishedAt === undefined ? [] : [`published ${publishedAt.slice(0, 10)}`]),
      ...(it.hasScript ? ['has an install script, which does not run'] : []),
    ];
    return `${it.version}${facts.length > 0 ? ` (${facts.join(', ')})` : ''}`;
  };
  // What the project asks for itself comes first, since the end of a long list may not be shown.
  const rank = (it: LockedPackage) => (known.direct.has(it.name) ? 0 : it.hasScript ? 1 : 2);
  return [
    ...added.toSorted((a, b) => rank(a) - rank(b)).map((it) => `+ ${it.name} ${about(it)}`),
    ...changed
      .toSorted((a, b) => rank(a.to) - rank(b.to))
      .map(({ from, to }) => `~ ${to.name} ${from.version} -> ${about(to)}`),
    ...removed.map((it) => `- ${it.name} ${it.version}`),
  ].join('\n');
}

/** What a person is shown. */
function shownTo({ added, changed, removed, lockfileDiff, advisories, lockfileHash }: Output): string {
  const known =
    advisories === 'not checked'
      ? ['advisories: not checked']
      : advisories.map((it) => `! ${it.package}: ${it.severity}, ${it.title}`);
  const counts = [added, changed, removed].map((it) => it.length);
  const total = `${counts[0]} added, ${counts[1]} changed, ${counts[2]} removed; planned lockfile ${lockfileHash}`;
  return [total, ...known, lockfileDiff === '' ? 'the lockfile stays as it is' : lockfileDiff, ''].join('\n');
}
