/** How pip (22.3 or newer) plans and installs: wheels alone, by a lockfile with hashes, into `.venv` of the project. */
import { posix } from 'node:path';
import { ToolError } from '../../../base/errors.ts';
import { isRecord } from '../../../base/text/values.ts';
import { type LockedPackage, shownUrl, textOf } from '../locked.ts';
import { timesOf, tooYoung } from '../npm/npm.ts';
import { assertApplied, programMissing, reported, STDERR_CHARS } from '../run-program.ts';
import type { PackageTerms } from '../settings.ts';
import { type PackageManager, type ProjectFiles, textAt, type Wanted } from '../steps.ts';
import { PIP_APPLY, PIP_PLAN } from './programs.ts';
import { assertRequirements, namesIn, normalName, withRequirement } from './requirements.ts';

const MANIFEST = 'requirements.txt';
const DEV_MANIFEST = 'requirements-dev.txt';
const LOCKFILE = 'requirements.lock';
const HEADER = '# By package_install; by hand: pip install --require-hashes --no-deps -r requirements.lock\n';
/** Times that versions in their cool-down are left out and the rest is resolved again. */
const ROUNDS = 8;

const PYTHON = { interpreter: 'python3 -I -c' };

/** The options about the index; `plain` are the hosts that are reached without TLS. */
function indexOf({ pythonIndex, pythonFiles }: PackageTerms) {
  const urls = [pythonIndex, pythonFiles].map((it) => new URL(it));
  return { index: pythonIndex, plain: urls.filter((it) => it.protocol === 'http:').map((it) => it.host) };
}

export const pip: PackageManager = {
  name: 'pip',
  ecosystem: 'python',
  manifest: MANIFEST,
  lockfile: LOCKFILE,
  devManifest: DEV_MANIFEST,
  restoreCommand: '.venv/bin/pip install --require-hashes --no-deps -r requirements.lock',
  packageName: /^[A-Za-z0-9]([\w.-]*[A-Za-z0-9])?$/,
  commandOf: ({ packages }) =>
    packages.length === 0
      ? ['pip', 'install', '-r', MANIFEST]
      : ['pip', 'install', ...packages.map(({ name, version }) => `${name}${version ?? ''}`)],

  projectAt(folder, { ctx }) {
    const texts = [MANIFEST, DEV_MANIFEST, LOCKFILE].map((name) => {
      const text = textAt(posix.join(folder, name), ctx) ?? null;
      if (text !== null && name !== LOCKFILE) assertRequirements(posix.join(folder, name), text);
      return [name, text] as const;
    });
    return { folder, texts: Object.fromEntries(texts) };
  },

  async planned({ texts }, wanted, { terms, ctx }) {
    const manifests = manifestsWith(texts, wanted);
    const before = lockedByPip(texts[LOCKFILE] ?? null);
    const asked = new Set(wanted.packages.map((it) => normalName(it.name)));
    const pinned = before.filter((it) => !asked.has(it.name)).map((it) => [it.name, it.version]);
    const request = {
      ...indexOf(terms),
      files: manifests,
      pinned: Object.fromEntries(pinned),
      notAfter: terms.notAfter,
      excepted: terms.coolDownExcept,
      isCooled: wanted.isCooled && terms.coolDownDays > 0,
      rounds: ROUNDS,
    };
    const report = await reported(PIP_PLAN, '.', ctx, request, PYTHON);
    if (report.code !== 0) throw refusedByPip(report);
    const found = Array.isArray(report.found) ? report.found.filter(isRecord) : [];
    const after = found.map((it) => toPackage(it, terms));
    const times = found.map((it) => [`${textOf(it.name)}@${textOf(it.version)}`, it.time]);
    return {
      files: { ...manifests, [LOCKFILE]: HEADER + after.map(lineOf).toSorted().join('') },
      before,
      after,
      direct: new Set(Object.values(manifests).flatMap(namesIn)),
      times: timesOf(Object.fromEntries(times)),
      advisories: 'not checked',
    };
  },

  async applied(folder, { files, before }, { terms, ctx }) {
    const own = { files, before, lockfile: LOCKFILE };
    const report = await reported(PIP_APPLY, folder, ctx, { ...indexOf(terms), ...own }, PYTHON);
    if (typeof report.other === 'string')
      throw new ToolError('CONFLICT', `.venv is not of Python ${report.other.slice(0, 16)}, which commands find`, {
        suggestion: 'Remove .venv, so that it is made again, or ask the person for the toolchain of that Python.',
      });
    assertApplied(report, { words: ['pip', 'install'], manifest: MANIFEST, lockfile: LOCKFILE });
  },
};

