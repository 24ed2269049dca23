/** The folders that agents may work in: those of the config, and those added with `ringfence workspace add`. */
import { existsSync, statSync } from 'node:fs';
import { dirname, isAbsolute, relative } from 'node:path';
import { RpcError } from '../base/errors.ts';
import { asWord, isInside, isProtected } from '../base/paths.ts';
import type { Powers } from '../base/powers.ts';
import { realOf } from '../base/quiet/reads.ts';
import { addedFile, readAdded } from './config/added.ts';
import { type Config, checkWorkspace } from './config.ts';

export class Workspaces {
  readonly #config: Config;
  readonly #log: Powers['log'];
  /** Folders that a fleet has made for open sessions; absolute and real. Each is a workspace of its own. */
  readonly lent = new Set<string>();
  #added: readonly string[] = [];
  /** Stamp of the file that `#added` was read from. */
  #stamp = '';

  constructor(config: Config, { log }: Pick<Powers, 'log'>) {
    this.#config = config;
    this.#log = log;
  }

  /** The present workspaces, absolute and real. The first is the default. */
  get all(): readonly string[] {
    const stamp = stampOf(addedFile(this.#config.dirs));
    if (stamp !== this.#stamp) {
      this.#stamp = stamp;
      this.#added = this.#read();
    }
    return [...new Set([...this.#config.workspaces, ...this.#added])];
  }

  /**
   * The real path of a folder that a session may work in, and the outermost workspace that holds it. Throws RpcError
   * FORBIDDEN, INVALID_PARAMS.
   */
  resolve(path: string): { workspace: string; root: string } {
    if (!isAbsolute(path))
      throw new RpcError('INVALID_PARAMS', `hello.workspace must be an absolute path, not ${path}`);
    const refused = new RpcError(
      'FORBIDDEN',
      `${path} is not one of this daemon's workspaces; to add it: ringfence workspace add ${asWord(path)}`,
    );
    const real = realOf(path);
    if (real === undefined) throw refused; // Missing or unreadable: the answer is the same.
    if (this.lent.has(real)) return { workspace: real, root: real };
    if (!this.all.some((it) => isInside(it, real))) throw refused;
    const root = this.rootOf(real);
    if (isProtected(relative(root, real)))
      throw new RpcError('FORBIDDEN', `${path} is protected: programs outside the sandbox run or trust what is in it`);
    return { workspace: real, root };
  }

  /**
   * The workspace of an operator who names none: the first that exists, or the first of all. An operator must be able
   * to inspect and stop a daemon whose folders were deleted.
   */
  forOperator(): { workspace: string; root: string } {
    const { all } = this;
    const workspace = all.find((it) => existsSync(it)) ?? (all[0] as string);
    return { workspace, root: this.rootOf(workspace) };
  }

  /** The outermost workspace that holds a folder. */
  rootOf(folder: string): string {
    if (this.lent.has(folder)) return folder;
    const holding = this.all.filter((it) => isInside(it, folder));
    return holding.reduce((a, b) => (isInside(b, a) ? b : a));
  }

  /** The folders from the outermost workspace down to a folder in it. */
  wayTo(folder: string): string[] {
    return foldersBetween(this.rootOf(folder), folder);
  }

  /** Reads the added folders; leaves out, and logs, those that can't be workspaces any more. */
  #read(): string[] {
    try {
      return readAdded(this.#config.dirs).filter((it) => {
        try {
          return checkWorkspace(it, this.#config) === it;
        } catch (error) {
          this.#log.warn({ error }, `the added workspace ${it} is skipped`);
          return false;
        }
      });
    } catch (error) {
      this.#log.warn({ error }, 'the added workspaces can not be read');
      return [];
    }
  }
}

function stampOf(file: string): string {
  const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stat ? `${stat.ino} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs}` : '';
}

const foldersBetween = (root: string, folder: string): string[] =>
  folder === root ? [root] : [...foldersBetween(root, dirname(folder)), folder];
