/** Pausing, all or one agent: while a person looks into something, no call begins; those that run may be ended as well. */
import { RpcError, ToolError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';
import type { BackgroundCommands } from '../../pipeline/execute/background/background-commands.ts';
import type { FairQueue } from '../../pipeline/queue/fair-queue.ts';
import { type Paused, type Pauses, readPauses, writePauses } from '../../store/pause-file.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { Batches } from '../batches.ts';
import type { ClientLink } from '../client-link.ts';
import type { DurableCalls } from '../durable-calls.ts';
import type { Session } from '../session.ts';
import type { SessionRecords } from '../session-records.ts';
import type { Sessions } from '../sessions.ts';

export interface PauseParts {
  readonly pipeline: { readonly queue: FairQueue };
  /** Path of the file that keeps the pause across restarts. */
  readonly pauseFile: string;
  readonly powers: Powers;
  readonly sessions: Sessions;
  readonly durable: DurableCalls;
  readonly batches: Batches;
  readonly background: Pick<BackgroundCommands, 'all' | 'stop'>;
  readonly records: SessionRecords;
}

export class Pause {
  readonly #parts: PauseParts;
  #now: Pauses;

  /** Goes on with the pauses of an earlier daemon, if there were any. */
  constructor(parts: PauseParts) {
    this.#parts = parts;
    this.#now = readPauses(parts.pauseFile);
    if (this.#now.all) parts.pipeline.queue.pause();
  }

  /** Since when and by whom the daemon is paused; undefined if it is not. */
  get state(): Paused | undefined {
    return this.#now.all;
  }

  /** The pause that holds the calls of one session: its own, or that of a session that passed authority on to it. */
  of({ options: { id, delegation } }: Session): Paused | undefined {
    return this.#now.sessions[id] ?? (delegation && this.of(delegation.parent));
  }

  /** Forgets the pause of a session that has ended; its id is never used again. */
  sessionEnded({ options: { id } }: Session): void {
    const { [id]: ended, ...sessions } = this.#now.sessions;
    if (!ended) return;
    this.#now = { ...this.#now, sessions };
    try {
      writePauses(this.#parts.pauseFile, this.#now);
    } catch {
      // A full disk: the file names a session that can't come back, which holds no call.
    }
  }

  readonly methods = {
    'gateway.pause': ({ session }: ClientLink, { cancel, session: id }: Params<'gateway.pause'>) =>
      this.#pause(session, cancel, id),
    'gateway.resume': ({ session }: ClientLink, { session: id }: Params<'gateway.resume'>) => this.#resume(session, id),
  };

  /** Keeps calls from beginning; with `cancel`, also ends all that are under way. Throws RpcError. */
  #pause(operator: Session, cancel: boolean, id?: string): { paused: Paused; cancelled: number } {
    const { powers, pipeline, records, sessions } = this.#parts;
    const { all, sessions: single } = this.#now;
    if (id !== undefined && sessions.byId(id)?.options.role !== 'agent')
      throw new RpcError('INVALID_PARAMS', `no agent has an open session ${id}; \`status\` lists them`);
    const fresh = { at: new Date(powers.now()).toISOString(), by: operator.options.principal };
    const paused = (id === undefined ? all : single[id]) ?? fresh;
    // Calls are held first: a full disk must not keep a person from stopping them.
    if (id === undefined) pipeline.queue.pause();
    this.#now = id === undefined ? { all: paused, sessions: single } : { all, sessions: { ...single, [id]: paused } };
    const cancelled = cancel ? this.#cancel(operator, id) : 0;
    records.note(operator, 'paused', { ...(cancel && { cancelled }), paused: id });
    this.#keep(this.#now, 'calls are held, but only until the daemon restarts');
    return { paused, cancelled };
  }

  /** Lets calls begin again, of one session or of all that are not paused themselves. Throws RpcError INTERNAL. */
  #resume(operator: Session, id?: string): { wasPaused: boolean } {
    const { pipeline, records } = this.#parts;
    const { all, sessions } = this.#now;
    const wasPaused = id === undefined ? all !== undefined : Object.hasOwn(sessions, id);
    if (!wasPaused) return { wasPaused };
    const { [id ?? '']: _, ...others } = sessions;
    const next = id === undefined ? { sessions } : { all, sessions: others };
    this.#keep(next, 'calls are still held');
    this.#now = next;
    records.note(operator, 'resumed-calls', { resumed: id });
    if (id === undefined) pipeline.queue.resume();
    else pipeline.queue.wake();
    return { wasPaused };
  }

  /** Ends calls, batches and commands in the background: of one session and those below it, or all. Gives the number of calls. */
  #cancel({ options: seeker }: Session, id: string | undefined): number {
    const { sessions, durable, batches, background } = this.#parts;
    const what = id === undefined ? 'all calls' : 'the calls of this agent';
    const reason = new ToolError('CANCELLED', `an operator stopped ${what}`, { details: { by: 'operator' } });
    const isMeant = (it: Session) => id === undefined || isBelow(it, id);
    const theirs = sessions.all.map(({ session }) => session).filter(isMeant);
    const ids = new Set(theirs.map(({ options }) => options.id));
    const isTheirs = (it: { readonly sessionId: string }) => id === undefined || ids.has(it.sessionId);
    batches.cancelAll(reason, isMeant);
    const detached = durable.underWay.map(({ record }) => record).filter(isTheirs);
    const open = theirs.flatMap((session) =>
      session.underWay.filter(({ record }) => session.abort(record.callId, reason)).map(({ record }) => record),
    );
    for (const it of background.all.filter(isTheirs)) void background.stop(it);
    const others = detached.filter((it) => !open.includes(it));
    return open.length + others.filter(({ callId }) => durable.cancel(callId, seeker)).length;
  }

  #keep(pauses: Pauses, effect: string): void {
    try {
      writePauses(this.#parts.pauseFile, pauses);
    } catch (error) {
      this.#parts.powers.log.error({ error }, 'the pause could not be written to the disk');
      throw new RpcError('INTERNAL', `the state of the pause can not be written at the moment; ${effect}`);
    }
  }
}

/** Whether this is the session with the id, or one that works for it. */
const isBelow = ({ options: { id, delegation } }: Session, above: string): boolean =>
  id === above || (delegation !== undefined && isBelow(delegation.parent, above));
