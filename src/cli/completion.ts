/** Generates completion scripts for verbs, flags and tool names. They are self-contained: completing neither asks nor starts a daemon. */
import type { Command } from 'commander';
import { EXIT, UsageError } from './output.ts';
import { toolNames } from './verbs/tool-names.ts';

/** Completions after a verb; `path` is the verb with its parents, empty for none. */
interface CompletionNode {
  readonly path: string;
  readonly words: readonly string[];
  readonly flags: readonly string[];
  /** The values of flags with a fixed set of choices. */
  readonly choices: Readonly<Record<string, readonly string[]>>;
}

const SHELLS: Record<string, (nodes: readonly CompletionNode[]) => string> = { bash: toBash, zsh: toZsh, fish: toFish };

/** `ringfence completion SHELL`. Returns the exit code; throws UsageError for an unknown shell. */
export function completion(shell: string, program: Command): number {
  const toScript = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
  if (!toScript) throw new UsageError(`completion exists only for ${Object.keys(SHELLS).join(', ')}`);
  process.stdout.write(toScript(nodesOf(program, [])));
  return EXIT.OK;
}

function nodesOf(command: Command, path: readonly string[]): CompletionNode[] {
  const flags = command.options.flatMap((it) => it.long ?? []);
  const choices = command.options.flatMap((it) =>
    it.long && it.argChoices ? [[it.long, it.argChoices] as const] : [],
  );
  const verbs = command.commands.map((it) => it.name());
  const here: CompletionNode = {
    path: path.join(' '),
    words: [...verbs, ...valuesOf(path.join(' '))],
    flags: [...flags, '--help'],
    choices: Object.fromEntries(choices),
  };
  return [here, ...command.commands.flatMap((it) => nodesOf(it, [...path, it.name()]))];
}

/** Known values of the first word after a verb. */
function valuesOf(verb: string): readonly string[] {
  if (['call', 'tools', 'policy explain', 'policy set'].includes(verb)) return toolNames;
  return verb === 'completion' ? Object.keys(SHELLS) : [];
}

/** One branch for each verb and for each flag with choices. All words are our own and contain no shell metacharacters. */
const branches = (nodes: readonly CompletionNode[]): string =>
  nodes
    .flatMap(({ path, words, flags, choices }) => [
      ...Object.entries(choices).map(([flag, values]) => `    "${path}|${flag}") offered="${values.join(' ')}" ;;`),
      `    "${path}|"*) offered="${[...words, ...flags].join(' ')}" ;;`,
    ])
    .join('\n');

/** A pattern that matches all verbs, to extend the verb typed so far. */
const findVerb = (nodes: readonly CompletionNode[]): string =>
  nodes
    .filter(({ path }) => path !== '')
    .map(({ path }) => `"${path}"`)
    .join('|');

function toBash(nodes: readonly CompletionNode[]): string {
  return `# ringfence completion bash
_ringfence() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" verb="" word offered=""
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "\${verb:+$verb }$word" in
      ${findVerb(nodes)}) verb="\${verb:+$verb }$word" ;;
    esac
  done
  case "$verb|$before" in
${branches(nodes)}
  esac
  COMPREPLY=($(compgen -W "$offered" -- "$current"))
}
complete -o default -F _ringfence ringfence
`;
}

function toZsh(nodes: readonly CompletionNode[]): string {
  return `#compdef ringfence
# ringfence completion zsh
_ringfence() {
  local before="\${words[CURRENT-1]}" verb="" word
  local -a typed=("\${(@)words[2,CURRENT-1]}")
  for word in $typed; do
    case "\${verb:+$verb }$word" in
      ${findVerb(nodes)}) verb="\${verb:+$verb }$word" ;;
    esac
  done
  local offered=""
  case "$verb|$before" in
${branches(nodes)}
  esac
  compadd -- \${=offered}
  _files
}
compdef _ringfence ringfence
`;
}

function toFish(nodes: readonly CompletionNode[]): string {
  const lines = nodes.flatMap(({ path, words, flags, choices }) => {
    const condition = `complete -c ringfence -n "test (__ringfence_verb) = '${path}'"`;
    return [
      ...(words.length > 0 ? [`${condition} -a "${words.join(' ')}"`] : []),
      ...flags.map((flag) => {
        const values = choices[flag];
        return `${condition} -l ${flag.slice(2)}${values ? ` -x -a "${values.join(' ')}"` : ''}`;
      }),
    ];
  });
  const verbs = nodes.filter(({ path }) => path !== '').map(({ path }) => `'${path}'`);
  return `# ringfence completion fish
function __ringfence_verb
  set -l verb ''
  for word in (commandline -opc)[2..-1]
    set -l longer (string trim "$verb $word")
    contains -- "$longer" ${verbs.join(' ')}; and set verb $longer
  end
  echo $verb
end
${lines.join('\n')}
`;
}
