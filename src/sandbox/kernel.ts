/** What a kernel does, by its release as `uname -r` says it: differences that can't be tried out without harm. */

/** Whether RLIMIT_NPROC counts a user namespace for itself; before, it counts all of a user's processes. */
export const countsTasksByNamespace = (release: string): boolean => isAtLeast(release, 5, 18);

/** Whether a pid namespace has a pid_max of its own; before, writing it changes the machine's. */
export const boundsPidsByNamespace = (release: string): boolean => isAtLeast(release, 6, 14);

function isAtLeast(release: string, major: number, minor: number): boolean {
  const [ofMajor = 0, ofMinor = 0] = release.split('.').map((it) => Number.parseInt(it, 10));
  return ofMajor > major || (ofMajor === major && ofMinor >= minor);
}
