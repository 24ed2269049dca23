/**
 * Collects the masks of one directory tree within the number of mounts that a sandbox can have. Too many masks must
 * not keep commands from running, or anyone who makes files could stop all commands: instead the directory with the
 * most masks is hidden whole, with a warning.
 */
import type { CoarseMask, CoarseReason } from '../sandbox/coarse-masks.ts';
import type { HiddenPath, Masks } from '../sandbox/masks.ts';

/** The rule that masks a path; undefined if no rule names it. */
export type Holder = { readonly id: string } | undefined;

/** Bytes of path that count as one mount: a mount names its path twice, and a program's arguments may take 2 MiB. */
const MOUNT_BYTES = 500;

/** Sorts the heaviest last; of equal ones the one with fewer names, since a directory made to cause trouble holds little else. */
const byWeight = (a: Branch, b: Branch): number => a.weight - b.weight || b.names - a.names;

const weightOf = (path: string): number => 1 + Math.floor(Buffer.byteLength(path) / MOUNT_BYTES);

/** Facts about a directory that is hidden whole without its content having been read. */
interface WholeFacts {
  readonly by?: Holder;
  readonly count?: number | undefined;
  /** The path as bytes, if it is not UTF-8. */
  readonly bytes?: Uint8Array | undefined;
}

export class Branch {
  readonly path: string;
  #isPinned: boolean;
  readonly #own: number;
  readonly #held = { hidden: [] as HiddenPath[], readOnly: [] as string[], pinned: [] as string[] };
  readonly #branches: Branch[] = [];
  /** Number of masks by rule id; '' for masks without a rule. */
  readonly #rules = new Map<string, number>();
  #weight = 0;
  /** The least weight possible, with each subdirectory hidden whole. */
  #floor = 0;
  /** Number of names in the directory and below. */
  #names: number;
  #coarse: CoarseMask | undefined;

  /**
   * `path` is relative to the workspace; '' for the workspace itself. `isPinned`: the directory must be pinned if
   * anything in it is masked.
   */
  constructor(path: string, { isPinned, names }: { isPinned: boolean; names: number }) {
    this.path = path;
    this.#isPinned = isPinned && path !== '';
    this.#own = weightOf(path);
    this.#names = names;
  }

  /** How many mounts the branch takes; a long path counts as several. */
  get weight(): number {
    return this.#weight === 0 ? 0 : this.#weight + (this.#isPinned ? this.#own : 0);
  }

  get names(): number {
    return this.#names;
  }

  hide(hidden: HiddenPath, by: Holder): void {
    this.#held.hidden.push(hidden);
    this.#count(hidden.path, by);
  }

  hold(how: 'readOnly' | 'pinned', path: string, by: Holder): void {
    this.#held[how].push(path);
    this.#count(path, by);
  }

  /** Adds a subdirectory's branch, and shrinks to `max` if hiding some subdirectories whole achieves that. */
  take(branch: Branch, max: number): void {
    if (branch.weight === 0) return;
    this.#branches.push(branch);
    this.#weight += branch.weight;
    this.#floor += branch.#own;
    this.#names += branch.#names;
    for (const [rule, count] of branch.#rules) this.#add(rule, count);
    // Shrinks only at twice the bound, so that the heaviest of many branches are hidden and not the last ones.
    if (this.#weight > 2 * max) this.shrink(max);
  }

  /**
   * If the branch takes more than `max` mounts, hides its heaviest subdirectories whole until a quarter of `max` is
   * left, since mounts cost each command time; false if that can't bring it down to `max`.
   */
  shrink(max: number): boolean {
    if (this.weight <= max) return true;
    if (this.#floor > max) return false;
    const enough = max / 4;
    const heaviest = this.#branches.filter((it) => it.weight > it.#own).sort(byWeight);
    while (this.weight > enough) {
      const branch = heaviest.pop();
      if (!branch) return this.weight <= max;
      this.#weight -= branch.weight;
      branch.hideWhole('too-many');
      this.#weight += branch.weight;
    }
    return true;
  }

  /** Hides the whole directory instead of single entries in it. `bytes` is its path if that is not UTF-8. */
  hideWhole(why: CoarseReason, { by, count: known, bytes }: WholeFacts = {}): void {
    const [rule = by?.id ?? '', count = known] = [...this.#rules].sort((a, b) => b[1] - a[1])[0] ?? [];
    this.#coarse = { path: this.path, why, ...(rule !== '' && { rule }), count };
    this.#held.hidden = [{ path: this.path, type: 'directory', bytes }];
    this.#held.readOnly = [];
    this.#held.pinned = [];
    this.#branches.length = 0;
    this.#isPinned = false;
    this.#weight = this.#own;
    this.#floor = this.#own;
  }

  /**
   * For the workspace, which can't be hidden whole: lists the entries to show, out of all readable ones. Masked files
   * of its own, and the subdirectories with the most mounts, are hidden by being left out.
   */
  showOnly(entries: readonly string[], max: number): Pick<Masks, 'shown'> {
    const { hidden, readOnly, pinned } = this.#held;
    const [rule = '', count = 0] = [...this.#rules].sort((a, b) => b[1] - a[1])[0] ?? [];
    const gone = new Set([...hidden.map((it) => it.path), ...readOnly, ...pinned]);
    const shown = this.#branches.filter((it) => !it.#isHidden).sort(byWeight);
    for (const it of this.#branches) if (it.#isHidden) gone.add(it.path);
    let weight = shown.reduce((sum, it) => sum + it.weight, 0);
    for (let last = shown.at(-1); last && weight > max / 4; last = shown.at(-1)) {
      shown.pop();
      weight -= last.weight;
      gone.add(last.path);
    }
    this.#held.hidden = [];
    this.#held.readOnly = readOnly.filter((path) => path === '');
    this.#held.pinned = [];
    this.#branches.splice(0, Infinity, ...shown);
    this.#weight = weight;
    this.#coarse = { path: '', why: 'too-many', ...(rule !== '' && { rule }), count };
    return { shown: entries.filter((it) => !gone.has(it)).slice(0, max / 4) };
  }

  masks(): Required<Pick<Masks, 'hidden' | 'readOnly' | 'pinned'>> & Pick<Masks, 'coarse'> {
    const all = { hidden: [] as HiddenPath[], readOnly: [] as string[], pinned: [] as string[] };
    const coarse: CoarseMask[] = [];
    const left: Branch[] = [this];
    for (let it = left.pop(); it; it = left.pop()) {
      if (it.#coarse) coarse.push(it.#coarse);
      if (it.#isPinned && it.#weight > 0) all.pinned.push(it.path);
      for (const hidden of it.#held.hidden) all.hidden.push(hidden);
      for (const path of it.#held.readOnly) all.readOnly.push(path);
      for (const path of it.#held.pinned) all.pinned.push(path);
      left.push(...it.#branches.toReversed());
    }
    return { ...all, pinned: [...new Set(all.pinned)], ...(coarse.length > 0 && { coarse }) };
  }

  get #isHidden(): boolean {
    return this.#held.hidden[0]?.path === this.path;
  }

  #count(path: string, by: Holder): void {
    this.#weight += weightOf(path);
    this.#floor += weightOf(path);
    this.#add(by?.id ?? '', 1);
  }

  #add(rule: string, count: number): void {
    this.#rules.set(rule, (this.#rules.get(rule) ?? 0) + count);
  }
}
