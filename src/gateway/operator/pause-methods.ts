/** Pausing: while a person looks into something, no call begins; the ones that run may be ended as well. */
import { RpcError, ToolError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';
import type { BackgroundCommands } from '../../pipeline/execute/background/background-commands.ts';
import type { FairQueue } from '../../pipeline/queue/fair-queue.ts';
import { type Paused, readPause, writePause } from '../../store/pause-file.ts';
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
  #paused: Paused | undefined;

  /** Goes on with the pause of an earlier daemon, if there was one. */
  constructor(parts: PauseParts) {
    this.#parts = parts;
    this.#paused = readPause(parts.pauseFile);
    if (this.#paused) parts.pipeline.queue.pause();
  }

  /** Since when and by whom the daemon is paused; undefined if it is not. */
  get state(): Paused | undefined {
    return this.#paused;
  }

  readonly methods = {
    'gateway.pause': ({ session }: ClientLink, { cancel }: Params<'gateway.pause'>) => this.#pause(session, cancel),
    'gateway.resume': ({ session }: ClientLink) => this.#resume(session),
  };

  /** Keeps calls from beginning; with `cancel`, also ends all that are under way. Throws RpcError INTERNAL. */
  #pause(session: Session, cancel: boolean): { paused: Paused; cancelled: number } {
    const { powers, pipeline, records } = this.#parts;
    const paused = this.#paused ?? { at: new Date(powers.now()).toISOString(), by: session.options.principal };
    // The queue is stopped first: a full disk must not keep a person from stopping calls.
    pipeline.queue.pause();
    this.#paused = paused;
    const cancelled = cancel ? this.#cancelAll(session) : 0;
    records.paused(session, cancel ? { cancelled } : {});
    this.#keep(paused);
    return { paused, cancelled };
  }

  /** Lets calls begin again; `wasPaused` is false if they could. Throws RpcError INTERNAL. */
  #resume(session: Session): { wasPaused: boolean } {
    const wasPaused = this.#paused !== undefined;
    if (!wasPaused) return { wasPaused };
    this.#keep(undefined);
    this.#paused = undefined;
    this.#parts.records.resumedCalls(session);
    this.#parts.pipeline.queue.resume();
    return { wasPaused };
  }

  /** Ends all calls, batches and commands in the background of all sessions; gives the number of calls. */
  #cancelAll({ options: seeker }: Session): number {
    const { sessions, durable, batches, background } = this.#parts;
    const reason = new ToolError('CANCELLED', 'an operator stopped all calls', { details: { by: 'operator' } });
    batches.cancelAll(reason);
    const detached = durable.underWay.map(({ record }) => record);
    const open = sessions.all.flatMap(({ session }) =>
      session.underWay.filter(({ record }) => session.abort(record.callId, reason)).map(({ record }) => record),
    );
    for (const it of background.all) void background.stop(it);
    const others = detached.filter((it) => !open.includes(it));
    return open.length + others.filter(({ callId }) => durable.cancel(callId, seeker)).length;
  }

  #keep(state: Paused | undefined): void {
    try {
      writePause(this.#parts.pauseFile, state);
    } catch (error) {
      this.#parts.powers.log.error({ error }, 'the pause could not be written to the disk');
      const effect = state ? 'calls are held, but only until the daemon restarts' : 'calls are still held';
      throw new RpcError('INTERNAL', `the state of the pause can not be written at the moment; ${effect}`);
    }
  }
}
