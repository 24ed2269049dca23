/**
 * The perimeter: done first in every process of ours, before anything is read that somebody else wrote.
 * New files are the owner's alone, no inherited descriptor stays open, nothing of the environment stays readable.
 */
import { closeSync, readdirSync, readFileSync } from 'node:fs';

const O_CLOEXEC = 0o2000000;

/** Closes what the parent left open above `keepUpTo`, and returns the environment, which it empties. */
export function establishPerimeter(keepUpTo: number): Record<string, string | undefined> {
  process.umask(0o077);
  for (const fd of inherited()) if (fd > keepUpTo) closeSync(fd);
  const environment = { ...process.env };
  for (const name of Object.keys(environment)) delete process.env[name];
  return environment;
}

/** Node marks its own descriptors close-on-exec, so one that is not marked came from the parent and would go on to children. */
function inherited(): number[] {
  let fds: string[];
  try {
    fds = readdirSync('/proc/self/fdinfo');
  } catch {
    return []; // No /proc: macOS, where Node marks all of them at start.
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
