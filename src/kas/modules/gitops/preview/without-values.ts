import type { Field } from '../../../../proto/gen/gitops_drift_pb.ts'
import type { PreviewedObject } from '../../../../proto/gen/gitops_preview_pb.ts'
import type { Preview } from './preview.ts'

/**
 * Returns a preview without values of fields, and without texts of the API server, which print live values. Counts, names
 * and paths stay, and what agentk itself says of an object that waits or stays.
 */
export function withoutValues({ source, objects, end }: Preview): Preview {
  return { source, objects: objects.map(objectWithoutValues), end }
}

function objectWithoutValues(object: PreviewedObject): PreviewedObject {
  const { action, unverified, field, ignored, text } = object
  const isOfServer = unverified || !(action === 'waits' || action === 'stays')
  return {
    ...object,
    field: field.map(fieldWithoutValues),
    ignored: ignored.map(fieldWithoutValues),
    text: isOfServer ? '' : text,
  }
}

/** Item of a set in a path: `[="x"]`, perhaps cut. It is a value. */
const setItem = /\[=(?:"(?:[^"\\]|\\.)*(?:"|\\?$)|[^\]"]*)(?:\]|…?$)/g

function fieldWithoutValues({ before: _, after: __, ...field }: Field): Field {
  return { ...field, path: field.path.replaceAll(setItem, '[=…]') }
}
