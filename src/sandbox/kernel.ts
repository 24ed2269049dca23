/** What a kernel does, by its `uname -r` release: differences that can't be tested without harm. */

/** Whether RLIMIT_NPROC counts each user namespace separately; older kernels count all processes of a user. */
export const countsTasksByNamespace = (release: string): boolean => isAtLeast(release, 5, 18);

/** Whether a pid namespace has its own pid_max; on older kernels writing it changes the machine's. */
export const boundsPidsByNamespace = (release: string): boolean => isAtLeast(release, 6, 14);

function isAtLeast(release: string, major: number, minor: number): boolean {
  const [ofMajor = 0, ofMinor = 0] = release.split('.').map((it) => Number.parseInt(it, 10));
  return ofMajor > major || (ofMajor === major && ofMinor >= minor);
}
