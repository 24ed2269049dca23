/** Which variables a shell hands on to the commands in its sandbox. */

/** Variables that the shell of a sandbox has of its own. */
const OWN: ReadonlySet<string> = new Set(
  'PATH HOME SHELL PWD OLDPWD SHLVL _ LANG TZ TERM TMPDIR USER LOGNAME'.split(' '),
);
/** The most that a call takes. */
const VARIABLES_MAX = 64;
const VALUE_CHARS_MAX = 32 * 1024;

/** The variables that terminal_execute takes, the first of too many. */
export function exportable(variables: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const taken = Object.entries(variables).filter(
    (it): it is [string, string] =>
      it[1] !== undefined &&
      it[1].length <= VALUE_CHARS_MAX &&
      /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(it[0]) &&
      !OWN.has(it[0]) &&
      !/^(?:RINGFENCE|ringfence)_/.test(it[0]),
  );
  return Object.fromEntries(taken.slice(0, VARIABLES_MAX));
}
