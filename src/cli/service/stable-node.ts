/** A service starts Node by its path for months, so the path must stay. */

/** Folders in which version managers keep a Node that moves or goes with the next upgrade. */
const MANAGERS: readonly { readonly name: string; readonly path: RegExp }[] = [
  { name: 'nvm', path: /\/(\.nvm|nvm)\/versions\/node\// },
  { name: 'fnm', path: /\/(fnm_multishells|fnm\/node-versions|\.fnm)\// },
  { name: 'volta', path: /\/\.volta\// },
  { name: 'asdf', path: /\/\.asdf\/|\/asdf\/(installs|shims)\// },
  { name: 'mise', path: /\/(mise|rtx)\/(installs|shims)\// },
  { name: 'nodenv', path: /\/\.nodenv\// },
];

export interface Programs {
  readonly node: string;
  /** Path of the running `bin/ringfence.js`. */
  readonly program: string;
}

/** Why a service must not start these programs, and what to do; undefined if their paths will stay. */
export function movingProgram({ node, program }: Programs): string | undefined {
  const manager = MANAGERS.find((it) => it.path.test(node))?.name;
  if (manager !== undefined)
    return `${node} belongs to ${manager} and goes with the next upgrade, which would break the service; install a Node for the whole machine (https://nodejs.org/en/download, or your distribution's package), and run: /usr/bin/node ${program} service install`;
  if (/\/_npx\//.test(program))
    return `${program} lies in npx's cache, which npm may empty; install it to stay: npm install --global ringfence`;
  const inside = MANAGERS.find((it) => it.path.test(program))?.name;
  return inside === undefined
    ? undefined
    : `${program} was installed into a Node of ${inside} and goes with it; install it with a Node of the whole machine`;
}
