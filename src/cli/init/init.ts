/**
 * `ringfence init`: inspects the current folder and proposes what an agent's everyday work in it needs: the workspace, the hosts of its
 * package managers, the person's toolchains, and which of two policies is in force. Writes after confirmation.
 */
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { parse } from 'yaml';
import * as z from 'zod';
import { checkWorkspace, configSchema, readConfigFile } from '../../daemon/config.ts';
import { findUserDirs, makeStateDir, type UserDirs } from '../../daemon/user-dirs.ts';
import { readAdded, writeAdded } from '../../daemon/workspaces.ts';
import { nearest } from '../../pipeline/input/nearest.ts';
import { parsePolicy } from '../../policy/load.ts';
import { PolicyError } from '../../policy/policy-error.ts';
import { builtinToolset, effectsOfBuiltin } from '../../tools/registry.ts';
import type { CliCaller } from '../connect.ts';
import { CliError, EXIT, harmless, print, printJson, say } from '../output.ts';
import { askPerson, mayChange, showChange, writeWhole } from '../own-files.ts';
import { findProjectTools } from './project.ts';
import { LEVELS, type PolicyProposal, withLevel, withProject, withSettings } from './proposal.ts';
import { findPinned, findToolchains } from './toolchains.ts';

export interface InitFlags {
  /** Show the changes without writing them. */
  readonly print?: boolean;
  /** Write without asking. */
  readonly yes?: boolean;
  readonly json?: boolean;
}

interface ProposedFile {
  readonly path: string;
  readonly before: string | undefined;
  readonly after: string;
}

/** Returns the exit code. Throws CliError, ConfigError for a folder that can never be a workspace. */
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
  const changes = changesFor(proposal, dirs).filter((it) => it.after !== it.before);
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

/** The person's own policy file, which need not exist. Throws CliError if a built-in policy is in force by name. */
function ownPolicyFile(dirs: UserDirs): string {
  const { configFile } = dirs;
  const named = readConfigFile(configFile).policy;
  if (named !== undefined && /^[a-z-]+$/.test(named))
    throw new CliError(
      EXIT.FAILED,
      `${configFile} names the built-in policy ${named}, which can't be edited; write a policy file that extends it, name that file in the configuration, and run init again`,
    );
  return named === undefined ? join(dirname(configFile), 'policy.yaml') : policyPath(named, dirs);
}

/** Changes the policy file of the person, and names that file in the configuration if none is. Throws CliError. */
export function changePolicy(change: (text: string) => string, dirs: UserDirs): ProposedFile {
  const none = { tools: [], toolchains: [], pinned: [], workspace: '', base: 'default' } as const;
  const [config, policy] = changesFor(none, dirs, change) as [ProposedFile, ProposedFile];
  for (const { path, before, after } of [config, policy]) if (after !== before) writeWhole(path, after);
  return policy;
}

/** When a changed policy file counts. */
export const whenApplied = ({ before }: Pick<ProposedFile, 'before'>): string =>
  before === undefined ? 'start the daemon anew to apply it: ringfence stop' : 'a running daemon applies it at once';

/** `ringfence policy set TOOL LEVEL`: writes the rule that decides calls of a tool, and shows the change. Throws CliError. */
export async function policySet(tool: string, level: string, { flags, env }: CliCaller): Promise<number> {
  const to = LEVELS.find((it) => it === level);
  if (!to) throw new CliError(EXIT.USAGE, `the level is one of ${LEVELS.join(', ')}, not ${harmless(level)}`);
  const named =
    builtinToolset().get(tool)?.tool.name ?? (/^[a-z][a-z0-9_]*__[a-z0-9_]+$/.test(tool) ? tool : undefined);
  if (named === undefined) {
    const close = nearest(tool, builtinToolset().keys());
    const hint = close === undefined ? 'ringfence tools lists them' : `did you mean ${close}?`;
    throw new CliError(EXIT.USAGE, `there is no tool ${harmless(tool)}; ${hint}`);
  }
  const file = changePolicy((text) => withLevel(text, named, to), findUserDirs(flags, env));
  if (file.after === file.before) say(`${file.path} says so already`);
  else {
    await showChange(file.path, file.before, file.after);
    say(harmless(`written to ${file.path}; ${whenApplied(file)}`));
  }
  return EXIT.OK;
}

/** The changes of config and policy file. Throws CliError if existing or resulting files are invalid. */
function changesFor(
  proposal: PolicyProposal,
  dirs: UserDirs,
  withMore: (policy: string) => string = (it) => it,
): ProposedFile[] {
  const { configFile } = dirs;
  const policyFile = ownPolicyFile(dirs);
  const before = existsSync(policyFile) ? readFileSync(policyFile, 'utf8') : undefined;
  const after = withMore(withProject(before, proposal));
  const config = existsSync(configFile) ? readFileSync(configFile, 'utf8') : undefined;
  const configAfter = withSettings(config, proposal, 'policy.yaml');
  checkTaken({ policyFile, after, configFile, configAfter });
  return [
    { path: configFile, before: config, after: configAfter },
    { path: policyFile, before, after },
  ];
}

function policyPath(named: string, { home, configFile }: UserDirs): string {
  if (named.startsWith('~/')) return join(home, named.slice(2));
  return isAbsolute(named) ? named : resolve(dirname(configFile), named);
}

/** Refuses to write a proposal that the daemon would reject. Throws CliError. */
function checkTaken(it: { policyFile: string; after: string; configFile: string; configAfter: string }): void {
  try {
    parsePolicy(it.after, it.policyFile, { effectsOf: effectsOfBuiltin });
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error;
    throw new CliError(EXIT.FAILED, `with the additions, ${it.policyFile} is not valid:\n${error.message}`);
  }
  const config = configSchema.safeParse(parse(it.configAfter), { jitless: true });
  if (!config.success)
    throw new CliError(
      EXIT.FAILED,
      `with the additions, ${it.configFile} is not valid: ${z.prettifyError(config.error)}`,
    );
}
