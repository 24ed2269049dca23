/** Turns the kernel's refusal of a path into data: the error of the system call names the path. */
import type { Denial } from '../../src/base/call.ts';
import type { ToolError } from '../../src/base/errors.ts';
import type { JobUsage } from '../../src/hosts/job.ts';

/** Adds the refusal that ended the job to its usage, if the kernel refused a path. */
export function withRefusal(usage: JobUsage, { code, extras, message }: ToolError): JobUsage {
  const path = extras.details?.path;
  if (code !== 'SANDBOX_DENIED' || typeof path !== 'string') return usage;
  const refusal = { kind: 'write', target: path, layer: 'sandbox', reason: message } as const;
  const met = usage.command ?? {};
  return { ...usage, command: { ...met, denied: [...(met.denied ?? []), refusal] } };
}

/** git asks for a name or password, or ssh reaches no server: the sandbox has neither keys nor ssh's port. */
const WANTS_KEY = [
  /could not read (?:Username|Password) for '(https?:\/\/[^']{1,300})'/,
  /^ssh: (?:Could not resolve hostname|connect to host) ([\w.-]{1,253})/m,
  /^(?:[\w-]+@)?([\w.-]{1,253}): Permission denied \(publickey/m,
];

/** What tells the tools that push and fetch with the person's key, where git failed for the lack of one; undefined otherwise. */
export function keyDenied(stderr: string): Denial | undefined {
  const found = WANTS_KEY.map((it) => it.exec(stderr)?.[1]).find((it) => it !== undefined);
  if (found === undefined) return undefined;
  const { hostname = found, port = '' } = URL.parse(found) ?? {};
  const tool = /git-receive-pack|failed to push/.test(stderr) ? 'git_push' : 'git_fetch';
  return {
    kind: 'connect',
    target: `${hostname}:${port || 443}`,
    layer: 'sandbox',
    reason: 'the server wants a key, and commands hold none',
    open: tool,
    suggestion:
      "Call git_push, git_fetch or git_pull: they use the person's key, which is added outside of the sandbox.",
  };
}
