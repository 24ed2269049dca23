/**
 * The perimeter: the first step of each of our processes, before it reads any foreign data. New files are private to
 * the owner, inherited descriptors are closed, and the environment is emptied.
 */
import { closeSync, fstatSync, readdirSync, readFileSync } from 'node:fs';

const O_CLOEXEC = 0o2000000;

type Environment = Record<string, string | undefined>;

/**
 * Closes inherited descriptors above `keepUpTo`, which may depend on the environment; returns the environment, and
 * empties it.
 */
export function establishPerimeter(keepUpTo: number | ((environment: Environment) => number)): Environment {
  process.umask(0o077);
  const environment = { ...process.env };
  // Node reads these files in a thread, by descriptors that look inherited: closed under it, the authorities would be missing.
  if (environment.NODE_EXTRA_CA_CERTS || environment.NODE_USE_SYSTEM_CA)
    process.getBuiltinModule('node:tls').getCACertificates('default');
  const last = typeof keepUpTo === 'number' ? keepUpTo : keepUpTo(environment);
  for (const fd of inherited()) if (fd > last) closeSync(fd);
  for (const name of Object.keys(environment)) delete process.env[name];
  return environment;
}

/** Descriptors from the parent. Node marks its own as close-on-exec, so an unmarked one was inherited and would be passed to children. */
function inherited(): number[] {
  let fds: string[];
  try {
    fds = readdirSync('/proc/self/fdinfo');
  } catch {
    return []; // No /proc: macOS, where Node marks all descriptors at its start.
  }
  return fds.map(Number).filter((fd) => {
    try {
      const flags = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1];
      return flags !== undefined && (Number.parseInt(flags, 8) & O_CLOEXEC) === 0;
    } catch {
      return false; // The descriptor of the listing itself, closed by now.
    }
  });
}

/** The last of the sockets that follow each other from `fd`, which is one. */
export function lastSocketFrom(fd: number): number {
  let last = fd;
  while (isSocket(last + 1)) last += 1;
  return last;
}

function isSocket(fd: number): boolean {
  try {
    return fstatSync(fd).isSocket();
  } catch {
    return false; // EBADF.
  }
}
