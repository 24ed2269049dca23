/** `ringfence install`: registers us in the configuration of a program that speaks MCP. */

import { existsSync, rmSync } from 'node:fs';
import { isRecord } from '../../base/text/values.ts';
import { writeWhole } from '../../daemon/config/write-whole.ts';
import { findUserDirs } from '../../daemon/user-dirs.ts';
import type { CliCaller } from '../connect.ts';
import { EXIT, harmless, OperatorError, print, printJson, say, UsageError } from '../output.ts';
import { mayChange, showChange } from '../own-files.ts';
import { AGENT_NAMES, AGENTS, type Denials } from './agents.ts';
import { readJson } from './config-edit.ts';
import { denialEdit, entryEdit, type FileChange, InstallRecords, planChanges, textOf } from './file-changes.ts';
import { findOnPath, launchOf } from './launch.ts';
import { type ConfigTarget, type InstallContext, MCP_CLIENTS, type Scope, type ServerLaunch } from './mcp-clients.ts';

export interface InstallFlags {
  readonly client: string;
  readonly scope: Scope;
  /** Show the changes without writing them. */
  readonly print?: boolean;
  /** Undo an earlier install. */
  readonly undo?: boolean;
  /** Write without asking. */
  readonly yes?: boolean;
  /** Also deny the client's own file, shell and web tools. */
  readonly exclusive?: boolean;
  /** Report the changes as one JSON value. */
  readonly json?: boolean;
}

/** Returns the exit code. */
export async function install(flags: InstallFlags, caller: CliCaller): Promise<number> {
  const dirs = findUserDirs(caller.flags, caller.env);
  const toTarget = MCP_CLIENTS[flags.client];
  if (!toTarget)
    throw new UsageError(`no client is named ${flags.client}; the clients are: ${Object.keys(MCP_CLIENTS).join(', ')}`);
  const around = { ...dirs, cwd: caller.cwd };
  const denials = flags.exclusive ? denialsOf(flags, around) : undefined;
  const launch = launchOf(caller);
  const target = toTarget(flags.scope, launch, around);
  const byItself =
    target.own && !flags.print && findOnPath(target.own.program, caller.env.PATH) ? target.own : undefined;
  if (byItself && !denials) return (await byClient(byItself, flags, caller)).exitCode;
  // The client's own command fails where its list has the entry, or where it hasn't and is to remove it.
  const isOwnTurn = byItself && hasEntry(target) === (flags.undo ?? false);
  const ran = isOwnTurn ? await byClient(byItself, { ...flags, json: false, quiet: flags.json }, caller) : undefined;
  if (ran && ran.exitCode !== EXIT.OK) return ran.exitCode;
  const records = new InstallRecords(dirs);
  const edits = [...(byItself ? [] : [entryEdit(target)]), ...(denials ? [denialEdit(denials)] : [])];
  const changes = planChanges(edits, records, flags.undo ?? false);
  const isWritten = await change(changes, records, flags);
  if (flags.json) tellAsJson(flags, changes, { written: isWritten === true, ran: ran?.command });
  if (isWritten === false) return EXIT.FAILED;
  if (isWritten && !flags.json) sayWhatNext(flags, changes, launch);
  return EXIT.OK;
}

/** The settings that deny the client's own tools. Throws OperatorError for a client that has no such settings. */
function denialsOf({ client, scope }: InstallFlags, around: InstallContext): Denials {
  const name = AGENT_NAMES.find((it) => it === client);
  if (name !== undefined) return AGENTS[name].denials(scope, around);
  throw new UsageError(
    `${client} has no settings that deny its own tools; --exclusive is for: ${AGENT_NAMES.join(', ')}`,
  );
}

const hasEntry = ({ files, path: [list, name] }: ConfigTarget): boolean => {
  const path = files.find((it) => existsSync(it));
  const known = path === undefined ? undefined : readJson(textOf(path))?.[list];
  return isRecord(known) && known[name] !== undefined;
};

