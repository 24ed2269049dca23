/** What sessions are made of, new ones and those that an earlier daemon had. */
import { RpcError } from '../../base/errors.ts';
import { isAmong } from '../../policy/modes.ts';
import type { Policy } from '../../policy/schema.ts';
import type { Catalogue } from '../../tools/catalogue.ts';
import type { Tool, Toolset } from '../../tools/tool.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { Identity } from '../authenticate.ts';
import { type LocalOpening, partOfToolset } from '../local-sessions.ts';
import type { Policies } from '../policies.ts';

interface OpenedWorkspace {
  readonly workspace: string;
  readonly root: string;
  readonly identity: Identity;
}

/** Further options of a front end in this process. */
type LocalOptions = Partial<Pick<LocalOpening, 'has' | 'onUpdate' | 'mode'>>;

export interface NewSession
  extends OpenedWorkspace,
    LocalOptions,
    Pick<Params<'hello'>, 'client' | 'role' | 'resumeMs'> {
  readonly sessionName?: string | undefined;
  readonly policy?: string | undefined;
  readonly uid: number | undefined;
}

/** The toolset and policy of a session, each read at its use: plugins and policy files come and go. */
export function authorityOf(
  {
    identity,
    workspace,
    policy: hello,
    mode,
    has,
  }: Pick<NewLink, 'identity' | 'workspace' | 'policy' | 'mode' | 'has'>,
  { policies, catalogue }: { readonly policies: Policies; readonly catalogue: Catalogue },
): { readonly toolset: () => Toolset; readonly policy: () => Policy } {
  const { delegation, policy: principal } = identity;
  const modes = [...(mode === undefined ? [] : [mode]), ...(delegation?.modes ?? [])];
  const patterns = [delegation?.tools, ...modes.map((it) => policies.modes.find(it).tools)];
  const all = delegation ? () => delegation.parent.options.toolset : () => catalogue.toolset;
  const isChosen = (tool: Tool) => patterns.every((it) => isAmong(it, tool.name)) && (has?.(tool) ?? true);
  const isWhole = patterns.every((it) => it === undefined) && has === undefined;
  const parent = delegation && (() => delegation.parent.policy());
  const narrowed = { workspace, principal, hello, modes, parent, narrowedBy: delegation?.policies };
  return { toolset: partOfToolset(all, isWhole ? undefined : isChosen), policy: policies.policyOf(narrowed) };
}

/**
 * The workspace of a new session; one with a token that was passed on works where its parent does, and one for which a
 * fleet has made a workspace works there. Throws RpcError FORBIDDEN.
 */
export function workspaceFor(
  { delegation, fence }: Identity,
  asked: string | undefined,
  resolve: (folder: string | undefined) => { workspace: string; root: string },
): { workspace: string; root: string } {
  const made = fence?.workspace?.folder;
  if (made !== undefined) return { workspace: made, root: made };
  const home = delegation?.parent.options.workspace;
  const opened = resolve(asked ?? home);
  if (home === undefined || home === opened.workspace) return opened;
  throw new RpcError('FORBIDDEN', `the token is for ${home}, not for ${opened.workspace}`);
}

/** Throws RpcError if a session that was opened as `opened` can't be resumed in this way. */
export function assertSameOpening(
  { policy, mode, role, identity }: Pick<NewSession, 'policy' | 'mode' | 'role' | 'identity'>,
  opened: { readonly askedPolicy: string | undefined; readonly mode?: string | undefined; readonly role: string },
): void {
  if (identity.delegation) throw new RpcError('FORBIDDEN', 'a session with a token that was passed on is not resumed');
  const isSame = (policy ?? opened.askedPolicy) === opened.askedPolicy && (mode ?? opened.mode) === opened.mode;
  if (!isSame || role !== opened.role)
    throw new RpcError('INVALID_PARAMS', 'resume the session with its own policy, mode and role');
}

export interface NewLink extends OpenedWorkspace, LocalOptions {
  readonly sessionName?: string | undefined;
  readonly id: string;
  readonly secret: string;
  readonly client: string;
  readonly role: 'agent' | 'operator';
  readonly policy?: string | undefined;
  readonly uid: number | undefined;
  readonly resumeMs: number;
  /** Whether an earlier daemon opened the session. */
  readonly restored: boolean;
}
