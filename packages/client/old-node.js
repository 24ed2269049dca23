// What Node 20 lacks of the functions that the client uses; script/build.ts puts it in their place.
// biome-ignore lint/style/useNodejsImportProtocol: this file takes the place of `node:util`
import { styleText as style } from 'util';

// biome-ignore lint/style/useNodejsImportProtocol: as above
export * from 'util';

/** `Promise.withResolvers` */
export function withResolvers() {
  let resolve;
  let reject;
  const promise = new Promise((...functions) => {
    [resolve, reject] = functions;
  });
  return { promise, resolve, reject };
}

/** `Map.groupBy` */
export function groupBy(items, keyOf) {
  const groups = new Map();
  for (const it of items) {
    const group = groups.get(keyOf(it));
    if (group) group.push(it);
    else groups.set(keyOf(it), [it]);
  }
  return groups;
}

/** `styleText`, whose third parameter Node 20 ignores, so that it would colour what goes through a pipe. */
export const styleText = (format, text, { stream = process.stdout, validateStream = true } = {}) =>
  validateStream && !(stream.isTTY && stream.hasColors()) ? text : style(format, text);
