/** State directories that verbs use without a daemon, which would check them itself. */
import { SchemaError, schemaVersion } from '../../store/state-schema.ts';
import { CliError, EXIT, harmless } from '../output.ts';

/** Refuses a state that a newer version of Ringfence has written. Throws CliError. */
export function assertKnownState(stateDir: string): void {
  try {
    schemaVersion(stateDir);
  } catch (error) {
    throw error instanceof SchemaError ? new CliError(EXIT.USAGE, harmless(error.message)) : error;
  }
}
