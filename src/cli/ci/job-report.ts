/** What came of the calls of a CI job, counted from its audit log, and the summary of it in Markdown. */
import { CODES, type Code } from '../../base/errors.ts';
import { showLine } from '../../base/text/shown-text.ts';
import type { AuditRecord } from '../../store/audit/entry.ts';
import type { Verification } from '../../store/audit/verify.ts';
import { whatOf } from '../audit/audit.ts';

/** A refused or open call as the summary lists it. */
export interface ListedCall {
  readonly tool: string;
  readonly code: string;
  readonly rule?: string | undefined;
  /** The first effect of the call, or its input. */
  readonly what: string;
}

export interface JobReport {
  readonly policy: { readonly name: string; readonly version: string; readonly digest?: string | undefined };
  readonly confinement: string;
  /** Exit code of the job's command: 127 if it could not be started, 128 + n if signal n ended it. */
  readonly exitCode: number;
  readonly durationMs: number;
  readonly calls: { readonly total: number; readonly failed: number; readonly denied: number; readonly open: number };
  /** The first denied and open calls. */
  readonly listed: readonly ListedCall[];
  readonly audit: Pick<Verification, 'ok' | 'entries' | 'reason'> & { readonly head: string };
}

/** Denied and open calls that a summary lists; an agent may have made thousands. */
const LISTED_MAX = 20;

/** Counts the entries of a log as they are read, the oldest first. */
export class CallCounter {
  readonly #calls = new Set<string>();
  /** Calls whose last entry is a question or an intent. */
  readonly #open = new Map<string, AuditRecord>();
  readonly #listed: ListedCall[] = [];
  #failed = 0;
  #denied = 0;
  #head = '';

  add(entry: AuditRecord): void {
    this.#head = entry.hash;
    const { callId, kind, code } = entry;
    if (callId === undefined) return;
    const key = `${entry.sessionId}\0${callId}`;
    this.#calls.add(key);
    if (kind === 'approval' || kind === 'intent') this.#open.set(key, entry);
    if (kind !== 'outcome' && kind !== 'refusal') return;
    this.#open.delete(key);
    if (code === undefined) return;
    const isDenied = CODES[code as Code]?.category === 'PERMISSION';
    if (isDenied) this.#denied += 1;
    else this.#failed += 1;
    if (isDenied) this.#list(entry, code);
  }

  /** The counts, and the calls to list; calls without an end count as open. */
  end(): Pick<JobReport, 'calls' | 'listed'> & { readonly head: string } {
    for (const entry of this.#open.values())
      this.#list(entry, entry.kind === 'intent' ? 'outcome unknown' : 'unanswered');
    const calls = { total: this.#calls.size, failed: this.#failed, denied: this.#denied, open: this.#open.size };
    return { calls, listed: this.#listed, head: this.#head };
  }

  #list(entry: AuditRecord, code: string): void {
    if (this.#listed.length >= LISTED_MAX) return;
    this.#listed.push({ tool: entry.tool ?? '', code, rule: entry.rule, what: whatOf(entry) });
  }
}

/** The summary as Markdown that shows texts of agents as they are, and lets none of them be markup. */
export function toMarkdown({ policy, confinement, exitCode, durationMs, calls, listed, audit }: JobReport): string {
  const { total, failed, denied, open } = calls;
  const record = audit.ok
    ? `whole: ${audit.entries} entries, the last with hash ${code(audit.head)}`
    : `**broken**: ${text(audit.reason ?? 'no reason given')}`;
  const lines = [
    '## Ringfence',
    '',
    '| | |',
    '|---|---|',
    `| command | exit code ${exitCode} after ${(durationMs / 1000).toFixed(1)} s |`,
    `| calls | ${total}: ${failed} failed, ${denied} denied, ${open} left open |`,
    `| policy | ${text(policy.name)}, version ${code(policy.version)}${policy.digest === undefined ? '' : `, digest ${code(policy.digest)}`} |`,
    `| confinement | level ${text(confinement)} |`,
    `| record | ${record} |`,
  ];
  if (listed.length > 0) {
    lines.push('', '### Denied or left open', '', '| tool | result | rule | what |', '|---|---|---|---|');
    for (const it of listed) lines.push(`| ${[it.tool, it.code, it.rule ?? '', it.what].map(code).join(' | ')} |`);
    const more = denied + open - listed.length;
    if (more > 0) lines.push('', `${more} more are in the exported record.`);
  }
  return `${lines.join('\n')}\n`;
}

const CELL_CHARS_MAX = 200;

const cut = (value: string): string => {
  const line = showLine(value);
  return line.length > CELL_CHARS_MAX ? `${line.slice(0, CELL_CHARS_MAX)}…` : line;
};

/** Text as code in a cell of a table; `|` and backticks in it do not end the cell. */
const code = (value: string): string => (value === '' ? '' : `<code>${text(value)}</code>`);

/** Text in which no character is markup of Markdown or HTML. */
const text = (value: string): string =>
  cut(value).replace(/[^\p{L}\p{N} ,.;:/=+-]/gu, (it) => `&#${it.codePointAt(0)};`);
