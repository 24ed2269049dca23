/** Judges a plan, and turns it into what the caller gets and the person is shown. */
import type * as z from 'zod';
import { defaultLimits } from '../../base/limits.ts';
import { assertNone, questionableOf, refusedOf } from './findings.ts';
import { changesBetween, type LockChanges, type LockedPackage } from './locked.ts';
import type { Input, Output, packageShape } from './schemas.ts';
import type { PackageManager, Planned, StepParts } from './steps.ts';

const { graphEntriesMax } = defaultLimits;

/** What the plan changes. Throws POLICY_DENIED for what is refused, or not accepted. */
export function judged(
  { accept, allowScripts }: Input,
  { files, before, after, times, direct, advisories }: Planned,
  manager: PackageManager,
  { terms, ctx }: StepParts,
): Output {
  const changes = changesBetween(before, after);
  assertNone(refusedOf(after, changes), 'This can not be accepted; ask the person to install it.');
  const packages = [...changes.added, ...changes.changed.map((it) => it.to)];
  const { ecosystem } = manager;
  const open = questionableOf({ packages, times, ecosystem }, terms).filter(({ id = '' }) => !accept.includes(id));
  const ids = open.map((it) => JSON.stringify(it.id)).slice(0, 10);
  assertNone(open, `Choose others, or call again with accept: [${ids.join(', ')}]; a person is asked about it.`);
  const shownOf = (it: LockedPackage) => packageOf(it, { times, direct });
  const scripts = after
    .filter((it) => it.hasScript && !allowScripts.includes(it.name))
    .map((it) => `${it.name}@${it.version}`);
  return {
    added: changes.added.slice(0, graphEntriesMax).map(shownOf),
    removed: changes.removed.slice(0, graphEntriesMax).map(({ name, version }) => ({ name, version })),
    changed: changes.changed.slice(0, graphEntriesMax).map(({ from, to }) => ({ ...shownOf(to), from: from.version })),
    scriptsSkipped: [...new Set(scripts)].slice(0, graphEntriesMax),
    lockfileDiff: linesOf(changes, { times, direct, allowScripts }),
    advisories: advisories === 'not checked' ? advisories : [...advisories],
    restoreCommand: manager.restoreCommand,
    lockfileHash: ctx.hashOf(Buffer.from(files[manager.lockfile] ?? '')),
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
    publishedAt,
    hasScript: it.hasScript,
    license: it.license,
  };
}

/** One line a package. */
function linesOf({ added, removed, changed }: LockChanges, known: Known & Pick<Input, 'allowScripts'>): string {
  const runs = (it: LockedPackage) => known.allowScripts.includes(it.name);
  const about = (it: LockedPackage) => {
    const { direct, publishedAt } = packageOf(it, known);
    const facts = [
      ...(direct ? ['direct'] : []),
      ...(publishedAt === undefined ? [] : [`published ${publishedAt.slice(0, 10)}`]),
      ...(it.hasScript ? [`has an install script, which ${runs(it) ? 'runs' : 'does not run'}`] : []),
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
export function shownTo(
  { added, changed, removed, lockfileDiff, advisories, lockfileHash }: Output,
  { allowScripts }: Pick<Input, 'allowScripts'>,
): string {
  const known =
    advisories === 'not checked'
      ? ['advisories: not checked']
      : advisories.map((it) => `! ${it.package}: ${it.severity}, ${it.title}`);
  const counts = [added, changed, removed].map((it) => it.length);
  const total = `${counts[0]} added, ${counts[1]} changed, ${counts[2]} removed; planned lockfile ${lockfileHash}`;
  const run = allowScripts.map((it) => `! the install scripts of ${it} run, without network`);
  return [total, ...run, ...known, lockfileDiff === '' ? 'the lockfile stays as it is' : lockfileDiff, ''].join('\n');
}
