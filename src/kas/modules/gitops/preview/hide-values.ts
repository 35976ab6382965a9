import type { Field } from '../../../../proto/gen/gitops_drift_pb.ts'
import type { PreviewedObject } from '../../../../proto/gen/gitops_preview_pb.ts'
import type { Preview } from './preview.ts'

/**
 * Returns a preview without values of fields, and without texts of the API server, which print live values. Counts, names
 * and paths stay, and what agentk itself says of an object that waits or stays.
 */
export function hideValues({ source, objects, end }: Preview): Preview {
  return { source, objects: objects.map(objectHidden), end }
}

function objectHidden(object: PreviewedObject): PreviewedObject {
  const { action, unverified, field, ignored, text } = object
  const isOfServer = unverified || !(action === 'waits' || action === 'stays')
  return {
    ...object,
    field: field.map(fieldHidden),
    ignored: ignored.map(fieldHidden),
    text: isOfServer ? '' : text,
  }
}

function fieldHidden({ before: _, after: __, ...field }: Field): Field {
  return field
}
