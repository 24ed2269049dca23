/** How cargo (1.68 or newer) plans and installs: crates of the index alone, bound by Cargo.lock, into cargo's home. Nothing is built. */
import { posix } from 'node:path';
import semver from 'semver';
import { parse } from 'smol-toml';
import { ToolError } from '../../../errors.ts';
import { isRecord } from '../../../text/values.ts';
import { holds } from '../../context/file-presence.ts';
import { type LockedPackage, shownUrl, textOf } from '../locked.ts';
import { timesOf } from '../npm/npm.ts';
import { CARGO_PLAN } from '../programs.ts';
import { appliedBy, plannedBy, type Ran, STDERR_CHARS } from '../run-program.ts';
import { CRATES, type PackageTerms } from '../settings.ts';
import { assertSettings, foldersAbove, manifestAt, type PackageManager, textAt } from '../steps.ts';

const MANIFEST = 'Cargo.toml';
const LOCKFILE = 'Cargo.lock';
const OLDEST = '1.68.0';
/** The source that Cargo.lock names, also where the settings have another index in its place. */
const SOURCE = 'registry+https://github.com/rust-lang/crates.io-index';
/** Tables of .cargo/config.toml that run nothing and choose no source. */
const HARMLESS = new Set(['alias', 'cargo-new', 'future-incompat-report', 'profile', 'term']);

const ENVIRONMENT = { CARGO_TERM_COLOR: 'never', CARGO_NET_GIT_FETCH_WITH_CLI: 'false', CARGO_NET_RETRY: '1' };

/** Options that put the index of the settings in the place of crates.io. */
const indexOf = ({ cargoIndex }: PackageTerms): string[] =>
  cargoIndex === CRATES
    ? []
    : [
        '--config',
        'source.crates-io.replace-with="ringfence"',
        '--config',
        `source.ringfence.registry="sparse+${cargoIndex}/"`,
      ];

export const cargo: PackageManager = {
  name: 'cargo',
  ecosystem: 'cargo',
  manifest: MANIFEST,
  lockfile: LOCKFILE,
  restoreCommand: 'cargo fetch --locked',
  packageName: /^[A-Za-z][\w-]*$/,
  commandOf: ({ packages, dev }) =>
    packages.length === 0
      ? ['cargo', 'fetch', '--locked']
      : ['cargo', 'add', ...(dev ? ['--dev'] : []), ...packages.map(specOf)],

  projectAt(folder, { ctx }) {
    const at = (name: string) => posix.join(folder, name);
    const above = foldersAbove(folder).find((it) => holds(posix.join(it, MANIFEST), ctx));
    if (above !== undefined)
      throw new ToolError(
        'UNSUPPORTED',
        `${posix.join(above, MANIFEST)} may make ${folder} part of a workspace of cargo`,
      );
    const text = manifestAt(at(MANIFEST), ctx);
    assertManifest(at(MANIFEST), text);
    for (const place of [folder, ...foldersAbove(folder)])
      for (const name of ['.cargo/config.toml', '.cargo/config']) {
        const path = posix.join(place, name);
        assertSettings(
          path,
          Object.keys(readToml(textAt(path, ctx) ?? '', path)).filter((it) => !HARMLESS.has(it)),
        );
      }
    for (const name of ['rust-toolchain.toml', 'rust-toolchain'])
      assertSettings(at(name), /\bpath\s*=/.test(textAt(at(name), ctx) ?? '') ? ['path'] : []);
    return { folder, texts: { [MANIFEST]: text, [LOCKFILE]: textAt(at(LOCKFILE), ctx) ?? null } };
  },

  async planned(project, wanted, { terms, ctx }) {
    const wrong = wanted.packages.find(
      ({ version = '1' }) => !/^[\^~=]?\d[\w.*+-]*$|^[<>]=?\d[\w.*+-]*$|^\*$/.test(version),
    );
    if (wrong)
      throw new ToolError('INPUT_INVALID', `${wrong.version} is no version or range of cargo, such as 1.2 or =1.2.0`);
    const env = { ...ENVIRONMENT, CARGO_HOME: '{tmp}/cargo' };
    const run = (words: string[]) => ({ words: ['cargo', ...indexOf(terms), ...words], env });
    const names = wanted.packages.map((it) => it.name);
    const steps = [
      run(['--version']),
      ...(names.length > 0 ? [run(this.commandOf(wanted).slice(1))] : []),
      run(['update', '--workspace']),
      ...names.map((it) => run(['update', '--package', it])),
    ];
    const folder = posix.join(ctx.workspace, project.folder);
    const planning = { steps, read: [MANIFEST, LOCKFILE], more: { folder } };
    const { steps: ran, files, report } = await plannedBy(CARGO_PLAN, project, planning, ctx);
    const [, version = ''] = /^cargo (\d+\.\d+\.\d+)/.exec(ran[0]?.stdout ?? '') ?? [];
    if (ran[0]?.code === 0 && (!semver.valid(version) || semver.lt(version, OLDEST)))
      throw new ToolError('UNSUPPORTED', `cargo ${version} is too old; ${OLDEST} or newer is supported`);
    const { [MANIFEST]: manifest, [LOCKFILE]: lock } = files;
    if (ran.length < steps.length || ran.at(-1)?.code !== 0 || typeof manifest !== 'string' || typeof lock !== 'string')
      throw refusedByCargo(ran.at(-1));
    const { own, direct } = assertManifest(MANIFEST, manifest);
    return {
      files: { [MANIFEST]: manifest, [LOCKFILE]: lock },
      before: lockedByCargo(project.texts[LOCKFILE] ?? '', own),
      after: lockedByCargo(lock, own),
      direct,
      times: timesOf(report.times),
      advisories: 'not checked',
    };
  },

  applied: (folder, plan, { terms, ctx }) => {
    const step = { words: ['cargo', ...indexOf(terms), 'fetch', '--locked'], env: ENVIRONMENT };
    return appliedBy(folder, plan, { step, folders: [], manifest: MANIFEST, lockfile: LOCKFILE }, ctx);
  },
};

