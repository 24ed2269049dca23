/**
 * Calls on paths of commands, as the kernel tells of them (seccomp's user notification): each waits until it is answered, and
 * then goes on whatever was answered. What is looked at here is evidence, never a decision: a program can change its words after
 * we read them. So that no call waits longer than it must, all of this is one loop in a thread of its own, which never ends
 * while a command runs.
 */
import { closeSync, openSync, readlinkSync } from 'node:fs';
import { addressOf, loadNative } from '../native.ts';
import { EXECVE, FROM_CWD, OF_FOLDER, OF_LINK, openOf, PATH_CALLS } from './path-calls.ts';
import { GREETING_BYTES, tokenOf } from './path-greeting.ts';
import type { Attempt } from './path-walls.ts';
import { mountPointsIn } from './proc.ts';

/** `_IOWR('!', 0, struct seccomp_notif)` and so on. */
const RECEIVE = 0xc0502100;
const SEND = 0xc0182101;
const SET_FLAGS = 0x40082104;
const SYNC_WAKE_UP = 1n;
const NOTICE_BYTES = 80;
const ANSWER_BYTES = 24;
const GO_ON = 1;
const POLLIN = 1;
const POLLHUP = 0x10;
const POLL_BYTES = 8;
const MSG_CMSG_CLOEXEC = 0x40000000;
const MSG_CTRUNC = 8;
const PATH_BYTES_MAX = 4096;
/** Of most paths; few are longer. */
const PATH_BYTES = 256;
/** Processes of one command whose memory is held open. */
const MEMORIES_MAX = 16;

const AF_UNIX = 1;
const SEQPACKET_CLOEXEC = 5 | 0o2000000;

/** Two ends of a socket, ours and that of first programs; undefined where there is no FFI. */
export function openLine(): readonly [ours: number, theirs: number] | undefined {
  const socketpair = loadNative('socketpair', { arguments: ['i32', 'i32', 'i32', 'buffer'], return: 'i32' });
  const ends = Buffer.alloc(8);
  if (socketpair?.(AF_UNIX, SEQPACKET_CLOEXEC, 0, ends) !== 0) return undefined;
  return [ends.readInt32LE(0), ends.readInt32LE(4)];
}

/** A call on a path. */
export interface Notice extends Attempt {
  /** As it was written. */
  readonly path: string;
  /** From where a relative path counts, for as long as the call waits; undefined where that is gone, or is no directory. */
  readonly base: () => string | undefined;
}

/** Who hears of the calls of one command. */
export interface Listener {
  /** Before a call goes on: what of it is to be looked at afterwards. */
  choose(notice: Notice): Attempt | undefined;
  /** When it goes on. */
  look(attempt: Attempt): void;
  /** Whether paths are still read. */
  readonly isCurious: boolean;
}

/** Descriptors of memories, by process. */
type Memories = Map<number, number>;

interface Heard {
  readonly fd: number;
  readonly token: number;
  /** Absent as long as nobody has said that the command begins: its calls go on all the same. */
  listener: Listener | undefined;
  readonly memories: Memories;
  /** By which its mounts are looked at; absent as long as nothing else of it is. */
  mounts: number | undefined;
}

type Native = NonNullable<ReturnType<typeof load>>;
const load = () => {
  const [i32, u32, u64, i64, buffer] = ['i32', 'u32', 'u64', 'i64', 'buffer'];
  const poll = loadNative('poll', { arguments: [buffer, u32, i32], return: i32 });
  const ioctl = loadNative('ioctl', { arguments: [i32, u32, buffer], return: i32 });
  const setFlags = loadNative('ioctl', { arguments: [i32, u32, u64], return: i32 });
  const recvmsg = loadNative('recvmsg', { arguments: [i32, buffer, i32], return: i32 });
  const pread = loadNative('pread64', { arguments: [i32, buffer, u64, u64], return: i64 });
  return poll && ioctl && setFlags && recvmsg && pread && { poll, ioctl, setFlags, recvmsg, pread };
};

export interface NoticesOptions {
  /** A socket by which listeners come. */
  readonly line: number;
  /** A socket whose other end is closed when all is over; none when absent. */
  readonly parent?: number;
  /** Who hears of the command of a token; undefined for one that is over. */
  listenerOf(token: number): Listener | undefined;
  /** All of its processes are gone. `mounted`: where something was mounted at their end; unknown where nothing was looked at. */
  onGone(token: number, mounted: () => ReadonlySet<string> | undefined): void;
  /** There is no listener: its calls fail. */
  onLost(token: number): void;
}

