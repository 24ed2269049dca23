/** Paths into JSON values: `$.data[0].id`, `$.items[*].name`, `$['odd key'][-1]`. What is missing is undefined. */

type Step = string | number | typeof EACH;
const EACH = Symbol('each item');

/** Most steps of a path, and most values that one may pick. */
const STEPS_MAX = 16;
const PICKED_MAX = 1000;

/** A path that was checked. */
export interface JsonPath {
  readonly steps: readonly Step[];
}

/** Throws an Error that says what is wrong with the path. */
export function parseJsonPath(text: string): JsonPath {
  if (!text.startsWith('$')) throw new Error(`${text}: a path begins with $`);
  const steps: Step[] = [];
  const step = /\.([A-Za-z_][\w-]*)|\[(-?\d{1,6})\]|\[(\*)\]|\['([^'\\]{1,128})'\]/y;
  step.lastIndex = 1;
  while (step.lastIndex < text.length) {
    const at = step.lastIndex;
    const found = step.exec(text);
    if (!found) throw new Error(`${text}: can't be read from \`${text.slice(at)}\``);
    const [, name, index, each, quoted] = found;
    steps.push(each ? EACH : index === undefined ? ((name ?? quoted) as string) : Number(index));
  }
  if (steps.length > STEPS_MAX) throw new Error(`${text}: has more than ${STEPS_MAX} steps`);
  return { steps };
}

/** The value at a path; a list of at most PICKED_MAX if the path has a `[*]`. */
export function pick({ steps }: JsonPath, value: unknown): unknown {
  let found: unknown[] = [value];
  for (const step of steps) found = found.flatMap((it) => stepInto(it, step)).slice(0, PICKED_MAX);
  return steps.includes(EACH) ? found : found[0];
}

function stepInto(value: unknown, step: Step): unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  if (step === EACH) return Array.isArray(value) ? value : [];
  if (typeof step === 'number') return Array.isArray(value) && step < value.length ? toFound(value.at(step)) : [];
  return Object.hasOwn(value, step) ? toFound((value as Record<string, unknown>)[step]) : [];
}

const toFound = (value: unknown): unknown[] => (value === undefined ? [] : [value]);