const specOf = ({ name, version }: { name: string; version?: string | undefined }): string =>
  version === undefined ? name : `${name}@${version}`;

/** The table in a TOML text. Throws INPUT_INVALID. */
function readToml(text: string, path: string): Record<string, unknown> {
  try {
    return parse(text);
  } catch {
    throw new ToolError('INPUT_INVALID', `${path} is no TOML`); // A TomlError, or a RangeError for one that nests too deep.
  }
}

/**
 * What a manifest says of its own name and of what it asks for. Throws UNSUPPORTED for a workspace, POLICY_DENIED for what comes from
 * anywhere but the index.
 */
function assertManifest(path: string, text: string): { own: string; direct: Set<string> } {
  const value = readToml(text, path);
  if (value.workspace !== undefined)
    throw new ToolError('UNSUPPORTED', `${path} has a workspace, which is not supported`);
  assertSettings(
    path,
    ['patch', 'replace', 'cargo-features'].filter((it) => value[it] !== undefined),
  );
  const targets = isRecord(value.target) ? Object.values(value.target).filter(isRecord) : [];
  const kinds = ['dependencies', 'dev-dependencies', 'build-dependencies', 'dev_dependencies', 'build_dependencies'];
  const asked = [value, ...targets].flatMap((it) =>
    kinds.flatMap((kind) => (isRecord(it[kind]) ? Object.entries(it[kind]) : [])),
  );
  for (const [name, it] of asked) {
    const from = isRecord(it)
      ? ['path', 'git', 'registry', 'registry-index', 'base', 'workspace'].find((key) => it[key] !== undefined)
      : undefined;
    if (from !== undefined)
      throw new ToolError(
        'POLICY_DENIED',
        `nothing was planned: ${textOf(name)} is asked for from ${shownUrl(`${from} = ${textOf(isRecord(it) ? it[from] : '')}`)}, which is not the registry`,
        {
          suggestion: 'This can not be accepted; ask the person to install it.',
        },
      );
  }
  const own = isRecord(value.package) ? textOf(value.package.name) : '';
  return {
    own,
    direct: new Set(asked.map(([name, it]) => (isRecord(it) && typeof it.package === 'string' ? it.package : name))),
  };
}

/** The packages of a lockfile but the project itself; none of an empty text. Throws UNSUPPORTED for what is none. */
export function lockedByCargo(text: string, own: string): LockedPackage[] {
  const { package: packages = [], version } = readToml(text, LOCKFILE);
  if (!Array.isArray(packages) || (text !== '' && !(Number(version) >= 3)))
    throw new ToolError('UNSUPPORTED', `${LOCKFILE} is none of version 3 or newer`, {
      suggestion: 'Make it again: `cargo generate-lockfile`.',
    });
  return packages.filter(isRecord).flatMap((it): LockedPackage[] => {
    const [name, release, source, checksum] = [it.name, it.version, it.source, it.checksum].map(textOf) as [
      string,
      string,
      string,
      string,
    ];
    if (source === '' && name === own) return [];
    const problem = originOf(source, checksum);
    const place = `${name}@${release}`;
    return [
      {
        place,
        name,
        version: release,
        integrity: checksum,
        hasScript: false,
        isBundled: false,
        ...(problem !== undefined && { problem }),
      },
    ];
  });
}

/** Why the origin of a package is refused. */
function originOf(source: string, checksum: string): string | undefined {
  if (source === '') return 'comes from a folder of this machine';
  if (source.startsWith('git+')) return `comes from a git repository, ${shownUrl(source)}`;
  if (source !== SOURCE) return `comes from ${shownUrl(source)}, which is not the registry`;
  return /^[0-9a-f]{64}$/.test(checksum) ? undefined : 'has no hash that its content could be checked by';
}

/** The error for what cargo printed. */
function refusedByCargo(ran: Ran | undefined): ToolError {
  const text = ran?.stderr ?? '';
  const details = { stderr: text.slice(-STDERR_CHARS) };
  if (/could not be found in registry index|no matching package|failed to select a version/.test(text))
    return new ToolError('NOT_FOUND', 'the index has no such crate or version', { details });
  return new ToolError('CODE_ERROR', "cargo can't plan this", { details });
}
