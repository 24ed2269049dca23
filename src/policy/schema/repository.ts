/** How the policy file of a repository, which strangers may have written, appears beside the operator's. Pure. */
import { visibleInLine } from '../../base/text/shown-text.ts';
import type { RuleFacts } from '../schema.ts';
import type { PolicyFile } from './policy-file.ts';

const SAYS = 'the repository says: ';
const REASON_CHARS = 200;

/** The file with its words marked as its own: nobody takes them for ours or for the operator's. */
export function quoted(file: PolicyFile): PolicyFile {
  const { tiers = {}, rules = [] } = file;
  const toTier = <T extends { reason?: string | undefined }>(it: T): T =>
    it.reason === undefined ? it : { ...it, reason: quote(it.reason) };
  return {
    ...file,
    ...(file.tiers && {
      tiers: Object.fromEntries(Object.entries(tiers).map(([name, it]) => [name, it && toTier(it)])),
    }),
    ...(file.rules && {
      rules: rules.map((it) => ({ ...it, id: `repository:${it.id}`, reason: quote(it.reason) })),
    }),
  };
}

function quote(text: string): string {
  const cut = text.length > REASON_CHARS ? `${text.slice(0, REASON_CHARS)}…` : text;
  return `${SAYS}"${visibleInLine(cut.toWellFormed()).replaceAll('"', "'")}"`;
}

/** Whether the file of a repository says it. */
export const isOfRepository = ({ source }: Pick<RuleFacts, 'source'>): boolean =>
  /\/\.ringfence\/policy\.yaml:\d+(?::\d+)?$/.test(source);
