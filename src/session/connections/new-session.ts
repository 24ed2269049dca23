/** What sessions are made of, new ones and those that an earlier daemon had. */
import type { Params } from '../../protocol/messages.ts';
import type { Identity } from '../authenticate.ts';
import type { LocalOpening } from '../local-sessions.ts';

interface OpenedWorkspace {
  readonly workspace: string;
  readonly root: string;
  readonly identity: Identity;
}

/** Further options of a front end in this process. */
type LocalOptions = Partial<Pick<LocalOpening, 'has' | 'onUpdate'>>;

export interface NewSession
  extends OpenedWorkspace,
    LocalOptions,
    Pick<Params<'hello'>, 'client' | 'role' | 'resumeMs'> {
  readonly sessionName?: string | undefined;
  readonly policy?: string | undefined;
  readonly uid: number | undefined;
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
  /** Whether it had got a result that strangers wrote there. */
  readonly sawUntrusted?: boolean;
}
