/**
 * A second filter of a command, which decides nothing: the calls that take a path are told to the host and then go on as if it
 * were not there (decision 0015). What the first filter refuses, it refuses before anybody is told.
 */
import { O, PATH_CALLS, readsOnly, TMPFILE } from './path-calls.ts';
import {
  ALLOW,
  ARCH_OFFSET,
  AUDIT_ARCH_X86_64,
  assemble,
  type Block,
  ifAnyBit,
  ifOneOf,
  load,
  loadArg,
  NUMBER_OFFSET,
  unlessEqual,
  verdict,
} from './seccomp.ts';

const TELL: Block = verdict(0x7fc00000);

/** A terminal or a pipe is opened to be written without waiting, by each bash once; files are then made as well. */
const toldOpen = (flags: number, reads: boolean): Block => [
  ...loadArg(flags),
  ...ifAnyBit(O.CREAT | O.TRUNC | TMPFILE, TELL),
  ...ifAnyBit(O.WRONLY | O.RDWR, [...ifAnyBit(O.NONBLOCK, ALLOW), ...TELL]),
  ...(reads ? TELL : ALLOW),
];

/** As `struct sock_filter[]`; `reads`: calls that change nothing are told of, too. */
export function pathFilter({ reads }: { readonly reads: boolean }): Buffer {
  const rules = [...PATH_CALLS].map(([number, call]): Block => {
    if (!reads && readsOnly(call)) return [];
    return ifOneOf([number], call.flags === undefined ? TELL : toldOpen(call.flags, reads));
  });
  return assemble([
    ...load(ARCH_OFFSET),
    ...unlessEqual(AUDIT_ARCH_X86_64, ALLOW),
    ...load(NUMBER_OFFSET),
    ...rules.flat(),
    ...ALLOW,
  ]);
}
