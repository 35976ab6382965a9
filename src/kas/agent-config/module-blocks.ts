import * as z from 'zod'
import { type ConfigWarning, warningTexts } from '../../lib/config.ts'
import { KasError } from '../../lib/errors.ts'
import type { BlockSchema, FileSchema } from './module-schema.ts'
import { parseFile } from './parse-file.ts'

/** Reads the modules' parts of an agent's folder by their schemas. */

/** A file with only a module's block, beside the configuration. */
export interface FileBeside {
  /** key of the block */
  readonly key: string
  /** name for errors */
  readonly file: string
  readonly bytes: Uint8Array
}

/** A module's block with its value in a file; undefined: it is absent. */
export interface BlockValue {
  readonly block: BlockSchema
  readonly value: unknown
}

/**
 * Returns a block's value.
 *
 * @throws KasError CONFIGURATION_INVALID, also if both files have it
 */
export function blockValue(
  { key, schema }: BlockSchema,
  {
    file,
    tree,
    beside,
  }: {
    readonly file: string
    readonly tree: Readonly<Record<string, unknown>>
    readonly beside: readonly FileBeside[]
  },
): unknown {
  const own = beside.find((one) => one.key === key)
  if (!own) return tree[key]
  const alone = z.object({ [key]: schema.optional() }, { error: 'a block of keys' })
  const value = parseFile(own.file, own.bytes, alone, {}).value[key]
  if (tree[key] === undefined) return value
  throw new KasError({
    code: 'CONFIGURATION_INVALID',
    detail: `${key} stands in ${file} and in ${own.file}: allowed in one`,
  })
}

/** @throws KasError CONFIGURATION_INVALID */
export function refuseUnknown(file: string, blocks: readonly BlockSchema[], warnings: readonly ConfigWarning[]): void {
  const strict = blocks.filter(({ refusesUnknown }) => refusesUnknown)
  const unknown = warnings.filter(
    ({ kind, key }) => kind === 'unknown' && strict.some((block) => key.startsWith(`${block.key}.`)),
  )
  if (unknown.length === 0) return
  const detail = warningTexts(unknown)
    .map((each) => `${file}: ${each}`)
    .join('; ')
  throw new KasError({ code: 'CONFIGURATION_INVALID', detail })
}

/** @throws KasError CONFIGURATION_INVALID */
export function jsonOf(file: string, read: readonly BlockValue[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  for (const { block, value = block.whenAbsent } of read) {
    if (value === undefined) continue
    const { key, maxBytes } = block
    const json = JSON.stringify(value)
    if (Buffer.byteLength(json) > maxBytes) {
      const detail = `${file}: ${key}: more than ${maxBytes} bytes as JSON`
      throw new KasError({ code: 'CONFIGURATION_INVALID', detail })
    }
    found.set(key, json)
  }
  return found
}

/** Blocks for stock agents, by key. */
export function forStock(read: readonly BlockValue[]): (readonly [key: string, json: object])[] {
  return read.flatMap(({ block, value }) => {
    const json = value === undefined ? undefined : block.forStock?.(value)
    return json ? [[block.key, json] as const] : []
  })
}

/**
 * Reads a module's own file; an empty one is a block without keys.
 *
 * @param file - name for errors
 * @returns its content as JSON
 * @throws KasError CONFIGURATION_INVALID with every problem and its line; an unknown key is one
 */
export function parseModuleFile(
  { schema, refused, maxJsonBytes }: FileSchema,
  file: string,
  bytes: Uint8Array,
): string {
  const json = JSON.stringify(parseFile(file, bytes, schema, refused).raw)
  if (Buffer.byteLength(json) > maxJsonBytes) {
    throw new KasError({ code: 'CONFIGURATION_INVALID', detail: `${file}: more than ${maxJsonBytes} bytes as JSON` })
  }
  return json
}
