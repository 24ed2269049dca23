/**
 * Values with references to the input, as connector files hold them: `${input.title}` alone is the value itself, within
 * a text it is written out. What names a missing parameter is left out. `$if` keeps an object only where a parameter is
 * given and not false; `$value` is what stands for the object; `$each` makes one object for each item of a parameter,
 * with `${item}` in it; `$choose` names a parameter, whose value names the member that stands for the object.
 */
import { isRecord } from '../../base/text/values.ts';

const REFERENCE = /\$\{(input\.[A-Za-z]\w{0,63}|item(?:\.[A-Za-z]\w{0,63})?)\}/g;
const ONLY_REFERENCE = new RegExp(`^${REFERENCE.source}$`);

/** The parameters of a call, and the item that `$each` is at. */
export interface TemplateScope {
  readonly input: Readonly<Record<string, unknown>>;
  readonly item?: unknown;
}

/** The value of a template; undefined if it names a parameter that is missing. */
export function render(template: unknown, scope: TemplateScope): unknown {
  if (typeof template === 'string') return renderText(template, scope);
  if (Array.isArray(template))
    return template.flatMap((it: unknown) => {
      const value = render(it, scope);
      if (value === undefined) return [];
      // The items of `$each` become items of the list that holds it.
      return isRecord(it) && '$each' in it ? (value as unknown[]) : [value];
    });
  if (!isRecord(template)) return template;
  const { $if: condition, $each: list, $choose: chooser, ...members } = template;
  if (typeof condition === 'string' && (scope.input[condition] ?? false) === false) return undefined;
  if (typeof chooser === 'string') {
    const chosen = toText(scope.input[chooser]);
    return Object.hasOwn(members, chosen) ? render(members[chosen], scope) : undefined;
  }
  if (typeof list !== 'string') return renderMembers(members, scope);
  const items = scope.input[list];
  if (items === undefined) return undefined;
  return [items].flat().map((item: unknown) => renderMembers(members, { ...scope, item }));
}

function renderMembers(members: Record<string, unknown>, scope: TemplateScope): unknown {
  if ('$value' in members) return render(members.$value, scope);
  const rendered = Object.entries(members).map(([key, it]) => [key, render(it, scope)] as const);
  return Object.fromEntries(rendered.filter(([, it]) => it !== undefined));
}

function renderText(text: string, scope: TemplateScope): unknown {
  const [, only] = ONLY_REFERENCE.exec(text) ?? [];
  if (only !== undefined) return referenced(only, scope);
  let isMissing = false;
  const filled = text.replaceAll(REFERENCE, (_, reference: string) => {
    const value = referenced(reference, scope);
    isMissing ||= value === undefined;
    return toText(value);
  });
  return isMissing ? undefined : filled;
}

function referenced(reference: string, { input, item }: TemplateScope): unknown {
  const [root, member] = reference.split('.');
  const value = root === 'input' ? input : item;
  if (member === undefined) return value;
  return isRecord(value) && Object.hasOwn(value, member) ? value[member] : undefined;
}

/** A value within a text, a header or a query. */
export const toText = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value);

/** Members of templates whose value is the name of a parameter. */
const NAMING_KEYS: readonly string[] = ['$if', '$each', '$choose'];

export function parametersIn(template: unknown): string[] {
  if (typeof template === 'string')
    return [...template.matchAll(REFERENCE)].flatMap(([, it = '']) => (it.startsWith('input.') ? [it.slice(6)] : []));
  if (Array.isArray(template)) return template.flatMap(parametersIn);
  if (!isRecord(template)) return [];
  return Object.entries(template).flatMap(([key, it]) =>
    NAMING_KEYS.includes(key) && typeof it === 'string' ? [it] : parametersIn(it),
  );
}

/** Text that looks like a reference and is none, so that a misspelt one is not sent as it stands. */
export function strayReferenceIn(template: unknown): string | undefined {
  if (typeof template === 'string') return /\$\{[^}]*\}?/.exec(template.replaceAll(REFERENCE, ''))?.[0];
  if (typeof template !== 'object' || template === null) return undefined;
  return Object.values(template)
    .map(strayReferenceIn)
    .find((it) => it !== undefined);
}