/** Shows the changes and writes them if the person agrees; undefined if there is nothing to write. */
async function change(
  changes: readonly FileChange[],
  records: InstallRecords,
  flags: InstallFlags,
): Promise<boolean | undefined> {
  const real = changes.filter((it) => it.after !== it.before);
  if (!flags.json) {
    for (const { path, before, after } of real) await showChange(path, before, after);
    const [{ path } = { path: 'the file' }] = changes;
    const has = flags.exclusive ? 'these settings' : 'Ringfence';
    if (real.length === 0)
      print(`${path} ${flags.undo ? `does not have ${has}` : `already has ${has}`}; nothing was changed`);
  }
  if (real.length === 0 || flags.print) return undefined;
  if (!(await mayWrite(real.map((it) => it.path).join(' and '), flags))) return false;
  for (const it of real) {
    if (it.after === undefined) rmSync(it.path);
    else writeWhole(it.path, it.after);
    records.note(it, flags.undo ?? false);
  }
  return true;
}

/** One file of a plain install is told as before there was --exclusive. */
function tellAsJson(
  { client, scope, exclusive }: InstallFlags,
  changes: readonly FileChange[],
  { written, ran }: { readonly written: boolean; readonly ran: readonly string[] | undefined },
): void {
  const files = changes.map(({ path, before, after }) => ({
    file: path,
    before: before ?? null,
    after: after ?? null,
  }));
  if (!exclusive) printJson({ client, scope, ...files[0], written });
  else printJson({ client, scope, exclusive, ran, files, written });
}

function sayWhatNext(flags: InstallFlags, changes: readonly FileChange[], launch: ServerLaunch): void {
  const exclusive = flags.exclusive ? ' --exclusive' : '';
  const again = `ringfence install --client ${flags.client} --scope ${flags.scope}${exclusive}`;
  const paths = changes.map((it) => it.path).join(' and ');
  say(flags.undo ? `changed ${paths}; to install again: ${again}` : `changed ${paths}; to undo: ${again} --undo`);
  if (!flags.undo)
    say(`${flags.client} starts \`${[launch.command, ...launch.args].join(' ')}\` the next time it runs`);
}

/** Asks as `mayChange` does, but with --json it requires --yes, since a question would end up inside the JSON. */
function mayWrite(what: string, flags: InstallFlags): Promise<boolean> {
  if (!flags.json || flags.yes) return mayChange(what, flags);
  throw new UsageError('nothing was changed: with --json, add --print to see the changes or --yes to write them');
}

/** Installs through the client's own command, which reports what it did. */
async function byClient(
  { program, add, remove }: NonNullable<ConfigTarget['own']>,
  flags: InstallFlags & { readonly quiet?: boolean | undefined },
  { env, cwd }: CliCaller,
): Promise<{ readonly exitCode: number; readonly command: readonly string[] }> {
  const args = flags.undo ? remove : add;
  const command = [program, ...args];
  const isQuiet = flags.json || flags.quiet;
  if (!isQuiet) print(harmless(command.join(' ')));
  if (!(await mayWrite('its own configuration', { ...flags, json: isQuiet ?? false })))
    return { exitCode: EXIT.FAILED, command };
  const stdout = isQuiet ? 2 : 'inherit';
  const { execa } = await import('execa');
  const stdio = ['ignore', stdout, 'inherit'] as const;
  const ran = await execa(program, args, { env: { ...env }, extendEnv: false, cwd, stdio, reject: false });
  if (ran.exitCode === undefined && !ran.isTerminated)
    throw new OperatorError(`can't run ${program}: ${ran.originalMessage}`);
  const written = ran.exitCode === 0;
  if (flags.json) printJson({ client: flags.client, scope: flags.scope, ran: command, written });
  return { exitCode: written ? EXIT.OK : EXIT.FAILED, command };
}
