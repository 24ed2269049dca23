/** Bounds of packages of a registry that hold a plugin or a connector: strangers wrote them. */
import { MiB } from './units.ts';

export const marketLimits = {
  /** Largest answer of a registry about packages; npm's own about much used packages has several MiB. */
  marketListingBytesMax: 32 * MiB,
  /** Largest archive of a package with a plugin or a connector. */
  marketPackageBytesMax: 4 * MiB,
  /** Largest such archive unpacked: a bomb has a thousand times its own size. */
  marketUnpackedBytesMax: 16 * MiB,
  /** Files and folders in such an archive. */
  marketEntriesMax: 2000,
  /** Longest time for an answer of a registry. */
  marketFetchMs: 30_000,
  /** Longest time for checking a package in its sandbox. */
  marketTrialMs: 60_000,
};