/** The requirements with what is to be added. Throws INPUT_INVALID for versions that pip does not know, and where nothing is asked for. */
function manifestsWith(texts: ProjectFiles['texts'], { packages, dev }: Wanted): Record<string, string> {
  const target = dev ? DEV_MANIFEST : MANIFEST;
  const present = [MANIFEST, DEV_MANIFEST].flatMap((name) =>
    texts[name] == null ? [] : [[name, texts[name]] as const],
  );
  const files: Record<string, string> = Object.fromEntries(present);
  for (const { name, version = '' } of packages) {
    const spec = /^\d/.test(version) ? `==${version}` : version;
    if (!/^((==|>=|<=|~=|<|>)\d[\w.*+-]*)?$/.test(spec))
      throw new ToolError('INPUT_INVALID', `${version} is no version or range of pip, such as 1.2.0 or >=1.2`);
    files[target] = withRequirement(files[target] ?? '', name, spec);
  }
  if (Object.keys(files).length === 0)
    throw new ToolError('NOT_FOUND', `there is no ${MANIFEST}, and no package was asked for`);
  return files;
}

function toPackage(it: Record<string, unknown>, { pythonIndex, pythonFiles }: PackageTerms): LockedPackage {
  const { name, version, sha256, url } = {
    name: textOf(it.name),
    version: textOf(it.version),
    sha256: textOf(it.sha256),
    url: textOf(it.url),
  };
  const origins = [pythonIndex, pythonFiles].map((from) => new URL(from).origin);
  const isOwn = it.isDirect !== true && origins.includes(URL.parse(url)?.origin ?? '');
  const hashed = /^[0-9a-f]{64}$/.test(sha256);
  const problem = isOwn
    ? hashed
      ? undefined
      : 'has no hash that its content could be checked by'
    : `comes from ${shownUrl(url)}, which is not the registry`;
  return {
    place: name,
    name,
    version,
    integrity: `sha256:${sha256}`,
    hasScript: false,
    isBundled: false,
    problem,
    ...(typeof it.license === 'string' && { license: textOf(it.license).slice(0, 128) }),
  };
}

const lineOf = ({ name, version, integrity }: LockedPackage): string =>
  `${name}==${version} \\\n    --hash=${integrity}\n`;

/** The packages of a lockfile that this tool wrote; none of a missing one. Throws UNSUPPORTED for another. */
export function lockedByPip(text: string | null): LockedPackage[] {
  if (text === null) return [];
  const lines = text.replaceAll(/ \\\n {4}/g, ' ').split('\n');
  return lines
    .filter((it) => it !== '' && !it.startsWith('#'))
    .map((line): LockedPackage => {
      const [, name = '', version = '', hash = ''] =
        /^([a-z0-9-]+)==(\S+) --hash=(sha256:[0-9a-f]{64})$/.exec(line) ?? [];
      if (name === '')
        throw new ToolError(
          'UNSUPPORTED',
          `${LOCKFILE} has a line that package_install did not write: ${textOf(line).slice(0, 100)}`,
        );
      return { place: name, name, version, integrity: hash, hasScript: false, isBundled: false };
    });
}

function refusedByPip({ stderr, excluded }: Record<string, unknown>): ToolError {
  const text = String(stderr);
  const details = { stderr: text.slice(-STDERR_CHARS) };
  if (/No module named pip/.test(text)) return programMissing('pip3');
  if (/no such option: --(report|dry-run|break)/.test(text))
    return new ToolError('UNSUPPORTED', 'this pip is too old; 22.3 or newer is supported', { details });
  if (Array.isArray(excluded) && excluded.length > 0) return tooYoung(details);
  if (/No matching distribution|Could not find a version/.test(text))
    return new ToolError('NOT_FOUND', 'the index has no such package with a wheel for this machine', { details });
  if (/ResolutionImpossible/.test(text))
    return new ToolError('CONFLICT', 'the requirements contradict one another', { details });
  return new ToolError('CODE_ERROR', "pip can't plan this", { details });
}
