/** What one policy's rules on paths mean for the names of a workspace. Names are judged once, and again only where they changed. */
import { ToolError } from '../errors.ts';
import { fromRoot, isTrusted } from '../paths.ts';
import { pathDecision } from '../policy/paths.ts';
import type { MatchSpec, Rule } from '../policy/schema.ts';
import { ancestorsOf, type Hidden, type Masks } from '../sandbox/masks.ts';
import type { Directory, Listing } from './directory.ts';
import type { PathView } from './job.ts';

type Decided = NonNullable<ReturnType<typeof pathDecision>>;

/** Who holds a path: a rule, or nobody's choice. */
type Holder = Pick<Decided, 'id'> | undefined;

interface Mark {
  readonly hide: Holder;
  readonly write: Holder;
  /** May be written, but neither removed nor moved. */
  readonly remove: Holder;
}

interface DirectoryMark extends Mark {
  /** Hidden with whatever will ever be in it. */
  readonly hidesAll: boolean;
  readonly keepsAll: boolean;
}

interface FileMark extends Mark {
  readonly name: string;
  readonly odd: boolean;
}

/** A path that a person let this very call use, and the rules that asked about it. */
interface Lifted {
  readonly target: string;
  readonly rules: ReadonlySet<Rule>;
}

export interface CollectOptions {
  /** As rules call them, or absolute; what asks about them, and about what lies in them by the same rules, does not hold. */
  readonly lifted?: readonly string[];
  readonly masksMax: number;
}

/** Paths that one call's approval lifts; a person can't have looked at more. */
const LIFTED_MAX = 256;
/** Hidden files of one directory beyond which the directory is hidden: each mount costs every command. */
const CROWD = 100;
/** Names that are judged in one step. */
const STEP = 500;
/** Names that a rule on single names is not likely to mean, with and without dots, at two depths. */
const PROBES = ['0probe0', '.0probe0', '0probe0/0probe0', '0probe0/.0probe0.0'];
const OWN: Holder = { id: 'protected' };

export class ViewMasks {
  readonly #workspace: string;
  readonly #view: PathView;
  /** Whether a rule has exceptions, so that what is denied here and there need not be denied all over. */
  readonly #excepts: boolean;
  readonly #files = new WeakMap<Listing, readonly FileMark[]>();
  readonly #directories = new WeakMap<Directory, DirectoryMark>();

  /** `workspace` is absolute. */
  constructor(workspace: string, view: PathView) {
    this.#workspace = workspace;
    this.#view = view;
    this.#excepts = view.rules.some(({ match }) => hasNot(match));
  }

