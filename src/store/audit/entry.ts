/**
 * The audit log's entries and their canonical serialisation. The hashed text is the entry's line of a `jsonl` export without its last
 * member, `hash`, so that anybody can check the chain with sha256 alone.
 */
import { hash as digest } from 'node:crypto';
import type * as z from 'zod';
import type { Limits } from '../../base/limits.ts';
import type { Read } from '../../base/result-shapes.ts';
import { jsonOr } from '../../base/text/json.ts';
import { escapeUnseenInLine } from '../../base/text/shown-text.ts';
import type { auditEntry } from './shapes.ts';
import { toBoundedJson, toVisible } from './text.ts';

/** An entry as stored in the log. `outcome` is not part of the hashed text. */
export type AuditRecord = Read<z.output<typeof auditEntry>>;
export type AuditKind = AuditRecord['kind'];
export const AUDIT_KINDS = [
  ...(['session', 'intent', 'outcome', 'refusal', 'approval', 'policy'] as const),
] satisfies readonly AuditKind[];
/** An event as it is passed to the log. */
export type AuditEntry = Omit<AuditRecord, 'seq' | 'at' | 'previousHash' | 'hash' | 'outcome'>;

/** Fields in the order in which they are hashed, and whether the column holds JSON. */
const FIELDS = [
  ['seq', false],
  ['at', false],
  ['kind', false],
  ['sessionId', false],
  ['principal', false],
  ['callId', false],
  ['tool', false],
  ['input', true],
  ['effects', true],
  ['decision', false],
  ['rule', false],
  ['code', false],
  ['durationMs', false],
  ['resources', true],
  ['detail', true],
  ['previousHash', false],
] as const;
type AuditField = (typeof FIELDS)[number][0];

/** A row of the table `audit`; columns have the names of the entry's keys. */
export type AuditRow = Record<AuditField | 'hash', string | number | null>;

/** Columns used by queries come first, so that a scan need not read the inputs. */
export const COLUMNS = [
  ...(['seq', 'at', 'kind', 'sessionId', 'callId', 'tool', 'code', 'principal', 'decision', 'rule'] as const),
  ...(['durationMs', 'previousHash', 'hash', 'resources', 'effects', 'detail', 'input'] as const),
] satisfies readonly (keyof AuditRow)[];

export const AUDIT_SCHEMA = `CREATE TABLE IF NOT EXISTS audit (
  seq INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, sessionId TEXT NOT NULL, callId TEXT, tool TEXT, code TEXT,
  principal TEXT NOT NULL, decision TEXT, rule TEXT, durationMs REAL, previousHash TEXT NOT NULL, hash TEXT NOT NULL,
  resources TEXT, effects TEXT, detail TEXT, input TEXT) STRICT;
CREATE INDEX IF NOT EXISTS auditCall ON audit (sessionId, callId);
CREATE INDEX IF NOT EXISTS auditTool ON audit (tool);`;

const PREFIXES = FIELDS.map(([field, isJson], at) => ({ field, isJson, prefix: `${at === 0 ? '{' : ','}"${field}":` }));

/** The text of `row` that is hashed. */
export function canonicalText(row: AuditRow): string {
  let text = '';
  for (const { field, isJson, prefix } of PREFIXES) {
    const value = row[field];
    if (value !== null) text += prefix + (isJson || typeof value === 'number' ? value : JSON.stringify(value));
  }
  return `${text}}`;
}

export const hashOf = (row: AuditRow): string => digest('sha256', canonicalText(row));

/** One line of a `jsonl` export. */
export const toLine = (row: AuditRow, isOpen: boolean): string =>
  `${canonicalText(row).slice(0, -1)},"hash":${JSON.stringify(row.hash)}${isOpen ? ',"outcome":"unknown"' : ''}}`;

/**
 * The row of an entry, escaped and bounded, with at most `charsMax` characters in each JSON field. The caller sets `seq` and the hashes.
 */
export function toRow(entry: AuditEntry, at: string, limits: Limits, charsMax: number): AuditRow {
  const { auditNameCharsMax } = limits;
  const bounds = { charsMax, depthMax: limits.auditDepthMax };
  const name = (it: string | undefined) => (it === undefined ? null : toVisible(it, auditNameCharsMax));
  const json = (it: unknown) => toBoundedJson(it, bounds) ?? null;
  const { durationMs } = entry;
  return {
    seq: 0,
    at,
    kind: entry.kind,
    sessionId: toVisible(entry.sessionId, auditNameCharsMax),
    callId: name(entry.callId),
    tool: name(entry.tool),
    code: name(entry.code),
    principal: toVisible(entry.principal, auditNameCharsMax),
    decision: name(entry.decision),
    rule: name(entry.rule),
    durationMs: durationMs !== undefined && Number.isFinite(durationMs) ? durationMs + 0 : null,
    previousHash: '',
    hash: '',
    resources: json(entry.resources),
    effects: json(entry.effects),
    detail: json(entry.detail),
    input: json(entry.input),
  };
}

/** Whether every JSON column is valid JSON. Otherwise text could be moved between columns without changing the hashed text. */
export function isWellFormed(row: AuditRow): boolean {
  try {
    for (const { field, isJson } of PREFIXES) if (isJson && row[field] !== null) JSON.parse(row[field] as string);
    return true;
  } catch {
    return false; // A SyntaxError: the text is not JSON.
  }
}

export function toRecord(row: AuditRow, isOpen: boolean): AuditRecord {
  const record: Record<string, unknown> = {};
  for (const { field, isJson } of PREFIXES) {
    const value = row[field];
    // Somebody may have edited the row; `verify` reports that, and reading continues.
    if (value !== null) record[field] = isJson ? jsonOr(value as string, value) : value;
  }
  record.hash = row.hash;
  if (isOpen) record.outcome = 'unknown';
  return record as unknown as AuditRecord;
}

/** Restores the row of a record returned by `audit.query`. */
export function fromRecord(record: AuditRecord): AuditRow {
  const fields = record as unknown as Record<string, unknown>;
  const row = { hash: record.hash } as AuditRow;
  for (const { field, isJson } of PREFIXES) {
    const value = fields[field];
    if (value === undefined) row[field] = null;
    else row[field] = isJson ? escapeUnseenInLine(JSON.stringify(value)) : (value as string | number);
  }
  return row;
}
