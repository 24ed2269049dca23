/** Bounds of secrets and of the programs that give them. */
import { KiB } from './units.ts';

export const secretLimits = {
  /** Largest secret, so that a wrong file on standard input is refused, and a program that prints for ever is ended. */
  secretBytesMax: 16 * KiB,
  /** Secrets of one state directory; each is a file. */
  secretsMax: 256,
  /** Time for a program of config.yaml to give its secret: a password store may ask a person first. */
  secretCommandMs: 20_000,
};
