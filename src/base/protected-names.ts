/**
 * Names of files that the person's own programs run or obey, with their rights and outside of the sandbox, whoever wrote
 * them. Each list entry names the program, and where its behaviour is documented. Matching ignores case, since some file
 * systems do.
 */

interface NameList {
  /** Globs of names, or of a folder and a name in it; `*` stands for characters other than `/`. */
  readonly names: string;
  readonly by: string;
  readonly source: string;
}

/** What a program runs when it starts, opens the folder, or reads its settings again. */
const RUN_AT_START: readonly NameList[] = [
  {
    names: '.vscode *.code-workspace .devcontainer .fleet .vs',
    by: 'editors: tasks on opening, paths of interpreters, terminals',
    source: 'code.visualstudio.com/docs/editor/workspace-trust',
  },
  {
    names: '.idea',
    by: 'JetBrains IDEs: run configurations, watchers',
    source: 'jetbrains.com/help/idea/project-security',
  },
  { names: '.zed *.sublime-project', by: 'Zed, Sublime Text: tasks, servers', source: 'zed.dev/docs/tasks' },
  {
    names: '.exrc .nvim.lua .nvimrc .dir-locals.el .gdbinit',
    by: 'vim, Neovim, Emacs, gdb: read in the folder where they start',
    source: 'neovim.io/doc/user/options (exrc), sourceware.org/gdb (auto-load)',
  },
  {
    names: '.husky .githooks lefthook-local.yml',
    by: 'git hooks that the person turned on',
    source: 'typicode.github.io/husky',
  },
  {
    names: '.envrc .mise* mise*.toml .tool-versions rust-toolchain.toml',
    by: 'direnv, mise, asdf, rustup: on entering the folder',
    source: 'direnv.net, mise.jdx.dev/configuration, rust-lang.github.io/rustup/overrides',
  },
  {
    names: '.npmrc .yarnrc* .yarn/releases .yarn/plugins .pnpmfile.cjs .pypirc',
    by: 'npm, yarn, pnpm, twine: programs they run, servers that get credentials',
    source: 'yarnpkg.com/configuration/yarnrc#yarnPath, pnpm.io/pnpmfile',
  },
  {
    names: '.cargo/config.toml .cargo/config .mvn/jvm.config gradle-wrapper.jar maven-wrapper.jar',
    by: 'cargo, Maven, Gradle: runners, agents of the JVM, the wrapper itself',
    source: 'doc.rust-lang.org/cargo/reference/config (runner, rustc-wrapper)',
  },
  {
    names: '.mcp.json .claude .cursor .codex .gemini .opencode opencode.json* .roo .kiro .windsurf .continue .amazonq',
    by: 'agents: servers and hooks that they start',
    source: 'docs.claude.com/en/docs/claude-code/hooks, cursor.com/docs/context/mcp',
  },
  {
    names: '.junie .qwen .aider.conf.yml',
    by: 'agents: servers and commands that they start',
    source: 'aider.chat/docs/config',
  },
  { names: '.hg/hgrc', by: 'Mercurial: hooks, extensions, aliases', source: 'mercurial-scm.org/doc/hgrc.5.html' },
  { names: '.ringfence', by: 'Ringfence: policy and settings of the project', source: 'docs/configuration.md' },
];

/** Ordinary files that programs of the person run once they are called: listed for the person, and never asked about. */
const RUN_WHEN_CALLED: readonly NameList[] = [
  {
    names: 'package.json .pnp.cjs .pnp.loader.mjs',
    by: 'npm, yarn, pnpm, node: scripts, resolution',
    source: 'docs.npmjs.com/cli/using-npm/scripts',
  },
  {
    names: 'Makefile GNUmakefile *.mk justfile Taskfile.y*ml Rakefile CMakeLists.txt meson.build',
    by: 'make and its kin',
    source: 'gnu.org/software/make/manual',
  },
  {
    names: '.github/workflows .github/actions .gitlab-ci.yml .circleci Jenkinsfile azure-pipelines.yml',
    by: 'CI, with its secrets',
    source: 'docs.github.com/actions',
  },
  {
    names:
      '*.config.js *.config.cjs *.config.mjs *.config.ts *.config.mts *.config.cts .eslintrc.js .eslintrc.cjs tsconfig*.json',
    by: 'bundlers, test runners, linters, editors',
    source: 'vite.dev/config, typescriptlang.org/tsconfig/#plugins',
  },
  {
    names: 'conftest.py setup.py noxfile.py tox.ini pyproject.toml sitecustomize.py manage.py',
    by: 'pytest, pip, tox, python',
    source: 'docs.pytest.org (conftest.py)',
  },
  {
    names:
      'build.rs Cargo.toml flake.nix shell.nix default.nix build.gradle* settings.gradle* gradlew mvnw pom.xml build.sbt',
    by: 'cargo, nix, Gradle, Maven, sbt',
    source: 'doc.rust-lang.org/cargo/reference/build-scripts',
  },
  {
    names: '.pre-commit-config.yaml lefthook.yml .gitmodules .gitattributes',
    by: 'git, its hooks',
    source: 'pre-commit.com',
  },
  {
    names: 'Dockerfile* *.dockerfile docker-compose*.y*ml compose*.y*ml Vagrantfile *.tf',
    by: 'docker, vagrant, terraform',
    source: 'docs.docker.com/reference',
  },
];

