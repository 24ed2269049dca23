/**
 * Entries of a node's audit log on their way to the collector: the lines as `ringfence audit export` writes them, and where
 * the log ends behind them, signed with the node's key. Architecture invariant: pure.
 */
import { createHash } from 'node:crypto';
import * as z from 'zod';
import { jsonOr } from '../base/text/json.ts';

const end = z.strictObject({ seq: z.int().min(0), hash: z.string().regex(/^[0-9a-f]{64}$/) });
/** A position of a log, and the hash of the entry there; 64 zeros before the first one. */
export type LogEnd = z.infer<typeof end>;

export const GENESIS: LogEnd = { seq: 0, hash: '0'.repeat(64) };

export const auditBatch = z.strictObject({
  lines: z.array(z.string()),
  /** The last of the lines; without lines, the end of the log. */
  end,
  atMs: z.int().min(0),
  signature: z.string().max(128),
});
export type AuditBatch = z.infer<typeof auditBatch>;

/** The collector's answer: up to where it has the log of the node, or why it takes no more of it. */
export const auditReceipt = z.strictObject({ has: end, broken: z.string().optional() });
export type AuditReceipt = z.infer<typeof auditReceipt>;

/** The text that a node signs. */
export const signedPosition = (
  fleet: string,
  node: string,
  { end: at, atMs }: Pick<AuditBatch, 'end' | 'atMs'>,
): string => `ringfence fleet audit 1\n${fleet}\n${node}\n${at.seq}\n${at.hash}\n${atMs}`;

const LINE = /^(\{.*),"hash":"([0-9a-f]{64})"(?:,"outcome":"unknown")?\}$/s;

/** A line whose hash is that of its text. */
interface ChainedLine extends LogEnd {
  readonly previousHash: string;
}

/** Reads a line of an export; undefined if its hash is not that of its text. */
function readLine(line: string): ChainedLine | undefined {
  const [, begin, hash] = LINE.exec(line) ?? [];
  if (begin === undefined || hash === undefined) return undefined;
  const text = `${begin}}`;
  if (createHash('sha256').update(text).digest('hex') !== hash) return undefined;
  const { seq, previousHash } = jsonOr(text, {}) as { seq?: unknown; previousHash?: unknown };
  return typeof seq === 'number' && typeof previousHash === 'string' ? { seq, hash, previousHash } : undefined;
}

export type Chained =
  | { readonly ok: true; readonly first: number; readonly isGap: boolean }
  | { readonly ok: false; readonly reason: string };

/**
 * Whether the lines of a batch follow `has` one by one and end where the node says. Entries that are missing between `has`
 * and the first line are a gap: the node's retention may have dropped them.
 */
export function chain({ lines, end: to }: Pick<AuditBatch, 'lines' | 'end'>, has: LogEnd): Chained {
  let at: LogEnd | undefined;
  let first = 0;
  for (const line of lines) {
    const entry = readLine(line);
    if (!entry) return { ok: false, reason: `the entry after ${at?.seq ?? has.seq} was changed` };
    if (at === undefined) {
      first = entry.seq;
      if (entry.seq <= has.seq) return { ok: false, reason: `entry ${entry.seq} came again` };
      at = entry.seq === has.seq + 1 ? has : { seq: entry.seq - 1, hash: entry.previousHash };
    }
    if (entry.seq !== at.seq + 1) return { ok: false, reason: `entry ${at.seq + 1} is missing` };
    if (entry.previousHash !== at.hash)
      return { ok: false, reason: `entry ${entry.seq} does not follow the one before it` };
    at = entry;
  }
  if (at && (at.seq !== to.seq || at.hash !== to.hash))
    return { ok: false, reason: `the node signed entry ${to.seq}, and its entries end at ${at.seq}` };
  return { ok: true, first, isGap: first > has.seq + 1 };
}
