/** The key `fleet` of config.yaml: which repositories a gateway of the fleet may have this node fetch, and where they go. */
import * as z from 'zod';
import { isInside } from '../../base/paths.ts';
import { type NetworkLayer, ruleOfServer } from '../../policy/network.ts';

const pattern = z
  .string()
  .max(1024)
  .regex(
    /^(?:https?:\/\/[a-z0-9][a-z0-9.-]*(?::\d{1,5})?|file:\/\/)(?:\/[A-Za-z0-9._~+-]+)*(?:\/\*|\/[A-Za-z0-9._~+-]+)$/,
    'must be https://HOST/PATH, http://HOST/PATH or file:///PATH; only its last part may be *',
  );

const origin = z.strictObject({
  url: pattern.describe('A repository; with `/*` at the end all below that path.'),
  push: z
    .string()
    .regex(/^[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*(?:\/\*)?$/, 'must be a branch, or all branches below a name: name/*')
    .max(128)
    .optional()
    .describe('Branches that sessions may push: a name, or `name/*`. Default: none.'),
  private: z
    .boolean()
    .default(false)
    .describe('Whether the host may have an address of this machine or its networks. Default: false.'),
});

export const fleetSchema = z.strictObject({
  folder: z
    .string()
    .min(1)
    .max(4096)
    .describe('Where mirrors and clones go, outside of all workspaces; Ringfence makes the folder.'),
  origins: z
    .array(z.union([pattern, origin]))
    .max(64)
    .default([])
    .describe('Repositories that sessions of the fleet may work on. Default: none, so that they upload bundles.'),
});

/** A repository that this node may fetch. */
export interface Origin {
  readonly url: string;
  /** Branches that may be pushed. */
  readonly push?: string | undefined;
  /** The host that git may connect to; none for a folder of this machine. */
  readonly network: NetworkLayer;
}

export interface FleetSettings {
  /** Absolute. */
  readonly folder: string;
  /** The origin of a repository; undefined if it may not be used. */
  originOf(url: string): Origin | undefined;
}

/** Throws an Error that says what is wrong. */
export function toFleetSettings(
  given: z.output<typeof fleetSchema>,
  { folder, closed }: { readonly folder: string; readonly closed: readonly string[] },
): FleetSettings {
  const other = closed.find((it) => isInside(it, folder) || isInside(folder, it));
  if (other !== undefined) throw new Error(`fleet.folder ${folder} overlaps ${other}; name another folder`);
  const origins = given.origins.map((it) => (typeof it === 'string' ? origin.parse({ url: it }) : it));
  return {
    folder,
    originOf(url) {
      const found = origins.find((it) => isBelow(it.url, url));
      return found && { url, network: networkOf(url, found.private), push: found.push };
    },
  };
}

const isBelow = (allowed: string, url: string): boolean =>
  allowed.endsWith('/*') ? url.startsWith(allowed.slice(0, -1)) : url === allowed;

/** Whether a branch is among those of a pattern. */
export const isBranchOf = (allowed: string | undefined, branch: string): boolean =>
  allowed !== undefined && isBelow(allowed, branch) && /^[A-Za-z0-9._/-]{1,128}$/.test(branch) && isRefName(branch);

/** The rules of `git check-ref-format` that names of these characters can break. */
const isRefName = (branch: string): boolean =>
  !branch.includes('..') &&
  branch.split('/').every((it) => it !== '' && !it.startsWith('.') && !it.startsWith('-') && !/\.(?:lock)?$/.test(it));

function networkOf(url: string, isPrivate: boolean): NetworkLayer {
  const parsed = new URL(url);
  return parsed.protocol === 'file:' ? [] : [ruleOfServer(parsed, isPrivate)];
}
