/**
 * Carries new texts from the read_only host, which computes them, to the write host, which writes them. Parsers,
 * linters and formatters read hostile sources, so none of them runs where files can be written. The plan holds edits
 * and hashes of the texts that they were made from.
 */
import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { parseJson } from '../../base/text/json.ts';
import { type ChangedFile, readText } from '../edit/changed-files.ts';
import { bytesOf } from '../edit/text.ts';
import type { TextEdit } from '../source/typescript.ts';
import type { ToolContext } from '../tool.ts';

const path = z.string().min(1).max(4096);

export const plannedFile = z.strictObject({
  path,
  declared: path,
  ifHash: z.string().max(256),
  replacements: z.int().min(0),
  /** JSON of `[start, end, text][]`: a message holds fewer values than a call may have edits. */
  edits: z.string(),
});
export type PlannedFile = z.output<typeof plannedFile>;

const editsShape = z.array(z.tuple([z.int().min(0), z.int().min(0), z.string()]));

export class PlannedFiles {
  readonly all: PlannedFile[] = [];
  readonly #bytesMax: number;
  #bytes = 0;

  constructor({ limits }: ToolContext) {
    this.#bytesMax = limits.plannedBytesMax;
  }

  /** Throws FILE_LIMIT. */
  add({ path: name, ifHash, replacements }: ChangedFile, declared: string, edits: readonly TextEdit[]): void {
    const text = JSON.stringify(edits.map((it) => [it.start, it.end, it.text]));
    this.#bytes += Buffer.byteLength(text);
    if (this.#bytes > this.#bytesMax)
      throw new ToolError('FILE_LIMIT', `more than ${this.#bytesMax} bytes would change; nothing was changed`, {
        suggestion: 'Name fewer files.',
        details: { limit: this.#bytesMax, enforcedBy: 'tool' },
      });
    this.all.push({ path: name, declared, ifHash, replacements, edits: text });
  }
}

/** The edit that leaves what both texts begin and end with. */
export function editBetween(before: string, after: string): TextEdit {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start += 1;
  let kept = 0;
  while (kept < most - start && before.at(-1 - kept) === after.at(-1 - kept)) kept += 1;
  return { start, end: before.length - kept, text: after.slice(start, after.length - kept) };
}

/**
 * The changed file of a plan, from its present content. Throws CONFLICT if that is not what the plan was made from, and
 * INTERNAL for edits that can't be made, or of a file that the call does not name.
 */
export function changedFile(
  { path: name, declared, ifHash, replacements, edits }: PlannedFile,
  isAsked: (path: string, declared: string) => boolean,
  ctx: ToolContext,
): ChangedFile {
  if (!isAsked(name, declared))
    throw new ToolError('INTERNAL', `the plan changes \`${name}\`, which the call does not name`);
  const made = editsShape.parse(parseJson(edits)).map(([start, end, text]) => ({ start, end, text }));
  const { before, text } = sameText(name, { declared, ifHash }, ctx);
  const content = bytesOf(name, edited(name, text, made), ctx.limits.fileBytesMax);
  return { path: name, before, content, replacements, ifHash };
}

/** The present text of a file that a plan was made from. Throws CONFLICT if it is another one. */
export function sameText(name: string, { declared, ifHash }: { declared: string; ifHash: string }, ctx: ToolContext) {
  const found = readText(name, declared, ctx);
  if ('code' in found) throw new ToolError(found.code, `\`${name}\` can't be read any more`);
  if (ctx.hashOf(found.before) !== ifHash)
    throw new ToolError('CONFLICT', `\`${name}\` changed meanwhile; nothing was changed`, {
      suggestion: 'Call again.',
    });
  return found;
}

/** A text with its edits made; they count from after a byte order mark if `from` is 1. Throws INTERNAL. */
export function edited(name: string, text: string, edits: readonly TextEdit[], from = 0): string {
  const parts: string[] = [text.slice(0, from)];
  let at = from;
  for (const { start, end, text: fresh } of edits) {
    if (start + from < at || end < start) throw new ToolError('INTERNAL', `edits of \`${name}\` are out of order`);
    parts.push(text.slice(at, start + from), fresh);
    at = end + from;
  }
  return parts.join('') + text.slice(at);
}

/** A test whether a plan may change a file: one with these endings that a path of the call names or holds. */
export function namedBy(paths: readonly string[], endings: RegExp, { workspace }: ToolContext) {
  const rootOf = (it: string) => plainPath(`${it}/`.startsWith(`${workspace}/`) ? it.slice(workspace.length) : it);
  const roots = paths.map(rootOf);
  return (name: string, declared: string): boolean =>
    endings.test(name) &&
    !name.split('/').some((it) => it === '..' || it === '') &&
    roots.includes(rootOf(declared)) &&
    roots.some((it) => it === '' || name === it || name.startsWith(`${it}/`));
}

/** A path without empty parts, `.` and `..`. */
export function plainPath(named: string): string {
  const parts: string[] = [];
  for (const it of named.split('/')) {
    if (it === '..') parts.pop();
    else if (it !== '' && it !== '.') parts.push(it);
  }
  return parts.join('/');
}
