/** Who is at the other end of a Unix socket, as the kernel says. Node has no call for it; its FFI, where there, does. */
import type { Socket } from 'node:net';

/**
 * Of the process that connected, at the time when it did. For the record only: the pid may be another's by now, and is 0
 * for a process outside our pid namespace.
 */
export interface PeerCredentials {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
}

type GetSockOpt = (fd: number, level: number, option: number, value: Buffer, length: Buffer) => number;

/** Of Linux on x64 and arm64. */
const SOL_SOCKET = 1;
const SO_PEERCRED = 17;
/** struct ucred: pid, uid, gid. */
const UCRED_BYTES = 12;

let getSockOpt: GetSockOpt | false | undefined;

/** Undefined where it can't be known: other systems, a Node without FFI, a socket that is closed or no Unix one. Never throws. */
export function peerCredentials(socket: Socket): PeerCredentials | undefined {
  getSockOpt ??= loadGetSockOpt();
  const fd = (socket as { _handle?: { fd?: number } | null })._handle?.fd;
  if (!getSockOpt || typeof fd !== 'number' || fd < 0) return undefined;
  const ucred = Buffer.alloc(UCRED_BYTES);
  const length = Buffer.alloc(4);
  length.writeInt32LE(UCRED_BYTES);
  if (getSockOpt(fd, SOL_SOCKET, SO_PEERCRED, ucred, length) !== 0) return undefined;
  const [pid, uid, gid] = [ucred.readInt32LE(0), ucred.readUInt32LE(4), ucred.readUInt32LE(8)];
  // What the kernel says of sockets that are no Unix ones.
  return uid === 0xffff_ffff ? undefined : { pid, uid, gid };
}

function loadGetSockOpt(): GetSockOpt | false {
  if (process.platform !== 'linux' || !['x64', 'arm64'].includes(process.arch)) return false;
  const { emitWarning } = process;
  // That FFI is experimental is for us to know; who reads the daemon's log can do nothing about it.
  process.emitWarning = () => {};
  try {
    const ffi = process.getBuiltinModule('node:ffi');
    const signature = { arguments: ['i32', 'i32', 'i32', 'buffer', 'buffer'], return: 'i32' } as const;
    return ffi.dlopen(null, { getsockopt: signature }).functions.getsockopt;
  } catch {
    // A Node without it (24, or --no-experimental-ffi), or one that may not use it (--permission).
    return false;
  } finally {
    process.emitWarning = emitWarning;
  }
}
