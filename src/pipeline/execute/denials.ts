/** Collects the accesses that were denied to a call for its result, and its network connections for the record. */
import * as z from 'zod';
import type { Denial } from '../../base/call.ts';
import { ToolError } from '../../base/errors.ts';
import { describeOutside } from '../../base/protected-names.ts';
import { denial } from '../../base/result-shapes.ts';
import { showLine } from '../../base/text/shown-text.ts';
import { coarseWarnings } from '../../hosts/host-masks.ts';
import type { FilesUnknown } from '../../hosts/job.ts';
import type { RunResult } from '../../hosts/runs.ts';
import { PAST_PROXY } from '../../sandbox/egress/connection-guard.ts';
import type { EgressDenial } from '../../sandbox/egress/proxy-messages.ts';
import { gitConfigWarnings } from './git-configs.ts';
import { reported } from './reported.ts';

/** The most denials in one result; each is a few hundred bytes, with names that the command chooses. */
export const DENIALS_MAX = 64;
const RULE = 'tiers.execute.network';

const told = z.array(z.unknown());

/**
 * Denials that the host and the egress proxy report, the most telling first. The host's are checked against the schema only. `hints`
 * are about services of the machine that the command did not find.
 */
export function denialsOf({ result, egress }: RunResult, hints: readonly Denial[] = []): Denial[] {
  // Fast path for most calls: zod would take longer than everything below.
  if (result.usage.command?.denied === undefined && egress === undefined) return [];
  // Each denial is parsed alone, so that an invalid one does not drop the others.
  const ofHost = (reported(told, result.usage.command?.denied) ?? [])
    .slice(0, DENIALS_MAX)
    .flatMap((it) => denial.safeParse(it).data ?? []);
  const hasProxy = egress !== undefined;
  const ofProxy =
    egress === undefined || egress === 'lost'
      ? []
      : egress.denied.map(({ target, layer, reason, count }): Denial => {
          if (layer === 'limit') return { kind: 'connect', target, layer, reason, suggestion: FEWER, count };
          const open = openingOf({ target, layer, reason });
          const suggestion = open === undefined ? USE_PROXY : askFor(open);
          const by = { rule: RULE, layer, open };
          return { kind: 'connect', target, ...by, reason, suggestion, count };
        });
  const advice = hasProxy ? { suggestion: USE_PROXY } : { rule: RULE, suggestion: ASK };
  const advised = ofHost.map((it) =>
    it.kind === 'connect' && it.suggestion === undefined ? { ...it, ...advice } : it,
  );
  return [...hints, ...ofProxy, ...advised].slice(0, DENIALS_MAX);
}

const ASK =
  'Commands have no network unless tiers.execute.network.allow of the policy lists a host; ask the person to add the host.';
const USE_PROXY = 'Connect through the proxy of HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, which also resolves names.';

const FEWER = 'Make fewer connections at once.';
const askFor = (entry: string): string => `Ask the person to add \`${entry}\` to ${RULE}.allow in the policy.`;

/** The policy entry that would allow the connection; undefined if the program has to use the proxy. */
export function openingOf({
  target,
  layer,
  reason,
}: Pick<EgressDenial, 'target' | 'layer' | 'reason'>): string | undefined {
  if (reason === PAST_PROXY) return undefined;
  return layer === 'policy' ? target : entryFor(target, reason);
}

/** An address of a reserved block needs an entry of its own; a name may lead to this machine's networks only with `private: true`. */
function entryFor(target: string, reason: string): string {
  const [, host = target, port = '443'] = /^(.*):(\d+)$/.exec(target) ?? [];
  const [, address] = / leads to (\S+), which /.exec(reason) ?? [];
  if (address === undefined) return target;
  if (reason.includes(' of this machine ')) return `{ host: ${host}, port: ${port}, private: true }`;
  // Unquoted, a bracket begins a list in YAML.
  return address.includes(':') ? `"[${address}]:${port}"` : `${address}:${port}`;
}

