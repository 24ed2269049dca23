/** Verbs that plugins and connectors share: both are an operator's copies in the state directory. */
import { PinError } from '../../services/pinned/pin-error.ts';
import type { PinFolder } from '../../services/pinned/pin-folder.ts';
import { EXIT, harmless, OperatorError, print, printJson, say } from '../output.ts';

/** A plugin or a connector as verbs show it. */
interface Shown {
  readonly name: string;
  readonly sha256: string;
  readonly tools: readonly { readonly name: string }[];
}

/** Throws PinError if an original is not what somebody looked at. */
export function assertHash(target: string, sha256: string, expected: string | undefined): void {
  if (expected !== undefined && expected.replace(/^sha256:/, '') !== sha256)
    throw new PinError([`${target} has sha256:${sha256}, not the hash given as --sha256; check it before you add it`]);
}

/** Lists what is pinned. Returns the exit code: 1 if something is refused. */
export function listPins<T extends Shown>(
  pins: PinFolder,
  json: boolean | undefined,
  { read, heading, none }: { read: (name: string) => T; heading: (row: T) => string; none: string },
): number {
  const rows = pins.names().map((name) => {
    try {
      return read(name);
    } catch (error) {
      if (!(error instanceof PinError)) throw error;
      return { name, problem: error.message };
    }
  });
  if (json) printJson(rows);
  else if (rows.length === 0) say(none);
  for (const row of json ? [] : rows) {
    if ('problem' in row) print(harmless(`${row.name}  off: ${row.problem}`));
    else {
      const tools = row.tools.map((it) => it.name).join(', ');
      print(harmless(`${heading(row)}  sha256:${row.sha256.slice(0, 12)}  ${tools}`));
    }
  }
  return rows.some((it) => 'problem' in it) ? EXIT.FAILED : EXIT.OK;
}

/** Removes a copy. Throws OperatorError if there is none of that name. */
export function removePin(pins: PinFolder, kind: 'plugin' | 'connector', name: string, json?: boolean): number {
  const names = pins.names();
  if (!pins.remove(name))
    throw new OperatorError(
      `no ${kind} is named ${name}${names.length > 0 ? `; the ${kind}s are: ${names.join(', ')}` : ''}`,
    );
  if (json) printJson({ removed: name });
  return EXIT.OK;
}
