/** How go plans and installs: modules of the proxy alone, bound by go.sum, into the module cache of the commands' home. */
import { posix } from 'node:path';
import { ToolError } from '../../../errors.ts';
import { parseJson } from '../../../text/json.ts';
import { isRecord } from '../../../text/values.ts';
import { holds } from '../../context/file-presence.ts';
import { type LockedPackage, textOf } from '../locked.ts';
import { timesOf } from '../npm/npm.ts';
import { PLAN } from '../programs.ts';
import { appliedBy, plannedBy, type Ran, STDERR_CHARS } from '../run-program.ts';
import type { PackageTerms } from '../settings.ts';
import { assertSettings, manifestAt, type PackageManager, textAt } from '../steps.ts';

const MANIFEST = 'go.mod';
const LOCKFILE = 'go.sum';

/** Variables that no file of the project or the person overrides. No repository is asked: only the proxy. */
const environmentOf = ({ goProxy, goSumDb }: PackageTerms) => ({
  GOENV: 'off',
  GOFLAGS: '-mod=mod',
  GOWORK: 'off',
  GOTOOLCHAIN: 'local',
  GOPROXY: goProxy,
  GOSUMDB: goSumDb,
  GOPRIVATE: '',
  GONOPROXY: '',
  GONOSUMDB: '',
  GOINSECURE: '',
  GOVCS: '*:off',
  GO111MODULE: 'on',
});

export const go: PackageManager = {
  name: 'go',
  ecosystem: 'go',
  manifest: MANIFEST,
  lockfile: LOCKFILE,
  restoreCommand: 'go mod download',
  packageName: /^[a-z0-9][a-z0-9-]*(\.[a-z0-9-]+)+(\/[\w~-][\w.~-]*)+$/i,
  commandOf: ({ packages }) =>
    packages.length === 0
      ? ['go', 'mod', 'download']
      : ['go', 'get', ...packages.map(({ name, version }) => `${name}@${version ?? 'latest'}`)],

  projectAt(folder, { ctx }) {
    const at = (name: string) => posix.join(folder, name);
    if (holds(at('vendor/modules.txt'), ctx))
      throw new ToolError('UNSUPPORTED', `${at('vendor')} holds copies of the modules, which are not kept up to date`);
    const text = manifestAt(at(MANIFEST), ctx);
    // Replacements come from folders, or from modules that the requirements do not name.
    assertSettings(at(MANIFEST), /^\s*replace\b/m.test(text) ? ['replace'] : []);
    return { folder, texts: { [MANIFEST]: text, [LOCKFILE]: textAt(at(LOCKFILE), ctx) ?? null } };
  },

  async planned(project, wanted, { terms, ctx }) {
    if (wanted.dev) throw new ToolError('INPUT_INVALID', 'go has no modules for development only: leave out `dev`');
    const wrong = wanted.packages.find(({ version = '' }) => !/^[\w.+-]*$/.test(version));
    if (wrong) throw new ToolError('INPUT_INVALID', `${wrong.version} is no version of go, such as v1.2.0 or latest`);
    const env = {
      ...environmentOf(terms),
      GOMODCACHE: '{tmp}/modules',
      GOCACHE: '{tmp}/builds',
      GOFLAGS: '-mod=mod -modcacherw',
    };
    const all = [this.commandOf(wanted), ['go', 'mod', 'download'], ['go', 'list', '-m', '-json', 'all']];
    const planning = { steps: all.map((words) => ({ words, env })), read: [MANIFEST, LOCKFILE] };
    const { steps, files } = await plannedBy(PLAN, project, planning, ctx);
    const last = steps.at(-1);
    const manifest = files[MANIFEST];
    if (steps.length < all.length || last?.code !== 0 || typeof manifest !== 'string') throw refusedByGo(last);
    const lock = files[LOCKFILE] ?? '';
    return {
      files: { [MANIFEST]: manifest, [LOCKFILE]: lock },
      before: lockedByGo(project.texts[LOCKFILE] ?? ''),
      after: lockedByGo(lock),
      direct: new Set([...directIn(manifest), ...wanted.packages.map((it) => it.name)]),
      times: timesIn(last.stdout),
      advisories: 'not checked',
    };
  },

  applied: (folder, plan, { terms, ctx }) => {
    const step = { words: ['go', 'mod', 'download'], env: environmentOf(terms) };
    return appliedBy(folder, plan, { step, folders: [], manifest: MANIFEST, lockfile: LOCKFILE }, ctx);
  },
};

/** The modules whose content go.sum has hashes for: go fetches no others. Throws UNSUPPORTED for another text. */
export function lockedByGo(text: string): LockedPackage[] {
  const lines = text.split('\n').filter((it) => it.trim() !== '');
  return lines.flatMap((line): LockedPackage[] => {
    const [, name, version, hash] = /^(\S+) (\S+) (h1:[\w+/]{43}=)$/.exec(line) ?? [];
    if (name === undefined || version === undefined || hash === undefined)
      throw new ToolError('UNSUPPORTED', `${LOCKFILE} has a line that is none of it: ${textOf(line).slice(0, 100)}`);
    if (version.endsWith('/go.mod')) return [];
    const place = `${textOf(name)}@${textOf(version)}`;
    return [
      { place, name: textOf(name), version: textOf(version), integrity: hash, hasScript: false, isBundled: false },
    ];
  });
}

/** The modules that go.mod requires for the project's own code. */
const directIn = (manifest: string): string[] =>
  [...manifest.matchAll(/^\s*(?:require\s+)?([^\s/]+\.[^\s/]+\/\S+|[^\s/]+\.[^\s/]+) v\S+$/gm)].map(
    ([, name = '']) => name,
  );

/** The times of versions in the objects that `go list` printed one after the other. */
function timesIn(output: string): Record<string, string> {
  const objects = output.split(/^\}$/m).flatMap((it): Record<string, unknown>[] => {
    try {
      const value: unknown = parseJson(`${it}}`);
      return isRecord(value) ? [value] : [];
    } catch {
      return []; // The rest behind the last object.
    }
  });
  return timesOf(Object.fromEntries(objects.map((it) => [`${textOf(it.Path)}@${textOf(it.Version)}`, it.Time])));
}

/** The error for what go printed. */
function refusedByGo(ran: Ran | undefined): ToolError {
  const text = ran?.stderr ?? '';
  const details = { stderr: text.slice(-STDERR_CHARS) };
  if (/\b(404 Not Found|410 Gone|no matching versions|unknown revision)/.test(text))
    return new ToolError('NOT_FOUND', 'the proxy has no such module or version', { details });
  if (/checksum mismatch|SECURITY ERROR/.test(text))
    return new ToolError(
      'POLICY_DENIED',
      `a module has another content than ${LOCKFILE} or the checksum database says`,
      { details },
    );
  return new ToolError('CODE_ERROR', "go can't plan this", { details });
}
