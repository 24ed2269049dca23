/** `ringfence install`: registers us in the configuration of a program that speaks MCP. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { findUserDirs, makeStateDir, type UserDirs } from '../../daemon/user-dirs.ts';
import type { CliCaller } from '../connect.ts';
import { CliError, EXIT, harmless, print, printJson, say } from '../output.ts';
import { mayChange, showChange, writeWhole } from '../own-files.ts';
import { withEntry } from './config-edit.ts';
import { findOnPath, launchOf } from './launch.ts';
import { type ConfigTarget, MCP_CLIENTS, type Scope } from './mcp-clients.ts';

export interface InstallFlags {
  readonly client: string;
  readonly scope: Scope;
  /** Show the changes without writing them. */
  readonly print?: boolean;
  /** Undo an earlier install. */
  readonly undo?: boolean;
  /** Write without asking. */
  readonly yes?: boolean;
  /** Report the changes as one JSON value. */
  readonly json?: boolean;
}

/** Returns the exit code. */
export async function install(flags: InstallFlags, caller: CliCaller): Promise<number> {
  const dirs = findUserDirs(caller.flags, caller.env);
  const toTarget = MCP_CLIENTS[flags.client];
  if (!toTarget)
    throw new CliError(
      EXIT.USAGE,
      `no client is named ${flags.client}; the clients are: ${Object.keys(MCP_CLIENTS).join(', ')}`,
    );
  const launch = launchOf(caller);
  const target = toTarget(flags.scope, launch, { ...dirs, cwd: caller.cwd });
  if (target.own && !flags.print && findOnPath(target.own.program, caller.env.PATH) !== undefined)
    return byClient(target.own, flags, caller);
  const path = target.files.find((it) => existsSync(it)) ?? (target.files[0] as string);
  const before = existsSync(path) ? textOf(path) : undefined;
  const backups = readKept(dirs);
  const after = flags.undo ? undone(path, before, { target, kept: backups }) : edited(path, before, target);
  const tell = (written: boolean) => {
    const { client, scope } = flags;
    printJson({ client, scope, file: path, before: before ?? null, after: after ?? null, written });
  };
  if (after === before) {
    if (flags.json) tell(false);
    else print(`${path} ${flags.undo ? 'does not have Ringfence' : 'already has Ringfence'}; nothing was changed`);
    return EXIT.OK;
  }
  if (!flags.json) await showChange(path, before, after);
  if (flags.print) {
    if (flags.json) tell(false);
    return EXIT.OK;
  }
  if (!(await mayWrite(path, flags))) return EXIT.FAILED;
  if (after === undefined) rmSync(path);
  else writeWhole(path, after);
  const { [path]: first, ...others } = backups;
  // Undo restores the state before the first of several installs.
  const was = first && before !== undefined && first.after === digestOf(before) ? first.before : (before ?? null);
  const isKept = !flags.undo && after !== undefined && (was ?? '').length <= KEPT_CHARS_MAX;
  writeKept(dirs, isKept ? { ...others, [path]: { before: was, after: digestOf(after) } } : others);
  if (flags.json) {
    tell(true);
    return EXIT.OK;
  }
  const again = `ringfence install --client ${flags.client} --scope ${flags.scope}`;
  say(flags.undo ? `changed ${path}; to install again: ${again}` : `changed ${path}; to undo: ${again} --undo`);
  if (!flags.undo)
    say(`${flags.client} starts \`${[launch.command, ...launch.args].join(' ')}\` the next time it runs`);
  return EXIT.OK;
}

/** Asks as `mayChange` does, but with --json it requires --yes, since a question would end up inside the JSON. */
function mayWrite(what: string, flags: InstallFlags): Promise<boolean> {
  if (!flags.json || flags.yes) return mayChange(what, flags);
  throw new CliError(
    EXIT.USAGE,
    'nothing was changed: with --json, add --print to see the changes or --yes to write them',
  );
}

/** Installs through the client's own command, which reports what it did. Returns the exit code. */
async function byClient(
  { program, add, remove }: NonNullable<ConfigTarget['own']>,
  flags: InstallFlags,
  { env, cwd }: CliCaller,
): Promise<number> {
  const args = flags.undo ? remove : add;
  if (!flags.json) print(harmless([program, ...args].join(' ')));
  if (!(await mayWrite('its own configuration', flags))) return EXIT.FAILED;
  const stdout = flags.json ? 2 : 'inherit';
  const { execa } = await import('execa');
  const stdio = ['ignore', stdout, 'inherit'] as const;
  const ran = await execa(program, args, { env: { ...env }, extendEnv: false, cwd, stdio, reject: false });
  if (ran.exitCode === undefined && !ran.isTerminated)
    throw new CliError(EXIT.FAILED, `can't run ${program}: ${ran.originalMessage}`);
  const written = ran.exitCode === 0;
  if (flags.json) printJson({ client: flags.client, scope: flags.scope, ran: [program, ...args], written });
  return written ? EXIT.OK : EXIT.FAILED;
}

/** The text of a file. Throws CliError unless it is UTF-8, since other encodings could not be restored. */
function textOf(path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(readFileSync(path));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'the file is not UTF-8' : code;
    throw new CliError(EXIT.FAILED, `can't read ${path}: ${why}`);
  }
}

function edited(path: string, before: string | undefined, target: ConfigTarget): string {
  try {
    return withEntry(before ?? '', target, target.entry);
  } catch (error) {
    if (error instanceof CliError) throw new CliError(error.exitCode, `can't change ${path}: ${error.message}`);
    throw error;
  }
}

/**
 * The text before the install if nothing else has changed it since; otherwise the current text without our entry. Undefined if the file did
 * not exist.
 */
function undone(
  path: string,
  before: string | undefined,
  { target, kept }: { target: ConfigTarget; kept: InstallRecords },
): string | undefined {
  const known = kept[path];
  if (before === undefined) return undefined;
  if (known?.after === digestOf(before)) return known.before ?? undefined;
  return withEntry(before, target, undefined);
}

const KEPT_CHARS_MAX = 1024 * 1024;
const keptSchema = z.record(z.string(), z.strictObject({ before: z.string().nullable(), after: z.string() }));
/** Each file's text before the install, null if it did not exist, and the digest of what we wrote; keyed by path. */
type InstallRecords = z.output<typeof keptSchema>;

const keptPath = ({ stateDir }: UserDirs): string => join(stateDir, 'installs.json');

function readKept(dirs: UserDirs): InstallRecords {
  const path = keptPath(dirs);
  if (!existsSync(path)) return {};
  try {
    return keptSchema.parse(JSON.parse(textOf(path)));
  } catch {
    throw new CliError(
      EXIT.FAILED,
      `${path} was not written by \`ringfence install\`; remove the file to continue without undo`,
    );
  }
}

function writeKept(dirs: UserDirs, kept: InstallRecords): void {
  makeStateDir(dirs.stateDir);
  writeWhole(keptPath(dirs), JSON.stringify(kept));
}

const digestOf = (text: string): string => createHash('sha256').update(text).digest('hex');
