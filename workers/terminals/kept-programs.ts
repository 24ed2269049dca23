/** The programs that a host keeps between calls: their owners, number and lifetime, and whether they may still see what they see. */
import { ToolError } from '../../src/base/errors.ts';
import type { Powers, Timer } from '../../src/base/powers.ts';
import type { Job } from '../../src/hosts/job.ts';
import { inPlace } from '../../src/sandbox/binds-in-place.ts';
import type { CommandSetup } from '../../src/sandbox/command/request.ts';
import type { TakenOver } from '../../src/sandbox/git/config/take-over.ts';
import type { Masks } from '../../src/sandbox/masks.ts';
import { type CoveredFiles, coveredFiles, replaced, revealed } from './covered-files.ts';

export type Keeper = NonNullable<Job['keeper']>;

/** A program that outlives the call that started it. */
export interface KeptProgram {
  readonly kind: 'terminal' | 'background command';
  /** Whether it is ended once nobody has asked for it for `terminalIdleMs`. */
  readonly endsIdle: boolean;
  /** Whether it may be forgotten when its session starts another one. */
  readonly isSpent: boolean;
  /** Waits until it runs. Throws SANDBOX_UNAVAILABLE. */
  started(signal: AbortSignal): Promise<void>;
  /** Kills everything that runs in it. */
  close(time: 'ended' | 'never'): Promise<TakenOver[]>;
}

export interface KeptOptions {
  readonly setup: CommandSetup;
  readonly powers: Powers;
  /** Called with the number of programs whenever it changes. */
  onCount(count: number): void;
}

export interface KeptRecord<P extends KeptProgram = KeptProgram> {
  readonly id: string;
  readonly session: string;
  readonly command: string;
  readonly program: P;
  readonly covered: CoveredFiles;
  idle: Timer;
  look: Timer;
  readonly life: Timer;
  /** Settles when nobody can ask for it any more. */
  readonly forgotten: Promise<void>;
  readonly forget: () => void;
}

/** What a call that asks for a kept program brings. */
export interface Asking {
  /** The masks of a command that starts now. */
  readonly masks: Masks;
  readonly signal: AbortSignal;
  /** Called with what was taken over of changes to configs of repositories. */
  onGitConfigs(outcomes: readonly TakenOver[]): void;
}

interface Start<P extends KeptProgram> extends Pick<Asking, 'masks' | 'signal'> {
  readonly keeper: Keeper;
  readonly workspace: string;
  readonly command: string;
  start(): Promise<P>;
}

export class KeptPrograms {
  readonly #records = new Map<string, KeptRecord>();
  readonly #options: KeptOptions;
  /** Programs being started; one whose session has ended meanwhile is closed. */
  readonly #opening = new Set<{ readonly session: string; over: boolean }>();

  constructor(options: KeptOptions) {
    this.#options = options;
  }

