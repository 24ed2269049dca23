/** A shell that keeps its folder and exported variables, over one session: each command is a call of its own. */
import { randomUUID } from 'node:crypto';
import { relative } from 'node:path';
import { isInside } from '../../base/paths.ts';
import type { Client } from '../../client/client.ts';
import type { CliCaller } from '../connect.ts';
import { harmless, say } from '../output.ts';
import { mayChangeShell } from './command-lines.ts';
import { ReportedOutput, type ShellState, withReport } from './kept-state.ts';
import { runShellCommand } from './run-command.ts';

export class KeptShell {
  readonly root: string;
  readonly #client: Client;
  readonly #caller: CliCaller;
  #state: ShellState;
  /** Exit code of the last command. */
  exitCode = 0;

  constructor(client: Client, caller: CliCaller, { root, ...state }: ShellState & { readonly root: string }) {
    this.root = root;
    this.#client = client;
    this.#caller = caller;
    this.#state = state;
  }

  get folder(): string {
    return this.#state.folder;
  }

  /** Runs one command to its end. Returns its exit code. */
  async run(command: string): Promise<number> {
    const { folder, exported } = this.#state;
    const mark = `ringfence-${randomUUID()}`;
    const report = mayChangeShell(command) ? new ReportedOutput(mark) : undefined;
    // A bash of its own knows nothing of the command before.
    const told = /\$\?/.test(command) && this.exitCode !== 0 ? `(exit ${this.exitCode}); ${command}` : command;
    this.exitCode = await runShellCommand(this.#client, this.#caller, {
      command: report ? withReport(told, mark) : told,
      cwd: relative(this.root, folder) || '.',
      exported,
      report,
    });
    const after = report?.state();
    if (after) this.#keep(after);
    return this.exitCode;
  }

  /** A later command can't start outside of the workspace. */
  #keep(after: ShellState): void {
    const isKept = isInside(this.root, after.folder);
    if (!isKept) say(`stays in ${harmless(this.folder)}: ${harmless(after.folder)} is outside of the workspace`);
    this.#state = isKept ? after : { ...after, folder: this.folder };
  }
}