/** Texts that agents obey, those of the person included. */
const OBEYED: readonly NameList[] = [
  {
    names: 'AGENTS.md CLAUDE.md CLAUDE.local.md GEMINI.md .cursorrules .windsurfrules .clinerules .cursor/rules',
    by: 'agents',
    source: 'agents.md',
  },
  {
    names: '.github/copilot-instructions.md .github/instructions .github/prompts SKILL.md',
    by: 'agents',
    source: 'docs.github.com/copilot (custom instructions)',
  },
];

/** Files of those folders that run nothing. */
const HARMLESS = ['.vscode/extensions.json', '.vscode/*.code-snippets', '.idea/*.iml', '.idea/.gitignore'];

/** Folders of installed packages, which bring such names along; no program takes them for a project of the person. */
const INSTALLED = 'node_modules|site-packages|dist-packages';

const toSource = (glob: string): string => glob.replace(/[.+]/g, '\\$&').replaceAll('*', '[^/]*');

/** Matches a path up to one of the names, wherever that stands. */
const toPattern = (lists: readonly string[]): RegExp =>
  new RegExp(
    `^(?:(?!(?:${INSTALLED})/)[^/]+/)*?(?:${lists
      .flatMap((it) => it.split(' '))
      .map(toSource)
      .join('|')})(?=/|$)`,
    'i',
  );

const PROTECTED = toPattern(RUN_AT_START.map((it) => it.names));
const WITHOUT_EFFECT = new RegExp(`(?:^|/)(?:${HARMLESS.map(toSource).join('|')})$`, 'i');

/**
 * The part of a path, normal and without links, that ends with a protected name; undefined if it has none, or is a file
 * of such a folder that runs nothing.
 */
export function protectedPart(path: string): string | undefined {
  const part = PROTECTED.exec(path)?.[0];
  return part === undefined || WITHOUT_EFFECT.test(path) ? undefined : part;
}

/** Which programs run or obey a protected path, in words. */
export function runByOf(path: string): string {
  const part = protectedPart(path);
  if (part === undefined) return 'git: programs that its configs and hooks name';
  return (
    RUN_AT_START.find((it) => toPattern([it.names]).exec(part)?.[0] === part)?.by ?? 'programs that trust the folder'
  );
}

const OF_PERSON = [
  ['run', RUN_WHEN_CALLED.map((it) => ({ ...it, pattern: toPattern([it.names]) }))],
  ['obeyed', OBEYED.map((it) => ({ ...it, pattern: toPattern([it.names]) }))],
] as const;

/** Whether programs of the person run an ordinary path once they are called, or agents obey it, and which do. */
export function usedBy(path: string): { how: 'run' | 'obeyed'; by: string } | undefined {
  for (const [how, lists] of OF_PERSON) for (const { pattern, by } of lists) if (pattern.test(path)) return { how, by };
  return undefined;
}

/** A program of the person that follows a workspace: it may run at once what agents change there. */
export interface OutsideProgram {
  readonly workspace: string;
  readonly program: string;
  readonly pid: number;
}

/** What a person and a model read of such programs. */
export function describeOutside(programs: readonly OutsideProgram[]): string {
  const names = programs.map(({ program, pid }) => `${program} (${pid})`).join(', ');
  return `${names} ${programs.length === 1 ? 'follows' : 'follow'} this folder, and may run what agents change in it at once, with the rights of the person. To have that in the sandbox, start it there: \`ringfence sh -- COMMAND\``;
}

/** Whether a path ends with a protected name. */
export const isProtectedName = (path: string): boolean => PROTECTED.exec(path)?.[0] === path;
