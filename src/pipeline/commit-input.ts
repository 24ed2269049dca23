/** What a commit of a preview is judged by. */
import { isBelow } from '../base/paths.ts';
import type { KeptPreview } from '../store/previews.ts';

/** The input of the tool that commits: what the policy is to judge, for all of a preview or for some paths. */
export function commitInput(kept: KeptPreview, paths: readonly string[] | undefined, force = false) {
  const { id, command, steps, isAsked } = kept;
  const named = paths?.map((it) => it.replace(/\/+$/, ''));
  const isMeant = (path: string) => !named || named.some((it) => isBelow(it, path) || isBelow(path, it));
  const kindOf = ({ kind }: KeptPreview['steps'][number]) => (kind === 'delete' ? 'delete' : 'write');
  const changes = new Map<string, 'write' | 'delete'>();
  // A folder that makes room for another is deleted.
  for (const it of steps) if (isMeant(it.path) && changes.get(it.path) !== 'delete') changes.set(it.path, kindOf(it));
  for (const it of named ?? []) if (!changes.has(it)) changes.set(it, 'write');
  return {
    previewId: id,
    command,
    // A person who is asked decides on what they were shown, and nothing else.
    merges: !isAsked,
    force,
    changes: [...changes].map(([path, kind]) => ({ path, kind })),
    only: named,
  };
}
