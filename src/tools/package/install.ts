/**
 * Installs packages in three steps: the manager plans in a copy of the project, the plan is judged and shown, and the manager installs
 * exactly the planned lockfile. No script of a package runs in any of them.
 */
import { posix } from 'node:path';
import { ToolError } from '../../base/errors.ts';
import { defaultLimits } from '../../base/limits.ts';
import { unifiedDiff } from '../edit/diff.ts';
import { defineTool, type ToolContext } from '../tool.ts';
import { judged, shownTo } from './judging.ts';
import { assertNames, assertScripts, judgedAs, managerAt, managerOf } from './managers.ts';
import { type Input, input, npmInput, type Output, output } from './schemas.ts';
import { runScripts } from './scripts.ts';
import type { PackageTerms } from './settings.ts';
import type { BoundFiles, ProjectFiles } from './steps.ts';

const { packagePlanBytes } = defaultLimits;

const quoted = (word: string): string => (/^[\w@%+=:,./^~-]+$/.test(word) ? word : `'${word}'`);

/** The command that a person would type for it: rules for that command hold for the call. */
const commandOf = (it: Input) => {
  const manager = judgedAs(it);
  const lines = [manager.commandOf(it), ...it.allowScripts.map((name) => [manager.name, 'rebuild', name])];
  const command = lines.map((words) => words.map(quoted).join(' ')).join(' && ');
  return { command, cwd: it.projectPath, env: {} };
};

/** What `prepare` makes, and `run` gets. */
interface Plan extends BoundFiles {
  readonly data: Output;
}

export default defineTool({
  name: 'package_install',
  title: 'Install packages',
  summary:
    'Install packages by npm, pnpm or pip, or what the lockfile says: planned first, judged, shown, then exactly that is installed; no script of a package runs but those of `allowScripts`. ' +
    'Refuses packages from anywhere but the registry; versions younger than three days and names like popular ones only by `accept`.',
  notes:
    'The registry must be listed in tiers.execute.network; no other host is reached. It hears the names of the packages before a person is asked. ' +
    '`advisories` is `not checked` where the registry does not answer about them. docs/how-to/packages.md',
  isExtra: true,
  version: '1.1.0',
  capabilities: [{ action: 'install', description: 'Adds packages to a project, or installs its lockfile.' }],
  category: 'development',
  tier: 'execute',
  destructive: true,
  before: {
    registryOf: (it) => judgedAs(it).ecosystem,
    async resolve(wanted, ctx) {
      return wanted.manager === 'auto' ? [{ ...wanted, manager: managerAt(wanted.projectPath, ctx) }] : [wanted];
    },
    async prepare(wanted, ctx) {
      const terms = ctx.planned as PackageTerms;
      const manager = managerOf(wanted);
      assertNames(wanted, manager);
      assertScripts(wanted, manager);
      const project = manager.projectAt(wanted.projectPath, { terms, ctx });
      const isCooled = !wanted.accept.some((it) => it.startsWith('fresh:'));
      const made = await manager.planned(project, { ...wanted, isCooled }, { terms, ctx });
      const bytes = Object.values(made.files).reduce((sum, it) => sum + it.length, 0);
      if (bytes > packagePlanBytes)
        throw new ToolError('FILE_LIMIT', `the planned ${manager.lockfile} is too large to be shown`, {
          details: { limit: packagePlanBytes, used: bytes, enforcedBy: 'tool' },
        });
      const data = judged(wanted, made, manager, { terms, ctx });
      const plan: Plan = { files: { ...made.files }, before: hashesOf(project, ctx), data };
      const changed = (wanted.dev && manager.devManifest) || manager.manifest;
      const at = posix.join(wanted.projectPath, changed);
      const before = Buffer.from(project.texts[changed] ?? '');
      const after = Buffer.from(made.files[changed] ?? '');
      const manifestDiff = await unifiedDiff(at, { before, after }, ctx.limits);
      return {
        plan,
        hash: data.lockfileHash,
        diff: `${shownTo(data, wanted)}\n${manifestDiff ?? ''}`,
        preImages: Object.entries(plan.before).map(([name, hash]) => ({
          path: posix.join(wanted.projectPath, name),
          hash,
        })),
      };
    },
  },
  effects: (it) => {
    const { manifest, devManifest = manifest, lockfile } = judgedAs(it);
    return [
      { kind: 'exec', target: commandOf(it).command },
      { kind: 'write', target: posix.join(it.projectPath, it.dev ? devManifest : manifest) },
      { kind: 'write', target: posix.join(it.projectPath, lockfile) },
    ];
  },
  commandOf,
  asks: ({ accept, allowScripts }) => accept.length + allowScripts.length > 0,
  timeoutMs: () => 600_000,
  input,
  output,
  examples: [
    { input: { packages: [{ name: 'left-pad', version: '1.3.0' }] }, error: 'NOT_FOUND' },
    { input: { packages: [{ name: '../x' }] }, error: 'INPUT_INVALID' },
  ],
  aliases: [
    {
      name: 'npm_install',
      input: npmInput,
      toInput(it) {
        const { package: name, version, ...rest } = npmInput.parse(it);
        return { ...rest, manager: 'npm', packages: [{ name, version }] };
      },
    },
  ],

  async run(wanted, ctx) {
    const { terms, plan } = ctx.planned as { terms: PackageTerms; plan: Plan };
    await managerOf(wanted).applied(wanted.projectPath, plan, { terms, ctx });
    const [name] = wanted.allowScripts;
    if (name === undefined) return plan.data;
    return { ...plan.data, scriptsRun: await runScripts(name, wanted.projectPath, ctx) };
  },
});

const hashesOf = ({ texts }: ProjectFiles, ctx: ToolContext): Record<string, string | null> =>
  Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [name, text === null ? null : ctx.hashOf(Buffer.from(text))]),
  );
