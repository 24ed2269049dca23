/** Bounds of secrets and of the programs that give them. */
import { bytes, count, KiB, ms } from './units.ts';

export const secretLimits = {
  /** Largest secret, so that a wrong file on standard input is refused, and a program that prints for ever is ended. */
  secretBytesMax: bytes().default(16 * KiB),
  /** Secrets of one state directory; each is a file. */
  secretsMax: count().default(256),
  /** Time for a program of config.yaml to give its secret: a password store may ask a person first. */
  secretCommandMs: ms().default(20_000),
};
