/**
 * Recognizes listeners that no answer opens: Ringfence itself, and programs by which others are run or read, so that a connection is
 * worth as much as a shell of the person. By what they are started as, and by what they answer: a debugger listens at any port.
 */
import { connect } from 'node:net';
import { basename } from 'node:path';
import type { Powers } from '../../base/powers.ts';
import { textAt } from '../../base/quiet/reads.ts';
import type { Listener } from './listeners.ts';

const DEBUGGER = 'a debugger, which runs what it is sent';
const ENGINE = 'the interface of a container engine, which gives the rights of who runs it';
const CONTROL = 'a program by which this machine is controlled';

const BY_PROGRAM: Readonly<Record<string, string>> = Object.fromEntries([
  ...['gdbserver', 'lldb-server', 'dlv', 'rr'].map((it) => [it, DEBUGGER]),
  ...['dockerd', 'containerd', 'podman', 'buildkitd', 'crio', 'kubelet'].map((it) => [it, ENGINE]),
  ...['sshd', 'sshd-session', 'chromedriver', 'geckodriver', 'adb', 'Xvnc', 'Xorg', 'x11vnc'].map((it) => [
    it,
    CONTROL,
  ]),
]);
/** For programs of other users, which are not seen. */
const BY_PORT: Readonly<Record<number, string>> = { 22: CONTROL, 2375: ENGINE, 2376: ENGINE, 10250: ENGINE };

/** Questions that are sent, in this order until an answer tells what it is. */
const PROBES: readonly { readonly sends: string; readonly tells: RegExp; readonly kind: string }[] = [
  // Without `Host`, which Redis takes for an attack and logs. Chromium answers no HTTP/1.0, and Docker no HTTP/1.1 without it.
  {
    sends: 'GET /json/version HTTP/1.1\r\nConnection: close\r\n\r\n',
    tells: /^HTTP[\s\S]*"(?:webSocketDebuggerUrl|Protocol-Version)"/,
    kind: DEBUGGER,
  },
  { sends: 'GET /_ping HTTP/1.0\r\n\r\n', tells: /^HTTP[\s\S]*\r\n(?:Libpod-)?Api-Version:/i, kind: ENGINE },
  { sends: 'GET /status HTTP/1.0\r\n\r\n', tells: /^HTTP[\s\S]*"value"\s*:\s*\{[^}]*"ready"\s*:/, kind: CONTROL },
  { sends: 'JDWP-Handshake', tells: /^JDWP-Handshake/, kind: DEBUGGER },
  { sends: '+$qSupported#37', tells: /\$(?:PacketSize|qXfer|multiprocess)/, kind: DEBUGGER },
];
/** What a server says unasked that is no service for commands: SSH and VNC. */
const GREETINGS = /^(?:SSH-2|RFB 00)/;

/** Time and bytes of one answer: most servers answer within a millisecond, and some never. */
const PROBE_MS = 300;
const ANSWER_BYTES_MAX = 4_096;
const WORDS_BYTES_MAX = 65_536;

/** What the listener is that no answer opens, in words; undefined for others. Connects to it up to five times, once after the other. */
export async function forbiddenKindOf(listener: Listener, powers: Powers): Promise<string | undefined> {
  const known = kindByProcess(listener);
  if (known !== undefined) return known;
  for (const { sends } of PROBES) {
    const answer = await exchange(listener, sends, powers);
    const told = GREETINGS.test(answer) ? CONTROL : PROBES.find(({ tells }) => tells.test(answer))?.kind;
    if (told !== undefined) return told;
    // Another protocol, and a web server, which is no debugger of the others' kind.
    if (answer !== '' && (!answer.startsWith('HTTP') || sends.includes('/status'))) return undefined;
  }
  return undefined;
}

/** What no answer opens, as far as the processes that listen tell it; undefined for others. */
export function kindByProcess({ port, program, pids }: Listener): string | undefined {
  if (pids.some(isOurs)) return 'Ringfence itself';
  if (program === undefined) return BY_PORT[port];
  const named = program.split(' and ').map((it) => BY_PROGRAM[basename(it).replace(/ \(deleted\)$/, '')]);
  return named.find((it) => it !== undefined) ?? (pids.some((it) => isDebugged(it, port)) ? DEBUGGER : undefined);
}

/** Whether a process is of this daemon, or a Ringfence of its own: another daemon, or a port that a person opened to a sandbox. */
function isOurs(pid: number): boolean {
  for (let [at, steps] = [pid, 0]; at > 1 && steps < ANCESTORS_MAX; steps++) {
    if (at === process.pid) return true;
    at = parentOf(at);
  }
  return wordsOf(pid)
    .slice(0, 4)
    .some((it) => /(?:^|\/)ringfenced?(?:\.[cm]?[jt]s)?$/.test(it) || (it !== '' && it === process.argv[1]));
}

const ANCESTORS_MAX = 32;

/** Whether its words have it debugged at this port: `-agentlib:jdwp=…,address=*:5005`, `-m debugpy --listen 5678`. */
function isDebugged(pid: number, port: number): boolean {
  const words = wordsOf(pid);
  const atPort = new RegExp(`(?:^|\\D)${port}$`);
  return (
    words.some((it) => /jdwp=/.test(it) && new RegExp(`\\D${port}(?:\\D|$)`).test(it)) ||
    (words.some((it) => /debugpy|pydevd/.test(it)) && words.some((it) => atPort.test(it)))
  );
}

function parentOf(pid: number): number {
  // The name before the last parenthesis may hold anything.
  const text = textAt(`/proc/${pid}/stat`) ?? '';
  return Number(text.slice(text.lastIndexOf(')') + 1).split(' ')[2]) || 0;
}

const wordsOf = (pid: number): string[] => (textAt(`/proc/${pid}/cmdline`) ?? '').slice(0, WORDS_BYTES_MAX).split('\0');

/** What the listener answers; empty if it closes the connection, or says nothing in time. */
function exchange({ address, port }: Listener, sends: string, powers: Powers): Promise<string> {
  const socket = connect({ host: address, port });
  const { promise, resolve } = Promise.withResolvers<string>();
  let answer = '';
  const timer = powers.after(PROBE_MS, () => socket.destroy());
  socket.setEncoding('latin1');
  socket.once('connect', () => socket.write(sends));
  socket.on('data', (chunk: string) => {
    answer += chunk;
    if (answer.length >= ANSWER_BYTES_MAX) socket.destroy();
  });
  // ECONNREFUSED, ECONNRESET: 'close' follows.
  socket.on('error', () => {});
  socket.once('close', () => {
    timer.cancel();
    resolve(answer);
  });
  return promise;
}
