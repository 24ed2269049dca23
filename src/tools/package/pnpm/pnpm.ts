/** How pnpm (10.16 or newer) plans and installs. */
import { posix } from 'node:path';
import semver from 'semver';
import { ToolError } from '../../../base/errors.ts';
import { isRecord } from '../../../base/text/values.ts';
import { holds } from '../../context/file-presence.ts';
import { knownOf } from '../npm/facts.ts';
import { assertFromRegistry, readManifest } from '../npm/manifest.ts';
import { NPM_NAME, specOf, tooYoung } from '../npm/npm.ts';
import { riskyKeys } from '../npm/settings-file.ts';
import { NODE_PLAN } from '../programs.ts';
import { appliedBy, plannedBy, STDERR_CHARS } from '../run-program.ts';
import { assertSettings, foldersAbove, manifestAt, type PackageManager, type StepParts, textAt } from '../steps.ts';
import { readYaml } from '../yaml-text.ts';
import { lockedByPnpm } from './lock.ts';

const MANIFEST = 'package.json';
const LOCKFILE = 'pnpm-lock.yaml';
const SETTINGS = 'pnpm-workspace.yaml';
const OLDEST = '10.16.0';
/** The lines of a lockfile that name packages. */
const LINES = String.raw`^  '?(?<name>(?:@[^/@\s]+/)?[^@\s']+)@(?<version>\d[^'():\s]*)'?:`;

/** Keys that choose versions and the layout of node_modules, and nothing that runs or where packages come from. */
const HARMLESS = new Set(
  `allowBuilds allowedDeprecatedVersions autoInstallPeers dedupeDirectDeps dedupeInjectedDeps dedupePeerDependents
  enablePrePostScripts engineStrict hoist hoistPattern ignoredBuiltDependencies ignoredOptionalDependencies
  lockfileIncludeTarballUrl minimumReleaseAge minimumReleaseAgeExclude neverBuiltDependencies nodeLinker
  onlyBuiltDependencies optimisticRepeatInstall overrides packageImportMethod peerDependencyRules preferFrozenLockfile
  publicHoistPattern resolutionMode saveExact savePrefix shamefullyHoist sideEffectsCache strictDepBuilds
  strictPeerDependencies supportedArchitectures verifyDepsBeforeRun`.split(/\s+/),
);

/** Options that no setting of the project overrides; `{tmp}` is a folder that only this run has. */
const flagsOf = (registry: string): string[] => [
  `--registry=${registry}/`,
  '--ignore-scripts',
  '--ignore-pnpmfile',
  '--store-dir={tmp}/store',
  '--config.cache-dir={tmp}/cache',
  '--config.state-dir={tmp}/state',
  '--config.global-pnpmfile=',
  '--config.script-shell=/bin/false',
  '--config.node-options=',
  '--config.manage-package-manager-versions=false',
  '--config.package-manager-strict=false',
  '--config.confirm-modules-purge=false',
  '--config.verify-deps-before-run=false',
  '--config.fetch-retries=1',
  '--config.fetch-retry-mintimeout=1000',
  '--reporter=append-only',
];

const ENVIRONMENT = {
  CI: 'true',
  npm_config_userconfig: '/tmp/no-user-config',
  npm_config_globalconfig: '/tmp/no-global-config',
  npm_config_manage_package_manager_versions: 'false',
  pnpm_config_pm_on_fail: 'ignore',
  XDG_CONFIG_HOME: '/tmp/no-config',
};

