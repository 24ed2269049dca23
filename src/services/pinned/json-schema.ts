/**
 * JSON Schemas of plugins: the subset that every model provider accepts, without references. The gateway checks inputs without patterns,
 * which could take forever; the plugin host checks the complete schema with a time limit.
 */
import * as z from 'zod';

const text = (max: number) => z.string().max(max);
const size = z.int().min(0).max(1_000_000_000);
const plain = z.union([text(4096), z.number(), z.boolean(), z.null()]);
/**
 * Names of parameters. Excludes properties that every JavaScript object inherits: an input without such a parameter would seem to have it.
 */
const propertyName = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_]{0,63}$/, 'names are letters, digits and _, 64 at most')
  .refine((it) => !(it in Object.prototype), 'is a name that every object of JavaScript has');

const pattern = text(512).superRefine((value, context) => {
  try {
    new RegExp(value, 'u');
  } catch (error) {
    context.addIssue({ code: 'custom', message: (error as Error).message });
  }
});

const described = {
  title: text(128).optional(),
  description: text(2048).optional(),
};

/** The keywords that hold no schemas. */
const keywords = z.strictObject({
  ...described,
  type: z.enum(['string', 'number', 'integer', 'boolean', 'null', 'array', 'object']).optional(),
  enum: z.array(plain).min(1).max(256).optional(),
  const: plain.optional(),
  default: z.unknown().optional(),
  minLength: size.optional(),
  maxLength: size.optional(),
  pattern: pattern.optional(),
  format: z.enum(['date-time', 'date', 'time', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid']).optional(),
  minimum: z.number().optional(),
  maximum: z.number().optional(),
  exclusiveMinimum: z.number().optional(),
  exclusiveMaximum: z.number().optional(),
  multipleOf: z.number().positive().optional(),
  minItems: size.optional(),
  maxItems: size.optional(),
  required: z.array(propertyName).max(256).optional(),
});

export interface JsonSchema extends Readonly<z.output<typeof keywords>> {
  readonly items?: JsonSchema | undefined;
  readonly properties?: Readonly<Record<string, JsonSchema>> | undefined;
  readonly additionalProperties?: JsonSchema | boolean | undefined;
  readonly anyOf?: JsonSchema[] | undefined;
}

/** The schema of an object with a fixed set of properties. */
export interface ObjectSchema extends JsonSchema {
  readonly type: 'object';
  readonly properties: Readonly<Record<string, JsonSchema>>;
  readonly additionalProperties: false;
}

export const jsonSchema: z.ZodType<JsonSchema> = keywords.extend({
  get items() {
    return jsonSchema.optional();
  },
  get properties() {
    return z.record(propertyName, jsonSchema).optional();
  },
  get additionalProperties() {
    return z.union([z.boolean(), jsonSchema]).optional();
  },
  get anyOf() {
    return z.array(jsonSchema).min(1).max(16).optional();
  },
});

/** Input or output of a tool: an object with known properties. */
export const objectSchema = z
  .strictObject({
    ...described,
    type: z.literal('object'),
    properties: z.record(propertyName, jsonSchema).default({}),
    required: z.array(propertyName).max(256).optional(),
    additionalProperties: z.literal(false).default(false),
  })
  .superRefine(({ properties, required = [] }, context) => {
    for (const [at, name] of required.entries())
      if (!Object.hasOwn(properties, name))
        context.addIssue({ code: 'custom', path: ['required', at], message: `there is no parameter ${name}` });
  });

/** The schema as a zod schema without patterns, so that checking takes linear time. */
export function toZod({ properties, required = [] }: ObjectSchema): z.ZodObject {
  const members = Object.entries(properties).map(([name, schema]) => {
    const member = toZodSchema(schema);
    const described = schema.description === undefined ? member : member.describe(schema.description);
    return [name, required.includes(name) ? described : described.optional()] as const;
  });
  return z.strictObject(Object.fromEntries(members));
}

/** One value's schema as a zod schema without patterns. */
export const toZodSchema = (schema: JsonSchema): z.ZodType =>
  z.fromJSONSchema(withoutPatterns(schema) as z.core.JSONSchema.JSONSchema);

function withoutPatterns({ pattern: _, items, properties, additionalProperties, anyOf, ...rest }: JsonSchema): object {
  return {
    ...rest,
    items: items && withoutPatterns(items),
    properties:
      properties && Object.fromEntries(Object.entries(properties).map(([name, it]) => [name, withoutPatterns(it)])),
    additionalProperties:
      typeof additionalProperties === 'object' ? withoutPatterns(additionalProperties) : additionalProperties,
    anyOf: anyOf?.map(withoutPatterns),
  };
}

/** Number of schemas and enum values within a schema, including itself. */
export function schemasIn(schema: JsonSchema): number {
  const { items, properties = {}, additionalProperties, anyOf = [], enum: values = [] } = schema;
  const below = [...(items ? [items] : []), ...Object.values(properties), ...anyOf];
  if (typeof additionalProperties === 'object') below.push(additionalProperties);
  return below.reduce((sum, it) => sum + schemasIn(it), 1 + values.length);
}
