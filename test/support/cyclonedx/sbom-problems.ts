import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as z from 'zod'

type Schema = Record<string, unknown>

const read = (name: string) => JSON.parse(readFileSync(join(import.meta.dirname, name), 'utf8')) as Schema

/**
 * Problems of a list by the schema of CycloneDX 1.5; signatures are not checked.
 *
 * @returns one line each, none for a valid list
 */
export function sbomProblems(sbom: unknown): string[] {
  const { error } = schema().safeParse(sbom)
  return (error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`)
}

function schema(): z.ZodType {
  const { definitions, ...bom } = read('bom-1.5.schema.json')
  const { $id: _, $schema: __, ...spdx } = read('spdx.schema.json')
  const all = { ...bom, definitions: { ...(definitions as Schema), spdx, signature: { type: 'object' } } }
  return z.fromJSONSchema(adapted(all) as Parameters<typeof z.fromJSONSchema>[0])
}

/**
 * Adapts the schema for zod: references into other files become definitions of this one, and `required` moves to its
 * properties.
 */
function adapted(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(adapted)
  if (typeof part !== 'object' || part === null) return part
  const { $ref, required, properties, definitions, ...rest } = part as Schema
  const known = eachAdapted(rest)
  if (typeof $ref === 'string') return { ...known, $ref: referenceTo($ref) }
  if (definitions) Object.assign(known, { definitions: eachAdapted(definitions as Schema) })
  if (!required && !properties) return known
  const named = Array.isArray(required) ? Object.fromEntries(required.map((name: string) => [name, {}])) : {}
  const all = { ...named, ...eachAdapted((properties ?? {}) as Schema) }
  return { type: 'object', ...known, ...(required ? { required } : {}), properties: all }
}

function eachAdapted(parts: Schema): Schema {
  return Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, adapted(part)]))
}

function referenceTo(name: string): string {
  if (name.startsWith('spdx.')) return '#/definitions/spdx'
  return name.startsWith('jsf-') ? '#/definitions/signature' : name
}
