/**
 * The first program of a command that may use the network: it makes a listening socket in the command's network
 * namespace, hands that to the egress proxy and becomes the command. A socket stays in the namespace in which it was made,
 * so that the proxy takes connections there while nothing of ours is in the sandbox: no process, no path, no descriptor.
 * Assembled here: an interpreter would take 40 ms, this 0.3 ms. It checks nothing: where a call fails, nobody listens.
 */
import type { ChildProcess } from 'node:child_process';
import type { Writable } from 'node:stream';
import { COMMAND_EGRESS_FD, COMMAND_LISTENER_FD, HOST_EGRESS_FD } from './bubblewrap.ts';
import { callOf, DATA_BASE, toElf } from './syscall-program.ts';

/** Where the proxy is found in a command's own loopback. */
const EGRESS_PORT = 3128;
const PROXY = `127.0.0.1:${EGRESS_PORT}`;
export const EGRESS_PROXY_URL = `http://${PROXY}`;
/** What programs of a command find the proxy by; names go to it as they are. `NODE_USE_ENV_PROXY` has Node heed the rest. */
export const EGRESS_ENVIRONMENT: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    http_proxy: EGRESS_PROXY_URL,
    https_proxy: EGRESS_PROXY_URL,
    all_proxy: `socks5h://${PROXY}`,
    no_proxy: 'localhost,127.0.0.1,::1',
    node_use_env_proxy: '1',
  }).flatMap(([name, value]) => (name.startsWith('node') ? [] : [[name, value]]).concat([[name.toUpperCase(), value]])),
);

/** Where the program stands in a sandbox: in memory, until it has started. */
const PROGRAM = '/dev/shm/.ringfence-listen';

const SYS = { dup2: 33, close: 3, socket: 41, sendmsg: 46, bind: 49, listen: 50, execve: 59, unlink: 87 } as const;
const AF_INET = 2;
const SOCK_STREAM = 1;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;
const MSG_NOSIGNAL = 0x4000;
const BACKLOG = 128;
/** A number that no descriptor of a command's start has. */
const LISTENER_FD = 100;

/** What the start of a command needs so that it may connect. */
export interface CommandEgress {
  /** Of bwrap. */
  readonly args: readonly string[];
  /** Stands before the command's own program. */
  readonly first: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Descriptors after that of its status. */
  readonly stdio: readonly (number | 'pipe')[];
  give(child: ChildProcess): void;
}

/** Of a command that may connect to nothing. */
export const NO_EGRESS: CommandEgress = { args: [], first: [], environment: {}, stdio: [], give() {} };

/** Descriptors of a start: of its way to the egress proxy, and of the pipe that the program comes by. */
const OF_COMMAND = { line: COMMAND_EGRESS_FD, program: COMMAND_LISTENER_FD };

/** For a command of that token; nothing for one without. */
export function egressOf(token: string | undefined, fds = OF_COMMAND): CommandEgress {
  if (token === undefined) return NO_EGRESS;
  return {
    args: ['--perms', '0500', '--file', `${fds.program}`, PROGRAM],
    first: [PROGRAM],
    environment: EGRESS_ENVIRONMENT,
    stdio: [HOST_EGRESS_FD, 'pipe'],
    give(child) {
      // EPIPE: bwrap ended before it read it, and says why.
      const pipe = (child.stdio as readonly unknown[])[fds.program] as Writable;
      pipe.on('error', () => {}).end(listenerProgram(token, fds.line));
    },
  };
}

/** The program; it tells the proxy `token`, by which that knows the command, on the socket `lineFd`. */
function listenerProgram(token: string, lineFd: number): Buffer {
  const { data, at } = layOut(token);
  const code = Buffer.concat([
    callOf(SYS.socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
    MOVE_RAX_TO_RDI,
    callWithRdi(SYS.dup2, LISTENER_FD),
    callOf(SYS.bind, LISTENER_FD, at.address, ADDRESS_BYTES),
    callOf(SYS.listen, LISTENER_FD, BACKLOG),
    callOf(SYS.sendmsg, lineFd, at.message, MSG_NOSIGNAL),
    callOf(SYS.close, lineFd),
    callOf(SYS.close, LISTENER_FD),
    callOf(SYS.unlink, at.path),
    BECOME_COMMAND,
  ]);
  return toElf(code, data);
}

const ADDRESS_BYTES = 16;
const CONTROL_BYTES = 24;
const MESSAGE_BYTES = 56;
const VECTOR_BYTES = 16;

/** Constants and where they lie. The text is what Node takes for a handle that comes with it. */
function layOut(token: string): { data: Buffer; at: { address: number; message: number; path: number } } {
  const text = Buffer.from(`${JSON.stringify({ cmd: 'NODE_HANDLE', type: 'net.Native', msg: { token } })}\n`);
  const path = Buffer.from(`${PROGRAM}\0`);
  const at = {
    address: DATA_BASE,
    message: DATA_BASE + ADDRESS_BYTES,
    vector: DATA_BASE + ADDRESS_BYTES + MESSAGE_BYTES,
    control: DATA_BASE + ADDRESS_BYTES + MESSAGE_BYTES + VECTOR_BYTES,
    text: DATA_BASE + ADDRESS_BYTES + MESSAGE_BYTES + VECTOR_BYTES + CONTROL_BYTES,
    path: DATA_BASE + ADDRESS_BYTES + MESSAGE_BYTES + VECTOR_BYTES + CONTROL_BYTES + text.length,
  };
  const address = Buffer.alloc(ADDRESS_BYTES);
  address.writeUInt16LE(AF_INET, 0);
  address.writeUInt16BE(EGRESS_PORT, 2);
  address.set([127, 0, 0, 1], 4);
  // struct msghdr: no name, one vector, one control message.
  const message = words(0, 0, at.vector, 1, at.control, CONTROL_BYTES, 0);
  const vector = words(at.text, text.length);
  const control = Buffer.alloc(CONTROL_BYTES);
  control.writeBigUInt64LE(20n, 0); // Its length without padding: 16 bytes of header, one descriptor.
  control.writeUInt32LE(SOL_SOCKET, 8);
  control.writeUInt32LE(SCM_RIGHTS, 12);
  control.writeUInt32LE(LISTENER_FD, 16);
  return { data: Buffer.concat([address, message, vector, control, text, path]), at };
}

function words(...values: number[]): Buffer {
  const bytes = Buffer.alloc(8 * values.length);
  for (const [i, value] of values.entries()) bytes.writeBigUInt64LE(BigInt(value), 8 * i);
  return bytes;
}

const MOVE_RAX_TO_RDI = Buffer.from([0x48, 0x89, 0xc7]);
/** A call whose first argument is in its register already. */
const callWithRdi = (call: number, second: number): Buffer => callOf(call, 0, second).subarray(LOAD_BYTES);
/** What loads one argument. */
const LOAD_BYTES = 10;

/** execve(argv[1], &argv[1], envp), all found on the stack as the kernel left it. */
const BECOME_COMMAND = Buffer.concat([
  Buffer.from([0x48, 0x8b, 0x7c, 0x24, 0x10]), // mov rdi, [rsp+16]
  Buffer.from([0x48, 0x8d, 0x74, 0x24, 0x10]), // lea rsi, [rsp+16]
  Buffer.from([0x48, 0x8b, 0x04, 0x24]), // mov rax, [rsp]
  Buffer.from([0x48, 0x8d, 0x54, 0xc4, 0x10]), // lea rdx, [rsp+rax*8+16]
  callOf(SYS.execve),
]);
