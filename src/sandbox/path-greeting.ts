/** How a command's first program and its host know of which command they speak. */

/** Its first variable, which it takes away: by which the host knows the command, and whether reads are told of. */
const VARIABLE = 'RINGFENCE_P';
const TOKEN_DIGITS = 8;
/** Of the whole variable, as it comes to the host. */
export const GREETING_BYTES = VARIABLE.length + 2 + TOKEN_DIGITS;
/** Where it says whether reads are told of. */
export const READS_AT = VARIABLE.length + 1;

/** The variable of a command: it must be the first one. `token` is less than 2^32. */
export function greetingOf(token: number, reads: boolean): [name: string, value: string] {
  return [VARIABLE, `${reads ? 1 : 0}${token.toString(16).padStart(TOKEN_DIGITS, '0')}`];
}

/** The token of what a command sent with its listener. */
export const tokenOf = (greeting: Buffer): number =>
  Number.parseInt(greeting.toString('latin1', READS_AT + 1, GREETING_BYTES), 16);