/** Warnings about the command's network, memory, disk and file changes, for a command that ended by itself. */
export function warningsOf({ egress, coarse = [], outside = [], result: { usage } }: RunResult): string[] {
  const warnings: string[] = [];
  const met = usage.command ?? {};
  if (egress === 'lost') warnings.push('the egress proxy ended under this command, which had no network from then on');
  if (met.memoryNear === true) warnings.push(MEMORY_NEAR);
  if (met.scratchFull === true) warnings.push(SCRATCH_FULL);
  const removed = reported(names, met.homeRemoved) ?? [];
  if (removed.length > 0) warnings.push(`HOME was too large, and was emptied of: ${removed.join(', ')}`);
  const unknown = UNKNOWN.get(usage.filesUnknown);
  if (unknown !== undefined) warnings.push(`which files it changed is not known: ${unknown}`);
  const tracked = reported(trackedHidden, met.trackedHidden);
  if (tracked) warnings.push(toldTracked(tracked));
  if (met.fileLimitMet === true) warnings.push(FILE_LIMIT_MET);
  const foreign = reported(foreignPath, met.foreignPath);
  if (foreign !== undefined) warnings.push(`${showLine(foreign)} ${FOREIGN}`);
  if (met.gitConfigHeld === true) warnings.push(GIT_CONFIG_HELD);
  if (outside.length > 0) warnings.push(showLine(describeOutside(outside)));
  return [...warnings, ...gitConfigWarnings(usage), ...coarseWarnings(coarse)];
}

const foreignPath = z.string().min(1).max(4096);

const trackedHidden = z.object({
  count: z.int().positive(),
  first: z.array(z.string().max(4096)).min(1).max(16),
});

function toldTracked({ count, first }: z.output<typeof trackedHidden>): string {
  const shown = first.map((it) => showLine(it)).join(', ');
  const which = count === 1 ? `${shown}, which git tracks, is` : `${count} files that git tracks are`;
  const names = count === 1 ? '' : ` (${shown}${count > first.length ? ', …' : ''})`;
  return `${which} hidden from this command by the policy${names}; git in it takes ${count === 1 ? 'it' : 'them'} for unchanged. To show what holds no secret, the person lists it in the policy: secrets: { show: [PATH] }`;
}
const GIT_CONFIG_HELD =
  "the config of a repository is read-only to commands, since it can name programs that the person's git would run: git did not write it. " +
  'For one command use `git -c key=value` or `git config --global`, which end with it; to keep it, the person runs the command outside';
const FOREIGN =
  "belongs to another user than the workspace does. Commands have the rights of the workspace's owner, and none of root's even under a daemon of root; " +
  'to let them change it, the person gives it to that owner outside (chown -R --reference=WORKSPACE PATH)';
const FILE_LIMIT_MET =
  'a file would have become larger than the policy allows (tiers.execute.fileMb, limits.commandMax.fileMb); holes in it count';
const MEMORY_NEAR =
  'the command used more than 90 % of the memory that it may have, and may have been slow for it (limits.commandMax.memoryMb, tiers.execute.memoryMb)';
const SCRATCH_FULL =
  '/tmp was full while the command ran (limits.commandTmpBytes), so that it may have left something out; HOME and the workspace are on disk';
const names = z.array(z.string().max(256)).max(64);

const UNKNOWN = new Map<FilesUnknown | undefined, string>([
  ['flood', 'more files changed than could be followed'],
  ['unwatched', 'the workspace is too large to be watched, or the system has no watches left'],
  ['late', 'the workspace was read for the first time, or is changing too fast'],
]);

/** Adds the refused connections to the error of a failed call: they may be the cause. */
export function withDenials(error: ToolError, denied: readonly Denial[]): ToolError {
  const connects = denied.filter((it) => it.kind === 'connect');
  if (connects.length === 0) return error;
  const { code, message, extras } = error;
  const shown = connects.map(({ target, rule }) => {
    const [, host = target, port] = /^(.*):(\d+)$/.exec(target) ?? [];
    return { host, port: port && Number(port), rule };
  });
  return new ToolError(code, message, { ...extras, details: { ...extras.details, denied: shown } });
}