export class PathNotices {
  readonly #options: NoticesOptions;
  readonly #native: Native;
  #heard: Heard[] = [];
  #polled = Buffer.alloc(0);
  /** Whether each answer wakes who waits for it on the same processor: six times as fast, and a command is held up too long without. */
  #isFast = true;
  readonly #notice = Buffer.allocUnsafeSlow(NOTICE_BYTES);
  readonly #answer = Buffer.alloc(ANSWER_BYTES);
  readonly #path = Buffer.allocUnsafeSlow(PATH_BYTES_MAX);
  readonly #incoming = new Incoming();

  private constructor(options: NoticesOptions, native: Native) {
    this.#options = options;
    this.#native = native;
    this.#answer.writeUInt32LE(GO_ON, ANSWER_BYTES - 4);
    this.#listen();
  }

  /** Undefined where there is no FFI. */
  static open(options: NoticesOptions): PathNotices | undefined {
    const native = load();
    return native && new PathNotices(options, native);
  }

  /** Whether somebody is there whose calls wait for answers. */
  get isAwaited(): boolean {
    return this.#heard.length > 0;
  }

  get isFast(): boolean {
    return this.#isFast;
  }

  /**
   * Waits for something, `timeoutMs` at most (0: not at all), and deals with it; false where nothing came. Blocks this thread.
   * Gives 'over' when the parent is gone.
   */
  turn(timeoutMs: number): boolean | 'over' {
    if (this.#native.poll(this.#polled, this.#polled.length / POLL_BYTES, timeoutMs) <= 0) return false;
    if ((this.#eventsOf(1) & POLLHUP) !== 0) return 'over';
    const heard = this.#heard;
    for (const [i, it] of heard.entries()) {
      const events = this.#eventsOf(i + 2);
      if ((events & POLLIN) !== 0) this.#hear(it);
      else if (events !== 0) this.#drop(it);
    }
    if (this.#eventsOf(0) !== 0) this.#welcome();
    return true;
  }

  /** Of what is polled: the line, the parent, listeners. */
  #eventsOf(index: number): number {
    const at = POLL_BYTES * index + 6;
    return at < this.#polled.length ? this.#polled.readInt16LE(at) : 0;
  }

  #listen(): void {
    const { line, parent = -1 } = this.#options;
    const fds = [line, parent, ...this.#heard.map((it) => it.fd)];
    this.#polled = Buffer.alloc(POLL_BYTES * fds.length);
    for (const [i, fd] of fds.entries()) {
      this.#polled.writeInt32LE(fd, POLL_BYTES * i);
      this.#polled.writeInt16LE(i === 1 ? 0 : POLLIN, POLL_BYTES * i + 4);
    }
  }

  /** A command's first program sends its listener. */
  #welcome(): void {
    const came = this.#incoming.receive((message) =>
      this.#native.recvmsg(this.#options.line, message, MSG_CMSG_CLOEXEC),
    );
    if (!came) return;
    const { token, fd } = came;
    if (fd === undefined) return this.#options.onLost(token);
    this.#isFast &&= this.#native.setFlags(fd, SET_FLAGS, SYNC_WAKE_UP) === 0;
    this.#heard = [...this.#heard, { fd, token, listener: undefined, memories: new Map(), mounts: undefined }];
    this.#listen();
  }

  #drop(it: Heard): void {
    this.#heard = this.#heard.filter((other) => other !== it);
    this.#listen();
    const { mounts } = it;
    this.#options.onGone(it.token, () => (mounts === undefined ? undefined : mountPointsIn(mounts)));
    for (const fd of [it.fd, ...it.memories.values(), ...(mounts === undefined ? [] : [mounts])]) closeSync(fd);
  }

