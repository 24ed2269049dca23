/** The code of one tool of a plugin, as it goes from the pinned plugin to where it runs: plain data. */

export interface PluginCode {
  /** In an isolate of its own, or in a compartment of a realm that the plugins of a session share. */
  readonly isolation: 'isolate' | 'compartment';
  /** Texts of the plugin's modules by path, relative to its folder. */
  readonly modules: Readonly<Record<string, string>>;
  readonly module: string;
  /** Name of the function in it. */
  readonly export: string;
  /** JSON Schemas, whole. */
  readonly input: object;
  readonly output: object;
}
