/** A Kubernetes object as it is sent: the fields that every kind has, and the rest unread. */
export interface KubeObject {
  apiVersion: string
  kind: string
  metadata: Metadata
  [field: string]: unknown
}

export interface Metadata {
  name: string
  namespace?: string
  uid?: string
  resourceVersion?: string
  generateName?: string
  creationTimestamp?: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
  [field: string]: unknown
}

/** Returns a plain JSON object, or undefined; for fields that have not been checked. */
export function asRecord(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined
}

/** Returns the value at a dotted path such as `status.phase`. */
export function fieldAt(object: unknown, path: string): unknown {
  let value: unknown = object
  for (const key of path.split('.')) value = asRecord(value)?.[key]
  return value
}
