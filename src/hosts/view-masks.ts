/** Applies one policy's path rules to the names of a workspace. Each name is judged once, and again only if it changed. */
import { ToolError } from '../base/errors.ts';
import { fromRoot, isBelow, isTrusted } from '../base/paths.ts';
import { pathDecision } from '../policy/paths.ts';
import type { MatchSpec } from '../policy/schema/match.ts';
import type { Rule } from '../policy/schema.ts';
import type { CoarseReason } from '../sandbox/coarse-masks.ts';
import type { HiddenPath, Masks } from '../sandbox/masks.ts';
import { countOf, type Directory, type Listing } from './directory.ts';
import type { PathView } from './job.ts';
import { Branch, type Holder } from './mask-branch.ts';

interface PathMark {
  readonly hide: Holder;
  readonly write: Holder;
  /** The path may be written, but neither removed nor moved. */
  readonly remove: Holder;
}

interface DirectoryMark extends PathMark {
  /** Whether the directory is hidden with everything that will ever be in it. */
  readonly hidesAll: boolean;
  readonly keepsAll: boolean;
}

interface FileMark extends PathMark {
  readonly name: string;
  readonly odd: boolean;
}

/** A path that a person approved for this call, and the rules that asked about it. */
interface LiftedTarget {
  readonly target: string;
  readonly rules: ReadonlySet<Rule>;
}

export interface CollectOptions {
  /** Approved targets, relative like in rules or absolute; rules that ask about a target do not apply to it or below it. */
  readonly lifted?: readonly string[];
  readonly masksMax: number;
  readonly maskPathBytesMax: number;
}

/** The most paths that one call's approval lifts; a person can't have read more. */
const LIFTED_MAX = 256;
/** With more hidden files than this the whole directory is hidden: each mount costs every command. */
const CROWD = 100;
/** How many names are judged in one step. */
const STEP = 500;
/** Names that no rule about single names is likely to match, with and without dots, at two depths. */
const PROBES = ['0probe0', '.0probe0', '0probe0/0probe0', '0probe0/.0probe0.0'];
const PROTECTED: Holder = { id: 'protected' };

export class ViewMasks {
  readonly #workspace: string;
  readonly #view: PathView;
  /** Whether a rule has exceptions, so that what it denies in some places is not denied everywhere. */
  readonly #excepts: boolean;
  readonly #files = new WeakMap<Listing, readonly FileMark[]>();
  readonly #directories = new WeakMap<Directory, DirectoryMark>();

  /** `workspace` is an absolute path. */
  constructor(workspace: string, view: PathView) {
    this.#workspace = workspace;
    this.#view = view;
    this.#excepts = view.rules.some(({ match }) => hasNot(match));
  }

