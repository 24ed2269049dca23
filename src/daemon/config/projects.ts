/** What commands of one project have beside those of others: programs that come first on PATH, hosts that nobody is asked about. */
import { existsSync, realpathSync } from 'node:fs';
import * as z from 'zod';
import { isInside } from '../../base/paths.ts';
import {
  type Destination,
  type NetworkLayer,
  type NetworkRule,
  parseNetworkEntry,
  refusedName,
} from '../../policy/network.ts';
import { binOf } from '../command-environment.ts';
import { ConfigError } from './config-error.ts';

const text = z.string().min(1).max(4096);

export const projectsSchema = z
  .array(
    z.strictObject({
      workspace: text.describe('Its folder.'),
      hosts: z.array(text).max(64).default([]).describe('As in a `network.allow` of a policy.'),
      toolchains: z.array(text).max(16).default([]).describe('As the key `toolchains`.'),
    }),
  )
  .max(256);

export interface Project {
  /** Absolute and real. */
  readonly workspace: string;
  /** Hosts that commands reach without a question, as after a yes for the project: only where the policy has a person asked. */
  readonly hosts: NetworkLayer;
  /** Folders of its toolchains: absolute and real. */
  readonly toolchains: readonly string[];
}

interface Paths {
  toPath(written: string): string;
  /** Throws ConfigError for a folder that commands may not see. */
  toToolchain(written: string): string;
}

/** Throws ConfigError. */
export const toProjects = (given: z.output<typeof projectsSchema>, { toPath, toToolchain }: Paths): Project[] =>
  given.map(({ workspace, hosts, toolchains }) => ({
    workspace: existsSync(toPath(workspace)) ? realpathSync(toPath(workspace)) : toPath(workspace),
    hosts: hosts.map((it) => toHost(it, workspace)),
    toolchains: toolchains.map(toToolchain),
  }));

function toHost(host: string, workspace: string): NetworkRule {
  try {
    return parseNetworkEntry(host);
  } catch (error) {
    throw new ConfigError(`projects: a host of ${workspace}: ${(error as Error).message}`);
  }
}

const projectsOf = (projects: readonly Project[], workspace: string): Project[] =>
  projects.filter((it) => isInside(it.workspace, workspace));

/** Whether the person lists a host for a workspace's commands. */
export const isOpenIn = (projects: readonly Project[], workspace: string, to: Destination): boolean =>
  projectsOf(projects, workspace).some(({ hosts }) => refusedName([hosts], to) === undefined);

/** The variables for commands of a workspace. */
export function environmentIn(
  projects: readonly Project[],
  workspace: string,
  environment: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const first = projectsOf(projects, workspace).flatMap((it) => it.toolchains.map(binOf));
  return first.length === 0 ? environment : { ...environment, PATH: [...first, environment.PATH].join(':') };
}
