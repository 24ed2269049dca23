/** Previews of calls: for the caller, and for the person who is asked. */
import { ToolError } from '../../base/errors.ts';
import { decide } from '../../policy/decide.ts';
import type { Preview } from '../../tools/tool.ts';
import { type Outcome, succeeded } from '../outcome.ts';
import type { ClearedCall, JudgedCall } from '../stage.ts';
import type { ExecuteParts } from './parts.ts';
import { runReadOnly } from './read-only-run.ts';
import { previewByRunner } from './runner.ts';

/** The preview for the caller: without the diff unless the policy allows its principal to read the files in it. */
export async function shownPreviewOf(call: ClearedCall, parts: ExecuteParts): Promise<Outcome> {
  const outcome = await previewed(call, parts);
  if (outcome.error) return outcome;
  const { diff, ...hashes } = outcome.data as Preview;
  const { question } = call;
  if (diff === undefined) return succeeded(hashes, outcome);
  const effects = question.effects.map(
    ({ kind, target }) => ({ kind: kind === 'write' ? 'read' : kind, target }) as const,
  );
  const reading = decide(call.policy, { ...question, tier: 'read_only', effects });
  return succeeded(reading.decision === 'allow' ? { ...hashes, diff } : hashes, outcome);
}

/**
 * What the call would do, computed by a host that can change nothing, within the call's time limit. Throws
 * UNSUPPORTED for tools without a preview, and what the tool throws.
 */
async function previewOf(call: JudgedCall, parts: ExecuteParts): Promise<Preview> {
  const { data, error } = await previewed(call, parts);
  if (error) throw error;
  return data as Preview;
}

/** The same for the person who is asked about the call; nothing for a call that has no preview. */
export async function previewForPerson(call: JudgedCall, parts: ExecuteParts): Promise<Preview> {
  const { tool } = call.checked;
  if (tool.preview || tool.before?.prepare) {
    const found = await previewOf(call, parts);
    return parts.undoJournal.spoolOf(call.workspace) === undefined ? { ...found, undo: 'none' } : found;
  }
  return (await previewByRunner(call, parts.runners)) ?? { preImages: [] };
}

async function previewed(call: JudgedCall, parts: ExecuteParts): Promise<Outcome> {
  const { tool } = call.checked;
  if (tool.before?.prepare) return succeeded(await parts.prepared.preview(call), {});
  const byRunner = previewByRunner(call, parts.runners);
  if (byRunner) return succeeded(await byRunner, {});
  if (!tool.preview) throw new ToolError('UNSUPPORTED', `\`${tool.name}\` has no preview; call it without preview`);
  return runReadOnly('preview', call, parts);
}
