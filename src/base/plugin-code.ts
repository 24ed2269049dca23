/** The code of one tool of a plugin, passed as plain data from the pinned plugin to its host. */

export interface PluginCode {
  /** An isolate of its own, or a compartment of a realm that a session's plugins share. */
  readonly isolation: 'isolate' | 'compartment';
  /** Sources of the plugin's modules by path, relative to its folder. */
  readonly modules: Readonly<Record<string, string>>;
  readonly module: string;
  /** Name of the exported function in that module. */
  readonly export: string;
  /** Complete JSON Schemas. */
  readonly input: object;
  readonly output: object;
}
