/** What packages may hold: a line for each capability that the market installs. */
import { connectors } from './connectors.ts';
import type { PackageKind } from './package-kind.ts';
import { plugins } from './plugins.ts';

export const kinds: Readonly<Record<string, PackageKind>> = {
  connector: connectors,
  plugin: plugins,
};
