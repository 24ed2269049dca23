/** The names that config.yaml may give to agents. */
import * as z from 'zod';

/** Names that records and tokens use themselves. */
const TAKEN_NAMES = ['agent', 'daemon', 'metrics', 'operator', 'token'];
/** A principal's name, which is also a file name: `<state dir>/tokens/<name>.token`. */
export const principalName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'takes up to 32 lower-case letters, digits and dashes')
  .refine((it) => !TAKEN_NAMES.includes(it), `may not be one of ${TAKEN_NAMES.join(', ')}`);
