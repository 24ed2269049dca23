/**
 * The commands that go on in the background, over all sessions: whose each is, and which host runs it. Hosts run them and know no
 * owners but a word; a call reaches a command only through its entry here.
 */

import { ToolError } from '../../../base/errors.ts';
import type { Limits } from '../../../base/limits.ts';
import type { Powers } from '../../../base/powers.ts';
import { type BackgroundJob, type BackgroundNow, listedIn } from '../../../hosts/background/background-job.ts';
import type { EgressAttachment } from '../../../hosts/egress.ts';
import type { HostKey, Hosts } from '../../../hosts/hosts.ts';
import type { RetainedSession } from '../../../hosts/retained-sessions.ts';
import type { Policy } from '../../../policy/schema.ts';
import type { AuditLog } from '../../../store/audit/log.ts';
import type { Call } from '../../stage.ts';

export interface BackgroundCommand {
  /** Name of the command for tools; its host chose it. */
  readonly handle: string;
  readonly callId: string;
  readonly sessionId: string;
  readonly principal: string;
  readonly client: string;
  readonly workspace: string;
  readonly command: string;
  readonly startedAt: string;
  /** Whether it goes on when its session ends. */
  readonly isDetached: boolean;
  /** Whether it may connect to the hosts of its policy. */
  readonly hasNetwork: boolean;
  /** The host that runs it. */
  readonly place: HostKey;
  /** The owner under which its host keeps it. */
  readonly keeper: RetainedSession;
  policyNow(): Policy;
}

/** A command and how it is now. */
export interface BackgroundState extends BackgroundCommand {
  readonly now: BackgroundNow;
}

/** The call that asks for commands; without `principal` it reaches only those of its own session. */
export type BackgroundAsker = Pick<Call, 'sessionId' | 'workspace'> & {
  readonly principal?: string;
  /** The policy that the call is under. */
  readonly policyVersion: string;
};

export interface BackgroundParts {
  readonly hosts: Hosts;
  readonly limits: Limits;
  readonly powers: Powers;
  readonly auditLog: Pick<AuditLog, 'append'>;
}

const NEVER = new AbortController().signal;

export class BackgroundCommands {
  readonly #parts: BackgroundParts;
  readonly #commands = new Map<string, BackgroundCommand>();
  /** Detached commands that have ended, whose output can still be read. */
  readonly #ended = new Set<string>();

  constructor(parts: BackgroundParts) {
    this.#parts = parts;
  }