  /** Starts a program and keeps it; gives its id. Throws QUEUE_FULL, SANDBOX_UNAVAILABLE, CANCELLED. */
  async keep<P extends KeptProgram>({ keeper, workspace, command, masks, signal, start }: Start<P>): Promise<string> {
    const { session } = keeper;
    const { setup, powers } = this.#options;
    const { limits } = setup;
    await this.#makeRoom(keeper);
    const covered = coveredFiles(masks, workspace, powers.now());
    const opening = { session, over: false };
    this.#opening.add(opening);
    let program: P | undefined;
    try {
      program = await inPlace(async () => startedOf(await start(), signal), signal);
      signal.throwIfAborted();
      if (opening.over)
        throw new ToolError('CANCELLED', `the session of this ${program.kind} has ended, or its policy changed`);
    } catch (error) {
      await program?.close('never');
      throw error;
    } finally {
      this.#opening.delete(opening);
    }
    const id = powers.uuid();
    const { promise: forgotten, resolve: forget } = Promise.withResolvers<void>();
    const record: KeptRecord = {
      id,
      session,
      command,
      program,
      covered,
      idle: this.#idleTimer(() => record),
      look: powers.after(limits.terminalLookMs, () => this.#checkMasks(record)),
      life: powers.after(limits.terminalLifeMs, () => void this.end(record)),
      forgotten,
      forget,
    };
    this.#records.set(id, record);
    this.#options.onCount(this.#records.size);
    return id;
  }

  /** A program of the session, unless it can see what is hidden now. Throws NOT_FOUND, POLICY_DENIED. */
  async find<K extends KeptProgram['kind'], P extends KeptProgram & { readonly kind: K }>(
    id: string,
    { session, kind, masks }: { session: string; kind: K } & Pick<Asking, 'masks'>,
  ): Promise<KeptRecord<P>> {
    const record = this.#records.get(id);
    // The same error for another session's program: nobody learns which exist.
    if (record?.session !== session || record.program.kind !== kind)
      throw new ToolError('NOT_FOUND', `this session has no ${kind} ${id.slice(0, 64)}`, {
        suggestion: `It was closed, was idle or open too long, or ended when the policy changed; start another one.`,
      });
    const seen = replaced(record.covered) ?? revealed(masks, record.covered);
    if (seen !== undefined) {
      await this.end(record);
      throw new ToolError(
        'POLICY_DENIED',
        `the policy hides \`${seen}\`, which did not exist when this ${kind} was started`,
        { suggestion: `The ${kind} was ended, because it could have read that file; start another one.` },
      );
    }
    record.idle.cancel();
    record.idle = this.#idleTimer(() => record);
    return record as KeptRecord<P>;
  }

  /** A program of any session: for the gateway, which knows whose it is. */
  anyones<K extends KeptProgram['kind'], P extends KeptProgram & { readonly kind: K }>(
    id: string,
    kind: K,
  ): KeptRecord<P> | undefined {
    const record = this.#records.get(id);
    return record?.program.kind === kind ? (record as KeptRecord<P>) : undefined;
  }

  /** The programs of one kind of a session. */
  listOf<K extends KeptProgram['kind'], P extends KeptProgram & { readonly kind: K }>(
    session: string,
    kind: K,
  ): KeptRecord<P>[] {
    const own = [...this.#records.values()].filter((it) => it.session === session && it.program.kind === kind);
    return own as KeptRecord<P>[];
  }

  /** Ends all programs of a session. */
  async endSession(session: string): Promise<void> {
    for (const it of this.#opening) if (it.session === session) it.over = true;
    const ofSession = [...this.#records.values()].filter((it) => it.session === session);
    await Promise.all(ofSession.map((it) => this.end(it)));
  }

  /** Ends and forgets a program; by default without a call that could tell what was taken over. */
  async end(kept: KeptRecord, time: 'ended' | 'never' = 'never'): Promise<readonly TakenOver[]> {
    if (!this.#records.delete(kept.id)) return [];
    for (const timer of [kept.idle, kept.look, kept.life]) timer.cancel();
    const outcomes = await kept.program.close(time);
    kept.forget();
    this.#options.onCount(this.#records.size);
    return outcomes;
  }

  /** Forgets the session's oldest command that has ended, if there is no room otherwise. Throws QUEUE_FULL. */
  async #makeRoom({ session, keptMax }: Keeper): Promise<void> {
    const { sessionTerminalsMax } = this.#options.setup.limits;
    const own = () => [...this.#records.values(), ...this.#opening].filter((it) => it.session === session).length;
    const all = () => this.#records.size + this.#opening.size;
    const spent = [...this.#records.values()].filter((it) => it.session === session && it.program.isSpent);
    for (const it of spent) if (own() >= sessionTerminalsMax || all() >= keptMax) await this.end(it);
    const suggestion = 'End one that is not needed any more; `terminal_interactive` and `terminal_output` list them.';
    if (own() >= sessionTerminalsMax) {
      const message = `a session has at most ${sessionTerminalsMax} terminals and commands in the background`;
      throw new ToolError('QUEUE_FULL', message, { suggestion });
    }
    if (all() >= keptMax) {
      const message = 'this daemon has its maximum number of terminals and commands in the background';
      throw new ToolError('QUEUE_FULL', message, { suggestion });
    }
  }

  #idleTimer(recordOf: () => KeptRecord): Timer {
    const { powers, setup } = this.#options;
    return powers.after(setup.limits.terminalIdleMs, () => {
      const record = recordOf();
      if (record.program.endsIdle) void this.end(record);
      else record.idle = this.#idleTimer(recordOf);
    });
  }

  /** Checks all the time for masked files that became visible: a program runs even if its owner asks for nothing. */
  #checkMasks(kept: KeptRecord): void {
    if (replaced(kept.covered) !== undefined) return void this.end(kept);
    const { powers, setup } = this.#options;
    kept.look = powers.after(setup.limits.terminalLookMs, () => this.#checkMasks(kept));
  }
}

async function startedOf<P extends KeptProgram>(program: P, signal: AbortSignal): Promise<P> {
  try {
    await program.started(signal);
    return program;
  } catch (error) {
    await program.close('never');
    throw error;
  }
}
