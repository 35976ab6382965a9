import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import * as z from 'zod'
import { commandsOf, kindOf, nameOfRef, type OutputSchema, type Schema } from '../../dev/output/output-schema.ts'

/** Output of commands with `-o json` and `-o yaml`, checked by the schema in doc/reference. */

const file = join(import.meta.dirname, '../../doc/reference/output.schema.json')
const schema = JSON.parse(readFileSync(file, 'utf8')) as OutputSchema
const { $schema, definitions } = schema

/** Names of the kinds, each with the commands that print it. */
export const outputKinds: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries(definitions).flatMap(([name, one]) => (kindOf(one) ? [[name, commandsOf(one)]] : [])),
)

const checks = new Map<string, z.ZodType>()

/** @returns the parsed output. @throws Error: it is of no kind, has a key that the kind has not, or lacks one */
export function checkedOutput(text: string, format: 'json' | 'yaml' = 'json'): Record<string, unknown> {
  const value = (format === 'yaml' ? parse(text) : JSON.parse(text)) as Record<string, unknown>
  const name = String(value.kind)
  if (!outputKinds.has(name)) throw new Error(`no kind ${name} is in doc/reference/output.schema.json`)
  const made = { $schema, definitions, $ref: `#/definitions/${name}` }
  const check = checks.get(name) ?? z.fromJSONSchema(made as Parameters<typeof z.fromJSONSchema>[0])
  checks.set(name, check)
  const { error } = check.safeParse(value)
  if (error) throw new Error(`${name}: ${z.prettifyError(error)}`)
  return value
}

/** All keys of the schema, as `Agent.name`. */
export const outputKeys: readonly string[] = Object.entries(definitions).flatMap(([name, { properties = {} }]) =>
  Object.keys(properties).map((key) => `${name}.${key}`),
)

/** Returns the keys that occur in an output. */
export function keysIn(value: Record<string, unknown>): Set<string> {
  const found = new Set<string>()
  addKeys(value, { $ref: `#/definitions/${String(value.kind)}` }, found)
  return found
}

function addKeys(value: unknown, of: Schema, found: Set<string>): void {
  const name = nameOfRef(of)
  const { properties = {}, items, anyOf = [], additionalProperties } = definitions[name] ?? of
  for (const one of anyOf) addKeys(value, one, found)
  if (items && Array.isArray(value)) for (const one of value) addKeys(one, items, found)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return
  for (const [key, one] of Object.entries(value)) {
    const property = properties[key]
    if (property) {
      found.add(`${name}.${key}`)
      addKeys(one, property, found)
    } else if (typeof additionalProperties === 'object') addKeys(one, additionalProperties, found)
  }
}
