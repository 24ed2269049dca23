/** The screen of a terminal, drawn in a thread of its own; it is lost if that thread had to be ended. */

import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Limits } from '../src/base/limits.ts';
import type { Powers } from '../src/base/powers.ts';
import type { Size } from '../src/sandbox/terminal/pty.ts';
import type { Screen } from '../src/sandbox/terminal/terminal.ts';
import type { TerminalScreen } from '../src/tools/terminals.ts';

export type ToScreen = { readonly chunk: Uint8Array } | { readonly size: Size } | { readonly picture: number };
export type FromScreen =
  | { readonly taken: number }
  | { readonly reply: string }
  | { readonly picture: TerminalScreen; readonly id: number };

export class ScreenThread implements Screen {
  onReply: (text: string) => void = () => {};
  readonly #worker: Worker;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #pendingPictures = new Map<number, (picture: TerminalScreen | undefined) => void>();
  #pendingRoom: PromiseWithResolvers<void> | undefined;
  #untaken = 0;
  #nextId = 1;
  #isLost = false;

  constructor(size: Size, limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
    this.#worker = new Worker(new URL(`./screen-thread${extname(import.meta.url)}`, import.meta.url), {
      workerData: size,
      resourceLimits: { maxOldGenerationSizeMb: limits.terminalScreenHeapMb },
      stdout: true,
      stderr: true,
    });
    this.#worker.unref();
    this.#worker.on('message', (message: FromScreen) => this.#onMessage(message));
    // Out of memory, or a sequence that xterm can't handle.
    this.#worker.on('error', () => this.close());
    this.#worker.on('exit', () => this.close());
  }

  write(chunk: Buffer): Promise<void> | undefined {
    if (this.#isLost) return undefined;
    this.#send({ chunk: new Uint8Array(chunk) });
    this.#untaken += chunk.length;
    if (this.#untaken < this.#limits.outputWindowBytes) return undefined;
    this.#pendingRoom ??= Promise.withResolvers();
    return this.#pendingRoom.promise;
  }

  resize(size: Size): void {
    this.#send({ size });
  }

  /** The screen after all earlier writes; undefined if it is lost. */
  picture(): Promise<TerminalScreen | undefined> {
    if (this.#isLost) return Promise.resolve(undefined);
    const id = this.#nextId++;
    return new Promise((resolve) => {
      // Some earlier output keeps the thread busy for ever.
      const timer = this.#powers.after(this.#limits.terminalScreenMs, () => this.close());
      this.#pendingPictures.set(id, (picture) => {
        timer.cancel();
        resolve(picture);
      });
      this.#send({ picture: id });
    });
  }

  close(): void {
    if (this.#isLost) return;
    this.#isLost = true;
    void this.#worker.terminate();
    this.#pendingRoom?.resolve();
    for (const tell of this.#pendingPictures.values()) tell(undefined);
    this.#pendingPictures.clear();
  }

  #send(message: ToScreen): void {
    if (!this.#isLost) this.#worker.postMessage(message);
  }

  #onMessage(message: FromScreen): void {
    if ('reply' in message) return this.onReply(message.reply);
    if ('picture' in message) {
      this.#pendingPictures.get(message.id)?.(message.picture);
      return void this.#pendingPictures.delete(message.id);
    }
    this.#untaken -= message.taken;
    if (this.#untaken >= this.#limits.outputWindowBytes) return;
    this.#pendingRoom?.resolve();
    this.#pendingRoom = undefined;
  }
}
