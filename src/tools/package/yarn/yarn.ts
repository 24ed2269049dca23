/** How yarn (4.10 or newer) plans and installs. Node's permission model keeps it from starting programs, such as git. */
import { posix } from 'node:path';
import semver from 'semver';
import { ToolError } from '../../../errors.ts';
import { holds } from '../../context/file-presence.ts';
import { knownOf } from '../npm/facts.ts';
import { assertFromRegistry, readManifest } from '../npm/manifest.ts';
import { NPM_NAME, specOf, tooYoung } from '../npm/npm.ts';
import { NODE_PLAN } from '../programs.ts';
import { appliedBy, plannedBy, STDERR_CHARS } from '../run-program.ts';
import type { PackageTerms } from '../settings.ts';
import { assertSettings, foldersAbove, manifestAt, type PackageManager, textAt } from '../steps.ts';
import { readYaml } from '../yaml-text.ts';
import { lockedByYarn } from './lock.ts';

const MANIFEST = 'package.json';
const LOCKFILE = 'yarn.lock';
const SETTINGS = '.yarnrc.yml';
const OLDEST = '4.10.0';
/** The lines of a lockfile that name packages. */
const LINES = String.raw`^  resolution: "(?<name>(?:@[^/@\s]+/)?[^@\s]+)@npm:(?<version>[^":]+)"$`;

/** Keys that choose versions, layout and what is printed, and nothing that runs or where packages come from. */
const HARMLESS = new Set(
  `compressionLevel defaultSemverRangePrefix deferredVersionFolder enableColors enableConstraintsChecks enableGlobalCache
  enableHardenedMode enableHyperlinks enableImmutableInstalls enableInlineHunks enableMessageNames enableNetwork
  enableOfflineMode enableProgressBars enableScripts enableTelemetry enableTimers enableTips logFilters nmHoistingLimits
  nmMode nodeLinker npmMinimalAgeGate npmPreapprovedPackages pnpEnableEsmLoader pnpFallbackMode pnpIgnorePatterns
  pnpMode preferDeferredVersions preferInteractive preferReuse progressBarStyle supportedArchitectures tsEnableAutoTypes
  winLinkType`.split(/\s+/),
);

/** Variables take precedence over all settings files. */
const environmentOf = ({ registry, coolDownDays, coolDownExcept }: PackageTerms, isCooled: boolean) => ({
  YARN_IGNORE_PATH: '1',
  YARN_ENABLE_SCRIPTS: 'false',
  YARN_ENABLE_TELEMETRY: 'false',
  YARN_ENABLE_PROGRESS_BARS: 'false',
  YARN_ENABLE_COLORS: 'false',
  YARN_ENABLE_IMMUTABLE_INSTALLS: 'false',
  YARN_ENABLE_HARDENED_MODE: 'false',
  YARN_ENABLE_GLOBAL_CACHE: 'false',
  YARN_ENABLE_MIRROR: 'false',
  YARN_ENABLE_NETWORK: 'true',
  YARN_CHECKSUM_BEHAVIOR: 'throw',
  YARN_GLOBAL_FOLDER: '{tmp}/global',
  YARN_HTTP_RETRY: '1',
  YARN_HTTP_PROXY: '{proxy}',
  YARN_HTTPS_PROXY: '{proxy}',
  YARN_NPM_MINIMAL_AGE_GATE: `${isCooled ? Math.ceil(coolDownDays * 1440) : 0}`,
  ...(coolDownExcept.length > 0 && { YARN_NPM_PREAPPROVED_PACKAGES: coolDownExcept.join(',') }),
  YARN_NPM_REGISTRY_SERVER: registry,
  YARN_TASK_POOL_MODE: 'async',
  ...(registry.startsWith('http:') && { YARN_UNSAFE_HTTP_WHITELIST: new URL(registry).hostname }),
});

