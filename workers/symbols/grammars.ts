/** The grammars of the parser child: their node kinds that declare symbols, and the names that a declaration gives. */
import { Lang, parse, registerDynamicLanguage, type SgNode } from '@ast-grep/napi';
import { parserOf } from '../../src/base/native-programs.ts';
import type { SymbolType } from '../../src/tools/source/symbols.ts';
import type { ParsedLanguage } from './source-languages.ts';

/** Node kinds that declare a symbol, and those that are identifiers. */
interface Declarations {
  readonly types: Readonly<Record<string, SymbolType>>;
  readonly identifiers: readonly string[];
}

const TYPESCRIPT: Declarations = {
  types: {
    function_declaration: 'function',
    generator_function_declaration: 'function',
    function_signature: 'function',
    method_definition: 'function',
    method_signature: 'function',
    abstract_method_signature: 'function',
    class_declaration: 'class',
    abstract_class_declaration: 'class',
    interface_declaration: 'interface',
    type_alias_declaration: 'type',
    enum_declaration: 'type',
    internal_module: 'module',
    module: 'module',
    variable_declarator: 'variable',
    public_field_definition: 'variable',
    property_signature: 'variable',
  },
  identifiers: [
    ...['identifier', 'type_identifier', 'property_identifier', 'private_property_identifier'],
    ...['shorthand_property_identifier', 'shorthand_property_identifier_pattern'],
  ],
};

export const LANGUAGES: Readonly<Record<ParsedLanguage, Declarations>> = {
  typescript: TYPESCRIPT,
  tsx: TYPESCRIPT,
  python: {
    types: {
      function_definition: 'function',
      class_definition: 'class',
      assignment: 'variable',
      type_alias_statement: 'type',
    },
    identifiers: ['identifier'],
  },
  rust: {
    types: {
      function_item: 'function',
      function_signature_item: 'function',
      macro_definition: 'function',
      struct_item: 'class',
      union_item: 'class',
      trait_item: 'interface',
      enum_item: 'type',
      type_item: 'type',
      const_item: 'variable',
      static_item: 'variable',
      mod_item: 'module',
      enum_variant: 'variable',
      field_declaration: 'variable',
      associated_type: 'type',
    },
    identifiers: ['identifier', 'type_identifier', 'field_identifier', 'shorthand_field_identifier'],
  },
  go: {
    types: {
      function_declaration: 'function',
      method_declaration: 'function',
      method_elem: 'function',
      type_spec: 'type',
      type_alias: 'type',
      const_spec: 'variable',
      var_spec: 'variable',
      field_declaration: 'variable',
    },
    identifiers: ['identifier', 'type_identifier', 'field_identifier', 'package_identifier'],
  },
};

/** Names of the library's built-in grammars. */
const GRAMMARS: Partial<Record<ParsedLanguage, Lang>> = { typescript: Lang.TypeScript, tsx: Lang.Tsx };

/** Loads the grammars that the library does not have. Called once, before the first text is parsed. */
export function registerGrammars(): void {
  const grammar = (language: Parameters<typeof parserOf>[0], extension: string) => ({
    libraryPath: parserOf(language),
    languageSymbol: `tree_sitter_${language}`,
    extensions: [extension],
    // Stands for `$` in patterns, which these languages don't allow in a name.
    expandoChar: 'µ',
  });
  registerDynamicLanguage({
    python: grammar('python', 'py'),
    rust: grammar('rust', 'rs'),
    go: grammar('go', 'go'),
  });
}

/** The syntax tree of a text. */
export const treeOf = (language: ParsedLanguage, text: string): SgNode =>
  parse(GRAMMARS[language] ?? language, text).root();

/** Rules may only name kinds of the present grammar; versions differ. */
const known = new Map<string, boolean>();
function isKind(language: ParsedLanguage, kind: string): boolean {
  const key = `${language} ${kind}`;
  let is = known.get(key);
  if (is === undefined) {
    try {
      treeOf(language, '').find({ rule: { kind } });
      is = true;
    } catch {
      is = false; // Not a kind of this grammar.
    }
    known.set(key, is);
  }
  return is;
}

/** All nodes of some kinds, in the order of the text; kinds that the grammar does not have are ignored. */
export function findKinds(language: ParsedLanguage, root: SgNode, kinds: readonly string[]): SgNode[] {
  const any = kinds.filter((it) => isKind(language, it)).map((kind) => ({ kind }));
  return any.length === 0 ? [] : root.findAll({ rule: { any } });
}

/** The nodes of the names that a declaration gives. */
export function namesOf(node: SgNode): SgNode[] {
  if (node.kind() === 'assignment') return isOuter(node) ? named(node.field('left')) : [];
  return node.fieldChildren('name').filter((it) => it.isNamed());
}

/** The names that an assignment defines; both for `a, b = …`. */
function named(left: SgNode | null): SgNode[] {
  if (left?.kind() === 'identifier') return [left];
  return left?.kind() === 'pattern_list' ? left.children().filter((it) => it.kind() === 'identifier') : [];
}

/** Whether a Python assignment defines a name of a module or a class; names in functions are local. */
function isOuter(node: SgNode): boolean {
  const holder = node.parent()?.parent();
  return holder?.kind() === 'module' || holder?.parent()?.kind() === 'class_definition';
}

/** The symbol type of a Go type, by its definition. */
export function typeOf(node: SgNode, types: Readonly<Record<string, SymbolType>>): SymbolType {
  const made = node.kind() === 'type_spec' ? node.field('type')?.kind() : undefined;
  if (made === 'struct_type') return 'class';
  if (made === 'interface_type') return 'interface';
  return types[`${node.kind()}`] as SymbolType;
}
