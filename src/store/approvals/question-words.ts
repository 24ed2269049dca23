/**
 * A question in words, one layout for the terminal, the form of an MCP client and the panel: what happens, who asks and where, at most
 * three facts, the answers. Pure. The words are an agent's or a program's: whoever shows them makes them safe.
 */
import { registrableDomain } from '../../base/text/host-names.ts';
import { folderName } from '../../base/text/shown-text.ts';
import {
  type Approval,
  coverageOf,
  opensForSession,
  type RememberScope,
  rememberFor,
  rememberProjectFor,
} from './approval.ts';

/** What a question must have to be put in words: the panel has it from the wire. */
type Asked = Omit<Approval, 'remember'> & { readonly remember?: Approval['remember'] | undefined };

/** What happens, in one line; `heavy` is what a person has to read of it: a domain, a path, a command. */
export interface Title {
  /** `$` for a command. */
  readonly verb: string;
  readonly before: string;
  readonly heavy: string;
  readonly after: string;
}

export interface Fact {
  readonly kind: 'warn' | 'note' | 'undo' | 'rule';
  readonly text: string;
}

/** A key, and what it answers. */
export interface Choice {
  readonly key: 'y' | 's' | 'p' | 'n' | 'N';
  readonly label: string;
  readonly decision: 'approve' | 'deny';
  readonly remember?: RememberScope;
}

const FACTS_MAX = 3;
const FACT_CHARS_MAX = 240;

const VERBS: Readonly<Record<string, string>> = {
  read: 'read',
  write: 'write',
  delete: 'delete',
  exec: 'run',
  connect: 'connect',
  query: 'query',
};

const DOOR_VERBS = {
  host: 'connect',
  upload: 'send more to',
  secret: 'read',
  path: 'read',
  signature: 'sign a commit with',
  service: 'connect',
} as const;

const inputOf = ({ input }: Pick<Asked, 'input'>): Readonly<Record<string, unknown>> =>
  typeof input === 'object' && input !== null && !Array.isArray(input) ? (input as Record<string, unknown>) : {};

/** The command line of a call; undefined if it has none. */
export const commandOf = (asked: Pick<Asked, 'input'>): string | undefined => {
  const { command } = inputOf(asked);
  return typeof command === 'string' ? command : undefined;
};

export function titleOf(asked: Asked): Title {
  const { door, effects, tool } = asked;
  const plain = (verb: string, heavy: string, after = ''): Title => ({ verb, before: '', heavy, after });
  if (door?.kind === 'host') return { ...hostParts(door.target), verb: 'connect' };
  if (door?.kind === 'upload') return { ...hostParts(door.target), verb: 'send more to' };
  if (door) return plain(DOOR_VERBS[door.kind], door.target);
  const command = commandOf(asked);
  if (command !== undefined) return plain('$', command);
  const { url, method } = inputOf(asked);
  if (typeof url === 'string') return plain(typeof method === 'string' ? method : 'GET', url);
  const [first, ...others] = effects.filter(({ kind }) => kind !== 'exec');
  if (!first) return plain('', tool);
  const verb = first.replaces ? 'replace' : (VERBS[first.kind] ?? first.kind);
  return plain(verb, first.target, others.length > 0 ? ` and ${others.length} more` : '');
}

/** `host:port` with its registrable domain apart. */
function hostParts(target: string): Omit<Title, 'verb'> {
  const at = target.lastIndexOf(':');
  const [host, port] = at > 0 && !target.endsWith(']') ? [target.slice(0, at), target.slice(at)] : [target, ''];
  const heavy = registrableDomain(host);
  return { before: host.slice(0, host.length - heavy.length), heavy, after: port };
}

export const titleText = (asked: Asked): string => {
  const { verb, before, heavy, after } = titleOf(asked);
  return `${verb}${verb && ' '}${before}${heavy}${after}`;
};

/** The name that the agent's client gave, without its version. */
export const agentOf = ({ client, principal }: Pick<Asked, 'client' | 'principal'>): string =>
  client.replace(/ v?\d[\w.+-]*$/, '') || principal;

/** The folder that a call works in, by its name. */
export const folderOf = ({ workspace, cwd }: Pick<Asked, 'workspace' | 'cwd'>): string =>
  cwd === '.' || cwd === '' ? folderName(workspace) : `${folderName(workspace)}/${cwd}`;

