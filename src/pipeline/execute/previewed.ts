/** Runs commands over an overlay of their workspace, and keeps what they did there. */
import { ToolError } from '../../base/errors.ts';
import { type CommandPreview, previewReport } from '../../base/preview.ts';
import type { HostKey, Hosts } from '../../hosts/hosts.ts';
import type { RunOptions, RunRequest, RunResult } from '../../hosts/runs.ts';
import type { Previews } from '../../store/previews.ts';
import type { ClearedCall } from '../stage.ts';
import { reported } from './reported.ts';

export interface PreviewParts {
  readonly hosts: Hosts;
  readonly previews: Previews;
}

/** Runs a command like `hosts.run`; nothing is kept of one that failed or was ended. Throws RATE_LIMITED, UNSUPPORTED, FILE_LIMIT. */
export async function runPreviewed(
  call: ClearedCall,
  { place, request, options }: { place: HostKey; request: RunRequest; options: RunOptions },
  { hosts, previews }: PreviewParts,
): Promise<{ ran: RunResult; preview?: CommandPreview }> {
  const { id: callId, sessionId, principal, workspace, checked, decision } = call;
  const command = checked.tool.commandOf?.(checked.input as never)?.command ?? '';
  const id = previews.begin({ callId, sessionId, principal, workspace, command, isAsked: decision === 'ask' });
  try {
    const ran = await hosts.run(place, { ...request, overlay: id }, options);
    if (!ran.result.ok) {
      previews.discard(id);
      return { ran };
    }
    const report = reported(previewReport, ran.result.usage.preview);
    if (!report) throw new ToolError('INTERNAL', 'the host gave no list of what the command changed');
    return { ran, preview: previews.keep(id, report) };
  } catch (error) {
    previews.discard(id);
    throw error;
  }
}
