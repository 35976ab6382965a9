import { join } from 'node:path'
import { createGenerator } from 'ts-json-schema-generator'

/** One JSON schema of all kinds that commands print with `-o json`, made from the interfaces in `*output-kinds.ts`. */

/** JSON schema of a type, with the keywords that the interfaces need. */
export interface Schema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly items?: Schema
  readonly format?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean | Schema
  readonly description?: string
  /** for a kind, the commands that print it, separated by commas */
  readonly command?: string
}

export interface OutputSchema {
  readonly $schema: string
  /** references to all kinds */
  readonly anyOf: readonly Schema[]
  /** kinds, and the types in them, by name */
  readonly definitions: Readonly<Record<string, Schema>>
}

const startOfRef = '#/definitions/'

/** Returns the commands that print a kind. */
export function commandsOf({ command = '' }: Schema): string[] {
  return command.split(/\s*,\s*/).filter(Boolean)
}

export function nameOfRef({ $ref = '' }: Schema): string {
  return $ref.slice(startOfRef.length)
}

/** Returns the name of the kind that a type is; undefined: it is a part of others. */
export function kindOf(schema: Schema | undefined): string | undefined {
  const { apiVersion, kind } = schema?.properties ?? {}
  return apiVersion?.const === 'kas/v1' ? String(kind?.const) : undefined
}

/**
 * Makes the schema. Kinds are closed: a key that the interface does not have is a fault.
 *
 * @param root - folder of the project
 * @throws Error if a kind names no command, or a key has no comment
 */
export function outputSchema(root: string): OutputSchema {
  const made = createGenerator({
    path: join(root, 'src/kas/**/*output-kinds.ts'),
    tsconfig: join(root, 'tsconfig.json'),
    type: '*',
    additionalProperties: false,
    encodeRefs: false,
    skipTypeCheck: true,
    sortProps: false,
    extraTags: ['command'],
  }).createSchema('*')
  const all = made.definitions as Readonly<Record<string, Schema>>
  const names = Object.keys(all)
    .filter((name) => !name.startsWith('OutputKind'))
    .sort()
  const definitions = Object.fromEntries(names.map((name) => [name, all[name] ?? {}]))
  const faults = names.flatMap((name) => faultsOf(name, definitions[name] ?? {}))
  if (faults.length > 0) throw new Error(faults.join('\n'))
  const kinds = names.filter((name) => kindOf(definitions[name]) !== undefined)
  const used = namesIn(kinds, definitions)
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    anyOf: kinds.map((name) => ({ $ref: `${startOfRef}${name}` })),
    definitions: Object.fromEntries(Object.entries(definitions).filter(([name]) => used.has(name))),
  }
}

/** Returns the names of the types in kinds, without types from which they only inherit. */
function namesIn(kinds: readonly string[], definitions: OutputSchema['definitions']): ReadonlySet<string> {
  const found = new Set(kinds)
  for (const name of found) {
    const text = JSON.stringify(definitions[name])
    for (const [, other = ''] of text.matchAll(/"\$ref":"#\/definitions\/([^"]+)"/g)) found.add(other)
  }
  return found
}

function faultsOf(name: string, schema: Schema): string[] {
  const kind = kindOf(schema)
  const faults: string[] = []
  if (!schema.description) faults.push(`${name}: no comment`)
  if (kind !== undefined && kind !== name) faults.push(`${name}: its kind is ${kind}`)
  if (kind !== undefined && !schema.command) faults.push(`${name}: no @command says what prints it`)
  if (schema.properties && schema.additionalProperties !== false) faults.push(`${name}: it is not closed`)
  for (const [key, { description }] of Object.entries(schema.properties ?? {})) {
    if (!description) faults.push(`${name}.${key}: no comment`)
  }
  return faults
}
