/**
 * The commits of a workspace's repository that a person, not a call, made or fetched: what its refs named when no command
 * ran, without those that commands had left there. What such a commit holds at a path is no news to the person.
 */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { openToRead } from '../../base/disk.ts';
import { parseJson } from '../../base/text/json.ts';

/** Refs that are looked at, and bytes of one file of refs. */
const REFS_MAX = 2_000;
const REF_BYTES = 1024 * 1024;
const DEPTH_MAX = 8;
const OID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

export class PersonRefs {
  readonly #git: string;
  /** Refs as commands left them, by name; kept across restarts. */
  readonly #file: string;
  #left: ReadonlyMap<string, string>;
  #commits: ReadonlySet<string> = new Set();
  /** Whether refs may have changed since they were read. */
  #isDirty = true;

  constructor(workspace: string, folder: string) {
    this.#git = join(workspace, '.git');
    this.#file = join(folder, `refs-${createHash('sha256').update(workspace).digest('hex').slice(0, 32)}`);
    this.#left = readLeft(this.#file);
  }

  /** The commits that count as the person's, HEAD's first. */
  get commits(): readonly string[] {
    return [...this.#commits];
  }

  /** Something changed in a folder of the workspace. */
  note(folder: string, name: string): void {
    if (folder.startsWith('.git/refs') || (folder === '.git' && (name === 'HEAD' || name === 'packed-refs')))
      this.#isDirty = true;
  }

  /** No command runs, and one is about to: what changed since was the person. */
  begin(isFollowed: boolean): void {
    if (!this.#isDirty && isFollowed) return;
    this.#isDirty = false;
    const own = [...readRefs(this.#git)].filter(([ref, oid]) => this.#left.get(ref) !== oid);
    this.#commits = new Set(own.map(([, oid]) => oid));
  }

  /** The last command is over: what changed meanwhile was it. */
  end(isFollowed: boolean): void {
    if (!this.#isDirty && isFollowed) return;
    const left = new Map([...readRefs(this.#git)].filter(([, oid]) => !this.#commits.has(oid)));
    this.#isDirty = false;
    if (left.size + this.#left.size === 0) return;
    this.#left = left;
    fs.writeFileSync(this.#file, JSON.stringify([...left]), { mode: 0o600 });
  }
}

function readLeft(file: string): ReadonlyMap<string, string> {
  try {
    return new Map(parseJson(fs.readFileSync(file, 'utf8')) as [string, string][]);
  } catch {
    return new Map(); // ENOENT: no command has left any.
  }
}

/** The refs of a git directory and what they name, HEAD first. */
function readRefs(git: string): ReadonlyMap<string, string> {
  const refs = new Map<string, string>();
  if (!fs.lstatSync(git, { throwIfNoEntry: false })?.isDirectory()) return refs;
  for (const line of textOf(join(git, 'packed-refs')).split('\n')) {
    const [oid = '', ref = ''] = line.split(' ');
    if (OID.test(oid) && refs.size < REFS_MAX) refs.set(ref, oid);
  }
  const folders = [{ name: 'refs', depth: 0 }];
  for (let it = folders.pop(); it && refs.size < REFS_MAX; it = folders.pop())
    for (const entry of entriesOf(join(git, it.name))) {
      const name = `${it.name}/${entry.name}`;
      if (entry.isDirectory() && it.depth < DEPTH_MAX) folders.push({ name, depth: it.depth + 1 });
      const oid = entry.isFile() ? textOf(join(git, name)).trim() : '';
      if (OID.test(oid)) refs.set(name, oid);
    }
  const head = textOf(join(git, 'HEAD')).trim();
  const oid = head.startsWith('ref: ') ? refs.get(head.slice('ref: '.length)) : head;
  return oid !== undefined && OID.test(oid) ? new Map([['HEAD', oid], ...refs]) : refs;
}

function entriesOf(folder: string): fs.Dirent[] {
  try {
    return fs.readdirSync(folder, { withFileTypes: true });
  } catch {
    return []; // ENOENT, EACCES.
  }
}

/** The text of a file, through no link; empty if it has none, or too much. */
function textOf(path: string): string {
  try {
    using opened = openToRead(path);
    const stat = fs.fstatSync(opened.fd);
    return stat.isFile() && stat.size <= REF_BYTES ? fs.readFileSync(opened.fd, 'utf8') : '';
  } catch {
    return ''; // ENOENT, ELOOP.
  }
}
