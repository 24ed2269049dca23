/** Keeps the pseudoterminals of a host's other programs out of a program that it starts: they don't close on exec. */

/** Gives the words of a program that closes all descriptors above `last`, then executes what follows. */
export const withoutForeignDescriptors = (last: number): readonly string[] => [
  '/bin/bash',
  '--norc',
  '--noprofile',
  '-c',
  `for it in /proc/self/fd/*; do n=\${it##*/}; if ((n > ${last})); then eval "exec $n>&-"; fi; done; exec "$@"`,
  'bash',
];
