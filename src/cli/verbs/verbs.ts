/** Common parts of all verbs: flags, exit code, connection to the daemon. */
import type { Command, CommandOptions } from 'commander';
import type { Client } from '../../client/client.ts';
import type { Environment, UserDirs } from '../../daemon/user-dirs.ts';
import type { CliCaller, ConnectFlags } from '../connect.ts';
import type { DoctorFinding } from '../doctor/machine.ts';
import { EXIT, type JsonFlag, UsageError } from '../output.ts';

export type VerbFlags = ConnectFlags & JsonFlag;

/** What a capability adds to the command line: the default export of src/cli/NAME/verbs.ts, which `npm run gen` finds. */
export interface CliCapability {
  addVerbs?(verbs: Verbs): void;
  /** Adds verbs to groups of other capabilities, once all of these are there. */
  joinVerbs?(verbs: Verbs): void;
  /** Lines of `ringfence status`, of the daemon's answer. */
  statusLines?(status: object): string[];
  /** Services of others that the daemon's status tells of, and what is wrong with each. */
  services?(status: object): { readonly label: string; readonly wrong: string | undefined }[];
  /** Further checks of `ringfence doctor`. */
  checks?(client: Client, dirs: Pick<UserDirs, 'stateDir' | 'configFile'>): Promise<DoctorFinding[]>;
}

/** Words, flags and caller to an exit code. */
type CallerAction<A extends unknown[]> = (...args: [...A, CliCaller]) => number | Promise<number>;

export class Verbs {
  readonly program: Command;
  readonly env: Environment;
  readonly capabilities: readonly CliCapability[];
  /** The exit code of the verb that ran. */
  exitCode: number = EXIT.OK;

  constructor(program: Command, env: Environment, capabilities: readonly CliCapability[]) {
    this.program = program;
    this.env = env;
    this.capabilities = capabilities;
  }

  /** Adds a verb that talks to a daemon. */
  add(name: string, description: string, parent = this.program, options: CommandOptions = {}): Command {
    return this.addBeside(name, description, parent, options).option(
      '--no-autostart',
      'fail rather than start a daemon',
    );
  }

  /** Adds a verb that needs no daemon. */
  addOffline(name: string, description: string, parent = this.program, options: CommandOptions = {}): Command {
    return parent.command(name, options).description(description).option('--json', 'print only JSON');
  }

  /** Adds a verb that works on the directories of a daemon, which need not run. */
  addBeside(name: string, description: string, parent = this.program, options: CommandOptions = {}): Command {
    return this.addOffline(name, description, parent, options)
      .option('--socket <path>', "the daemon's socket")
      .option('--state <dir>', "the daemon's state directory");
  }

  /** Adds a verb with subcommands. */
  addGroup(name: string, description: string): Command {
    return this.program.command(name).description(description);
  }

  /** Wraps an action whose return value is the exit code. */
  ending<A extends unknown[]>(action: (...args: A) => number | Promise<number>): (...args: A) => Promise<void> {
    return async (...args) => {
      this.exitCode = await action(...args);
    };
  }

  /** An action whose code is loaded on demand: it gets words, flags, and a caller in the current folder. */
  here<A extends unknown[]>(load: () => Promise<CallerAction<A>>): (...args: unknown[]) => Promise<void> {
    return this.#calling(load, (flags) => this.callerIn(flags));
  }

  /** The same for one that does not depend on the current folder. */
  anywhere<A extends unknown[]>(load: () => Promise<CallerAction<A>>): (...args: unknown[]) => Promise<void> {
    return this.#calling(load, (flags) => this.caller(flags));
  }

  #calling<A extends unknown[]>(load: () => Promise<CallerAction<A>>, callerBy: (flags: ConnectFlags) => CliCaller) {
    return this.ending(async (...args: unknown[]) => {
      // Commander gives the command after the flags.
      const given = args.slice(0, -1) as A;
      return (await load())(...given, callerBy(given.at(-1) as ConnectFlags));
    });
  }

  /** Wraps an action that talks to the daemon as its operator, from any folder; its flags are its last argument. */
  operating<A extends unknown[]>(
    action: (client: Client, ...args: A) => Promise<number>,
  ): (...args: A) => Promise<void> {
    // Commander gives the command after the flags.
    return this.ending((...args) => this.asOperator(args.at(-2) as ConnectFlags, (client) => action(client, ...args)));
  }

  /** A caller in the current folder. Throws UsageError if that folder was removed. */
  callerIn(flags: ConnectFlags): CliCaller {
    const cwd = folderNow();
    if (cwd === undefined)
      throw new UsageError('the current folder was removed; change to another folder and try again');
    return { flags, env: this.env, cwd };
  }

  /** A caller for verbs that do not depend on the current folder, which may be gone. */
  caller(flags: ConnectFlags): CliCaller {
    return { flags, env: this.env, cwd: folderNow() ?? '/' };
  }

  /** Runs an action over a connection with the operator role, from any folder. */
  async asOperator(flags: ConnectFlags, action: (client: Client) => Promise<number>): Promise<number> {
    const { connect } = await import('../connect.ts');
    await using client = await connect({ ...this.caller({ ...flags, autostart: false }), role: 'operator' });
    return await action(client); // Awaited, so that the connection stays open until then.
  }
}

/** Collects the values of a repeatable flag. */
export const collect = (value: string, before: string[] = []): string[] => [...before, value];

function folderNow(): string | undefined {
  try {
    return process.cwd();
  } catch {
    return undefined; // ENOENT: the folder was removed.
  }
}
