/** Whether this machine can show what commands would do: an overlay is mounted as for a preview. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { ToolError } from '../../base/errors.ts';
import { Overlay } from '../../sandbox/command/overlay.ts';
import { type DoctorFinding, findingsOf } from './machine.ts';

/** `parent` is a folder on the disk of the state directory. */
export function judgePreviews(parent: string): DoctorFinding {
  const { ok, warning } = findingsOf('previews');
  try {
    mountIn(parent);
    return ok('commands can be previewed');
  } catch (error) {
    const fix = 'Use Linux 5.11 or newer, and a state directory that is no overlay: in a container, a volume.';
    return warning(`commands can't be previewed: ${reasonOf(error)}`, fix);
  }
}

/** Throws ToolError UNSUPPORTED or the error of the program. */
function mountIn(parent: string): void {
  const folder = mkdtempSync(join(parent, 'ringfence-doctor-'));
  try {
    mkdirSync(join(folder, 'below'));
    using overlay = new Overlay(folder, join(folder, 'below'));
    const [program = '', ...words] = overlay.words;
    execFileSync(program, [...words, '/bin/touch', join(folder, 'below/new')], { stdio: 'pipe', timeout: 10_000 });
  } finally {
    // The kernel leaves a folder that nobody may enter, and Node does not remove such.
    execFileSync('/bin/rm', ['-rf', '--', folder]);
  }
}

function reasonOf(error: unknown): string {
  const { stderr, message } = error as { stderr?: Buffer; message: string };
  const refusal = stderr && Overlay.refusal(stderr.toString());
  if (refusal ?? error instanceof ToolError) return (refusal ?? (error as ToolError)).message;
  return stderr?.toString().trim() || message;
}
