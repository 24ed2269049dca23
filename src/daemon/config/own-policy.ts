/** The policy file that the person edits, changed by programs: nothing is written that the daemon would refuse. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { parse } from 'yaml';
import * as z from 'zod';
import { showLine } from '../../base/text/shown-text.ts';
import { fleetPolicyFile } from '../../fleet/policy/policy-path.ts';
import { nearest } from '../../pipeline/input/nearest.ts';
import { parsePolicy } from '../../policy/load.ts';
import { PolicyError } from '../../policy/policy-error.ts';
import { builtinToolset, effectsOfBuiltin } from '../../tools/registry.ts';
import { type Config, configSchema, readConfigFile } from '../config.ts';
import type { UserDirs } from '../user-dirs.ts';
import { ConfigError } from './config-error.ts';
import { LEVELS, NEW_POLICY, withLevel, withPolicy } from './policy-edits.ts';
import { writeWhole } from './write-whole.ts';

/** A file as it is, and as it would be. */
export interface ProposedFile {
  readonly path: string;
  readonly before: string | undefined;
  readonly after: string;
}

/** The person's own policy file, which need not exist. Throws ConfigError if a built-in policy is in force by name. */
function ownPolicyFile(dirs: UserDirs): string {
  const { configFile } = dirs;
  const named = readConfigFile(configFile).policy;
  if (named !== undefined && /^[a-z-]+$/.test(named))
    throw new ConfigError(
      `${configFile} names the built-in policy ${named}, which can't be edited; write a policy file that extends it, name that file in the configuration, and run init again`,
    );
  return named === undefined ? join(dirname(configFile), 'policy.yaml') : policyPath(named, dirs);
}

/** Changes the policy file of the person, and names that file in the configuration if none is. Throws ConfigError. */
export function changePolicy(change: (text: string) => string, dirs: UserDirs): ProposedFile {
  const files = changedPolicy(change, dirs);
  for (const { path, before, after } of files) if (after !== before) writeWhole(path, after);
  return files[1];
}

/** The changes of configuration and policy by which `change` would be in force. Throws ConfigError. */
export const changedPolicy = (change: (text: string) => string, dirs: UserDirs): [ProposedFile, ProposedFile] =>
  proposedFiles(dirs, {
    policy: (text) => change(text ?? NEW_POLICY('default')),
    config: (text) => withPolicy(text, 'policy.yaml'),
  });

/** When a changed policy file counts. */
export const whenApplied = ({ before }: Pick<ProposedFile, 'before'>): string =>
  before === undefined ? 'start the daemon anew to apply it: ringfence stop' : 'a running daemon applies it at once';

/** The change of a policy file by which calls of a tool are decided so. Throws ConfigError for no such tool or level. */
export function toLevel(tool: string, level: string): (text: string) => string {
  const to = LEVELS.find((it) => it === level);
  if (!to) throw new ConfigError(`the level is one of ${LEVELS.join(', ')}, not ${showLine(level)}`);
  const tools = builtinToolset();
  const named = tools.get(tool)?.tool.name ?? (/^[a-z][a-z0-9_]*__[a-z0-9_]+$/.test(tool) ? tool : undefined);
  if (named !== undefined) return (text) => withLevel(text, named, to);
  const close = nearest(tool, tools.keys());
  const hint = close === undefined ? 'ringfence tools lists them' : `did you mean ${close}?`;
  throw new ConfigError(`there is no tool ${showLine(tool)}; ${hint}`);
}

/**
 * The change of the file that is in force, or of the person's own where a built-in policy is. `isInForce` says whether a daemon reads
 * it without a restart. Throws ConfigError if no file of the person decides.
 */
export function changeInForce(
  change: (text: string) => string,
  { policy, policyOrigin, dirs }: Pick<Config, 'policy' | 'policyOrigin' | 'dirs'>,
): { files: readonly ProposedFile[]; isInForce: boolean } {
  if (policy === fleetPolicyFile(dirs.stateDir)) throw new ConfigError('the policy in force is that of the fleet');
  if (!isAbsolute(policy)) {
    if (policyOrigin.from !== 'default' && policyOrigin.from !== 'file')
      throw new ConfigError(`the policy in force is the built-in ${policy}, named by the ${policyOrigin.from}`);
    return { files: changedPolicy(change, dirs), isInForce: false };
  }
  const before = readFileSync(policy, 'utf8');
  const after = change(before);
  checkPolicy(policy, after);
  return { files: [{ path: policy, before, after }], isInForce: true };
}

interface Changes {
  policy(text: string | undefined): string;
  config(text: string | undefined): string;
}

/** The changes of config and policy file. Throws ConfigError if existing or resulting files are invalid. */
export function proposedFiles(dirs: UserDirs, changes: Changes): [ProposedFile, ProposedFile] {
  const { configFile } = dirs;
  const policyFile = ownPolicyFile(dirs);
  const [config, policy] = [configFile, policyFile].map((it) =>
    existsSync(it) ? readFileSync(it, 'utf8') : undefined,
  );
  const [after, configAfter] = [changes.policy(policy), changes.config(config)];
  checkPolicy(policyFile, after);
  checkConfig(configFile, configAfter);
  return [
    { path: configFile, before: config, after: configAfter },
    { path: policyFile, before: policy, after },
  ];
}

function policyPath(named: string, { home, configFile }: UserDirs): string {
  if (named.startsWith('~/')) return join(home, named.slice(2));
  return isAbsolute(named) ? named : resolve(dirname(configFile), named);
}

/** Refuses to write a policy that the daemon would reject. Throws ConfigError. */
export function checkPolicy(path: string, text: string): void {
  try {
    parsePolicy(text, path, { effectsOf: effectsOfBuiltin });
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error;
    throw new ConfigError(`with the additions, ${path} is not valid:\n${error.message}`);
  }
}

function checkConfig(path: string, text: string): void {
  const config = configSchema.safeParse(parse(text), { jitless: true });
  if (!config.success)
    throw new ConfigError(`with the additions, ${path} is not valid: ${z.prettifyError(config.error)}`);
}