  /**
   * The masks, in steps between which others may run. Throws SANDBOX_UNAVAILABLE when they are more than `masksMax`
   * mounts, when a rule hides the whole workspace, and for a path that no mount can name.
   */
  *collect(root: Directory, { lifted = [], masksMax }: CollectOptions): Generator<void, Masks> {
    const pass = new Pass(masksMax, this.#relevant(lifted));
    const whole = this.#judgeDirectory(root, pass);
    if (whole.hidesAll && !this.#excepts) throw hidesWorkspace(whole.hide);
    const keeps = whole.keepsAll && !this.#excepts;
    if (keeps) pass.add('readOnly', '', whole.write);
    yield* this.#visit(root, pass, keeps);
    return pass.masks();
  }

  *#visit(directory: Directory, pass: Pass, readOnly: boolean): Generator<void> {
    const at = (name: string) => (directory.path === '' ? name : `${directory.path}/${name}`);
    for (const { name, odd, hide, write, remove } of yield* this.#filesOf(directory, pass)) {
      if (odd && (hide || !readOnly)) throw unnameable(at(name), hide ?? write ?? remove);
      if (hide) pass.hide(at(name), 'file', hide);
      else if (!readOnly) pass.add(write ? 'readOnly' : 'pinned', at(name), write ?? remove);
    }
    for (const child of directory.directories.values()) yield* this.#visitChild(child, pass, readOnly);
    yield;
  }

  *#visitChild(child: Directory, pass: Pass, readOnly: boolean): Generator<void> {
    const mark = this.#judgeDirectory(child, pass);
    const hides =
      child.unreadable || (mark.hidesAll && !pass.liftsBelow(child.path) && (yield* this.#all(child, pass, 'hide')));
    // What is trusted is held with all that is in it, which no rule has to say of each name.
    const isKept = mark.keepsAll && !pass.liftsBelow(child.path);
    const keeps = isKept && (mark.write === OWN || (yield* this.#all(child, pass, 'write')));
    const held = hides || (!readOnly && (keeps || mark.write || mark.remove));
    if (held && typeof child.at !== 'string') throw unnameable(child.path, mark.hide ?? mark.write ?? mark.remove);
    if (hides) return pass.hide(child.path, 'directory', mark.hide);
    const crowded = yield* this.#crowded(child, pass);
    if (crowded && typeof child.at === 'string') return pass.hide(child.path, 'directory', crowded);
    if (held) pass.add(keeps ? 'readOnly' : 'pinned', child.path, mark.write ?? mark.remove);
    yield* this.#visit(child, pass, readOnly || keeps);
  }

  /**
   * Who hides so many files of a directory, or one whose name no mount can take, that it is hidden with all that is in it:
   * a command could otherwise make such files and have every command after it refused.
   */
  *#crowded(directory: Directory, pass: Pass): Generator<void, Holder> {
    const hidden = (yield* this.#filesOf(directory, pass)).filter((it) => it.hide);
    return hidden.find((it) => it.odd)?.hide ?? (hidden.length > CROWD ? hidden[0]?.hide : undefined);
  }

  /** Whether rules with exceptions except nothing in there, as far as it is known. */
  *#all(directory: Directory, pass: Pass, what: 'hide' | 'write'): Generator<void, boolean> {
    if (!this.#excepts) return true;
    const marks = yield* this.#filesOf(directory, pass);
    const { files, odd } = directory.listing;
    if (marks.filter((it) => it[what]).length < files.length + odd.length) return false;
    for (const child of directory.directories.values()) {
      if (!this.#judgeDirectory(child, pass)[what] || !(yield* this.#all(child, pass, what))) return false;
    }
    return true;
  }

  *#filesOf(directory: Directory, pass: Pass): Generator<void, readonly FileMark[]> {
    const { listing } = directory;
    const usual = !pass.lifts(directory.path);
    const known = usual && this.#files.get(listing);
    if (known) return known;
    const marks: FileMark[] = [];
    let judged = 0;
    for (const [names, odd] of [
      [listing.files, false],
      [listing.odd, true],
    ] as const) {
      for (const name of names) {
        const path = directory.path === '' ? name : `${directory.path}/${name}`;
        const mark = this.#judge(path, 'file', pass);
        if (mark) marks.push({ name, odd: odd || typeof directory.at !== 'string', ...mark });
        if (++judged % STEP === 0) yield;
      }
    }
    if (usual) this.#files.set(listing, marks);
    return marks;
  }

  #judgeDirectory(directory: Directory, pass: Pass): DirectoryMark {
    const usual = !pass.lifts(directory.path);
    const known = usual && this.#directories.get(directory);
    if (known) return known;
    const path = directory.path || '.';
    const own = this.#judge(path, 'directory', pass) ?? NO_MARK;
    const inner = own.hide || own.write ? this.#probe(directory.path, pass) : [];
    const mark = {
      ...own,
      hidesAll: own.hide !== undefined && inner.every((it) => it?.hide),
      keepsAll: own.write === OWN || (own.write !== undefined && inner.every((it) => it?.write)),
    };
    if (usual) this.#directories.set(directory, mark);
    return mark;
  }

  #probe(path: string, pass: Pass): (Mark | undefined)[] {
    return PROBES.map((it) => this.#judge(path === '' ? it : `${path}/${it}`, 'file', pass));
  }

  #judge(path: string, type: Hidden['type'], pass: Pass): Mark | undefined {
    const rules = pass.rulesFor(path, this.#view.rules);
    const named = this.#named(path);
    const ask = (kind: 'read' | 'write' | 'delete') => (rules.length === 0 ? undefined : this.#ask(rules, kind, named));
    const hide = ask('read');
    const write = isTrusted(named, type) ? OWN : ask('write');
    const remove = ask('delete');
    return hide || write || remove ? { hide, write, remove } : undefined;
  }

  #ask(rules: readonly Rule[], kind: 'read' | 'write' | 'delete', path: string): Holder {
    const decided = pathDecision(rules, kind, path, this.#view.home);
    return decided?.decision === 'allow' ? undefined : decided;
  }

  #named(path: string): string {
    return fromRoot(this.#root, this.#workspace, path);
  }

  get #root(): string {
    return this.#view.root ?? this.#workspace;
  }

  #relevant(lifted: readonly string[]): Lifted[] {
    const asking = this.#view.rules.filter((it) => it.decision === 'ask');
    if (asking.length === 0) return [];
    return lifted.slice(0, LIFTED_MAX).flatMap((it) => {
      const target = relativeTo(this.#workspace, it.startsWith('/') ? it : `${this.#root}/${it}`);
      if (target === undefined) return [];
      const named = this.#named(target || '.');
      const rules = asking.filter((rule) => KINDS.some((kind) => this.#ask([rule], kind, named)));
      return rules.length === 0 ? [] : [{ target, rules: new Set(rules) }];
    });
  }
}

const KINDS = ['read', 'write', 'delete'] as const;
const NO_MARK: Mark = { hide: undefined, write: undefined, remove: undefined };
/** One gathering of masks: what is found, and what was lifted for it. */
class Pass {
  readonly #masksMax: number;
  readonly #lifted: readonly Lifted[];
  readonly #hidden: Hidden[] = [];
  readonly #held = { readOnly: [] as string[], pinned: new Set<string>() };
  readonly #hits = new Map<string, number>();
  readonly #left = new Map<string, readonly Rule[]>();
  #count = 0;

  constructor(masksMax: number, lifted: readonly Lifted[]) {
    this.#masksMax = masksMax;
    this.#lifted = lifted;
  }

  hide(path: string, type: Hidden['type'], by: Holder): void {
    if (this.#counts(by)) this.#hidden.push({ path, type });
  }

  add(how: 'readOnly' | 'pinned', path: string, by: Holder): void {
    if (!this.#counts(by)) return;
    if (how === 'readOnly') this.#held.readOnly.push(path);
    else this.#held.pinned.add(path);
  }

  /** Whether a path is judged otherwise than usual: it is lifted, lies in what is, or holds it. */
  lifts(path: string): boolean {
    return this.#lifted.some(({ target }) => isBelow(path, target) || isBelow(target, path));
  }

  liftsBelow(path: string): boolean {
    return this.#lifted.some(({ target }) => target !== path && isBelow(target, path));
  }

  rulesFor(path: string, rules: readonly Rule[]): readonly Rule[] {
    const lifted = this.#lifted.filter(({ target }) => isBelow(path === '.' ? '' : path, target));
    if (lifted.length === 0) return rules;
    // Lists of rules are made ready once each, so that the same list has to be the same object.
    const left = rules.filter((rule) => !lifted.some((it) => it.rules.has(rule)));
    const key = left.map((rule) => rules.indexOf(rule)).join();
    const same = this.#left.get(key) ?? left;
    this.#left.set(key, same);
    return same;
  }

  /** Throws SANDBOX_UNAVAILABLE when they are too many. */
  masks(): Masks {
    const { readOnly, pinned } = this.#held;
    const whole = readOnly.includes('');
    const kept = new Set(readOnly);
    if (!whole)
      for (const path of [...this.#hidden.map((it) => it.path), ...readOnly, ...pinned]) this.#pinAbove(path, kept);
    const mounts = this.#hidden.length + readOnly.length + pinned.size;
    if (this.#count > this.#masksMax || mounts > this.#masksMax) throw this.#tooMany(Math.max(this.#count, mounts));
    return { hidden: this.#hidden, readOnly, pinned: [...pinned] };
  }

  /** Inside a read-only directory nothing moves anyway. */
  #pinAbove(path: string, kept: ReadonlySet<string>): void {
    const above = ancestorsOf(path);
    for (const it of above.slice(above.findLastIndex((folder) => kept.has(folder)) + 1)) this.#held.pinned.add(it);
  }

  #counts(by: Holder): boolean {
    this.#count += 1;
    const id = by?.id ?? 'protected';
    this.#hits.set(id, (this.#hits.get(id) ?? 0) + 1);
    return this.#count <= this.#masksMax;
  }

  #tooMany(mounts: number): ToolError {
    const [rule = '', hits = 0] = [...this.#hits].sort((a, b) => b[1] - a[1])[0] ?? [];
    const message = `what the policy keeps from commands here needs ${mounts} mounts, more than ${this.#masksMax}; ${hits} paths are held by \`${rule}\``;
    return new ToolError('SANDBOX_UNAVAILABLE', message, {
      suggestion:
        'Name whole directories (`dir/**`) in that rule, work in a part of the workspace, or raise limits.masksMax.',
      rule,
      details: { limit: this.#masksMax, used: mounts },
    });
  }
}

const isBelow = (path: string, folder: string): boolean =>
  folder === '' || path === folder || path.startsWith(`${folder}/`);

/** The one form of a target: relative, '' for the workspace; undefined outside of it. */
function relativeTo(workspace: string, target: string): string | undefined {
  const inside =
    target === workspace ? '' : target.startsWith(`${workspace}/`) ? target.slice(workspace.length + 1) : target;
  if (inside.startsWith('/')) return undefined;
  const parts = inside.split('/').filter((it) => it !== '' && it !== '.');
  return parts.includes('..') ? undefined : parts.join('/');
}

const hasNot = ({ not, all = [], any = [] }: MatchSpec): boolean => not !== undefined || [...all, ...any].some(hasNot);

function hidesWorkspace(by: Holder): ToolError {
  return new ToolError(
    'SANDBOX_UNAVAILABLE',
    `rule \`${by?.id}\` keeps the whole workspace from being read, so that nothing can run in it`,
    {
      ...(by && { rule: by.id }),
    },
  );
}

function unnameable(path: string, by: Holder): ToolError {
  const message = `\`${path}\` is held by \`${by?.id ?? 'protected'}\`, but its name is not UTF-8, so that no mount can cover it`;
  return new ToolError('SANDBOX_UNAVAILABLE', message, { suggestion: 'Rename it.', ...(by && { rule: by.id }) });
}
