/**
 * What a session has changed, as one commit behind those that it made itself. The session's own repository may be hostile:
 * git works with a repository of ours, with what we knew of the files before, and only borrows the session's objects.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, lstat, mkdir, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { cloneFiles } from './checkout.ts';
import type { ConfinedGit, GitRequest, GitResult } from './confined-git.ts';
import { makeRepository } from './repository-files.ts';
import type { Origin } from './settings.ts';

export interface ChangesRequest {
  /** Absolute path of the clone's folder. */
  readonly folder: string;
  /** The commit that the session began with. */
  readonly base: string;
  readonly branch: string;
}

/** The state of a session's workspace. */
export interface Snapshot {
  readonly commit: string;
  /** The last commit of the session itself, and the files as they are now; together they tell two states apart. */
  readonly head: string;
  readonly tree: string;
  /** Files that differ from the first commit. */
  readonly files: number;
  /** Files that could not be read, as git says it. */
  readonly problems: readonly string[];
}

/** A file with the changes. */
export interface Written {
  readonly bytes: number;
  readonly sha256: string;
}

/** Problems that are told. */
const TOLD_MAX = 10;
const AUTHOR = { GIT_AUTHOR_NAME: 'Ringfence session', GIT_AUTHOR_EMAIL: 'session@ringfence.invalid' };
const COMMITTER = { GIT_COMMITTER_NAME: AUTHOR.GIT_AUTHOR_NAME, GIT_COMMITTER_EMAIL: AUTHOR.GIT_AUTHOR_EMAIL };
const PATH_BYTES_MAX = 4096;

export class Changes {
  readonly #git: ConfinedGit;
  readonly #limits: Limits;
  readonly #request: ChangesRequest;
  readonly #files: ReturnType<typeof cloneFiles>;
  readonly #own: string;

  constructor(git: ConfinedGit, request: ChangesRequest, limits: Limits) {
    this.#git = git;
    this.#request = request;
    this.#limits = limits;
    this.#files = cloneFiles(request.folder);
    this.#own = join(this.#files.changes, 'own.git');
  }

