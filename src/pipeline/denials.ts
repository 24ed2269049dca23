/** What a call was kept from, as its result tells it, and what it did with its network, for the record. */
import * as z from 'zod';
import { type Denial, denial } from '../call.ts';
import { ToolError } from '../errors.ts';
import type { Ran } from '../hosts/hosts.ts';
import type { FilesUnknown } from '../hosts/job.ts';

/** Most that a result tells; each is a few hundred bytes, by names of a command's choosing. */
const DENIALS_MAX = 64;
const RULE = 'tiers.execute.network';

const told = z.array(z.unknown());

/** From the host, which is believed as far as its shape goes, and from the egress proxy; most telling first. */
export function denialsOf({ result, egress }: Ran): Denial[] {
  // Most calls. That nothing is no list would take zod longer to say than all the rest here.
  if (result.usage.denied === undefined && egress === undefined) return [];
  // Each for itself: one too many, or one that is too long, takes none of the others along.
  const ofHost = (told.safeParse(result.usage.denied).data ?? [])
    .slice(0, DENIALS_MAX)
    .flatMap((it) => denial.safeParse(it).data ?? []);
  const hasNetwork = egress !== undefined;
  const ofProxy =
    egress === undefined || egress === 'lost'
      ? []
      : egress.denied.map(({ target, layer, reason, count }): Denial => {
          const by = layer === 'limit' ? { layer } : { rule: RULE, layer };
          return { kind: 'connect', target, ...by, reason, suggestion: toSuggestion(target, layer), count };
        });
  const advised = ofHost.map((it) =>
    it.kind === 'connect' && it.suggestion === undefined
      ? { ...it, ...(!hasNetwork && { rule: RULE }), suggestion: hasNetwork ? USE_PROXY : ASK }
      : it,
  );
  return [...ofProxy, ...advised].slice(0, DENIALS_MAX);
}

const ASK =
  'Commands have no network unless tiers.execute.network.allow of the policy lists a host; ask for the one needed.';
const USE_PROXY = 'Only the proxy of HTTPS_PROXY, HTTP_PROXY and ALL_PROXY leads out; it looks up names, too.';

function toSuggestion(target: string, layer: string): string {
  if (layer === 'limit') return 'Make fewer connections at once.';
  if (layer === 'policy') return `Ask for \`${target}\` in ${RULE}.allow of the policy.`;
  return `Ask for \`{ host, port, private: true }\`, or the very address, in ${RULE}.allow of the policy.`;
}

/** What the caller should know of its command's network and changes although the command ended by itself. */
export function warningsOf({ egress, result: { usage } }: Ran): string[] {
  const warnings: string[] = [];
  if (egress === 'lost') warnings.push('the egress proxy ended under this command, which had no network from then on');
  else if (egress && !egress.listened) warnings.push('the egress proxy was not reached; this command had no network');
  const unknown = UNKNOWN.get(usage.filesUnknown);
  if (unknown !== undefined) warnings.push(`which files it changed is not known: ${unknown}`);
  return warnings;
}

const UNKNOWN = new Map<FilesUnknown | undefined, string>([
  ['flood', 'more changed than could be followed'],
  ['unwatched', 'the workspace is too large to be watched, or the system gives no more watches'],
  ['late', 'the workspace was read for the first time, or is changing too fast'],
]);

/** A failed call tells its connections that were refused, too: they may be why it failed. */
export function withDenials(error: ToolError, denied: readonly Denial[]): ToolError {
  const connects = denied.filter((it) => it.kind === 'connect');
  if (connects.length === 0) return error;
  const { code, message, extras } = error;
  const shown = connects.map(({ target, rule }) => {
    const [, host = target, port] = /^(.*):(\d+)$/.exec(target) ?? [];
    return { host, ...(port !== undefined && { port: Number(port) }), ...(rule !== undefined && { rule }) };
  });
  return new ToolError(code, message, { ...extras, details: { ...extras.details, denied: shown } });
}
