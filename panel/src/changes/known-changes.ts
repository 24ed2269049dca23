/** What calls changed in the open workspaces, by file: from the results that the daemon keeps, and from the quarantine. */
import { request, requestIn } from '../connection.ts';
import type { Answer, ListedCall, ToolResult } from '../messages.ts';

export type Kind = 'run' | 'obeyed' | 'quarantine' | 'other';

/** A file, and the call that changed it last. */
export interface Changed {
  readonly key: string;
  readonly kind: Kind;
  readonly path: string;
  readonly workspace: string;
  readonly callId: string;
  /** The call that made the change; undefined if the list of calls no longer has it. */
  readonly call: ListedCall | undefined;
  /** `M`, `A`, `D`. */
  readonly how: 'M' | 'A' | 'D';
  /** Whose programs run it, or which agents obey it. */
  readonly by?: string;
  readonly result?: ToolResult | undefined;
}

/** Calls whose results are read, the newest first: each is a request. */
const READ_MAX = 60;
/** The most recent calls that are asked for, among which those that changed files are found. */
const LISTED_MAX = 1_000;
const LETTERS: Readonly<Record<string, Changed['how']>> = { create: 'A', delete: 'D' };

type Quarantine = Answer<'session.quarantine'>;

/** Reads all of it again. A workspace whose quarantine can't be read has its files all the same. */
export async function readChanges(): Promise<Changed[]> {
  const all = { everywhere: true, ended: true, limit: LISTED_MAX };
  const { calls } = (await request('calls.list', all)) as { calls: ListedCall[] };
  const writing = calls.filter((it) => it.state.status === 'done' && it.tier !== 'read_only').slice(0, READ_MAX);
  const results = await Promise.all(
    writing.map(({ callId, sessionId }) =>
      request('calls.get', { callId, session: sessionId }).then(
        ({ result }) => result,
        () => undefined, // No longer kept.
      ),
    ),
  );
  const workspaces = new Set(writing.flatMap(({ workspace }) => workspace ?? []));
  const marks = new Map<string, Quarantine>();
  for (const it of workspaces) {
    const found = await requestIn(it, 'session.quarantine', {}).catch(() => undefined); // As above.
    if (found) marks.set(it, found);
  }
  const byKey = new Map<string, Changed>();
  const callOf = (callId: string) => writing.find((it) => it.callId === callId);
  for (const [workspace, { items, changed }] of marks) {
    for (const { path, callId, runBy } of items)
      add(byKey, { kind: 'quarantine', path, workspace, callId, call: callOf(callId), how: 'A', by: runBy });
    for (const { path, callId, how, by } of changed)
      add(byKey, { kind: how, path, workspace, callId, call: callOf(callId), how: 'M', by });
  }
  for (const [at, call] of writing.entries()) {
    const result = results[at];
    for (const { path, kind } of result?.metadata.filesChanged ?? []) {
      if (path.endsWith('/')) continue; // A folder, which its files name.
      const { workspace, callId } = call;
      const known = byKey.get(`${workspace} ${path}`);
      if (known && known.callId !== callId) continue;
      if (known) byKey.set(known.key, { ...known, result, how: LETTERS[kind] ?? 'M' });
      else add(byKey, { kind: 'other', path, workspace, callId, call, how: LETTERS[kind] ?? 'M', result });
    }
  }
  return [...byKey.values()];
}

function add(all: Map<string, Changed>, it: Omit<Changed, 'key'>): void {
  const key = `${it.workspace} ${it.path}`;
  if (!all.has(key)) all.set(key, { ...it, key });
}

/** The part of a unified diff that is about one file; all of it if it is about one only. */
export function diffOf({ result, path }: Pick<Changed, 'result' | 'path'>): string | undefined {
  const { diff } = ((result?.success ? result.data : undefined) ?? {}) as { diff?: unknown };
  if (typeof diff !== 'string' || diff === '') return undefined;
  const parts = diff.split(/^(?=--- )/m);
  return parts.length < 3 ? diff : (parts.find((it) => it.includes(path)) ?? diff);
}
