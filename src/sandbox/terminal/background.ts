/**
 * One command in the background: in a sandbox of its own, built as for any command, whose output is kept until it is asked for.
 * Both streams go into one pipe, so their order is that in which they were written.
 */
import { readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { ToolError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';
import { signalQuietly } from '../../base/quiet/signals.ts';
import { ConfinedRun } from '../command/confined-run.ts';
import { NODES_PIPE, openOutputPipe } from '../command/output-pipe.ts';
import type { CommandRequest, CommandSetup } from '../command/request.ts';
import { beginAt, shapeOf } from '../command/start.ts';
import { withoutForeignDescriptors } from './foreign-descriptors.ts';
import { type KeptParts, KeptRun } from './kept-run.ts';
import { listeningPorts } from './listening-ports.ts';

export class Background extends KeptRun {
  #init: number | undefined;

  /** Starts the command. Throws SANDBOX_UNAVAILABLE, INPUT_INVALID. */
  static async start(request: CommandRequest, setup: CommandSetup, powers: Powers): Promise<Background> {
    await setup.git?.settle(request.masks);
    using parts = new DisposableStack();
    const pipe = parts.use(openOutputPipe());
    const streams = [request.stdin === undefined ? 'ignore' : 'pipe', pipe.writer, pipe.writer] as const;
    const shape = shapeOf(request, setup);
    const started = beginAt({ streams, outer: withoutForeignDescriptors }, { shape, request, setup, powers });
    const run = new ConfinedRun(started, request, setup, powers);
    const { child } = run;
    // EPIPE: the command ended without reading all of it.
    if (request.stdin !== undefined) child.stdin?.on('error', () => {}).end(request.stdin);
    return new Background({ run, admitted: started.admitted, limits: setup.limits, powers }, (take) =>
      (pipe === NODES_PIPE ? [child.stdout, child.stderr] : [undefined]).flatMap((it) => pipe.read(it, take) ?? []),
    );
  }

  private constructor(parts: KeptParts, read: (take: (chunk: Buffer) => void) => Readable[]) {
    super(parts, read);
    parts.run.onInit((init) => (this.#init = init));
  }

  protected override get isRunning(): boolean {
    return this.run.main !== undefined;
  }

  /** Pid of its sandbox's init, which is in the command's namespaces; undefined until it is built. */
  get init(): number | undefined {
    return this.#init;
  }

  /** TCP ports that it listens on, in a network of its own. */
  get ports(): number[] {
    return this.#init === undefined || this.ended !== undefined ? [] : listeningPorts(this.#init);
  }

  /** Waits for output after a position, the end of the command, or `waitMs`. */
  async settle(of: { waitMs: number; afterSeq: number; signal: AbortSignal }): Promise<void> {
    const { waitMs, afterSeq, signal } = of;
    const until = this.powers.monotonicMs() + waitMs;
    for (;;) {
      signal.throwIfAborted();
      const leftMs = until - this.powers.monotonicMs();
      if (this.ended !== undefined || this.log.end > afterSeq || leftMs <= 0) return;
      await this.output.next(leftMs, signal);
    }
  }

  /** Sends a signal to the command and the programs that it started in its process group. Throws CONFLICT if it has ended. */
  signal(name: NodeJS.Signals): void {
    const { main } = this.run;
    if (this.ended !== undefined || main === undefined)
      throw new ToolError('CONFLICT', 'the command has ended', { details: this.exit });
    signalQuietly(targetOf(main), name);
  }

  /** Asks the command to end, then kills all that it started. */
  async stop(): Promise<void> {
    this.end('closed', this.limits.commandTermGraceMs);
    await this.gone;
  }
}

/** The process group of `main`, as `kill` takes it; `main` alone if the group is that of this host. */
function targetOf(main: number): number {
  const groupOf = (path: string): number => {
    const text = readFileSync(path, 'latin1');
    return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[2]);
  };
  try {
    const group = groupOf(`/proc/${main}/stat`);
    return group > 1 && group !== groupOf('/proc/self/stat') ? -group : main;
  } catch {
    return main; // ENOENT: it has just ended.
  }
}
