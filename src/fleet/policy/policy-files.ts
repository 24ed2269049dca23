/**
 * The files of the operator's policy on a node, in the state directory. The daemon follows `policy.yaml`, which extends the
 * unpacked bundle; `bundle.json` is the bundle as it came, and `required.json` what the roster asked for last.
 */
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { replaceFile } from '../../base/disk.ts';
import { jsonOr } from '../../base/text/json.ts';
import type { PolicyBundle } from '../../policy/bundle/bundle.ts';
import { unpackBundle } from '../../policy/bundle/collect.ts';
import { type RequiredBundle, requiredBundle } from '../roster.ts';
import { fleetPolicyFile } from './policy-path.ts';

/** Decides calls until the operator's policy has come. */
const NO_POLICY_YET = `version: 1
extends: strict
rules:
  - { id: no-policy-yet, match: { tool: "*" }, decision: deny, reason: The operator of the fleet has sent no policy yet. }
`;

/** Makes the file that denies everything, unless the node has one. */
export function preparePolicy(stateDir: string): void {
  const path = fleetPolicyFile(stateDir);
  if (!existsSync(path)) replaceFile(path, NO_POLICY_YET);
}

export class PolicyFiles {
  /** Path of the file that the daemon follows. */
  readonly entry: string;
  readonly #folder: string;

  constructor(stateDir: string) {
    this.#folder = join(stateDir, 'fleet/policy');
    this.entry = fleetPolicyFile(stateDir);
  }

  /** What the roster asked for last; undefined if it never did. A damaged file counts as missing, since the roster says it again. */
  readRequired(): RequiredBundle | undefined {
    const read = requiredBundle.safeParse(this.#read('required.json'));
    return read.success ? read.data : undefined;
  }

  writeRequired(required: RequiredBundle): void {
    replaceFile(join(this.#folder, 'required.json'), JSON.stringify(required));
  }

  /** The text of the bundle that came last; undefined if none did. */
  readBundle(): string | undefined {
    const path = join(this.#folder, 'bundle.json');
    return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
  }

  /**
   * Puts a bundle in place of the policy before, in a folder of the given new name: the daemon watches folders, and one
   * that was replaced under its name would be watched no more. Gives back the policy before when it is disposed.
   */
  replaceBy(bundle: PolicyBundle, name: string): Disposable {
    const before = existsSync(this.entry) ? readFileSync(this.entry, 'utf8') : NO_POLICY_YET;
    unpackBundle(bundle, join(this.#folder, name));
    replaceFile(this.entry, `version: 1\nextends: ${JSON.stringify(`./${name}/${bundle.entry}`)}\n`);
    return {
      [Symbol.dispose]: () => {
        replaceFile(this.entry, before);
        rmSync(join(this.#folder, name), { recursive: true });
      },
    };
  }

  /** Keeps the text of a bundle that was taken, and removes the folders of those before. */
  keep(text: string, name: string): void {
    replaceFile(join(this.#folder, 'bundle.json'), text);
    for (const it of readdirSync(this.#folder, { withFileTypes: true }))
      if (it.isDirectory() && it.name !== name) rmSync(join(this.#folder, it.name), { recursive: true });
  }

  #read(name: string): unknown {
    const path = join(this.#folder, name);
    return existsSync(path) ? jsonOr(readFileSync(path, 'utf8'), undefined) : undefined;
  }
}
