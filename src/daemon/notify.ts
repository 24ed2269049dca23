/** Tells a service manager how the daemon is doing (systemd's sd_notify), if one started it. */
import { closeSync } from 'node:fs';
import { loadNative } from '../base/native.ts';
import { type Powers, settlesWithin } from '../base/powers.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Sends assignments such as `READY=1`, in order and without waiting for an answer. Never throws. */
export type Notify = (...assignments: readonly string[]) => void;

/** Values for Linux on x64 and arm64. */
const AF_UNIX = 1;
const SOCK_DGRAM_CLOEXEC = 0o2000002;
/** MSG_DONTWAIT and MSG_NOSIGNAL: a manager that does not read must not stop the daemon. */
const SEND_FLAGS = 0x40 | 0x4000;

/** Undefined if no service manager listens, or on another system than Linux. */
export function createNotify({ NOTIFY_SOCKET: path }: Environment, powers: Powers): Notify | undefined {
  if (path === undefined || !/^[/@]./.test(path)) return undefined;
  const socket = loadNative('socket', { arguments: ['i32', 'i32', 'i32'], return: 'i32' });
  const sendto = loadNative('sendto', {
    arguments: ['i32', 'buffer', 'u64', 'i32', 'buffer', 'u32'],
    return: 'i64',
  });
  if (!socket || !sendto) return undefined;
  const address = socketAddress(path);
  return (...assignments) => {
    const text = Buffer.from(`${assignments.join('\n')}\n`);
    const fd = socket(AF_UNIX, SOCK_DGRAM_CLOEXEC, 0);
    if (fd < 0) return powers.log.warn({ path }, 'the service manager can not be told');
    const sent = Number(sendto(fd, text, BigInt(text.length), SEND_FLAGS, address, address.length));
    closeSync(fd);
    if (sent !== text.length) powers.log.warn({ path }, 'the service manager could not be told');
  };
}

/** struct sockaddr_un; a leading `@` means the abstract namespace, whose names start with NUL and have no other end. */
function socketAddress(path: string): Buffer {
  const family = Buffer.alloc(2);
  family.writeUInt16LE(AF_UNIX);
  const name = Buffer.from(path.startsWith('@') ? `\0${path.slice(1)}` : `${path}\0`);
  return Buffer.concat([family, name]);
}

/** The interval at which the service manager wants to hear `WATCHDOG=1`, in ms; undefined if it does not. */
export function watchdogMs({ WATCHDOG_USEC, WATCHDOG_PID }: Environment, pid: number): number | undefined {
  if (WATCHDOG_PID !== undefined && WATCHDOG_PID !== String(pid)) return undefined;
  return /^[1-9]\d{3,14}$/.test(WATCHDOG_USEC ?? '') ? Math.ceil(Number(WATCHDOG_USEC) / 1000) : undefined;
}

/**
 * Sends `WATCHDOG=1` twice in each interval, but only if `answers` resolves in time. A daemon that hangs sends nothing,
 * and the service manager replaces it.
 */
export function keepAlive(
  intervalMs: number,
  { notify, answers }: { notify: Notify; answers(): Promise<void> },
  powers: Powers,
): Disposable {
  const everyMs = Math.ceil(intervalMs / 2);
  let isAsking = false;
  const timer = powers.every(everyMs, () => {
    if (isAsking) return;
    isAsking = true;
    let ok = false;
    const asked = answers().then(
      () => (ok = true),
      (error: unknown) => powers.log.error({ error }, 'the audit log or the hosts could not be asked'),
    );
    void settlesWithin(asked, everyMs, powers).then(() => {
      isAsking = false;
      if (ok) notify('WATCHDOG=1');
      else powers.log.warn({ withinMs: everyMs }, 'the watchdog is told nothing: the audit log or every host hangs');
    });
  });
  return { [Symbol.dispose]: () => timer.cancel() };
}