  get all(): BackgroundCommand[] {
    return [...this.#commands.values()];
  }

  /** Throws QUEUE_FULL if the principal has too many commands that go on without a session. */
  assertRoom({ principal }: Pick<Call, 'principal'>): void {
    const { detachedCommandsMax: max } = this.#parts.limits;
    const running = this.all.filter((it) => it.isDetached && it.principal === principal && !this.#ended.has(it.handle));
    if (running.length >= max)
      throw new ToolError('QUEUE_FULL', `${principal} has ${running.length} detached commands, which is the maximum`, {
        suggestion: 'End one by terminal_kill; terminal_output lists them.',
        details: { limit: max, used: running.length, enforcedBy: 'daemon' },
      });
  }

  /** Keeps a command that has started until its host forgets it; closes its lease when it has ended. */
  add(command: BackgroundCommand, lease: EgressAttachment | undefined): void {
    this.#commands.set(command.handle, command);
    void this.#follow(command, lease);
  }

  /** A command that the caller may reach. Throws NOT_FOUND, with the same words for those of others. */
  find(handle: string, asker: BackgroundAsker): BackgroundCommand {
    const found = this.#commands.get(handle);
    if (found && isTheirs(found, asker)) return found;
    throw new ToolError('NOT_FOUND', `this session has no background command ${handle.slice(0, 64)}`, {
      suggestion: 'It was closed, was open too long, or ended when the policy changed; start another one.',
    });
  }

  /** The commands that the caller may reach, as they are now. */
  list(asker: BackgroundAsker): Promise<BackgroundState[]> {
    return this.statesOf(this.all.filter((it) => isTheirs(it, asker)));
  }

  /** How commands are now, by asking each of their hosts once; without those that have just been forgotten. */
  async statesOf(commands: readonly BackgroundCommand[]): Promise<BackgroundState[]> {
    const byPlace = Map.groupBy(commands, ({ place }) => place);
    const answers = await Promise.all(
      [...byPlace].map(([place, all]) => this.#ask(place, { list: all.map(({ handle }) => handle) })),
    );
    const now = new Map(answers.flatMap(listedIn).map((it) => [it.handle, it]));
    return commands.flatMap((it) => {
      const state = now.get(it.handle);
      return state ? [{ ...it, now: state }] : [];
    });
  }

  /** The commands that a call started, or the one of a handle, which have not ended. */
  running(id: string): BackgroundCommand[] {
    return this.all.filter((it) => (it.callId === id || it.handle === id) && !this.#ended.has(it.handle));
  }

  /** Ends a command with everything that it started; its output stays readable. */
  async stop({ handle, place }: BackgroundCommand): Promise<void> {
    await this.#ask(place, { handle, stop: true });
  }

  /**
   * Opens a port of a command at the Unix socket `socket` in the folder of previews, until the signal's abort. Calls `onOpen` when
   * connections are taken. Resolves with why it ended; throws what the host says.
   */
  async forward(
    { handle, place }: BackgroundCommand,
    forward: { readonly port: number; readonly socket: string },
    { signal, onOpen }: { signal: AbortSignal; onOpen(): void },
  ): Promise<'command' | 'relay'> {
    const onOutput = () => {
      onOpen();
      return undefined;
    };
    const ran = await this.#run(place, { handle, forward }, { signal, onOutput, isWait: true });
    if (!ran.result.ok) throw new ToolError(ran.result.error.code, ran.result.error.message, ran.result.error);
    return (ran.result.data as { ended?: unknown }).ended === 'command' ? 'command' : 'relay';
  }

  async #follow(command: BackgroundCommand, lease: EgressAttachment | undefined): Promise<void> {
    const { handle, place, callId, sessionId, principal } = command;
    const { hosts, auditLog, powers } = this.#parts;
    const hasEnded = (await this.#ask(place, { handle, waitFor: 'end' })) !== undefined;
    this.#ended.add(handle);
    const report = await lease?.close();
    const network = report && report !== 'lost' ? { connected: report.connected, denied: report.denied } : {};
    const detail = { event: 'background-ended', handle, ...network, ...(report === 'lost' && { networkLost: true }) };
    try {
      auditLog.append({ kind: 'session', sessionId, principal, callId, detail });
    } catch (error) {
      powers.log.error({ error, callId }, 'the end of a command in the background was not recorded');
    }
    if (hasEnded) await this.#ask(place, { handle, waitFor: 'forgotten' });
    this.#commands.delete(handle);
    this.#ended.delete(handle);
    // A detached command has an owner of its own, which its host takes for a session.
    if (command.isDetached) hosts.endSession(command.keeper.session);
  }

  /** The host's answer; undefined if it has none, since it is gone or knows no such command. */
  async #ask(place: HostKey, job: BackgroundJob): Promise<unknown> {
    try {
      const { result } = await this.#run(place, job, { signal: NEVER, isWait: 'waitFor' in job });
      return result.ok ? result.data : undefined;
    } catch {
      return undefined; // HOST_CRASHED, SANDBOX_UNAVAILABLE, SHUTTING_DOWN: its commands have ended with it.
    }
  }

  #run(place: HostKey, background: BackgroundJob, options: Parameters<Hosts['run']>[2]): ReturnType<Hosts['run']> {
    return this.#parts.hosts.run(place, { background }, options);
  }
}

/** Whether a command is the caller's: of its session, or a detached one of its principal under the same policy. */
function isTheirs(it: BackgroundCommand, { sessionId, principal, workspace, policyVersion }: BackgroundAsker): boolean {
  if (it.sessionId === sessionId) return true;
  return (
    it.isDetached &&
    it.principal === principal &&
    it.workspace === workspace &&
    it.policyNow().version === policyVersion
  );
}