/** The agent and its folder; at a door first the command that waits there. */
export function whoOf(asked: Asked): string {
  const { door, parents, tool } = asked;
  const waits = door ? [commandOf(asked) ?? tool] : titleOf(asked).verb === '$' ? [] : [tool];
  const chain = parents.map((it) => `${it.tool} › `).join('');
  return [...waits, `${chain}${agentOf(asked)} in ${folderOf(asked)}`].join(' · ');
}

/** How long an answer still counts: `1:42 left`, `4 min left`. */
export function leftOf({ expiresAt }: Pick<Asked, 'expiresAt'>, nowMs: number): string {
  const seconds = Math.max(0, Math.floor((Date.parse(expiresAt) - nowMs) / 1000));
  if (seconds < 180) return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')} left`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min left`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h left` : `${Math.round(seconds / 86_400)} days left`;
}

const UNDO: Readonly<Record<'full' | 'partial' | 'none', Fact>> = {
  full: { kind: 'undo', text: 'undo gives all of it back' },
  partial: { kind: 'undo', text: 'undo gives a part of it back' },
  none: { kind: 'warn', text: 'nothing of it can be undone' },
};

/** What the title, the description and the fact about undo say already. */
const SAID = /^(?:Will (?:delete|modify|move|connect to|run): |Can(?:not| not)? be undone|Remote operation)/;

/** At most three facts, what a person must not miss first. */
export function factsOf(asked: Asked): Fact[] {
  const { impact, door, undo, rule, reason, costUsd } = asked;
  const cut = (text: string) => (text.length > FACT_CHARS_MAX ? `${text.slice(0, FACT_CHARS_MAX)}…` : text);
  const rules: Fact = { kind: 'rule', text: `${reason.replace(/\.$/, '')} (rule ${rule})` };
  if (door) {
    const [grave, others] = split(impact.warnings);
    const isHost = door.kind === 'host';
    const first: Fact[] = isHost
      ? [{ kind: 'note', text: 'new: not allowed yet · sent so far 0 B' }]
      : [{ kind: 'note', text: lower(impact.description) }];
    const warned = grave.map((text): Fact => ({ kind: 'warn', text: lower(text) }));
    const rest = others.map((text): Fact => ({ kind: 'note', text: lower(text) }));
    return [...warned, ...first, ...rest, rules].slice(0, FACTS_MAX).map((it) => ({ ...it, text: cut(it.text) }));
  }
  const { heavy } = titleOf(asked);
  const words = [impact.description, ...impact.warnings.filter((it) => !SAID.test(it) && !it.endsWith(`: ${heavy}`))];
  const cost = costUsd === undefined ? [] : [`costs about $${costUsd.toFixed(4)}`];
  const does = [...cost, lower(words.join(' · '))].join(' · ');
  return [
    { kind: impact.level === 'high' ? 'warn' : 'note', text: cut(does) },
    ...(undo ? [UNDO[undo]] : []),
    { ...rules, text: cut(rules.text) },
  ];
}

/** Warnings of a door about the host itself, and the others. */
function split(warnings: readonly string[]): [grave: string[], others: string[]] {
  const isGrave = (it: string) => it.startsWith('It');
  return [warnings.filter(isGrave), warnings.filter((it) => !isGrave(it))];
}

const lower = (text: string): string => text.charAt(0).toLowerCase() + text.slice(1);

/** The members of the input that neither the title nor the diff shows. */
export function restOf(asked: Asked): Readonly<Record<string, unknown>> {
  const { command: _, cwd: __, url: ___, method: ____, ...rest } = inputOf(asked);
  if (asked.door) return {};
  const { verb, heavy: shown } = titleOf(asked);
  if (asked.diff !== undefined && verb !== '' && verb !== '$') return {};
  return Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== shown && value !== undefined));
}

/** What a person can answer, in the one order of all faces. */
export function choicesOf(asked: Asked): Choice[] {
  const approval = { ...asked, remember: asked.remember ?? {} };
  const isPath = opensForSession(asked);
  const remember = rememberFor(approval);
  const project = rememberProjectFor(approval);
  const session = remember.match === 'tool' ? `session, all ${asked.tool}` : 'session';
  return [
    { key: 'y', label: isPath ? 'session' : 'once', decision: 'approve' },
    ...(coverageOf(approval) === undefined || isPath
      ? []
      : [{ key: 's', label: session, decision: 'approve', remember } as const]),
    ...(project ? [{ key: 'p', label: 'project', decision: 'approve', remember: project } as const] : []),
    { key: 'n', label: 'no', decision: 'deny' },
    ...(asked.door || asked.rememberMaxMs > 0
      ? [{ key: 'N', label: 'no for the session', decision: 'deny', remember } as const]
      : []),
  ];
}
