/** What every verb is made with: its common flags, its exit code, its way to the daemon. */
import type { Command, CommandOptions } from 'commander';
import type { Client } from '../../client.ts';
import type { Environment } from '../../places.ts';
import { type Caller, type ConnectFlags, connect } from '../connect.ts';
import { CliError, EXIT } from '../output.ts';

/** Flags of every verb: `json` asks for JSON on standard output and nothing else there. */
export type VerbFlags = ConnectFlags & { readonly json?: boolean };

export class Verbs {
  readonly program: Command;
  readonly env: Environment;
  /** The exit code of the verb that ran. */
  exitCode: number = EXIT.OK;

  constructor(program: Command, env: Environment) {
    this.program = program;
    this.env = env;
  }

  /** A verb that talks to a daemon. */
  add(name: string, description: string, parent = this.program, options: CommandOptions = {}): Command {
    return this.addOffline(name, description, parent, options)
      .option('--socket <path>', "the daemon's socket")
      .option('--state <dir>', "the daemon's state directory")
      .option('--no-autostart', 'fail rather than start a daemon');
  }

  /** A verb that needs none. */
  addOffline(name: string, description: string, parent = this.program, options: CommandOptions = {}): Command {
    return parent.command(name, options).description(description).option('--json', 'print JSON, and nothing else');
  }

  /** A verb with others below it. */
  addGroup(name: string, description: string): Command {
    return this.program.command(name).description(description);
  }

  /** An action whose number is the exit code. */
  ending<A extends unknown[]>(action: (...args: A) => number | Promise<number>): (...args: A) => Promise<void> {
    return async (...args) => {
      this.exitCode = await action(...args);
    };
  }

  /** Whoever calls from the folder that this was started in. Throws CliError where it was removed under us. */
  callerIn(flags: ConnectFlags): Caller {
    const cwd = folderNow();
    if (cwd === undefined)
      throw new CliError(EXIT.USAGE, 'the folder that this was started in is gone; go to one that is there');
    return { flags, env: this.env, cwd };
  }

  /** Whoever calls from anywhere: the folder says nothing to this verb, and may be gone. */
  caller(flags: ConnectFlags): Caller {
    return { flags, env: this.env, cwd: folderNow() ?? '/' };
  }

  /** What the person who runs the daemon does in it, from any folder, over a connection with the operator's role. */
  async asOperator(flags: ConnectFlags, action: (client: Client) => Promise<number>): Promise<number> {
    await using client = await connect({ ...this.caller({ ...flags, autostart: false }), role: 'operator' });
    return await action(client); // Before the connection is closed.
  }
}

/** Adds one more value of a flag that may be given again. */
export const collect = (value: string, before: string[] = []): string[] => [...before, value];

function folderNow(): string | undefined {
  try {
    return process.cwd();
  } catch {
    return undefined; // ENOENT: it was removed.
  }
}