  /**
   * Computes the masks in steps, between which other work may run. Hides a file with its directory if it can't be
   * masked alone. Throws SANDBOX_UNAVAILABLE if a rule hides the whole workspace.
   */
  *collect(root: Directory, { lifted = [], ...bounds }: CollectOptions): Generator<void, Masks> {
    const pass = new MaskComputation(bounds, this.#relevant(lifted));
    const rootMark = this.#judgeDirectory(root, pass);
    if (rootMark.hidesAll && !this.#excepts) throw hidesWorkspace(rootMark.hide);
    const keeps = rootMark.keepsAll && !this.#excepts;
    if (root.deep || (yield* this.#unmaskable(root, { pass, readOnly: keeps }))?.why === 'too-deep')
      throw tooDeep(this.#workspace, bounds.maskPathBytesMax);
    const branch = new Branch('', { isPinned: false, names: countOf(root.listing) });
    if (keeps) branch.hold('readOnly', '', rootMark.write);
    yield* this.#visit(root, branch, { pass, readOnly: keeps });
    const listed = branch.shrink(bounds.masksMax) ? {} : branch.showOnly(this.#shown(root, pass), bounds.masksMax);
    return { ...branch.masks(), ...listed };
  }

  /** The readable entries of the workspace, directories first. */
  #shown(root: Directory, pass: MaskComputation): string[] {
    const directories = [...root.directories.values()].filter((it) => typeof it.at === 'string').map((it) => it.path);
    const files = root.listing.files.filter(
      (name) => !this.#judge(name, 'file', pass, root.listing.ordinary?.includes(name))?.hide,
    );
    return [...directories.sort(), ...files.sort()];
  }

  *#visit(directory: Directory, branch: Branch, { pass, readOnly }: VisitOptions): Generator<void> {
    const at = (name: string) => (directory.path === '' ? name : `${directory.path}/${name}`);
    for (const { name, odd, hide, write, remove } of yield* this.#filesOf(directory, pass)) {
      const path = at(name);
      // A file that must be protected, but whose name no mount can take, is hidden.
      if (odd && (hide || !readOnly))
        branch.hide({ path, type: 'file', bytes: bytesOf(directory, name) }, hide ?? write ?? remove);
      else if (hide) branch.hide({ path, type: 'file' }, hide);
      else if (!readOnly) branch.hold(write ? 'readOnly' : 'pinned', path, write ?? remove);
    }
    for (const child of directory.directories.values())
      branch.take(yield* this.#visitChild(child, { pass, readOnly }), pass.masksMax);
    yield;
  }

  *#visitChild(child: Directory, { pass, readOnly }: VisitOptions): Generator<void, Branch> {
    const mark = this.#judgeDirectory(child, pass);
    const by = mark.hide ?? mark.write ?? mark.remove;
    const bytes = bytesOfFolder(child);
    const hides =
      child.unreadable || (mark.hidesAll && !pass.liftsBelow(child.path) && (yield* this.#all(child, pass, 'hide')));
    // A trusted directory is held with all its content, without a rule for each name.
    const isKept = mark.keepsAll && !pass.liftsBelow(child.path);
    const keeps = isKept && (mark.write === PROTECTED || (yield* this.#all(child, pass, 'write')));
    const branch = new Branch(child.path, { isPinned: !readOnly && !keeps && !hides, names: countOf(child.listing) });
    const held = !hides && !readOnly && (keeps || mark.write || mark.remove);
    if (hides) branch.hide({ path: child.path, type: 'directory', bytes }, mark.hide);
    if (child.unreadable) branch.hideWhole('unreadable', { by, bytes });
    if (hides) return branch;
    const unmaskable = child.deep ? DEEP : yield* this.#unmaskable(child, { pass, readOnly });
    if (unmaskable === undefined) {
      if (held) branch.hold(keeps ? 'readOnly' : 'pinned', child.path, mark.write ?? mark.remove);
      yield* this.#visit(child, branch, { pass, readOnly: readOnly || keeps });
    }
    if (unmaskable !== undefined) branch.hideWhole(unmaskable.why, { by, ...unmaskable, bytes });
    else if (bytes && branch.weight > 0) branch.hideWhole('not-utf8', { by, bytes });
    else if (!branch.shrink(pass.masksMax)) branch.hideWhole('too-many');
    return branch;
  }

  /** Why the files of a directory can't be masked one by one, so that the directory is hidden whole. */
  *#unmaskable(directory: Directory, { pass, readOnly }: VisitOptions): Generator<void, Unmaskable | undefined> {
    const marks = yield* this.#filesOf(directory, pass);
    const masked = readOnly ? marks.filter((it) => it.hide) : marks;
    const atBytes = Buffer.byteLength(directory.at) + 1;
    const deep = masked.find((it) => atBytes + Buffer.byteLength(it.name) > pass.maskPathBytesMax);
    if (deep) return { ...DEEP, by: deep.hide };
    // Only files count here; a directory with such a name is hidden itself.
    const odd = typeof directory.at === 'string' ? masked.filter((it) => it.odd) : [];
    if (odd.length > 0) return { why: 'not-utf8', by: odd[0]?.hide, count: odd.length };
    const hidden = marks.filter((it) => it.hide);
    return hidden.length > CROWD ? { why: 'too-many', by: hidden[0]?.hide, count: hidden.length } : undefined;
  }

  /** Whether no exception of a rule applies to anything in the directory, as far as known. */
  *#all(directory: Directory, pass: MaskComputation, what: 'hide' | 'write'): Generator<void, boolean> {
    if (!this.#excepts) return true;
    const marks = yield* this.#filesOf(directory, pass);
    const { files, odd } = directory.listing;
    if (marks.filter((it) => it[what]).length < files.length + odd.length) return false;
    for (const child of directory.directories.values()) {
      if (!this.#judgeDirectory(child, pass)[what] || !(yield* this.#all(child, pass, what))) return false;
    }
    return true;
  }

  *#filesOf(directory: Directory, pass: MaskComputation): Generator<void, readonly FileMark[]> {
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
        const mark = this.#judge(path, 'file', pass, listing.ordinary?.includes(name));
        if (mark) marks.push({ name, odd: odd || typeof directory.at !== 'string', ...mark });
        if (++judged % STEP === 0) yield;
      }
    }
    if (usual) this.#files.set(listing, marks);
    return marks;
  }

  #judgeDirectory(directory: Directory, pass: MaskComputation): DirectoryMark {
    const usual = !pass.lifts(directory.path);
    const known = usual && this.#directories.get(directory);
    if (known) return known;
    const path = directory.path || '.';
    const own = this.#judge(path, 'directory', pass, true) ?? NO_MARK;
    const inner = own.hide || own.write ? this.#probe(directory.path, pass) : [];
    const mark = {
      ...own,
      hidesAll: own.hide !== undefined && inner.every((it) => it?.hide),
      keepsAll: own.write === PROTECTED || (own.write !== undefined && inner.every((it) => it?.write)),
    };
    if (usual) this.#directories.set(directory, mark);
    return mark;
  }

  #probe(path: string, pass: MaskComputation): (PathMark | undefined)[] {
    return PROBES.map((it) => this.#judge(path === '' ? it : `${path}/${it}`, 'file', pass));
  }

  #judge(path: string, type: HiddenPath['type'], pass: MaskComputation, isOrdinary = false): PathMark | undefined {
    const rules = pass.rulesFor(path, this.#view.rules);
    const named = this.#named(path);
    const ask = (kind: 'read' | 'write' | 'delete') =>
      rules.length === 0 ? undefined : this.#ask(rules, kind, named, isOrdinary);
    const hide = ask('read');
    const write = isTrusted(named, type) ? PROTECTED : ask('write');
    const remove = ask('delete');
    return hide || write || remove ? { hide, write, remove } : undefined;
  }

  #ask(rules: readonly Rule[], kind: (typeof KINDS)[number], path: string, isOrdinary = false): Holder {
    const decided = pathDecision(rules, kind, path, this.#view.home, isOrdinary ? ORDINARY : undefined);
    return decided?.decision === 'allow' ? undefined : decided;
  }

  #named(path: string): string {
    return fromRoot(this.#root, this.#workspace, path);
  }

  get #root(): string {
    return this.#view.root ?? this.#workspace;
  }

  #relevant(lifted: readonly string[]): LiftedTarget[] {
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
const ORDINARY = () => true;
const NO_MARK: PathMark = { hide: undefined, write: undefined, remove: undefined };
/** One computation of masks: its bounds and its lifted targets. */
class MaskComputation {
  readonly masksMax: number;
  readonly maskPathBytesMax: number;
  readonly #lifted: readonly LiftedTarget[];
  readonly #left = new Map<string, readonly Rule[]>();

  constructor({ masksMax, maskPathBytesMax }: Omit<CollectOptions, 'lifted'>, lifted: readonly LiftedTarget[]) {
    this.masksMax = masksMax;
    this.maskPathBytesMax = maskPathBytesMax;
    this.#lifted = lifted;
  }

  /** Whether approvals change how a path is judged: it is a lifted target, lies in one, or holds one. */
  lifts(path: string): boolean {
    return this.#lifted.some(({ target }) => isBelow(target, path) || isBelow(path, target));
  }

  liftsBelow(path: string): boolean {
    return this.#lifted.some(({ target }) => target !== path && isBelow(path, target));
  }

  rulesFor(path: string, rules: readonly Rule[]): readonly Rule[] {
    const lifted = this.#lifted.filter(({ target }) => isBelow(target, path === '.' ? '' : path));
    if (lifted.length === 0) return rules;
    // Rule lists are compiled once per object, so the same list must be the same object.
    const left = rules.filter((rule) => !lifted.some((it) => it.rules.has(rule)));
    const key = left.map((rule) => rules.indexOf(rule)).join();
    const same = this.#left.get(key) ?? left;
    this.#left.set(key, same);
    return same;
  }
}

/** Why a directory is hidden whole, and for how many of its files. */
interface Unmaskable {
  readonly why: CoarseReason;
  readonly by?: Holder;
  readonly count?: number;
}

const DEEP: Unmaskable = { why: 'too-deep' };

/** Settings for a whole traversed directory. */
interface VisitOptions {
  readonly pass: MaskComputation;
  readonly readOnly: boolean;
}

/** The path as bytes, relative to the workspace, of a file whose own name or directory is not UTF-8. */
function bytesOf(directory: Directory, name: string): Buffer {
  const folder = bytesOfFolder(directory) ?? Buffer.from(directory.path);
  const odd = Buffer.from(name, directory.listing.odd.includes(name) ? 'latin1' : 'utf8');
  return folder.length === 0 ? odd : Buffer.concat([folder, Buffer.from('/'), odd]);
}

/** The path of a directory as bytes; undefined if it is UTF-8. */
function bytesOfFolder({ at, path, parent }: Directory): Buffer | undefined {
  if (typeof at === 'string') return undefined;
  let root = parent;
  while (root?.parent) root = root.parent;
  return path === '' || !root ? undefined : at.subarray(Buffer.byteLength(root.at) + 1);
}

/** Normalizes a target: relative to the workspace, '' for the workspace; undefined if it lies outside. */
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
    `rule \`${by?.id}\` hides the whole workspace, so nothing can run in it; change that rule`,
    { rule: by?.id },
  );
}

function tooDeep(workspace: string, bytes: number): ToolError {
  const message = `paths in ${workspace} are longer than the ${bytes} bytes that a mask can have`;
  return new ToolError('SANDBOX_UNAVAILABLE', message, { suggestion: 'Work in a folder with a shorter path.' });
}
