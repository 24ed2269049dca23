/**
 * Runs a command as a preview where a rule says so, and commits what it did if a person approves that: they decide on what the
 * command did, not on what it says.
 */

import { ToolError } from '../base/errors.ts';
import type { CommandPreview } from '../base/preview.ts';
import { picked } from '../base/text/values.ts';
import { requiresPreview } from '../policy/decide.ts';
import type { Previews } from '../store/previews.ts';
import { runsInCommand } from '../tools/runs.ts';
import type { NamedTool } from '../tools/tool.ts';
import { commitInput } from './commit-input.ts';
import { failed, type Outcome } from './outcome.ts';
import { type Handler, type JudgedCall, outcomeOf, type Stage } from './stage.ts';

export interface PreviewFirstParts {
  readonly previews: Previews;
  /** The tool that commits, and asks a person. */
  readonly commitTool: NamedTool;
  /** Runs a call through all stages. */
  run: Handler;
}

export const previewFirst =
  (parts: PreviewFirstParts): Stage<JudgedCall> =>
  (next) =>
  async (call) => {
    const isFirst =
      runsInCommand(call.checked.tool)?.previewsByRunning && !call.options.preview && requiresPreview(call.decided);
    if (!isFirst) return next(call);
    const ran = await outcomeOf(next, { ...call, options: { ...call.options, preview: true } });
    // Without an overlay nothing is asked and nothing runs.
    if (ran.error || !ran.preview) return ran;
    try {
      return await committed(call, ran, { preview: ran.preview, parts });
    } finally {
      parts.previews.discard(ran.preview.id);
    }
  };

/** Commits what the command did, as a call that bears the same id: by it the command can be undone. */
async function committed(
  call: JudgedCall,
  ran: Outcome,
  { preview, parts }: { preview: CommandPreview; parts: PreviewFirstParts },
): Promise<Outcome> {
  const { preview: _, ...shown } = ran;
  const { total, unsupported, id } = preview;
  const [first] = unsupported;
  if (first)
    return failed(
      new ToolError('UNSUPPORTED', `what the command did can't be committed: \`${first.path}\`: ${first.reason}`, {
        suggestion: 'Let the command do without it, or ask the person to allow it without preview.',
        details: { unsupported: unsupported.slice(0, UNSUPPORTED_TOLD_MAX) },
      }),
      shown,
    );
  if (total === 0) return shown as Outcome;
  const { commitTool, previews, run } = parts;
  const input = commitInput(previews.find(id, call), undefined);
  const done = await outcomeOf(run, {
    ...call,
    name: commitTool.tool.name,
    toolset: new Map([[commitTool.tool.name, commitTool]]),
    rawInput: input,
    options: {},
    // The commit announces no states: clients that watch this call were told those of the command.
    reached() {},
  });
  const { usage, approvalGranted, warnings } = done;
  const facts = {
    ...shown,
    approvalGranted,
    warnings: [...shown.warnings, ...warnings],
    usage: shown.usage && { ...shown.usage, ...(usage && picked(usage, CHANGED)) },
  };
  if (done.error) return failed(done.error, facts);
  const { conflicts } = done.data as { conflicts: string[] };
  return conflicts.length === 0 ? (facts as Outcome) : failed(conflict(conflicts), facts);
}

const UNSUPPORTED_TOLD_MAX = 20;

/** What a result tells of the changes of a call. */
const CHANGED = ['filesChanged', 'filesChangedTotal', 'undo'] as const;

const conflict = (paths: readonly string[]): ToolError =>
  new ToolError('CONFLICT', `${paths.length} files changed since the command ran; nothing of it was committed`, {
    suggestion: 'Call again.',
    details: { conflicts: paths.slice(0, UNSUPPORTED_TOLD_MAX) },
  });
