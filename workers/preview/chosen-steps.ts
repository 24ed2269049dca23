/** The steps of a commit of some paths of a preview. */
import { ToolError } from '../../src/base/errors.ts';
import { isBelow } from '../../src/base/paths.ts';
import type { PreviewStep } from '../../src/base/preview.ts';

const withoutSlash = (path: string): string => (path.endsWith('/') ? path.slice(0, -1) : path);

/**
 * The steps for `paths`, of which each stands for all below it. A folder that the command made comes as far as a path needs it.
 * `hasEntry` tells whether the preview has something at a path. Throws NOT_FOUND for a path that the command did not change.
 */
export function chosenSteps(
  steps: readonly PreviewStep[],
  paths: readonly string[],
  hasEntry: (path: string) => boolean,
): PreviewStep[] {
  const named = paths.map(withoutSlash);
  const chosen = new Map<string, PreviewStep>();
  const add = (step: PreviewStep) => chosen.set(`${step.kind} ${step.path}`, step);
  const isNamed = (path: string) => named.some((it) => isBelow(it, path));
  for (const step of steps) if (isNamed(step.path)) add(step);
  for (const path of named) {
    // Folders that the command made, or cleared away, above the path.
    const above = steps.filter((it) => it.path !== path && isBelow(it.path, path) && it.kind !== 'mode');
    const whole = above.find(({ kind }) => kind === 'put');
    if (!whole && ![...chosen.values()].some((it) => isBelow(path, it.path))) throw notChanged(path);
    if (whole && !hasEntry(path)) throw notChanged(path);
    for (const it of above) if (it.kind !== 'put') add(it);
    if (whole && !isNamed(whole.path)) for (const it of stepsInto(whole, path)) add(it);
  }
  const order = new Map(steps.map((it, index) => [`${it.kind} ${it.path}`, index]));
  const orderOf = ({ path, kind }: PreviewStep): number =>
    order.get(`${kind} ${path}`) ?? steps.findIndex((it) => it.kind === 'put' && isBelow(it.path, path));
  return [...chosen.values()].toSorted((a, b) => orderOf(a) - orderOf(b) || depthOf(a) - depthOf(b));
}

const depthOf = ({ path }: PreviewStep): number => path.split('/').length;

/** A new folder with only one of the paths in it. */
function stepsInto(whole: PreviewStep, path: string): PreviewStep[] {
  const names = path
    .slice(whole.path.length + 1)
    .split('/')
    .slice(0, -1);
  const folders = [whole.path];
  for (const name of names) folders.push(`${folders.at(-1)}/${name}`);
  return [
    ...folders.map((it): PreviewStep => ({ kind: 'mkdir', path: it, base: null })),
    { kind: 'put', path, base: null },
  ];
}

const notChanged = (path: string): ToolError =>
  new ToolError('NOT_FOUND', `the preview has no change of \`${path}\``, {
    suggestion: 'Name paths that its list of changes holds.',
  });
