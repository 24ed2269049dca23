/** What the kernel kept a job's own code from, as data: of commands the sandbox tells, of file tools the error of the system call. */
import type { ToolError } from '../src/errors.ts';
import type { JobUsage } from '../src/hosts/job.ts';

/** The usage with the refusal that the job ended with, where the kernel refused a path. */
export function withRefusal(usage: JobUsage, { code, extras, message }: ToolError): JobUsage {
  const path = extras.details?.path;
  if (code !== 'SANDBOX_DENIED' || typeof path !== 'string') return usage;
  const refusal = { kind: 'write', target: path, layer: 'sandbox', reason: message } as const;
  return { ...usage, denied: [...(usage.denied ?? []), refusal] };
}
