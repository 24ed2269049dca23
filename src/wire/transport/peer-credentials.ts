/**
 * Identifies the peer of a Unix socket through the kernel. Node has no API for it, so this calls getsockopt through FFI where available.
 */
import type { Socket } from 'node:net';
import { loadNative } from '../../base/native.ts';

/**
 * Ids of the connecting process at the time of the connection. For the record only: the pid may have been reused since, and is 0 for a
 * process outside our pid namespace.
 */
export interface PeerCredentials {
  readonly pid: number;
  readonly uid: number;
  readonly gid: number;
}

/** Values for Linux on x64 and arm64. */
const SOL_SOCKET = 1;
const SO_PEERCRED = 17;
/** struct ucred: pid, uid, gid. */
const UCRED_BYTES = 12;

let getSockOpt: ReturnType<typeof loadNative> | 'unknown' = 'unknown';

/** Credentials of the peer; undefined if unavailable: other systems, Node without FFI, a closed socket, or no Unix socket. Never throws. */
export function peerCredentials(socket: Socket): PeerCredentials | undefined {
  if (getSockOpt === 'unknown')
    getSockOpt = loadNative('getsockopt', { arguments: ['i32', 'i32', 'i32', 'buffer', 'buffer'], return: 'i32' });
  const fd = (socket as { _handle?: { fd?: number } | null })._handle?.fd;
  if (!getSockOpt || typeof fd !== 'number' || fd < 0) return undefined;
  const ucred = Buffer.alloc(UCRED_BYTES);
  const length = Buffer.alloc(4);
  length.writeInt32LE(UCRED_BYTES);
  if (getSockOpt(fd, SOL_SOCKET, SO_PEERCRED, ucred, length) !== 0) return undefined;
  const [pid, uid, gid] = [ucred.readInt32LE(0), ucred.readUInt32LE(4), ucred.readUInt32LE(8)];
  // The kernel reports this uid for sockets other than Unix ones.
  return uid === 0xffff_ffff ? undefined : { pid, uid, gid };
}
