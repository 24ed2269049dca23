/** Turns the kernel's refusal of a path into data: the error of the system call names the path. */
import type { ToolError } from '../../src/base/errors.ts';
import type { JobUsage } from '../../src/hosts/job.ts';

/** Adds the refusal that ended the job to its usage, if the kernel refused a path. */
export function withRefusal(usage: JobUsage, { code, extras, message }: ToolError): JobUsage {
  const path = extras.details?.path;
  if (code !== 'SANDBOX_DENIED' || typeof path !== 'string') return usage;
  const refusal = { kind: 'write', target: path, layer: 'sandbox', reason: message } as const;
  return { ...usage, denied: [...(usage.denied ?? []), refusal] };
}
