/** Tells whether a program that runs on can see files that the policy hides: its mounts cover the files of its start. */
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { ancestorsOf, type Masks, onDisk } from '../../src/sandbox/masks.ts';

/** The masks of a program's start, and the identity of each masked file; missing files are left out. */
export interface CoveredFiles {
  readonly workspace: string;
  readonly masks: Masks;
  readonly prints: ReadonlyMap<string, string>;
  readonly beganAt: number;
}

export const coveredFiles = (masks: Masks, workspace: string, beganAt: number): CoveredFiles => ({
  workspace,
  masks,
  prints: printsOf(masks, workspace),
  beganAt,
});

function printsOf({ hidden, readOnly }: Masks, workspace: string): Map<string, string> {
  const paths = [...hidden.map((it) => it.path), ...readOnly];
  return new Map(
    paths.flatMap((path): [string, string][] => {
      const stat = lstatSync(join(workspace, path), { bigint: true, throwIfNoEntry: false });
      // Inode numbers are reused at once; birth times are not.
      return stat ? [[path, `${stat.ino} ${stat.birthtimeNs}`]] : [];
    }),
  );
}

/** A masked path whose file was replaced, as editors and git do: the mount on the old file does not cover the new one. */
export function replaced({ masks, workspace, prints }: CoveredFiles): string | undefined {
  for (const [path, print] of printsOf(masks, workspace)) if (prints.get(path) !== print) return path;
  return undefined;
}

/** A path that is hidden now and was created or renamed since the program's start. Others were approved when it began. */
export function revealed(now: Masks, { prints, workspace, beganAt }: CoveredFiles): string | undefined {
  const isHeld = (path: string) => prints.has(path) || prints.has('') || ancestorsOf(path).some((it) => prints.has(it));
  const isNew = (path: string) =>
    (lstatSync(join(workspace, path), { throwIfNoEntry: false })?.ctimeMs ?? 0) > beganAt - MASKS_AGE_MS;
  return onDisk(now, workspace).hidden.find(({ path }) => !isHeld(path) && isNew(path))?.path;
}

/** The most milliseconds that a program's masks are older than its start. */
const MASKS_AGE_MS = 2_000;
