import { toJson } from '@bufbuild/protobuf'
import { escapedJson } from '../../../../lib/printable.ts'
import {
  PreviewEndSchema,
  type PreviewedObject,
  PreviewedObjectSchema,
} from '../../../../proto/gen/gitops_preview_pb.ts'
import { exitCode } from './exit-code.ts'
import type { Preview } from './preview.ts'

const json = { alwaysEmitImplicit: true, useProtoFieldName: true } as const

/**
 * Returns a preview as lines of JSON: one with `"type":"object"` for each object, then one with `"type":"end"`. Keys are
 * those of the messages of agentk; the end also has `source` and `exit_code`.
 */
export function ndjsonFormat(preview: Preview): string {
  const { source, objects, end } = preview
  const facts = { source, ...(toJson(PreviewEndSchema, end, json) as object), exit_code: exitCode(preview) }
  return [...objects.map(objectLine), line({ type: 'end', ...facts })].join('')
}

/** Returns the line of an object, with its end. */
export function objectLine(object: PreviewedObject): string {
  return line({ type: 'object', ...(toJson(PreviewedObjectSchema, object, json) as object) })
}

function line(value: object): string {
  return `${escapedJson(JSON.stringify(value))}\n`
}