export const yarn: PackageManager = {
  name: 'yarn',
  ecosystem: 'npm',
  manifest: MANIFEST,
  lockfile: LOCKFILE,
  restoreCommand: 'yarn install --immutable --mode=skip-build',
  packageName: NPM_NAME,
  commandOf: ({ packages, dev }) =>
    packages.length === 0 ? ['yarn', 'install'] : ['yarn', 'add', ...(dev ? ['--dev'] : []), ...packages.map(specOf)],
  hasScripts: true,

  projectAt(folder, { terms: { registry }, ctx }) {
    const at = (name: string) => posix.join(folder, name);
    const above = foldersAbove(folder).find((it) => holds(posix.join(it, SETTINGS), ctx));
    if (above !== undefined)
      throw new ToolError(
        'UNSUPPORTED',
        `${posix.join(above, SETTINGS)} lies above ${folder}, and yarn would follow it`,
      );
    const text = manifestAt(at(MANIFEST), ctx);
    assertFromRegistry(readManifest(text));
    const settings = textAt(at(SETTINGS), ctx);
    assertSettings(at(SETTINGS), riskyIn(settings ?? '', at(SETTINGS), registry));
    const texts = { [MANIFEST]: text, [LOCKFILE]: textAt(at(LOCKFILE), ctx) ?? null };
    if (/^# yarn lockfile v1$/m.test(texts[LOCKFILE] ?? ''))
      throw new ToolError('UNSUPPORTED', `${LOCKFILE} is one of yarn 1; yarn ${OLDEST} or newer is supported`);
    return { folder, texts: settings === undefined ? texts : { ...texts, [SETTINGS]: settings } };
  },

  async planned(project, wanted, parts) {
    const { terms, ctx } = parts;
    const env = environmentOf(terms, wanted.isCooled);
    const [program = '', action = '', ...rest] = this.commandOf(wanted);
    const steps = [
      { words: [program, '--version'], env, startsNothing: true },
      { words: [program, action, '--mode=update-lockfile', ...rest], env, startsNothing: true },
    ];
    // Without a lockfile of its own, yarn would look for a project in the folders above.
    const texts = { ...project.texts, [LOCKFILE]: project.texts[LOCKFILE] ?? '' };
    const more = { registry: terms.registry, lockfile: LOCKFILE, lines: LINES };
    const planning = { steps, read: [MANIFEST, LOCKFILE], more };
    const { steps: ran, files, report } = await plannedBy(NODE_PLAN, { texts }, planning, ctx);
    const [version, made] = ran;
    const told = version?.stdout.trim().slice(0, 32) ?? '';
    if (!semver.valid(told) || semver.lt(told, OLDEST))
      throw new ToolError('UNSUPPORTED', `yarn ${told} is not supported; ${OLDEST} or newer is`, {
        suggestion: 'Ask the person to run `ringfence toolchain add yarn`.',
      });
    const { [MANIFEST]: manifest, [LOCKFILE]: lock } = files;
    if (made?.code !== 0 || typeof manifest !== 'string' || typeof lock !== 'string')
      throw refusedByYarn(`${made?.stdout}\n${made?.stderr}`);
    const before = lockedByYarn(project.texts[LOCKFILE] ?? null);
    return {
      files: { [MANIFEST]: manifest, [LOCKFILE]: lock },
      before,
      direct: readManifest(manifest).names,
      ...knownOf(lockedByYarn(lock), report),
    };
  },

  applied: (folder, plan, { terms, ctx }) => {
    const settings = readYaml(textAt(posix.join(folder, SETTINGS), ctx) ?? '', SETTINGS);
    // With Plug'n'Play, the default, programs run from the archives in the cache, so it belongs to the project.
    const isUnpacked = settings.nodeLinker === 'node-modules' || settings.nodeLinker === 'pnpm';
    const env = {
      ...environmentOf(terms, false),
      YARN_ENABLE_IMMUTABLE_INSTALLS: 'true',
      ...(isUnpacked && { YARN_CACHE_FOLDER: '{tmp}/cache' }),
    };
    const step = { words: ['yarn', 'install', '--immutable', '--mode=skip-build'], env, startsNothing: true };
    return appliedBy(
      folder,
      plan,
      { step, folders: ['node_modules', '.yarn', '.pnp.cjs'], manifest: MANIFEST, lockfile: LOCKFILE },
      ctx,
    );
  },
};

/** Keys of .yarnrc.yml that are not known to be harmless, such as yarnPath and plugins. */
function riskyIn(text: string, path: string, registry: string): string[] {
  const entries = Object.entries(readYaml(text, path));
  const isSame = (key: string, value: unknown) =>
    key === 'npmRegistryServer' && String(value).replace(/\/+$/, '') === registry;
  const risky = entries.filter(([key, value]) => !HARMLESS.has(key) && !isSame(key, value));
  return risky.map(([key]) => key.slice(0, 128));
}

/** The error for what yarn printed. */
function refusedByYarn(output: string): ToolError {
  const details = { stderr: output.slice(-STDERR_CHARS) };
  const [, code = ''] = /\b(YN(?!0000)\d{4}): │/.exec(output) ?? [];
  if (/Package not found|404/.test(output))
    return new ToolError('NOT_FOUND', 'the registry has no such package', { details });
  if (/quarantined|No candidates found/.test(output) || code === 'YN0082') return tooYoung(details);
  if (code === 'YN0080')
    return new ToolError('POLICY_DENIED', 'a package comes from a git repository; nothing was installed', { details });
  return new ToolError('CODE_ERROR', `yarn can't plan this${code === '' ? '' : `: ${code}`}`, { details });
}
