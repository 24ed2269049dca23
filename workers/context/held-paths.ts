/** Places that a call may change: held open, and checked under the caller's path and the real path. */
import * as fs from 'node:fs';
import { normalize } from 'node:path';
import { closing } from '../../src/base/disk.ts';
import { ToolError } from '../../src/base/errors.ts';
import { isBelow, isGitState, isInGit, isProtected } from '../../src/base/paths.ts';
import type { Changes, DirEntry } from '../undo/changes.ts';
import { type Anchor, below } from './anchor.ts';
import type { PathEffect, PathRules } from './path-rules.ts';

export interface HeldPath extends DirEntry, Disposable {
  /** Keeps the parent directories that were made; otherwise they are removed again. */
  keep(): void;
}

export interface HoldOptions {
  /** The kinds of access that will follow. */
  readonly kinds: readonly PathEffect[];
  readonly createDirs?: boolean;
  /** The path that the gateway checked, if not this one: a directory in which it was found. */
  readonly declared?: string | undefined;
  /** Whether only the permissions of a directory are changed: those of a `.git` open nothing that git trusts. */
  readonly onlyMode?: boolean;
}

export interface HeldPathsOptions {
  readonly anchor: Anchor;
  readonly rules: PathRules;
  readonly changes: Changes;
  /** Whether the call is read-only, even if its host could write. */
  readonly readOnly: boolean;
  /** Whether the call may write refs, indexes and other state of repositories. */
  readonly writesGit?: boolean;
  /** Paths, as rules name them, at which protected names may be changed. */
  readonly lifted?: readonly string[] | undefined;
}

export class HeldPaths {
  readonly #anchor: Anchor;
  readonly #rules: PathRules;
  readonly #changes: Changes;
  readonly #readOnly: boolean;
  readonly #writesGit: boolean;
  readonly #lifted: readonly string[];

  constructor({ anchor, rules, changes, readOnly, writesGit = false, lifted = [] }: HeldPathsOptions) {
    this.#lifted = lifted;
    this.#readOnly = readOnly;
    this.#writesGit = writesGit;
    this.#anchor = anchor;
    this.#rules = rules;
    this.#changes = changes;
  }

  /**
   * Holds the place of `path`; does not follow a link at its end. Throws ACCESS_DENIED, SENSITIVE_FILE,
   * POLICY_DENIED, NOT_FOUND, UNSUPPORTED.
   */
  hold(path: string, { kinds, createDirs = false, declared, onlyMode = false }: HoldOptions): HeldPath {
    // A host that runs programs can write, whatever the tier of the call.
    if (this.#readOnly && (createDirs || kinds.some((it) => it !== 'read')))
      throw new ToolError('SANDBOX_DENIED', 'a call that only reads writes nothing');
    this.#anchor.assertInside(path);
    const judge = (realPath?: string) => {
      const real = realPath ?? normalize(path);
      const isOpen = onlyMode && this.#writesGit && /(?:^|\/)\.git$/i.test(real);
      if (!isOpen && kinds.some((it) => it !== 'read')) this.refuseProtected(real, path);
      for (const kind of kinds) this.#rules.check(kind, path, realPath);
      for (const kind of declared === undefined ? [] : kinds)
        this.#rules.checkInside(kind, declared as string, realPath ?? path);
    };
    judge();
    const made: string[] = [];
    const make = (fd: number, name: string) => {
      const realPath = [this.#anchor.nameOf(fd), name].filter((it) => it !== '').join('/');
      this.refuseProtected(realPath, path);
      this.#rules.check('write', path, realPath);
      this.#changes.makeDirectory({ fd, name, path: realPath, realPath });
      made.push(realPath);
    };
    const unmake = () => {
      for (const it of made.splice(0).reverse()) this.#removeEmpty(it);
    };
    try {
      const isOwn = onlyMode && path === '.';
      const place = isOwn ? this.#anchor.own() : this.#anchor.place(path, createDirs ? make : undefined);
      const spot = {
        ...place,
        path,
        keep: () => {
          for (const it of made.splice(0)) this.#changes.keepDirectory(it);
        },
        [Symbol.dispose]: () => {
          fs.closeSync(place.fd);
          unmake();
        },
      };
      try {
        // A link on the path may have led to a real path under other rules.
        judge(place.realPath);
      } catch (error) {
        fs.closeSync(place.fd);
        throw error;
      }
      return spot;
    } catch (error) {
      unmake();
      throw error;
    }
  }

  /** Throws ACCESS_DENIED for a path that programs outside the sandbox run or trust. */
  refuseProtected(realPath: string, shown: string): void {
    const named = this.#rules.named(realPath);
    if (!isProtected(named) || (this.#writesGit && isGitState(named))) return;
    // A folder on the way to an approved path, and what is in an approved folder, are approved with it.
    if (!isInGit(named) && this.#lifted.some((it) => isBelow(named, it) || isBelow(it, named))) return;
    throw new ToolError('ACCESS_DENIED', `\`${shown}\` is protected: programs outside the sandbox run or trust it`);
  }

  /** Checks an entry of a tree: protected paths and path rules. */
  judgeInside(kinds: readonly PathEffect[], declared: string, realPath: string): void {
    if (kinds.some((it) => it !== 'read')) this.refuseProtected(realPath, realPath);
    for (const kind of kinds) this.#rules.checkInside(kind, declared, realPath);
  }

  #removeEmpty(path: string): void {
    try {
      const { fd, name } = this.#anchor.place(path);
      using _ = closing(fd);
      fs.rmdirSync(below(fd, name));
    } catch {
      // ENOTEMPTY, ENOENT: somebody uses it by now, or removed it.
    }
  }
}
