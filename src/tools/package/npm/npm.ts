/** How npm plans and installs: what its programs are given, and what is made of their reports. */
import { posix } from 'node:path';
import { ToolError } from '../../../base/errors.ts';
import { isRecord } from '../../../base/text/values.ts';
import { holds } from '../../context/file-presence.ts';
import { auditedBy } from '../advisories.ts';
import { NPM_PLAN } from '../programs.ts';
import { appliedBy, plannedBy, STDERR_CHARS } from '../run-program.ts';
import type { PackageTerms } from '../settings.ts';
import { assertSettings, manifestAt, type PackageManager, textAt, type Wanted } from '../steps.ts';
import { lockedPackages } from './lock.ts';
import { readManifest } from './manifest.ts';
import { riskyKeys } from './settings-file.ts';

const MANIFEST = 'package.json';
const LOCKFILE = 'package-lock.json';

/**
 * Options that a project's settings can't override: nothing runs but npm, and only the registry is asked. The sandbox allows no other
 * host in any case.
 */
const flagsOf = (registry: string): string[] => [
  `--registry=${registry}`,
  '--ignore-scripts',
  '--allow-git=none',
  '--git=/bin/false',
  '--script-shell=/bin/false',
  '--node-options=',
  '--userconfig=/tmp/no-user-config',
  '--globalconfig=/tmp/no-global-config',
  '--workspaces=false',
  '--replace-registry-host=never',
  '--no-audit',
  '--no-fund',
  '--no-update-notifier',
  '--no-progress',
  '--fetch-retries=1',
  '--fetch-retry-mintimeout=1000',
  '--loglevel=error',
];

/** npm tells times of publication only where it has to compare them. */
const cutOffOf = ({ notAfter, coolDownDays }: PackageTerms, isCooled: boolean): string[] =>
  coolDownDays === 0 ? [] : [`--before=${isCooled ? notAfter : '9999-12-31T00:00:00.000Z'}`];

export const specOf = ({ name, version }: Wanted['packages'][number]): string =>
  version === undefined ? name : `${name}@${version}`;

export const NPM_NAME = /^(@[a-z0-9~][a-z0-9._~-]*\/)?[a-z0-9~][a-z0-9._~-]*$/;

export const npm: PackageManager = {
  name: 'npm',
  ecosystem: 'npm',
  manifest: MANIFEST,
  lockfile: LOCKFILE,
  restoreCommand: 'npm ci --ignore-scripts',
  packageName: NPM_NAME,
  commandOf: ({ packages, dev }) => ['npm', 'install', ...(dev ? ['--save-dev'] : []), ...packages.map(specOf)],
  hasScripts: true,

  projectAt(folder, { terms: { registry }, ctx }) {
    const at = (name: string) => posix.join(folder, name);
    if (holds(at('npm-shrinkwrap.json'), ctx))
      throw new ToolError('UNSUPPORTED', `npm-shrinkwrap.json takes the place of ${LOCKFILE}; it is not supported`);
    const text = manifestAt(at(MANIFEST), ctx);
    readManifest(text);
    const settings = textAt(at('.npmrc'), ctx);
    assertSettings(at('.npmrc'), riskyKeys(settings ?? '', registry));
    const texts = { [MANIFEST]: text, [LOCKFILE]: textAt(at(LOCKFILE), ctx) ?? null };
    return { folder, texts: settings === undefined ? texts : { ...texts, '.npmrc': settings } };
  },

  async planned({ texts }, wanted, { terms, ctx }) {
    const flags = [...flagsOf(terms.registry), ...cutOffOf(terms, wanted.isCooled), '--cache={tmp}/cache'];
    const install = ['install', '--package-lock-only', ...(wanted.dev ? ['--save-dev'] : [])];
    const planning = {
      steps: [
        { words: ['npm', '--version'] },
        { words: ['npm', ...install, ...flags, '--', ...wanted.packages.map(specOf)] },
      ],
      read: [MANIFEST, LOCKFILE],
      more: {
        registry: terms.registry,
        audit: { words: ['npm', 'audit', '--package-lock-only', '--json', ...flags] },
      },
    };
    const { steps, files: made, report } = await plannedBy(NPM_PLAN, { texts }, planning, ctx);
    const [version, ran] = steps;
    if (!(Number.parseInt(version?.stdout ?? '', 10) >= 7))
      throw new ToolError('UNSUPPORTED', `npm ${version?.stdout.slice(0, 32)} is too old; 7 or newer is supported`);
    const { [MANIFEST]: manifest, [LOCKFILE]: lock } = made;
    if (ran?.code !== 0 || typeof manifest !== 'string' || typeof lock !== 'string')
      throw refusedByNpm(ran?.stderr ?? '');
    return {
      files: { [MANIFEST]: manifest, [LOCKFILE]: lock },
      before: lockedPackages(texts[LOCKFILE] ?? null, terms.registry),
      after: lockedPackages(lock, terms.registry),
      direct: readManifest(manifest).names,
      times: timesOf(report.times),
      advisories: auditedBy(report.audit),
    };
  },

  applied: (folder, plan, { terms, ctx }) =>
    appliedBy(
      folder,
      plan,
      {
        step: { words: ['npm', 'ci', ...flagsOf(terms.registry), '--cache={tmp}/cache'] },
        folders: ['node_modules'],
        manifest: MANIFEST,
        lockfile: LOCKFILE,
      },
      ctx,
    ),
};

/** The times that are times, in one form: the registry could send any text. */
export function timesOf(value: unknown): Record<string, string> {
  const entries = isRecord(value) ? Object.entries(value) : [];
  return Object.fromEntries(
    entries.flatMap(([key, time]) => {
      const ms = typeof time === 'string' ? Date.parse(time) : Number.NaN;
      return Number.isNaN(ms) ? [] : [[key, new Date(ms).toISOString()]];
    }),
  );
}

/** The error for a version that is too young, or that there is none of. */
export const tooYoung = (details: Record<string, unknown>): ToolError =>
  new ToolError('NOT_FOUND', 'no version fits that is old enough', {
    suggestion: 'Ask for an older version, or accept a young one by name: accept: ["fresh:NAME@VERSION"].',
    details,
  });

function refusedByNpm(stderr: string): ToolError {
  const details = { stderr: stderr.slice(-STDERR_CHARS) };
  const [, code = ''] = /^npm (?:error|ERR!) code (\w+)/m.exec(stderr) ?? [];
  if (code === 'E404') return new ToolError('NOT_FOUND', 'the registry has no such package', { details });
  if (code === 'ETARGET' || code === 'ENOVERSIONS') return tooYoung(details);
  if (code === 'EALLOWGIT')
    return new ToolError('POLICY_DENIED', 'a package comes from a git repository; nothing was installed', { details });
  return new ToolError('CODE_ERROR', `npm can't plan this${code === '' ? '' : `: ${code}`}`, { details });
}
