/**
 * What commands left at protected names, moved out of the workspace until a person decides. Each item is a folder of the
 * state directory: a record, written before anything is moved, and the entry itself. A daemon that was killed in between
 * leaves a record without entry, and the next one moves it.
 */
import type { Stats } from 'node:fs';
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { closing, openFile, openToRead } from '../../base/disk.ts';
import { ToolError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';
import { namesAt } from '../../base/quiet/reads.ts';
import { parseJson } from '../../base/text/json.ts';
import type { Written } from './own-folders.ts';
import { below, openFolder, partsOf, toBytes } from './places.ts';
import { printOf } from './trees.ts';

/** The call to which an item belongs. */
export interface ItemOwner {
  readonly callId: string;
  readonly sessionId: string;
  readonly principal: string;
}

export interface QuarantinedItem {
  readonly id: string;
  readonly workspace: string;
  /** Relative to the workspace; a byte is one character here if the path is not UTF-8. */
  readonly path: string;
  readonly isNameless?: true;
  /** What tells whether the entry that it replaces is as it was; absent if there was none. */
  readonly over?: string | undefined;
  readonly owner: ItemOwner;
  readonly at: string;
}

/** The texts of an item, for a question, and what tells whether it has changed since. */
export interface ItemLook {
  readonly digest: string;
  readonly files: readonly { readonly path: string; readonly text: string }[];
  readonly bytes: number;
}

/** Items of one workspace, and bytes of all; what comes beyond them is removed. */
const ITEMS_MAX = 1_000;
const BYTES_MAX = 1024 ** 3;
/** Entries of one item that are looked at, and their levels. */
const ENTRIES_MAX = 10_000;
const DEPTH_MAX = 64;

/** Git directories that name programs, for which a session's commands may go on without a person's answer; paths of them. */
const DISTRUST_MAX = 2;
const DISTRUSTED_PATHS_MAX = 100;
/** Sessions that are counted; those counted first are forgotten beyond that. */
const SESSIONS_MAX = 10_000;

export class Quarantine {
  /** Also for what belongs to the quarantine otherwise. */
  readonly folder: string;
  readonly #powers: Pick<Powers, 'log' | 'now' | 'spawn' | 'uuid'>;
  readonly #items = new Map<string, QuarantinedItem>();
  /** Git directories that named programs since a person answered last, by session. */
  readonly #distrusted = new Map<string, { count: number; readonly seen: Set<string> }>();
  #bytes = 0;

  /** Takes up what an earlier daemon left. */
  constructor(folder: string, powers: Pick<Powers, 'log' | 'now' | 'spawn' | 'uuid'>) {
    this.folder = folder;
    this.#powers = powers;
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    for (const id of fs.readdirSync(folder)) this.#load(id, true);
  }

  /** Also what another daemon has moved, which is about to take over or hands over. */
  list(workspace: string): QuarantinedItem[] {
    const ids = new Set(fs.readdirSync(this.folder));
    for (const id of this.#items.keys()) if (!ids.has(id)) this.#items.delete(id);
    for (const id of ids) if (!this.#items.has(id)) this.#load(id, false);
    return this.#of(workspace);
  }

  #of(workspace: string): QuarantinedItem[] {
    return [...this.#items.values()].filter((it) => it.workspace === workspace);
  }

  /** Notes that a path is about to be moved. */
  note(
    workspace: string,
    path: string,
    { isNameless, owner }: { isNameless: boolean; owner: ItemOwner },
  ): QuarantinedItem {
    const item = { ...this.#newItem(workspace, path, owner), ...(isNameless && { isNameless: true as const }) };
    fs.mkdirSync(join(this.folder, item.id), { mode: 0o700 });
    this.#write(item);
    return item;
  }

  #newItem(workspace: string, path: string, { callId, sessionId, principal }: ItemOwner): QuarantinedItem {
    const { now, uuid } = this.#powers;
    const owner = { callId, sessionId, principal };
    return { id: uuid(), workspace, path, owner, at: new Date(now()).toISOString() };
  }

  #write(item: QuarantinedItem): void {
    fs.writeFileSync(join(this.folder, item.id, 'item.json'), JSON.stringify(item), { mode: 0o600 });
  }

  /** Keeps what a command wrote in its copy of a folder, before the record: the path itself is the person's. */
  hold(workspace: string, { path, from, over }: Written, owner: ItemOwner): QuarantinedItem {
    const item = { ...this.#newItem(workspace, path, owner), over };
    fs.mkdirSync(join(this.folder, item.id), { mode: 0o700 });
    fs.renameSync(from, this.#entryOf(item));
    this.#write(item);
    this.#add(item);
    return item;
  }

  /** Notes what is at the path of an item by now, which a yes may replace. */
  setOver(item: QuarantinedItem, over: string): void {
    if (!this.#items.has(item.id)) return;
    this.#items.set(item.id, { ...item, over });
    this.#write({ ...item, over });
  }

  /** Moves a noted path out of the workspace; false if nothing is there any more. */
  async take(item: QuarantinedItem): Promise<boolean> {
    try {
      const parts = partsOf(toBytes(item));
      const name = parts.pop() as Buffer;
      using parent = closing(openFolder(item.workspace, parts));
      await this.#move(below(parent.fd, name), this.#entryOf(item), parent.fd);
    } catch (error) {
      this.#remove(item);
      if (!isGone(error)) throw error;
      return false;
    }
    this.#add(item);
    return true;
  }

  #add(item: QuarantinedItem): void {
    this.#items.set(item.id, item);
    this.#bytes += this.look(item).bytes;
    if (this.#bytes <= BYTES_MAX && this.#of(item.workspace).length <= ITEMS_MAX) return;
    this.#powers.log.warn({ path: item.path }, 'what a command left at a protected name was too much to keep');
    this.drop(item);
  }

  /** A config or hook was moved out of a git directory. Throws APPROVAL_REQUIRED if that was once too often. */
  distrust({ owner, path }: QuarantinedItem): void {
    const [first] = this.#distrusted.keys();
    if (this.#distrusted.size >= SESSIONS_MAX && first !== undefined) this.#distrusted.delete(first);
    const of = this.#distrusted.get(owner.sessionId) ?? { count: 0, seen: new Set() };
    // The hooks of one directory count once, unless they come again.
    const directory = dirname(path).replace(/\/hooks$/, '');
    if (!of.seen.has(directory) || of.seen.has(path) || of.seen.size >= DISTRUSTED_PATHS_MAX) of.count += 1;
    of.seen.add(directory).add(path);
    this.#distrusted.set(owner.sessionId, of);
    this.assertTrusted(owner);
  }

  /** Throws APPROVAL_REQUIRED if commands of a session may not go on before a person answers. */
  assertTrusted({ sessionId }: ItemOwner): void {
    const { count = 0 } = this.#distrusted.get(sessionId) ?? {};
    if (count <= DISTRUST_MAX) return;
    const message = `commands of this session left ${count} configs or hooks that name programs for the person's git`;
    throw new ToolError('APPROVAL_REQUIRED', `${message}; the person must look at them first`, {
      suggestion: 'The person runs `ringfence changes`, then `ringfence changes keep PATH` or `drop PATH`.',
      details: { limit: DISTRUST_MAX, used: count },
    });
  }

  /** A person decided about a path that a session left. */
  trust({ sessionId }: ItemOwner): void {
    this.#distrusted.delete(sessionId);
  }

  /**
   * Puts an item back where it was. Throws CONFLICT if something is there by now, or the item is not as it was shown.
   */
  async keep(item: QuarantinedItem, digest?: string): Promise<void> {
    if (digest !== undefined && this.look(item).digest !== digest)
      throw new ToolError('CONFLICT', `\`${item.path}\` changed since it was shown; look at it again`);
    const parts = partsOf(toBytes(item));
    const name = parts.pop() as Buffer;
    const fd = openFolder(item.workspace, parts, { make: true });
    try {
      if (printOf(below(fd, name)) !== (this.#items.get(item.id) ?? item).over)
        throw new ToolError('CONFLICT', `something else is at \`${item.path}\` by now; it stays`);
      await this.#move(this.#entryOf(item), below(fd, name), fd);
    } finally {
      fs.closeSync(fd);
    }
    this.drop(item);
  }

  /** Removes an item for good. */
  drop(item: QuarantinedItem): void {
    if (this.#items.delete(item.id)) this.#bytes -= this.look(item).bytes;
    this.#remove(item);
  }

  look(item: QuarantinedItem): ItemLook {
    return lookAt(this.#entryOf(item), item.path);
  }

  #entryOf({ id }: QuarantinedItem): string {
    return join(this.folder, id, 'it');
  }

  #load(id: string, isStart: boolean): void {
    if (id.startsWith('refs-')) return;
    try {
      const item = parseJson(fs.readFileSync(join(this.folder, id, 'item.json'), 'utf8')) as QuarantinedItem;
      if (fs.lstatSync(this.#entryOf(item), { throwIfNoEntry: false })) {
        this.#items.set(id, item);
        this.#bytes += this.look(item).bytes;
        return;
      }
      if (isStart)
        this.take(item).catch((error: unknown) => this.#powers.log.error({ error }, 'a protected name was not moved'));
    } catch (error) {
      if (!isGone(error)) this.#powers.log.error({ error, id }, 'an item in quarantine can not be read');
      // A daemon was killed while it removed the item.
      else if (isStart) this.#remove({ id });
    }
  }

  /** Moves an entry; `fd` is the folder of the one that lies in the workspace. */
  async #move(from: string | Buffer, to: string | Buffer, fd: number): Promise<void> {
    try {
      fs.renameSync(from, to);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EACCES' && typeof to === 'string') openUp(from);
      else if (code !== 'EXDEV') throw error;
      await this.#carry(from, to, fd);
    }
  }

  /** Moves an entry to another file system, or one whose folder was closed. */
  async #carry(from: string | Buffer, to: string | Buffer, fd: number): Promise<void> {
    // The program has the folder as its descriptor 3.
    const [source, target] = [from, to].map((it) =>
      it.toString().replace(/^\/proc\/self\/fd\/\d+\//, '/proc/self/fd/3/'),
    );
    const child = this.#powers.spawn('mv', ['-T', '--', source as string, target as string], {
      stdio: ['ignore', 'ignore', 'ignore', fd],
      env: { PATH: '/usr/bin:/bin' },
    });
    const code = await new Promise((resolve) => {
      child.once('error', () => resolve(undefined));
      child.once('exit', resolve);
    });
    if (code !== 0) throw new Error(`mv ended with ${String(code)}`);
  }

  /** Removes the folder of an item; where an entry is in it, by `rm`, which bears trees of any depth. */
  #remove({ id }: Pick<QuarantinedItem, 'id'>): void {
    const folder = join(this.folder, id);
    try {
      fs.rmSync(join(folder, 'item.json'), { force: true });
      fs.rmdirSync(folder);
    } catch {
      // ENOTEMPTY. ENOENT: another daemon removed it.
      const child = this.#powers.spawn('rm', ['-rf', '--', folder], {
        stdio: 'ignore',
        env: { PATH: '/usr/bin:/bin' },
      });
      child.once('error', (error) => this.#powers.log.error({ error }, 'an item in quarantine was not removed'));
    }
  }
}

/** Whether an entry went, or its folder was replaced, before it was moved. */
const isGone = (error: unknown): boolean =>
  ['ENOENT', 'ENOTDIR', 'ELOOP'].includes((error as NodeJS.ErrnoException).code ?? '');

/** Lets us move a folder that its maker closed; follows no link. */
function openUp(path: string | Buffer): void {
  using file = openFile(path, O_PATH | fs.constants.O_NOFOLLOW);
  if (fs.fstatSync(file.fd).isDirectory()) fs.chmodSync(`/proc/self/fd/${file.fd}`, 0o700);
}

const O_PATH = 0x200000;
/** Characters of the texts of one item that are shown. */
const SHOWN_CHARS = 64 * 1024;

/** Reads an item, through no link. */
function lookAt(top: string, path: string): ItemLook {
  const marks: string[] = [];
  const files: { path: string; text: string }[] = [];
  let [bytes, shown] = [0, 0];
  const left = [{ at: top, path, depth: 0 }];
  for (let it = left.pop(); it && marks.length < ENTRIES_MAX; it = left.pop()) {
    const { at, path: name, depth } = it;
    const stat = fs.lstatSync(at, { throwIfNoEntry: false });
    if (!stat) continue;
    marks.push([name, stat.mode, stat.size, stat.mtimeMs, stat.ctimeMs, stat.ino].join(' '));
    bytes += stat.size;
    if (stat.isDirectory() && depth < DEPTH_MAX)
      for (const inner of namesAt(at)) left.push({ at: join(at, inner), path: `${name}/${inner}`, depth: depth + 1 });
    else if (shown < SHOWN_CHARS) {
      const text = textOf(at, stat).slice(0, SHOWN_CHARS - shown);
      shown += text.length;
      files.push({ path: name, text });
    }
  }
  return { digest: marks.sort().join('\n'), files, bytes };
}

function textOf(at: string, stat: Stats): string {
  if (stat.isSymbolicLink()) return `link to ${fs.readlinkSync(at)}`;
  if (!stat.isFile()) return '(neither a file nor a folder)';
  try {
    using opened = openToRead(at);
    const buffer = Buffer.alloc(Math.min(stat.size, SHOWN_CHARS));
    return buffer.subarray(0, fs.readSync(opened.fd, buffer, 0, buffer.length, 0)).toString('utf8');
  } catch {
    return '(not readable)';
  }
}
