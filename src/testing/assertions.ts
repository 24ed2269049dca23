/** What a test says of results: functions that throw an AssertionError, for any test runner. */
import type { Effect, FileChange, ResultMetadata, ToolResult } from '../call.ts';
import type { Code, WireError } from '../errors.ts';
import { differenceOf, fail, shown } from './matching.ts';

/** Anything that answers requests of the protocol: a client. */
interface Requester {
  request(method: string, params: unknown): Promise<unknown>;
}

/** Paths by what became of them; a kind that is left out stands for none. */
export interface ExpectedChanges {
  readonly created?: readonly string[];
  readonly modified?: readonly string[];
  readonly deleted?: readonly string[];
  /** New paths by former ones. */
  readonly renamed?: Readonly<Record<string, string>>;
}

/** The most that a call may have used. */
export interface MostUsed {
  readonly durationMs?: number;
  readonly cpuMs?: number;
  readonly peakBytes?: number;
  readonly outputBytes?: number;
  readonly processes?: number;
  readonly costUsd?: number;
}

/** A denial: by the policy, the sandbox or the proxy. What is left out may be anything. */
export interface ExpectedDenial {
  readonly code?: Code;
  readonly rule?: string;
  readonly kind?: string;
  readonly target?: string;
}

/** Throws unless the call succeeded, with at least this `data`. Gives the data. */
export function assertSuccess<Data>(result: ToolResult<Data>, data?: unknown): Data {
  if (!result.success) {
    const { code, message, suggestion } = result.error;
    fail(`${result.tool} failed: ${code}: ${message}${suggestion === undefined ? '' : ` (${suggestion})`}`);
  }
  const difference = data === undefined ? undefined : differenceOf(result.data, data);
  if (difference !== undefined)
    fail(`${result.tool}: in its data ${difference}`, { actual: result.data, expected: data });
  return result.data;
}

/** Throws unless the call failed, with this code if one is given. Gives the error. */
export function assertFailure(result: ToolResult, code?: Code): WireError {
  if (result.success) return fail(`${result.tool} succeeded: ${shown(result.data)}; expected ${code ?? 'a failure'}`);
  if (code !== undefined && result.error.code !== code)
    fail(`${result.tool} failed with ${result.error.code}, not ${code}: ${result.error.message}`, {
      actual: result.error.code,
      expected: code,
    });
  return result.error;
}

/** Throws unless the call, or something that it tried, was denied as expected. */
export function assertDenied(result: ToolResult, { code, rule, kind, target }: ExpectedDenial = {}): void {
  const denials = result.metadata.denied ?? [];
  const isOfAccess = code === undefined && (kind !== undefined || target !== undefined);
  const found = denials.some(
    (it) => (kind ?? it.kind) === it.kind && (target ?? it.target) === it.target && (rule ?? it.rule) === it.rule,
  );
  if (found && code === undefined) return;
  if (!result.success && !isOfAccess) {
    const { error } = result;
    const isRefused = code === undefined ? error.category === 'PERMISSION' : error.code === code;
    if (isRefused && (rule ?? error.rule) === error.rule) return;
  }
  const actual = { ...(!result.success && { code: result.error.code, rule: result.error.rule }), denied: denials };
  fail(`${result.tool} was not denied like that: ${shown(actual)}`, { actual, expected: { code, rule, kind, target } });
}

/** Throws unless the call changed these paths and no others, as its result says. */
export function assertChanges(result: ToolResult, expected: ExpectedChanges): void {
  const actual = byKind(result.metadata.filesChanged ?? []);
  const wanted = { created: [], modified: [], deleted: [], renamed: {}, ...expected };
  for (const kind of ['created', 'modified', 'deleted'] as const)
    if (shown([...wanted[kind]].sort()) !== shown(actual[kind]))
      fail(`${result.tool} ${kind} ${list(actual[kind])}, not ${list(wanted[kind])}`, { actual, expected: wanted });
  if (differenceOf(actual.renamed, wanted.renamed) ?? differenceOf(wanted.renamed, actual.renamed))
    fail(`${result.tool} renamed ${shown(actual.renamed)}, not ${shown(wanted.renamed)}`, { actual, expected: wanted });
}

/** Throws if the call changed a file, as its result says. */
export const assertNoChanges = (result: ToolResult): void => assertChanges(result, {});

const list = (paths: readonly string[]): string => (paths.length === 0 ? 'nothing' : paths.join(', '));

function byKind(changes: readonly FileChange[]): Required<ExpectedChanges> {
  const of = (kind: FileChange['kind']) => changes.filter((it) => it.kind === kind);
  const paths = (kind: FileChange['kind']) =>
    of(kind)
      .map((it) => it.path)
      .sort();
  return {
    created: paths('create'),
    modified: paths('modify'),
    deleted: paths('delete'),
    renamed: Object.fromEntries(of('rename').map((it) => [it.from ?? '', it.path])),
  };
}

/** Throws if the call used more than this of anything, or if what it used is not known. */
export function assertResources({ tool, metadata }: ToolResult, most: MostUsed): void {
  const { durationMs, costUsd = 0, resources } = metadata;
  const used: Partial<Record<keyof MostUsed, number>> = { ...resources, durationMs, costUsd };
  for (const [name, bound] of Object.entries(most) as [keyof MostUsed, number][]) {
    const value = used[name];
    if (value === undefined) fail(`${tool}: ${name} of this call is not known on this machine`);
    if (value > bound) fail(`${tool} used ${name} ${value}, more than ${bound}`, { actual: value, expected: bound });
  }
}

/** Throws unless the call can be undone to this degree. */
export function assertUndo({ tool, metadata }: ToolResult, undo: ResultMetadata['undo']): void {
  if (metadata.undo !== undo)
    fail(`the undo of ${tool} is ${metadata.undo}, not ${undo}`, { actual: metadata.undo, expected: undo });
}

interface Explanation {
  readonly decision: string;
  readonly effects: readonly Effect[];
  readonly rules: readonly { readonly id: string; readonly reason: string }[];
}

/** Throws unless a call with this input would have these effects, in any order; nothing runs. */
export async function assertEffects(
  client: Requester,
  call: { readonly tool: string; readonly input: object },
  expected: readonly Effect[],
): Promise<void> {
  const { effects } = (await client.request('policy.explain', call)) as Explanation;
  const lines = (all: readonly Effect[]) => all.map(({ kind, target }) => `${kind} ${target}`).sort();
  if (lines(effects).join('\n') !== lines(expected).join('\n'))
    fail(`${call.tool} would ${list(lines(effects))}, not ${list(lines(expected))}`, { actual: effects, expected });
}

/** Throws unless the policy decides so of a call with this input, by this rule if one is given; nothing runs. */
export async function assertDecision(
  client: Requester,
  call: { readonly tool: string; readonly input: object },
  { decision, rule }: { readonly decision: 'allow' | 'ask' | 'deny'; readonly rule?: string },
): Promise<void> {
  const { decision: actual, rules } = (await client.request('policy.explain', call)) as Explanation;
  const by = rules[0]?.id;
  if (actual === decision && (rule ?? by) === by) return;
  fail(
    `the policy decides ${actual} by ${by} of ${call.tool}, not ${decision}${rule === undefined ? '' : ` by ${rule}`}`,
    {
      actual: { decision: actual, rule: by },
      expected: { decision, rule },
    },
  );
}
