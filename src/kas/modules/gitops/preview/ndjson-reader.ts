import { fromJson, type JsonObject } from '@bufbuild/protobuf'
import {
  type PreviewEnd,
  PreviewEndSchema,
  type PreviewedObject,
  PreviewedObjectSchema,
} from '../../../../proto/gen/gitops_preview_pb.ts'
import type { Preview } from './preview.ts'

const options = { ignoreUnknownFields: true } as const

/**
 * Reads what `ndjsonFormat` writes, also that of a newer kas. Lines of an unknown type are left out.
 *
 * @throws Error that names the number of the wrong line, and no value of it
 */
export function readNdjson(text: string): Preview {
  const objects: PreviewedObject[] = []
  let [source, end]: [string, PreviewEnd | undefined] = ['', undefined]
  for (const [i, line] of text.split('\n').entries()) {
    if (line === '') continue
    if (end) throw new Error(`line ${i + 1} comes after the end`)
    const { type, ...rest } = objectIn(line, i)
    try {
      if (type === 'object') objects.push(fromJson(PreviewedObjectSchema, rest, options))
      if (type !== 'end') continue
      const { source: id, ...facts } = rest
      source = typeof id === 'string' ? id : ''
      end = fromJson(PreviewEndSchema, facts, options)
    } catch {
      throw new Error(`line ${i + 1} is no ${type} of a preview`) // protobuf's own text has the value
    }
  }
  if (!end) throw new Error('the preview has no end')
  return { source, objects, end }
}

/** @throws Error */
function objectIn(line: string, i: number): JsonObject {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    throw new Error(`line ${i + 1} is no JSON`) // V8's own text has a part of the line
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Error(`line ${i + 1} is no object of JSON`)
  }
  return value as JsonObject
}