export const pnpm: PackageManager = {
  name: 'pnpm',
  ecosystem: 'npm',
  manifest: MANIFEST,
  lockfile: LOCKFILE,
  restoreCommand: 'pnpm install --frozen-lockfile --ignore-scripts',
  packageName: NPM_NAME,
  commandOf: ({ packages, dev }) =>
    packages.length === 0
      ? ['pnpm', 'install']
      : ['pnpm', 'add', ...(dev ? ['--save-dev'] : []), ...packages.map(specOf)],
  hasScripts: true,

  projectAt(folder, { terms: { registry }, ctx }) {
    const at = (name: string) => posix.join(folder, name);
    const above = foldersAbove(folder).find((it) => holds(posix.join(it, SETTINGS), ctx));
    if (above !== undefined)
      throw new ToolError('UNSUPPORTED', `${posix.join(above, SETTINGS)} makes ${folder} part of a workspace of pnpm`);
    const text = manifestAt(at(MANIFEST), ctx);
    const manifest = readManifest(text);
    assertFromRegistry(manifest);
    const { pnpm: own } = manifest.value;
    const inManifest = isRecord(own) ? Object.keys(own).filter((it) => !HARMLESS.has(it)) : [];
    assertSettings(
      at(MANIFEST),
      inManifest.map((it) => `pnpm.${it.slice(0, 128)}`),
    );
    const npmrc = textAt(at('.npmrc'), ctx);
    assertSettings(at('.npmrc'), riskyKeys(npmrc ?? '', registry));
    const settings = textAt(at(SETTINGS), ctx);
    assertSettings(at(SETTINGS), riskyIn(settings ?? '', at(SETTINGS)));
    const texts = { [MANIFEST]: text, [LOCKFILE]: textAt(at(LOCKFILE), ctx) ?? null };
    return {
      folder,
      texts: {
        ...texts,
        ...(npmrc !== undefined && { '.npmrc': npmrc }),
        ...(settings !== undefined && { [SETTINGS]: settings }),
      },
    };
  },

  async planned(project, wanted, parts) {
    const { registry } = parts.terms;
    const [, action = '', ...rest] = this.commandOf(wanted);
    const words = [
      'pnpm',
      action,
      '--lockfile-only',
      ...flagsOf(registry),
      ...coolDown(wanted.isCooled, parts),
      ...rest,
    ];
    const frozen = action === 'install' ? ['--no-frozen-lockfile'] : [];
    const steps = [
      { words: ['pnpm', '--version'], env: ENVIRONMENT },
      { words: [...words, ...frozen], env: ENVIRONMENT },
    ];
    const more = { registry, lockfile: LOCKFILE, lines: LINES };
    const planning = { steps, read: [MANIFEST, LOCKFILE], more };
    const { steps: ran, files, report } = await plannedBy(NODE_PLAN, project, planning, parts.ctx);
    const [version, made] = ran;
    if (version?.code !== 0) throw refusedByPnpm(`${version?.stdout}\n${version?.stderr}`);
    const told = version.stdout.trim().slice(0, 32) ?? '';
    if (!semver.valid(told) || semver.lt(told, OLDEST) || semver.major(told) > 11)
      throw new ToolError('UNSUPPORTED', `pnpm ${told} is not supported; ${OLDEST} to 11 is`);
    const { [MANIFEST]: manifest, [LOCKFILE]: lock } = files;
    if (made?.code !== 0 || typeof manifest !== 'string') throw refusedByPnpm(`${made?.stdout}\n${made?.stderr}`);
    if (typeof lock !== 'string') throw new ToolError('INPUT_INVALID', `${MANIFEST} asks for no packages`);
    const before = lockedByPnpm(project.texts[LOCKFILE] ?? null, registry);
    return {
      files: { [MANIFEST]: manifest, [LOCKFILE]: lock },
      before,
      direct: readManifest(manifest).names,
      ...knownOf(lockedByPnpm(lock, registry), report),
    };
  },

  applied: (folder, plan, { terms, ctx }) => {
    // The plan was judged; a version that was accepted by name is taken.
    const age = '--config.minimum-release-age=0';
    const words = ['pnpm', 'install', '--frozen-lockfile', age, ...flagsOf(terms.registry)];
    const step = { words, env: ENVIRONMENT };
    return appliedBy(folder, plan, { step, folders: ['node_modules'], manifest: MANIFEST, lockfile: LOCKFILE }, ctx);
  },
};

/** Keys of pnpm-workspace.yaml that are not known to be harmless. */
function riskyIn(text: string, path: string): string[] {
  const value = readYaml(text, path);
  if (value.packages !== undefined)
    throw new ToolError('UNSUPPORTED', `${path} has packages of a workspace, which are not supported`);
  return Object.keys(value)
    .filter((it) => !HARMLESS.has(it))
    .map((it) => it.slice(0, 128));
}

const MINUTES_A_DAY = 1440;
/** The age that pnpm itself asks of versions; those that are excepted by name are judged afterwards. */
const coolDown = (isCooled: boolean, { terms: { coolDownDays, coolDownExcept } }: StepParts): string[] => [
  `--config.minimum-release-age=${isCooled ? Math.ceil(coolDownDays * MINUTES_A_DAY) : 0}`,
  ...coolDownExcept.map((it) => `--config.minimum-release-age-exclude=${it}`),
];

function refusedByPnpm(output: string): ToolError {
  const details = { stderr: output.slice(-STDERR_CHARS) };
  const [, code = ''] = /\b(ERR_PNPM_\w+)/.exec(output) ?? [];
  if (code === 'ERR_PNPM_FETCH_404') return new ToolError('NOT_FOUND', 'the registry has no such package', { details });
  if (/^ERR_PNPM_NO_(MATURE_)?MATCHING_VERSION|ERR_PNPM_NO_VERSIONS/.test(code)) return tooYoung(details);
  if (/git ls-remote/.test(output))
    return new ToolError('POLICY_DENIED', 'a package comes from a git repository; nothing was installed', { details });
  return new ToolError('CODE_ERROR', `pnpm can't plan this${code === '' ? '' : `: ${code}`}`, { details });
}
