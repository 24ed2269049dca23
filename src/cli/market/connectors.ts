/** Packages with a connector. */
import { FILE } from '../../services/connectors/connector.ts';
import { MarketError } from '../../services/market/market-error.ts';
import { toText } from '../../services/market/package-text.ts';
import { connectorAdd } from '../connectors/connector.ts';
import type { PackageKind } from './package-kind.ts';

export const connectors: PackageKind = {
  target: FILE,
  taken(files, limits) {
    const content = files.get(FILE);
    if (content === undefined) throw new MarketError(`the package has no ${FILE}`);
    if (content.length > limits.connectorFileBytesMax)
      throw new MarketError(`${FILE} has ${content.length} bytes; at most ${limits.connectorFileBytesMax} are taken`);
    return { [FILE]: toText(FILE, content) };
  },
  add: (target, flags, caller) => connectorAdd(target, flags, caller),
};
