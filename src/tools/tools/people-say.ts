/** Words by which people ask for what a tool does, where its own texts say it otherwise; searches for tools count them. */
export const peopleSay: Readonly<Record<string, string>> = {
  access_request:
    'permission denied forbidden outside home path allow readable mount hidden masked secret env unlock database postgres redis localhost port connection refused service',
  code_analyze:
    'cyclomatic complexity complex metrics smell duplicate duplicated copy paste clone quality maintainability long function security unsafe injection hotspot technical debt refactor candidates',
  code_dependencies:
    'outdated stale vulnerable vulnerability cve audit licence license versions deps packages libraries lockfile upgrade security scan',
  code_format: 'prettier black gofmt rustfmt style indentation whitespace quotes semicolons tabs beautify tidy layout',
  code_generate: 'scaffold boilerplate skeleton template component stub starter new module generator',
  code_graph:
    'circular cyclic cycle dead code unused exports orphan imports importers depends impact module dependency diagram',
  code_lint:
    'eslint oxlint ruff clippy flake8 warnings unused variables rules autofix static analysis bugs style violations',
  code_parse: 'ast syntax tree outline symbols functions classes list signatures structure of a file exports imports',
  code_refactor:
    'rename symbol function variable class method all usages across files organize unused imports move extract inline ide',
  code_rewrite:
    'codemod ast-grep migrate deprecated api calls pattern structural replace transform syntax jscodeshift comby semgrep',
  code_run:
    'javascript typescript snippet script evaluate eval loop many calls program orchestrate aggregate compute sandbox',
  code_test: 'unit tests pytest jest vitest mocha suite failing failed coverage regression spec assert run',
  code_type_check: 'tsc mypy compile compiler types typescript errors type mismatch not assignable check build broken',
  data_validate: 'json yaml toml schema malformed config invalid parse syntax well-formed conform',
  database_explain: 'slow query plan index missing performance full scan optimize explain analyze',
  database_query: 'sql select insert update delete rows records sqlite postgres mysql run count join table data',
  database_schema: 'tables columns describe definitions indexes types foreign keys structure of database ddl show',
  docker_run: 'container docker podman image alpine ubuntu debian registry pull entrypoint',
  file_copy: 'cp duplicate clone backup copy paste file folder recursively',
  file_delete: 'rm remove erase unlink clean up temporary temp leftover stale files delete trash',
  file_edit: 'change modify patch line insert append fix typo update one file substitute sed',
  file_glob: 'find files by name pattern extension wildcard recursively list matching paths fd',
  file_grep: 'grep ripgrep search text string regex lines containing occurrences instances usages in code todo',
  file_list: 'ls dir directory contents folder entries hidden sizes what files are there',
  file_make_directory: 'mkdir create folder subdirectory missing parent directories non-existent',
  file_multi_edit: 'search and replace all files project-wide bulk find replace rename string everywhere sed mass',
  file_read: 'cat open show view contents of a file lines head print look',
  file_read_many: 'cat open several multiple files at once batch contents',
  file_rename: 'mv move folder file into directory relocate rename path reorganize',
  file_search: 'find locate file by name extension keyword where is recursively fuzzy',
  file_write: 'create new file save overwrite write content output to disk',
  git_branch: 'checkout switch create new branch delete merged list branches feature',
  git_commit: 'save changes message stage add amend record snapshot',
  git_diff: 'changes modified compare uncommitted staged unstaged working tree versions patch difference before commit',
  git_fetch: 'upstream remote latest commits update refs download origin tags',
  git_log: 'history commits who changed when author blame last previous revisions of file line log changed since',
  git_pull: 'update sync latest upstream remote changes merge rebase fast-forward behind before pushing rejected',
  git_push: 'publish upload remote origin commits branch tags rejected send',
  git_show: 'commit details one revision what was changed in commit last hash patch author',
  git_status: 'modified untracked staged files conflict dirty working folder changes clean state',
  http_request:
    'rest api curl post put delete get endpoint webhook json body headers status 400 401 404 500 response graphql call service',
  package_install:
    'npm pip yarn pnpm add dependency missing module not found cannot find library package.json node_modules requirements install',
  task_delegate:
    'sub-agent subagent child agent spawn worker parallel delegate research another model hand off subtask',
  terminal_execute: 'run shell bash command cli build make start server background process script execute compile',
  terminal_interactive:
    'prompt password input repl stdin tty sudo wizard keys ssh vim interactively ask answer session debugger',
  terminal_kill:
    'stop terminate end process running background server hung infinite loop signal ctrl-c quit port in use',
  terminal_output: 'logs tail follow stdout stderr background server process progress output watch console port',
  terminal_script: 'shell bash zsh sh multi-line script several commands pipeline file.sh automation',
  todo_read: 'checklist tasks plan progress remaining steps what is left next',
  todo_write: 'checklist tasks plan progress subtasks steps track mark done pending multi-step',
  toolchain_request:
    'compiler interpreter rust rustc cargo go golang gcc clang java jdk maven ruby php python node command not found missing install sdk runtime version',
  tools_describe: 'parameters arguments schema usage of a tool how to call',
  tools_search: 'which tool capability discover available tools',
  web_fetch: 'url page article documentation read markdown download html pdf website link open',
  web_scrape: 'scrape crawl extract prices table values css selectors html data from page parse website',
  web_screenshot: 'screenshot picture image visual regression render browser capture page look appearance',
  web_search: 'google internet look up online find answers news documentation results duckduckgo bing',
  workspace_find_references: 'usages callers where is used calls of function references who calls symbol',
  workspace_search_symbol: 'go to definition declaration jump class function where is defined symbol by name navigate',
  workspace_structure: 'tree overview project layout folders hierarchy directory structure repository map',
};