  /** The file that `write` makes. */
  get file(): string {
    return join(this.#own, 'changes.out');
  }

  /** Takes in all files of the workspace that are not ignored. Throws RpcError. */
  async snapshot(): Promise<Snapshot> {
    const { changes, workspace, index } = this.#files;
    const { base, branch } = this.#request;
    await rm(changes, { recursive: true, force: true });
    await mkdir(changes, { mode: 0o700 });
    await makeRepository({ gitDir: this.#own, isBare: false, branch, borrows: join(workspace, '.git/objects') });
    await copyFile(index, join(this.#own, 'index'));
    await this.#assertSmall();
    const all = ['add', '--all', '--ignore-errors', '--', '.'];
    const added = await this.#try(all);
    // Files that can't be read are told; anything else would lose changes without a word.
    if (added.exitCode > 1 || added.cut)
      throw new RpcError('INVALID_PARAMS', `the changes can't be collected: ${this.#why(added, all)}`);
    const problems = linesOf(added.stderr).slice(0, TOLD_MAX);
    const tree = textOf(await this.#run(['write-tree']));
    const head = (await this.#head()) ?? base;
    const headTree = textOf(await this.#run(['rev-parse', '--verify', `${head}^{tree}`]));
    const commit = tree === headTree ? head : await this.#commit(tree, head);
    await this.#run(['update-ref', `refs/heads/${branch}`, commit]);
    const list = await this.#run(['diff-tree', '-r', '-z', '--name-only', base, commit], this.#listBytes);
    return { commit, head, tree, files: list.stdout.filter((it) => it === 0).length, problems };
  }

  /** Writes the changes of the last snapshot to `file`. Throws RpcError. */
  async write(as: 'bundle' | 'patch'): Promise<Written> {
    const { base, branch } = this.#request;
    await rm(this.file, { force: true });
    const plain = ['--binary', '--full-index', '--no-ext-diff', '--no-textconv', '--no-color', '--no-renames'];
    await this.#run(
      as === 'bundle'
        ? ['bundle', 'create', '--quiet', this.file, `refs/heads/${branch}`, `^${base}`]
        : ['diff', ...plain, `--output=${this.file}`, base, `refs/heads/${branch}`],
    );
    return await describe(this.file);
  }

  /** Pushes the last snapshot to a branch that does not exist, or that it is ahead of. Throws RpcError. */
  async push({ url, network }: Origin, branch: string): Promise<void> {
    const protocol = new URL(url).protocol.slice(0, -1) as 'http' | 'https' | 'file';
    if (protocol === 'file')
      throw new RpcError(
        'INVALID_PARAMS',
        'nothing is pushed to file:// repositories, where hooks of others would run',
      );
    const refs = `refs/heads/${this.#request.branch}:refs/heads/${branch}`;
    await this.#run(['push', '--quiet', '--no-verify', '--no-signed', '--', url, refs], undefined, {
      protocol,
      layer: network,
    });
  }

  /** Refuses more changed files than come back, before git packs them. Throws RpcError INVALID_PARAMS. */
  async #assertSmall(): Promise<void> {
    const { fleetCheckoutFilesMax: filesMax, fleetReturnBytes: bytesMax } = this.#limits;
    const list = await this.#try(['ls-files', '-z', '--others', '--modified', '--exclude-standard'], this.#listBytes);
    const names = list.stdout.toString('latin1').split('\0').slice(0, -1);
    if (list.cut === 'output' || names.length > filesMax)
      throw new RpcError('INVALID_PARAMS', `more than the ${filesMax} files that may come back have changed`);
    let bytes = 0;
    for (const name of names) {
      const path = Buffer.concat([Buffer.from(`${this.#files.workspace}/`), Buffer.from(name, 'latin1')]);
      const stat = await lstat(path).catch(() => undefined); // ENOENT: the file was deleted.
      bytes += stat?.size ?? 0;
    }
    if (bytes > bytesMax)
      throw new RpcError('INVALID_PARAMS', `the changed files have ${bytes} bytes; at most ${bytesMax} come back`);
  }

  #why(result: GitResult, args: readonly string[]): string {
    return this.#git.whyFailed(result, this.#requestOf(args));
  }

  get #listBytes(): number {
    return Math.min(this.#limits.fleetCheckoutFilesMax * PATH_BYTES_MAX, LIST_BYTES_MAX);
  }

  /** The commit that the session's own repository is at; undefined if it has none that git finds. */
  async #head(): Promise<string | undefined> {
    const env = { GIT_DIR: join(this.#files.workspace, '.git'), GIT_WORK_TREE: this.#files.workspace };
    const result = await this.#git.try(this.#of(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'], env));
    const text = textOf(result);
    return result.exitCode === 0 && /^[0-9a-f]{40}$/.test(text) ? text : undefined;
  }

  async #commit(tree: string, parent: string): Promise<string> {
    const message = 'Changes that the session had not committed';
    return textOf(await this.#run(['commit-tree', tree, '-p', parent, '-m', message]));
  }

  #of(args: readonly string[], env: Readonly<Record<string, string>>): GitRequest {
    const { workspace, changes } = this.#files;
    return { args, folder: changes, reads: [workspace], env, fileBytes: this.#limits.fleetReturnBytes };
  }

  #requestOf(args: readonly string[], outputBytes?: number, network?: GitRequest['network']): GitRequest {
    const env = { ...AUTHOR, ...COMMITTER, GIT_DIR: this.#own, GIT_WORK_TREE: this.#files.workspace };
    return { ...this.#of(args, env), outputBytes, network };
  }

  #try(args: readonly string[], outputBytes?: number, network?: GitRequest['network']): Promise<GitResult> {
    return this.#git.try(this.#requestOf(args, outputBytes, network));
  }

  #run(args: readonly string[], outputBytes?: number, network?: GitRequest['network']): Promise<GitResult> {
    return this.#git.run("the changes can't be collected", this.#requestOf(args, outputBytes, network));
  }
}

const LIST_BYTES_MAX = 16 * 1024 * 1024;

const textOf = ({ stdout }: GitResult): string => stdout.toString().trim();

const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .filter((it) => /^(?:error|warning): /.test(it))
    .map((it) => it.slice(0, 300));

/** The size and the hash of a file that git has written. */
async function describe(path: string): Promise<Written> {
  await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const piece of file.createReadStream({ autoClose: false })) {
    hash.update(piece as Buffer);
    bytes += (piece as Buffer).length;
  }
  return { bytes, sha256: hash.digest('hex') };
}