  #hear(heard: Heard): void {
    const notice = this.#notice.fill(0);
    // ENOENT: it was killed meanwhile. EINTR.
    if (this.#native.ioctl(heard.fd, RECEIVE, notice) !== 0) return;
    let chosen: Attempt[] = [];
    try {
      heard.listener ??= this.#options.listenerOf(heard.token);
      if (heard.listener?.isCurious) chosen = this.#choose(heard.listener, heard, notice);
      // While a process of it is there for certain.
      if (chosen.length > 0) heard.mounts ??= open(`/proc/${notice.readUInt32LE(8)}/mountinfo`);
    } finally {
      notice.copy(this.#answer, 0, 0, 8);
      // ENOENT: it was killed, and what was read may have been another's memory.
      if (this.#native.ioctl(heard.fd, SEND, this.#answer) !== 0) chosen = [];
    }
    for (const it of chosen) heard.listener?.look(it);
  }

  #choose(listener: Listener, { memories }: Heard, notice: Buffer): Attempt[] {
    const number = notice.readInt32LE(16);
    const call = PATH_CALLS.get(number);
    if (!call) return [];
    const open = call.flags === undefined ? undefined : openOf(low(notice, call.flags));
    const pid = notice.readUInt32LE(8);
    const chosen: Attempt[] = [];
    for (const { path: at, from, does: asked, isLink = false, flags } of call.paths) {
      const isNamed = isLink || (flags !== undefined && (low(notice, flags) & OF_LINK) !== 0);
      const does = asked === 'unlinkat' ? (isOfFolder(notice, flags) ? 'rmdir' : 'unlink') : asked;
      const what = does === 'open' ? open : { does, isLink: isNamed };
      const path = what && this.#textAt(memories, pid, notice.readBigUInt64LE(argumentAt(at)));
      if (!path) continue;
      const fd = from === undefined || path.startsWith('/') ? FROM_CWD : low(notice, from);
      const it = listener.choose({ ...what, path, base: () => baseOf(pid, fd) });
      if (it) chosen.push(it);
    }
    // What it becomes has a memory of its own, and that of before may be its parent's, which lives on (vfork).
    if (number === EXECVE) this.#forget(memories, pid);
    return chosen;
  }

  /** A string in a process's memory; undefined for none, and for one that is longer than a path may be. */
  #textAt(memories: Memories, pid: number, address: bigint): string | undefined {
    for (const bytes of [PATH_BYTES, PATH_BYTES_MAX]) {
      const read = this.#read(memories, pid, { bytes: BigInt(bytes), address });
      const end = this.#path.subarray(0, Math.max(0, read)).indexOf(0);
      if (end > 0) return this.#path.toString('utf8', 0, end);
      if (end === 0 || read < bytes) return undefined;
    }
    return undefined;
  }

  /** What it gives of a process that has become another program is nothing; then it is opened anew. */
  #read(memories: Memories, pid: number, { bytes, address }: { bytes: bigint; address: bigint }): number {
    const known = memories.get(pid);
    const read = known === undefined ? 0 : Number(this.#native.pread(known, this.#path, bytes, address));
    if (read > 0) return read;
    const fd = this.#openMemory(memories, pid);
    return fd === undefined ? 0 : Number(this.#native.pread(fd, this.#path, bytes, address));
  }

  #openMemory(memories: Memories, pid: number): number | undefined {
    const [oldest] = memories.keys();
    this.#forget(memories, !memories.has(pid) && memories.size >= MEMORIES_MAX ? (oldest ?? pid) : pid);
    const fd = open(`/proc/${pid}/mem`);
    if (fd !== undefined) memories.set(pid, fd);
    return fd;
  }

  #forget(memories: Memories, pid: number): void {
    const fd = memories.get(pid);
    if (fd === undefined) return;
    closeSync(fd);
    memories.delete(pid);
  }
}

function open(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch {
    return undefined; // ENOENT: it is gone. EACCES: the system lets nobody look. EMFILE.
  }
}

/** A message with a descriptor, as recvmsg() takes it. */
class Incoming {
  readonly #text = Buffer.allocUnsafeSlow(64);
  readonly #control = Buffer.allocUnsafeSlow(32);
  readonly #vector = Buffer.allocUnsafeSlow(16);
  readonly #message = Buffer.allocUnsafeSlow(56);

  receive(take: (message: Buffer) => number): { token: number; fd?: number } | undefined {
    this.#vector.writeBigUInt64LE(addressOf(this.#text), 0);
    this.#vector.writeBigUInt64LE(BigInt(this.#text.length), 8);
    this.#control.fill(0);
    this.#message.fill(0);
    this.#message.writeBigUInt64LE(addressOf(this.#vector), 16);
    this.#message.writeBigUInt64LE(1n, 24);
    this.#message.writeBigUInt64LE(addressOf(this.#control), 32);
    this.#message.writeBigUInt64LE(BigInt(this.#control.length), 40);
    if (take(this.#message) !== GREETING_BYTES) return undefined;
    const token = tokenOf(this.#text);
    const isCut = (this.#message.readUInt32LE(48) & MSG_CTRUNC) !== 0;
    const fd = isCut || this.#message.readUInt32LE(40) === 0 ? undefined : this.#control.readInt32LE(16);
    return { token, ...(fd !== undefined && { fd }) };
  }
}

const argumentAt = (index: number): number => 32 + 8 * index;
const isOfFolder = (notice: Buffer, flags = 0): boolean => (low(notice, flags) & OF_FOLDER) !== 0;
const low = (notice: Buffer, index: number): number => notice.readUInt32LE(argumentAt(index));

/** What the kernel says behind the name of a directory that was removed; another one may have that name. */
const GONE = ' (deleted)';

function baseOf(pid: number, fd: number): string | undefined {
  try {
    const path = readlinkSync(`/proc/${pid}/${fd === FROM_CWD ? 'cwd' : `fd/${fd}`}`);
    return path.startsWith('/') && !path.endsWith(GONE) ? path : undefined; // `pipe:[1]`.
  } catch {
    return undefined; // ENOENT: it is gone, or was none.
  }
}
