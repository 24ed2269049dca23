/** Reads the records of native/follow.c, which names their parts. */

/** Kinds of changes of a name; one record may have several. `found`: the name stood in a new folder when that was read. */
export const KIND = {
  created: 1,
  movedIn: 2,
  movedOut: 4,
  deleted: 8,
  written: 16,
  closed: 32,
  attributes: 64,
  isFolder: 128,
  found: 256,
} as const;

/** Kinds after which a folder holds other names than before. */
export const NAMES = KIND.created | KIND.movedIn | KIND.movedOut | KIND.deleted;
/** Kinds after which a name stands for something new. */
export const CAME = KIND.created | KIND.movedIn;

const READY = 0x8001;
const ANSWERED = 0x8002;
const LOST = 0x8003;
const BEYOND = 0x8004;
const UNREADABLE = 0x8005;

/** One name in a folder of the workspace, and what happened to it. */
export interface Change {
  /** Bits of KIND. */
  readonly kind: number;
  /** Relative to the workspace; '' for the workspace itself. */
  readonly folder: string;
  readonly name: string;
  /** The bytes of folder and name, joined by a slash, if they are not UTF-8. */
  readonly bytes?: Buffer | undefined;
}

/** Why a folder is not followed: its path is too long, there are too many folders, the system has no watches left. */
export type Beyond = 'path' | 'folders' | 'watches';
const BEYOND_WHY: Readonly<Record<string, Beyond>> = { l: 'path', m: 'folders', w: 'watches' };

export type FollowRecord =
  | { readonly change: Change }
  /** All folders are followed, or everything up to a question was given. */
  | { readonly ready: { readonly folders: number } }
  | { readonly answered: { readonly folders: number } }
  /** The kernel dropped changes; `ready` comes next. */
  | { readonly lost: true }
  | { readonly beyond: Beyond; readonly folder: string }
  /** A folder that processes may enter but that can't be read. */
  | { readonly unreadable: string };

const HEAD_BYTES = 6;
const SAME_FOLDER = 0xffff;
/** The longest path of Linux, and its longest name. */
const FOLDER_BYTES_MAX = 4096;
const NAME_BYTES_MAX = 255;

export class FollowRecords {
  #rest: Buffer = Buffer.alloc(0);
  #folder: Buffer = this.#rest;
  #folderText = '';

  /** The records that are whole with this chunk. Throws for bytes that follow.c does not write. */
  *push(chunk: Buffer): Generator<FollowRecord> {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    while (bytes.length - at >= HEAD_BYTES) {
      const folderBytes = bytes.readUInt16LE(at + 2);
      const nameBytes = bytes.readUInt16LE(at + 4);
      const isSame = folderBytes === SAME_FOLDER;
      if ((!isSame && folderBytes > FOLDER_BYTES_MAX) || nameBytes > NAME_BYTES_MAX) throw new Error('not a record');
      const nameAt = at + HEAD_BYTES + (isSame ? 0 : folderBytes);
      const end = nameAt + nameBytes;
      if (end > bytes.length) break;
      if (!isSame) {
        this.#folder = Buffer.from(bytes.subarray(at + HEAD_BYTES, nameAt));
        this.#folderText = this.#folder.toString('utf8');
      }
      yield this.#toRecord(bytes.readUInt16LE(at), bytes.subarray(nameAt, end));
      at = end;
    }
    this.#rest = Buffer.from(bytes.subarray(at));
  }

  #toRecord(kind: number, rest: Buffer): FollowRecord {
    const folder = this.#folderText;
    if (kind < READY) return { change: this.#toChange(kind, rest) };
    if (kind === READY) return { ready: { folders: rest.readUInt32LE(0) } };
    if (kind === ANSWERED) return { answered: { folders: rest.readUInt32LE(0) } };
    if (kind === LOST) return { lost: true };
    if (kind === UNREADABLE) return { unreadable: `${folder}/${rest.toString()}` };
    const beyond = kind === BEYOND ? BEYOND_WHY[rest.toString('latin1')] : undefined;
    if (beyond === undefined) throw new Error('not a record');
    return { beyond, folder };
  }

  #toChange(kind: number, rest: Buffer): Change {
    const folder = this.#folderText;
    const name = rest.toString('utf8');
    if (!folder.includes('\ufffd') && !name.includes('\ufffd')) return { kind, folder, name };
    const bytes = Buffer.concat(this.#folder.length === 0 ? [rest] : [this.#folder, Buffer.from('/'), rest]);
    return { kind, folder, name, bytes };
  }
}
