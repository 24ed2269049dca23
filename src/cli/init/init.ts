/**
 * `ringfence init`: inspects the current folder and proposes what an agent's everyday work in it needs: the workspace, the hosts of its
 * package managers, the person's toolchains, and which of two policies is in force. Writes after confirmation.
 */

import { existsSync, realpathSync } from 'node:fs';
import { dirname } from 'node:path';
import { readAdded, writeAdded } from '../../daemon/config/added.ts';
import {
  changePolicy,
  type ProposedFile,
  proposedFiles,
  toLevel,
  whenApplied,
} from '../../daemon/config/own-policy.ts';
import { writeWhole } from '../../daemon/config/write-whole.ts';
import { checkWorkspace, readConfigFile } from '../../daemon/config.ts';
import { findUserDirs, makeStateDir, type UserDirs } from '../../daemon/user-dirs.ts';
import type { CliCaller } from '../connect.ts';
import { EXIT, harmless, print, printJson, say } from '../output.ts';
import { askPerson, mayChange, showChange } from '../own-files.ts';
import { findProjectTools } from './project.ts';
import { type PolicyProposal, withProject, withSettings } from './proposal.ts';
import { findPinned, findToolchains } from './toolchains.ts';

export interface InitFlags {
  /** Show the changes without writing them. */
  readonly print?: boolean;
  /** Write without asking. */
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** Returns the exit code. Throws UsageError, ConfigError for a folder that can never be a workspace. */
export async function init(flags: InitFlags, { flags: places_, env, cwd }: CliCaller): Promise<number> {
  const dirs = findUserDirs(places_, env);
  const folder = checkWorkspace(cwd, { dirs });
  const added = existsSync(dirs.stateDir) ? readAdded(dirs) : [];
  const isNew = !added.includes(folder);
  const home = existsSync(dirs.home) ? realpathSync(dirs.home) : dirs.home;
  const toolchainsAt = { home, closed: [folder, ...added, dirs.stateDir, dirname(dirs.socket)] };
  const toolchains = findToolchains({ path: env.PATH ?? '', ...toolchainsAt });
  const proposal: PolicyProposal = {
    workspace: folder,
    base: await chosenPolicy(dirs, flags),
    tools: findProjectTools(folder),
    toolchains,
    pinned: findPinned(folder, toolchainsAt),
  };
  const changes = proposedFiles(dirs, {
    policy: (text) => withProject(text, proposal),
    config: (text) => withSettings(text, proposal, 'policy.yaml'),
  }).filter((it) => it.after !== it.before);
  const isDone = !isNew && changes.length === 0;
  if (!flags.json) await show(proposal, { folder, changes, isDone });
  const isWritten = !isDone && !flags.print && (await mayChange(toTargets(changes, isNew, folder), flags));
  if (isWritten) {
    makeStateDir(dirs.stateDir);
    for (const { path, after } of changes) writeWhole(path, after);
    if (isNew) writeAdded(dirs, [...added, folder]);
    say(
      'written; a running daemon applies policy changes at once; restart it to apply toolchains or a new policy file',
    );
  }
  if (flags.json)
    printJson({
      ...proposal,
      files: changes.map(({ path, after }) => ({ path, after })),
      isWritten,
    });
  return isWritten || isDone || flags.print ? EXIT.OK : EXIT.FAILED;
}

const CHOICES = `Which policy should be in force?
  1  default   commands run in their sandbox without a question; you are asked where something leaves it
  2  careful   you are asked before each command that does more than look, each deletion and each request
[1] `;

/** The policy that a new policy file extends; asked at a terminal, once. */
async function chosenPolicy(
  { configFile }: UserDirs,
  { yes, print: shows, json }: InitFlags,
): Promise<'default' | 'careful'> {
  const isThere = existsSync(configFile) && readConfigFile(configFile).policy !== undefined;
  if (isThere || yes || shows || json || !process.stdin.isTTY) return 'default';
  return /^(2|careful)$/i.test(await askPerson(CHOICES)) ? 'careful' : 'default';
}

const toTargets = (changes: readonly ProposedFile[], isNew: boolean, folder: string): string =>
  [...changes.map((it) => it.path), ...(isNew ? [`the workspaces: ${folder}`] : [])].join(', ');

async function show(
  proposal: PolicyProposal,
  { folder, changes, isDone }: { folder: string; changes: readonly ProposedFile[]; isDone: boolean },
): Promise<void> {
  for (const it of describe(proposal, folder)) print(harmless(it));
  for (const { path, before, after } of changes) await showChange(path, before, after);
  if (isDone) print('this folder is already set up; nothing was changed');
}

function* describe({ tools, toolchains, pinned }: PolicyProposal, folder: string): Generator<string> {
  yield `workspace   ${folder}`;
  for (const { name, evidence, hosts } of tools)
    yield `${name.padEnd(11)} ${evidence}${hosts.length > 0 ? `: packages from ${hosts.join(', ')}` : ''}`;
  for (const { path, manager } of toolchains) yield `toolchain   ${path} (${manager})`;
  for (const { path, manager } of pinned) yield `toolchain   ${path} (${manager}), for this project`;
  if (tools.length === 0) yield 'found no package.json, pyproject.toml, Cargo.toml, go.mod or Makefile';
}

/** `ringfence policy set TOOL LEVEL`: writes the rule that decides calls of a tool, and shows the change. Throws ConfigError. */
export async function policySet(tool: string, level: string, { flags, env }: CliCaller): Promise<number> {
  const file = changePolicy(toLevel(tool, level), findUserDirs(flags, env));
  if (file.after === file.before) say(`${file.path} says so already`);
  else {
    await showChange(file.path, file.before, file.after);
    say(harmless(`written to ${file.path}; ${whenApplied(file)}`));
  }
  return EXIT.OK;
}
