// Writes clients/python/src/ringfence/_tools.py: input and data of the built-in tools as TypedDicts, and a typed method
// for each tool. `npm run gen` runs it.
import { writeFileSync } from 'node:fs';
import { builtinToolset, toolsOf, toToolInfo } from '../src/tools/registry.ts';

interface Schema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly items?: Schema | false;
  readonly prefixItems?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
}

const KEYWORDS = new Set('from in is class def lambda pass not and or if for while with as import global'.split(' '));
const isName = (key: string): boolean => /^[A-Za-z_]\w*$/.test(key) && !KEYWORDS.has(key);

const pascal = (name: string): string =>
  name.replaceAll(/(?:^|[^A-Za-z0-9]+)([A-Za-z0-9])/g, (_, char: string) => char.toUpperCase());

/** A literal as Python writes it. */
function literal(value: unknown): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'Literal[True]' : 'Literal[False]';
  return `Literal[${JSON.stringify(value)}]`;
}

const union = (types: readonly string[]): string => {
  const distinct = [...new Set(types)];
  if (distinct.includes('Any')) return 'Any';
  const values = distinct.flatMap((it) => /^Literal\[(.*)\]$/.exec(it)?.[1] ?? []);
  const others = distinct.filter((it) => !it.startsWith('Literal[') && it !== 'None');
  const all = [...(values.length > 0 ? [`Literal[${values.join(', ')}]`] : []), ...others];
  return [...all, ...(distinct.includes('None') ? ['None'] : [])].join(' | ');
};

const SCALARS: Readonly<Record<string, string>> = {
  string: 'str',
  boolean: 'bool',
  integer: 'int',
  number: 'float',
  null: 'None',
};

/** Writes types of one schema; `classes` collects the TypedDicts of its objects, the inner ones first. */
class TypeWriter {
  readonly classes: string[] = [];

  typeOf(schema: Schema, name: string): string {
    if (schema.enum) return union(schema.enum.map(literal));
    if (schema.const !== undefined) return literal(schema.const);
    const choices = schema.anyOf ?? schema.oneOf;
    if (choices) return union(choices.map((it, at) => this.typeOf(it, at === 0 ? name : `${name}${at + 1}`)));
    if (Array.isArray(schema.type)) return union(schema.type.map((type) => this.typeOf({ ...schema, type }, name)));
    if (schema.type === 'array') return `list[${schema.items ? this.typeOf(schema.items, `${name}Item`) : 'Any'}]`;
    if (schema.type === 'object') return this.#object(schema, name);
    return SCALARS[String(schema.type)] ?? 'Any';
  }

  #object({ properties = {}, required = [], additionalProperties }: Schema, name: string): string {
    const keys = Object.keys(properties);
    if (keys.length === 0) {
      const others =
        typeof additionalProperties === 'object' ? this.typeOf(additionalProperties, `${name}Value`) : 'Any';
      return `dict[str, ${others}]`;
    }
    const types = keys.map((key) => {
      const type = this.typeOf(properties[key] as Schema, `${name}${pascal(key)}`);
      return [key, required.includes(key) ? `Required[${type}]` : type] as const;
    });
    if (keys.every(isName)) {
      const lines = types.map(([key, type]) => `    ${key}: ${type}`);
      this.classes.push([`class ${name}(TypedDict, total=False):`, ...lines].join('\n'));
    } else {
      // Python's own words can't be names of members, but keys.
      const lines = types.map(([key, type]) => `        ${JSON.stringify(key)}: ${JSON.stringify(type)},`);
      this.classes.push(
        [`${name} = TypedDict(`, `    "${name}",`, '    {', ...lines, '    },', '    total=False,', ')'].join('\n'),
      );
    }
    return name;
  }
}

const writer = new TypeWriter();
const methods = toolsOf(builtinToolset()).map((tool) => {
  const { name, title, inputSchema, outputSchema } = toToolInfo(tool, 'ask');
  const input = writer.typeOf(inputSchema as Schema, `${pascal(name)}Input`);
  const data = writer.typeOf((outputSchema ?? {}) as Schema, `${pascal(name)}Data`);
  const unpacked = input.startsWith('dict[') ? 'Any' : `Unpack[${input}]`;
  const parameters = `self, *, call_options: CallOptions | None = None, **input: ${unpacked}`;
  const lines = (opening: string, call: string) => [
    `    ${opening}def ${name}(${parameters}) -> Result[${data}]:`,
    `        """${title}."""`,
    `        return ${call}self.call("${name}", input, call_options=call_options)`,
  ];
  return { asynchronous: lines('async ', 'await ').join('\n'), synchronous: lines('', '').join('\n') };
});

const callOf = (opening: string) =>
  [
    `    ${opening}def call(`,
    '        self,',
    '        tool: str,',
    '        input: Mapping[str, Any] | None = None,',
    '        /,',
    '        *,',
    '        call_options: CallOptions | None = None,',
    '        **fields: Any,',
    '    ) -> Result[Any]:',
    '        raise NotImplementedError',
  ].join('\n');

const text = [
  '"""The built-in tools, typed. Generated by `npm run gen` from their definitions; test/unit/clients compares the two."""',
  '',
  'from __future__ import annotations',
  '',
  'from collections.abc import Mapping',
  'from typing import TYPE_CHECKING, Any, Literal, TypedDict',
  '',
  'if TYPE_CHECKING:',
  '    # Known to type checkers without being installed; nothing reads the annotations when the program runs.',
  '    from typing_extensions import Required, Unpack',
  '',
  '    from ._client import CallOptions',
  '    from ._results import Result',
  '',
  '',
  writer.classes.join('\n\n\n'),
  '',
  '',
  'class ToolMethods:',
  '    """A method for each built-in tool, with its input as keywords."""',
  '',
  [callOf('async '), ...methods.map((it) => it.asynchronous)].join('\n\n'),
  '',
  '',
  'class SyncToolMethods:',
  '    """A method for each built-in tool, with its input as keywords."""',
  '',
  [callOf(''), ...methods.map((it) => it.synchronous)].join('\n\n'),
  '',
].join('\n');

if (process.argv.includes('--print')) process.stdout.write(text);
else writeFileSync(new URL('../clients/python/src/ringfence/_tools.py', import.meta.url), text);
