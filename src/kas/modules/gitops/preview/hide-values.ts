import type { Field } from '../../../../proto/gen/gitops_drift_pb.ts'
import type { PreviewedObject } from '../../../../proto/gen/gitops_preview_pb.ts'
import type { Preview } from './preview.ts'

/** Actions whose texts are agentk's own words: these have no value of a field. */
const inOwnWords: ReadonlySet<string> = new Set([
  'created',
  'changed',
  'adopted',
  'recreated',
  'deleted',
  'waits',
  'stays',
  'drifted',
])

/**
 * Returns a preview without values of fields, and without reasons of refusals: texts of the API server print live values.
 * Counts, names and paths stay, and what agentk itself says of an object.
 */
export function hideValues({ source, objects, end }: Preview): Preview {
  return { source, objects: objects.map(objectHidden), end }
}

function objectHidden(object: PreviewedObject): PreviewedObject {
  const { action, field, ignored, text } = object
  return {
    ...object,
    field: field.map(fieldHidden),
    ignored: ignored.map(fieldHidden),
    text: inOwnWords.has(action) ? text : '',
  }
}

/** Item of a set in a path: `[="x"]`, perhaps cut. It is a value. */
const setItem = /\[=(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^\]"]*)(?:\]|…?$)/g

function fieldHidden({ before: _, after: __, ...field }: Field): Field {
  return { ...field, path: field.path.replaceAll(setItem, '[=…]') }
}
