/** What the kernel kept a job's own code from, as data: of commands the sandbox tells, of file tools the error of the system call. */
import { relative } from 'node:path';
import type { Denial } from '../src/call.ts';
import type { ToolError } from '../src/errors.ts';
import type { JobUsage } from '../src/hosts/job.ts';
import { isInside } from '../src/paths.ts';
import type { MetOften } from '../src/sandbox/path-evidence.ts';
import type { PathRules } from './path-rules.ts';

/** The usage with the refusal that the job ended with, where the kernel refused a path. */
export function withRefusal(usage: JobUsage, { code, extras, message }: ToolError): JobUsage {
  const path = extras.details?.path;
  if (code !== 'SANDBOX_DENIED' || typeof path !== 'string') return usage;
  const refusal = { kind: 'write', target: path, layer: 'sandbox', reason: message } as const;
  return { ...usage, denied: [...(usage.denied ?? []), refusal] };
}

const ASK_FOR_CONTENT = 'Ask the person for what you need from it.';
const ASK_TO_CHANGE = 'Ask the person to change it; nothing that a command does can.';

const WHY: Readonly<Record<MetOften['wall'], { readonly reason: string; readonly suggestion: string }>> = {
  hidden: { reason: 'it is hidden from commands', suggestion: ASK_FOR_CONTENT },
  held: {
    reason: 'it is read-only to commands: other programs trust it, or a rule says so',
    suggestion: ASK_TO_CHANGE,
  },
  pinned: {
    reason: 'it can be neither moved nor removed: something that is hidden or read-only lies in it, or a rule says so',
    suggestion: ASK_TO_CHANGE,
  },
  system: {
    reason: 'the system is read-only to commands',
    suggestion: 'Write to the workspace, or to /tmp; ask the person to install what is missing.',
  },
};

/** What a command met at a mount. The rule is the one that the mount comes of, where it comes of one. */
export function toDenial({ kind, path, wall, count }: MetOften, workspace: string, rules: PathRules): Denial {
  const target = isInside(workspace, path) ? relative(workspace, path) || '.' : path;
  const isOwn = wall === 'hidden' || wall === 'held' || wall === 'pinned';
  const asked = wall === 'hidden' ? 'read' : wall === 'held' ? 'write' : 'delete';
  const rule = isOwn ? rules.ruleOn(asked, target) : undefined;
  return { kind, target, ...(rule !== undefined && { rule }), layer: 'sandbox', ...WHY[wall], count };
}
